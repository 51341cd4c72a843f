//! Awkward trees in a process that may have 256 files open, and in a process that isn't root: nothing hangs, no limit
//! is exceeded, and no answer shows a path of the host.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use stead_core::search::GrepQuery;
use stead_core::vfs::{LineRange, ListPage, WalkQuery};
use stead_core::{Error, ErrorKind, Store, Vfs};

use crate::child::{Task, lines_of, send_line};
use crate::test_stores::{Kind, assert_verified, vfs_at, vfs_for};

const FILES: usize = 100_000;

/// Fills a directory with everything that file tools often handle wrongly.
fn create_awkward_tree(root: &Path) {
    let many = root.join("many");
    std::fs::create_dir_all(&many).unwrap();
    for n in 0..FILES {
        std::fs::File::create(many.join(format!("f{n:06}"))).unwrap();
    }
    let deep = (0..60).fold(root.to_owned(), |path, _| path.join("d"));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("bottom"), "needle\n").unwrap();
    mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    symlink("loop-b", root.join("loop-a")).unwrap();
    symlink("loop-a", root.join("loop-b")).unwrap();
    std::fs::write(root.join("growing"), "line\n").unwrap();
    std::fs::write(root.join("evil\n\u{1b}[2J\x07name"), "").unwrap();
}

/// The kind of a failure. Fails if its message shows a path of the host or a control character.
fn error_kind(result: stead_core::Result<impl Sized>) -> ErrorKind {
    let error: Error = result.err().expect("the call has to fail");
    let message = error.to_string();
    assert!(
        !message.contains("root") && !message.contains("tmp"),
        "the message contains a host path: {message}"
    );
    assert!(!message.chars().any(char::is_control), "{message:?}");
    error.kind()
}

fn read_everything(vfs: &Vfs) {
    let first = vfs.list("/w/many", &ListPage { cursor: None, limit: 10 }).unwrap();
    assert_eq!((first.total, first.entries.len()), (FILES as u64, 10));
    assert_eq!(vfs.list("/w/many", &ListPage::all()).unwrap().entries.len(), FILES);
    let deep = format!("/w{}/bottom", "/d".repeat(60));
    assert_eq!(vfs.read(&*deep).unwrap().bytes, b"needle\n");
    let grep_result = vfs.grep(&GrepQuery::new("needle"), "/w").unwrap();
    assert_eq!(grep_result.files.iter().map(|file| &*file.path).collect::<Vec<_>>(), [&*deep]);
    let listed = vfs.list("/w", &ListPage::all()).unwrap().entries;
    let listed: Vec<_> = listed.iter().map(|entry| format!("{} {}", entry.kind, entry.name)).collect();
    assert!(listed.contains(&"fifo fifo".to_owned()), "{listed:?}");
    assert!(listed.contains(&"file evil\\u{a}\\u{1b}[2J\\u{7}name".to_owned()), "{listed:?}");
    let walked = vfs.walk("/w", &WalkQuery::default()).unwrap().entries;
    assert!(
        walked.len() > FILES
            && !walked.iter().any(|grep_result| grep_result.path.chars().any(char::is_control))
    );
    let fifo = "/w/fifo";
    assert_eq!(error_kind(vfs.read(fifo)), ErrorKind::Unsupported);
    assert_eq!(error_kind(vfs.read_lines(fifo, LineRange::default())), ErrorKind::Unsupported);
    assert_eq!(error_kind(vfs.write(fifo, "x")), ErrorKind::Unsupported);
    assert_eq!(error_kind(vfs.append(fifo, "x")), ErrorKind::Unsupported);
    assert_eq!(
        error_kind(vfs.copy(fifo, "/w/copy", stead_core::vfs::Overwrite::Refuse)),
        ErrorKind::Unsupported
    );
    assert_eq!(error_kind(vfs.read("/w/loop-a")), ErrorKind::Invalid);
    assert_eq!(error_kind(vfs.write("/w/loop-b/x", "")), ErrorKind::Invalid);
}

/// Many threads at once, each with its own files, directories and locks.
fn work_in_many_threads(store: &Arc<dyn Store>) {
    std::thread::scope(|scope| {
        for thread in 0..64 {
            let vfs = vfs_for(Arc::clone(store), "many");
            scope.spawn(move || {
                for round in 0..20 {
                    let path = format!("/new/{thread}/{round}/file");
                    vfs.write(&*path, "x").unwrap();
                    vfs.append("/shared", "line\n").unwrap();
                    assert_eq!(vfs.read(&*path).unwrap().bytes, b"x");
                    vfs.grep(&GrepQuery::new("x"), format!("/new/{thread}")).unwrap();
                }
            });
        }
    });
    let shared = vfs_for(Arc::clone(store), "many").read("/shared").unwrap();
    assert_eq!(shared.bytes.len(), 64 * 20 * 5);
}

pub(crate) fn child(task: &Task) {
    let store = task.kind.open(&task.directory);
    let vfs = vfs_at("/w", Arc::clone(&store), "limited");
    if task.number == 256 {
        read_everything(&vfs);
        // A file that grows during a read is read up to its size at the start of the read, or a little further.
        let (growing, done) = (task.directory.join("root/growing"), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut file = std::fs::OpenOptions::new().append(true).open(growing).unwrap();
                while !done.load(Ordering::Relaxed) {
                    // It grows by 32 MiB and is truncated, again and again: this isn't a test of the disk.
                    for _ in 0..(8 << 10) {
                        file.write_all(&[b'x'; 4096]).unwrap();
                    }
                    file.set_len(0).unwrap();
                }
            });
            for _ in 0..50 {
                vfs.read("/w/growing").unwrap();
                vfs.grep(&GrepQuery::new("nothing"), "/w/growing").unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        work_in_many_threads(&store);
    } else {
        assert_eq!(error_kind(vfs.read("/w/secret")), ErrorKind::Denied);
        assert_eq!(error_kind(vfs.write("/w/theirs/new", "x")), ErrorKind::Denied);
        assert_eq!(error_kind(vfs.list("/w/closed", &ListPage::all())), ErrorKind::Denied);
        vfs.write("/w/mine/file", "x").unwrap();
        vfs.write("/w/mine/file", "y").unwrap();
        assert_eq!(vfs.read("/w/mine/file").unwrap().bytes, b"y");
        work_in_many_threads(&store);
    }
    assert_verified(&*store);
    send_line("done");
}

#[test]
fn awkward_trees_are_read_within_256_open_files() {
    let directory = tempfile::tempdir().unwrap();
    create_awkward_tree(&directory.path().join("root"));
    let (mut child, output) = Task::new("limited_process", Kind::Physical, directory.path(), 256).start();
    assert_eq!(lines_of(output).collect::<Vec<_>>(), ["done"]);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_process_that_is_not_root_gets_what_the_host_allows() {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        // In this case the other tests run without root already.
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    for name in ["theirs", "closed", "mine"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::fs::write(root.join("secret"), "root's own").unwrap();
    std::fs::set_permissions(root.join("secret"), PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::set_permissions(root.join("closed"), PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::create_dir(directory.path().join("state")).unwrap();
    for path in ["", "root", "root/mine", "state"] {
        chown(directory.path().join(path), Some(65_534), Some(65_534)).unwrap();
    }
    let (mut child, output) = Task::new("limited_process", Kind::Physical, directory.path(), 65_534).start();
    assert_eq!(lines_of(output).collect::<Vec<_>>(), ["done"]);
    assert!(child.wait().unwrap().success());
    assert_eq!(std::fs::read(root.join("secret")).unwrap(), b"root's own");
}
