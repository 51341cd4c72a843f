//! A stead as it was at an earlier time.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use serde_json::json;
use stead::tools::{ApprovalAnswer, ToolChoice};
use stead::{
    AccessScope, ApprovalPolicy, Clock, ErrorKind, MemoryStore, Mount, PhysicalOptions, PhysicalStore, Stead,
    SystemClock, VfsPath, Workspace,
};

#[test]
fn an_earlier_stead_has_the_readable_workspaces_and_can_not_be_changed() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("root")).unwrap();
    let options = PhysicalOptions::new(directory.path().join("state"));
    let disk = Arc::new(PhysicalStore::open(directory.path().join("root"), options).unwrap());
    let (notes, inbox) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
    let stead = Stead::builder("coder")
        .workspace("/notes", AccessScope::ReadWrite, &notes)
        .workspace("/inbox", AccessScope::WriteOnly, &inbox)
        .workspace("/disk", AccessScope::ReadWrite, &disk)
        .build()
        .unwrap();
    let vfs = stead.vfs();
    let first = vfs.write("/notes/a", "1").unwrap().revision.unwrap();
    vfs.write("/notes/a", "2").unwrap();
    // The two databases have separate version counters; this one has to reach the version too.
    vfs.write("/inbox/a", "1").unwrap();
    let earlier_stead = stead.as_of(first).unwrap();
    assert_eq!(earlier_stead.vfs().read("/notes/a").unwrap().bytes, b"1");
    assert_eq!(earlier_stead.vfs().write("/notes/a", "3").unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(earlier_stead.vfs().workspaces().count(), 1);
    assert_eq!(earlier_stead.vfs().read("/disk/a").unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(earlier_stead.vfs().read("/inbox/a").unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(vfs.read("/notes/a").unwrap().bytes, b"2");
}

/// `/notes` with a history, where changes need approval, and `/vault`, where reads need it too.
fn stead_with_approval_policies() -> Stead {
    let workspace = |prefix: &str, policy| {
        let mount = Mount::new(Arc::new(MemoryStore::new()));
        Workspace::new(VfsPath::parse(prefix).unwrap(), AccessScope::ReadWrite, mount)
            .with_approval_policy(policy)
    };
    let choice = ToolChoice { history: true, ..ToolChoice::default() };
    Stead::builder("coder")
        .add_workspace(workspace("/notes", ApprovalPolicy::Changes))
        .add_workspace(workspace("/vault", ApprovalPolicy::Everything))
        .tools(choice)
        .build()
        .unwrap()
}

#[test]
fn an_undo_needs_approval_and_is_denied_if_no_person_can_be_asked() {
    let stead = stead_with_approval_policies();
    stead.with_approval().vfs().write("/notes/a", "1").unwrap();
    let denied = stead.call("undo", json!({}));
    assert_eq!(denied.failure.unwrap().kind, ErrorKind::Denied);
    let question = stead.call_with_approval("undo", json!({}), ApprovalAnswer::NotAsked).unwrap_err();
    assert_eq!(question.text, "May the agent `coder` use `undo` on `/notes/a`?");
    assert!(stead.vfs().exists("/notes/a").unwrap());
    let done = stead.call_with_approval("undo", json!({}), question.approve()).unwrap();
    assert_eq!(done.failure, None, "{}", done.joined_text());
    assert!(!stead.vfs().exists("/notes/a").unwrap());
}

#[test]
fn several_edits_in_one_call_are_undone_together() {
    let notes = Arc::new(MemoryStore::new());
    let choice = ToolChoice { history: true, ..ToolChoice::default() };
    let stead = Stead::builder("coder").workspace("/notes", AccessScope::ReadWrite, &notes).tools(choice);
    let stead = stead.build().unwrap();
    let written = stead.vfs().write("/notes/a", "one\ntwo\n").unwrap();
    let more_edits = json!([{ "old_string": "two", "new_string": "2" }]);
    let edit =
        json!({ "path": "/notes/a", "old_string": "one", "new_string": "1", "more_edits": more_edits });
    let edited = stead.call("edit_file", edit);
    assert_eq!(edited.facts["version"], written.revision.unwrap().number.0 + 1, "{}", edited.joined_text());
    assert_eq!(stead.vfs().read("/notes/a").unwrap().bytes, b"1\n2\n");
    assert_eq!(stead.call("undo", json!({})).failure, None);
    assert_eq!(stead.vfs().read("/notes/a").unwrap().bytes, b"one\ntwo\n");
}

#[test]
fn a_snapshot_of_everything_needs_approval_for_the_workspaces_that_require_it() {
    let question = stead_with_approval_policies()
        .call_with_approval("snapshot", json!({}), ApprovalAnswer::NotAsked)
        .unwrap_err();
    assert_eq!(question.text, "May the agent `coder` use `snapshot` on `/notes`, `/vault`?");
}

#[test]
fn a_version_number_means_nothing_in_a_store_with_its_own_counter() {
    let (notes, scratch) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
    let stead = Stead::builder("coder")
        .workspace("/notes", AccessScope::ReadWrite, &notes)
        .workspace("/scratch", AccessScope::ReadWrite, &scratch)
        .tools(ToolChoice { history: true, ..ToolChoice::default() })
        .build()
        .unwrap();
    let vfs = stead.vfs();
    vfs.symlink("/notes/beside", "/scratch").unwrap();
    vfs.write("/scratch/a", "unrelated").unwrap();
    let revision = vfs.write("/notes/a", "then").unwrap().revision.unwrap();
    vfs.write("/scratch/a", "then").unwrap();
    let time = SystemClock.now();
    while SystemClock.now() == time {
        std::hint::spin_loop();
    }
    for path in ["/notes/a", "/scratch/a"] {
        vfs.write(path, "now").unwrap();
    }

    // A number with a path above both Workspaces could mean either Store.
    let number = revision.number.to_string();
    let refused = stead.as_of_text("/", &number).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("use a time"), "{refused}");
    // A revision is its Store's, and so is a number with a path. The other Store isn't shown, since it has no such point
    // in time.
    for earlier_stead in [stead.as_of(revision).unwrap(), stead.as_of_text("/notes", &number).unwrap()] {
        assert_eq!(earlier_stead.vfs().read("/notes/a").unwrap().bytes, b"then");
        for path in ["/scratch/a", "/notes/beside/a"] {
            let refused = earlier_stead.vfs().read(path).unwrap_err();
            assert!(refused.to_string().contains("has its own version numbers"), "{refused}");
        }
    }
    let read = stead.call("read_version", json!({ "path": "/notes/beside/a", "version": number }));
    assert_eq!(read.failure.unwrap().kind, ErrorKind::Denied);
    // A time means the same in both Stores.
    let earlier_stead = stead.as_of(time).unwrap();
    for path in ["/notes/a", "/scratch/a"] {
        assert_eq!(earlier_stead.vfs().read(path).unwrap().bytes, b"then", "{path}");
    }
}

#[test]
fn an_earlier_stead_of_a_snapshot_shows_only_the_stores_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let text = r#"
        [stores.notes]
        kind = "virtual"
        [stores.scratch]
        kind = "memory"
        [agents.coder]
        workspaces = [
          { prefix = "/notes", store = "notes", scope = "rw" },
          { prefix = "/scratch", store = "scratch", scope = "rw" },
        ]
    "#;
    let config = stead::Config::parse(text, &directory.path().join("stead.toml")).unwrap();
    let stead = Stead::open(&config, "coder").unwrap();
    for content in ["unrelated 1", "unrelated 2", "unrelated 3"] {
        stead.vfs().write("/scratch/a", content).unwrap();
    }
    stead.vfs().write("/notes/a", "then").unwrap();
    stead.snapshot(None, Some("draft")).unwrap();
    stead.vfs().write("/notes/a", "now").unwrap();

    let earlier_stead = stead.as_of_text("/", "draft").unwrap();
    assert_eq!(earlier_stead.vfs().read("/notes/a").unwrap().bytes, b"then");
    let refused = earlier_stead.vfs().read("/scratch/a").unwrap_err();
    assert!(refused.to_string().contains("has its own version numbers"), "{refused}");
    let refused = stead.as_of_text("/scratch/a", "draft").unwrap_err();
    assert!(refused.to_string().contains("doesn't include `/scratch/a`"), "{refused}");
}

#[test]
fn a_snapshot_of_a_memory_store_is_refused_and_one_of_everything_says_that_it_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let text = r#"
        [stores.notes]
        kind = "virtual"
        [stores.scratch]
        kind = "memory"
        [agents.coder]
        tools = ["restore", "snapshot"]
        workspaces = [
          { prefix = "/notes", store = "notes", scope = "rw" },
          { prefix = "/scratch", store = "scratch", scope = "rw" },
        ]
    "#;
    let config = stead::Config::parse(text, &directory.path().join("stead.toml")).unwrap();
    let stead = Stead::open(&config, "coder").unwrap();
    for path in ["/notes/a", "/scratch/a"] {
        stead.vfs().write(path, "then").unwrap();
    }
    for path in ["/scratch", "/scratch/a"] {
        let refused = stead.snapshot(Some(path), Some("kept")).unwrap_err();
        assert!(refused.to_string().contains("a snapshot can't include it"), "{refused}");
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
    }
    assert_eq!(stead.snapshots(None).unwrap(), []);
    let arguments = json!({ "label": "all" }).as_object().unwrap().clone();
    let created = stead.toolbox().call("snapshot", arguments, ApprovalAnswer::NotAsked).unwrap();
    assert!(created.joined_text().ends_with("the snapshot all. It doesn't include /scratch."), "{created:?}");
    assert_eq!(stead.left_out_of_snapshot(Some("/notes")).unwrap(), []);

    for path in ["/notes/a", "/scratch/a"] {
        stead.vfs().write(path, "now").unwrap();
    }
    let arguments =
        json!({ "path": "/notes", "snapshot": "now", "dry_run": true }).as_object().unwrap().clone();
    let reply = stead.toolbox().call("restore", arguments, ApprovalAnswer::NotAsked).unwrap();
    assert_eq!(reply.joined_text(), "There is nothing to restore: nothing would change.");
    let point = stead.resolve_point("/", "all").unwrap();
    let restored = stead.vfs().restore("/", point, &Default::default()).unwrap();
    assert!(restored.left_out[0].why.contains("with one of its own versions or a time"), "{restored:?}");
    // The advice works.
    let point = stead.resolve_point("/scratch", "1").unwrap();
    assert_eq!(stead.vfs().restore("/scratch", point, &Default::default()).unwrap().changes.len(), 1);
    assert_eq!(stead.vfs().read("/scratch/a").unwrap().bytes, b"then");
}

#[test]
fn a_snapshot_in_a_broken_database_is_not_reported_as_missing() {
    let host = tempfile::tempdir().unwrap();
    std::fs::create_dir(host.path().join("data")).unwrap();
    let text = r#"
        [stores.here]
        kind = "physical"
        path = "data"
        [stores.m]
        kind = "memory"
        [[agents.a.workspaces]]
        prefix = "/here"
        scope = "rw"
        store = "here"
        [[agents.a.workspaces]]
        prefix = "/m"
        scope = "rw"
        store = "m"
        [audit]
        enabled = false
    "#;
    let config = stead::Config::parse(text, &host.path().join("stead.toml")).unwrap();
    let stead = Stead::open(&config, "a").unwrap();
    let revision = stead.vfs().write("/m/a", "1").unwrap().revision.unwrap();
    let missing = stead.resolve_point("/m/a", "release").unwrap_err();
    assert!(missing.to_string().contains("`release`"), "{missing}");
    let database = config.database.path.clone();
    assert!(!database.exists(), "a read must not create the database");

    std::fs::create_dir_all(database.parent().unwrap()).unwrap();
    std::fs::write(&database, "this was a database").unwrap();
    let broken = stead.resolve_point("/m/a", "release").unwrap_err();
    assert!(!broken.to_string().contains("`release`"), "{broken}");
    // A version of a Store outside the database needs no database.
    assert_eq!(stead.resolve_point("/m/a", &format!("v{}", revision.number)).unwrap(), revision.into());
}
