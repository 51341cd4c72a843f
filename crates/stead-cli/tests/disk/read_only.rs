//! A disk that can only be read can be read.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::program::copy_program;
use crate::small_disk::{Disk, Kind, on_small_disk};

/// Adds a directory of the host with a history, and a snapshot `s1` of it and of the database.
fn add_directory(disk: &Disk) {
    let config = std::fs::read_to_string(disk.path("stead.toml")).unwrap();
    let store_config = "[stores.p]\nkind = \"physical\"\npath = \"ph\"\n[[agents.a.workspaces]]\nprefix = \"/p\"\n\
                scope = \"rw\"\nstore = \"p\"\n";
    std::fs::create_dir(disk.path("ph")).unwrap();
    std::fs::write(disk.path("stead.toml"), format!("{config}{store_config}")).unwrap();
    disk.run_ok(&["write", "/p/f", "first\n"]);
    disk.run_ok(&["snapshot", "--label", "s1"]);
    disk.run_ok(&["write", "/p/f", "second\n"]);
}

/// What the history commands print if nothing can be written.
const HISTORY: [(&[&str], &str); 7] = [
    (&["log"], "/p/f"),
    (&["log", "/p"], "/p/f"),
    (&["log", "/p/f"], "/p/f"),
    (&["blame", "/p/f"], "second"),
    (&["diff", "/p", "s1"], "/p/f"),
    (&["diff", "/", "s1"], "/p/f"),
    (&["cat", "/p/f", "--at", "s1"], "first"),
];
const READS: [&[&str]; 7] = [
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
        disk.set_up();
        add_directory(disk);
        let remount = |options: &str| {
            let status = Command::new("mount").args(["-o", options]).arg(disk.path("")).status().unwrap();
            assert!(status.success());
        };
        let check = |state: &str| {
            for args in READS {
                let (code, output) = disk.run(args);
                assert_eq!(code, 0, "{state}: {args:?}: {output}");
            }
            for (args, expected) in HISTORY {
                let output = disk.run_ok(args);
                assert!(output.contains(expected), "{state}: {args:?}: {output}");
            }
            for args in CHANGES {
                let (code, output) = disk.run(args);
                assert_eq!(code, 1, "{state}: {args:?}: {output}");
                assert!(!output.contains("no history"), "{state}: {args:?}: {output}");
            }
        };
        remount("remount,ro");
        check("as it was left");
        // Like a copy of the database file alone.
        remount("remount,rw");
        for suffix in ["-wal", "-shm", "-turn", "-next", "-reserve", "-version"] {
            std::fs::remove_file(disk.path(&format!(".stead/stead.db{suffix}"))).unwrap();
        }
        remount("remount,ro");
        check("the file alone");
        remount("remount,rw");
        assert_eq!(disk.exit_code(&["write", "/notes/new", "x"]), 0);
        assert_eq!(disk.exit_code(&["verify"]), 0);
    });
}

/// Lets other users read everything and change nothing.
fn allow_reading(directory: &Path) {
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            allow_reading(&path);
        } else {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
    }
}

#[test]
fn a_user_who_may_only_read_the_state_files_can_read_the_stead() {
    let host = tempfile::tempdir().unwrap();
    let disk = Disk::at(host.path());
    disk.set_up();
    add_directory(&disk);
    allow_reading(host.path());
    let is_superuser = rustix::process::geteuid().is_root();
    if !is_superuser {
        eprintln!("SKIPPED: only root can act as another user");
        return;
    }
    copy_program(&disk.path("stead"));
    let run_as_other_user = |args: &[&str]| {
        let mut command = Command::new(disk.path("stead"));
        command.args(args).current_dir(host.path()).env("HOME", "/nonexistent").uid(65_534).gid(65_534);
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    for args in READS {
        let (code, text) = run_as_other_user(args);
        assert_eq!(code, Some(0), "{args:?}: {text}");
    }
    for (args, expected) in HISTORY {
        let (code, text) = run_as_other_user(args);
        assert!(code == Some(0) && text.contains(expected), "{args:?}: {text}");
    }
    for args in CHANGES {
        let (code, text) = run_as_other_user(args);
        assert_eq!(code, Some(1), "{args:?}: {text}");
        assert!(!text.contains("no history"), "{args:?}: {text}");
    }
    // Meanwhile the owner makes a change, and the other user sees it.
    assert_eq!(disk.exit_code(&["write", "/notes/keep", "changed\n"]), 0);
    assert_eq!(run_as_other_user(&["cat", "/notes/keep"]), (Some(0), "changed\n".to_owned()));
}
