//! Changes of the configuration while clients are connected.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use stead::{Config, Identity};
use stead_server::{HttpOptions, ServerLimits, SteadRegistry};

use crate::client::Client;
use crate::http::Server;

const ONE: &str = r#"
    [stores.notes]
    kind = "memory"
    [[agents.ann.workspaces]]
    prefix = "/notes"
    scope = "rw"
    store = "notes"
"#;

fn two() -> String {
    format!("{ONE}\n[[agents.ann.workspaces]]\nprefix = \"/more\"\nscope = \"rw\"\nstore = \"notes\"\n")
}

fn eventually(mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(15);
    while !holds() {
        assert!(Instant::now() < until, "it does not come to hold");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_server_follows_its_configuration_and_keeps_the_old_one_where_the_new_one_is_wrong() {
    let server = Server::with(ONE, HttpOptions::default(), ServerLimits::default());
    let file = server.host.path().join("stead.toml");
    let map = || {
        let answer = server.modern(None, "resources/read", json!({ "uri": "stead://map" }));
        answer.message()["result"]["contents"][0]["text"].as_str().unwrap_or_default().to_owned()
    };
    assert!(map().contains("/notes"));
    fs::write(&file, two()).unwrap();
    eventually(|| map().contains("/more"));
    let nowhere = ONE.replace("kind = \"memory\"", "kind = \"physical\"\npath = \"nowhere\"");
    for wrong in ["[agents.ann]\nnonsense = 1\n", "", &nowhere] {
        fs::write(&file, wrong).unwrap();
        std::thread::sleep(Duration::from_millis(2_500));
        assert!(map().contains("/more"), "{wrong}");
    }
    // A file that replaces the configuration is noticed as well.
    let fresh = server.host.path().join("new.toml");
    fs::write(&fresh, ONE).unwrap();
    fs::rename(&fresh, &file).unwrap();
    eventually(|| !map().contains("/more"));
}

#[test]
fn clients_are_told_to_list_again() {
    let host = tempfile::tempdir().unwrap();
    let file = host.path().join("stead.toml");
    let config = |text: &str| Config::parse(text, &file).unwrap();
    let steads = SteadRegistry::of(&config(ONE), ServerLimits::default());
    let mut client = Client::silent(steads.get(&Identity::agent("ann")).unwrap());
    client.initialize(json!({}));
    client.request("ping", json!({}));
    // The server starts to listen for changes shortly after the client has initialized.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(client.call("write_file", json!({ "path": "/notes/a", "content": "1" }))["isError"], false);
    steads.replace(&config(&two())).unwrap();
    client.notified("notifications/tools/list_changed");
    client.notified("notifications/resources/list_changed");
    let read = client.call("read_file", json!({ "path": "/more/a" }));
    let text = read["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("1\n[no newline at end; "), "what is only in memory is still there: {text}");
    // An agent that isn't configured any more has no tools.
    steads.replace(&config(&ONE.replace("ann", "bob"))).unwrap();
    client.notified("notifications/tools/list_changed");
    assert_eq!(client.request("tools/list", json!({}))["result"]["tools"], json!([]));
    assert!(steads.get(&Identity::agent("ann")).is_err());
}

#[test]
fn a_fork_that_somebody_makes_appears() {
    let host = tempfile::tempdir().unwrap();
    let file = host.path().join("stead.toml");
    let config = Config::parse(&ONE.replace("memory", "virtual"), &file).unwrap();
    let steads = Arc::new(SteadRegistry::of(&config, ServerLimits::default()));
    let mut client = Client::silent(steads.get(&Identity::agent("ann")).unwrap());
    client.initialize(json!({}));
    client.call("write_file", json!({ "path": "/notes/a", "content": "1" }));
    std::thread::sleep(Duration::from_millis(300));
    let elsewhere = stead::Stead::open(&config, "ann").unwrap();
    elsewhere.fork("/notes", "draft").unwrap();
    steads.refresh();
    client.notified("notifications/tools/list_changed");
    let read = client.call("read_file", json!({ "path": "/forks/draft/a" }));
    assert!(read["content"][0]["text"].as_str().unwrap().starts_with("1\n[no newline at end; "), "{read}");
}
