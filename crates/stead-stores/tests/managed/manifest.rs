//! The rows of the manifest, read with plain SQL and through the port.

use std::sync::Arc;

use stead_core::managed::{FileFilter, TagMode, Tags, Ttl};
use stead_core::vfs::managed::{CleanupOptions, DeletedFile, FilePage, MoveTarget};
use stead_core::vfs::{ByteRange, LineRange, OpenOptions, Overwrite, RemoveOptions};
use stead_core::{AccessScope, ErrorKind, Identity, Mount, Occurrences, Vfs, VfsPath, Workspace};

use stead_stores::Audit;

use crate::host::{DAY, Host, Kind, listed};

#[test]
fn w28_the_table_has_the_columns_of_the_seed_and_one_row_for_each_workspace_and_path() {
    Host::each(|host| {
        host.vfs().write("/notes/a.py", "x").unwrap();
        let columns = host.query("SELECT name FROM pragma_table_info('workspace_files')");
        for column in [
            "id",
            "path",
            "category",
            "original_name",
            "size_bytes",
            "source_tool",
            "tags",
            "created_at",
            "accessed_at",
            "session_key",
            "workspace",
            "modified_at",
        ] {
            assert!(columns.iter().any(|name| name == column), "{column}");
        }
        // Another agent on the same Mount shares the row; nested managed Mounts have their own.
        let other = host
            .builder("reviewer")
            .workspace(host.workspace("/shared", AccessScope::ReadWrite))
            .build()
            .unwrap();
        other.write(format!("/shared/code/{DAY}/a.py"), "yy").unwrap();
        assert_eq!(host.rows(), [format!("code/{DAY}/a.py")]);
        let inner = Mount::at(Arc::clone(&host.store), &VfsPath::parse("/code/inner").unwrap());
        let inner = Workspace::new(VfsPath::parse("/inner").unwrap(), AccessScope::ReadWrite, inner)
            .with_managed(Ttl::default());
        let vfs = host.builder("coder").workspace(inner).build().unwrap();
        vfs.write("/inner/b.py", "x").unwrap();
        let rows = host.query("SELECT workspace || ' ' || path FROM workspace_files ORDER BY id");
        assert!(rows[1].ends_with(&format!(":/code/inner code/{DAY}/b.py")), "{rows:?}");
        let conn = rusqlite::Connection::open(host.directory.path().join("stead.db")).unwrap();
        let twice = "INSERT INTO workspace_files(workspace, path, category, size_bytes, created_at, modified_at, since)
                     SELECT workspace, path, category, 0, '', '', 0 FROM workspace_files";
        match conn.execute(twice, []).unwrap_err() {
            rusqlite::Error::SqliteFailure(code, Some(message)) => {
                assert_eq!(code.extended_code, rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE, "{message}");
                let columns = "workspace_files.workspace, workspace_files.path";
                assert!(message.ends_with(columns), "{message}");
            }
            other => panic!("(workspace, path) is unique: {other}"),
        }
    });
}

#[test]
fn w28_a_write_through_an_outer_workspace_makes_a_row_of_the_innermost_one() {
    Host::each(|host| {
        let rows = || host.query("SELECT workspace || ' ' || path FROM workspace_files ORDER BY id");
        let (outer, path) = (host.vfs(), "/notes/code/inner/data/x.csv");
        outer.write("/notes/code/inner/data/before.csv", "x").unwrap();
        assert!(rows()[0].ends_with(":/ code/inner/data/before.csv"), "{:?}", rows());
        let inner = Mount::at(Arc::clone(&host.store), &VfsPath::parse("/code/inner").unwrap());
        let inner = Workspace::new(VfsPath::parse("/inner").unwrap(), AccessScope::ReadWrite, inner)
            .with_managed(Ttl::default());
        let inner = host.vfs_with(inner).managed(None).unwrap();
        inner.sync().unwrap();
        outer.write(path, "1").unwrap();
        outer.write("/notes/code/inner/x.csv", "outside of a category of the inner Workspace").unwrap();
        for (row, name) in rows().iter().zip(["before", "x"]) {
            assert!(row.ends_with(&format!(":/code/inner data/{name}.csv")), "{row}");
        }
        assert_eq!(rows().len(), 2, "{:?}", rows());
        assert_eq!(listed(&inner), ["data/x.csv", "data/before.csv"]);
        assert!(listed(&host.files()).is_empty());
        outer.write(path, "22").unwrap();
        assert_eq!(inner.info("/inner/data/x.csv").unwrap().file.size, 2);
        outer.remove_file(path, RemoveOptions::default()).unwrap();
        assert_eq!(rows().len(), 1);
    });
}

#[test]
fn w29_paths_are_relative_with_slashes() {
    Host::each(|host| {
        host.vfs().write("/notes/data/deep/er/x.csv", "x").unwrap();
        assert_eq!(host.rows(), ["data/deep/er/x.csv"]);
    });
}

#[test]
fn w30_a_row_has_category_name_size_tool_time_and_session() {
    Host::each(|host| {
        host.vfs().operation("write_file").write("/notes/a.py", "four").unwrap();
        let sql = "SELECT category || '|' || original_name || '|' || size_bytes || '|' || source_tool || '|' || created_at
                   || '|' || session_key FROM workspace_files";
        assert_eq!(host.query(sql), [format!("code|a.py|4|write_file|{DAY}T12:00:00.000Z|coder")]);
    });
}

#[test]
fn w31_the_original_name_stays_after_routing_and_moving() {
    Host::each(|host| {
        let path = host.vfs().write("/notes/a.py", "x").unwrap().path;
        let target = MoveTarget { name: Some("b.py"), ..MoveTarget::default() };
        let moved = host.files().move_file(&path, target).unwrap();
        host.vfs().rename(&moved.to, "/notes/data/c.py", Overwrite::Refuse).unwrap();
        assert_eq!(
            host.query("SELECT path || ' ' || original_name FROM workspace_files"),
            ["data/c.py a.py"]
        );
        assert_eq!(host.vfs().read("/notes/a.py").unwrap().path.as_str(), "/notes/data/c.py");
    });
}

#[test]
fn w32_the_session_is_that_of_the_caller() {
    Host::each(|host| {
        let identity = Identity::agent("coder").with_thread("review-12");
        let workspace = host.workspace("/notes", AccessScope::ReadWrite);
        Vfs::builder(identity).workspace(workspace).build().unwrap().write("/notes/a.py", "x").unwrap();
        assert_eq!(host.query("SELECT session_key FROM workspace_files"), ["coder/review-12"]);
    });
}

#[test]
fn w33_all_times_have_one_format() {
    Host::each(|host| {
        let vfs = host.vfs();
        vfs.write("/notes/a.py", "x").unwrap();
        vfs.read("/notes/a.py").unwrap();
        listed(&host.files());
        for column in ["created_at", "modified_at", "accessed_at"] {
            let text = &host.query(&format!("SELECT {column} FROM workspace_files"))[0];
            assert_eq!(text, &format!("{DAY}T12:00:00.000Z"), "{column}");
        }
    });
}

#[test]
fn w34_reading_sets_the_time_of_access_which_is_null_before() {
    type Read = fn(&Vfs, &VfsPath);
    let reads: [(&str, Read); 6] = [
        ("read", |vfs, path| drop(vfs.read(path).unwrap())),
        ("read_range", |vfs, path| drop(vfs.read_range(path, ByteRange { offset: 0, length: 1 }).unwrap())),
        ("read_lines", |vfs, path| drop(vfs.read_lines(path, LineRange::default()).unwrap())),
        ("read_text_range", |vfs, path| {
            drop(vfs.read_text_range(path, ByteRange { offset: 0, length: 1 }).unwrap());
        }),
        ("reader", |vfs, path| drop(vfs.reader(path).unwrap())),
        ("open", |vfs, path| drop(vfs.open(path, OpenOptions::read()).unwrap())),
    ];
    Host::each(|host| {
        let path = host.vfs().write("/notes/a.py", "x").unwrap().path;
        let files = host.files();
        let accessed = || files.info(&path).unwrap().file.accessed_at;
        assert_eq!(host.query("SELECT accessed_at FROM workspace_files"), ["NULL"]);
        // Neither a list nor a look at the attributes is a read, and a read that is refused is none either.
        host.vfs().stat(&path).unwrap();
        assert!(host.vfs_with(host.workspace("/notes", AccessScope::WriteOnly)).read(&path).is_err());
        assert_eq!(accessed(), None);
        for (name, read) in reads {
            host.advance_days(1);
            read(&host.vfs(), &path);
            assert_eq!(accessed(), Some(host.now()), "{name}");
        }
    });
}

#[test]
fn w34_the_time_of_access_is_written_with_the_audit_of_reads() {
    for kind in [Kind::Virtual, Kind::Physical] {
        let mut host = Host::new(kind);
        let audit = Audit::open(&host.database, &host.directory.path().join("audit")).unwrap();
        let workspace = host.workspace("/notes", AccessScope::ReadWrite);
        let vfs = host.builder("coder").workspace(workspace).audit(audit).build().unwrap();
        let path = vfs.write("/notes/a.py", "x").unwrap().path;
        let writes = host.query("SELECT max(id) FROM revision");
        vfs.read(&path).unwrap();
        assert_eq!(host.query("SELECT max(id) FROM revision"), writes, "a read makes no revision");
        // The audit is at rest once everything is closed. Nothing has asked for the manifest since the read.
        let now = host.now();
        drop(vfs);
        host.reopen();
        assert_eq!(host.query("SELECT accessed_at FROM workspace_files"), [now.to_string()]);
    }
}

#[test]
fn w34_the_time_of_access_lags_a_moment_and_nobody_has_to_ask_for_it() {
    Host::each(|host| {
        let audit = Audit::open(&host.database, &host.directory.path().join("audit")).unwrap();
        let workspace = host.workspace("/notes", AccessScope::ReadWrite);
        let vfs = host.builder("coder").workspace(workspace).audit(audit).build().unwrap();
        let path = vfs.write("/notes/a.py", "x").unwrap().path;
        vfs.read(&path).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while host.query("SELECT accessed_at FROM workspace_files") == ["NULL"] {
            assert!(std::time::Instant::now() < deadline, "the time of access isn't written");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert_eq!(host.query("SELECT accessed_at FROM workspace_files"), [host.now().to_string()]);
    });
}

#[test]
fn w35_reading_an_untracked_file_makes_no_row() {
    Host::each(|host| {
        host.vfs().write("/notes/memory/x.md", "x").unwrap();
        host.vfs().read("/notes/memory/x.md").unwrap();
        assert!(listed(&host.files()).is_empty() && host.rows().is_empty());
    });
    // A file of a category that another program has made, before sync finds it.
    let host = Host::new(Kind::Physical);
    host.files().sync().unwrap();
    std::fs::create_dir(host.on_disk("code")).unwrap();
    std::fs::write(host.on_disk("code/x.py"), "x").unwrap();
    host.vfs().read("/notes/code/x.py").unwrap();
    assert!(listed(&host.files()).is_empty() && host.rows().is_empty());
}

#[test]
fn w36_writing_again_updates_size_and_tool_and_keeps_the_rest() {
    Host::each(|host| {
        let path = host.vfs().operation("first").write("/notes/a.py", "1").unwrap().path;
        let files = host.files();
        host.vfs().read(&path).unwrap();
        files.tag(&path, Default::default(), &Tags::parse(["keep"]).unwrap()).unwrap();
        let before = files.info(&path).unwrap().file;
        host.vfs().operation("second").write(&path, "three").unwrap();
        let after = files.info(&path).unwrap().file;
        assert_eq!((after.size, after.source_tool.as_deref()), (5, Some("second")));
        assert_eq!((after.id, &after.tags, after.accessed_at), (before.id, &before.tags, before.accessed_at));
        assert_eq!(host.rows().len(), 1);
    });
}

#[test]
fn w37_editing_updates_size_and_age() {
    Host::each(|host| {
        let path = host.vfs().write("/notes/a.py", "one").unwrap().path;
        host.advance_days(3);
        host.vfs().edit(&path, "one", "longer", Occurrences::One).unwrap();
        let file = host.files().info(&path).unwrap().file;
        assert_eq!((file.size, file.modified_at), (6, host.now()));
        assert!(file.created_at < file.modified_at);
        host.vfs().append(&path, "!").unwrap();
        assert_eq!(host.files().info(&path).unwrap().file.size, 7);
    });
}

#[test]
fn w38_files_outside_category_directories_have_no_rows() {
    Host::each(|host| {
        for path in
            ["/notes/AGENTS.md", "/notes/drafts/x.py", "/notes/drafts/code/x.py", "/notes/memory/code/x.py"]
        {
            host.vfs().write(path, "x").unwrap();
        }
        assert!(host.rows().is_empty());
        // Moved in, it gets one; moved out again, it loses it.
        host.vfs().rename("/notes/drafts/x.py", "/notes/code/x.py", Overwrite::Refuse).unwrap();
        assert_eq!(host.rows(), ["code/x.py"]);
        host.vfs().rename("/notes/code/x.py", "/notes/drafts/x.py", Overwrite::Refuse).unwrap();
        assert!(host.rows().is_empty());
    });
}

#[test]
fn w39_deleting_removes_the_row_whatever_deletes_the_file() {
    Host::each(|host| {
        let vfs = host.vfs();
        let path = vfs.write("/notes/a.py", "x").unwrap().path;
        vfs.remove_file(&path, RemoveOptions::default()).unwrap();
        assert!(host.rows().is_empty());
        for name in ["b.py", "c.py"] {
            vfs.write(format!("/notes/{name}"), "x").unwrap();
        }
        vfs.remove_directory("/notes/code", RemoveOptions { recursive: true, ..RemoveOptions::default() })
            .unwrap();
        assert!(host.rows().is_empty());
    });
}

#[test]
fn w39_a_directory_that_moves_takes_its_rows_along() {
    Host::each(|host| {
        let vfs = host.vfs();
        for name in ["a.py", "b.py"] {
            vfs.write(format!("/notes/{name}"), "x").unwrap();
        }
        let ids = host.query("SELECT id FROM workspace_files ORDER BY id");
        vfs.rename(format!("/notes/code/{DAY}"), "/notes/data/old", Overwrite::Refuse).unwrap();
        assert_eq!(listed(&host.files()).len(), 2);
        assert_eq!(host.rows(), ["data/old/a.py", "data/old/b.py"]);
        assert_eq!(host.query("SELECT id FROM workspace_files ORDER BY id"), ids);
        assert_eq!(host.query("SELECT DISTINCT category FROM workspace_files"), ["data"]);
        // A copy of a directory is found, too.
        vfs.copy("/notes/data/old", "/notes/images/copy", Overwrite::Refuse).unwrap();
        assert_eq!(listed(&host.files()).len(), 4);
    });
}

#[test]
fn w45_without_a_database_files_are_moved_and_deleted_lists_are_empty_and_no_file_has_a_row() {
    let store = Arc::new(stead_core::testkit::ModelStore::new());
    let workspace =
        Workspace::new(VfsPath::parse("/notes").unwrap(), AccessScope::ReadWrite, Mount::new(store));
    let vfs = Vfs::builder(Identity::agent("coder"))
        .workspace(workspace.with_managed(Ttl::default()))
        .build()
        .unwrap();
    let written = vfs.write("/notes/a.py", "x").unwrap();
    assert!(written.path.as_str().starts_with("/notes/code/"), "routing needs no database");
    let files = vfs.managed(None).unwrap();
    let page = files.list(&FileFilter::default(), FilePage::default()).unwrap();
    assert!(page.files.is_empty() && page.total.count == 0);
    assert_eq!(files.sync().unwrap().counts, Default::default());
    assert_eq!(files.cleanup(&CleanupOptions::default()).unwrap().run.removed, 0);
    assert_eq!(files.last_cleanup().unwrap(), None);
    assert_eq!(files.tree().unwrap().len(), 1);
    // A file without a row is unknown to `info` and `tag`, as an untracked file is where there is a database.
    let new = Tags::parse(["new"]).unwrap();
    assert_eq!(files.info(&written.path).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(files.tag(&written.path, TagMode::Add, &new).unwrap_err().kind(), ErrorKind::NotFound);
    // Moving and deleting are about the file, which is there.
    let target = MoveTarget { name: Some("b.py"), category: None };
    let moved = files.move_file(&written.path, target).unwrap().to;
    assert_eq!(vfs.read(&moved).unwrap().bytes, b"x");
    assert!(matches!(files.delete(&moved).unwrap(), DeletedFile::Deleted(_)));
    assert!(!vfs.exists(&moved).unwrap());
    assert_eq!(files.delete(&moved).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn w46_a_workspace_that_is_not_managed_neither_routes_nor_tracks() {
    Host::each(|host| {
        let mount = Mount::new(Arc::clone(&host.store));
        let vfs =
            host.vfs_with(Workspace::new(VfsPath::parse("/notes").unwrap(), AccessScope::ReadWrite, mount));
        assert_eq!(vfs.write("/notes/a.py", "x").unwrap().path.as_str(), "/notes/a.py");
        assert_eq!(vfs.read("/notes/a.py").unwrap().bytes, b"x");
        assert!(vfs.managed(None).is_err());
        assert!(host.rows().is_empty());
    });
}

#[test]
fn w47_opening_twice_is_harmless() {
    for kind in [Kind::Virtual, Kind::Physical] {
        let mut host = Host::new(kind);
        host.vfs().write("/notes/a.py", "x").unwrap();
        let rows = host.rows();
        host.reopen();
        host.vfs().write("/notes/b.py", "x").unwrap();
        host.reopen();
        assert_eq!(host.rows().len(), rows.len() + 1);
        assert_eq!(listed(&host.files()).len(), 2);
    }
}

#[test]
fn w48_two_writers_of_one_path_end_with_one_row_and_an_intact_file() {
    Host::each(|host| {
        let contents = ["a".repeat(5_000), "b".repeat(7_000)];
        std::thread::scope(|scope| {
            for content in &contents {
                scope.spawn(move || {
                    for _ in 0..20 {
                        // A new stead each time: the guard against lost updates is not what is tested here.
                        while let Err(error) = host.vfs().write("/notes/race.py", content.as_str()) {
                            assert_eq!(error.kind(), stead_core::ErrorKind::Conflict, "{error}");
                        }
                    }
                });
            }
        });
        let read = host.vfs().read("/notes/race.py").unwrap();
        assert!(contents.iter().any(|content| content.as_bytes() == read.bytes));
        assert_eq!(host.query("SELECT size_bytes FROM workspace_files"), [read.size.to_string()]);
    });
}

#[test]
fn w92_an_earlier_version_shows_the_manifest_as_it_was() {
    let host = Host::new(Kind::Virtual);
    let vfs = host.vfs();
    let path = vfs.write("/notes/a.py", "1").unwrap().path;
    let first = vfs.revision_at("/notes", stead_core::vfs::PointInTime::Now).unwrap();
    host.files().tag(&path, Default::default(), &Tags::parse(["new"]).unwrap()).unwrap();
    vfs.write("/notes/b.py", "22").unwrap();
    vfs.remove_file(&path, RemoveOptions::default()).unwrap();
    let past = vfs.as_of(first).unwrap().managed(None).unwrap();
    assert_eq!(listed(&past), [format!("code/{DAY}/a.py")]);
    assert!(past.info(&path).unwrap().file.tags.is_empty());
    assert_eq!(listed(&host.files()), [format!("code/{DAY}/b.py")]);
}

#[test]
fn w30_w32_and_w35_a_copied_directory_has_its_rows_with_the_change_that_copied_it() {
    Host::each(|host| {
        let vfs = host.vfs();
        for path in ["/notes/drafts/a.py", "/notes/drafts/deep/er/b.md"] {
            vfs.write(path, path).unwrap();
        }
        // A list syncs, so that nothing is left to it.
        listed(&host.files());
        for to in ["/notes/data/copy", "/notes/temp"] {
            vfs.operation("cp").copy("/notes/drafts", to, Overwrite::Refuse).unwrap();
        }
        vfs.operation("cp").copy("/notes/drafts", "/notes/memory/copy", Overwrite::Refuse).unwrap();
        let row = "path || ' ' || category || ' ' || original_name || ' ' || size_bytes || ' ' || source_tool || ' ' || session_key";
        assert_eq!(
            host.query(&format!("SELECT {row} FROM workspace_files ORDER BY path")),
            [
                "data/copy/a.py data a.py 18 cp coder",
                "data/copy/deep/er/b.md data b.md 26 cp coder",
                "temp/a.py temp a.py 18 cp coder",
                "temp/deep/er/b.md temp b.md 26 cp coder",
            ]
        );
        assert_eq!(host.query("SELECT max(unsynced) FROM managed_workspace"), ["0"]);
        assert!(host.files().sync().unwrap().counts.is_empty());
    });
}
