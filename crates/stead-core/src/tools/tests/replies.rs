//! The content of replies: bulk text once, facts beside it, never more than fits, and nothing the caller may not see.

use super::*;

#[test]
fn a_text_is_returned_byte_for_byte_and_says_how_to_continue() {
    let tools = toolbox_with_all_scopes();
    let text = "\u{feff}one\r\ntwo\r\nthree";
    tools.vfs().write("/rw/a", text).unwrap();
    let (reply_text, facts) = call_ok(&tools, "read_file", json!({ "path": "rw/./a" }));
    assert_eq!(reply_text, text);
    assert_eq!(facts["path"], "/rw/a");
    assert_eq!(
        (&facts["lines"], &facts["total_lines"], &facts["truncated"]),
        (&3.into(), &3.into(), &false.into())
    );
    assert_eq!(facts["size"], text.len());

    let reply = call(&tools, "read_file", json!({ "path": "/rw/a", "offset": 2, "limit": 1.0 }));
    assert_eq!(
        reply.clone().for_program(),
        [Block::Text("two\r\n".to_owned()), Block::Text("[more: offset 3]".to_owned())]
    );
    assert_eq!(reply.facts["next_offset"], 3);
    let error = failure(&tools, "read_file", json!({ "path": "/rw/a", "offset": 9 }));
    assert_eq!(error.message, "`/rw/a` has 3 lines; line 9 is past its end");
}

#[test]
fn a_line_too_long_for_one_call_is_read_by_bytes() {
    let tools = toolbox_with_all_scopes();
    let long = "ä".repeat(200_000);
    tools.vfs().write("/rw/a", long.as_str()).unwrap();
    let (mut text, facts) = call_ok(&tools, "read_file", json!({ "path": "/rw/a" }));
    let mut next = facts["next_byte_offset"].as_u64();
    let mut calls = 0;
    while let Some(offset) = next {
        let arguments = json!({ "path": "/rw/a", "byte_offset": offset, "byte_limit": 65_537 });
        let (page, facts) = call_ok(&tools, "read_file", arguments);
        text.push_str(&page);
        next = facts.get("next_byte_offset").and_then(Value::as_u64);
        calls += 1;
    }
    assert!(text == long && calls > 1, "{calls}");
}

#[test]
fn a_binary_file_is_returned_as_an_image_or_says_how_to_read_it() {
    let tools = toolbox_with_all_scopes();
    let png = b"\x89PNG\r\n\x1a\n\0\0".to_vec();
    for name in ["a.png", "a.wav", "a.zip", "a"] {
        tools.vfs().write(&*format!("/rw/{name}"), png.clone()).unwrap();
    }
    let read = |path: &str| call(&tools, "read_file", json!({ "path": path })).blocks;
    let image = Block::Image { bytes: png.clone(), mime: "image/png".into() };
    assert_eq!(read("/ro/a.png"), [Block::Text("/ro/a.png: image/png, 10 bytes".into()), image]);
    for (path, kind) in
        [("/ro/a.wav", "audio/wav"), ("/ro/a.zip", "application/zip"), ("/ro/a", "unknown type")]
    {
        let hint = "read it with encoding base64, byte_offset and byte_limit";
        assert_eq!(read(path), [Block::Text(format!("{path} is binary: {kind}, 10 bytes; {hint}"))]);
    }
    let (reply_text, facts) = call_ok(
        &tools,
        "read_file",
        json!({ "path": "/rw/a", "encoding": "base64", "byte_offset": 1, "byte_limit": 3 }),
    );
    assert_eq!((&*reply_text, &facts["next_byte_offset"]), ("UE5H", &4.into()));
    // An image that is too large to return is described instead.
    tools.vfs().write("/rw/large.png", vec![0; (8 << 20) + 1]).unwrap();
    assert!(matches!(&*read("/rw/large.png"), [Block::Text(text)] if text.contains("8388609 bytes")));
    call_ok(&tools, "write_file", json!({ "path": "/rw/b", "content": "AP8=", "encoding": "base64" }));
    assert_eq!(tools.vfs().read("/rw/b").unwrap().bytes, [0, 255]);
}

#[test]
fn many_files_share_one_reply() {
    let tools = toolbox_with_all_scopes();
    tools.vfs().write("/rw/a", "one\n").unwrap();
    tools.vfs().write("/rw/long", "line\n".repeat(100_000)).unwrap();
    let paths = json!({ "paths": ["/rw/a", "/rw/none", "/wo/a", "/rw/long", "/rw/long"] });
    let reply = call(&tools, "read_many", paths);
    let texts: Vec<_> = reply
        .blocks
        .iter()
        .map(|block| match block {
            Block::Text(text) => text.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts[0], "==> /rw/a <==\none\n");
    let missing = "`/rw/none` does not exist; list its directory to see what does [not_found]";
    assert_eq!(texts[1], format!("==> /rw/none <==\n{missing}\n"));
    assert!(texts.iter().map(|text| text.len()).sum::<usize>() < 20_000);
    let files = reply.facts["files"].as_array().unwrap();
    let codes: Vec<_> = files.iter().map(|file| file.get("code").and_then(Value::as_str)).collect();
    assert_eq!(codes, [None, Some("not_found"), Some("denied"), None, None]);
    let next = files[3]["next_offset"].as_u64().unwrap();
    let lines = texts[3].lines().filter(|line| *line == "line").count() as u64;
    assert!(texts[3].ends_with(&format!("\n[more: offset {next}]\n")) && lines == next - 1, "{next}");
    let arguments = json!({ "paths": ["/rw/long"], "byte_limit": 200_000 });
    assert!(call_ok(&tools, "read_many", arguments).0.len() > 199_000);
}

#[test]
fn a_line_too_long_for_one_call_continues_at_a_byte_offset() {
    let tools = toolbox_with_all_scopes();
    tools.vfs().write("/rw/line", "x".repeat(300 << 10)).unwrap();
    let file = call(&tools, "read_many", json!({ "paths": ["/rw/line"] })).facts["files"][0].clone();
    assert!(
        file.get("next_offset").is_none(),
        "an offset in lines would start at the same place again: {file}"
    );
    let offset = file["next_byte_offset"].as_u64().unwrap();
    let arguments = json!({ "path": "/rw/line", "byte_offset": offset, "byte_limit": 256 << 10 });
    let (text, facts) = call_ok(&tools, "read_file", arguments);
    assert_eq!((text.len() as u64, &facts["truncated"]), (256 << 10, &json!(true)));
}

#[test]
fn directories_come_in_pages_and_workspaces_show_their_scope() {
    let tools = toolbox_with_all_scopes();
    for name in ["a", "b", "c/d", "e\u{202e}"] {
        tools.vfs().write(&*format!("/rw/{name}"), "12").unwrap();
    }
    let (reply_text, facts) = call_ok(&tools, "list_directory", json!({ "path": "/rw", "limit": 2 }));
    assert!(reply_text.starts_with("a\t2\t"), "{reply_text}");
    assert!(
        reply_text
            .ends_with(&format!("\n[more: cursor {}; 2 of 4 entries]\n", facts["cursor"].as_str().unwrap()))
    );
    assert_eq!((&facts["entries"], &facts["total"]), (&2.into(), &4.into()));
    let arguments = json!({ "path": "/rw", "cursor": facts["cursor"] });
    let (reply_text, facts) = call_ok(&tools, "list_directory", arguments);
    assert!(reply_text.starts_with("c/\t-\t") && !reply_text.contains('\u{202e}'), "{reply_text}");
    assert!(!facts.contains_key("cursor"));
    assert_eq!(
        call_ok(&tools, "list_directory", json!({ "path": "/" })).0,
        "ro/\t-\tWorkspace, READ_ONLY\nrw/\t-\tWorkspace, READ_WRITE\nwo/\t-\tWorkspace, WRITE_ONLY\n"
    );
    tools.vfs().mkdir("/rw/empty", crate::store::Parents::Create).unwrap();
    assert_eq!(call_ok(&tools, "list_directory", json!({ "path": "/rw/empty" })).0, "(empty)\n");
}

#[test]
fn searches_name_paths_and_lines() {
    let tools = toolbox_with_all_scopes();
    tools.vfs().write("/rw/src/a.rs", "fn one() {}\nfn two() {}\n").unwrap();
    tools.vfs().write("/rw/b.md", "One.\n").unwrap();
    let grep = |arguments| call_ok(&tools, "grep", arguments).0;
    assert_eq!(
        grep(json!({ "pattern": "one", "path": "/rw", "context": 1 })),
        "/rw/src/a.rs:1:fn one() {}\n/rw/src/a.rs-2-fn two() {}\n"
    );
    assert_eq!(
        grep(json!({ "pattern": "ONE", "path": "/rw", "case": "insensitive", "output": "files" })),
        "/rw/b.md\n/rw/src/a.rs\n"
    );
    assert_eq!(
        grep(json!({ "pattern": "()", "literal": true, "path": "/ro", "output": "counts" })),
        "/ro/src/a.rs:2\n"
    );
    assert_eq!(grep(json!({ "pattern": "fn", "path": "/rw", "exclude": ["*.rs"] })), "Nothing matches.\n");
    let (reply_text, facts) =
        call_ok(&tools, "grep", json!({ "pattern": "fn", "path": "/rw", "max_results": 1 }));
    assert!(
        reply_text.ends_with("[more: narrow the pattern, the path or the globs, or raise max_results]\n"),
        "{reply_text}"
    );
    assert_eq!((&facts["matches"], &facts["truncated"]), (&1.into(), &true.into()));
    assert_eq!(call_ok(&tools, "glob", json!({ "pattern": "**/*.rs", "path": "/rw" })).0, "/rw/src/a.rs\n");
    assert_eq!(call_ok(&tools, "glob", json!({ "pattern": "rw/*" })).0, "/rw/b.md\n/rw/src/\n");
    assert_eq!(call_ok(&tools, "glob", json!({ "pattern": "../*" })).0, "Nothing matches.\n");
    let error = failure(&tools, "grep", json!({ "pattern": "(" }));
    assert_eq!(error.kind, ErrorKind::Invalid);
}

#[test]
fn if_match_requires_an_unchanged_file() {
    let tools = toolbox_with_all_scopes();
    let (_, first) = call_ok(&tools, "write_file", json!({ "path": "/rw/a", "content": "one" }));
    let (_, second) = call_ok(&tools, "write_file", json!({ "path": "/rw/a", "content": "two" }));
    assert_ne!(first["version_tag"], second["version_tag"]);
    for (name, more) in [
        ("write_file", json!({ "content": "x" })),
        ("append_file", json!({ "content": "x" })),
        ("edit_file", json!({ "old_string": "two", "new_string": "x" })),
        ("delete_file", json!({})),
        ("move_file", json!({ "destination": "/rw/b" })),
    ] {
        let mut arguments = object(more);
        let path = if name == "move_file" { "source" } else { "path" };
        arguments.insert(path.to_owned(), "/rw/a".into());
        arguments.insert("if_match".to_owned(), first["version_tag"].clone());
        assert_eq!(failure(&tools, name, arguments.into()).kind, ErrorKind::Conflict, "{name}");
    }
    assert_eq!(tools.vfs().read("/rw/a").unwrap().bytes, b"two");
    let error = failure(&tools, "write_file", json!({ "path": "/rw/a", "content": "", "create_only": true }));
    assert_eq!(error.kind, ErrorKind::AlreadyExists);
}

#[test]
fn a_write_over_a_version_that_was_not_read_is_refused() {
    let store = Arc::new(ModelStore::new());
    let [agent, other_agent] = [(); 2].map(|()| toolbox([workspace("/w", ReadWrite, &store)]));
    call_ok(&agent, "write_file", json!({ "path": "/w/a", "content": "1" }));
    call_ok(&agent, "read_file", json!({ "path": "/w/a" }));
    call_ok(&other_agent, "write_file", json!({ "path": "/w/a", "content": "2" }));
    let error = failure(&agent, "write_file", json!({ "path": "/w/a", "content": "3" }));
    assert_eq!(
        error.message,
        "`/w/a` has changed since you last read or wrote it; read it again, then write"
    );
    call_ok(&agent, "read_file", json!({ "path": "/w/a" }));
    call_ok(&agent, "write_file", json!({ "path": "/w/a", "content": "3" }));
}

#[test]
fn in_a_write_only_workspace_no_reply_reveals_content() {
    let tools = toolbox_with_all_scopes();
    let secret = "the secret word is xyzzy";
    tools.vfs().write("/rw/a", secret).unwrap();
    let calls = [
        ("edit_file", json!({ "path": "/wo/a", "old_string": "word", "new_string": "words" })),
        ("edit_file", json!({ "path": "/wo/a", "old_string": "none", "new_string": "some" })),
        ("edit_file", json!({ "path": "/wo/a", "old_string": "e", "new_string": "f" })),
        ("append_file", json!({ "path": "/wo/a", "content": "!" })),
        ("write_file", json!({ "path": "/wo/a", "content": "", "if_match": "000000000001" })),
        ("copy_file", json!({ "source": "/wo/a", "destination": "/rw/b" })),
        ("move_file", json!({ "source": "/wo/a", "destination": "/rw/b" })),
        ("read_file", json!({ "path": "/wo/a" })),
        ("grep", json!({ "pattern": "x", "path": "/wo" })),
        ("stat", json!({ "path": "/wo/a" })),
        ("list_directory", json!({ "path": "/wo" })),
        ("delete_directory", json!({ "path": "/wo" })),
    ];
    for (name, arguments) in calls {
        let reply = call(&tools, name, arguments);
        let reply_text = format!("{} {}", reply.joined_text(), Value::from(reply.structured()));
        for part in ["secret", "xyzzy", "24", "23", "25"] {
            let in_ids = reply.facts.values().filter_map(Value::as_str).any(|id| id.contains(part));
            assert!(!reply_text.contains(part) || in_ids, "{name}: {reply_text}");
        }
    }
    let error =
        failure(&tools, "edit_file", json!({ "path": "/wo/a", "old_string": "xyzzy", "new_string": "x" }));
    assert_eq!(
        error.kind,
        ErrorKind::Denied,
        "the Store doesn't record who wrote the file: {}",
        error.message
    );
}
