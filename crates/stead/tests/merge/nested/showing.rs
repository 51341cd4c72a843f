//! What a fork shows of nested Workspaces, and what it never shows.

use stead::search::GrepQuery;
use stead::vfs::{GlobQuery, ListPage, LogQuery, Overwrite, RemoveOptions};
use stead::{ApprovalPolicy, ErrorKind};
use stead_core::vfs::node_api::DirectoryRef;

use super::*;

for_each_store! {
    fn g1_a_fork_shows_exactly_what_its_maker_sees_and_nested_workspaces_keep_their_scopes(store) {
        let project = project(store);
        let stead = draft(&project);
        let expected = [
            "/asks READ_WRITE", "/docs READ_ONLY", "/lib READ_WRITE", "/lib/deep READ_ONLY", "/same READ_WRITE",
        ];
        for stead in [stead, project.open("coder")] {
            assert_eq!(parts(&stead, "draft"), expected);
            assert_eq!(contents(&stead, "/forks/draft"), contents(&stead, "/code"));
            let text = read(&stead, "/forks/draft/lib/deep/d.txt");
            assert_eq!((&*text, &*read(&stead, "/forks/draft/same/s.txt")), ("deep\n", "1\n2\n3\n4\n5\n"));
            // A READ_ONLY one can't be changed, a READ_WRITE one can.
            for path in ["/forks/draft/docs/guide.md", "/forks/draft/lib/deep/d.txt", "/forks/draft/docs/new"] {
                let error = stead.vfs().write(path, "x").unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
                assert!(error.to_string().contains("READ_ONLY"), "{error}");
            }
            write(&stead, "/forks/draft/lib/new", "n\n");
            // The rules of a nested Workspace go along.
            let protected = stead.vfs().write("/forks/draft/lib/locked", "x").unwrap_err();
            assert!(protected.to_string().contains("protected"), "{protected}");
            assert!(!exists(&stead, "/forks/draft/lib/hidden.txt"));
            let asked = stead.vfs().read("/forks/draft/asks/q.txt").unwrap_err();
            assert_eq!(asked.kind(), ErrorKind::Denied, "{asked}");
            assert_eq!(read(&stead.with_approval(), "/forks/draft/asks/q.txt"), "question\n");
            let policy = |prefix: &str| {
                let found = stead.vfs().workspaces().find(|workspace| workspace.prefix().as_str() == prefix);
                found.unwrap().approval_policy()
            };
            assert_eq!(policy("/forks/draft/asks"), ApprovalPolicy::Everything);
            assert_eq!(policy("/forks/draft/lib"), ApprovalPolicy::Never);
            remove(&stead, "/forks/draft/lib/new");
        }
    }
}

for_each_store! {
    fn g1_nothing_written_in_a_fork_reaches_a_live_store(store) {
        let project = project(store);
        let before = everything(&project);
        let stead = draft(&project).with_approval();
        let vfs = stead.vfs();
        write(&stead, "/forks/draft/a.txt", "changed\n");
        write(&stead, "/forks/draft/lib/l.txt", "changed\n");
        write(&stead, "/forks/draft/same/s.txt", "changed\n");
        write(&stead, "/forks/draft/asks/q.txt", "changed\n");
        write(&stead, "/forks/draft/lib/sub/new", "n\n");
        rename(&stead, "/forks/draft/lib/sub", "/forks/draft/lib/moved");
        // Across parts, as across Workspaces.
        vfs.rename("/forks/draft/src/b.txt", "/forks/draft/lib/b.txt", Overwrite::Refuse).unwrap();
        vfs.copy("/forks/draft/docs", "/forks/draft/same/docs", Overwrite::Refuse).unwrap();
        remove(&stead, "/forks/draft/lib/moved/m.txt");
        assert_eq!(everything(&project), before);
        let again = project.open("coder");
        assert_eq!(read(&again, "/forks/draft/lib/l.txt"), "changed\n");
        assert_eq!(read(&again, "/forks/draft/same/docs/guide.md"), "guide\n");
        assert_eq!(contents(&again, "/code"), contents(&project.open("coder"), "/code"));
        // Undo in the fork stays in the fork, too.
        vfs.undo(stead_core::vfs::UndoTarget::Last(1), stead_core::vfs::UndoOptions::default()).unwrap();
        assert_eq!(everything(&project), before);
    }
}

for_each_store! {
    fn g1_a_write_only_workspace_is_absent_from_a_fork(store) {
        let project = project(store);
        let live = project.open("coder");
        let answers = |stead: &Stead, prefix: &str| {
            let vfs = stead.vfs();
            let error = |path: &str| vfs.stat(format!("{prefix}/{path}")).unwrap_err().to_string();
            let log = LogQuery { path: Some(prefix.try_into().unwrap()), ..LogQuery::default() };
            let removed = RemoveOptions { recursive: true, force: true, if_match: None };
            [
                format!("{:?}", vfs.list(prefix, &ListPage::all()).unwrap()),
                format!("{:?}", vfs.list(format!("{prefix}/lib"), &ListPage::all()).unwrap()),
                format!("{:?}", vfs.walk(prefix, &WalkQuery::default()).unwrap()),
                format!("{:?}", vfs.grep(&GrepQuery::new("."), prefix).unwrap()),
                format!("{:?}", vfs.glob(&GlobQuery::new("**"), prefix).unwrap()),
                format!("{:?}", vfs.log(&log).map_err(|error| error.to_string())),
                format!("{:?}", vfs.stat(prefix).unwrap()),
                format!("{:?}", vfs.remove_directory(prefix, removed).map_err(|error| error.to_string())),
                error("nothing"),
                error("canar"),
                error("lib/hidden-by-nobody"),
            ]
        };
        assert!(answers(&live, "/code").join("").contains("canary-inbox"), "the live Workspace is listed");
        let stead = draft(&project);
        let stead = stead.fork("/forks/draft", "second").unwrap();
        for prefix in ["/forks/draft", "/forks/second"] {
            for answer in answers(&stead, prefix) {
                assert!(!answer.contains("canary"), "{answer}");
            }
            for path in ["canary-inbox", "canary-inbox/canary-behind", "canary-inbox/new"] {
                let path = format!("{prefix}/{path}");
                assert_eq!(stead.vfs().stat(&*path).unwrap_err().kind(), ErrorKind::Denied);
                assert_eq!(stead.vfs().write(&*path, "x").unwrap_err().kind(), ErrorKind::Denied);
            }
        }
        // Also as a mounted file system lists it.
        let api = stead_core::vfs::node_api::NodeApi::new(stead.vfs());
        let top = DirectoryRef { path: "/forks/draft".try_into().unwrap(), node: None };
        let page = api.list(&top, 1000).unwrap();
        let names: Vec<String> = page.entries.iter().map(|(name, _)| name.to_string()).collect();
        assert!(names.contains(&"lib".to_owned()), "{names:?}");
        assert!(!names.iter().any(|name| name.contains("canary")), "{names:?}");
    }
}

for_each_store! {
    fn g1_a_fork_is_made_in_constant_time_with_one_write_for_each_nested_workspace(store) {
        let project = project(store);
        let owner = project.open("owner");
        let coder = project.open("coder");
        let rows = || {
            let database = rusqlite::Connection::open(project.directory.path().join(".stead/stead.db")).unwrap();
            let tables = ["entry", "volume", "fork", "fork_part", "taken_name", "content"];
            let count = |table: &str| {
                database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0)).unwrap()
            };
            tables.map(count)
        };
        let difference = |before: [i64; 6], after: [i64; 6]| -> Vec<i64> {
            before.iter().zip(after).map(|(before, after)| after - before).collect()
        };
        let (before, stead) = (rows(), coder.fork("/code", "small").unwrap());
        let small = difference(before, rows());
        for file in 0..200 {
            write(&owner, &format!("/lib/many/{file}"), "x");
            write(&owner, &format!("/code/main/many/{file}"), "x");
        }
        let before = rows();
        let stead = stead.fork("/code", "large").unwrap();
        assert_eq!(difference(before, rows()), small);
        assert_eq!(read(&stead, "/forks/large/lib/many/7"), "x");
    }
}

for_each_store! {
    fn g1_a_fork_of_a_fork_has_the_parts_of_the_first_one(store) {
        let project = project(store);
        let stead = draft(&project);
        write(&stead, "/forks/draft/lib/l.txt", "first\n");
        let stead = stead.fork("/forks/draft", "second").unwrap();
        assert_eq!(parts(&stead, "second"), parts(&stead, "draft"));
        assert_eq!(contents(&stead, "/forks/second"), contents(&stead, "/forks/draft"));
        write(&stead, "/forks/second/lib/l.txt", "second\n");
        assert_eq!(read(&stead, "/forks/draft/lib/l.txt"), "first\n");
        assert!(stead.vfs().write("/forks/second/docs/guide.md", "x").is_err());
        // Its changes come into the first fork, and from there to the Workspaces.
        assert_eq!(changed(&merge_clean(&stead, "second")), ["/forks/draft/lib/l.txt"]);
        assert_eq!(read(&stead, "/forks/draft/lib/l.txt"), "second\n");
        assert_eq!(read(&stead, "/code/lib/l.txt"), "1\n2\n3\n4\n5\n");
        assert_eq!(changed(&merge_clean(&stead, "draft")), ["/code/lib/l.txt"]);
        assert_eq!(read(&stead, "/code/lib/l.txt"), "second\n");
        // It keeps its parts when the first one is discarded.
        let (shown, listed) = (contents(&stead, "/forks/second"), parts(&stead, "second"));
        let stead = stead.with_approval().discard("draft").unwrap();
        assert_eq!(contents(&stead, "/forks/second"), shown);
        assert_eq!(parts(&stead, "second"), listed);
    }
}

for_each_store! {
    fn g1_a_pinned_fork_shows_no_later_change_of_a_nested_workspace(store) {
        let project = project(store);
        let coder = project.open("coder");
        let stead = coder.fork("/code", "live").unwrap().fork_pinned("/code", "pinned").unwrap();
        let before = contents(&stead, "/code");
        for host in [project.host("main/a.txt"), project.directory.path().join("host-lib/l.txt")] {
            if host.exists() {
                std::fs::write(host, "by a program\n").unwrap();
            }
        }
        assert_eq!(contents(&stead, "/forks/pinned"), before);
        assert_eq!(contents(&project.open("coder"), "/forks/pinned"), before);
        assert_eq!(contents(&stead, "/forks/live"), contents(&stead, "/code"), "what is live is live");
        assert_ne!(contents(&stead, "/code"), before);
    }
}

for_each_store! {
    fn g1_discarding_a_fork_gives_back_all_its_parts(store) {
        let project = project(store);
        let count = |table: &str| {
            let database = rusqlite::Connection::open(project.directory.path().join(".stead/stead.db")).unwrap();
            let sql = format!("SELECT count(*) FROM {table}");
            database.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
        };
        let tables = ["volume", "fork", "fork_part", "fork_sync", "overlay", "taken_name", "entry"];
        let stead = project.open("coder");
        drop(everything(&project));
        let before = tables.map(count);
        let stead = stead.fork("/code", "draft").unwrap();
        write(&stead, "/forks/draft/a.txt", "changed\n");
        write(&stead, "/forks/draft/lib/l.txt", "changed\n");
        write(&stead, "/forks/draft/same/s.txt", "changed\n");
        assert_ne!(tables.map(count), before);
        let stead = stead.with_approval().discard("draft").unwrap();
        assert_eq!(tables.map(count), before);
        assert_eq!(stead.vfs().workspaces().filter(|it| it.prefix().as_str().starts_with("/forks")).count(), 0);
        assert!(!format!("{:?}", stead.vfs().router()).contains("/forks/draft"));
        // The name is free again, with the parts as they are now.
        let stead = stead.fork("/code", "draft").unwrap();
        assert_eq!(contents(&stead, "/forks/draft"), contents(&stead, "/code"));
    }
}

#[test]
fn g1_a_workspace_over_a_memory_store_is_forked_too_and_is_a_barrier_after_the_process_ends() {
    let text = configuration(TargetStore::Virtual)
        .replace("[stores.lib]", "[stores.mem]\nkind = \"memory\"\n[stores.lib]");
    let text = format!(
        "{text}\n[[agents.coder.workspaces]]\nprefix = \"/code/mem\"\nscope = \"rw\"\nstore = \"mem\"\n"
    );
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("host-lib")).unwrap();
    let config = Config::parse(&text, &directory.path().join("stead.toml")).unwrap();
    let stead = Stead::open(&config, "coder").unwrap();
    seed(&Stead::open(&config, "owner").unwrap());
    write(&Stead::open(&config, "owner").unwrap(), "/code/main/mem/canary-behind", "canary-content\n");
    write(&stead, "/code/mem/x", "1\n");
    let stead = stead.fork("/code", "draft").unwrap();
    write(&stead, "/forks/draft/mem/x", "2\n");
    assert_eq!(read(&stead, "/code/mem/x"), "1\n");
    merge_clean(&stead, "draft");
    assert_eq!(read(&stead, "/code/mem/x"), "2\n");
    // Another process has another Memory Store. What the fork's own volume has at that place isn't shown instead.
    let again = Stead::open(&config, "coder").unwrap();
    assert_eq!(again.vfs().stat("/forks/draft/mem").unwrap_err().kind(), ErrorKind::Denied);
    assert!(!format!("{:?}", again.vfs().walk("/forks", &WalkQuery::default()).unwrap()).contains("canary"));
    stead.with_approval().discard("draft").unwrap();
}
