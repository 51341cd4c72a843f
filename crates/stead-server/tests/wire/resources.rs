//! Files as resources.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use stead::{AccessScope, MemoryStore, Stead};

use crate::client::Client;
use crate::eras::notes;

fn uris(answer: &Value) -> Vec<String> {
    let resources = answer["result"]["resources"].as_array().unwrap();
    resources.iter().map(|resource| resource["uri"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn readable_files_are_listed_page_by_page() {
    let (one, two) = (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
    let stead = Stead::builder("a")
        .workspace("/one", AccessScope::ReadWrite, &one)
        .workspace("/secret", AccessScope::WriteOnly, &two)
        .workspace("/two", AccessScope::ReadOnly, &one)
        .build()
        .unwrap();
    for n in 0..250 {
        stead.vfs().write(format!("/one/f{n:03}").as_str(), "x").unwrap();
    }
    stead.vfs().write("/one/deep/down", "x").unwrap();
    stead.vfs().write("/secret/s", "x").unwrap();
    let mut client = Client::new(&stead);
    let (mut listed, mut cursor, mut pages) = (Vec::new(), None::<Value>, 0);
    loop {
        let params = cursor.map_or(json!({}), |cursor| json!({ "cursor": cursor }));
        let page = client.request("resources/list", params);
        let page_uris = uris(&page);
        assert!(page_uris.len() <= 200);
        listed.extend(page_uris);
        pages += 1;
        match page["result"].get("nextCursor") {
            Some(next) => cursor = Some(next.clone()),
            None => break,
        }
    }
    assert!(pages >= 3, "{pages}");
    assert_eq!(listed[0], "stead://map");
    assert_eq!(listed.len(), 501, "the map, and 250 files twice");
    assert_eq!(listed.iter().collect::<BTreeSet<_>>().len(), 501, "each resource has to be listed once");
    assert!(!listed.iter().any(|uri| uri.contains("secret") || uri.contains("deep")));
    let invalid_cursor = client.request("resources/list", json!({ "cursor": "/secret\u{0}" }));
    assert_eq!(invalid_cursor["error"]["code"], -32602);
}

#[test]
fn a_resource_is_read_as_text_or_bytes() {
    let stead = notes();
    stead.vfs().write("/notes/deep/ä b.bin", vec![0, 255]).unwrap();
    let mut client = Client::new(&stead);
    let mut read = |uri: &str| client.request("resources/read", json!({ "uri": uri }));
    assert_eq!(read("stead:///notes/plan.md")["result"]["contents"][0]["text"], "1. read\n");
    let binary = read("stead:///notes/deep/%C3%A4%20b.bin");
    assert_eq!(binary["result"]["contents"][0]["blob"], "AP8=");
    assert!(read("stead://map")["result"]["contents"][0]["text"].as_str().unwrap().contains("/notes"));
    assert_eq!(read("stead:///notes/none")["error"]["code"], -32002);
    for uri in
        ["stead:///elsewhere", "stead:///notes/../../etc/passwd", "file:///etc/passwd", "stead:///notes"]
    {
        assert!(read(uri)["error"]["code"].is_i64(), "{uri}");
    }
}

#[test]
fn the_template_names_every_file() {
    let listed = Client::new(&notes()).request("resources/templates/list", json!({}));
    assert_eq!(listed["result"]["resourceTemplates"][0]["uriTemplate"], "stead:///{+path}");
}

#[test]
fn a_client_that_follows_a_file_of_a_database_is_notified_of_every_change() {
    let host = tempfile::tempdir().unwrap();
    let open = || stead::Database::open(host.path().join("db"), stead::DatabaseOptions::default()).unwrap();
    let stead = || {
        let store = Arc::new(open().store(["notes"]).unwrap());
        Stead::builder("a").workspace("/n", AccessScope::ReadWrite, store).build().unwrap()
    };
    let (served, other) = (stead(), stead());
    other.vfs().write("/n/a", "0").unwrap();
    let mut client = Client::new(&served);
    client.request("resources/subscribe", json!({ "uri": "stead:///n/a" }));
    for number in 0..5 {
        other.vfs().write("/n/a", number.to_string()).unwrap();
        assert_eq!(client.wait_for("notifications/resources/updated")["params"]["uri"], "stead:///n/a");
    }
}

#[test]
fn a_subscriber_of_a_file_is_notified_of_changes_also_of_those_by_other_programs() {
    let host = tempfile::tempdir().unwrap();
    std::fs::write(host.path().join("a.txt"), "1").unwrap();
    let state = tempfile::tempdir().unwrap();
    let store = stead::PhysicalStore::open(host.path(), stead::PhysicalOptions::new(state.path())).unwrap();
    let stead = Stead::builder("a").workspace("/p", AccessScope::ReadOnly, Arc::new(store)).build().unwrap();
    let mut client = Client::new(&stead);
    for uri in ["stead:///p/a.txt", "stead:///p/later.txt"] {
        assert_eq!(client.request("resources/subscribe", json!({ "uri": uri }))["result"], json!({}));
    }
    assert!(client.request("resources/subscribe", json!({ "uri": "stead:///x" }))["error"].is_object());
    std::fs::write(host.path().join("a.txt"), "22").unwrap();
    assert_eq!(client.wait_for("notifications/resources/updated")["params"]["uri"], "stead:///p/a.txt");
    std::fs::write(host.path().join("later.txt"), "1").unwrap();
    assert_eq!(client.wait_for("notifications/resources/updated")["params"]["uri"], "stead:///p/later.txt");
    client.request("resources/unsubscribe", json!({ "uri": "stead:///p/a.txt" }));
    // A write of the host is two changes, to an empty file and to a full one, so more may have come until now.
    client.queued.clear();
    std::fs::write(host.path().join("a.txt"), "333").unwrap();
    std::thread::sleep(Duration::from_millis(1_200));
    client.request("ping", json!({}));
    assert!(client.queued.is_empty(), "{:?}", client.queued);
}
