//! Folder ids: how long they are valid, and for whom.

use std::time::Duration;

use super::*;

#[test]
fn f55_and_f56_two_discoveries_give_different_ids_and_both_work() {
    let office = Office::new();
    office.put("marcus/private", "a.md", "x");
    let marcus = office.tools("marcus");
    let ids = [(); 2].map(|()| folder_id(&marcus, "my_private", "marcus/private"));
    assert_ne!(ids[0], ids[1]);
    for id in ids {
        assert_eq!(uuid::Uuid::parse_str(&id).unwrap().get_version_num(), 4);
        assert_eq!(read(&marcus, &id, "a.md").1["content"], "x");
    }
}

#[test]
fn f58_to_f63_an_id_works_for_30_minutes_then_expires_and_a_new_one_works() {
    let office = Office::new();
    office.put("marcus/private", "a.md", "x");
    let marcus = office.tools("marcus");
    let id = folder_id(&marcus, "my_private", "marcus/private");
    let arguments = json!({ "folderId": id, "filename": "a.md" });
    for minutes in [0, 29, 1] {
        office.clock.advance(Duration::from_secs(minutes * 60));
        read(&marcus, &id, "a.md");
    }
    office.clock.advance(Duration::from_secs(1));
    let expired = failure(&marcus, "read_file_by_id", arguments.clone());
    assert_eq!(expired.kind, ErrorKind::Expired);
    assert_eq!(
        expired.message,
        format!("Folder ID '{id}' has expired. Use list_folders() to discover current folders.")
    );
    read(&marcus, &folder_id(&marcus, "my_private", "marcus/private"), "a.md");
    office.clock.advance(Duration::from_secs(31 * 60));
    assert_eq!(failure(&marcus, "read_file_by_id", arguments).kind, ErrorKind::NotFound);
}

#[test]
fn f61_an_unknown_id_is_named_and_every_tool_says_what_to_do() {
    let marcus = Office::new().tools("marcus");
    for id in ["00000000-0000-4000-8000-000000000000", "team-hr", "", "\u{1b}[2J"] {
        let failure = failure(&marcus, "read_file_by_id", json!({ "folderId": id, "filename": "a" }));
        assert_eq!(failure.kind, ErrorKind::NotFound);
        let shown = if id.starts_with('\u{1b}') { "\\u{1b}[2J" } else { id };
        assert_eq!(
            failure.message,
            format!(
                "Folder ID '{shown}' not found. It may have expired or been deleted. Use list_folders() to discover \
                 current folders."
            )
        );
    }
    for (name, arguments) in [
        ("write_file_by_id", json!({ "folderId": "x", "filename": "a", "content": "" })),
        ("delete_file_by_id", json!({ "folderId": "x", "filename": "a" })),
        ("get_file_info_by_id", json!({ "folderId": "x", "filename": "a" })),
        ("append_to_file_by_id", json!({ "folderId": "x", "filename": "a", "content": "" })),
        ("delete_folder_by_id", json!({ "folderId": "x" })),
        ("rename_folder_by_id", json!({ "folderId": "x", "newName": "a" })),
        (
            "copy_file_by_id",
            json!({ "sourceFolderId": "x", "sourceFilename": "a", "destFolderId": "x", "destFilename": "b" }),
        ),
    ] {
        let message = failure(&marcus, name, arguments).message;
        assert!(
            message.starts_with("Folder ID 'x' not found.") && message.contains("list_folders()"),
            "{message}"
        );
    }
}

#[test]
fn f66_after_a_restart_ids_are_not_found() {
    let office = Office::new();
    office.put("marcus/private", "a.md", "x");
    let id = folder_id(&office.tools("marcus"), "my_private", "marcus/private");
    let restarted = Office { ids: Arc::new(MemoryFolderIds::new(office.clock.clone())), ..office };
    let read = json!({ "folderId": id, "filename": "a.md" });
    assert_eq!(failure(&restarted.tools("marcus"), "read_file_by_id", read).kind, ErrorKind::NotFound);
}

#[test]
fn f67_an_id_of_another_agent_is_not_found_even_for_a_folder_that_both_may_read() {
    let office = Office::new();
    office.put("team-hr/shared", "a.md", "x");
    let (marcus, catalyst) = (office.tools("marcus"), office.tools("catalyst"));
    let id = folder_id(&marcus, "team_shared", "team-hr/shared");
    let foreign = failure(&catalyst, "read_file_by_id", json!({ "folderId": id, "filename": "a.md" }));
    assert_eq!(foreign.kind, ErrorKind::NotFound);
    assert!(foreign.message.contains(&format!("Folder ID '{id}' not found")), "{foreign}");
}

#[test]
fn f69_and_f89_an_agent_that_left_the_team_is_refused_and_told_nothing_of_the_folder() {
    let office = Office::new();
    office.put("team-hr/private", "secret-plan.md", "x");
    let id = folder_id(&office.tools("marcus"), "team_private", "team-hr/private");
    let mut changed = records();
    changed.agents[0] = AgentRecord::new("marcus", "Marcus").in_team("team-fin");
    let marcus = office.changed(changed).tools("marcus");
    for (name, arguments) in [
        ("read_file_by_id", json!({ "folderId": id, "filename": "secret-plan.md" })),
        ("read_file_by_id", json!({ "folderId": id, "filename": "other.md" })),
        ("get_file_info_by_id", json!({ "folderId": id, "filename": "secret-plan.md" })),
        ("write_file_by_id", json!({ "folderId": id, "filename": "x.md", "content": "x" })),
        ("delete_file_by_id", json!({ "folderId": id, "filename": "secret-plan.md" })),
    ] {
        let refused = failure(&marcus, name, arguments);
        assert_eq!(refused.kind, ErrorKind::Denied, "{name}");
        assert_eq!(
            refused.message,
            "You no longer have access to this folder. Use list_folders() to discover current folders."
        );
    }
    // The shared folder of the old team can still be read, but not written.
    let marcus_before = office.tools("marcus");
    let shared = folder_id(&marcus_before, "team_shared", "team-hr/shared");
    let write = json!({ "folderId": shared, "filename": "x.md", "content": "x" });
    let refused = failure(&marcus, "write_file_by_id", write);
    assert_eq!(
        refused.message,
        "You don't have permission to write to folder 'HR Team - Shared'. Your team: Finance. Scopes you can write to: \
         my_private, my_shared, team_private, team_shared"
    );
    // A team that no longer exists is refused in the same way.
    let mut changed = records();
    changed.teams.remove(0);
    let marcus = office.changed(changed).tools("marcus");
    let refused = failure(&marcus, "read_file_by_id", json!({ "folderId": shared, "filename": "a" }));
    assert!(refused.kind == ErrorKind::Denied && !refused.message.contains("HR"), "{refused}");
}

#[test]
fn f70_discovery_and_use_from_many_threads_are_correct() {
    let office = Office::new();
    for agent in ["marcus", "catalyst", "fiona", "elena"] {
        office.put(&format!("{agent}/private"), "me", agent);
    }
    std::thread::scope(|scope| {
        for agent in ["marcus", "catalyst", "fiona", "elena"] {
            let tools = office.tools(agent);
            scope.spawn(move || {
                for _ in 0..50 {
                    let id = folder_id(&tools, "my_private", &format!("{agent}/private"));
                    assert_eq!(read(&tools, &id, "me").1["content"], agent);
                }
            });
        }
    });
}
