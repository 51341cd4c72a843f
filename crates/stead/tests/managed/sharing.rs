//! Several Workspaces on one managed directory, and what a Store keeps of the files that a cleanup removes.

use std::sync::Arc;
use std::time::Duration;

use stead::managed::CleanupRun;
use stead::vfs::managed::CleanupOptions;
use stead::{Clock, Identity, SystemClock};
use stead_core::clock::FixedClock;

use super::*;

/// A workspace of an agent.
fn workspace(agent: &str, store: &str, rest: &str) -> String {
    format!("[[agents.{agent}.workspaces]]\nprefix = \"/w\"\nscope = \"rw\"\nstore = \"{store}\"\n{rest}\n")
}

/// Loads a configuration, which also looks at the host.
fn load(directory: &tempfile::TempDir, text: &str) -> Result<Config, String> {
    let file = directory.path().join("stead.toml");
    std::fs::write(&file, text).unwrap();
    Config::load(&file).map_err(|error| error.to_string())
}

#[test]
fn w28_workspaces_on_one_directory_that_disagree_are_refused_whatever_their_stores_are_called() {
    let host = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(host.path().join("host/inner")).unwrap();
    std::os::unix::fs::symlink("host", host.path().join("link")).unwrap();
    let physical = |path: &str| format!("kind = \"physical\"\npath = \"{path}\"");
    let named = |name: &str| format!("kind = \"virtual\"\nnamespace = [\"{name}\"]");
    let load = |second: &str, first: &str, of_second: &str, managed: &str| {
        let text = format!(
            "[stores.p]\n{first}\n[stores.q]\n{second}\n{}{}",
            workspace("a", "p", "managed = true"),
            workspace("b", "q", &format!("{of_second}\n{managed}"))
        );
        load(&host, &text)
    };
    for (first, second) in [
        (physical("host"), physical("./host")),
        (physical("host"), physical("link")),
        (named("same"), named("same")),
    ] {
        let refused = load(&second, &first, "", "").unwrap_err();
        assert!(refused.contains("only one of them is managed"), "{refused}");
        load(&second, &first, "", "managed = true").unwrap();
    }
    load(&physical("link"), &physical("host"), "path = \"/inner\"", "").unwrap();
    load(&named("other"), &named("same"), "", "").unwrap();
}

/// The names that a dry run of a cleanup by the agent `a`, a long time from now, would remove.
fn would_remove(host: &Host) -> Vec<String> {
    let conn = rusqlite::Connection::open(host.path(".stead/stead.db")).unwrap();
    conn.execute("UPDATE workspace_files SET modified_at = '2020-01-01T00:00:00.000Z'", []).unwrap();
    let stead = host.open("a");
    let report = files(&stead, "/w").cleanup(&CleanupOptions { dry_run: true }).unwrap();
    report.paths.iter().map(|path| path.name().unwrap().to_owned()).collect()
}

#[test]
fn w90_a_cleanup_that_an_agent_asks_for_leaves_alone_what_another_agent_protects() {
    let rest = [
        workspace("a", "s", "managed = true"),
        workspace("b", "s", "managed = true\nprotect = [\"keep*\"]\nhide = [\"secret*\"]"),
        workspace("c", "s", "managed = true\npath = \"/elsewhere\"\nprotect = [\"go\"]"),
    ];
    Host::each(&rest.concat(), |host| {
        let stead = host.open("a");
        for name in ["keep-me", "secret-one", "go"] {
            write(&stead, &format!("/w/temp/{name}"), "x");
        }
        // A file on a host's disk is as old as its row says, or has been written since.
        if host.kind == Kind::Physical {
            for name in ["keep-me", "secret-one", "go"] {
                let file =
                    std::fs::File::options().write(true).open(host.path(&format!("files/temp/{name}")));
                file.unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            }
        }
        assert_eq!(would_remove(host), ["go"]);
        let later = FixedClock::at(SystemClock.now());
        later.advance(Duration::from_secs(8 * 86_400));
        let (stores, clock): (_, Arc<dyn Clock>) = (host.stores(), Arc::new(later));
        let clean = |directory| -> CleanupRun { stores.clean_managed(directory, &clock).unwrap() };
        let runs: Vec<_> = stores.managed_directories().iter().map(clean).collect();
        assert_eq!(runs.iter().map(|run| run.removed).sum::<u64>(), 1, "the hygiene cycle as well");
    });
}

#[test]
fn w41_a_list_of_a_threads_host_directory_has_what_another_program_has_added() {
    let agent = format!("[agents.a]\nscope = \"thread\"\n{AGENT}");
    let host = Host::new(Kind::Physical, &agent);
    let stead = Stead::open_in(&host.stores(), &Identity::agent("a").with_thread("one")).unwrap();
    write(&stead, "/w/plan.md", "x");
    assert_eq!(tagged(&stead, "/w"), ["plan.md "]);
    let code = host.path("files/threads/a/one/code");
    std::fs::create_dir_all(&code).unwrap();
    std::fs::write(code.join("new.py"), "x").unwrap();
    assert_eq!(tagged(&stead, "/w"), ["new.py ", "plan.md "]);
}

#[test]
fn w92_a_cleanup_says_what_the_store_does_not_keep() {
    let host = |keep: &str| {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("files")).unwrap();
        let store = format!("[stores.s]\nkind = \"physical\"\npath = \"files\"\n{keep}\n{AGENT}");
        let config = Config::parse(&store, &directory.path().join("stead.toml")).unwrap();
        Host { kind: Kind::Physical, directory, config }
    };
    for (keep, not_kept) in [("keep = false", 2), ("keep = { file_bytes = \"10B\" }", 1), ("", 0)] {
        let host = host(keep);
        let stead = host.open("a");
        for (name, content) in [("small", "x".to_owned()), ("large", "x".repeat(100))] {
            write(&stead, &format!("/w/{name}"), &content);
        }
        let later = FixedClock::at(SystemClock.now());
        later.advance(Duration::from_secs(8 * 86_400));
        let (stores, clock): (_, Arc<dyn Clock>) = (host.stores(), Arc::new(later));
        let run = stores.clean_managed(&stores.managed_directories()[0], &clock).unwrap();
        assert_eq!((run.removed, run.not_kept), (2, not_kept), "{keep}");
    }
}

/// Makes a file older than every time to live.
fn age(host: &Host, path: &str) {
    let conn = rusqlite::Connection::open(host.path(".stead/stead.db")).unwrap();
    conn.execute("UPDATE workspace_files SET modified_at = '2020-01-01T00:00:00.000Z'", []).unwrap();
    if host.kind == Kind::Physical {
        let file = std::fs::File::options().write(true).open(host.path(&format!("files/{path}"))).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
}

#[test]
fn w78_and_w91_a_cleanup_neither_removes_nor_names_what_lies_behind_a_nested_workspace() {
    for scope in ["wo", "ro"] {
        let nested = format!(
            "[[agents.b.workspaces]]\nprefix = \"/w/temp\"\nscope = \"{scope}\"\nstore = \"s\"\npath = \"/temp\"\n"
        );
        let rest = [workspace("a", "s", "managed = true"), workspace("b", "s", "managed = true"), nested];
        Host::each(&rest.concat(), |host| {
            let (whole, part) = (host.open("a"), host.open("b"));
            write(&whole, "/w/temp/CANARY", "x");
            age(host, "temp/CANARY");
            for dry_run in [true, false] {
                let report = files(&part, "/w").cleanup(&CleanupOptions { dry_run }).unwrap();
                assert_eq!((report.run.removed, report.run.bytes), (0, 0), "{scope}");
                assert!(!format!("{report:?}").contains("CANARY"), "{scope}");
            }
            assert!(whole.vfs().exists("/w/temp/CANARY").unwrap());
            // Nor does the status of a cleanup that somebody else has made.
            let run = files(&whole, "/w").cleanup(&CleanupOptions::default()).unwrap().run;
            assert_eq!((run.removed, &*run.paths), (1, &["temp/CANARY".to_owned()][..]));
            let status = files(&part, "/w").last_cleanup().unwrap().unwrap();
            assert_eq!((status.removed, status.bytes), (0, 0), "{scope}");
            assert!(!format!("{status:?}").contains("CANARY"), "{scope}");
            assert_eq!(files(&whole, "/w").last_cleanup().unwrap().unwrap(), run);
            files(&whole, "/w").cleanup(&CleanupOptions::default()).unwrap();
            let status = files(&part, "/w").last_cleanup().unwrap().unwrap();
            assert!(status.removed == 0 && status.last_removal.is_none(), "{scope}: {status:?}");
        });
    }
}

#[test]
fn w56_w65_and_w76_no_answer_has_a_hidden_first_name_or_directory() {
    let hidden = workspace("b", "s", "managed = true\nhide = [\"*canary*\", \"data/**\"]");
    let rest = [workspace("a", "s", "managed = true\nhide = []"), hidden];
    Host::each(&rest.concat(), |host| {
        let (whole, part) = (host.open("a"), host.open("b"));
        let path = write(&whole, "/w/canary.md", "1");
        let target = stead::vfs::managed::MoveTarget { name: Some("plain.md"), category: None };
        let path = files(&whole, "/w").move_file(&*path, target).unwrap().to;
        tag(&whole, "/w", path.as_str(), TagMode::Add, "draft");
        write(&whole, "/w/a.csv", "1");
        let first_name = |stead: &Stead| files(stead, "/w").info(&path).unwrap().file.original_name;
        assert_eq!((first_name(&whole).as_deref(), first_name(&part)), (Some("canary.md"), None));
        let found = |stead: &Stead, text: &str| {
            let search = Some(stead::managed::SearchPattern::new(text));
            let filter = FileFilter { search, ..FileFilter::default() };
            files(stead, "/w").list(&filter, FilePage { offset: 0, limit: 9 }).unwrap()
        };
        assert_eq!((found(&whole, "canary").total.count, found(&part, "canary").total.count), (1, 0));
        assert_eq!((found(&whole, "c*y.md").total.count, found(&part, "c*y.md").total.count), (1, 0));
        for text in ["plain", "draft", "*/plain.md"] {
            assert_eq!(found(&part, text).total.count, 1, "{text}");
            assert!(!format!("{:?}", found(&part, text)).contains("canary"), "{text}");
        }
        let categories = |stead: &Stead| {
            let tree = files(stead, "/w").tree().unwrap();
            tree.iter().map(|category| category.category.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(categories(&whole), ["data", "documents"]);
        assert_eq!(categories(&part), ["documents"]);
    });
}
