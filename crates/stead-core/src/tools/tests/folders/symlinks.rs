//! Symlinks in folders: not listed, not followed.

use super::*;

#[test]
fn f51_and_f110_nothing_is_listed_read_written_or_deleted_through_a_symlink() {
    let office = Office::new();
    office.put("fiona/private", "secret.md", "secret");
    office.put("marcus/private", "own/a.md", "own");
    let operator = office.store_vfs();
    for (link, target) in [
        ("file", "../../fiona/private/secret.md"),
        ("directory", "../../fiona/private"),
        ("inside", "own"),
        ("path", "/workspaces/marcus/private/own"),
    ] {
        operator.symlink(&*store_path("marcus/private", link), target).unwrap();
    }
    let marcus = office.tools("marcus");
    assert_eq!(file_names(&marcus, "my_private"), ["own/a.md"]);
    let id = folder_id(&marcus, "my_private", "marcus/private");
    for name in ["file", "directory/secret.md", "inside/a.md", "path/a.md"] {
        let file = json!({ "folderId": id, "filename": name });
        for tool in ["read_file_by_id", "get_file_info_by_id"] {
            let missing = failure(&marcus, tool, file.clone());
            assert_eq!(missing.kind, ErrorKind::NotFound, "{name}");
            assert!(missing.message.ends_with("Available files: [own/a.md]"), "{missing}");
        }
        for (tool, content) in [
            ("write_file_by_id", Some("x")),
            ("append_to_file_by_id", Some("x")),
            ("delete_file_by_id", None),
        ] {
            let mut arguments = object(file.clone());
            arguments.extend(content.map(|content| ("content".to_owned(), content.into())));
            let reply = call(&marcus, tool, arguments.into());
            let refused = reply.failure.unwrap_or_else(|| panic!("{tool} {name}"));
            assert_eq!(refused.kind, ErrorKind::Denied, "{tool} {name}: {refused}");
            assert!(refused.message.contains("is or goes through a symlink"), "{tool} {name}: {refused}");
        }
        for (source, dest) in [(name, "copy"), ("own/a.md", name)] {
            for tool in ["copy_file_by_id", "move_file_by_id"] {
                let arguments = json!({
                    "sourceFolderId": id, "sourceFilename": source, "destFolderId": id, "destFilename": dest,
                    "overwrite": true,
                });
                assert!(call(&marcus, tool, arguments).is_failure(), "{tool} {source} {dest}");
            }
        }
    }
    let through = json!({ "scope": "my_private", "folderName": "inside/new" });
    assert_eq!(failure(&marcus, "create_folder", through).kind, ErrorKind::Denied);
    assert_eq!(office.content("fiona/private", "secret.md").unwrap(), b"secret");
    assert_eq!(office.content("marcus/private", "own/a.md").unwrap(), b"own");
    assert_eq!(file_names(&marcus, "my_private"), ["own/a.md"]);
    assert!(operator.stat_link(&*store_path("marcus/private", "file")).is_ok());
}

#[test]
fn f51_a_folder_that_is_itself_a_symlink_is_empty_and_stays_so() {
    let office = Office::new();
    office.put("fiona/private", "secret.md", "secret");
    let operator = office.store_vfs();
    operator.symlink(&*store_path("marcus", "private"), "../fiona/private").unwrap();
    let marcus = office.tools("marcus");
    assert!(file_names(&marcus, "my_private").is_empty());
    let id = folder_id(&marcus, "my_private", "marcus/private");
    assert!(
        call(&marcus, "read_file_by_id", json!({ "folderId": id, "filename": "secret.md" })).is_failure()
    );
    let write = json!({ "folderId": id, "filename": "x.md", "content": "x" });
    assert_eq!(failure(&marcus, "write_file_by_id", write).kind, ErrorKind::Denied);
    assert_eq!(office.content("fiona/private", "x.md"), None);
}
