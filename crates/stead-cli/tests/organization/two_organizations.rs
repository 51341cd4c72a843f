//! What is wrong with the records of one organization, or with the configuration file, and what that changes for another one.

use std::fs;
use std::time::Duration;

use serde_json::json;

use crate::office::{Client, Office, wait_until};

const PATH: &str = "/workspaces/hr/private/s.md";

/// Two organizations with the agents `ann-acme` and `ann-beta`, and one agent outside.
fn office() -> Office {
    let office = Office::empty();
    for id in ["acme", "beta"] {
        fs::create_dir(office.path(id)).unwrap();
        let tools = r#"["read_file", "write_file"]"#;
        office
            .replace(&format!("{id}/org.json"), &format!(r#"{{ "id": "{id}", "toolWhitelist": {tools} }}"#));
        office.replace(&format!("{id}/teams.json"), r#"[{ "id": "hr" }, { "id": "lib" }]"#);
        office.replace(&format!("{id}/agents.json"), &agents(id, "hr"));
    }
    office.replace(
        "stead.toml",
        r#"
            [stores.s]
            kind = "virtual"
            [agents.solo]
            workspaces = [{ prefix = "/w", store = "s", path = "/solo", scope = "rw" }]
            [[organization]]
            path = "acme"
            store = "s"
            [[organization]]
            path = "beta"
            store = "s"
        "#,
    );
    office
}

fn agents(organization: &str, team: &str) -> String {
    format!(r#"[{{ "id": "ann-{organization}", "teamId": "{team}" }}]"#)
}

fn read(client: &mut Client, path: &str) -> Result<String, String> {
    client.call("read_file", json!({ "path": path }))
}

/// Long enough for the server to have looked at its configuration several times.
fn wait_for_reload() {
    std::thread::sleep(Duration::from_millis(1_500));
}

#[test]
fn f69_f79_f166_a_server_takes_away_what_valid_records_take_away_whatever_else_is_wrong() {
    let office = office();
    let server = office.serve();
    let mut ann = server.connect("beta/ann-beta");
    ann.call("write_file", json!({ "path": PATH, "content": "secret" })).unwrap();
    let config = fs::read_to_string(office.path("stead.toml")).unwrap();
    for (file, mistake) in
        [("acme/agents.json", "[{\"id\":".to_owned()), ("stead.toml", format!("bogus = 1\n{config}"))]
    {
        let valid = fs::read_to_string(office.path(file)).unwrap();
        office.replace(file, &mistake);
        wait_for_reload();
        assert!(read(&mut ann, PATH).is_ok(), "{file}");
        office.replace("beta/agents.json", &agents("beta", "lib"));
        std::thread::sleep(Duration::from_millis(40));
        let refusal = read(&mut ann, PATH).unwrap_err();
        assert!(refusal.contains("your rights have changed") || refusal.contains("in none of"), "{refusal}");
        wait_for_reload();
        assert!(read(&mut ann, PATH).is_err(), "{file}");
        let of_lib = json!({ "path": "/workspaces/lib/private/a", "content": "1" });
        ann.call("write_file", of_lib).unwrap_or_else(|error| panic!("{file}: {error}"));
        office.replace("beta/agents.json", &agents("beta", "hr"));
        wait_until("the right is back", || read(&mut ann, PATH).is_ok());
        office.replace(file, &valid);
        wait_for_reload();
    }
    let log = office.server_log();
    let kept = "the records of the organization `acme` aren't valid, so its last valid ones stay in use:";
    assert_eq!(log.matches(kept).count(), 1, "{log}");
    assert!(log.contains("acme/agents.json:1:"), "{log}");
    let refused = "the changed configuration isn't valid, so the old one stays in use";
    assert_eq!(log.matches(refused).count(), 1, "{log}");
}

#[test]
fn f166_a_missing_file_of_records_concerns_its_organization_alone_and_the_log_says_so() {
    let office = office();
    let server = office.serve();
    let [mut acme, mut beta, mut solo] =
        ["acme/ann-acme", "beta/ann-beta", "solo"].map(|agent| server.connect(agent));
    for (client, path) in [(&mut acme, PATH), (&mut beta, PATH), (&mut solo, "/w/a")] {
        client.call("write_file", json!({ "path": path, "content": "1" })).unwrap();
    }
    fs::rename(office.path("acme/agents.json"), office.path("away")).unwrap();
    std::thread::sleep(Duration::from_millis(40));
    for _ in 0..2 {
        assert!(read(&mut beta, PATH).is_ok() && read(&mut solo, "/w/a").is_ok());
        wait_for_reload();
    }
    let log = office.server_log();
    assert!(
        log.contains("the records of the organization `acme` can't be used, so its agents have no rights:"),
        "{log}"
    );
    assert!(!log.contains("the old one stays in use"), "{log}");
    // A command has no earlier records. Those of the others do without them.
    for (agent, path) in [("ann-beta", PATH), ("solo", "/w/a")] {
        let output = office.run(["--agent", agent, "cat", path]);
        assert!(output.status.success() && output.stdout == b"1", "{output:?}");
        let warning = String::from_utf8(output.stderr).unwrap();
        assert!(warning.contains("so its agents have no rights"), "{warning}");
        assert!(warning.contains("the records `agents.json` of the organization can't be read"), "{warning}");
    }
    let refused = office.run(["--agent", "ann-acme", "cat", PATH]);
    assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
    assert!(office.run(["audit"]).status.success());
    fs::rename(office.path("away"), office.path("acme/agents.json")).unwrap();
    wait_until("the rights are back", || acme.status() == 200);
    drop(server);
}
