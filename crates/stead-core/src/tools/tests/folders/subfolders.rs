//! `create_folder`, `delete_folder_by_id` and `rename_folder_by_id`.

use super::*;

fn create(tools: &Toolbox, scope: &str, name: &str) -> Value {
    call_json(tools, "create_folder", json!({ "scope": scope, "folderName": name }))
}

#[test]
fn f162_a_subfolder_is_made_in_the_callers_folder_and_its_id_works() {
    let office = Office::new();
    let marcus = office.tools("marcus");
    let created = create(&marcus, "team_private", "reports");
    let id = created["folderId"].as_str().unwrap();
    let expected = json!({
        "success": true, "created": true, "folderId": id, "folderName": "HR Team - Private/reports",
        "path": "/workspaces/team-hr/private/reports/",
    });
    assert_eq!(created, expected);
    assert_eq!(create(&marcus, "team_private", "reports")["created"], false);
    assert_eq!(write(&marcus, id, "2026/a.md", "x")["path"], "/workspaces/team-hr/private/reports/2026/a.md");
    assert_eq!(read(&marcus, id, "2026/a.md").1["content"], "x");
    let missing = failure(&marcus, "read_file_by_id", json!({ "folderId": id, "filename": "b" })).message;
    assert_eq!(
        missing,
        "File 'b' not found in folder 'HR Team - Private/reports'. Available files: [2026/a.md]"
    );
    // The depth counts from the Workspace.
    let deep = json!({ "folderId": id, "filename": "2026/11/a.md", "content": "" });
    assert!(failure(&marcus, "write_file_by_id", deep).message.contains("too deep"));
    assert_eq!(file_names(&marcus, "team_private"), ["reports/2026/a.md"]);
}

#[test]
fn f162_no_folder_is_made_where_the_caller_may_not_write() {
    let office = Office::new();
    for (agent, scope, team) in [("marcus", "org_shared", "HR"), ("solo", "team_private", "none")] {
        let refused =
            failure(&office.tools(agent), "create_folder", json!({ "scope": scope, "folderName": "x" }));
        assert_eq!(refused.kind, ErrorKind::Denied);
        let start = format!(
            "You can't create a folder in scope '{scope}'. Your team: {team}. Scopes you can write to: "
        );
        assert!(refused.message.starts_with(&start), "{refused}");
    }
    let marcus = office.tools("marcus");
    for name in ["", "..", "a//b", "/x", "a\\b"] {
        let refused = failure(&marcus, "create_folder", json!({ "scope": "my_private", "folderName": name }));
        assert!(refused.message.contains("isn't a valid name"), "{refused}");
    }
    let long = json!({ "scope": "my_private", "folderName": "x".repeat(256) });
    let refused = failure(&marcus, "create_folder", long);
    assert_eq!(refused.message, "a component of the path has 256 bytes; at most 255 are allowed");
    let deep = json!({ "scope": "my_private", "folderName": "a/b/c" });
    assert!(failure(&marcus, "create_folder", deep).message.contains("too deep"));
    create(&marcus, "my_private", "a/b");
    let found = office.store_vfs().walk("/organizations", &crate::vfs::WalkQuery::default()).unwrap();
    let last = found.entries.last().unwrap();
    assert_eq!(last.path, store_path("marcus/private", "a/b"));
}

#[test]
fn f163_subfolders_are_renamed_and_deleted_and_a_workspace_never() {
    let office = Office::new();
    let marcus = office.tools("marcus");
    let old = create(&marcus, "my_shared", "reports/old")["folderId"].as_str().unwrap().to_owned();
    write(&marcus, &old, "a.md", "x");
    let renamed = call_json(&marcus, "rename_folder_by_id", json!({ "folderId": old, "newName": "new" }));
    let new = renamed["folderId"].as_str().unwrap().to_owned();
    assert_eq!(renamed["path"], "/workspaces/marcus/shared/reports/new/");
    assert_eq!(renamed["folderName"], "Marcus (HR) - Shared/reports/new");
    assert_eq!(read(&marcus, &new, "a.md").1["content"], "x");
    let gone = failure(&marcus, "rename_folder_by_id", json!({ "folderId": old, "newName": "x" }));
    assert_eq!(gone.kind, ErrorKind::NotFound);
    assert!(gone.message.contains("'Marcus (HR) - Shared/reports/old' no longer exists"), "{gone}");
    create(&marcus, "my_shared", "reports/taken");
    let taken = failure(&marcus, "rename_folder_by_id", json!({ "folderId": new, "newName": "taken" }));
    assert_eq!(taken.kind, ErrorKind::AlreadyExists);
    for name in ["a/b", "..", ""] {
        let refused = failure(&marcus, "rename_folder_by_id", json!({ "folderId": new, "newName": name }));
        assert_eq!(refused.kind, ErrorKind::Invalid, "{name}");
    }

    let not_empty = failure(&marcus, "delete_folder_by_id", json!({ "folderId": new }));
    assert!(not_empty.message.contains("is not empty"), "{not_empty}");
    let deleted = call_json(&marcus, "delete_folder_by_id", json!({ "folderId": new, "recursive": true }));
    assert_eq!(deleted, json!({ "success": true, "path": "/workspaces/marcus/shared/reports/new/" }));
    assert!(file_names(&marcus, "my_shared").is_empty());
    assert_eq!(failure(&marcus, "delete_folder_by_id", json!({ "folderId": new })).kind, ErrorKind::NotFound);

    let root = folder_id(&marcus, "my_shared", "marcus/shared");
    let finance = folder_id(&marcus, "org_shared", "team-fin/shared");
    for (name, arguments, problem) in [
        (
            "delete_folder_by_id",
            json!({ "folderId": root, "recursive": true }),
            "can't be deleted: only subfolders",
        ),
        (
            "rename_folder_by_id",
            json!({ "folderId": root, "newName": "x" }),
            "can't be renamed: only subfolders",
        ),
        (
            "delete_folder_by_id",
            json!({ "folderId": finance, "recursive": true }),
            "You don't have permission to write",
        ),
    ] {
        let refused = failure(&marcus, name, arguments);
        assert!(refused.kind == ErrorKind::Denied && refused.message.contains(problem), "{refused}");
    }
}

#[test]
fn f163_a_subfolder_of_a_team_that_the_caller_left_is_refused() {
    let office = Office::new();
    let id =
        create(&office.tools("marcus"), "team_shared", "reports")["folderId"].as_str().unwrap().to_owned();
    let mut changed = records();
    changed.agents[0] = AgentRecord::new("marcus", "Marcus");
    let marcus = office.changed(changed).tools("marcus");
    for (name, arguments) in [
        ("delete_folder_by_id", json!({ "folderId": id, "recursive": true })),
        ("rename_folder_by_id", json!({ "folderId": id, "newName": "x" })),
    ] {
        let refused = failure(&marcus, name, arguments);
        assert!(refused.message.contains("'HR Team - Shared'. Your team: none."), "{refused}");
    }
    assert!(office.store_vfs().is_directory(&*store_path("team-hr/shared", "reports")).unwrap());
}
