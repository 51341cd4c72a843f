//! The State of a configured stead: what it shares with files, and what it doesn't.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::json;
use stead::tools::ApprovalAnswer;
use stead::vfs::state::SetOptions;
use stead::vfs::{LogQuery, OnConflict, RestoreOptions, State, UndoOptions, UndoTarget};
use stead::{
    AuditEntry, AuditQuery, Clock, Config, ErrorKind, GcOptions, Identity, Retention, Stead, Stores,
    SystemClock,
};

const CONFIG: &str = r#"
[stores.notes]
kind = "virtual"
[stores.scratch]
kind = "memory"
[agents.coder]
history = true
quota = { bytes = "10KiB" }
[agents.coder.state]
enabled = true
[[agents.coder.workspaces]]
prefix = "/notes"
scope = "rw"
store = "notes"
[agents.reader]
history = true
ask = ["state_delete"]
state = { enabled = true }
workspaces = [{ prefix = "/scratch", scope = "ro", store = "scratch" }]
[agents.plain]
state = { enabled = false }
workspaces = [{ prefix = "/notes", scope = "rw", store = "notes" }]
"#;

struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Fixture { directory: tempfile::tempdir().unwrap() }
    }

    fn config(&self) -> Config {
        Config::parse(CONFIG, &self.directory.path().join("stead.toml")).unwrap()
    }

    fn stead(&self, agent: &str) -> Stead {
        Stead::open(&self.config(), agent).unwrap()
    }
}

fn set(state: &State, key: &str, value: &str) {
    state.set(key, value, &SetOptions::new()).unwrap();
}

fn value(stead: &Stead, key: &str) -> Option<String> {
    stead.state().unwrap().get(key).unwrap().map(|found| found.value)
}

/// The paths of the newest changes first.
fn logged(stead: &Stead) -> Vec<String> {
    let log = stead.vfs().log(&LogQuery::default()).unwrap();
    let changes = log.iter().flat_map(|entry| &entry.changes);
    changes.map(|change| format!("{} {}", change.action.as_str(), change.path)).collect()
}

#[test]
fn s5_only_a_stead_whose_configuration_says_so_has_a_state() {
    let fixture = Fixture::new();
    let has_state = |agent: &str| {
        let stead = fixture.stead(agent);
        let tools = stead.tools().iter().filter(|tool| tool.name.starts_with("state_")).count();
        assert_eq!(stead.map().contains("You also have a State"), stead.state().is_some());
        (stead.state().is_some(), tools)
    };
    assert_eq!(
        (has_state("coder"), has_state("reader"), has_state("plain")),
        ((true, 4), (true, 4), (false, 0))
    );
    assert!(fixture.config().warnings().is_empty(), "{:?}", fixture.config().warnings());
}

#[test]
fn s17_a_state_survives_a_restart_and_is_the_agent_s_own() {
    let fixture = Fixture::new();
    set(&fixture.stead("coder").state().unwrap(), "a", "{\"n\": 1}");
    assert_eq!(value(&fixture.stead("coder"), "a").as_deref(), Some("{\"n\": 1}"));
    assert_eq!(value(&fixture.stead("reader"), "a"), None);
    let stores = Stores::of(&fixture.config());
    let in_thread = Stead::open_in(&stores, &Identity::agent("coder").with_thread("t")).unwrap();
    assert_eq!(
        value(&in_thread, "a").as_deref(),
        Some("{\"n\": 1}"),
        "all threads of an agent share its stead"
    );
}

#[test]
fn s18_the_log_names_keys_and_no_directories() {
    let fixture = Fixture::new();
    let stead = fixture.stead("coder");
    let state = stead.state().unwrap();
    set(&state, "jobs/next", "1");
    stead.vfs().write("/notes/a", "x").unwrap();
    set(&state, "jobs/next", "2");
    let long = "k".repeat(512);
    set(&state.in_namespace("other").unwrap(), &long, "1");
    state.delete("jobs/next", None).unwrap();
    assert_eq!(
        logged(&stead),
        [
            "removed state:default/jobs/next",
            &format!("created state:other/{long}"),
            "written state:default/jobs/next",
            "created /notes/a",
            "created state:default/jobs/next",
        ]
    );
    assert!(!logged(&fixture.stead("plain")).iter().any(|line| line.contains("state:")));
}

#[test]
fn s18_undo_takes_changes_of_keys_back() {
    let fixture = Fixture::new();
    let stead = fixture.stead("coder");
    let state = stead.state().unwrap();
    set(&state, "a", "1");
    let second = state.set("a", "2", &SetOptions::new()).unwrap();
    stead.vfs().write("/notes/x", "x").unwrap();
    set(&state, "b", "1");
    let undo = |target| stead.vfs().undo(target, UndoOptions::default()).unwrap();
    let undone = undo(UndoTarget::Operation(second.operation));
    assert!(undone.done);
    assert_eq!(
        undone.changes.iter().map(|change| change.path.to_string()).collect::<Vec<_>>(),
        ["state:default/a"]
    );
    assert_eq!(value(&stead, "a").as_deref(), Some("1"));
    undo(UndoTarget::Operation(undone.operation.unwrap()));
    assert_eq!(value(&stead, "a").as_deref(), Some("2"), "an undo can be undone");
    undo(UndoTarget::Last(1));
    assert_eq!((value(&stead, "b"), value(&stead, "a").as_deref()), (None, Some("2")));
    let since = undo(UndoTarget::Since(stead::Timestamp(0)));
    assert!(since.done);
    assert_eq!((value(&stead, "a"), stead.vfs().exists("/notes/x").unwrap()), (None, false));
    // A conflict with a later change names the key.
    let first = state.set("c", "\"one\"", &SetOptions::new()).unwrap();
    Stead::open(&fixture.config(), "coder")
        .unwrap()
        .state()
        .unwrap()
        .set("c", "\"two\"", &SetOptions::new())
        .unwrap();
    let options = UndoOptions { on_conflict: OnConflict::Refuse, dry_run: false };
    let refused = stead.vfs().undo(UndoTarget::Operation(first.operation), options).unwrap();
    assert!(!refused.done);
    assert_eq!(refused.conflicts[0].path.to_string(), "state:default/c");
}

#[test]
fn s18_a_read_only_agent_can_set_and_undo_keys() {
    let fixture = Fixture::new();
    let stead = fixture.stead("reader");
    let reply = stead.call("state_set", json!({ "key": "a", "value": "1" }));
    assert!(!reply.is_failure(), "{reply:?}");
    let reply = stead.call("undo", json!({}));
    assert!(reply.joined_text().contains("removed state:default/a"), "{}", reply.joined_text());
    assert_eq!(value(&stead, "a"), None);
    let question = stead.call_with_approval("state_delete", json!({ "key": "a" }), ApprovalAnswer::NotAsked);
    assert!(question.unwrap_err().text.contains("`state:default/a`"));
}

#[test]
fn s18_a_restore_of_everything_and_a_snapshot_include_the_state() {
    let fixture = Fixture::new();
    let stead = fixture.stead("coder");
    let state = stead.state().unwrap();
    set(&state, "a", "1");
    stead.vfs().write("/notes/x", "1").unwrap();
    stead.snapshot(None, Some("kept")).unwrap();
    set(&state, "a", "2");
    set(&state, "b", "2");
    stead.vfs().write("/notes/x", "2").unwrap();
    let point = stead.resolve_point("/", "kept").unwrap();
    let past = stead.as_of(point.clone()).unwrap();
    assert_eq!((value(&past, "a").as_deref(), value(&past, "b")), (Some("1"), None));
    let refused = past.state().unwrap().set("a", "3", &SetOptions::new()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    stead.vfs().restore("/notes", point.clone(), &RestoreOptions::default()).unwrap();
    assert_eq!(value(&stead, "a").as_deref(), Some("2"), "a restore by path leaves the State");
    let restored = stead.vfs().restore("/", point, &RestoreOptions::default()).unwrap();
    assert!(restored.done);
    assert_eq!((value(&stead, "a").as_deref(), value(&stead, "b")), (Some("1"), None));
}

#[test]
fn s18_a_stead_with_nothing_else_to_restore_restores_its_state() {
    let fixture = Fixture::new();
    let stead = fixture.stead("reader");
    let state = stead.state().unwrap();
    let first = state.set("a", "1", &SetOptions::new()).unwrap().revision.unwrap();
    set(&state, "a", "2");
    stead.vfs().restore("/", first, &RestoreOptions::default()).unwrap();
    assert_eq!(value(&stead, "a").as_deref(), Some("1"));
}

#[test]
fn s18_the_past_shows_a_key_until_it_expired() {
    let fixture = Fixture::new();
    let stead = fixture.stead("coder");
    let state = stead.state().unwrap();
    let options = SetOptions::new().expires_in(Duration::from_millis(300));
    let written = state.set("a", "1", &options).unwrap();
    let set_at = written.revision.unwrap();
    // Not the present time: the commit may have taken longer than the key lives.
    let while_alive = stead::Timestamp(written.expires_at.unwrap().0 - 1_000_000);
    std::thread::sleep(Duration::from_millis(400));
    let later = stead.vfs().write("/notes/x", "1").unwrap().revision.unwrap();
    assert_eq!(value(&stead, "a"), None);
    assert_eq!(value(&stead.as_of(set_at).unwrap(), "a").as_deref(), Some("1"));
    assert_eq!(value(&stead.as_of(while_alive).unwrap(), "a").as_deref(), Some("1"));
    assert_eq!(value(&stead.as_of(later).unwrap(), "a"), None);
}

#[test]
fn s18_the_quota_counts_keys_and_files_together() {
    let fixture = Fixture::new();
    let stead = fixture.stead("coder");
    let state = stead.state().unwrap();
    set(&state, "a", &format!("\"{}\"", "x".repeat(6_000)));
    assert_eq!(stead.vfs().write("/notes/x", vec![b'x'; 6_000]).unwrap_err().kind(), ErrorKind::Quota);
    stead.vfs().write("/notes/x", vec![b'x'; 4_100]).unwrap();
    let refused = state.set("b", &format!("\"{}\"", "x".repeat(200)), &SetOptions::new()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Quota);
    state.delete("a", None).unwrap();
    set(&state, "b", &format!("\"{}\"", "x".repeat(200)));
}

#[test]
fn s18_gc_removes_expired_keys_and_verify_checks_the_state() {
    let fixture = Fixture::new();
    for agent in ["coder", "reader"] {
        let state = fixture.stead(agent).state().unwrap();
        state.set("old", "1", &SetOptions::new().expires_in(Duration::from_secs(60))).unwrap();
        set(&state, "kept", "1");
    }
    let stores = Stores::of(&fixture.config());
    let now = stead::Timestamp(SystemClock.now().0 + 120_000_000_000);
    let options = GcOptions { grace: Duration::ZERO, vacuum: false };
    let retention = Retention { age: Duration::from_secs(1), ..fixture.config().history };
    let report = stores.gc(retention, options, now, &mut |_, _| ()).unwrap();
    assert_eq!(report.expired_keys, 2);
    assert_eq!(stores.gc(retention, options, now, &mut |_, _| ()).unwrap().expired_keys, 0);
    assert_eq!(value(&fixture.stead("coder"), "kept").as_deref(), Some("1"));
    for (name, report) in stores.verify(&mut |_, _| ()).unwrap() {
        assert_eq!(report.problems, [""; 0], "{name}");
    }
    assert!(logged(&fixture.stead("reader")).iter().any(|line| line == "removed state:default/old"));
}

#[test]
fn s18_a_backup_includes_the_state() {
    let fixture = Fixture::new();
    set(&fixture.stead("coder").state().unwrap(), "a", "1");
    let stores = Stores::of(&fixture.config());
    let backup = fixture.directory.path().join("backup.db");
    stores.backup(&backup, &mut |_| ()).unwrap();
    set(&fixture.stead("coder").state().unwrap(), "a", "2");
    stores.restore_backup(&backup, &mut |_| ()).unwrap();
    assert_eq!(value(&fixture.stead("coder"), "a").as_deref(), Some("1"));
}

#[test]
fn s18_the_audit_has_one_record_of_each_call_without_the_value() {
    let fixture = Fixture::new();
    let stead = fixture.stead("coder");
    stead.call("state_set", json!({ "key": "a", "value": "\"CANARY\"" }));
    stead.call("state_get", json!({ "key": "a" }));
    stead.call("state_list", json!({}));
    stead.call("state_set", json!({ "key": "a", "value": "2", "create_only": true }));
    stead.call("state_delete", json!({ "key": "a" }));
    drop(stead);
    let access = Stores::of(&fixture.config()).audit_access().unwrap().unwrap();
    let mut entries = Vec::new();
    let take = &mut |entry: &AuditEntry| {
        entries.push(entry.clone());
        ControlFlow::Continue(())
    };
    access.each(&AuditQuery::default(), take).unwrap();
    let mut records: Vec<_> = entries
        .iter()
        .map(|entry| format!("{} {} {}", entry.call, entry.paths.join(" "), entry.outcome))
        .collect();
    records.sort();
    assert_eq!(
        records,
        [
            "state_delete state:default/a ok",
            "state_get state:default/a ok",
            "state_list state:default ok",
            "state_set state:default/a failed",
            "state_set state:default/a ok",
        ]
    );
    assert!(!format!("{entries:?}").contains("CANARY"));
}

#[test]
fn s18_forks_and_other_views_keep_the_state() {
    let fixture = Fixture::new();
    let stead = fixture.stead("coder");
    set(&stead.state().unwrap(), "a", "1");
    let forked = stead.fork("/notes", "draft").unwrap();
    assert_eq!(value(&forked, "a").as_deref(), Some("1"));
    set(&forked.state().unwrap(), "a", "2");
    assert_eq!(value(&stead, "a").as_deref(), Some("2"));
}
