//! `copy_file_by_id` and `move_file_by_id`.

use super::*;

#[test]
fn f164_a_file_is_copied_or_moved_between_folders() {
    let office = Office::new();
    office.put("team-fin/shared", "budget.md", "12345");
    let marcus = office.tools("marcus");
    let finance = folder_id(&marcus, "org_shared", "team-fin/shared");
    let own = folder_id(&marcus, "my_private", "marcus/private");
    let team = folder_id(&marcus, "team_shared", "team-hr/shared");
    let arguments = |from: &str, source: &str, to: &str, dest: &str| json!({ "sourceFolderId": from, "sourceFilename": source, "destFolderId": to, "destFilename": dest });
    assert_eq!(
        call_json(&marcus, "copy_file_by_id", arguments(&finance, "budget.md", &own, "copies/b.md")),
        json!({
            "success": true, "sourcePath": "/workspaces/team-fin/shared/budget.md",
            "path": "/workspaces/marcus/private/copies/b.md", "size": 5, "overwritten": false,
        })
    );
    call_json(&marcus, "move_file_by_id", arguments(&own, "copies/b.md", &team, "b.md"));
    assert_eq!(office.content("marcus/private", "copies/b.md"), None);
    assert_eq!(office.content("team-hr/shared", "b.md").unwrap(), b"12345");
    assert_eq!(office.content("team-fin/shared", "budget.md").unwrap(), b"12345");

    write(&marcus, &own, "new.md", "new");
    let over = arguments(&own, "new.md", &team, "b.md");
    for tool in ["copy_file_by_id", "move_file_by_id"] {
        assert_eq!(failure(&marcus, tool, over.clone()).kind, ErrorKind::AlreadyExists, "{tool}");
    }
    let mut over = object(over);
    over.insert("overwrite".to_owned(), true.into());
    assert_eq!(call_json(&marcus, "move_file_by_id", over.into())["overwritten"], true);
    assert_eq!(office.content("team-hr/shared", "b.md").unwrap(), b"new");
}

#[test]
fn f164_what_is_missing_a_directory_or_too_deep_is_refused() {
    let office = Office::new();
    office.put("marcus/private", "directory/a.md", "x");
    let marcus = office.tools("marcus");
    let id = folder_id(&marcus, "my_private", "marcus/private");
    for tool in ["copy_file_by_id", "move_file_by_id"] {
        let refused = |source: &str, dest: &str| {
            let arguments = json!({ "sourceFolderId": id, "sourceFilename": source, "destFolderId": id, "destFilename": dest });
            failure(&marcus, tool, arguments).message
        };
        assert!(refused("no.md", "x").ends_with("Available files: [directory/a.md]"));
        assert!(refused("directory", "x").contains("is a directory"));
        assert!(refused("directory/a.md", "directory").contains("is a directory"));
        assert!(refused("directory/a.md", "a/b/c/d").contains("too deep"));
        assert!(refused("directory/a.md", "../x").contains("isn't a valid name"));
        assert!(refused("../x", "x").contains("isn't a valid name"));
    }
    assert_eq!(file_names(&marcus, "my_private"), ["directory/a.md"]);
}
