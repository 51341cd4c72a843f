//! `read_file_by_id`.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;

use super::*;
use crate::testkit::{Fault, FaultyStore};

#[test]
fn f33_and_f93_to_f96_the_text_has_the_content_and_a_last_line_and_the_facts_are_the_object() {
    let office = Office::new();
    office.put("marcus/private", "reports/weekly.md", "\u{feff}one\r\ntwo \u{1f600}\n");
    office.put("marcus/private", "open", "no newline");
    office.put("marcus/private", "empty", "");
    let bytes: Vec<u8> = (0..=255).collect();
    office.put("marcus/private", "binary", bytes.clone());
    office.put("marcus/private", "utf-16", [0xff, 0xfe, b'a', 0]);
    let marcus = office.tools("marcus");
    let id = folder_id(&marcus, "my_private", "marcus/private");
    let (text, facts) = read(&marcus, &id, "reports/weekly.md");
    assert_eq!(text, "\u{feff}one\r\ntwo \u{1f600}\n[encoding utf-8, size 17]");
    let expected = json!({ "content": "\u{feff}one\r\ntwo \u{1f600}\n", "encoding": "utf-8", "size": 17, "truncated": false });
    assert_eq!(facts, expected);
    assert_eq!(read(&marcus, &id, "open").0, "no newline\n[encoding utf-8, size 10]");
    assert_eq!(read(&marcus, &id, "empty").0, "(empty file) [encoding utf-8, size 0]");
    assert_eq!(read(&marcus, &id, "empty").1["content"], "");
    let (text, facts) = read(&marcus, &id, "binary");
    assert_eq!(text, format!("{}\n[encoding base64, size 256]", BASE64.encode(&bytes)));
    assert_eq!(BASE64.decode(facts["content"].as_str().unwrap()).unwrap(), bytes);
    assert_eq!(read(&marcus, &id, "utf-16").1["encoding"], "base64");
}

#[test]
fn f33_a_long_file_is_read_in_pages() {
    let office = Office::new();
    let text: String = (1..=3_000).map(|line| format!("this is line {line}\n")).collect();
    office.put("marcus/private", "long.md", text.clone());
    office.put("marcus/private", "one-line", "\u{e4}".repeat(30_000));
    office.put("marcus/private", "binary", vec![0; 50_000]);
    let marcus = office.tools("marcus");
    let id = folder_id(&marcus, "my_private", "marcus/private");
    for (name, expected) in [
        ("long.md", text.into_bytes()),
        ("one-line", "\u{e4}".repeat(30_000).into_bytes()),
        ("binary", vec![0; 50_000]),
    ] {
        let (mut content, mut position) = (String::new(), json!({}));
        loop {
            let mut arguments = object(json!({ "folderId": id, "filename": name }));
            arguments.extend(object(position));
            let reply = call(&marcus, "read_file_by_id", arguments.into());
            assert_eq!(reply.failure, None, "{name}");
            let facts = reply.facts.clone();
            content.push_str(facts["content"].as_str().unwrap());
            let blocks = reply.for_model();
            let shown = blocks[0].as_text().unwrap();
            assert!(shown.chars().count() <= 20_000, "{name}");
            position = match (facts.get("nextOffset"), facts.get("nextByteOffset")) {
                (Some(line), _) => {
                    assert!(
                        shown.contains(&format!("\n[more: offset {line}; encoding utf-8, size ")),
                        "{name}"
                    );
                    json!({ "offset": line })
                }
                (None, Some(byte)) => json!({ "byteOffset": byte }),
                (None, None) => break,
            };
            assert_eq!(facts["truncated"], true);
        }
        let content = if name == "binary" { BASE64.decode(content).unwrap() } else { content.into_bytes() };
        assert!(content == expected, "{name}");
    }
    let whole = json!({ "folderId": id, "filename": "long.md", "limit": 5_000 });
    assert_eq!(call(&marcus, "read_file_by_id", whole).facts["truncated"], false);
    for (arguments, problem) in [
        (json!({ "filename": "long.md", "offset": 9_999 }), "has 3000 lines; line 9999 is past its end"),
        (json!({ "filename": "binary", "offset": 2 }), "is binary; pass `byteOffset`"),
        (
            json!({ "filename": "long.md", "offset": 2, "byteOffset": 2 }),
            "`offset` or `byteOffset`, not both",
        ),
    ] {
        let mut arguments = object(arguments);
        arguments.insert("folderId".to_owned(), id.clone().into());
        let refused = failure(&marcus, "read_file_by_id", arguments.into());
        assert!(refused.message.contains(problem), "{refused}");
    }
}

#[test]
fn f98_a_missing_file_is_reported_although_the_available_ones_cannot_be_listed() {
    let office = Office::new();
    office.put("marcus/shared", "review.md", "x");
    let plain = "File 'notes.md' not found in folder 'Marcus (HR) - Shared'.";
    let is_plain = |fault| {
        let store = Arc::new(FaultyStore::new(office.store.clone(), fault));
        let catalyst = office.tools_over(store, "catalyst", TOOLS.into_iter().map(|tool| tool.name));
        let id = folder_id(&office.tools("catalyst"), "org_shared", "marcus/shared");
        let read = failure(&catalyst, "read_file_by_id", json!({ "folderId": id, "filename": "notes.md" }));
        read.kind == ErrorKind::NotFound && read.message == plain
    };
    assert!(!is_plain(Fault::Never));
    assert!((1..20).any(|call| is_plain(Fault::From(call))));
}

#[test]
fn f97_and_f98_a_missing_file_names_the_available_ones() {
    let office = Office::new();
    office.put("marcus/shared", "interview-notes.md", "x");
    office.put("marcus/shared", "review.md", "x");
    let catalyst = office.tools("catalyst");
    let id = folder_id(&catalyst, "org_shared", "marcus/shared");
    for name in ["read_file_by_id", "get_file_info_by_id"] {
        let missing = failure(&catalyst, name, json!({ "folderId": id, "filename": "notes.md" }));
        assert_eq!(missing.kind, ErrorKind::NotFound);
        assert_eq!(
            missing.message,
            "File 'notes.md' not found in folder 'Marcus (HR) - Shared'. Available files: [interview-notes.md, review.md]"
        );
    }
    for n in 0..30 {
        office.put("marcus/shared", &format!("n/{n:02}.md"), "x");
    }
    let missing = failure(&catalyst, "read_file_by_id", json!({ "folderId": id, "filename": "review.md/x" }));
    assert!(missing.message.ends_with(", n/18.md] (and 12 more)"), "{missing}");
}

#[test]
fn f99_a_file_seen_at_discovery_no_longer_exists() {
    let office = Office::new();
    office.put("marcus/private", "a.md", "x");
    let marcus = office.tools("marcus");
    let id = folder_id(&marcus, "my_private", "marcus/private");
    office.store_vfs().remove_file(&*store_path("marcus/private", "a.md"), Default::default()).unwrap();
    let gone = failure(&marcus, "read_file_by_id", json!({ "folderId": id, "filename": "a.md" }));
    assert_eq!(
        gone.message,
        "File 'a.md' no longer exists in folder 'Marcus (HR) - Private'. Use list_folders() to discover current files."
    );
}

#[test]
fn f100_to_f102_directories_invalid_names_and_large_files_are_refused() {
    let office = Office::with_records(OrganizationRecords {
        settings: crate::organization::OrganizationSettings::default().with_max_file_bytes(10),
        ..records()
    });
    office.put("marcus/private", "directory/a.md", "x");
    office.put("marcus/private", "%2e%2e/x", "ordinary");
    office.put("marcus/private", "large", "12345678901");
    office.put("marcus/private", "exact", "1234567890");
    let marcus = office.tools("marcus");
    let id = folder_id(&marcus, "my_private", "marcus/private");
    let refused =
        |name: &str| failure(&marcus, "read_file_by_id", json!({ "folderId": id, "filename": name }));
    assert!(refused("directory").message.contains("is a directory"));
    for name in ["../x", "/etc/passwd", "a/../../x", "..\\x", "a\0b", "", "."] {
        assert!(refused(name).message.contains("isn't a valid name; use one such as"), "{name:?}");
    }
    // A name with an invisible character is listed escaped, and the refusal of the escape says what to write.
    office.put("marcus/private", "in\u{200b}visible", "found");
    assert!(file_names(&marcus, "my_private").contains(&"in\\u{200b}visible".to_owned()));
    let hint = "; `\\u{200b}` in a listed name stands for the invisible character U+200B: pass that character itself, in \
                JSON as \\u200b";
    assert!(refused("in\\u{200b}visible").message.ends_with(hint));
    let by_path = json!({ "path": "/workspaces/marcus/private/in\\u{200b}visible" });
    assert!(failure(&marcus, "read_file", by_path).message.ends_with(hint));
    assert_eq!(read(&marcus, &id, "in\u{200b}visible").1["content"], "found");
    assert!(!refused("a\\u{a}").message.contains("stands for"), "such a name can't be used at all");
    assert_eq!(read(&marcus, &id, "%2e%2e/x").1["content"], "ordinary");
    assert_eq!(read(&marcus, &id, "exact").1["size"], 10);
    let large = refused("large");
    assert_eq!(large.kind, ErrorKind::TooLarge);
    assert!(large.message.contains("with 11 bytes; at most 10 are allowed"), "{large}");
    // F128: its attributes are not a matter of its size.
    let info = call_json(&marcus, "get_file_info_by_id", json!({ "folderId": id, "filename": "large" }));
    assert_eq!(info["size"], 11);
}
