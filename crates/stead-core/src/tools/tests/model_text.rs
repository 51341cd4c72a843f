//! The text for models: one block that no host cuts or drops, with notes about what to do next in the last line.

use super::*;

/// The reply as a model reads it.
fn read(tools: &Toolbox, name: &str, arguments: Value) -> String {
    let blocks = call(tools, name, arguments).for_model();
    match blocks.as_slice() {
        [Block::Text(text)] => text.clone(),
        other => panic!("{other:?}"),
    }
}

/// The last line of what a model reads, without the version tag, which is different after every write.
fn last_line(text: &str) -> &str {
    let line = text.lines().last().unwrap();
    line.split("version_tag ").next().unwrap()
}

fn tag(text: &str) -> String {
    text.rsplit_once("version_tag ").unwrap().1.trim_end_matches(']').to_owned()
}

#[test]
fn a_reply_is_one_text_whose_last_line_says_how_to_continue() {
    let tools = toolbox_with_all_scopes();
    tools.vfs().write("/rw/long", "line\n".repeat(1_000)).unwrap();
    let first = read(&tools, "read_file", json!({ "path": "/rw/long" }));
    assert_eq!(first.lines().filter(|line| *line == "line").count(), 800);
    assert_eq!(last_line(&first), "[more: offset 801; ");
    let rest = read(&tools, "read_file", json!({ "path": "/rw/long", "offset": 801 }));
    assert_eq!((rest.lines().count(), last_line(&rest)), (201, "["));
    // In a READ_ONLY Workspace there is no tag, so the text equals the file byte for byte.
    assert_eq!(read(&tools, "read_file", json!({ "path": "/ro/long", "offset": 801 })), "line\n".repeat(200));
    tools.vfs().write("/rw/open", "no newline").unwrap();
    assert_eq!(last_line(&read(&tools, "read_file", json!({ "path": "/rw/open" }))), "[no newline at end; ");
    tools.vfs().write("/rw/empty", "").unwrap();
    assert_eq!(read(&tools, "read_file", json!({ "path": "/ro/empty" })), "(empty file)");
    assert!(
        read(&tools, "read_file", json!({ "path": "/rw/empty" })).starts_with("(empty file) [version_tag ")
    );
    let arguments = json!({ "paths": ["/ro/empty", "/ro/open"] });
    assert_eq!(
        read(&tools, "read_many", arguments),
        "==> /ro/empty <==\n(empty file)\n==> /ro/open <==\nno newline\n"
    );
}

#[test]
fn a_short_tag_is_accepted_and_changes_with_every_write() {
    let tools = toolbox_with_all_scopes();
    let write = |content: &str| {
        let text = read(&tools, "write_file", json!({ "path": "/rw/a", "content": content }));
        assert_eq!(text.lines().count(), 1, "{text}");
        tag(&text)
    };
    let (first, second, third) = (write("one"), write("two"), write("one"));
    assert!(first != second && second != third && first != third, "{first} {second} {third}");
    assert_eq!(third.len(), 12);
    let of_read = tag(&read(&tools, "read_file", json!({ "path": "/rw/a" })));
    let of_stat = tag(&read(&tools, "stat", json!({ "path": "/rw/a" })));
    assert_eq!((&of_read, &of_stat), (&third, &third));
    let edit = |if_match: &str| json!({ "path": "/rw/a", "old_string": "one", "new_string": "1", "if_match": if_match });
    assert_eq!(failure(&tools, "edit_file", edit(&first)).kind, ErrorKind::Conflict);
    let edited = tag(&read(&tools, "edit_file", edit(&third)));
    for (name, arguments) in [
        ("append_file", json!({ "path": "/rw/a", "content": "2" })),
        ("write_file", json!({ "path": "/rw/a", "content": "3" })),
        ("move_file", json!({ "source": "/rw/a", "destination": "/rw/b" })),
        ("delete_file", json!({ "path": "/rw/b" })),
    ] {
        let path = if name == "delete_file" { "/rw/b" } else { "/rw/a" };
        let current_tag = tag(&read(&tools, "stat", json!({ "path": path })));
        let with_tag = |tag: &str| {
            let mut arguments = object(arguments.clone());
            arguments.insert("if_match".to_owned(), tag.into());
            Value::Object(arguments)
        };
        assert_eq!(failure(&tools, name, with_tag(&third)).kind, ErrorKind::Conflict, "{name}");
        call_ok(&tools, name, with_tag(&current_tag));
        assert!(name != "append_file" || current_tag == edited);
    }
}

#[test]
fn a_listing_has_a_line_for_each_entry_and_tags_on_demand() {
    let tools = toolbox_with_all_scopes();
    tools.vfs().write("/rw/a", "12").unwrap();
    tools.vfs().write("/rw/d/e", "1").unwrap();
    tools.vfs().symlink("/rw/l", "a").unwrap();
    let shape = |text: String| -> Vec<String> {
        let digit = |c: char| if c.is_ascii_hexdigit() && c != 'd' && c != 'a' { '0' } else { c };
        text.lines().map(|line| line.chars().map(digit).collect()).collect()
    };
    let listed = shape(read(&tools, "list_directory", json!({ "path": "/rw" })));
    let minute = "0000-00-00T00:00";
    assert_eq!(listed, [format!("a\t0\t{minute}"), format!("d/\t-\t{minute}"), format!("l@\t-\t{minute}")]);
    let details = read(&tools, "list_directory", json!({ "path": "/rw", "details": true }));
    let file: Vec<_> = details.lines().next().unwrap().split('\t').collect();
    assert_eq!(file[2].len(), "2026-11-15T08:30:00.000Z".len());
    call_ok(&tools, "delete_file", json!({ "path": "/rw/a", "if_match": file[3] }));
}

#[test]
fn an_error_is_one_text_that_ends_with_its_code() {
    let tools = toolbox_with_all_scopes();
    for (name, arguments, code) in [
        ("write_file", json!({ "path": "/ro/a", "content": "" }), "denied"),
        ("read_file", json!({ "path": "/rw/none" }), "not_found"),
        ("read_file", json!({ "path": 7 }), "invalid"),
        ("read_file", json!({ "path": "/rw/a", "colour": "red" }), "invalid"),
        ("restore", json!({ "path": "/rw", "snapshot": "x" }), "denied"),
    ] {
        let reply = call(&tools, name, arguments);
        assert!(reply.is_failure());
        let blocks = reply.for_model();
        let [Block::Text(text)] = blocks.as_slice() else { panic!("{blocks:?}") };
        assert!(text.ends_with(&format!(" [{code}]")) && !text.contains('\n'), "{text}");
    }
}

#[test]
fn an_image_comes_after_a_line_of_text() {
    let tools = toolbox_with_all_scopes();
    tools.vfs().write("/rw/a.png", b"\x89PNG\r\n\x1a\n\0".to_vec()).unwrap();
    let blocks = call(&tools, "read_file", json!({ "path": "/rw/a.png" })).for_model();
    let [Block::Text(text), Block::Image { .. }] = blocks.as_slice() else { panic!("{blocks:?}") };
    assert!(text.starts_with("/rw/a.png: image/png, 9 bytes [version_tag "), "{text}");
}

#[test]
fn no_page_exceeds_what_hosts_accept_unless_a_larger_one_is_requested() {
    let tools = toolbox_with_all_scopes();
    let line = format!("{}\n", "x".repeat(99));
    tools.vfs().write("/rw/wide", line.repeat(3_000)).unwrap();
    tools.vfs().write("/rw/one-line", "ä".repeat(60_000)).unwrap();
    for n in 0..900 {
        let name = "n".repeat(if n < 300 { 150 } else { 1 });
        tools.vfs().write(&*format!("/rw/d/{name}{n:03}"), "needle\n".repeat(3)).unwrap();
    }
    for (name, arguments) in [
        ("read_file", json!({ "path": "/rw/wide" })),
        ("read_file", json!({ "path": "/rw/one-line" })),
        ("read_file", json!({ "path": "/rw/wide", "encoding": "base64" })),
        ("read_file", json!({ "path": "/rw/wide", "byte_offset": 7 })),
        ("read_many", json!({ "paths": ["/rw/wide", "/rw/one-line", "/rw/wide"] })),
        ("list_directory", json!({ "path": "/rw/d" })),
        ("glob", json!({ "pattern": "**", "path": "/rw/d" })),
        ("grep", json!({ "pattern": "needle", "path": "/rw/d", "context": 3 })),
        ("grep", json!({ "pattern": "x", "path": "/rw/wide" })),
    ] {
        let text = read(&tools, name, arguments.clone());
        assert!(text.chars().count() <= 20_000 && text.lines().count() <= 801, "{name}: {}", text.len());
        assert!(text.contains("[more: "), "{name} {arguments}: {}", last_line(&text));
    }
    for (name, arguments) in [
        ("read_file", json!({ "path": "/rw/wide", "limit": 2_000 })),
        ("read_file", json!({ "path": "/rw/one-line", "byte_limit": 100_000 })),
        ("list_directory", json!({ "path": "/rw/d", "limit": 5_000 })),
        ("glob", json!({ "pattern": "**", "path": "/rw/d", "limit": 10_000 })),
        ("grep", json!({ "pattern": "x", "path": "/rw/wide", "max_results": 1_000 })),
    ] {
        let longest = tool(name).unwrap().max_characters.unwrap();
        let length = read(&tools, name, arguments).chars().count();
        assert!((20_001..=longest).contains(&length), "{name}: {length}");
    }
}

#[test]
fn the_pages_of_a_directory_list_every_entry() {
    let tools = toolbox_with_all_scopes();
    for n in 0..1_000 {
        let name = "n".repeat(1 + n % 200);
        tools.vfs().write(&*format!("/rw/{n:04}{name}"), "").unwrap();
    }
    let (mut names, mut cursor, mut pages) = (0, Value::Null, 0);
    loop {
        let (reply_text, facts) =
            call_ok(&tools, "list_directory", json!({ "path": "/rw", "cursor": cursor }));
        let listed = reply_text.lines().filter(|line| !line.starts_with('['));
        for line in listed {
            assert!(line.starts_with(&format!("{names:04}n")), "{line}");
            names += 1;
        }
        pages += 1;
        let Some(next) = facts.get("cursor") else { break };
        cursor = next.clone();
    }
    assert!(names == 1_000 && pages > 4, "{names} in {pages}");
}

#[test]
fn an_empty_value_counts_as_absent() {
    let tools = toolbox_with_all_scopes();
    tools.vfs().write("/rw/a", "one\ntwo\n").unwrap();
    // Some hosts require every parameter: each optional one gets the empty value of its type, or null.
    for (name, arguments) in [
        ("read_file", json!({ "path": "/rw/a" })),
        ("read_many", json!({ "paths": ["/rw/a"] })),
        ("list_directory", json!({ "path": "/rw" })),
        ("glob", json!({ "pattern": "rw/*" })),
        ("grep", json!({ "pattern": "one" })),
        ("stat", json!({ "path": "/rw/a" })),
        ("edit_file", json!({ "path": "/rw/a", "old_string": "one", "new_string": "" })),
        ("write_file", json!({ "path": "/rw/b", "content": "" })),
        ("append_file", json!({ "path": "/rw/b", "content": "x" })),
        ("copy_file", json!({ "source": "/rw/b", "destination": "/rw/c" })),
        ("move_file", json!({ "source": "/rw/c", "destination": "/rw/d" })),
        ("delete_file", json!({ "path": "/rw/d" })),
        ("create_directory", json!({ "path": "/rw/e" })),
        ("delete_directory", json!({ "path": "/rw/e" })),
    ] {
        let filled = |empty_value: fn(&FieldType) -> Value| {
            let mut all = object(arguments.clone());
            for field in tool(name).unwrap().input.iter().filter(|field| !field.required) {
                all.insert(field.name.to_owned(), empty_value(&field.field_type));
            }
            Value::Object(all)
        };
        let empty_of_type = |field_type: &FieldType| match field_type {
            FieldType::Integer { .. } => json!(0),
            FieldType::Flag => json!(false),
            FieldType::TextList { .. } => json!([]),
            _ => json!(""),
        };
        if tool(name).unwrap().is_mutating() {
            call_ok(&tools, name, filled(empty_of_type));
        } else {
            let plain = call_ok(&tools, name, arguments.clone());
            assert_eq!(call_ok(&tools, name, filled(empty_of_type)), plain, "{name}");
            assert_eq!(call_ok(&tools, name, filled(|_| Value::Null)), plain, "{name}");
            assert_eq!(call_ok(&tools, name, filled(|_| json!(""))), plain, "{name}");
        }
    }
    assert_eq!(tools.vfs().read("/rw/a").unwrap().bytes, b"\ntwo\n");
}

#[test]
fn the_first_sentence_of_a_description_stands_on_its_own() {
    for tool in TOOLS {
        let (first, _) = tool.description.split_once(". ").unwrap_or((tool.description, ""));
        assert!((20..150).contains(&first.len()), "{}: {first}", tool.name);
    }
}

#[test]
fn one_description_names_the_workspaces() {
    let descriptions_with_workspaces = |tools: &Toolbox| -> Vec<(&str, String)> {
        let named = tools.offered().map(|tool| (tool.name, tools.description(tool).into_owned()));
        named.filter(|(_, text)| text.contains("Workspaces: /")).collect()
    };
    let all = descriptions_with_workspaces(&toolbox_with_all_scopes());
    let [(name, text)] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(*name, "list_directory");
    assert!(
        text.starts_with("Lists a directory, sorted by name. Workspaces: /ro RO, /rw RW, /wo WO. A line has"),
        "{text}"
    );
    assert!(text.find("/wo WO").unwrap() < 150);
    // An agent that may only write has no tool that lists.
    let write_only = toolbox([workspace("/out", WriteOnly, &Arc::new(ModelStore::new()))]);
    let all = descriptions_with_workspaces(&write_only);
    assert!(matches!(all.as_slice(), [(_, text)] if text.contains("Workspaces: /out WO.")), "{all:?}");
}

#[test]
fn the_errors_of_many_files_count_against_the_size_of_the_reply() {
    let tools = toolbox_with_all_scopes();
    tools.vfs().write("/rw/last", "the last file\n").unwrap();
    let missing = (0..99).map(|n| format!("/rw/{n}{}", "m".repeat(90)));
    let paths: Vec<_> = missing.chain(["/rw/last".to_owned()]).collect();
    let (reply_text, facts) = call_ok(&tools, "read_many", json!({ "paths": paths }));
    assert!(reply_text.chars().count() <= 20_000, "{}", reply_text.chars().count());
    let files = facts["files"].as_array().unwrap();
    assert_eq!((files.len(), &files[98]["code"]), (100, &json!("not_found")));
    assert!(reply_text.contains("the last file"), "the last file has to fit into the reply");
}

#[test]
fn a_search_counts_only_the_hits_that_it_returns() {
    let tools = toolbox_with_all_scopes();
    tools.vfs().write("/rw/many", format!("{}\n", "x".repeat(300)).repeat(150)).unwrap();
    for (output, expected) in [("lines", 150), ("counts", 1)] {
        let arguments = json!({ "pattern": "x", "path": "/rw", "output": output });
        let (reply_text, facts) = call_ok(&tools, "grep", arguments);
        let hits = reply_text.lines().filter(|line| line.starts_with("/rw/many:")).count();
        assert_eq!(facts["truncated"], json!(hits < expected), "{output}");
        assert_eq!(facts["matches"], json!(if output == "lines" { hits } else { 150 }), "{output}");
        assert_eq!(facts["files"], json!(1), "{output}");
    }
}
