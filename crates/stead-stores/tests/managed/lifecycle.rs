//! Cleanup: what expires, what is left alone, and that it can be undone.

use stead_core::managed::{Category, TagMode, Tags, Ttl};
use stead_core::vfs::managed::CleanupOptions;
use stead_core::vfs::{UndoOptions, UndoTarget};
use stead_core::{AccessScope, Identity, Vfs};

use crate::host::{DAY, Host, Kind, listed};

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

#[test]
fn w85_a_row_without_a_file_goes_and_a_file_that_cant_be_removed_is_reported() {
    let host = Host::new(Kind::Physical);
    for name in ["a", "b", "c"] {
        host.vfs().write(format!("/notes/temp/{name}/{name}"), "x").unwrap();
    }
    host.advance_days(8);
    std::fs::remove_file(host.on_disk("temp/a/a")).unwrap();
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
    assert_eq!(report.run.synced.removed, 1, "sync has removed the stale row");
    if is_refused && host.on_disk("temp/b/b").exists() {
        assert_eq!((report.run.removed, report.run.errors.len()), (1, 1));
        assert_eq!(host.rows(), ["temp/b/b"]);
    } else {
        assert_eq!(report.run.removed, 2);
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
        let options = CleanupOptions { also_respect: vec![other], ..CleanupOptions::default() };
        assert_eq!(host.files().cleanup(&options).unwrap().run.removed, 0);
    });
}

#[test]
fn w79_a_dry_run_lists_what_would_go_and_changes_nothing() {
    Host::each(|host| {
        let path = host.vfs().write("/notes/old", "x").unwrap().path;
        host.advance_days(8);
        let options = CleanupOptions { dry_run: true, ..CleanupOptions::default() };
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
        assert_eq!((run.removed, run.at.as_str()), (1, &*host.now().to_string()));
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
