//! What the commands report of a damaged or lost database, and how it is restored.

use crate::small_disk::Disk;

/// Changes some bytes of a file's content in the database file.
fn damage(disk: &Disk, from: &[u8], to: &[u8]) {
    let path = disk.path(".stead/stead.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let offset = bytes.windows(from.len()).position(|window| window == from).unwrap();
    bytes[offset..offset + to.len()].copy_from_slice(to);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn damaged_content_is_reported_by_every_command_and_restored_from_a_backup() {
    let host = tempfile::tempdir().unwrap();
    let disk = Disk::at(host.path());
    disk.set_up();
    assert_eq!(disk.exit_code(&["backup", "copy.db"]), 0);
    damage(&disk, b"line of file 3\n", b"lime");
    let expected = "the stored data of `/notes/f3` is damaged: its content doesn't match its hash; `stead verify` lists \
                all damage, and `stead restore-backup` restores a backup";
    for args in [
        &["cat", "/notes/f3"][..],
        &["cat", "--at", "15", "/notes/f3"],
        &["edit", "/notes/f3", "file 3", "file three", "--all"],
    ] {
        let (code, output) = disk.run(args);
        assert_eq!(code, 70, "{args:?}: {output}");
        assert!(output.contains(expected), "{args:?}: {output}");
    }
    let (_, output) = disk.run(&["grep", "li[nm]e of", "/notes"]);
    assert!(!output.contains("lime") && output.contains("/notes/f4:1:line of file 4"), "{output}");
    assert!(output.contains("/notes/f3: stored data is damaged"), "{output}");
    for args in [&["export", "/notes", "out"][..], &["export", "/notes", "out.tar"]] {
        let (code, output) = disk.run(args);
        assert!(code != 0 && output.contains("/notes/f3"), "{args:?}: {output}");
    }
    assert!(
        !std::fs::read(disk.path("out/f3")).is_ok_and(|bytes| bytes.windows(4).any(|four| four == b"lime"))
    );
    let (code, output) = disk.run(&["verify"]);
    assert!(code == 70 && output.contains("doesn't match its hash"), "{output}");
    assert_eq!(disk.exit_code(&["restore-backup", "copy.db", "--yes"]), 0);
    assert_eq!(disk.exit_code(&["cat", "/notes/f3"]), 0);
    assert_eq!(disk.exit_code(&["verify"]), 0);
}

#[test]
fn a_lost_database_is_reported_and_not_replaced_by_a_new_one() {
    for loss in ["deleted", "empty", "no database"] {
        let host = tempfile::tempdir().unwrap();
        let disk = Disk::at(host.path());
        disk.set_up();
        assert_eq!(disk.exit_code(&["backup", "copy.db"]), 0);
        let path = disk.path(".stead/stead.db");
        match loss {
            "deleted" => std::fs::remove_file(&path).unwrap(),
            "empty" => std::fs::write(&path, "").unwrap(),
            _ => std::fs::write(&path, "something else".repeat(999)).unwrap(),
        }
        for args in [
            &["verify"][..],
            &["cat", "/notes/keep"],
            &["write", "/notes/keep", "new"],
            &["ls", "/notes"],
            &["gc"],
        ] {
            let (code, output) = disk.run(args);
            assert_eq!(code, 70, "{loss}: {args:?}: {output}");
            assert!(output.contains("restore-backup"), "{loss}: {args:?}: {output}");
        }
        assert!(!path.exists() || loss != "deleted", "{loss}: a new database was created");
        let (code, output) = disk.run(&["restore-backup", "copy.db", "--yes"]);
        assert_eq!(code, 0, "{loss}: {output}");
        assert_eq!(disk.run(&["cat", "/notes/keep"]), (0, "hello\n".to_owned()), "{loss}");
        assert_eq!(disk.exit_code(&["write", "/notes/keep", "new"]), 0, "{loss}");
        let (code, output) = disk.run(&["verify"]);
        assert_eq!(code, 0, "{loss}: {output}");
    }
}

#[test]
fn a_removed_state_directory_is_created_again() {
    let host = tempfile::tempdir().unwrap();
    let disk = Disk::at(host.path());
    disk.set_up();
    std::fs::remove_dir_all(disk.path(".stead")).unwrap();
    assert_eq!(disk.exit_code(&["write", "/notes/keep", "new"]), 0);
    assert_eq!(disk.exit_code(&["verify"]), 0);
}
