//! The canaries through a mounted file system, now and in the past.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::fixture::{Caller, Fixture, NAME, PATHS, canary_paths, check_on_mount};
use crate::mounted::Mounted;

fn mount(fixture: &Fixture, options: &[&str]) -> Mounted {
    let args = [&["mount", fixture.outside.path().to_str().unwrap()], options].concat();
    Mounted::start(fixture.command(&args))
}

/// Checks everything that a program can learn of a path by reading.
fn check_path(path: &Path, question: &str) {
    let attributes = format!(
        "{:?} {:?} {:?}",
        fs::symlink_metadata(path).map(|meta| meta.size()),
        fs::metadata(path).map(|meta| meta.size()),
        fs::read_link(path)
    );
    check_on_mount(question, attributes.as_bytes());
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(path) {
        let _ = file.read_to_end(&mut bytes);
    }
    check_on_mount(question, &bytes);
    let names = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.file_name());
    check_on_mount(question, format!("{:?}", names.collect::<Vec<_>>()).as_bytes());
}

fn check_tree(path: &Path) {
    check_path(path, &path.display().to_string());
    if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir()) {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            check_tree(&entry.path());
        }
    }
}

#[test]
fn a_mount_shows_nothing_of_what_is_withheld() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("SKIPPED: this host has no /dev/fuse");
        return;
    }
    let fixture = Fixture::new(Caller::Agent);
    let version = fixture.version.clone();
    for options in [&[][..], &["--at", &version], &["--at", "before"]] {
        let mounted = mount(&fixture, options);
        let root = fixture.outside.path();
        check_tree(root);
        for path in PATHS.iter().map(ToString::to_string).chain(canary_paths()) {
            check_path(&root.join(&path[1..]), &path);
        }
        drop(mounted);
    }
    // What a program learns of a file that it may only write is the same as for a new file.
    let _mounted = mount(&fixture, &[]);
    let root = fixture.outside.path();
    // The inode number doesn't reveal the file's age: numbers follow the order in which files are opened.
    let inode = |name: String| {
        let file = OpenOptions::new().append(true).create(true).open(root.join("drop").join(name)).unwrap();
        file.metadata().unwrap().ino()
    };
    let inodes = ["new-1", &format!("{NAME}.txt"), "new-2"].map(|name| inode(name.to_owned()));
    assert!(inodes.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{inodes:?}");
    for path in canary_paths().iter().filter(|path| path.starts_with("/home/wo") || path.starts_with("/drop"))
    {
        let host_path = root.join(&path[1..]);
        let mut file = OpenOptions::new().append(true).create(true).open(&host_path).unwrap();
        file.write_all(b"x").unwrap();
        assert_eq!(file.metadata().unwrap().size(), 0, "{path}");
        fs::remove_file(&host_path).unwrap();
        assert_eq!(file.metadata().unwrap().size(), 0, "the size of {path} after it was removed");
        check_on_mount(
            path,
            format!("{:?}", rustix::fs::statvfs(root.join("drop")).map(|space| space.f_bfree)).as_bytes(),
        );
    }
}
