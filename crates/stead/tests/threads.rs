//! Threads: what is theirs, how long they live, and what is left of them.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use stead::config::SteadScope;
use stead::vfs::{
    DiffOptions, ListPage, LogQuery, MergeOptions, Overwrite, PointInTime, RestoreOptions, UndoOptions,
    UndoTarget,
};
use stead::{
    ArchiveLookup, AuditQuery, Config, Error, ErrorKind, Identity, RevisionNumber, Stead, Stores, ThreadKey,
};

/// The kinds of Store that a thread's files can be on.
const KINDS: [&str; 3] = ["virtual", "memory", "physical"];

struct Host {
    directory: tempfile::TempDir,
    config: Config,
}

impl Host {
    fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("files")).unwrap();
        let config = Config::parse(text, &directory.path().join("stead.toml")).unwrap();
        Host { directory, config }
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.directory.path().join(path)
    }

    fn stores(&self) -> Stores {
        Stores::of(&self.config)
    }
}

fn store(kind: &str) -> String {
    let path = if kind == "physical" { "path = \"files\"\n" } else { "" };
    format!("[stores.s]\nkind = \"{kind}\"\n{path}")
}

fn workspace(agent: &str, prefix: &str, rest: &str) -> String {
    format!("[[agents.{agent}.workspaces]]\nprefix = \"{prefix}\"\nstore = \"s\"\n{rest}\n")
}

/// An agent `a` of scope `thread` with one Workspace `/w`.
fn thread_host(kind: &str, keys: &str) -> Host {
    let agent = format!("[agents.a]\nscope = \"thread\"\nhistory = true\n{keys}\n");
    Host::new(&format!("{}{agent}{}", store(kind), workspace("a", "/w", "scope = \"rw\"\npath = \"/app\"")))
}

fn identity(agent: &str, thread: &str) -> Identity {
    Identity::agent(agent).with_thread(thread)
}

fn open(stores: &Stores, thread: &str) -> Stead {
    Stead::open_in(stores, &identity("a", thread)).unwrap()
}

fn key(thread: &str) -> ThreadKey {
    ThreadKey::new("a", thread)
}

fn names(stead: &Stead, path: &str) -> Vec<String> {
    let listing = stead.vfs().list(path, &ListPage::all());
    match listing {
        Ok(listing) => listing.entries.iter().map(|entry| entry.name.to_string()).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

fn read(stead: &Stead, path: &str) -> Option<Vec<u8>> {
    stead.vfs().read(path).ok().map(|file| file.bytes)
}

/// The steps in threads' lives that the audit has, oldest first, as `CALL AGENT/THREAD`.
fn audited_steps(host: &Host) -> Vec<String> {
    let access = host.stores().audit_access().unwrap().unwrap();
    let mut steps = Vec::new();
    let problems = access.each(&AuditQuery::default(), &mut |entry| {
        if entry.call.starts_with("thread.") && entry.outcome == "ok" {
            let step = format!("{} {}/{}", entry.call, entry.agent, entry.thread.as_deref().unwrap_or("-"));
            steps.push((entry.at.clone(), step));
        }
        std::ops::ControlFlow::Continue(())
    });
    assert!(problems.unwrap().is_empty());
    steps.sort_by(|one, other| one.0.cmp(&other.0));
    steps.into_iter().map(|(_, step)| step).collect()
}

#[test]
fn s3_a_stead_knows_its_id_its_scope_and_its_owner() {
    let agents = "[agents.a]\nscope = \"thread\"\n[agents.b]\n";
    let text = format!(
        "{}{agents}{}{}",
        store("virtual"),
        workspace("a", "/w", "scope = \"rw\""),
        workspace("b", "/w", "scope = \"rw\"")
    );
    let host = Host::new(&text);
    let stores = host.stores();
    let own = open(&stores, "t1");
    assert_eq!((own.id().as_str(), own.scope()), ("a/t1", SteadScope::Thread));
    assert_eq!((own.owner().agent, own.owner().thread), ("a", Some("t1")));
    let shared = Stead::open_in(&stores, &identity("b", "t1")).unwrap();
    assert_eq!(shared.scope(), SteadScope::Agent);
    assert_eq!((shared.owner().agent, shared.owner().thread), ("b", None));
}

#[test]
fn s11_the_threads_of_an_agent_of_scope_agent_share_its_files() {
    for kind in KINDS {
        let host = Host::new(&format!("{}{}", store(kind), workspace("a", "/w", "scope = \"rw\"")));
        let stores = host.stores();
        open(&stores, "one").vfs().write("/w/x", "1").unwrap();
        assert_eq!(read(&open(&stores, "two"), "/w/x").unwrap(), b"1", "{kind}");
        assert_eq!(read(&Stead::open_in(&stores, &Identity::agent("a")).unwrap(), "/w/x").unwrap(), b"1");
        assert!(stores.threads().list(None).unwrap().is_empty(), "{kind}: the thread is attribution only");
    }
}

#[test]
fn s12_a_thread_is_isolated_from_every_other_and_found_again() {
    for kind in KINDS {
        let host = thread_host(kind, "");
        let stores = host.stores();
        let (one, two) = (open(&stores, "one"), open(&stores, "two"));
        one.vfs().write("/w/x", "1").unwrap();
        two.vfs().write("/w/x", "2").unwrap();
        two.vfs().write("/w/y", "2").unwrap();
        assert_eq!(names(&one, "/w"), ["x"], "{kind}");
        assert_eq!(read(&one, "/w/x").unwrap(), b"1", "{kind}");
        // A second use finds the same stead, also after the first one is closed.
        assert_eq!(read(&open(&stores, "one"), "/w/x").unwrap(), b"1", "{kind}");
        drop(one);
        assert_eq!(read(&open(&stores, "one"), "/w/x").unwrap(), b"1", "{kind}");
        // And from another process, unless the files are in memory.
        if kind != "memory" {
            let later = host.stores();
            assert_eq!(read(&open(&later, "one"), "/w/x").unwrap(), b"1", "{kind}");
        }
        if kind == "physical" {
            assert_eq!(std::fs::read(host.path("files/app/threads/a/one/x")).unwrap(), b"1");
        }
    }
}

#[test]
fn s12_a_thread_s_files_are_gone_with_it() {
    for kind in KINDS {
        let host = thread_host(kind, "");
        let stores = host.stores();
        let (one, two) = (open(&stores, "one"), open(&stores, "two"));
        for stead in [&one, &two] {
            stead.vfs().write("/w/d/x", "first").unwrap();
            stead.vfs().read("/w/d/x").unwrap();
            stead.vfs().write("/w/d/x", "second").unwrap();
        }
        let removed = stores.threads().destroy(&key("one")).unwrap().unwrap();
        assert_eq!((removed.files, removed.bytes), (1, 6), "{kind}");
        // The stead that was open says so, and one that is opened now is that of a new, empty thread.
        for _ in 0..2 {
            let error = one.vfs().write("/w/z", "1").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Expired, "{kind}");
            assert!(error.to_string().starts_with("the thread has ended"), "{error}");
            assert!(one.vfs().read("/w/d/x").is_err(), "{kind}");
        }
        let again = open(&stores, "one");
        assert_eq!(names(&again, "/w"), [""; 0], "{kind}");
        again.vfs().write("/w/new", "1").unwrap();
        let log = again.vfs().log(&Default::default()).unwrap();
        assert_eq!(log.len(), 1, "{kind}: nothing is left of the history");
        assert!(one.vfs().read("/w/new").is_err(), "{kind}");
        // Nothing else is gone.
        assert_eq!(read(&two, "/w/d/x").unwrap(), b"second", "{kind}");
        // Destroying is idempotent.
        drop(again);
        assert!(stores.threads().destroy(&key("one")).unwrap().is_some());
        assert!(stores.threads().destroy(&key("one")).unwrap().is_none());
        if kind == "physical" {
            assert!(!host.path("files/app/threads/a/one").exists());
            assert!(host.path("files/app/threads/a/two").exists());
        }
    }
}

/// An agent `a` whose files are the thread's at `/project` and its own at `/shared`.
fn hybrid_host(kind: &str, keys: &str) -> Host {
    Host::new(&format!(
        "{}[agents.a]\nscope = \"hybrid\"\nhistory = true\n{keys}\n{}{}",
        store(kind),
        workspace("a", "/shared", "scope = \"rw\"\npath = \"/common\""),
        workspace("a", "/project", "scope = \"rw\"\npath = \"/app\""),
    ))
}

/// What `stead audit verify` finds.
fn audit_problems(host: &Host) -> Vec<String> {
    let access = host.stores().audit_access().unwrap().unwrap();
    access.verify(&ArchiveLookup::In(Vec::new()), &mut |_| {}).unwrap().problems
}

/// Writes, moves and undoes in a thread, in changes of which a part is outside of it.
fn change_inside_and_outside(stead: &Stead) {
    let vfs = stead.vfs();
    vfs.write("/project/first", "1").unwrap();
    vfs.write("/shared/a", "1").unwrap();
    vfs.write("/project/b", "1").unwrap();
    vfs.undo(UndoTarget::Last(2), UndoOptions::default()).unwrap();
    vfs.write("/shared/c", "1").unwrap();
    vfs.rename("/shared/c", "/project/c", Overwrite::Refuse).unwrap();
    vfs.rename("/project/first", "/shared/d", Overwrite::Replace).unwrap();
}

#[test]
fn s20_the_audit_agrees_with_the_history_after_a_thread_has_ended() {
    for kind in ["virtual", "physical"] {
        let host = hybrid_host(kind, "idle_timeout = \"1s\"");
        for thread in ["one", "two"] {
            let stores = host.stores();
            change_inside_and_outside(&open(&stores, thread));
            open(&stores, thread).snapshot(None, None).unwrap();
            assert_eq!(audit_problems(&host), [""; 0], "{kind}");
            if thread == "one" {
                stores.threads().destroy(&key(thread)).unwrap();
            } else {
                std::thread::sleep(Duration::from_millis(1_100));
                assert_eq!(stores.threads().sweep().unwrap().ended.len(), 1);
            }
            assert_eq!(audit_problems(&host), [""; 0], "{kind}, {thread}");
        }
        let backup = host.path("backup");
        host.stores().backup(&backup, &mut |_| {}).unwrap();
        host.stores().restore_backup(&backup, &mut |_| {}).unwrap();
        assert_eq!(audit_problems(&host), [""; 0], "{kind}, restored");
    }
}

#[test]
fn s20_a_thread_that_ends_while_the_audit_is_off_raises_no_alarm() {
    let host = hybrid_host("physical", "");
    let stores = host.stores();
    change_inside_and_outside(&open(&stores, "one"));
    drop(stores);
    std::fs::remove_dir_all(host.path("files/app")).unwrap();
    let mut config = host.config.clone();
    config.audit.enabled = false;
    Stores::of(&config).threads().destroy(&key("one")).unwrap();
    assert_eq!(audit_problems(&host), [""; 0]);
}

#[test]
fn s20_what_is_removed_from_the_history_beside_an_ended_thread_is_found() {
    let host = hybrid_host("physical", "");
    let stores = host.stores();
    change_inside_and_outside(&open(&stores, "one"));
    stores.threads().destroy(&key("one")).unwrap();
    change_inside_and_outside(&open(&stores, "two"));
    let database = host.config.database.path.clone();
    drop(stores);
    assert_eq!(audit_problems(&host), [""; 0]);
    let pristine = std::fs::read(&database).unwrap();
    let forget =
        "INSERT INTO forgotten_event SELECT volume, revision, seq, kind, path, other_path FROM ledger_event";
    for (attack, is_below) in [
        ("DELETE FROM forgotten_event", ""),
        ("UPDATE forgotten_event SET path = CAST(path || 'x' AS BLOB)", ""),
        // Events of what is outside of threads, or of a thread that goes on, can't count as forgotten.
        ("move", "common/"),
        ("move", "app/threads/a/two/"),
    ] {
        std::fs::write(&database, &pristine).unwrap();
        let conn = rusqlite::Connection::open(&database).unwrap();
        if attack == "move" {
            let condition = format!("substr(CAST(path AS TEXT), 1, {}) = '{is_below}'", is_below.len());
            conn.execute_batch(&format!(
                "{forget} WHERE {condition}; DELETE FROM ledger_event WHERE {condition};"
            ))
            .unwrap();
        } else {
            assert!(conn.execute(attack, []).unwrap() > 0, "{attack}");
        }
        drop(conn);
        assert_ne!(audit_problems(&host), [""; 0], "{attack} {is_below}");
    }
}

/// The directories above a Workspace's own are made with its first file. No one asked for them, so they stay.
#[test]
fn s25_the_first_change_of_a_workspace_whose_directory_was_missing_is_undone() {
    let plain = "[agents.a]\nhistory = true\n";
    let plain = format!("{plain}{}", workspace("a", "/w", "scope = \"rw\"\npath = \"/very/deep/app\""));
    for kind in KINDS {
        for (agents, threads) in [
            (plain.clone(), vec![None]),
            (
                plain.replace("[agents.a]\n", "[agents.a]\nscope = \"thread\"\n"),
                vec![Some("one"), Some("two")],
            ),
        ] {
            let host = Host::new(&format!("{}{agents}", store(kind)));
            let stores = host.stores();
            for thread in threads {
                let identity = thread.map_or(Identity::agent("a"), |thread| identity("a", thread));
                let stead = Stead::open_in(&stores, &identity).unwrap();
                stead.vfs().write("/w/sub/x", "1").unwrap();
                let undone = stead.vfs().undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
                assert_eq!(undone.conflicts, [], "{kind} {thread:?}");
                let changed: Vec<_> = undone.changes.iter().map(|change| change.path.as_str()).collect();
                assert_eq!((undone.done, changed), (true, vec!["/w/sub", "/w/sub/x"]), "{kind} {thread:?}");
                assert_eq!(stead.vfs().list("/w", &ListPage::all()).unwrap().entries.len(), 0);
                // The undo can be undone as well, and then there is nothing more of the first operation to undo.
                stead
                    .vfs()
                    .undo(UndoTarget::Operation(undone.operation.unwrap()), UndoOptions::default())
                    .unwrap();
                assert_eq!(read(&stead, "/w/sub/x").unwrap(), b"1");
            }
        }
    }
}

/// What one Workspace shows as its own directory can be a directory in another one.
#[test]
fn s25_a_directory_that_leads_to_another_workspace_is_undone_in_the_workspace_that_shows_it() {
    for kind in KINDS {
        let host = Host::new(&format!(
            "{}[agents.a]\nhistory = true\n{}{}",
            store(kind),
            workspace("a", "/all", "scope = \"rw\""),
            workspace("a", "/w", "scope = \"rw\"\npath = \"/deep/app\""),
        ));
        let stead = Stead::open_in(&host.stores(), &Identity::agent("a")).unwrap();
        stead.vfs().mkdir("/all/deep", stead_core::store::Parents::Required).unwrap();
        let undone = stead.vfs().undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
        assert!(undone.done && names(&stead, "/all").is_empty(), "{kind}: {undone:?}");
    }
}

#[test]
fn s12_a_thread_ends_after_its_idle_time_out() {
    for kind in KINDS {
        let host = thread_host(kind, "idle_timeout = \"3s\"");
        let stores = host.stores();
        let (kept, dropped) = (open(&stores, "kept"), open(&stores, "dropped"));
        kept.vfs().write("/w/x", "1").unwrap();
        dropped.vfs().write("/w/x", "1").unwrap();
        drop(dropped);
        assert!(stores.threads().sweep().unwrap().ended.is_empty(), "{kind}");
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut ended = Vec::new();
        while ended.len() < 2 {
            assert!(Instant::now() < deadline, "{kind}: {ended:?}");
            std::thread::sleep(Duration::from_millis(100));
            ended.extend(stores.threads().sweep().unwrap().ended);
        }
        assert!(kept.vfs().read("/w/x").unwrap_err().to_string().starts_with("the thread has ended"));
        assert!(stores.threads().list(None).unwrap().is_empty(), "{kind}");
    }
}

#[test]
fn s12a_a_planted_symlink_is_not_followed() {
    let host = thread_host("physical", "");
    let stores = host.stores();
    std::fs::create_dir_all(host.path("files/app/threads")).unwrap();
    std::fs::create_dir_all(host.path("files/precious/one")).unwrap();
    std::fs::write(host.path("files/precious/one/x"), "keep").unwrap();
    std::os::unix::fs::symlink("../../precious", host.path("files/app/threads/a")).unwrap();
    let one = open(&stores, "one");
    assert!(one.vfs().read("/w/x").is_err());
    assert!(one.vfs().write("/w/y", "1").is_err());
    drop(one);
    stores.threads().destroy(&key("one")).unwrap();
    assert_eq!(std::fs::read(host.path("files/precious/one/x")).unwrap(), b"keep");
    assert!(!host.path("files/precious/one/y").exists());
    // The thread's own name as a symlink: the link goes, not where it leads.
    std::fs::remove_file(host.path("files/app/threads/a")).unwrap();
    std::fs::create_dir(host.path("files/app/threads/a")).unwrap();
    std::os::unix::fs::symlink("../../../precious/one", host.path("files/app/threads/a/two")).unwrap();
    let two = open(&stores, "two");
    assert!(two.vfs().read("/w/x").is_err());
    drop(two);
    stores.threads().destroy(&key("two")).unwrap();
    assert_eq!(std::fs::read(host.path("files/precious/one/x")).unwrap(), b"keep");
}

#[test]
fn s12a_no_other_workspace_shows_the_files_of_threads() {
    let text = format!(
        "{}[stores.outer]\nkind = \"physical\"\npath = \".\"\n[agents.a]\nscope = \"thread\"\n{}{}{}{}",
        store("physical"),
        workspace("a", "/w", "scope = \"rw\"\npath = \"/app\""),
        workspace("a", "/base", "scope = \"ro\"\npath = \"/app\""),
        workspace("b", "/all", "scope = \"rw\""),
        "[[agents.b.workspaces]]\nprefix = \"/host\"\nscope = \"rw\"\nstore = \"outer\"\n",
    );
    let host = Host::new(&text);
    let stores = host.stores();
    let thread = open(&stores, "secret-thread");
    thread.vfs().write("/w/secret", "hush").unwrap();
    let b = Stead::open_in(&stores, &Identity::agent("b")).unwrap();
    b.vfs().write("/all/app/plain", "1").unwrap();
    for (stead, path) in [(&thread, "/base"), (&b, "/all/app"), (&b, "/host/files/app")] {
        let inside = format!("{path}/threads/a/secret-thread/secret");
        let error = stead.vfs().read(&inside).unwrap_err();
        assert!(error.to_string().contains("reserved for the files of threads"), "{error}");
        assert!(stead.vfs().list(format!("{path}/threads").as_str(), &ListPage::all()).is_err());
        assert!(stead.vfs().write(format!("{path}/threads/a/x"), "1").is_err());
        let walked = stead.vfs().walk(path, &Default::default()).unwrap();
        assert!(!format!("{walked:?}").contains("secret"), "{walked:?}");
        // The thread's own log has its own changes.
        let log = stead.vfs().log(&Default::default()).unwrap();
        let changed = log.iter().flat_map(|entry| &entry.changes).map(|change| change.path.as_str());
        assert!(
            changed.filter(|path| !path.starts_with("/w/")).all(|path| !path.contains("threads")),
            "{log:?}"
        );
        assert!(names(stead, path).contains(&"plain".to_owned()));
    }
    assert!(
        b.vfs()
            .remove_directory("/all/app", stead::vfs::RemoveOptions { recursive: true, ..Default::default() })
            .is_err()
    );
    assert_eq!(read(&thread, "/w/secret").unwrap(), b"hush");
    // A configuration with a Workspace inside the directory is refused.
    let inside = format!("{text}{}", workspace("c", "/in", "scope = \"ro\"\npath = \"/app/threads/a\""));
    std::fs::write(host.path("stead.toml"), inside).unwrap();
    let error = Config::load(&host.path("stead.toml")).unwrap_err().to_string();
    assert!(error.contains("`/in` shows the directory `threads`"), "{error}");
}

#[test]
fn s3_s13_a_hybrid_agent_has_its_own_files_at_shared_and_the_thread_s_at_project() {
    for kind in KINDS {
        let text = format!(
            "{}[agents.a]\nscope = \"hybrid\"\n{}{}",
            store(kind),
            workspace("a", "/shared", "scope = \"rw\"\npath = \"/common\""),
            workspace("a", "/project", "scope = \"rw\"\npath = \"/work\"")
        );
        let host = Host::new(&text);
        let stores = host.stores();
        let (one, two) = (open(&stores, "one"), open(&stores, "two"));
        assert_eq!((one.id().as_str(), one.scope()), ("a/one", SteadScope::Hybrid));
        assert_eq!((one.owner().agent, one.owner().thread), ("a", Some("one")));
        one.vfs().write("/shared/x", "all").unwrap();
        one.vfs().write("/project/x", "one").unwrap();
        assert_eq!(read(&two, "/shared/x").unwrap(), b"all", "{kind}");
        assert_eq!(read(&two, "/project/x"), None, "{kind}");
        drop(one);
        stores.threads().destroy(&key("one")).unwrap().unwrap();
        assert_eq!(read(&two, "/shared/x").unwrap(), b"all", "{kind}");
        assert_eq!(read(&open(&stores, "one"), "/project/x"), None, "{kind}");
    }
}

#[test]
fn s14_an_agent_with_threads_and_no_thread_is_refused_with_a_sentence() {
    let host = thread_host("virtual", "");
    let stores = host.stores();
    let error = Stead::open_in(&stores, &Identity::agent("a")).unwrap_err();
    assert!(matches!(error, Error::ThreadNeeded { .. }));
    assert!(error.to_string().contains("`--thread NAME`"), "{error}");
    for invalid in ["", "..", "a/b", "a\nb"] {
        assert!(Stead::open_in(&stores, &identity("a", invalid)).is_err(), "{invalid:?}");
    }
    assert!(stores.threads().list(None).unwrap().is_empty());
}

#[test]
fn s14_creating_the_same_thread_twice_at_once_gives_one_stead() {
    for kind in ["virtual", "physical"] {
        let host = thread_host(kind, "");
        let barrier = Barrier::new(8);
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (host, barrier) = (&host, &barrier);
                scope.spawn(move || {
                    let stores = host.stores();
                    barrier.wait();
                    let stead = open(&stores, "one");
                    stead.vfs().write(format!("/w/{number}"), "x").unwrap();
                });
            }
        });
        let stores = host.stores();
        assert_eq!(stores.threads().list(None).unwrap().len(), 1);
        assert_eq!(names(&open(&stores, "one"), "/w").len(), 8, "{kind}");
        drop(stores);
        let created = audited_steps(&host).into_iter().filter(|step| step == "thread.create a/one").count();
        assert_eq!(created, 1, "{kind}");
    }
}

#[test]
fn s14_each_step_of_a_thread_s_life_is_an_audit_event() {
    let life = |archive_gives_up_first: bool| {
        let steps = [
            "thread.create",
            "thread.idle",
            "thread.resume",
            "thread.archive",
            "thread.idle",
            "thread.destroy",
        ];
        let is_there = |index: &usize| *index != 4 || archive_gives_up_first;
        (0..steps.len()).filter(is_there).map(|index| format!("{} a/one", steps[index])).collect::<Vec<_>>()
    };
    // On a busy machine, the thread may be destroyed before the heartbeat gives up what the archive used. Then it is not idle before.
    let mut attempts = (0..5).map(|_| {
        let host = thread_host("virtual", "");
        let stores = host.stores();
        let stead = open(&stores, "one");
        stead.vfs().write("/w/x", "1").unwrap();
        drop(stead);
        stores.threads().archive(&key("one"), &mut Vec::new()).unwrap();
        stores.threads().destroy(&key("one")).unwrap();
        // The records of what changes nothing are written when the log is closed.
        drop(stores);
        let steps = audited_steps(&host);
        assert!(steps == life(true) || steps == life(false), "{steps:?}");
        steps
    });
    assert!(attempts.any(|steps| steps == life(true)), "the thread was never idle after its archive");
}

#[test]
fn s14_a_thread_that_another_process_has_open_is_not_destroyed() {
    let host = thread_host("virtual", "idle_timeout = \"1s\"");
    // Two `Stores` of one configuration are like two processes.
    let (ours, theirs) = (host.stores(), host.stores());
    let stead = open(&theirs, "one");
    stead.vfs().write("/w/x", "1").unwrap();
    let error = ours.threads().destroy(&key("one")).unwrap_err();
    assert!(matches!(error, Error::ThreadInUse(_)), "{error}");
    assert!(error.to_string().contains("is in use"), "{error}");
    std::thread::sleep(Duration::from_millis(1_300));
    assert!(ours.threads().sweep().unwrap().ended.is_empty());
    assert_eq!(read(&stead, "/w/x").unwrap(), b"1");
    let clone = stead.clone();
    drop(stead);
    assert!(ours.threads().destroy(&key("one")).is_err(), "clones share the lease");
    drop(clone);
    assert!(ours.threads().destroy(&key("one")).unwrap().is_some());
}

#[test]
fn s14_a_thread_of_a_dead_process_is_swept_when_its_lease_has_expired() {
    let host = thread_host("physical", "idle_timeout = \"1s\"");
    let dead = host.stores().with_lease_ttl(Duration::from_secs(5));
    let stead = open(&dead, "one");
    stead.vfs().write("/w/x", "1").unwrap();
    // As after kill -9: nothing is released, and no heartbeat comes.
    dead.threads().stop_heartbeat_for_test();
    let ours = host.stores();
    assert!(ours.threads().destroy(&key("one")).is_err(), "an unexpired lease is respected");
    let deadline = Instant::now() + Duration::from_secs(20);
    while ours.threads().sweep().unwrap().ended.is_empty() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(!host.path("files/app/threads/a/one").exists());
    // If it was only stopped, it writes nothing, and learns that the thread has ended.
    let error = stead.vfs().write("/w/y", "2").unwrap_err();
    assert!(error.to_string().starts_with("the thread has ended"), "{error}");
    assert!(!host.path("files/app/threads/a/one").exists());
}

#[test]
fn s15_an_idle_time_out_never_fires_while_a_call_runs() {
    let host = thread_host("virtual", "idle_timeout = \"3s\"");
    let stores = host.stores();
    let stead = open(&stores, "one");
    stead.vfs().write("/w/x", "1").unwrap();
    let result: Result<(), stead_core::Error> = stead.vfs().audited("long call", None, || {
        let end = Instant::now() + Duration::from_millis(4_500);
        while Instant::now() < end {
            assert!(stores.threads().sweep().unwrap().ended.is_empty());
            assert!(stores.threads().destroy(&key("one")).is_err());
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    });
    result.unwrap();
    // The idle time begins with the end of the call.
    assert!(stores.threads().sweep().unwrap().ended.is_empty());
    assert_eq!(read(&stead, "/w/x").unwrap(), b"1");
}

#[test]
fn forks_and_snapshots_belong_to_the_thread() {
    let host = thread_host("virtual", "");
    let stores = host.stores();
    let (one, two) = (open(&stores, "one"), open(&stores, "two"));
    one.vfs().write("/w/x", "1").unwrap();
    two.vfs().write("/w/x", "2").unwrap();
    let one = one.fork("/w", "draft").unwrap();
    one.vfs().write("/forks/draft/x", "forked").unwrap();
    one.snapshot(None, Some("label")).unwrap();
    assert_eq!(two.snapshots(None).unwrap().len(), 0);
    let two = open(&stores, "two");
    assert_eq!(two.forks().unwrap().count(), 0);
    // The same names are free in another thread.
    let two = two.fork("/w", "draft").unwrap();
    two.snapshot(None, Some("label")).unwrap();
    assert_eq!(read(&open(&stores, "one"), "/forks/draft/x").unwrap(), b"forked");
    assert_eq!(read(&open(&stores, "two"), "/forks/draft/x").unwrap(), b"2");
    let details = stores.threads().show(&key("one")).unwrap();
    assert_eq!((details.forks, details.snapshots, details.record.leases), (1, 1, 1));
    let usage = details.workspaces[0].usage.unwrap();
    assert_eq!((details.workspaces[0].prefix.as_str(), usage.files, usage.bytes), ("/w", 1, 1));
    assert!(one.fork_to("/w", "gift", "a").unwrap_err().to_string().contains("belongs to the thread"));
    drop(one);
    let removed = stores.threads().destroy(&key("one")).unwrap().unwrap();
    assert_eq!((removed.forks, removed.snapshots), (1, 1));
    assert_eq!(read(&open(&stores, "two"), "/forks/draft/x").unwrap(), b"2");
    assert_eq!(two.snapshots(None).unwrap().len(), 1);
    assert_eq!(open(&stores, "one").forks().unwrap().count(), 0);
}

#[test]
fn an_archive_of_a_thread_can_be_imported() {
    use stead::transfer::{CompareBy, ImportSource, NoObserver};
    for kind in KINDS {
        let host = thread_host(kind, "");
        let stores = host.stores();
        let one = open(&stores, "one");
        one.vfs().write("/w/d/x", "first").unwrap();
        one.vfs().write("/w/.env", "hidden").unwrap_err();
        let mut archive = Vec::new();
        let totals = stores.threads().archive(&key("one"), &mut archive).unwrap();
        assert_eq!(totals.files, 1, "{kind}");
        let mut tar = tar::Archive::new(&*archive);
        let mut log = String::new();
        let mut paths = Vec::new();
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_path_buf();
            if path == Path::new(".stead-archive/log.jsonl") {
                std::io::Read::read_to_string(&mut entry, &mut log).unwrap();
            }
            paths.push(path.to_string_lossy().into_owned());
        }
        assert!(paths.contains(&"w/d/x".to_owned()), "{kind}: {paths:?}");
        assert!(log.contains("\"/w/d/x\"") && !log.contains("first"), "{kind}: {log}");
        let two = open(&stores, "two");
        let source = ImportSource::Archive { stream: Box::new(&*archive), name: "one.tar".to_owned() };
        let totals = two.import(source, "/w", CompareBy::default(), &mut NoObserver).unwrap();
        assert_eq!((totals.files, totals.refused), (1, 0), "{kind}");
        assert_eq!(names(&two, "/w"), ["w"], "{kind}");
        assert_eq!(read(&two, "/w/w/d/x").unwrap(), b"first", "{kind}");
    }
    let host = thread_host("virtual", "");
    let error = host.stores().threads().archive(&key("none"), &mut Vec::new()).unwrap_err();
    assert!(matches!(error, Error::UnknownThread { .. }), "{error}");
}

#[test]
fn in_a_hybrid_agent_undo_is_the_thread_s_own_and_other_threads_have_no_names() {
    use stead::vfs::{UndoOptions, UndoTarget};
    for kind in KINDS {
        let text = format!(
            "{}[agents.a]\nscope = \"hybrid\"\n{}{}",
            store(kind),
            workspace("a", "/shared", "scope = \"rw\"\npath = \"/common\""),
            workspace("a", "/project", "scope = \"rw\"\npath = \"/work\"")
        );
        let host = Host::new(&text);
        let stores = host.stores();
        let (one, two) = (open(&stores, "one"), open(&stores, "two"));
        one.vfs().write("/shared/of-one", "1").unwrap();
        for number in 0..5 {
            two.vfs().write(format!("/shared/{number}"), "2").unwrap();
        }
        let log = one.vfs().log(&Default::default()).unwrap();
        let threads: Vec<_> = log.iter().map(|entry| entry.operation.identity.thread.as_deref()).collect();
        assert_eq!(threads, [None, None, None, None, None, Some("one")], "{kind}");
        one.vfs().undo(UndoTarget::Last(1), UndoOptions::default()).unwrap();
        assert_eq!(names(&one, "/shared"), ["0", "1", "2", "3", "4"], "{kind}");
        let of_two = log[0].operation.id;
        assert!(one.vfs().undo(UndoTarget::Operation(of_two), UndoOptions::default()).is_err(), "{kind}");
        two.vfs().undo(UndoTarget::Operation(of_two), UndoOptions::default()).unwrap();
    }
}

#[test]
fn s14_a_file_with_a_reserved_name_keeps_no_thread_alive() {
    let host = thread_host("physical", "");
    let stores = host.stores();
    let stead = open(&stores, "one");
    stead.vfs().write("/w/dir/a", "1").unwrap();
    stead.vfs().write("/w/b", "2").unwrap();
    drop(stead);
    // Only a host program can make these.
    let directory = host.path("files/app/threads/a/one");
    std::fs::write(directory.join("stead.toml"), "").unwrap();
    std::fs::write(directory.join("dir/stead.toml"), "").unwrap();
    assert!(stores.threads().destroy(&key("one")).unwrap().is_some());
    assert!(stores.threads().list(None).unwrap().is_empty());
    assert!(directory.join("stead.toml").exists() && directory.join("dir/stead.toml").exists());
    assert!(!directory.join("dir/a").exists() && !directory.join("b").exists());
    assert_eq!(names(&open(&stores, "one"), "/w/dir"), Vec::<String>::new());
}

/// A name can be used again, and then it is the name of another thread.
#[test]
fn s12_a_thread_undoes_nothing_of_an_earlier_thread_of_its_name() {
    let common = "[[agents.a.workspaces]]\nprefix = \"/c\"\nstore = \"s\"\nscope = \"rw\"\npath = \"/common\"\nper = \"agent\"\n";
    for kind in ["virtual", "physical"] {
        let host = Host::new(&format!(
            "{}[agents.a]\nscope = \"thread\"\nhistory = true\n{}{common}",
            store(kind),
            workspace("a", "/w", "scope = \"rw\"\npath = \"/app\"")
        ));
        let stores = host.stores();
        open(&stores, "job").vfs().write("/c/shared", "by the first").unwrap();
        stores.threads().destroy(&key("job")).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        let second = open(&stores, "job");
        let undo = |stead: &Stead| {
            stead.vfs().undo(stead_core::vfs::UndoTarget::Last(10), stead_core::vfs::UndoOptions::default())
        };
        // There is nothing of its own.
        let _ = undo(&second);
        assert_eq!(second.vfs().read("/c/shared").unwrap().bytes, b"by the first");
        second.vfs().write("/c/own", "by the second").unwrap();
        undo(&second).unwrap();
        assert!(second.vfs().read("/c/own").is_err() && second.vfs().read("/c/shared").is_ok());
    }
}

#[test]
fn s12_a_thread_sees_nothing_of_what_an_earlier_thread_of_its_name_moved_out() {
    let common = "[[agents.a.workspaces]]\nprefix = \"/c\"\nstore = \"s\"\nscope = \"rw\"\npath = \"/common\"\nper = \"agent\"\n";
    for kind in ["virtual", "physical"] {
        let host = Host::new(&format!(
            "{}[agents.a]\nscope = \"thread\"\nhistory = true\n{}{common}",
            store(kind),
            workspace("a", "/w", "scope = \"rw\"\npath = \"/app\"")
        ));
        let stores = host.stores();
        let first = open(&stores, "job");
        first.vfs().write("/w/SECRET", "of the first").unwrap();
        first.vfs().rename("/w/SECRET", "/c/shared", Overwrite::Refuse).unwrap();
        let moved_from = format!("{:?}", first.vfs().log(&LogQuery::default()).unwrap());
        assert!(moved_from.contains("SECRET"), "{moved_from}");
        drop(first);
        stores.threads().destroy(&key("job")).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        let second = open(&stores, "job");
        let log = second.vfs().log(&LogQuery { diff: Some(DiffOptions::default()), ..LogQuery::default() });
        let log = format!("{:?}", log.unwrap());
        assert!(log.contains("/c/shared") && !log.contains("SECRET"), "{kind}: {log}");
        // Every point in time, also those before the thread was made.
        for number in 0..12 {
            for prefix in ["/w", "/c"] {
                let from = second.vfs().workspaces().find(|workspace| workspace.prefix().as_str() == prefix);
                let from = from.unwrap().mount().store().revision(RevisionNumber(number));
                let difference = second.vfs().diff(prefix, from, PointInTime::Now, DiffOptions::default());
                assert!(!format!("{difference:?}").contains("SECRET"), "{kind}: {difference:?}");
            }
            let to = second.vfs().workspaces().find(|workspace| workspace.prefix().as_str() == "/w");
            let to = to.unwrap().mount().store().revision(RevisionNumber(number));
            let _ = second.vfs().restore("/w", to, &RestoreOptions::default());
            assert_eq!(names(&second, "/w"), Vec::<String>::new());
        }
        assert_eq!(second.vfs().read("/c/shared").unwrap().bytes, b"of the first");
    }
}

#[test]
fn s12_a_fork_and_the_name_of_a_thread_are_withheld_from_other_agents() {
    let other = "[agents.b]\nhistory = true\n[[agents.b.workspaces]]\nprefix = \"/c\"\nstore = \"s\"\nscope = \"rw\"\npath = \"/common\"\n";
    let host = Host::new(&format!(
        "{}[agents.a]\nscope = \"hybrid\"\nhistory = true\n{}{}{other}",
        store("virtual"),
        workspace("a", "/shared", "scope = \"rw\"\npath = \"/common\""),
        workspace("a", "/project", "scope = \"rw\"\npath = \"/app\""),
    ));
    let stores = host.stores();
    let thread = open(&stores, "SECRET");
    thread.vfs().write("/shared/a", "1\n").unwrap();
    let thread = thread.fork("/shared", "draft").unwrap();
    thread.vfs().write("/forks/draft/a", "of the thread\n").unwrap();
    let other = Stead::open_in(&stores, &Identity::agent("b")).unwrap();
    assert_eq!(other.forks_of_others().unwrap(), []);
    for error in [
        other.diff_fork("a/SECRET/draft", stead::vfs::DiffOptions::default()).unwrap_err(),
        other.merge_fork("a/SECRET/draft", &stead::vfs::MergeOptions::default()).unwrap_err(),
        other.discard("a/draft").unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
    let error = other.discard("a/other").unwrap_err().to_string();
    assert!(!error.contains("SECRET"), "{error}");
    assert!(thread.merge_fork("draft", &stead::vfs::MergeOptions::default()).unwrap().done);
    let log = format!("{:?}", other.vfs().log(&stead_core::vfs::LogQuery::default()).unwrap());
    assert!(log.contains("tool: \"merge\"") && !log.contains("SECRET") && !log.contains("draft"), "{log}");
}

/// The forks that the log of a stead names.
fn merged_forks(stead: &Stead) -> Vec<String> {
    let log = stead.vfs().log(&LogQuery::default()).unwrap();
    assert!(log.iter().any(|entry| entry.operation.tool.contains("merge")), "{log:?}");
    log.into_iter().filter_map(|entry| entry.merged_fork).collect()
}

#[test]
fn s12_a_merged_fork_of_a_thread_has_no_name_in_other_threads_and_for_other_agents() {
    for kind in ["virtual", "physical"] {
        let host = Host::new(&format!(
            "{}[agents.a]\nscope = \"hybrid\"\nhistory = true\n{}{}[agents.u]\nhistory = true\n{}",
            store(kind),
            workspace("a", "/shared", "scope = \"rw\"\npath = \"/common\""),
            workspace("a", "/project", "scope = \"rw\"\npath = \"/app\""),
            workspace("u", "/v", "scope = \"rw\"\npath = \"/common\""),
        ));
        let stores = host.stores();
        let thread = open(&stores, "one");
        thread.vfs().write("/shared/a", "1\n").unwrap();
        let thread = thread.fork("/shared", "own").unwrap();
        thread.vfs().write("/forks/own/a", "2\n").unwrap();
        assert!(thread.merge_fork("own", &MergeOptions::default()).unwrap().done);
        assert_eq!(merged_forks(&thread), ["own"], "{kind}");
        assert_eq!(merged_forks(&open(&stores, "two")), [""; 0], "{kind}");
        let other = Stead::open_in(&stores, &Identity::agent("u")).unwrap();
        assert_eq!(merged_forks(&other), [""; 0], "{kind}");
        // An agent's own fork is no thread's.
        let other = other.fork("/v", "plain").unwrap();
        other.vfs().write("/forks/plain/a", "3\n").unwrap();
        assert!(other.merge_fork("plain", &MergeOptions::default()).unwrap().done);
        assert_eq!(merged_forks(&other), ["u/plain"], "{kind}");
        assert_eq!(merged_forks(&open(&stores, "two")), ["plain"], "{kind}");
    }
}

#[test]
fn s12_a_review_of_what_a_thread_changed_names_it_only_to_the_agent_and_the_thread() {
    for kind in ["virtual", "physical"] {
        let host = Host::new(&format!(
            "{}[agents.a]\nscope = \"thread\"\nhistory = true\n{}[agents.u]\nhistory = true\n{}",
            store(kind),
            workspace("a", "/v", "scope = \"rw\"\npath = \"/common\"\nper = \"agent\"\nfork = \"thread\""),
            workspace("u", "/v", "scope = \"rw\"\npath = \"/common\""),
        ));
        let stores = host.stores();
        let thread = open(&stores, "SECRET");
        thread.vfs().write("/v/q", "1").unwrap();
        let reviewer = Stead::open_for_review(&stores, &identity("a", "SECRET")).unwrap();
        let forks = reviewer.review_forks().unwrap();
        let fork = format!("{}/{}", forks[0].owner, forks[0].name);
        assert!(reviewer.merge_fork(&fork, &MergeOptions::default()).unwrap().done);
        assert!(merged_forks(&reviewer)[0].starts_with("review:a/SECRET/"), "{kind}");
        let other = Stead::open_in(&stores, &Identity::agent("u")).unwrap();
        assert_eq!(merged_forks(&other), [""; 0], "{kind}");
        let log = open(&stores, "another").vfs().log(&LogQuery::default()).unwrap();
        assert!(!format!("{log:?}").contains("SECRET"), "{kind}: {log:?}");
    }
}
