//! What the commands report of a damaged or lost database, and how it is restored.

use crate::small::Disk;

/// Changes some bytes of a file's content in the database file.
fn damage(disk: &Disk, from: &[u8], to: &[u8]) {
    let path = disk.path(".stead/stead.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn damaged_content_is_corrupt_on_every_way_and_leads_to_the_backup() {
    let host = tempfile::tempdir().unwrap();
    let disk = Disk::at(host.path());
    disk.furnish();
    assert_eq!(disk.ends(&["backup", "copy.db"]), 0);
    damage(&disk, b"line of file 3\n", b"lime");
    let told = "the stored data of `/notes/f3` is damaged: its content doesn't match its hash; `stead verify` lists \
                all damage, and `stead restore-backup` restores a backup";
    for args in [
        &["cat", "/notes/f3"][..],
        &["cat", "--at", "15", "/notes/f3"],
        &["edit", "/notes/f3", "file 3", "file three", "--all"],
    ] {
        let (code, said) = disk.told(args);
        assert_eq!(code, 70, "{args:?}: {said}");
        assert!(said.contains(told), "{args:?}: {said}");
    }
    let (_, found) = disk.told(&["grep", "li[nm]e of", "/notes"]);
    assert!(!found.contains("lime") && found.contains("/notes/f4:1:line of file 4"), "{found}");
    assert!(found.contains("/notes/f3: stored data is damaged"), "{found}");
    for args in [&["export", "/notes", "out"][..], &["export", "/notes", "out.tar"]] {
        let (code, said) = disk.told(args);
        assert!(code != 0 && said.contains("/notes/f3"), "{args:?}: {said}");
    }
    assert!(
        !std::fs::read(disk.path("out/f3")).is_ok_and(|bytes| bytes.windows(4).any(|four| four == b"lime"))
    );
    let (code, said) = disk.told(&["verify"]);
    assert!(code == 70 && said.contains("doesn't match its hash"), "{said}");
    assert_eq!(disk.ends(&["restore-backup", "copy.db", "--yes"]), 0);
    assert_eq!(disk.ends(&["cat", "/notes/f3"]), 0);
    assert_eq!(disk.ends(&["verify"]), 0);
}

#[test]
fn a_lost_database_is_told_and_no_new_one_is_begun_in_its_place() {
    for how in ["deleted", "empty", "no database"] {
        let host = tempfile::tempdir().unwrap();
        let disk = Disk::at(host.path());
        disk.furnish();
        assert_eq!(disk.ends(&["backup", "copy.db"]), 0);
        let path = disk.path(".stead/stead.db");
        match how {
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
            let (code, said) = disk.told(args);
            assert_eq!(code, 70, "{how}: {args:?}: {said}");
            assert!(how == "no database" || said.contains("restore-backup"), "{how}: {args:?}: {said}");
        }
        assert!(!path.exists() || how != "deleted", "{how}: nothing was made");
        let (code, said) = disk.told(&["restore-backup", "copy.db", "--yes"]);
        assert_eq!(code, 0, "{how}: {said}");
        assert_eq!(disk.told(&["cat", "/notes/keep"]), (0, "hello\n".to_owned()), "{how}");
        assert_eq!(disk.ends(&["write", "/notes/keep", "new"]), 0, "{how}");
        let (code, said) = disk.told(&["verify"]);
        assert_eq!(code, 0, "{how}: {said}");
    }
}

#[test]
fn a_state_that_is_removed_as_a_whole_begins_anew() {
    let host = tempfile::tempdir().unwrap();
    let disk = Disk::at(host.path());
    disk.furnish();
    std::fs::remove_dir_all(disk.path(".stead")).unwrap();
    assert_eq!(disk.ends(&["write", "/notes/keep", "new"]), 0);
    assert_eq!(disk.ends(&["verify"]), 0);
}
