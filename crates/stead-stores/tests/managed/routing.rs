//! Where a written file goes, and how it is found again.

use std::path::PathBuf;
use std::sync::Arc;

use stead_core::managed::{Category, Ttl};
use stead_core::vfs::managed::{CleanupOptions, MoveTarget};
use stead_core::vfs::{ListPage, RemoveOptions, WriteOptions};
use stead_core::{AccessScope, ErrorKind, Mount, Occurrences, Vfs, VfsPath, Workspace};

use crate::host::{DAY, Host, Kind};

#[test]
fn w1_a_file_without_a_directory_lands_in_its_category_and_day() {
    Host::each(|host| {
        let written = host.vfs().write("/notes/scraper.py", "x").unwrap();
        assert_eq!(written.path.as_str(), format!("/notes/code/{DAY}/scraper.py"));
        assert!(host.vfs().exists(format!("/notes/code/{DAY}/scraper.py")).unwrap());
        assert!(!host.vfs().is_file("/notes/scraper.py").unwrap_or(false));
    });
}

#[test]
fn w10_a_hint_overrides_the_inferred_category() {
    Host::each(|host| {
        let options = WriteOptions::new().category(Category::Data);
        let written = host.vfs().write_with("/notes/notes.txt", "x", &options).unwrap();
        assert_eq!(written.path.as_str(), format!("/notes/data/{DAY}/notes.txt"));
        let refused = host.vfs().write_with("/notes/drafts/notes.txt", "x", &options).unwrap_err();
        assert!(refused.to_string().contains("directly below a managed Workspace"), "{refused}");
        assert_eq!(host.rows().len(), 1);
    });
}

#[test]
fn w13_directories_are_created_only_when_a_file_is_written() {
    Host::each(|host| {
        let vfs = host.vfs();
        let names = || {
            let listing = vfs.list("/notes", &ListPage::all()).unwrap();
            listing.entries.iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>()
        };
        assert!(names().is_empty(), "a fresh Workspace has none");
        assert!(vfs.read("/notes/missing.py").is_err());
        assert!(vfs.managed(None).unwrap().tree().unwrap().is_empty());
        assert!(names().is_empty(), "neither reading nor listing makes any");
        vfs.write("/notes/a.py", "x").unwrap();
        assert_eq!(names(), ["code"]);
    });
}

#[test]
fn w14_resolving_a_path_creates_nothing() {
    Host::each(|host| {
        let quota = stead_core::store::QuotaLimits { bytes: Some(1), ..Default::default() };
        let vfs = host.vfs_with(host.workspace("/notes", AccessScope::ReadWrite).with_quota(quota));
        assert!(vfs.write("/notes/too-large.py", "more than one byte").is_err());
        assert!(!vfs.exists("/notes/code").unwrap());
        assert!(host.rows().is_empty(), "a refused write registers nothing");
    });
}

#[test]
fn w15_an_explicit_path_is_used_as_it_is() {
    Host::each(|host| {
        for path in ["/notes/drafts/x.py", "/notes/code/x.py", "/notes/data/2020-01-01/x.py"] {
            assert_eq!(host.vfs().write(path, "x").unwrap().path.as_str(), path);
        }
        assert_eq!(host.rows(), ["code/x.py", "data/2020-01-01/x.py"]);
    });
}

#[test]
fn w16_reserved_directories_are_neither_routed_nor_tracked() {
    Host::each(|host| {
        for directory in ["memory", "knowledge", "skills", "sessions"] {
            let path = format!("/notes/{directory}/x.md");
            assert_eq!(host.vfs().write(&*path, "x").unwrap().path.as_str(), path);
        }
        assert!(host.rows().is_empty());
        host.vfs().mkdir("/notes/memory2", stead_core::store::Parents::Create).unwrap();
        assert!(host.vfs().is_directory("/notes/memory2").unwrap(), "a directory isn't routed");
    });
}

#[test]
fn w17_the_files_of_an_agents_instructions_stay_at_the_root() {
    Host::each(|host| {
        for name in ["AGENTS.md", "USER.md", "TOOLS.md"] {
            let written = host.vfs().write(format!("/notes/{name}"), "x").unwrap();
            assert_eq!(written.path.as_str(), format!("/notes/{name}"));
            assert_eq!(written.category, None);
        }
        assert!(host.rows().is_empty());
    });
}

#[test]
fn w18_a_name_that_exists_at_the_root_is_edited_in_place() {
    Host::each(|host| {
        // Written before the Workspace was managed.
        let plain = Workspace::new(
            VfsPath::parse("/notes").unwrap(),
            AccessScope::ReadWrite,
            Mount::new(Arc::clone(&host.store)),
        );
        host.vfs_with(plain).write("/notes/old.py", "1").unwrap();
        let written = host.vfs().write("/notes/old.py", "2").unwrap();
        assert_eq!((written.path.as_str(), written.created), ("/notes/old.py", Some(false)));
        host.vfs().append("/notes/old.py", "3").unwrap();
        assert_eq!(host.vfs().read("/notes/old.py").unwrap().bytes, b"23");
        assert!(host.rows().is_empty());
    });
}

#[test]
fn w19_the_result_says_the_path_the_category_and_whether_the_file_is_new() {
    Host::each(|host| {
        let first = host.vfs().write("/notes/a.csv", "1").unwrap();
        assert_eq!((first.category, first.created), (Some(Category::Data), Some(true)));
        let second = host.vfs().write("/notes/a.csv", "2").unwrap();
        assert_eq!((second.category, second.created), (Some(Category::Data), Some(false)));
        assert_eq!(first.path, second.path);
    });
}

#[test]
fn w19_a_write_only_workspace_routes_without_looking_at_what_is_there() {
    Host::each(|host| {
        let plain = Workspace::new(
            VfsPath::parse("/notes").unwrap(),
            AccessScope::ReadWrite,
            Mount::new(Arc::clone(&host.store)),
        );
        host.vfs_with(plain).write("/notes/taken.py", "there before").unwrap();
        let blind = host.vfs_with(host.workspace("/notes", AccessScope::WriteOnly));
        for name in ["taken.py", "free.py"] {
            let written = blind.write(format!("/notes/{name}"), "x").unwrap();
            assert_eq!(written.path.as_str(), format!("/notes/code/{DAY}/{name}"));
            assert_eq!(written.created, None);
        }
        assert_eq!(host.rows().len(), 2);
    });
}

#[test]
fn w20_a_bare_name_that_was_just_written_is_found_again() {
    Host::each(|host| {
        let vfs = host.vfs();
        vfs.write("/notes/plan.md", "one").unwrap();
        host.advance_days(1);
        assert_eq!(vfs.read("/notes/plan.md").unwrap().bytes, b"one");
        vfs.edit("/notes/plan.md", "one", "two", Occurrences::One).unwrap();
        vfs.append("/notes/plan.md", " three").unwrap();
        let read = vfs.read("/notes/plan.md").unwrap();
        assert_eq!(
            (read.bytes.as_slice(), read.path.as_str()),
            (&b"two three"[..], &*format!("/notes/documents/{DAY}/plan.md"))
        );
        assert_eq!(host.rows().len(), 1, "an append to a file of yesterday makes no second one");
        // The newest one of two is found, and a name that no file has is missing.
        vfs.write("/notes/plan.md", "new").unwrap();
        assert_eq!(vfs.read("/notes/plan.md").unwrap().bytes, b"new");
        assert_eq!(vfs.read("/notes/other.md").unwrap_err().kind(), ErrorKind::NotFound);
        let blind = host.vfs_with(host.workspace("/notes", AccessScope::WriteOnly));
        assert_eq!(blind.read("/notes/plan.md").unwrap_err().kind(), ErrorKind::Denied);
    });
}

#[test]
fn w21_a_path_never_leaves_the_workspace() {
    Host::each(|host| {
        for path in ["/notes/../../../etc/passwd", "../../../etc/passwd", "/notes/../etc/passwd"] {
            assert!(host.vfs().write(path, "x").is_err(), "{path}");
        }
        assert!(host.rows().is_empty());
    });
}

#[test]
fn w22_names_that_are_none_are_refused() {
    Host::each(|host| {
        let above = (ErrorKind::Denied, "`/` contains only Workspaces, no files; use a path in one of them");
        let itself = (ErrorKind::Invalid, "`/notes` is a directory; list it instead, or name a file in it");
        for (path, expected) in [
            ("/notes/..", above),
            ("/notes/a/../..", above),
            ("", above),
            ("/", above),
            ("/notes/.", itself),
            ("/notes", itself),
        ] {
            let error = host.vfs().write(path, "x").unwrap_err();
            assert_eq!((error.kind(), &*error.to_string()), expected, "{path:?}");
        }
        assert!(host.rows().is_empty());
    });
}

#[test]
fn w23_nul_control_characters_and_backslashes_are_refused() {
    Host::each(|host| {
        for name in ["a\0b", "a\nb.py", "a\u{7f}", "a\\b.py"] {
            assert_eq!(
                host.vfs().write(format!("/notes/{name}"), "x").unwrap_err().kind(),
                ErrorKind::Invalid
            );
        }
        assert!(host.rows().is_empty());
    });
}

#[test]
fn w24_the_same_name_overwrites_on_the_same_day_and_makes_a_second_file_on_the_next() {
    Host::each(|host| {
        let vfs = host.vfs();
        let path = vfs.write("/notes/a.py", "1").unwrap().path;
        let files = host.files();
        let tags = stead_core::managed::Tags::parse(["keep"]).unwrap();
        files.tag(&path, stead_core::managed::TagMode::Add, &tags).unwrap();
        let before = files.info(&path).unwrap().file;
        vfs.write("/notes/a.py", "22").unwrap();
        let after = files.info(&path).unwrap().file;
        assert_eq!((after.id, &after.tags, after.size), (before.id, &tags, 2));
        host.advance_days(1);
        vfs.write("/notes/a.py", "3").unwrap();
        assert_eq!(host.rows(), [format!("code/{DAY}/a.py"), "code/2026-02-28/a.py".to_owned()]);
    });
}

#[test]
fn w25_a_sibling_directory_with_a_similar_name_is_not_managed() {
    Host::each(|host| {
        let mount = |path: &str| Mount::at(Arc::clone(&host.store), &VfsPath::parse(path).unwrap());
        let workspace =
            |path: &str| Workspace::new(VfsPath::parse(path).unwrap(), AccessScope::ReadWrite, mount(path));
        let builder = host.builder("coder").workspace(workspace("/workspace").with_managed(Ttl::default()));
        let vfs = builder.workspace(workspace("/workspace2")).build().unwrap();
        assert_eq!(vfs.write("/workspace2/code/x", "x").unwrap().category, None);
        assert_eq!(vfs.write("/workspace2/y.py", "x").unwrap().path.as_str(), "/workspace2/y.py");
        assert!(host.rows().is_empty());
        vfs.write("/workspace/code/x", "x").unwrap();
        assert_eq!(host.rows(), ["code/x"]);
    });
}

/// A stead with the managed Workspace `/notes`, and `/other`, which isn't managed, in two directories of one Store.
fn managed_beside_other(host: &Host) -> Vfs {
    let mount = |path: &str| Mount::at(Arc::clone(&host.store), &VfsPath::parse(path).unwrap());
    let workspace =
        |path: &str| Workspace::new(VfsPath::parse(path).unwrap(), AccessScope::ReadWrite, mount(path));
    let builder = host.builder("coder").workspace(workspace("/notes").with_managed(Ttl::default()));
    builder.workspace(workspace("/other")).build().unwrap()
}

#[test]
fn w26_a_symlink_that_leads_out_of_the_workspace_is_not_followed() {
    Host::each(|host| {
        let vfs = managed_beside_other(host);
        vfs.write("/other/target.txt", "outside").unwrap();
        vfs.symlink("/notes/code/link.py", "/other/target.txt").unwrap();
        vfs.symlink("/notes/code/host.py", "/etc/passwd").unwrap();
        for link in ["/notes/code/link.py", "/notes/code/host.py"] {
            assert!(vfs.write(link, "changed").is_err(), "{link}");
            assert!(vfs.read(link).is_err(), "{link}");
        }
        let files = vfs.managed(None).unwrap();
        assert_eq!(files.sync().unwrap().counts, Default::default());
        assert!(host.rows().is_empty(), "a symlink has no row");
        files.delete("/notes/code/link.py").unwrap();
        assert_eq!(vfs.read("/other/target.txt").unwrap().bytes, b"outside");
        vfs.remove_file("/notes/code/host.py", RemoveOptions::default()).unwrap();
    });
}

#[test]
fn w26_a_symlink_to_a_directory_outside_is_not_followed_to_the_files_below_it() {
    Host::each(|host| {
        let vfs = managed_beside_other(host);
        vfs.write("/other/dir/old", "outside").unwrap();
        let mut links = vec!["/notes/code/dir", "/notes/temp/dir"];
        for link in &links {
            vfs.symlink(*link, "/other/dir").unwrap();
        }
        let outside = host.directory.path().join("outside");
        if host.kind == Kind::Physical {
            std::fs::create_dir(&outside).unwrap();
            std::fs::write(outside.join("old"), "outside").unwrap();
            let made_on_host = [
                ("notes/temp/relative", PathBuf::from("../../other/dir")),
                ("notes/temp/absolute", outside.clone()),
            ];
            for (link, target) in made_on_host {
                std::os::unix::fs::symlink(target, host.on_disk(link)).unwrap();
            }
            links.extend(["/notes/temp/relative", "/notes/temp/absolute"]);
        }
        let files = vfs.managed(Some("/notes")).unwrap();
        let target = MoveTarget { category: Some(Category::Data), name: None };
        for link in &links {
            let (old, new) = (format!("{link}/old"), format!("{link}/new"));
            assert!(vfs.read(&old).is_err(), "{old}");
            assert!(vfs.write(&old, "changed").is_err() && vfs.write(&new, "new").is_err(), "{old}");
            assert!(vfs.append(&old, "changed").is_err(), "{old}");
            assert!(vfs.remove_file(&old, RemoveOptions::default()).is_err(), "{old}");
            assert!(files.delete(&old).is_err() && files.move_file(&old, target).is_err(), "{old}");
            assert!(files.info(&old).is_err(), "{old}");
        }
        assert_eq!(files.sync().unwrap().counts, Default::default());
        assert!(host.rows().is_empty());
        // Rows that a crash has left: what a row names isn't looked for behind a symlink.
        let conn = rusqlite::Connection::open(host.directory.path().join("stead.db")).unwrap();
        for link in &links {
            let path = format!("{}/old", link.strip_prefix("/notes/").unwrap());
            let row = "INSERT INTO workspace_files(workspace, path, category, size_bytes, created_at, modified_at, since)
                       SELECT workspace, ?1, 'temp', 7, '2020-01-01T00:00:00.000Z', '2020-01-01T00:00:00.000Z', 0
                       FROM managed_workspace";
            assert_eq!(conn.execute(row, [path]).unwrap(), 1);
        }
        host.advance_days(100);
        let run = files.cleanup(&CleanupOptions::default()).unwrap().run;
        assert_eq!((run.removed, &*run.errors), (0, &[][..]));
        assert!(files.sync().unwrap().counts.added == 0 && host.rows().is_empty());
        let names = vfs.list("/other/dir", &ListPage::all()).unwrap();
        assert_eq!(names.entries.iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>(), ["old"]);
        assert_eq!(vfs.read("/other/dir/old").unwrap().bytes, b"outside");
        if host.kind == Kind::Physical {
            assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
            assert_eq!(std::fs::read(outside.join("old")).unwrap(), b"outside");
        }
    });
}

#[test]
fn w27_a_root_that_is_reached_through_a_symlink_is_the_same_workspace() {
    let host = Host::new(Kind::Physical);
    host.vfs().write("/notes/a.py", "x").unwrap();
    std::os::unix::fs::symlink("files", host.directory.path().join("link")).unwrap();
    let ledger = host.database.clone();
    let ledger = stead_stores::LedgerSource::new(host.database.id(), move |_| Ok(Some(ledger.clone())));
    let state = host.directory.path().join("state");
    let options = stead_stores::PhysicalOptions { ledger, ..stead_stores::PhysicalOptions::new(state) };
    let store = stead_stores::PhysicalStore::open(host.directory.path().join("link"), options).unwrap();
    let mount = Mount::new(Arc::new(store));
    let workspace = Workspace::new(VfsPath::parse("/notes").unwrap(), AccessScope::ReadWrite, mount);
    let vfs = host.vfs_with(workspace.with_managed(Ttl::default()));
    vfs.write("/notes/b.py", "x").unwrap();
    assert_eq!(vfs.read("/notes/a.py").unwrap().bytes, b"x");
    assert_eq!(host.rows(), [format!("code/{DAY}/a.py"), format!("code/{DAY}/b.py")]);
    assert_eq!(host.query("SELECT count(DISTINCT workspace) FROM workspace_files"), ["1"]);
}
