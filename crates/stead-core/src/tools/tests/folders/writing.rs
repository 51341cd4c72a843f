//! `write_file_by_id` and `append_to_file_by_id`.

use crate::organization::OrganizationSettings;
use crate::store::QuotaLimits;

use super::*;

fn marcus() -> (Office, Toolbox, String) {
    with_settings(OrganizationSettings::default())
}

fn with_settings(settings: OrganizationSettings) -> (Office, Toolbox, String) {
    let office = Office::with_records(OrganizationRecords { settings, ..records() });
    let marcus = office.tools("marcus");
    let id = folder_id(&marcus, "my_private", "marcus/private");
    (office, marcus, id)
}

#[test]
fn f103_to_f107_and_f117_a_file_is_created_with_its_folders_or_overwritten() {
    let (office, marcus, id) = marcus();
    let expected = |created: bool, bytes: u64, name: &str| {
        let path = format!("/workspaces/marcus/private/{name}");
        json!({ "success": true, "created": created, "bytesWritten": bytes, "path": path })
    };
    assert_eq!(write(&marcus, &id, "reports/weekly.md", "\u{e4}b"), expected(true, 3, "reports/weekly.md"));
    assert_eq!(write(&marcus, &id, "reports/weekly.md", ""), expected(false, 0, "reports/weekly.md"));
    assert_eq!(office.content("marcus/private", "reports/weekly.md").unwrap(), b"");
    let base64 = json!({ "folderId": id, "filename": "b", "content": "AP8=", "encoding": "base64" });
    assert_eq!(call_json(&marcus, "write_file_by_id", base64), expected(true, 2, "b"));
    assert_eq!(office.content("marcus/private", "b").unwrap(), [0, 255]);
    let broken = json!({ "folderId": id, "filename": "b", "content": "AP8", "encoding": "base64" });
    assert!(failure(&marcus, "write_file_by_id", broken).message.contains("isn't valid base64"));
    assert_eq!(office.content("marcus/private", "b").unwrap(), [0, 255]);
}

#[test]
fn f108_and_f167_only_creating_is_limited_in_depth_and_only_by_folder_tools() {
    let (office, marcus, id) = marcus();
    write(&marcus, &id, "a/b/c.md", "x");
    let deep = |tool: &str| {
        failure(&marcus, tool, json!({ "folderId": id, "filename": "a/b/c/d.md", "content": "x" }))
    };
    for tool in ["write_file_by_id", "append_to_file_by_id"] {
        let refused = deep(tool);
        assert_eq!(refused.kind, ErrorKind::Invalid);
        assert!(
            refused.message.contains("with 4 parts") && refused.message.contains("more than the 3"),
            "{refused}"
        );
    }
    assert!(office.store_vfs().stat(&*store_path("marcus/private", "a/b/c")).is_err());
    let path = "/workspaces/marcus/private/p/q/r/s/deep.md";
    call_ok(&marcus, "write_file", json!({ "path": path, "content": "by path" }));
    assert_eq!(read(&marcus, &id, "p/q/r/s/deep.md").1["content"], "by path");
    assert_eq!(write(&marcus, &id, "p/q/r/s/deep.md", "over")["created"], false);
    let (_, shallow, id) = with_settings(OrganizationSettings::default().with_max_depth(1));
    let refused =
        failure(&shallow, "write_file_by_id", json!({ "folderId": id, "filename": "a/b", "content": "" }));
    assert!(refused.message.contains("more than the 1 "), "{refused}");
}

#[test]
fn f109_and_f116_invalid_names_and_places_are_refused() {
    let (office, marcus, id) = marcus();
    write(&marcus, &id, "a.md", "x");
    write(&marcus, &id, "directory/b.md", "x");
    for name in ["", ".", "..", "/x", "x/", "a//b", "a\0", "a\\b", "../fiona/private/x"] {
        for tool in ["write_file_by_id", "append_to_file_by_id"] {
            let refused = failure(&marcus, tool, json!({ "folderId": id, "filename": name, "content": "y" }));
            assert!(refused.message.contains("isn't a valid name"), "{refused}");
        }
    }
    for name in ["directory", "a.md/b.md"] {
        for tool in ["write_file_by_id", "append_to_file_by_id"] {
            let arguments = json!({ "folderId": id, "filename": name, "content": "y" });
            assert!(failure(&marcus, tool, arguments).message.contains("directory"), "{name}");
        }
    }
    assert_eq!(office.content("marcus/private", "a.md").unwrap(), b"x");
}

#[test]
fn f111_a_file_of_exactly_the_limit_is_written_and_a_larger_one_refused() {
    assert_eq!(OrganizationSettings::default().max_file_bytes, 5 << 20);
    let (office, marcus, id) = with_settings(OrganizationSettings::default().with_max_file_bytes(4));
    write(&marcus, &id, "a", "1234");
    for (tool, content) in [("write_file_by_id", "12345"), ("append_to_file_by_id", "5")] {
        let refused = failure(&marcus, tool, json!({ "folderId": id, "filename": "a", "content": content }));
        assert_eq!(refused.kind, ErrorKind::TooLarge);
        assert!(refused.message.contains("with 5 bytes; at most 4 are allowed"), "{refused}");
    }
    assert_eq!(office.content("marcus/private", "a").unwrap(), b"1234");
    let office_copy =
        json!({ "sourceFolderId": id, "sourceFilename": "a", "destFolderId": id, "destFilename": "b" });
    call_json(&marcus, "copy_file_by_id", office_copy.clone());
    office.put("marcus/private", "a", "12345");
    let copy_again = json!({ "overwrite": true, "sourceFolderId": id, "sourceFilename": "a", "destFolderId": id, "destFilename": "b" });
    assert_eq!(failure(&marcus, "copy_file_by_id", copy_again).kind, ErrorKind::TooLarge);
}

#[test]
fn f112_to_f114_a_quota_is_warned_of_from_90_percent_and_only_differences_count() {
    let quota = QuotaLimits { bytes: Some(100), files: Some(10), file_bytes: None };
    let (office, marcus, id) = with_settings(OrganizationSettings::default().with_agent_quota(quota));
    assert_eq!(write(&marcus, &id, "a", &"x".repeat(89)).get("warning"), None);
    let expected = "nearly full: 90 of 100 bytes and 1 of 10 files are used; delete something, or ask for a higher quota";
    assert_eq!(write(&marcus, &id, "a", &"x".repeat(90))["warning"], expected);
    assert!(
        write(&marcus, &id, "a", &"x".repeat(100))["warning"].as_str().unwrap().contains("100 of 100 bytes")
    );
    // Both folders of an agent count together.
    let shared = folder_id(&marcus, "my_shared", "marcus/shared");
    let refused =
        failure(&marcus, "write_file_by_id", json!({ "folderId": shared, "filename": "b", "content": "y" }));
    assert_eq!(refused.kind, ErrorKind::Quota);
    assert!(refused.message.contains("only 100 are allowed; 100 are in use"), "{refused}");
    assert!(refused.message.ends_with("Used: 100 of 100 bytes and 1 of 10 files"), "{refused}");
    assert_eq!(office.content("marcus/shared", "b"), None);
    assert_eq!(write(&marcus, &id, "a", "").get("warning"), None);
    for n in 0..8 {
        write(&marcus, &id, &format!("f{n}"), "");
    }
    let appended = json!({ "folderId": id, "filename": "f0", "content": "x" });
    let warned = call_json(&marcus, "append_to_file_by_id", appended);
    assert!(warned["warning"].as_str().unwrap().contains("9 of 10 files"), "{warned}");
    let moved =
        json!({ "sourceFolderId": id, "sourceFilename": "f0", "destFolderId": shared, "destFilename": "f" });
    assert!(call_json(&marcus, "move_file_by_id", moved)["warning"].is_string());
    // At the limit on files, no tool makes another one; a file that exists can still be written.
    write(&marcus, &id, "last", "");
    let new = json!({ "folderId": id, "filename": "more", "content": "" });
    let copy =
        json!({ "sourceFolderId": id, "sourceFilename": "a", "destFolderId": id, "destFilename": "more" });
    for (tool, arguments) in
        [("write_file_by_id", new.clone()), ("append_to_file_by_id", new), ("copy_file_by_id", copy)]
    {
        let refused = failure(&marcus, tool, arguments);
        assert_eq!(refused.kind, ErrorKind::Quota, "{tool}: {refused}");
        assert!(refused.message.contains("only 10 are allowed; 10 are in use"), "{tool}: {refused}");
        assert!(refused.message.ends_with("Used: 1 of 100 bytes and 10 of 10 files"), "{tool}: {refused}");
        assert_eq!(office.content("marcus/private", "more"), None, "{tool}");
    }
    write(&marcus, &id, "last", "written");
    assert_eq!(office.content("marcus/private", "last").unwrap(), b"written");
}

#[test]
fn f113_without_settings_agents_have_1000_files_and_100_mb_and_teams_2000_and_1_gb() {
    let settings = Organization::new(records()).unwrap().settings().clone();
    let limits = |quota: QuotaLimits| (quota.files, quota.bytes, quota.file_bytes);
    assert_eq!(limits(settings.agent_quota), (Some(1_000), Some(100_000_000), None));
    assert_eq!(limits(settings.team_quota), (Some(2_000), Some(1_000_000_000), None));
}

#[test]
fn f165_appending_adds_exactly_the_text_and_creates_a_missing_file() {
    let (office, marcus, id) = marcus();
    let append = |content: &str| {
        let arguments = json!({ "folderId": id, "filename": "log/a.md", "content": content });
        call_json(&marcus, "append_to_file_by_id", arguments)
    };
    let path = "/workspaces/marcus/private/log/a.md";
    assert_eq!(append("one"), json!({ "success": true, "created": true, "bytesWritten": 3, "path": path }));
    assert_eq!(
        append("\n\u{e4}"),
        json!({ "success": true, "created": false, "bytesWritten": 3, "path": path })
    );
    assert_eq!(office.content("marcus/private", "log/a.md").unwrap(), "one\n\u{e4}".as_bytes());
}
