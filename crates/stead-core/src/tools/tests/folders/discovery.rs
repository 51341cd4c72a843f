//! `list_folders`: which folders, which files, and what is said about them.

use super::*;
use crate::testkit::{Fault, FaultyStore};

fn folder_names(tools: &Toolbox, scope: &str) -> Vec<String> {
    let listing = list(tools, scope);
    let folders = listing["folders"].as_array().unwrap();
    assert_eq!(listing["totalFolders"], folders.len());
    folders.iter().map(|folder| folder["folderName"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn f13_to_f25_each_scope_has_its_folders_each_once_and_in_order() {
    let office = Office::new();
    let marcus = office.tools("marcus");
    assert_eq!(folder_names(&marcus, "my_private"), ["Marcus (HR) - Private"]);
    assert_eq!(folder_names(&marcus, "my_shared"), ["Marcus (HR) - Shared"]);
    assert_eq!(folder_names(&marcus, "team_private"), ["HR Team - Private"]);
    assert_eq!(folder_names(&marcus, "team_shared"), ["HR Team - Shared"]);
    let teams =
        ["Finance Team - Shared", "HR Team - Shared", "Leadership Team - Shared", "Library Team - Shared"];
    assert_eq!(folder_names(&marcus, "org_shared"), [&teams[..], &["Catalyst (HR) - Shared"]].concat());
    let solo = office.tools("solo");
    assert_eq!(folder_names(&solo, "org_shared"), teams);
    assert!(folder_names(&solo, "team_private").is_empty() && folder_names(&solo, "team_shared").is_empty());
    let others =
        ["Catalyst (HR) - Shared", "Fiona (Finance) - Shared", "Marcus (HR) - Shared", "Solo - Shared"];
    assert_eq!(folder_names(&office.tools("elena"), "org_shared"), [&teams[..], &others].concat());
}

#[test]
fn f26_and_f27_an_invalid_scope_names_the_available_ones() {
    let marcus = Office::new().tools("marcus");
    for (scope, shown) in [("team_library", "team_library"), ("MY_PRIVATE", "MY_PRIVATE"), ("", "")] {
        let failure = failure(&marcus, "list_folders", json!({ "scope": scope }));
        assert_eq!(failure.kind, ErrorKind::Invalid);
        assert_eq!(
            failure.message,
            format!(
                "Invalid scope '{shown}'. Available scopes: my_private, my_shared, team_private, team_shared, org_shared"
            )
        );
    }
}

#[test]
fn f28_and_f68_another_organization_has_its_own_folders_and_ids() {
    let office = Office::new();
    let globex = office.changed(OrganizationRecords { id: "globex".into(), ..records() });
    office.put("team-hr/shared", "acme.md", "acme");
    let (marcus, other_marcus) = (office.tools("marcus"), globex.tools("marcus"));
    let id = folder_id(&marcus, "team_shared", "team-hr/shared");
    assert!(file_names(&other_marcus, "team_shared").is_empty());
    let read = json!({ "folderId": id, "filename": "acme.md" });
    assert!(failure(&other_marcus, "read_file_by_id", read).message.contains("not found"));
}

#[test]
fn f29_a_folder_that_the_host_withholds_is_listed_as_unreadable_and_hides_no_other() {
    let office = Office::new();
    office.put("marcus/private", "a.md", "x");
    office.put("marcus/shared", "b.md", "x");
    let unreadable = |scope: &str, fault| {
        let store = Arc::new(FaultyStore::new(office.store.clone(), fault));
        let marcus = office.tools_over(store, "marcus", TOOLS.into_iter().map(|tool| tool.name));
        let listed = call_json(&marcus, "list_folders", json!({ "scope": scope }));
        let folders = listed["folders"].as_array().unwrap().clone();
        (folders.len(), folders.iter().filter(|folder| folder["unreadable"] == 1).count())
    };
    let (folders, _) = unreadable("org_shared", Fault::Never);
    assert!(folders > 1);
    assert!((1..20).any(|call| unreadable("org_shared", Fault::Denied(call)) == (folders, 1)));
}

#[test]
fn f29_every_folder_of_org_shared_can_be_read() {
    let office = Office::new();
    for folder in
        ["team-hr", "team-fin", "team-lib", "team-lead", "marcus", "catalyst", "fiona", "elena", "solo"]
    {
        office.put(&format!("{folder}/shared"), "a.md", folder);
    }
    for agent in ["marcus", "catalyst", "fiona", "elena", "solo"] {
        let tools = office.tools(agent);
        let listing = list(&tools, "org_shared");
        for folder in listing["folders"].as_array().unwrap() {
            let (_, facts) = read(&tools, folder["folderId"].as_str().unwrap(), "a.md");
            let owner = facts["content"].as_str().unwrap();
            assert_eq!(folder["path"], format!("/workspaces/{owner}/shared/"));
        }
    }
}

#[test]
fn f34_to_f44_folders_and_files_are_described() {
    let office = Office::new();
    office.put("team-hr/shared", "reports/weekly.MD", "12345");
    office.put("team-hr/shared", "data.unknown", "");
    let folder = &list(&office.tools("marcus"), "org_shared")["folders"][1];
    let files = folder["files"].as_array().unwrap();
    let expected = json!({
        "folderId": folder["folderId"], "folderName": "HR Team - Shared", "folderType": "org_shared",
        "ownerType": "team", "visibility": "shared", "path": "/workspaces/team-hr/shared/", "fileCount": 2,
        "files": [
            { "filename": "data.unknown", "size": 0, "modified": files[0]["modified"] },
            {
                "filename": "reports/weekly.MD", "size": 5, "modified": files[1]["modified"],
                "mimeType": "text/markdown",
            },
        ],
    });
    assert_eq!(*folder, expected);
    let modified = files[0]["modified"].as_str().unwrap();
    assert!(modified.ends_with('Z') && modified.parse::<Timestamp>().is_ok(), "{modified}");
}

#[test]
fn f45_to_f47_a_folder_that_is_not_on_disk_is_empty_and_stays_absent() {
    let office = Office::new();
    let listing = list(&office.tools("marcus"), "org_shared");
    for folder in listing["folders"].as_array().unwrap() {
        assert_eq!((&folder["files"], &folder["fileCount"]), (&json!([]), &json!(0)));
    }
    let found = office.store_vfs().walk("/", &crate::vfs::WalkQuery::default()).unwrap();
    assert_eq!(found.entries, []);
}

#[test]
fn f48_to_f50_files_at_every_depth_are_listed_and_directories_are_not() {
    let office = Office::new();
    for name in ["a.md", "reports/weekly.md", "reports/2026/11/16/deep.md", "z/empty/.keep"] {
        office.put("marcus/private", name, "x");
    }
    let names = file_names(&office.tools("marcus"), "my_private");
    assert_eq!(names, ["a.md", "reports/2026/11/16/deep.md", "reports/weekly.md", "z/empty/.keep"]);
}

#[test]
fn f54_unusual_names_are_listed_and_read_back() {
    let office = Office::new();
    let tools = office.tools("marcus");
    let mut names =
        ["a b.md", "100%.md", "%2e%2e", "it's \"quoted\".md", ".dot", "\u{e4}\u{1f468}\u{200d}\u{1f469}.md"];
    let id = folder_id(&tools, "my_private", "marcus/private");
    for name in names {
        write(&tools, &id, name, name);
    }
    names.sort_unstable();
    assert_eq!(file_names(&tools, "my_private"), names);
    for name in names {
        assert_eq!(read(&tools, &id, name).1["content"], name);
    }
}

#[test]
fn f71_a_folder_deleted_after_discovery_reads_as_missing_and_is_made_again_by_a_write() {
    let office = Office::new();
    office.put("marcus/shared", "a.md", "x");
    let tools = office.tools("marcus");
    let id = folder_id(&tools, "my_shared", "marcus/shared");
    let options = crate::vfs::RemoveOptions { recursive: true, ..Default::default() };
    office.store_vfs().remove_directory("/organizations", options).unwrap();
    let gone = failure(&tools, "read_file_by_id", json!({ "folderId": id, "filename": "a.md" }));
    assert_eq!(gone.kind, ErrorKind::NotFound);
    write(&tools, &id, "a.md", "again");
    assert_eq!(office.content("marcus/shared", "a.md").unwrap(), b"again");
}

#[test]
fn f157_the_map_says_to_discover_folders_first() {
    let office = Office::new();
    let map = crate::filesystem_map::filesystem_map(&office.tools("marcus"));
    assert!(map.starts_with("# Filesystem Map\n\nCall `list_folders` first"), "{map}");
    assert!(map[..1_500.min(map.len())].contains("- /workspaces/marcus/private: READ_WRITE (RW)"), "{map}");
    let without = office.tools_of("marcus", ["read_file"]);
    assert!(!crate::filesystem_map::filesystem_map(&without).contains("list_folders"));
}
