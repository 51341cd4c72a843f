//! The forms of a parameter that are taken, and how the others are refused.

use super::*;

#[test]
fn numbers_flags_and_lists_are_also_taken_as_text() {
    let tools = toolbox_with_all_scopes();
    tools.vfs().write("/rw/a.py", "one\ntwo\nthree\n").unwrap();
    tools.vfs().write("/rw/b.md", "two\n").unwrap();
    for (name, given, meant) in [
        (
            "read_file",
            json!({ "path": "/rw/a.py", "offset": "2", "limit": " 1.0 " }),
            json!({ "path": "/rw/a.py", "offset": 2, "limit": 1 }),
        ),
        (
            "read_file",
            json!({ "path": "/rw/a.py", "line_numbers": "True", "offset": "0" }),
            json!({ "path": "/rw/a.py", "line_numbers": true }),
        ),
        ("read_many", json!({ "paths": "/rw/a.py" }), json!({ "paths": ["/rw/a.py"] })),
        (
            "read_many",
            json!({ "paths": "[\"/rw/a.py\", \"/rw/b.md\"]" }),
            json!({ "paths": ["/rw/a.py", "/rw/b.md"] }),
        ),
        (
            "grep",
            json!({ "pattern": "two", "include": "*.py", "literal": "false" }),
            json!({ "pattern": "two", "include": ["*.py"] }),
        ),
        (
            "grep",
            json!({ "pattern": "two", "include": "[ab].py" }),
            json!({ "pattern": "two", "include": ["[ab].py"] }),
        ),
    ] {
        assert_eq!(call_ok(&tools, name, given), call_ok(&tools, name, meant), "{name}");
    }
}

#[test]
fn a_wrong_type_is_refused_by_name() {
    let tools = toolbox_with_all_scopes();
    tools.vfs().write("/rw/a", "one\n").unwrap();
    for (arguments, problem) in [
        (
            json!({ "offset": "two" }),
            "takes a whole number of at least 1 as its parameter `offset`, not \"two\"",
        ),
        (json!({ "offset": "-1" }), "as its parameter `offset`, not -1"),
        (json!({ "offset": [2] }), "as its parameter `offset`, not a list of 1"),
        (
            json!({ "line_numbers": "yes" }),
            "takes true or false as its parameter `line_numbers`, not \"yes\"",
        ),
        (json!({ "line_numbers": 1 }), "as its parameter `line_numbers`, not 1"),
        (json!({ "encoding": "latin1" }), "takes one of \"utf-8\", \"base64\" as its parameter `encoding`"),
    ] {
        let mut arguments = object(arguments);
        arguments.insert("path".to_owned(), "/rw/a".into());
        let error = failure(&tools, "read_file", arguments.into());
        assert!(error.kind == ErrorKind::Invalid && error.message.contains(problem), "{}", error.message);
    }
    let error = failure(&tools, "read_many", json!({ "paths": "" }));
    assert!(error.message.contains("takes a list of 1 to 100 strings"), "{}", error.message);
}

#[test]
fn numbered_lines_stay_within_a_page() {
    let tools = toolbox_with_all_scopes();
    tools.vfs().write("/rw/a", "one\ntwo\nthree").unwrap();
    let read = |arguments: Value| {
        let mut arguments = object(arguments);
        arguments.insert("line_numbers".to_owned(), true.into());
        call_ok(&tools, "read_file", arguments.into())
    };
    assert_eq!(read(json!({ "path": "/rw/a" })).0, "1\tone\n2\ttwo\n3\tthree");
    let (text, facts) = read(json!({ "path": "/rw/a", "offset": 2, "limit": 1 }));
    assert_eq!((&*text, &facts["next_offset"]), ("2\ttwo\n", &json!(3)));
    // 800 lines of 24 bytes fit a page only without their numbers.
    tools.vfs().write("/rw/long", format!("{}\n", "x".repeat(23)).repeat(2_000)).unwrap();
    let (mut next, mut seen) = (1, 0);
    loop {
        let (text, facts) = read(json!({ "path": "/rw/long", "offset": next }));
        assert!(text.len() <= 19_400 && text.starts_with(&format!("{next}\tx")));
        seen += text.lines().count();
        assert_eq!(facts["lines"], text.lines().count());
        match facts.get("next_offset").and_then(Value::as_u64) {
            Some(offset) => next = offset,
            None => break,
        }
    }
    assert_eq!(seen, 2_000);
    tools.vfs().write("/rw/empty", "").unwrap();
    assert_eq!(read(json!({ "path": "/rw/empty" })).0, "");
    let error =
        failure(&tools, "read_file", json!({ "path": "/rw/a", "line_numbers": true, "byte_limit": 3 }));
    assert!(error.message.starts_with("`line_numbers` is for lines"), "{}", error.message);
}

#[test]
fn a_long_line_of_another_encoding_is_read_by_bytes() {
    let tools = toolbox_with_all_scopes();
    let text = "ä😀x".repeat(20_000);
    let utf_16: Vec<_> =
        "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_be_bytes).collect();
    tools.vfs().write("/rw/wide", utf_16).unwrap();
    tools
        .vfs()
        .write("/rw/latin", "xx\u{e9}".repeat(20_000).chars().map(|c| c as u8).collect::<Vec<_>>())
        .unwrap();
    for (path, text) in [("/rw/wide", text), ("/rw/latin", "xx\u{e9}".repeat(20_000))] {
        let (mut read, facts) = call_ok(&tools, "read_file", json!({ "path": path }));
        let mut next = facts["next_byte_offset"].as_u64();
        while let Some(offset) = next {
            let arguments = json!({ "path": path, "byte_offset": offset, "byte_limit": 9_999 });
            let (page, facts) = call_ok(&tools, "read_file", arguments);
            assert!(!page.is_empty() && facts.contains_key("file_encoding"));
            read.push_str(&page);
            next = facts.get("next_byte_offset").and_then(Value::as_u64);
        }
        assert!(read == text, "{path}");
    }
}
