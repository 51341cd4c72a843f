//! Managed folders of an organization: folder tools route and register like path tools, and the depth counts below the routed
//! directories.

use serde_json::{Value, json};
use stead::tools::Reply;
use stead::{Clock, SystemClock};

use super::*;

const ORGANIZATION: &str = r#"
[[organization]]
id = "acme"
store = "s"
managed = true
toolWhitelist = ["list_folders", "create_folder", "read_file_by_id", "write_file_by_id", "write_file", "workspace"]
teams = [{ id = "team-hr", name = "HR" }]
agents = [
    { id = "marcus", name = "Marcus", teamId = "team-hr" },
    { id = "fiona", name = "Fiona" },
]
"#;

fn folder(stead: &Stead, scope: &str) -> Value {
    let reply = stead.call("list_folders", json!({ "scope": scope }));
    reply.structured()["folders"][0]["folderId"].clone()
}

fn write_in(stead: &Stead, folder: &Value, name: &str) -> Reply {
    stead.call("write_file_by_id", json!({ "folderId": folder, "filename": name, "content": "x" }))
}

#[test]
fn w1_and_w20_folder_tools_route_and_find_again_in_a_managed_folder() {
    Host::each(ORGANIZATION, |host| {
        let marcus = host.open("acme/marcus");
        let id = folder(&marcus, "team_shared");
        let reply = write_in(&marcus, &id, "plan.md");
        let path = reply.structured()["path"].as_str().unwrap().to_owned();
        assert!(path.starts_with("/workspaces/team-hr/shared/documents/20"), "{path}");
        let read = marcus.call("read_file_by_id", json!({ "folderId": id, "filename": "plan.md" }));
        assert_eq!(read.failure, None);
        assert_eq!(tagged(&marcus, "/workspaces/team-hr/shared"), ["plan.md "]);
        assert_eq!(tagged(&marcus, "/workspaces/marcus/private"), Vec::<String>::new());
        let rows = host.query("SELECT source_tool || ' ' || session_key FROM workspace_files");
        assert_eq!(rows, ["write_file_by_id acme/marcus"]);
        // Everybody in the organization reads the team's shared folder, and nobody else changes it.
        let fiona = host.open("acme/fiona");
        assert_eq!(tagged(&fiona, "/workspaces/team-hr/shared"), ["plan.md "]);
        assert!(files(&fiona, "/workspaces/team-hr/shared").delete(&*path).is_err());
    });
}

#[test]
fn w15_the_depth_of_a_managed_folder_counts_below_category_and_day() {
    Host::each(ORGANIZATION, |host| {
        let marcus = host.open("acme/marcus");
        let id = folder(&marcus, "my_private");
        for name in ["a.md", "documents/2026-01-01/a/b/c.md", "documents/a/b/c.md", "a/b/c.md"] {
            assert_eq!(write_in(&marcus, &id, name).failure, None, "{name}");
        }
        for name in ["documents/2026-01-01/a/b/c/d.md", "documents/a/b/c/d.md", "a/b/c/d.md"] {
            let failure = write_in(&marcus, &id, name).failure.unwrap();
            assert!(failure.message.contains("too deep"), "{name}: {}", failure.message);
        }
        let create = |name: &str| {
            let arguments = json!({ "scope": "my_private", "folderName": name });
            marcus.call("create_folder", arguments).failure
        };
        assert_eq!(create("data/2026-01-01/x/y"), None);
        assert!(create("data/2026-01-01/x/y/z").is_some() && create("x/y/z").is_some());
    });
}

#[test]
fn w86_the_hygiene_cycle_covers_the_folders_of_an_organization() {
    Host::each(ORGANIZATION, |host| {
        let marcus = host.open("acme/marcus");
        for folder in ["marcus/private", "team-hr/shared"] {
            write(&marcus, &format!("/workspaces/{folder}/old"), "x");
        }
        let stores = host.stores();
        let directories = stores.managed_directories();
        assert_eq!(directories.len(), 6, "two folders of each agent and of the team");
        let later = stead_core::clock::FixedClock::at(SystemClock.now());
        later.advance(std::time::Duration::from_secs(8 * 86_400));
        let clock: std::sync::Arc<dyn Clock> = std::sync::Arc::new(later);
        let removed = |directory| stores.clean_managed(directory, &clock).unwrap().removed;
        assert_eq!(directories.iter().map(removed).sum::<u64>(), 2);
        assert!(host.query("SELECT path FROM workspace_files").is_empty());
    });
}
