//! Long calls: they report progress and can be cancelled.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use stead::{AccessScope, Config, MemoryStore, Stead};
use stead_core::testkit::{Fault, FaultyStore};
use stead_server::{LiveStead, ServerLimits};

use crate::client::{Client, code};

/// Two Stores, the first with many files.
fn stead_with_two_stores() -> Stead {
    two_stores(Fault::Never).0
}

/// The same. A call that copies the files waits in the middle until the first Store may go on.
fn stead_with_a_waiting_store() -> (Stead, Arc<FaultyStore>) {
    two_stores(Fault::Waits(1_000))
}

fn two_stores(fault: Fault) -> (Stead, Arc<FaultyStore>) {
    let (one, two) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
    let faulty = Arc::new(FaultyStore::new(one, fault));
    let stead = Stead::builder("a")
        .workspace("/one", AccessScope::ReadWrite, &faulty)
        .workspace("/two", AccessScope::ReadWrite, &two)
        .build()
        .unwrap();
    let mut batch = stead.vfs().batch();
    for n in 0..3_000 {
        batch
            .write(format!("/one/tree/{n}").as_str(), vec![b'x'; 64], &stead::vfs::WriteOptions::new())
            .unwrap();
    }
    batch.apply().unwrap();
    assert!(faulty.calls() < 100, "the files are not copied yet");
    (stead, faulty)
}

#[test]
fn a_copy_reports_its_progress_before_its_answer() {
    let mut client = Client::new(&stead_with_two_stores());
    let answer = client.request(
        "tools/call",
        json!({
            "name": "copy_file",
            "arguments": { "source": "/one/tree", "destination": "/two/tree" },
            "_meta": { "progressToken": "p1" },
        }),
    );
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let reports: Vec<_> =
        client.queued.iter().filter(|message| message["method"] == "notifications/progress").collect();
    assert!(!reports.is_empty());
    let mut last = 0.0;
    for message in reports {
        assert_eq!(message["params"]["progressToken"], "p1");
        assert_eq!(message["params"]["total"], 3_000.0);
        let done = message["params"]["progress"].as_f64().unwrap();
        assert!(done > last);
        last = done;
    }
}

#[test]
fn a_call_that_is_cancelled_leaves_nothing_behind() {
    let (stead, store) = stead_with_a_waiting_store();
    let limits = ServerLimits { calls_per_identity: 1, ..ServerLimits::default() };
    let mut client = Client::uninitialized(Arc::new(LiveStead::new(&stead, limits)));
    client.initialize(json!({}));
    let id = client.send_request(
        "tools/call",
        json!({
            "name": "move_file",
            "arguments": { "source": "/one/tree", "destination": "/two/tree" },
            "_meta": { "progressToken": 1 },
        }),
    );
    // The call is running now.
    client.wait_for("notifications/progress");
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }),
    );
    std::thread::sleep(Duration::from_secs(2));
    store.go_on();
    // One call runs at a time, so this one is answered after the move has ended.
    assert_eq!(client.call("stat", json!({ "path": "/one" }))["isError"], false);
    assert!(!client.queued.iter().any(|message| message["id"] == id), "a cancelled call is not answered");
    assert!(!stead.vfs().exists("/two/tree").unwrap());
    assert!(stead.vfs().exists("/one/tree/2999").unwrap());
}

#[test]
fn a_call_that_exceeds_the_time_limit_is_stopped() {
    let stead = stead_with_two_stores();
    let limits = ServerLimits { call_timeout: Duration::ZERO, ..ServerLimits::default() };
    let mut client = Client::uninitialized(Arc::new(LiveStead::new(&stead, limits)));
    client.initialize(json!({}));
    let answer = client.call("copy_file", json!({ "source": "/one/tree", "destination": "/two/tree" }));
    assert_eq!(code(&answer), "unavailable");
    assert!(answer["content"][0]["text"].as_str().unwrap().contains("too long"), "{answer}");
    assert!(!stead.vfs().exists("/two/tree").unwrap());
}

#[test]
fn a_call_beyond_the_limit_of_waiting_calls_is_refused() {
    let limits = ServerLimits { calls_per_identity: 1, waiting_per_identity: 0, ..ServerLimits::default() };
    let (stead, store) = stead_with_a_waiting_store();
    let mut client = Client::uninitialized(Arc::new(LiveStead::new(&stead, limits)));
    client.initialize(json!({}));
    let copy = json!({
        "name": "copy_file",
        "arguments": { "source": "/one/tree", "destination": "/two/tree" },
        "_meta": { "progressToken": 1 },
    });
    let id = client.send_request("tools/call", copy);
    client.wait_for("notifications/progress");
    let refused = client.call("stat", json!({ "path": "/one" }));
    assert_eq!(code(&refused), "unavailable", "{refused}");
    let is_answered = client.queued.iter().any(|message| message["id"] == id);
    assert!(!is_answered, "the copy ended before the other call was refused");
    store.go_on();
    assert_eq!(client.answer(id)["result"]["isError"], false);
    assert_eq!(client.call("stat", json!({ "path": "/one" }))["isError"], false);
}

/// A stead whose client has begun a merge and cancelled it, and the request of the merge. `None` if it was merged before the server
/// knew of that, as can happen on a busy machine.
fn cancelled_merge(kind: &str) -> Option<(tempfile::TempDir, Stead, Client, serde_json::Value)> {
    let host = tempfile::tempdir().unwrap();
    let stead = stead_with_a_changed_fork(kind, host.path());
    let limits = ServerLimits { calls_per_identity: 1, ..ServerLimits::default() };
    let mut client = Client::uninitialized(Arc::new(LiveStead::new(&stead, limits)));
    client.initialize(json!({}));
    let merge =
        json!({ "name": "merge_fork", "arguments": { "fork": "draft" }, "_meta": { "progressToken": 1 } });
    let id = client.send_request("tools/call", merge.clone());
    client.wait_for("notifications/progress");
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }),
    );
    // One call runs at a time, so this one is answered after the merge has ended.
    assert_eq!(client.call("list_directory", json!({ "path": "/code" }))["isError"], false);
    let is_merged = stead.vfs().exists("/code/tree").unwrap();
    let is_answered = client.queued.iter().any(|message| message["id"] == id);
    assert!(is_merged || !is_answered, "{kind}: a cancelled call is not answered");
    (!is_merged).then_some((host, stead, client, merge))
}

/// A snapshot reads a directory of the host. If it is cancelled in the middle of a large file, it stops there, and the
/// snapshot isn't created.
#[test]
fn a_snapshot_that_is_cancelled_is_not_created() {
    let host = tempfile::tempdir().unwrap();
    let directory = host.path().join("code");
    std::fs::create_dir(&directory).unwrap();
    for n in 0..100 {
        std::fs::write(directory.join(format!("a{n}")), "x").unwrap();
    }
    let large = std::fs::File::create(directory.join("large")).unwrap();
    large.set_len(1 << 30).unwrap();
    let text = r#"
        [stores.code]
        kind = "physical"
        path = "code"
        keep = { file_bytes = "8GiB" }
        [agents.a]
        history = true
        [[agents.a.workspaces]]
        prefix = "/code"
        scope = "rw"
        store = "code"
    "#;
    let config = Config::parse(text, &host.path().join("stead.toml")).unwrap();
    let stead = Stead::open(&config, "a").unwrap();
    let limits = ServerLimits { calls_per_identity: 1, ..ServerLimits::default() };
    let mut client = Client::uninitialized(Arc::new(LiveStead::new(&stead, limits)));
    client.initialize(json!({}));
    let id = client.send_request(
        "tools/call",
        json!({ "name": "snapshot", "arguments": { "label": "never" }, "_meta": { "progressToken": 1 } }),
    );
    client.wait_for("notifications/progress");
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }),
    );
    // One call runs at a time, so this one is answered after the snapshot has ended.
    assert_eq!(client.call("stat", json!({ "path": "/code/a1" }))["isError"], false);
    assert!(!client.queued.iter().any(|message| message["id"] == id), "a cancelled call is not answered");
    assert_eq!(stead.snapshots(None).unwrap(), []);
    // The next snapshot uses what the cancelled one has captured.
    large.set_len(1).unwrap();
    let created = client.call("snapshot", json!({ "label": "now or never" }));
    assert_eq!(created["isError"], false, "{created}");
    assert_eq!(stead.snapshots(None).unwrap().len(), 1);
}

/// A Workspace and a fork of it that has changed many of its files.
fn stead_with_a_changed_fork(kind: &str, host: &std::path::Path) -> Stead {
    std::fs::create_dir(host.join("code")).unwrap();
    let path = if kind == "physical" { "path = \"code\"" } else { "" };
    let text = format!(
        "[stores.code]\nkind = \"{kind}\"\n{path}\n[agents.a]\nforks = true\n[[agents.a.workspaces]]\n\
         prefix = \"/code\"\nscope = \"rw\"\nstore = \"code\"\n"
    );
    let config = Config::parse(&text, &host.join("stead.toml")).unwrap();
    let stead = Stead::open(&config, "a").unwrap().fork("/code", "draft").unwrap();
    let mut batch = stead.vfs().batch();
    for n in 0..1_000 {
        let path = format!("/forks/draft/tree/{n}");
        batch.write(path.as_str(), vec![b'x'; 64], &stead::vfs::WriteOptions::new()).unwrap();
    }
    batch.apply().unwrap();
    stead
}

#[test]
fn g29_a_merge_reports_its_progress_and_can_be_cancelled() {
    for kind in ["virtual", "physical"] {
        let cancelled = (0..8).find_map(|_| cancelled_merge(kind));
        let (_host, stead, mut client, merge) = cancelled.expect("each merge ended before it was cancelled");
        client.queued.clear();
        let answer = client.request("tools/call", merge);
        assert_eq!(answer["result"]["isError"], false, "{kind}: {answer}");
        let reports = client.queued.iter().filter(|message| message["method"] == "notifications/progress");
        let reports: Vec<_> = reports.map(|message| &message["params"]).collect();
        let done: Vec<f64> = reports.iter().map(|report| report["progress"].as_f64().unwrap()).collect();
        assert!(done.is_sorted_by(|one, other| one < other), "{kind}: {done:?}");
        // How far it came is reported also if all of it happened between two reports.
        let last = reports.last().expect("a report");
        let number = |key: &str| last[key].as_f64().unwrap_or_default();
        assert!(number("total") >= number("progress") && number("progress") >= 1_000.0, "{kind}: {last}");
        assert!(stead.vfs().exists("/code/tree/999").unwrap(), "{kind}");
    }
}
