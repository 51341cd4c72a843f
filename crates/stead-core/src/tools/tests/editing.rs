//! What an agent gets from `edit_file`: the changed lines, or why nothing was changed.

use super::*;

/// The text that a model reads, without the version tag.
fn edit(tools: &Toolbox, arguments: Value) -> String {
    let blocks = call(tools, "edit_file", arguments).for_model();
    let [Block::Text(text)] = blocks.as_slice() else { panic!("{blocks:?}") };
    text.split("[version_tag").next().unwrap().to_owned()
}

fn content(tools: &Toolbox, path: &str) -> Vec<u8> {
    tools.vfs().read(path).unwrap().bytes
}

#[test]
fn an_edit_returns_the_changed_lines_with_two_around_them() {
    let tools = toolbox_with_all_scopes();
    tools.vfs().write("/rw/a", "1\n2\n3\nfour\n5\n6\n7\n").unwrap();
    let arguments = json!({ "path": "/rw/a", "old_string": "four", "new_string": "4\n4b" });
    assert_eq!(
        edit(&tools, arguments.clone()),
        "Made 1 replacement in /rw/a:\n2\t2\n3\t3\n4\t4\n5\t4b\n6\t5\n7\t6\n"
    );
    tools.vfs().write("/rw/many", "x\n\n\n\n\n\n".repeat(40)).unwrap();
    let text = edit(
        &tools,
        json!({ "path": "/rw/many", "old_string": "x", "new_string": "y", "replace_all": true }),
    );
    assert!(text.starts_with("Made 40 replacements in /rw/many:\n1\ty\n"), "{text}");
    assert!(text.ends_with("\n…\n") && text.lines().count() < 60, "{text}");
    tools.vfs().write("/rw/all", "all").unwrap();
    let arguments = json!({ "path": "/rw/all", "old_string": "all", "new_string": "" });
    assert_eq!(edit(&tools, arguments), "Made 1 replacement in /rw/all. ");
}

#[test]
fn several_edits_are_one_version_or_none() {
    let tools = toolbox_with_all_scopes();
    let audit_log = Arc::new(MemoryAuditLog::new());
    let store = Arc::new(ModelStore::new());
    let builder = Vfs::builder(Identity::agent("tester")).audit(audit_log.clone());
    let audited = Toolbox::new(builder.workspace(workspace("/rw", ReadWrite, &store)).build().unwrap());
    for tools in [&tools, &audited] {
        tools.vfs().write("/rw/a", "one\ntwo\nthree\n").unwrap();
    }
    let edits = |last: &str| {
        json!({
            "path": "/rw/a", "old_string": "one", "new_string": "1",
            "more_edits": [
                { "old_string": "two", "new_string": "2", "replace_all": null },
                { "old_string": last, "new_string": "3", "replace_all": "true" },
            ],
        })
    };
    let error = failure(&tools, "edit_file", edits("four"));
    assert_eq!(
        error.message,
        "nothing was changed, because edit 3 of 3 failed: `/rw/a` doesn't contain the text to replace; read it and \
         copy the text exactly"
    );
    assert_eq!(content(&tools, "/rw/a"), b"one\ntwo\nthree\n");
    assert_eq!(edit(&tools, edits("three")), "Made 3 replacements in /rw/a:\n1\t1\n2\t2\n3\t3\n");
    audit_log.take();
    call_ok(&audited, "edit_file", edits("three"));
    let finished = audit_log.take().into_iter().filter(|record| record.outcome == crate::AuditOutcome::Ok);
    assert_eq!(finished.count(), 1, "several edits are one call");
    // A model may write the list as text, or leave out the brackets.
    let as_text = json!({
        "path": "/rw/a", "old_string": "1", "new_string": "one",
        "more_edits": "[{\"old_string\": \"2\", \"new_string\": \"two\"}]",
    });
    assert_eq!(edit(&tools, as_text), "Made 2 replacements in /rw/a:\n1\tone\n2\ttwo\n3\t3\n");
    for (more_edits, problem) in [
        (json!([{ "old_string": "x" }]), "needs the parameter `more_edits[0].new_string`: a string"),
        (
            json!([{ "old": "x" }]),
            "has no parameter `more_edits[0].old`; it takes `old_string`, `new_string`",
        ),
        (json!(["x"]), "takes a list of objects with `old_string`, `new_string`, `replace_all`"),
        (json!([{ "old_string": "", "new_string": "" }]), "`old_string` is empty"),
        (json!(vec![json!({ "old_string": "x", "new_string": "y" }); 100]), "at most 100 edits"),
    ] {
        let arguments =
            json!({ "path": "/rw/a", "old_string": "one", "new_string": "1", "more_edits": more_edits });
        let error = failure(&tools, "edit_file", arguments);
        assert!(error.kind == ErrorKind::Invalid && error.message.contains(problem), "{}", error.message);
    }
    assert_eq!(content(&tools, "/rw/a"), b"one\ntwo\n3\n");
}

#[test]
fn a_failed_edit_says_why() {
    let tools = toolbox_with_all_scopes();
    let mut lines: Vec<_> = (1..=80).map(|number| format!("line {number}\n")).collect();
    for index in [11, 39, 70] {
        lines[index] = "\tcall(again);\n".into();
    }
    tools.vfs().write("/rw/a", lines.concat()).unwrap();
    tools.vfs().write("/rw/crlf", "one\r\ntwo\r\n").unwrap();
    let why = |path: &str, old: &str| {
        let arguments = json!({ "path": path, "old_string": old, "new_string": "new" });
        let error = failure(&tools, "edit_file", arguments);
        assert_eq!(error.kind, ErrorKind::Invalid);
        error.message
    };
    assert_eq!(
        why("/rw/a", "call(again);"),
        "`/rw/a` contains the text to replace 3 times, in lines 12, 40 and 71; give more of the text around it, or \
         replace all"
    );
    assert_eq!(
        why("/rw/a", "line 11\n    call(again);"),
        "`/rw/a` doesn't contain the text to replace: it differs in white space at line 12, which is `\\tcall(again);`"
    );
    assert_eq!(
        why("/rw/crlf", "one\ntwo"),
        "`/rw/crlf` doesn't contain the text to replace: from line 1 on, lines end with CRLF in the file, not with LF; \
         write \\r\\n"
    );
    assert_eq!(
        why("/rw/a", "line 79\nline 08\n"),
        "`/rw/a` doesn't contain the text to replace: the nearest text differs at line 80, which is `line 80`"
    );
}

#[test]
fn where_the_caller_may_not_read_neither_lines_nor_hints_are_shown() {
    let store = Arc::new(ModelStore::new());
    let asks = workspace("/asks", ReadWrite, &store).with_approval_policy(ApprovalPolicy::Everything);
    let tools = toolbox([asks]);
    tools.vfs().with_approval().write("/asks/a", "secret one\nsecret two\nsecret two\n").unwrap();
    let approved = |old: &str| {
        let arguments = json!({ "path": "/asks/a", "old_string": old, "new_string": "new" });
        let question =
            tools.call("edit_file", object(arguments.clone()), ApprovalAnswer::NotAsked).unwrap_err();
        tools.call("edit_file", object(arguments), question.approve()).unwrap().joined_text()
    };
    // A person approved the change, but no reading.
    assert_eq!(
        approved("two"),
        "`/asks/a` contains the text to replace 2 times; give more of the text around it, or replace all"
    );
    assert!(approved("secret  one").ends_with("; read it and copy the text exactly"));
    assert_eq!(approved("one"), "Made 1 replacement in /asks/a.");
}

#[test]
fn an_edit_keeps_the_encoding_that_a_read_names() {
    let tools = toolbox_with_all_scopes();
    let utf_16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    tools.vfs().write("/rw/latin", b"gr\xfcn\r\nrot\r\n".to_vec()).unwrap();
    tools.vfs().write("/rw/wide", utf_16("\u{feff}grün\nrot\n")).unwrap();
    tools.vfs().write("/rw/bom", "\u{feff}rot\n").unwrap();
    let read = |path: &str| {
        let reply = call(&tools, "read_file", json!({ "path": path }));
        let encoding = reply.facts.get("file_encoding").cloned().unwrap_or_default();
        let blocks = reply.for_model();
        let [Block::Text(text)] = blocks.as_slice() else { panic!("{blocks:?}") };
        (text.clone(), encoding)
    };
    assert_eq!(read("/ro/latin"), ("grün\r\nrot\r\n[encoding windows-1252]".into(), "windows-1252".into()));
    assert_eq!(read("/ro/wide"), ("grün\nrot\n[encoding UTF-16LE]".into(), "UTF-16LE".into()));
    assert_eq!(read("/ro/bom"), ("\u{feff}rot\n".into(), Value::Null));
    let many = call_ok(&tools, "read_many", json!({ "paths": ["/rw/wide", "/rw/bom"] })).0;
    assert!(many.starts_with("==> /rw/wide <==\ngrün\nrot\n[encoding UTF-16LE]\n\n==>"), "{many}");
    for path in ["/rw/latin", "/rw/wide", "/rw/bom"] {
        let text = edit(&tools, json!({ "path": path, "old_string": "rot", "new_string": "weiß" }));
        assert!(text.ends_with("\tweiß\n"), "{text}");
    }
    assert_eq!(content(&tools, "/rw/latin"), b"gr\xfcn\r\nwei\xdf\r\n");
    assert_eq!(content(&tools, "/rw/wide"), utf_16("\u{feff}grün\nweiß\n"));
    assert_eq!(content(&tools, "/rw/bom"), "\u{feff}weiß\n".as_bytes());
    // What is appended has the encoding of the rest; a new file is UTF-8.
    let append = |path: &str| {
        let blocks = call(&tools, "append_file", json!({ "path": path, "content": "ß\n" })).for_model();
        let [Block::Text(text)] = blocks.as_slice() else { panic!("{blocks:?}") };
        text.replace(char::is_numeric, "#")
    };
    assert!(append("/rw/wide").starts_with("Appended # bytes to /rw/wide. [version_tag "));
    assert!(append("/rw/wide").ends_with("; encoding UTF-##LE]"));
    assert_eq!(content(&tools, "/rw/wide"), utf_16("\u{feff}grün\nweiß\nß\nß\n"));
    append("/rw/latin");
    assert_eq!(content(&tools, "/rw/latin"), b"gr\xfcn\r\nwei\xdf\r\n\xdf\n");
    append("/rw/new");
    assert_eq!(content(&tools, "/rw/new"), "ß\n".as_bytes());
    // Where the caller may not read, the file isn't looked at.
    append("/wo/latin");
    assert_eq!(content(&tools, "/rw/latin"), b"gr\xfcn\r\nwei\xdf\r\n\xdf\n\xc3\x9f\n");
    let arguments = json!({ "path": "/rw/wide", "content": "→" });
    call_ok(&tools, "append_file", arguments);
    tools.vfs().write("/rw/latin", b"gr\xfcn wei\xdf".to_vec()).unwrap();
    let lacking = failure(&tools, "append_file", json!({ "path": "/rw/latin", "content": "→" }));
    assert!(lacking.message.starts_with("`/rw/latin` is a text in windows-1252, which has no `→`"));
    let arguments = json!({ "path": "/rw/latin", "old_string": "weiß", "new_string": "→" });
    assert_eq!(
        failure(&tools, "edit_file", arguments).message,
        "`/rw/latin` is a text in windows-1252, which has no `→`; leave that out, or write the whole file, which makes \
         it UTF-8"
    );
}

#[test]
fn a_binary_file_is_not_edited_and_nothing_is_appended_to_half_a_character() {
    let tools = toolbox_with_all_scopes();
    let (binary, odd) = (b"one\0two".to_vec(), b"\xff\xfeo\0n\0e\0\n".to_vec());
    tools.vfs().write("/rw/binary", binary.clone()).unwrap();
    tools.vfs().write("/rw/odd", odd.clone()).unwrap();
    let arguments = json!({ "path": "/rw/binary", "old_string": "one", "new_string": "1" });
    assert_eq!(
        failure(&tools, "edit_file", arguments).message,
        "`/rw/binary` is binary, and only text can be edited; write the whole file instead"
    );
    assert_eq!(
        failure(&tools, "append_file", json!({ "path": "/rw/odd", "content": "two" })).message,
        "`/rw/odd` is a text in UTF-16LE that ends in the middle of a character; write the whole file instead"
    );
    assert_eq!((content(&tools, "/rw/binary"), content(&tools, "/rw/odd")), (binary, odd));
}
