//! The index of tags: it follows the rows, whatever changes them.

use std::sync::Arc;

use stead_core::managed::{FileFilter, TagMode, Tags, Ttl};
use stead_core::vfs::managed::MoveTarget;
use stead_core::vfs::{Overwrite, RemoveOptions, UndoOptions, UndoTarget};
use stead_core::{AccessScope, Mount, Store, VfsPath, Workspace};

use crate::host::{DAY, Host, Kind, listed, listed_with};

fn tags(texts: &[&str]) -> Tags {
    Tags::parse(texts).unwrap()
}

/// The problems that a check of the database finds; the index of tags is a part of it.
fn problems(host: &Host) -> Vec<String> {
    host.database.verify(&mut |_| ()).unwrap().problems
}

#[test]
fn w52_files_are_found_by_their_tags_after_every_kind_of_change() {
    Host::each(|host| {
        let files = host.files();
        let with =
            |text: &str| listed_with(&files, &FileFilter { tags: tags(&[text]), ..FileFilter::default() });
        let path = host.vfs().write("/notes/a.md", "x").unwrap().path;
        host.vfs().write("/notes/b.md", "x").unwrap();
        listed(&files);
        let check = |expected: &[&str], step: &str| {
            assert_eq!(with("a\"b"), expected, "{step}");
            assert_eq!(with("late"), expected, "{step}");
            assert_eq!(problems(host), Vec::<String>::new(), "{step}");
        };
        files.tag(&path, TagMode::Add, &tags(&["a\"b", "early", "late"])).unwrap();
        files.tag(&path, TagMode::Remove, &tags(&["early"])).unwrap();
        assert!(with("early").is_empty());
        let first = format!("documents/{DAY}/a.md");
        check(&[&first], "tagged");
        host.advance_days(1);
        host.vfs().write(&path, "longer").unwrap();
        host.vfs().append(&path, "!").unwrap();
        check(&[&first], "written again");
        let target = MoveTarget { category: Some("data".parse().unwrap()), name: Some("c.md") };
        let moved = files.move_file(&path, target).unwrap().to;
        let second = format!("data/{DAY}/c.md");
        check(&[&second], "moved");
        host.vfs().rename(format!("/notes/data/{DAY}"), "/notes/code/x", Overwrite::Refuse).unwrap();
        check(&["code/x/c.md"], "its directory moved");
        let operation =
            host.vfs().rename("/notes/code/x", "/notes/drafts", Overwrite::Refuse).unwrap().operation;
        check(&[], "moved out");
        let undo = |operation| {
            assert!(host.vfs().undo(UndoTarget::Operation(operation), UndoOptions::default()).unwrap().done);
        };
        undo(operation);
        check(&["code/x/c.md"], "moved back by an undo");
        let removed = host.vfs().remove_file("/notes/code/x/c.md", RemoveOptions::default()).unwrap();
        check(&[], "removed");
        undo(removed.operation);
        check(&["code/x/c.md"], "brought back by an undo");
        let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
        let removed = host.vfs().remove_directory("/notes/code", recursive).unwrap();
        check(&[], "removed with its directory");
        undo(removed.operation);
        check(&["code/x/c.md"], "brought back with its directory");
        // Another managed directory of the same Store has a manifest of its own.
        let inner = Mount::at(Arc::clone(&host.store), &VfsPath::parse("/inner").unwrap());
        let inner = Workspace::new(VfsPath::parse("/inner").unwrap(), AccessScope::ReadWrite, inner);
        let both = host.builder("coder").workspace(host.workspace("/notes", AccessScope::ReadWrite));
        let both = both.workspace(inner.with_managed(Ttl::default())).build().unwrap();
        both.write("/inner/z.md", "x").unwrap();
        let in_inner = both.managed(Some("/inner")).unwrap();
        listed(&in_inner);
        both.rename("/notes/code/x/c.md", "/inner/data/c.md", Overwrite::Refuse).unwrap();
        check(&[], "moved to another manifest");
        let filter = FileFilter { tags: tags(&["late"]), ..FileFilter::default() };
        assert_eq!(listed_with(&in_inner, &filter), ["data/c.md"]);
        both.remove_directory("/inner/data", RemoveOptions { recursive: true, ..RemoveOptions::default() })
            .unwrap();
        assert!(listed_with(&in_inner, &filter).is_empty());
        assert_eq!(host.query("SELECT count(*) FROM workspace_file_tag"), ["0"], "{moved}");
    });
}

#[test]
fn w52_a_restored_backup_keeps_the_rows_of_a_host_directory_with_their_numbers_and_tags() {
    let host = Host::new(Kind::Physical);
    let notes: Arc<dyn Store> = Arc::new(host.database.store(["others"]).unwrap());
    let workspace = Workspace::new(VfsPath::parse("/v").unwrap(), AccessScope::ReadWrite, Mount::new(notes));
    let builder = host.builder("coder").workspace(host.workspace("/notes", AccessScope::ReadWrite));
    let vfs = builder.workspace(workspace.with_managed(Ttl::default())).build().unwrap();
    let with = |prefix: &str, text: &str| {
        let filter = FileFilter { tags: tags(&[text]), ..FileFilter::default() };
        listed_with(&vfs.managed(Some(prefix)).unwrap(), &filter)
    };
    for prefix in ["/notes", "/v"] {
        let path = vfs.write(format!("{prefix}/early.md"), "x").unwrap().path;
        let files = vfs.managed(Some(prefix)).unwrap();
        listed(&files);
        files.tag(&path, TagMode::Add, &tags(&["early"])).unwrap();
    }
    let backup = host.directory.path().join("backup.db");
    host.database.backup(&backup, &mut |_| ()).unwrap();
    for prefix in ["/notes", "/v"] {
        let path = vfs.write(format!("{prefix}/late.md"), "x").unwrap().path;
        vfs.managed(Some(prefix)).unwrap().tag(&path, TagMode::Add, &tags(&["late"])).unwrap();
    }
    let rows = "SELECT id || path || tags FROM workspace_files WHERE workspace LIKE
                (SELECT volume || ':%' FROM ledger_directory) ORDER BY id";
    let before = host.query(rows);
    assert_eq!(before.len(), 2);
    host.database.restore_backup(&backup, &mut |_| ()).unwrap();
    // The directory isn't in the backup, so its manifest is as it was; that of the Virtual Store is the backup's.
    assert_eq!(host.query(rows), before);
    let day = |name: &str| [format!("documents/{DAY}/{name}.md")];
    assert_eq!((with("/notes", "early"), with("/notes", "late")), (day("early").into(), day("late").into()));
    assert_eq!((with("/v", "early"), with("/v", "late")), (day("early").into(), vec![]));
    vfs.write("/notes/new.md", "x").unwrap();
    vfs.write("/v/new.md", "x").unwrap();
    assert_eq!(problems(&host), Vec::<String>::new());
}
