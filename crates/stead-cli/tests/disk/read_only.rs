//! A disk that can only be read can be read.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::small::{Disk, Kind, on_small_disk};

/// Adds a directory of the host with a history, and a snapshot `s1` of it and of the database.
fn add_directory(disk: &Disk) {
    let config = std::fs::read_to_string(disk.path("stead.toml")).unwrap();
    let more = "[stores.p]\nkind = \"physical\"\npath = \"ph\"\n[[agents.a.workspaces]]\nprefix = \"/p\"\n\
                scope = \"rw\"\nstore = \"p\"\n";
    std::fs::create_dir(disk.path("ph")).unwrap();
    std::fs::write(disk.path("stead.toml"), format!("{config}{more}")).unwrap();
    disk.done(&["write", "/p/f", "first\n"]);
    disk.done(&["snapshot", "--label", "s1"]);
    disk.done(&["write", "/p/f", "second\n"]);
}

/// What the history commands print if nothing can be written.
const PAST: [(&[&str], &str); 7] = [
    (&["log"], "/p/f"),
    (&["log", "/p"], "/p/f"),
    (&["log", "/p/f"], "/p/f"),
    (&["blame", "/p/f"], "second"),
    (&["diff", "/p", "s1"], "/p/f"),
    (&["diff", "/", "s1"], "/p/f"),
    (&["cat", "/p/f", "--at", "s1"], "first"),
];
const LOOKS: [&[&str]; 7] = [
    &["cat", "/notes/keep"],
    &["ls", "/notes"],
    &["grep", "hello", "/notes"],
    &["log", "/notes/keep"],
    &["cat", "--at", "1", "/notes/f0"],
    &["tree", "/"],
    &["audit"],
];
const CHANGES: [&[&str]; 6] = [
    &["write", "/notes/new", "x"],
    &["rm", "/notes/keep"],
    &["gc"],
    &["write", "/p/f", "x"],
    &["undo"],
    &["snapshot"],
];

#[test]
fn a_read_only_disk_is_read_and_not_changed() {
    on_small_disk("read_only::a_read_only_disk_is_read_and_not_changed", Kind::Memory, |disk| {
        disk.furnish();
        add_directory(disk);
        let remount = |how: &str| {
            let done = Command::new("mount").args(["-o", how]).arg(disk.path("")).status().unwrap();
            assert!(done.success());
        };
        let look = |what: &str| {
            for args in LOOKS {
                let (code, said) = disk.told(args);
                assert_eq!(code, 0, "{what}: {args:?}: {said}");
            }
            for (args, tells) in PAST {
                let told = disk.done(args);
                assert!(told.contains(tells), "{what}: {args:?}: {told}");
            }
            for args in CHANGES {
                let (code, said) = disk.told(args);
                assert_eq!(code, 1, "{what}: {args:?}: {said}");
                assert!(!said.contains("no history"), "{what}: {args:?}: {said}");
            }
        };
        remount("remount,ro");
        look("as it was left");
        // Like a copy of the database file alone.
        remount("remount,rw");
        for beside in ["-wal", "-shm", "-turn", "-next", "-reserve", "-version"] {
            std::fs::remove_file(disk.path(&format!(".stead/stead.db{beside}"))).unwrap();
        }
        remount("remount,ro");
        look("the file alone");
        remount("remount,rw");
        assert_eq!(disk.ends(&["write", "/notes/new", "x"]), 0);
        assert_eq!(disk.ends(&["verify"]), 0);
    });
}

/// Lets other users read everything and change nothing.
fn show(directory: &Path) {
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            show(&path);
        } else {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
    }
}

#[test]
fn whoever_may_only_read_the_files_reads_what_is_in_them() {
    let host = tempfile::tempdir().unwrap();
    let disk = Disk::at(host.path());
    disk.furnish();
    add_directory(&disk);
    show(host.path());
    let is_superuser = rustix::process::geteuid().is_root();
    if !is_superuser {
        eprintln!("SKIPPED: only the superuser can be somebody else");
        return;
    }
    std::fs::copy(env!("CARGO_BIN_EXE_stead"), disk.path("stead")).unwrap();
    let other = |args: &[&str]| {
        let mut command = Command::new(disk.path("stead"));
        command.args(args).current_dir(host.path()).env("HOME", "/nonexistent").uid(65_534).gid(65_534);
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    for args in LOOKS {
        let (code, said) = other(args);
        assert_eq!(code, Some(0), "{args:?}: {said}");
    }
    for (args, tells) in PAST {
        let (code, told) = other(args);
        assert!(code == Some(0) && told.contains(tells), "{args:?}: {told}");
    }
    for args in CHANGES {
        let (code, said) = other(args);
        assert_eq!(code, Some(1), "{args:?}: {said}");
        assert!(!said.contains("no history"), "{args:?}: {said}");
    }
    // Meanwhile the owner makes a change, and the other user sees it.
    assert_eq!(disk.ends(&["write", "/notes/keep", "changed\n"]), 0);
    assert_eq!(other(&["cat", "/notes/keep"]), (Some(0), "changed\n".to_owned()));
}
