//! Sync: the manifest follows what other programs do to a host directory.

use stead_core::AccessScope;
use stead_core::managed::{FileFilter, RepairCounts, Tags};
use stead_core::vfs::managed::CleanupOptions;

use crate::host::{DAY, Host, Kind, listed, listed_with};

fn counts(added: u64, removed: u64, resized: u64) -> RepairCounts {
    RepairCounts { added, removed, resized }
}

#[test]
fn w40_sync_removes_rows_whose_files_are_gone() {
    let host = Host::new(Kind::Physical);
    for name in ["a.py", "b.py", "c.py"] {
        host.vfs().write(format!("/notes/{name}"), "x").unwrap();
    }
    listed(&host.files());
    for name in ["a.py", "b.py"] {
        std::fs::remove_file(host.on_disk(&format!("code/{DAY}/{name}"))).unwrap();
    }
    assert_eq!(host.files().sync().unwrap().counts, counts(0, 2, 0));
    assert_eq!(host.rows(), [format!("code/{DAY}/c.py")]);
    std::fs::remove_file(host.on_disk(&format!("code/{DAY}/c.py"))).unwrap();
    assert_eq!(listed(&host.files()), [""; 0], "a list leaves out what is gone");
}

#[test]
fn w41_sync_adds_files_with_the_category_of_their_directory() {
    let host = Host::new(Kind::Physical);
    host.vfs().write("/notes/a.py", "x").unwrap();
    listed(&host.files());
    for path in ["images/2020-01-01/x.txt", "data/y.py", "drafts/z.py", "memory/m.md", "root.py"] {
        std::fs::create_dir_all(host.on_disk(path).parent().unwrap()).unwrap();
        std::fs::write(host.on_disk(path), "12").unwrap();
    }
    assert_eq!(host.files().sync().unwrap().counts, counts(2, 0, 0));
    let sql = "SELECT path || ' ' || category || ' ' || size_bytes FROM workspace_files ORDER BY path";
    let expected = [
        format!("code/{DAY}/a.py code 1"),
        "data/y.py data 2".into(),
        "images/2020-01-01/x.txt images 2".into(),
    ];
    assert_eq!(host.query(sql), expected);
}

#[test]
fn w42_files_that_sync_finds_count_as_new() {
    let host = Host::new(Kind::Physical);
    let path = host.on_disk("temp/2020-01-01/old.bin");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "x").unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_500_000_000);
    std::fs::File::open(&path).unwrap().set_modified(old).unwrap();
    let report = host.files().cleanup(&CleanupOptions::default()).unwrap();
    assert_eq!((report.run.removed, report.run.synced), (0, counts(1, 0, 0)));
    assert!(path.exists());
    host.advance_days(8);
    assert_eq!(host.files().cleanup(&CleanupOptions::default()).unwrap().run.removed, 1);
    assert!(!path.exists());
}

#[test]
fn w43_sync_refreshes_a_size_that_changed_outside() {
    let host = Host::new(Kind::Physical);
    let path = host.vfs().write("/notes/a.py", "x").unwrap().path;
    host.files().tag(&path, Default::default(), &Tags::parse(["keep"]).unwrap()).unwrap();
    std::fs::write(host.on_disk(&format!("code/{DAY}/a.py")), "longer").unwrap();
    host.advance_days(1);
    assert_eq!(host.files().sync().unwrap().counts, counts(0, 0, 1));
    let file = host.files().info(&path).unwrap().file;
    assert_eq!((file.size, file.modified_at, file.tags.to_string()), (6, host.now(), "keep".to_owned()));
}

#[test]
fn w40_and_w90_files_that_were_gone_for_a_while_get_their_rows_back() {
    let host = Host::new(Kind::Physical);
    let vfs = host.vfs().operation("write_file");
    let path = vfs.write("/notes/a.py", "x").unwrap().path;
    let gone = vfs.write("/notes/gone.py", "x").unwrap().path;
    for path in [&path, &gone] {
        host.files().tag(path, Default::default(), &Tags::parse(["pin"]).unwrap()).unwrap();
    }
    let before = host.files().info(&path).unwrap().file;
    // As if the disk wasn't mounted for a moment, in which somebody lists the files.
    std::fs::rename(host.on_disk("code"), host.on_disk("elsewhere")).unwrap();
    assert!(listed(&host.files()).is_empty());
    std::fs::rename(host.on_disk("elsewhere"), host.on_disk("code")).unwrap();
    host.advance_days(1);
    assert_eq!(host.files().sync().unwrap().counts, counts(2, 0, 0));
    let mut after = host.files().info(&path).unwrap().file;
    assert_eq!(after.modified_at, host.now(), "its time to live begins again");
    after.modified_at = before.modified_at;
    assert_eq!(after, before);
    let pinned = FileFilter { tags: Tags::parse(["pin"]).unwrap(), ..FileFilter::default() };
    assert_eq!(listed_with(&host.files(), &pinned).len(), 2);
    // What Stead has written in its place is another file, and so is what comes there after that one has gone elsewhere.
    let on_disk = host.on_disk(&format!("code/{DAY}/a.py"));
    std::fs::remove_file(&on_disk).unwrap();
    assert_eq!(host.files().sync().unwrap().counts, counts(0, 1, 0));
    vfs.write(&path, "other").unwrap();
    vfs.rename(&path, "/notes/code/b.py", stead_core::vfs::Overwrite::Refuse).unwrap();
    std::fs::write(&on_disk, "third").unwrap();
    assert_eq!(host.files().sync().unwrap().counts, counts(1, 0, 0));
    assert!(host.files().info(&path).unwrap().file.tags.is_empty());
    // What Stead has removed is another file when it comes back.
    vfs.remove_file(&gone, stead_core::vfs::RemoveOptions::default()).unwrap();
    std::fs::write(host.on_disk(&format!("code/{DAY}/gone.py")), "x").unwrap();
    assert_eq!(host.files().sync().unwrap().counts, counts(1, 0, 0));
    assert!(host.files().info(&gone).unwrap().file.tags.is_empty());
}

#[test]
fn w44_a_second_sync_changes_nothing() {
    Host::each(|host| {
        for name in ["a.py", "b.md", "c.csv"] {
            host.vfs().write(format!("/notes/{name}"), "x").unwrap();
        }
        host.files().sync().unwrap();
        assert_eq!(host.files().sync().unwrap().counts, counts(0, 0, 0));
    });
}

#[test]
fn w44a_sync_runs_when_a_workspace_becomes_managed() {
    Host::each(|host| {
        use std::sync::Arc;
        use stead_core::{AccessScope, Mount, VfsPath, Workspace};
        let mount = Mount::new(Arc::clone(&host.store));
        let plain = Workspace::new(VfsPath::parse("/notes").unwrap(), AccessScope::ReadWrite, mount);
        host.vfs_with(plain).write("/notes/code/before.py", "x").unwrap();
        assert!(host.rows().is_empty());
        assert_eq!(listed(&host.files()), ["code/before.py"], "the first list has run sync");
    });
}

#[test]
fn w40_to_w43_sync_repairs_what_was_changed_last_too() {
    let host = Host::new(Kind::Physical);
    let (vfs, files) = (host.vfs(), host.files());
    let path = vfs.write("/notes/a.py", "x").unwrap().path;
    files.sync().unwrap();
    vfs.write(&path, "longer").unwrap();
    std::fs::remove_file(host.on_disk(&format!("code/{DAY}/a.py"))).unwrap();
    assert_eq!(files.sync().unwrap().counts, counts(0, 1, 0));
    vfs.write("/notes/a.py", "x").unwrap();
    std::fs::write(host.on_disk(&format!("code/{DAY}/a.py")), "longer").unwrap();
    assert_eq!(files.sync().unwrap().counts, counts(0, 0, 1));
    host.vfs().remove_file(&path, stead_core::vfs::RemoveOptions::default()).unwrap();
    std::fs::write(host.on_disk(&format!("code/{DAY}/a.py")), "back").unwrap();
    assert_eq!(files.sync().unwrap().counts, counts(1, 0, 0));
}

#[test]
fn w40_and_w41_a_caller_is_told_only_of_files_that_it_may_see() {
    let host = Host::new(Kind::Physical);
    let workspace = host.workspace("/notes", AccessScope::ReadWrite);
    let workspace = workspace.with_hide(["*.sec"]).unwrap();
    let files = host.vfs_with(workspace).managed(None).unwrap();
    std::fs::create_dir(host.on_disk("data")).unwrap();
    let write = |name: &str, content: &str| std::fs::write(host.on_disk("data").join(name), content).unwrap();
    write("a.sec", "1");
    assert_eq!(files.sync().unwrap().counts, counts(0, 0, 0));
    assert_eq!(host.rows(), ["data/a.sec"], "it is synced nevertheless");
    write("a.sec", "22");
    write("b.csv", "1");
    assert_eq!(files.sync().unwrap().counts, counts(1, 0, 0));
    write("a.sec", "333");
    write("b.csv", "22");
    assert_eq!(files.sync().unwrap().counts, counts(0, 0, 1));
    std::fs::remove_dir_all(host.on_disk("data")).unwrap();
    let run = files.cleanup(&CleanupOptions::default()).unwrap().run;
    assert_eq!(run.synced, counts(0, 1, 0));
    assert_eq!(host.rows(), [""; 0]);
}
