//! `get_file_info_by_id`.

use super::*;

#[test]
fn f124_to_f126_attributes_and_the_callers_own_permissions_are_shown() {
    let office = Office::new();
    office.put("marcus/shared", "reports/a.md", "12345");
    office.put("marcus/shared", "unknown", "");
    for (agent, scope, may_change) in [("marcus", "my_shared", true), ("catalyst", "org_shared", false)] {
        let tools = office.tools(agent);
        let id = folder_id(&tools, scope, "marcus/shared");
        let info = |name: &str| {
            call_json(&tools, "get_file_info_by_id", json!({ "folderId": id, "filename": name }))
        };
        let file = info("reports/a.md");
        let expected = json!({
            "filename": "reports/a.md", "size": 5, "modified": file["modified"], "created": file["created"],
            "mimeType": "text/markdown",
            "permissions": { "read": true, "write": may_change, "delete": may_change },
            "path": "/workspaces/marcus/shared/reports/a.md",
        });
        assert_eq!(file, expected);
        assert!(file["modified"].as_str().unwrap().parse::<Timestamp>().is_ok());
        assert!(file.as_object().unwrap().contains_key("created"), "null if it isn't known");
        assert_eq!(info("unknown")["mimeType"], "application/octet-stream");
    }
    let marcus = office.tools("marcus");
    let id = folder_id(&marcus, "my_shared", "marcus/shared");
    let refused = failure(&marcus, "get_file_info_by_id", json!({ "folderId": id, "filename": "reports" }));
    assert!(refused.message.contains("is a directory"), "{refused}");
}

#[test]
fn f127_and_f128_a_missing_file_names_the_available_ones_and_no_content_is_read() {
    let settings = crate::organization::OrganizationSettings::default().with_max_file_bytes(3);
    let office = Office::with_records(OrganizationRecords { settings, ..records() });
    office.put("marcus/shared", "large.md", "longer than the limit of a read");
    let tools = office.tools("marcus");
    let id = folder_id(&tools, "my_shared", "marcus/shared");
    let arguments = |name: &str| json!({ "folderId": id, "filename": name });
    let refused = failure(&tools, "get_file_info_by_id", arguments("other.md"));
    assert!(refused.message.contains("'other.md' not found in folder 'Marcus (HR) - Shared'"), "{refused}");
    assert!(refused.message.contains("[large.md]"), "{refused}");
    assert!(call(&tools, "read_file_by_id", arguments("large.md")).is_failure());
    assert_eq!(call_json(&tools, "get_file_info_by_id", arguments("large.md"))["size"], 31);
}
