//! Cleanup: what expires, what is left alone, and that it can be undone.

use stead_core::managed::{Category, FileFilter, TagMode, Tags, Ttl};
use stead_core::vfs::managed::CleanupOptions;
use stead_core::vfs::{RemoveOptions, UndoOptions, UndoTarget};
use stead_core::workspace::SharingWorkspaces;
use stead_core::{AccessScope, Identity, Mount, Vfs, Workspace};

use crate::host::{DAY, Host, Kind, listed, listed_with};

fn cleanup(host: &Host) -> stead_core::vfs::managed::CleanupReport {
    host.files().cleanup(&CleanupOptions::default()).unwrap()
}

#[test]
fn w81_a_temp_file_of_eight_days_goes_and_one_of_six_stays() {
    Host::each(|host| {
        host.vfs().write("/notes/old", "x").unwrap();
        host.advance_days(2);
        host.vfs().write("/notes/young", "x").unwrap();
        host.advance_days(6);
        let report = cleanup(host);
        assert_eq!((report.run.removed, report.run.bytes), (1, 1));
        assert_eq!(report.paths[0].as_str(), format!("/notes/temp/{DAY}/old"));
        assert_eq!(host.rows(), ["temp/2026-03-01/young"]);
        assert!(!host.vfs().exists(format!("/notes/temp/{DAY}/old")).unwrap());
    });
}

#[test]
fn w82_a_file_that_never_expires_stays() {
    Host::each(|host| {
        host.vfs().write("/notes/a.py", "x").unwrap();
        host.advance_days(3_000);
        assert_eq!(cleanup(host).run.removed, 0);
        assert_eq!(host.rows().len(), 1);
    });
}

#[test]
fn w84_overwriting_restarts_the_time_to_live_and_reading_does_not() {
    Host::each(|host| {
        let written = host.vfs().write("/notes/written", "x").unwrap().path;
        let read = host.vfs().write("/notes/read", "x").unwrap().path;
        host.advance_days(5);
        host.vfs().write(&written, "y").unwrap();
        host.vfs().read(&read).unwrap();
        host.advance_days(5);
        assert_eq!(cleanup(host).run.removed, 1);
        assert!(host.vfs().exists(&written).unwrap() && !host.vfs().exists(&read).unwrap());
    });
}

/// Lets the database refuse every change of a file whose name ends with these bytes. That stops an administrator, too.
fn refuse_changes_of(host: &Host, name: &str) {
    let (table, column) = match host.kind {
        Kind::Virtual => ("DELETE ON entry", "OLD.name"),
        Kind::Physical => ("INSERT ON ledger_event", "NEW.path"),
    };
    let sql = format!(
        "CREATE TRIGGER refused BEFORE {table} WHEN CAST({column} AS TEXT) LIKE '%{name}'
         BEGIN SELECT RAISE(ABORT, 'refused'); END"
    );
    let conn = rusqlite::Connection::open(host.directory.path().join("stead.db")).unwrap();
    conn.execute_batch(&sql).unwrap();
}

#[test]
fn w85_a_row_without_a_file_is_removed_and_counted() {
    Host::each(|host| {
        for name in ["gone", "old"] {
            host.vfs().write(format!("/notes/temp/{name}"), "x").unwrap();
        }
        listed(&host.files());
        if host.kind == Kind::Physical {
            std::fs::remove_file(host.on_disk("temp/gone")).unwrap();
        } else {
            // The row that a crash has left: its file has another name.
            let conn = rusqlite::Connection::open(host.directory.path().join("stead.db")).unwrap();
            conn.execute("UPDATE workspace_files SET path = 'temp/stale' WHERE path = 'temp/gone'", [])
                .unwrap();
        }
        host.advance_days(8);
        let run = cleanup(host).run;
        assert_eq!(run.removed, 1, "{run:?}");
        // A sync comes first where other programs change the files, and counts the row.
        assert_eq!(run.stale + run.synced.removed, 1, "{run:?}");
        assert_eq!((host.rows(), run.errors), (vec![], vec![]));
    });
}

#[test]
fn w85_and_w91_a_file_that_cant_be_removed_is_reported_its_row_stays_and_the_others_go() {
    Host::each(|host| {
        for name in ["a", "locked", "z"] {
            host.vfs().write(format!("/notes/temp/{name}"), "x").unwrap();
        }
        listed(&host.files());
        host.advance_days(8);
        refuse_changes_of(host, "locked");
        let run = cleanup(host).run;
        assert_eq!((run.removed, &*run.paths), (2, &["temp/a".to_owned(), "temp/z".to_owned()][..]));
        assert_eq!(run.errors.len(), 1);
        assert!(run.errors[0].starts_with("/notes/temp/locked: "), "{:?}", run.errors);
        assert_eq!(host.rows(), ["temp/locked"]);
        assert_eq!(host.vfs().read("/notes/temp/locked").unwrap().bytes, b"x");
        assert_eq!(host.files().last_cleanup().unwrap(), Some(run), "with its errors");
    });
}

#[test]
fn w85_the_host_refuses_to_remove_a_file_and_the_others_are_still_removed() {
    let host = Host::new(Kind::Physical);
    for name in ["b", "c"] {
        host.vfs().write(format!("/notes/temp/{name}/{name}"), "x").unwrap();
    }
    host.advance_days(8);
    let locked = host.on_disk("temp/b");
    let set_mode = |mode| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    // The host refuses to remove a name from a directory that can't be written. An administrator isn't refused.
    set_mode(0o555);
    let is_refused = std::fs::write(locked.join("probe"), "").is_err();
    let report = cleanup(&host);
    set_mode(0o755);
    let _ = std::fs::remove_file(locked.join("probe"));
    if is_refused {
        assert_eq!((report.run.removed, report.run.errors.len()), (1, 1));
        assert_eq!(host.rows(), ["temp/b/b"]);
        assert!(host.on_disk("temp/b/b").exists());
    } else {
        assert_eq!((report.run.removed, report.run.errors.len()), (2, 0));
    }
    assert!(!host.on_disk("temp/c/c").exists(), "the others are still processed");
}

#[test]
fn w87_cleanup_never_touches_reserved_directories_root_files_or_untracked_files() {
    Host::each(|host| {
        let kept = ["/notes/memory/x", "/notes/AGENTS.md", "/notes/drafts/temp/x", "/notes/sessions/temp/x"];
        for path in kept {
            host.vfs().write(path, "x").unwrap();
        }
        host.advance_days(3_000);
        assert_eq!(cleanup(host).run.removed, 0);
        assert!(kept.iter().all(|path| host.vfs().exists(*path).unwrap()));
    });
}

#[test]
fn w88_cleanup_removes_the_days_it_has_emptied_and_no_others() {
    Host::each(|host| {
        let vfs = host.vfs();
        vfs.mkdir("/notes/temp/2020-01-01", stead_core::store::Parents::Create).unwrap();
        vfs.write("/notes/gone", "x").unwrap();
        vfs.write("/notes/temp/named/gone", "x").unwrap();
        host.advance_days(1);
        vfs.write("/notes/expires", "x").unwrap();
        host.advance_days(7);
        vfs.write("/notes/temp/2026-02-28/new", "x").unwrap();
        assert_eq!(cleanup(host).run.removed, 3);
        assert!(!vfs.exists(format!("/notes/temp/{DAY}")).unwrap());
        assert!(
            vfs.exists("/notes/temp/2020-01-01").unwrap() && vfs.exists("/notes/temp/2026-02-28").unwrap()
        );
        assert!(vfs.exists("/notes/temp/named").unwrap(), "it isn't the directory of a day");
    });
}

#[test]
fn w90_pinned_files_are_left_alone() {
    Host::each(|host| {
        let path = host.vfs().write("/notes/keep", "x").unwrap().path;
        host.files().tag(&path, TagMode::Add, &Tags::parse(["pin"]).unwrap()).unwrap();
        host.advance_days(100);
        assert_eq!(cleanup(host).run.removed, 0);
        host.files().tag(&path, TagMode::Remove, &Tags::parse(["pin"]).unwrap()).unwrap();
        assert_eq!(cleanup(host).run.removed, 1);
    });
}

/// Another Workspace on the same directory.
#[derive(Debug)]
struct Other(std::sync::Arc<Workspace>);

impl SharingWorkspaces for Other {
    fn find(&self, _: &Mount) -> Vec<std::sync::Arc<Workspace>> {
        vec![std::sync::Arc::clone(&self.0)]
    }
}

#[test]
fn w90_what_is_hidden_or_protected_is_left_alone() {
    Host::each(|host| {
        let workspace = || host.workspace("/notes", AccessScope::ReadWrite);
        let protecting = workspace().with_protect(["temp/**/keep"]).unwrap();
        for name in ["keep", "go"] {
            host.vfs().write(format!("/notes/{name}"), "x").unwrap();
        }
        host.advance_days(100);
        let report =
            host.vfs_with(protecting).managed(None).unwrap().cleanup(&CleanupOptions::default()).unwrap();
        assert_eq!(report.run.removed, 1);
        assert_eq!(host.rows(), [format!("temp/{DAY}/keep")]);
        let other = std::sync::Arc::new(workspace().with_protect(["keep"]).unwrap());
        let shared = host.vfs_with(workspace().with_sharing(std::sync::Arc::new(Other(other))));
        let report = shared.managed(None).unwrap().cleanup(&CleanupOptions::default()).unwrap();
        assert_eq!(report.run.removed, 0);
    });
}

#[test]
fn w79_a_dry_run_lists_what_would_go_and_changes_nothing() {
    Host::each(|host| {
        let path = host.vfs().write("/notes/old", "x").unwrap().path;
        host.advance_days(8);
        let options = CleanupOptions { dry_run: true };
        let report = host.files().cleanup(&options).unwrap();
        assert_eq!((report.run.removed, report.paths), (1, vec![path.clone()]));
        assert!(host.vfs().exists(&path).unwrap() && host.rows().len() == 1);
        assert_eq!(host.files().last_cleanup().unwrap(), None, "a dry run is no run");
    });
}

#[test]
fn w91_the_last_run_is_kept() {
    Host::each(|host| {
        host.vfs().write("/notes/old", "x").unwrap();
        host.advance_days(8);
        let run = cleanup(host).run;
        assert_eq!(host.files().last_cleanup().unwrap(), Some(run.clone()));
        assert_eq!((run.removed, run.bytes, run.at.as_str()), (1, 1, &*host.now().to_string()));
        assert_eq!(run.paths, [format!("temp/{DAY}/old")]);
        assert!(run.operation.is_some() && run.errors.is_empty());
        // A later run takes its place, also if it removes nothing.
        host.advance_days(1);
        cleanup(host);
        let last = host.files().last_cleanup().unwrap().unwrap();
        assert_eq!((last.removed, last.paths, last.at), (0, vec![], host.now().to_string()));
    });
}

#[test]
fn w92_what_cleanup_removed_can_be_undone_with_its_row_and_tags() {
    Host::each(|host| {
        let vfs = host.vfs();
        let path = vfs.write("/notes/old", "content").unwrap().path;
        host.files().tag(&path, TagMode::Add, &Tags::parse(["mine"]).unwrap()).unwrap();
        let id = host.files().info(&path).unwrap().file.id;
        host.advance_days(8);
        let operation = cleanup(host).run.operation.unwrap().parse().unwrap();
        assert!(!vfs.exists(&path).unwrap());
        let undone = vfs.undo(UndoTarget::Operation(operation), UndoOptions::default()).unwrap();
        assert!(undone.done);
        assert_eq!(vfs.read(&path).unwrap().bytes, b"content");
        let file = host.files().info(&path).unwrap().file;
        assert_eq!((file.id, file.tags.to_string(), file.modified_at), (id, "mine".to_owned(), host.now()));
        assert_eq!(cleanup(host).run.removed, 0, "its time to live begins again");
        let stranger =
            host.builder("other").workspace(host.workspace("/notes", AccessScope::ReadOnly)).build().unwrap();
        assert!(stranger.undo(UndoTarget::Operation(operation), UndoOptions::default()).is_err());
    });
}

#[test]
fn w92_one_undo_brings_back_what_a_cleanup_removed_in_several_changes() {
    Host::each(|host| {
        let vfs = host.vfs();
        // Cleanup removes the files of one category after those of another, and 128 of them in one change.
        let names =
            (0..130).map(|number| format!("{number}")).chain((0..3).map(|number| format!("{number}.zip")));
        let files: Vec<_> = names
            .map(|name| {
                (vfs.write(format!("/notes/{name}"), format!("content of {name}")).unwrap().path, name)
            })
            .collect();
        for (path, name) in files.iter().step_by(10) {
            let tags = Tags::parse([format!("tag-{name}")]).unwrap();
            host.files().tag(path, TagMode::Add, &tags).unwrap();
        }
        let rows = || {
            host.query("SELECT id || ' ' || path || ' ' || size_bytes || ' ' || tags FROM workspace_files ORDER BY id")
        };
        let before = rows();
        assert_eq!(before.len(), 133);
        host.advance_days(31);
        let run = cleanup(host).run;
        assert_eq!((run.removed, rows()), (133, vec![]));
        let changes = host.query("SELECT count(DISTINCT id) FROM revision WHERE tool = 'cleanup'");
        assert!(changes[0].parse::<u64>().unwrap() >= 3, "{changes:?}");
        let operation = run.operation.unwrap().parse().unwrap();
        assert!(vfs.undo(UndoTarget::Operation(operation), UndoOptions::default()).unwrap().done);
        for (path, name) in &files {
            assert_eq!(vfs.read(path).unwrap().bytes, format!("content of {name}").as_bytes(), "{path}");
        }
        assert_eq!(rows(), before);
        for (path, name) in files.iter().step_by(10) {
            let tagged = Tags::parse([format!("tag-{name}")]).unwrap();
            let found = listed_with(&host.files(), &FileFilter { tags: tagged, ..FileFilter::default() });
            assert_eq!(found, [path.as_str().strip_prefix("/notes/").unwrap()]);
        }
    });
}

#[test]
fn w92_an_undo_of_a_cleanup_names_the_files_whose_directories_are_gone() {
    Host::each(|host| {
        host.vfs().write("/notes/temp/sub/dir/file", "y").unwrap();
        host.advance_days(8);
        let operation = cleanup(host).run.operation.unwrap().parse().unwrap();
        let recursive = RemoveOptions { recursive: true, ..RemoveOptions::default() };
        host.vfs().remove_directory("/notes/temp/sub", recursive).unwrap();
        let undone = host.vfs().undo(UndoTarget::Operation(operation), UndoOptions::default()).unwrap();
        let conflicts: Vec<_> = undone.conflicts.iter().map(|conflict| conflict.path.as_str()).collect();
        assert_eq!(conflicts, ["/notes/temp/sub/dir/file"], "{undone:?}");
    });
}

#[test]
fn w92_cleanup_is_an_operation_of_the_systems_identity() {
    let host = Host::new(Kind::Virtual);
    host.vfs().write("/notes/old", "x").unwrap();
    host.advance_days(8);
    cleanup(&host);
    let sql = "SELECT agent || ' ' || tool FROM revision WHERE tool = 'cleanup' LIMIT 1";
    assert_eq!(host.query(sql), ["system cleanup"]);
}

#[test]
fn w89_a_time_to_live_of_another_length_is_respected() {
    let host = Host::new(Kind::Virtual);
    let ttl = Ttl::default().with(Category::Code, Some(1)).unwrap();
    let workspace = host.workspace("/notes", AccessScope::ReadWrite).with_managed(ttl);
    let vfs = Vfs::builder(Identity::agent("coder"))
        .clock(host.clock.clone())
        .workspace(workspace)
        .build()
        .unwrap();
    vfs.write("/notes/a.py", "x").unwrap();
    host.advance_days(1);
    assert_eq!(vfs.managed(None).unwrap().cleanup(&CleanupOptions::default()).unwrap().run.removed, 1);
    assert!(listed(&host.files()).is_empty());
}
