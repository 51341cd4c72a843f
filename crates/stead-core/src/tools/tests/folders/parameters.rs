//! Which tools an agent of an organization has, and what they take.

use super::*;

#[test]
fn f1_and_f159_to_f165_the_folder_tools_exist_and_only_an_organization_offers_them() {
    let names: Vec<_> = folder_tools().map(|tool| tool.name).collect();
    assert_eq!(
        names,
        [
            "append_to_file_by_id",
            "copy_file_by_id",
            "create_folder",
            "delete_file_by_id",
            "delete_folder_by_id",
            "get_file_info_by_id",
            "list_folders",
            "move_file_by_id",
            "read_file_by_id",
            "read_multiple_files_by_id",
            "rename_folder_by_id",
            "write_file_by_id",
            "write_multiple_files_by_id",
        ]
    );
    let marcus = Office::new().tools("marcus");
    assert!(folder_tools().all(|tool| marcus.offers(tool)));
    let only = Some(names.iter().map(|name| (*name).to_owned()).collect());
    let choice = ToolChoice { only, ..ToolChoice::default() };
    let outside = toolbox_with_all_scopes().with_choice(choice);
    assert!(folder_tools().all(|tool| !outside.offers(tool)), "there is no organization");
    assert!(folder_tools().all(|tool| !marcus.clone().with_choice(ToolChoice::default()).offers(tool)));
}

#[test]
fn f2_f3_and_f6_scopes_are_an_enum_and_no_schema_asks_who_is_calling() {
    for tool in folder_tools() {
        let schema = Value::Object(tool.input_schema());
        for identity in ["agentId", "teamId", "organizationId"] {
            assert!(!schema.to_string().contains(identity), "{}: {identity}", tool.name);
        }
        let scope = schema["properties"].get("scope");
        assert_eq!(scope.is_some(), ["list_folders", "create_folder"].contains(&tool.name), "{}", tool.name);
        if let Some(scope) = scope {
            let scopes = ["my_private", "my_shared", "team_private", "team_shared", "org_shared"];
            assert_eq!(scope["enum"], json!(scopes), "{}", tool.name);
        }
    }
}

#[test]
fn f4_f5_and_f10_required_parameters_and_types_are_checked_by_name() {
    let marcus = Office::new().tools("marcus");
    let id = folder_id(&marcus, "my_private", "marcus/private");
    for (name, arguments, problem) in [
        ("list_folders", json!({}), "`list_folders` needs the parameter `scope`"),
        ("list_folders", json!({ "scope": 1 }), "as its parameter `scope`, not 1"),
        ("read_file_by_id", json!({ "filename": "a" }), "needs the parameter `folderId`"),
        ("read_file_by_id", json!({ "folderId": id }), "needs the parameter `filename`"),
        ("delete_file_by_id", json!({ "folderId": id }), "needs the parameter `filename`"),
        ("get_file_info_by_id", json!({ "folderId": id }), "needs the parameter `filename`"),
        ("write_file_by_id", json!({ "folderId": id, "filename": "a" }), "needs the parameter `content`"),
        ("read_file_by_id", json!({ "folderId": 7, "filename": "a" }), "as its parameter `folderId`, not 7"),
        (
            "write_file_by_id",
            json!({ "folderId": id, "filename": "a", "content": "x", "encoding": "latin1" }),
            "takes one of \"utf-8\", \"base64\" as its parameter `encoding`, not \"latin1\"",
        ),
        ("read_multiple_files_by_id", json!({ "operations": [] }), "`operations` has 0 elements"),
        (
            "read_multiple_files_by_id",
            json!({ "operations": [{ "folderId": id }] }),
            "needs the parameter `operations[0].filename`",
        ),
    ] {
        let refused = failure(&marcus, name, arguments);
        assert!(refused.kind == ErrorKind::Invalid && refused.message.contains(problem), "{refused}");
    }
    assert!(file_names(&marcus, "my_private").is_empty());
}

#[test]
fn f7_and_f9_unknown_parameters_are_refused_by_name() {
    let marcus = Office::new().tools("marcus");
    for parameter in ["agentId", "teamId", "organizationId", "path"] {
        let refused = failure(&marcus, "list_folders", json!({ "scope": "my_private", parameter: "fiona" }));
        assert_eq!(
            refused.message,
            format!(
                "`list_folders` has no parameter `{parameter}`; it takes `scope`, `filter`, `limit`, `cursor`"
            )
        );
    }
}

#[test]
fn f8_a_claim_to_be_another_agent_is_in_the_audit() {
    let office = Office::new();
    let marcus = office.tools("marcus");
    let claimed = |name: &str, arguments: Value| {
        failure(&marcus, name, arguments);
        let records = office.audit_log.take();
        assert_eq!(records.len(), 1);
        assert_eq!((&*records[0].call, records[0].outcome.as_str()), (name, "failed"));
        records[0].facts.get("security.claimed_agent").map(ToString::to_string)
    };
    let list = |agent: &str| json!({ "scope": "my_private", "agentId": agent });
    assert_eq!(claimed("list_folders", list("fiona")).as_deref(), Some("fiona"));
    assert_eq!(claimed("list_folders", list("marcus")), None, "the caller's own id is only refused");
    assert_eq!(claimed("list_folders", json!({ "scope": "my_private", "teamId": "team-fin" })), None);
    let in_operation = json!({ "operations": [{ "folderId": "x", "filename": "a", "agentId": "fiona" }] });
    assert_eq!(claimed("read_multiple_files_by_id", in_operation).as_deref(), Some("fiona"));
    let long = "x".repeat(10_000);
    assert!(claimed("list_folders", list(&long)).unwrap().len() <= 200);
}

#[test]
fn f11_descriptions_of_tools_that_take_ids_mention_discovery() {
    for tool in folder_tools() {
        assert!(!tool.description.is_empty());
        if tool.name != "list_folders" {
            assert!(tool.description.contains("list_folders"), "{}", tool.name);
        }
    }
}

#[test]
fn f12_every_error_is_one_block_of_text_with_its_code() {
    let marcus = Office::new().tools("marcus");
    let reply = call(&marcus, "read_file_by_id", json!({ "folderId": "x", "filename": "a" }));
    assert!(reply.is_failure());
    match reply.for_model().as_slice() {
        [Block::Text(text)] => assert!(text.ends_with("current folders. [not_found]"), "{text}"),
        blocks => panic!("{blocks:?}"),
    }
}

#[test]
fn f139_and_f140_a_tool_outside_the_list_is_neither_offered_nor_run() {
    let office = Office::new();
    let marcus = office.tools_of("marcus", ["list_folders", "read_file"]);
    assert_eq!(marcus.offered().map(|tool| tool.name).collect::<Vec<_>>(), ["list_folders", "read_file"]);
    for name in ["write_file_by_id", "write_file", "undo"] {
        let refused = failure(&marcus, name, json!({}));
        assert_eq!(refused.kind, ErrorKind::Denied);
        assert_eq!(
            refused.message,
            format!(
                "`{name}` is not enabled for your organization, team or role; your tools are `list_folders`, `read_file`"
            )
        );
    }
    let unknown = failure(&marcus, "launch", json!({}));
    assert_eq!(unknown.message, "you have no tool `launch`; your tools are `list_folders`, `read_file`");
}

#[test]
fn no_folder_tool_describes_the_workspaces() {
    let office = Office::new();
    let with_paths = office.tools("marcus");
    let described = |tools: &Toolbox| -> Vec<&str> {
        let has_sentence = |tool: &&Tool| tools.description(tool).contains("Workspaces: /");
        tools.offered().filter(has_sentence).map(|tool| tool.name).collect()
    };
    assert_eq!(described(&with_paths), ["list_directory"]);
    let without_paths = office.tools_of("marcus", folder_tools().map(|tool| tool.name));
    assert_eq!(described(&without_paths), [""; 0]);
}

#[test]
fn f129_every_tool_is_registered_once_and_found_by_its_name() {
    let names: Vec<_> = TOOLS.iter().map(|tool| tool.name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(names, sorted, "sorted, and no name twice");
    assert!(names.iter().all(|name| crate::tools::tool(name).is_some_and(|tool| tool.name == *name)));
    assert!(crate::tools::tool("no_such_tool").is_none());
}

#[test]
fn f137_a_tool_that_no_whitelist_names_is_neither_offered_nor_run() {
    let office = Office::new();
    let tools = office.tools_of("marcus", ["list_folders"]);
    let offered: Vec<_> = tools.offered().map(|tool| tool.name).collect();
    assert_eq!(offered, ["list_folders"]);
    for tool in TOOLS.iter().filter(|tool| tool.name != "list_folders") {
        let refused = failure(&tools, tool.name, json!({}));
        assert_eq!(refused.kind, ErrorKind::Denied, "{}", tool.name);
    }
}
