//! A directory is swapped for a symlink, back and forth, while every operation goes through it: no operation reads or
//! writes outside.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use stead_core::search::GrepQuery;
use stead_core::store::Parents;
use stead_core::vfs::{
    ByteRange, GlobQuery, LineRange, ListPage, OpenOptions, Overwrite, RemoveOptions, WalkQuery,
};
use stead_core::{Occurrences, Vfs};

use crate::test_stores::{Kind, assert_verified, is_long_run, vfs_at};

/// The content of every file outside, and of none inside.
const SECRET: &str = "outside-secret";
/// The name of a file that is only outside.
const ONLY_OUTSIDE: &str = "only-outside";

/// One operation through the raced directory. Returns what it saw.
type Call = (&'static str, fn(&Vfs, u64) -> stead_core::Result<String>);

fn calls() -> Vec<Call> {
    vec![
        ("read", |vfs, _| Ok(String::from_utf8_lossy(&vfs.read("/w/d/f")?.bytes).into_owned())),
        ("read outside's", |vfs, _| {
            Ok(String::from_utf8_lossy(&vfs.read("/w/d/only-outside")?.bytes).into_owned())
        }),
        ("read_range", |vfs, _| {
            Ok(String::from_utf8_lossy(&vfs.read_range("/w/d/f", ByteRange { offset: 0, length: 99 })?.bytes)
                .into_owned())
        }),
        ("read_lines", |vfs, _| Ok(vfs.read_lines("/w/d/sub/g", LineRange::default())?.text)),
        ("stat", |vfs, _| Ok(format!("{} bytes", vfs.stat("/w/d/f")?.size))),
        ("list", |vfs, _| Ok(format!("{:?}", vfs.list("/w/d", &ListPage::all())?.entries))),
        ("walk", |vfs, _| Ok(format!("{:?}", vfs.walk("/w", &WalkQuery::default())?))),
        ("glob", |vfs, _| Ok(format!("{:?}", vfs.glob(&GlobQuery::new("**/only*"), "/w/d")?.entries))),
        ("grep", |vfs, _| Ok(format!("{:?}", vfs.grep(&GrepQuery::new("secret"), "/w/d")?.files))),
        ("write", |vfs, n| vfs.write(format!("/w/d/new{}", n % 7), "inside").map(|_| String::new())),
        ("overwrite", |vfs, _| vfs.write("/w/d/f", "inside f\n").map(|_| String::new())),
        ("append", |vfs, _| vfs.append("/w/d/log", "inside\n").map(|_| String::new())),
        ("edit", |vfs, _| vfs.edit("/w/d/sub/g", "\n", "!\n", Occurrences::One).map(|_| String::new())),
        ("mkdir", |vfs, n| {
            vfs.mkdir(format!("/w/d/made{}/x", n % 5), Parents::Create).map(|_| String::new())
        }),
        ("symlink", |vfs, n| vfs.symlink(format!("/w/d/link{}", n % 5), "f").map(|_| String::new())),
        ("remove", |vfs, n| {
            let force = RemoveOptions { force: true, ..RemoveOptions::default() };
            vfs.remove_file(format!("/w/d/link{}", n % 5), force).map(|_| String::new())
        }),
        ("remove outside's", |vfs, _| {
            vfs.remove_file("/w/d/only-outside", RemoveOptions::default()).map(|_| String::new())
        }),
        ("remove tree", |vfs, n| {
            let recursive = RemoveOptions { recursive: true, force: true, if_match: None };
            vfs.remove_directory(format!("/w/d/made{}", n % 5), recursive).map(|_| String::new())
        }),
        ("rename in", |vfs, n| {
            vfs.rename(format!("/w/d/new{}", n % 7), format!("/w/d/renamed{}", n % 7), Overwrite::Replace)
                .map(|_| String::new())
        }),
        ("rename out", |vfs, _| {
            vfs.rename("/w/d/only-outside", "/w/stolen", Overwrite::Refuse).map(|_| String::new())
        }),
        ("copy out", |vfs, n| {
            vfs.copy("/w/d/f", format!("/w/copied{}", n % 3), Overwrite::Replace).map(|_| String::new())
        }),
        ("copy tree", |vfs, n| {
            let copied =
                vfs.copy("/w/d/sub", format!("/w/tree{n}"), Overwrite::Refuse).map(|_| String::new());
            let recursive = RemoveOptions { recursive: true, force: true, if_match: None };
            vfs.remove_directory(format!("/w/tree{n}"), recursive)?;
            copied
        }),
        ("set_attributes", |vfs, _| vfs.set_attributes("/w/d/f", Some(0o640), None).map(|_| String::new())),
        ("open and write", |vfs, _| {
            let file = vfs.open("/w/d/f", OpenOptions::read_write())?;
            let mut buffer = [0; 64];
            let count = file.read_at(0, &mut buffer)?;
            file.write_at(0, b"inside")?;
            file.close()?;
            Ok(String::from_utf8_lossy(&buffer[..count]).into_owned())
        }),
    ]
}

/// Everything outside, so that any change shows.
fn snapshot_of_outside(outside: &Path) -> Vec<(String, Vec<u8>, u32)> {
    use std::os::unix::fs::PermissionsExt;
    let mut entries = Vec::new();
    let mut directories = vec![outside.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let meta = std::fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            if meta.is_dir() {
                directories.push(path.clone());
            }
            entries.push((path.display().to_string(), content, meta.permissions().mode()));
        }
    }
    entries.sort();
    entries
}

#[test]
fn nothing_is_read_or_written_outside_while_a_directory_is_swapped_for_a_symlink() {
    let call_limit: u64 = if is_long_run() { 1_000_000 } else { 50_000 };
    let directory = tempfile::tempdir().unwrap();
    let (root, outside) = (directory.path().join("root"), directory.path().join("outside"));
    let store = Kind::Physical.open(directory.path());
    for (base, word) in [(root.join("d"), "inside"), (outside.clone(), SECRET)] {
        std::fs::create_dir_all(base.join("sub")).unwrap();
        std::fs::write(base.join("f"), format!("{word} f\n")).unwrap();
        std::fs::write(base.join("sub/g"), format!("{word} g\n")).unwrap();
    }
    std::fs::write(outside.join(ONLY_OUTSIDE), SECRET).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
    let before = snapshot_of_outside(&outside);

    let (done, swaps, started, failed) =
        (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let calls = calls();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (d, link) = (root.join("d"), root.join("link"));
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &d, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                swaps.fetch_add(1, Ordering::Relaxed);
                // Both states have to last long enough for an operation to meet them, and to meet a swap in its middle.
                if swaps.load(Ordering::Relaxed).is_multiple_of(8) {
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
        });
        let callers: Vec<_> = (0..4_u64)
            .map(|caller| {
                let vfs = vfs_at("/w", Arc::clone(&store), "raced");
                let (calls, started, failed, outside) = (&calls, &started, &failed, &outside);
                scope.spawn(move || {
                    let mut n = caller;
                    while started.fetch_add(1, Ordering::Relaxed) < call_limit {
                        n += 4;
                        let (name, call) = calls[usize::try_from(n % calls.len() as u64).unwrap()];
                        match call(&vfs, n) {
                            Ok(output) => {
                                let leaked = output.contains(SECRET)
                                    || output.contains(ONLY_OUTSIDE)
                                    || output.contains("17 bytes");
                                assert!(!leaked, "`{name}` read something outside: {output}");
                            }
                            Err(error) => {
                                failed.fetch_add(1, Ordering::Relaxed);
                                let message = error.to_string();
                                assert!(
                                    !message.contains(SECRET) && !message.contains(directory_name(outside)),
                                    "{message}"
                                );
                            }
                        }
                    }
                })
            })
            .collect();
        let results: Vec<_> = callers.into_iter().map(|caller| caller.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok), "a caller read something outside");
    });
    assert_eq!(snapshot_of_outside(&outside), before, "a call wrote something outside the Store");
    let (swaps, failed) = (swaps.into_inner(), failed.into_inner());
    assert!(swaps > call_limit / 100, "too few swaps: {swaps}");
    assert!(
        failed > call_limit / 100 && failed < call_limit,
        "only one side of the race was seen: {failed} of {call_limit} refused"
    );
    println!("{call_limit} raced calls, {swaps} swaps, {failed} refused, 0 escapes");
    assert_verified(&*store);
}

fn directory_name(path: &Path) -> &str {
    path.parent().unwrap().to_str().unwrap()
}
