//! `read_multiple_files_by_id` and `write_multiple_files_by_id`.

use super::*;

#[test]
fn f160_each_file_that_is_read_reports_its_own_outcome() {
    let office = Office::new();
    office.put("marcus/private", "a.md", "one");
    office.put("team-fin/shared", "b.bin", [0, 255]);
    let marcus = office.tools("marcus");
    let own = folder_id(&marcus, "my_private", "marcus/private");
    let finance = folder_id(&marcus, "org_shared", "team-fin/shared");
    let results = call_json(
        &marcus,
        "read_multiple_files_by_id",
        json!({ "operations": [
            { "folderId": own, "filename": "a.md" },
            { "folderId": finance, "filename": "b.bin" },
            { "folderId": own, "filename": "no.md" },
            { "folderId": "x", "filename": "a.md" },
            { "folderId": own, "filename": "../a" },
        ] }),
    );
    let results = results["results"].as_array().unwrap();
    assert_eq!(results.len(), 5);
    assert_eq!(
        results[0],
        json!({ "filename": "a.md", "success": true, "content": "one", "encoding": "utf-8", "size": 3 })
    );
    assert_eq!(results[1]["encoding"], "base64");
    for (result, code) in results[2..].iter().zip(["not_found", "not_found", "invalid"]) {
        assert_eq!((&result["success"], &result["code"]), (&json!(false), &json!(code)), "{result}");
    }
    assert!(results[2]["error"].as_str().unwrap().contains("Available files: [a.md]"));
}

#[test]
fn f160_files_that_are_read_together_share_one_page_and_say_how_to_continue() {
    let office = Office::new();
    for n in 0..100 {
        office.put("marcus/private", &format!("{n:02}.md"), "\u{1}\"line\"\n".repeat(1_000));
    }
    let marcus = office.tools("marcus");
    let id = folder_id(&marcus, "my_private", "marcus/private");
    let operations: Vec<_> =
        (0..100).map(|n| json!({ "folderId": id, "filename": format!("{n:02}.md") })).collect();
    let reply = call(&marcus, "read_multiple_files_by_id", json!({ "operations": operations }));
    assert!(reply.joined_text().len() <= 20_000, "{}", reply.joined_text().len());
    let results = reply.facts["results"].as_array().unwrap();
    assert_eq!(results.len(), 100);
    for result in results {
        assert!(result["success"] == true && !result["content"].as_str().unwrap().is_empty());
        assert!(result.get("nextOffset").is_some() || result.get("nextByteOffset").is_some(), "{result}");
    }
    let too_many: Vec<_> = operations.iter().cycle().take(101).collect();
    let refused = failure(&marcus, "read_multiple_files_by_id", json!({ "operations": too_many }));
    assert_eq!(refused.message, "`operations` has 101 elements; pass 1 to 100");
}

#[test]
fn f161_each_file_that_is_written_reports_its_own_outcome() {
    let office = Office::new();
    let marcus = office.tools("marcus");
    let own = folder_id(&marcus, "my_private", "marcus/private");
    let finance = folder_id(&marcus, "org_shared", "team-fin/shared");
    let results = call_json(
        &marcus,
        "write_multiple_files_by_id",
        json!({ "operations": [
            { "folderId": own, "filename": "a.md", "content": "one" },
            { "folderId": finance, "filename": "b.md", "content": "no" },
            { "folderId": own, "filename": "c", "content": "?", "encoding": "base64" },
            { "folderId": own, "filename": "a.md", "content": "/w==", "encoding": "base64" },
        ] }),
    );
    let results = results["results"].as_array().unwrap();
    assert_eq!(
        results[0],
        json!({ "filename": "a.md", "success": true, "created": true, "bytesWritten": 3 })
    );
    assert_eq!(results[1]["code"], "denied");
    assert!(results[1]["error"].as_str().unwrap().contains("'Finance Team - Shared'"));
    assert_eq!(results[2]["code"], "invalid");
    assert_eq!(
        results[3],
        json!({ "filename": "a.md", "success": true, "created": false, "bytesWritten": 1 })
    );
    assert_eq!(office.content("marcus/private", "a.md").unwrap(), [255]);
    assert_eq!(office.content("team-fin/shared", "b.md"), None);
    assert_eq!(office.content("marcus/private", "c"), None);
}
