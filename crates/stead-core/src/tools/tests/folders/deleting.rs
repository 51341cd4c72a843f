//! `delete_file_by_id`.

use super::*;

#[test]
fn f118_f119_and_f123_a_file_is_deleted_once_and_a_missing_one_is_a_warning() {
    let office = Office::new();
    office.put("marcus/private", "a.md", "12345");
    let marcus = office.tools("marcus");
    let id = folder_id(&marcus, "my_private", "marcus/private");
    let delete = json!({ "folderId": id, "filename": "a.md" });
    let path = "/workspaces/marcus/private/a.md";
    assert_eq!(
        call_json(&marcus, "delete_file_by_id", delete.clone()),
        json!({ "success": true, "existed": true, "freedBytes": 5, "path": path })
    );
    assert!(file_names(&marcus, "my_private").is_empty());
    for tool in ["read_file_by_id", "get_file_info_by_id"] {
        assert_eq!(failure(&marcus, tool, delete.clone()).kind, ErrorKind::NotFound);
    }
    let warning = "File 'a.md' does not exist in folder 'Marcus (HR) - Private', so nothing was deleted";
    assert_eq!(
        call_json(&marcus, "delete_file_by_id", delete),
        json!({ "success": true, "existed": false, "freedBytes": 0, "path": path, "warning": warning })
    );
}

#[test]
fn f120_of_deletes_at_once_exactly_one_says_that_the_file_existed() {
    let office = Office::new();
    for round in 0..50 {
        office.put("team-hr/private", "a.md", format!("{round}"));
        let barrier = std::sync::Barrier::new(4);
        let existed: Vec<bool> = std::thread::scope(|scope| {
            let deletes = ["marcus", "catalyst", "marcus", "catalyst"].map(|agent| {
                let (tools, barrier) = (office.tools(agent), &barrier);
                scope.spawn(move || {
                    let id = folder_id(&tools, "team_private", "team-hr/private");
                    barrier.wait();
                    let delete = json!({ "folderId": id, "filename": "a.md" });
                    call_json(&tools, "delete_file_by_id", delete)["existed"] == true
                })
            });
            deletes.map(|delete| delete.join().unwrap()).into()
        });
        assert_eq!(existed.iter().filter(|existed| **existed).count(), 1);
    }
}

#[test]
fn f122_a_directory_is_not_deleted_as_a_file() {
    let office = Office::new();
    office.put("marcus/private", "directory/a.md", "x");
    let marcus = office.tools("marcus");
    let id = folder_id(&marcus, "my_private", "marcus/private");
    let refused = failure(&marcus, "delete_file_by_id", json!({ "folderId": id, "filename": "directory" }));
    assert!(refused.message.contains("is a directory"), "{refused}");
    assert!(office.content("marcus/private", "directory/a.md").is_some());
}
