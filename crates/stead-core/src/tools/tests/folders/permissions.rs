//! Rights: those of the Workspaces that the records give the caller, whatever the scope a folder was found in.

use super::*;

/// What a caller may do in a folder that it finds in a scope: read, write, delete.
fn rights(office: &Office, agent: &str, scope: &str, folder: &str) -> [bool; 3] {
    let tools = office.tools(agent);
    let id = folder_id(&tools, scope, folder);
    office.put(folder, "probe.md", "x");
    let succeeds = |name: &str, arguments: Value| {
        let reply = call(&tools, name, arguments);
        assert!(reply.failure.as_ref().is_none_or(|failure| failure.kind == ErrorKind::Denied), "{reply:?}");
        !reply.is_failure()
    };
    let file = json!({ "folderId": id, "filename": "probe.md" });
    let write = json!({ "folderId": id, "filename": "probe.md", "content": "y" });
    [
        succeeds("read_file_by_id", file.clone()),
        succeeds("write_file_by_id", write),
        succeeds("delete_file_by_id", file),
    ]
}

#[test]
fn f73_to_f82_and_f85_the_owner_and_the_team_change_what_others_only_read() {
    let office = Office::new();
    let (all, read) = ([true, true, true], [true, false, false]);
    for (agent, scope, folder, expected) in [
        ("marcus", "my_private", "marcus/private", all),
        ("marcus", "my_shared", "marcus/shared", all),
        ("marcus", "team_private", "team-hr/private", all),
        ("marcus", "team_shared", "team-hr/shared", all),
        ("marcus", "org_shared", "team-hr/shared", all),
        ("marcus", "org_shared", "team-fin/shared", read),
        ("marcus", "org_shared", "catalyst/shared", read),
        ("elena", "org_shared", "marcus/shared", read),
        ("elena", "org_shared", "team-hr/shared", read),
        ("solo", "org_shared", "team-lib/shared", read),
    ] {
        assert_eq!(rights(&office, agent, scope, folder), expected, "{agent} in {folder} by {scope}");
    }
}

#[test]
fn f86_f87_and_f92_a_refusal_names_the_folder_the_team_and_where_the_caller_may_write() {
    let office = Office::new();
    for (agent, team, scopes) in [
        ("marcus", "HR", "my_private, my_shared, team_private, team_shared"),
        ("solo", "none", "my_private, my_shared"),
    ] {
        let tools = office.tools(agent);
        let id = folder_id(&tools, "org_shared", "team-fin/shared");
        let refused =
            failure(&tools, "write_file_by_id", json!({ "folderId": id, "filename": "a", "content": "x" }));
        assert_eq!(refused.kind, ErrorKind::Denied);
        assert_eq!(
            refused.message,
            format!(
                "You don't have permission to write to folder 'Finance Team - Shared'. Your team: {team}. Scopes you \
                 can write to: {scopes}"
            )
        );
    }
}

#[test]
fn f88_and_f121_a_refusal_is_the_same_whether_or_not_the_file_exists() {
    let office = Office::new();
    office.put("team-fin/shared", "there.md", "x");
    office.put("team-fin/shared", "directory/a.md", "x");
    let marcus = office.tools("marcus");
    let id = folder_id(&marcus, "org_shared", "team-fin/shared");
    let own = folder_id(&marcus, "my_private", "marcus/private");
    write(&marcus, &own, "mine.md", "x");
    let refusals = |name: &str, arguments: &dyn Fn(&str) -> Value| {
        let names = ["there.md", "missing.md", "directory", "a/b/c/d/too-deep.md"];
        let refusals = names.map(|file| failure(&marcus, name, arguments(file)));
        assert!(refusals.iter().all(|refusal| *refusal == refusals[0]), "{name}: {refusals:?}");
        assert_eq!(refusals[0].kind, ErrorKind::Denied, "{name}");
        assert!(refusals[0].message.contains("'Finance Team - Shared'. Your team: HR"), "{}", refusals[0]);
    };
    let huge = "x".repeat((5 << 20) + 1);
    refusals("write_file_by_id", &|file| json!({ "folderId": id, "filename": file, "content": "x" }));
    refusals("write_file_by_id", &|file| json!({ "folderId": id, "filename": file, "content": huge }));
    refusals("append_to_file_by_id", &|file| json!({ "folderId": id, "filename": file, "content": "x" }));
    refusals("delete_file_by_id", &|file| json!({ "folderId": id, "filename": file }));
    refusals(
        "copy_file_by_id",
        &|file| json!({ "sourceFolderId": own, "sourceFilename": "mine.md", "destFolderId": id, "destFilename": file }),
    );
    refusals(
        "move_file_by_id",
        &|file| json!({ "sourceFolderId": own, "sourceFilename": "mine.md", "destFolderId": id, "destFilename": file }),
    );
    refusals(
        "move_file_by_id",
        &|file| json!({ "sourceFolderId": id, "sourceFilename": file, "destFolderId": own, "destFilename": "x" }),
    );
    // Nor does it matter whether the other side exists.
    let from_nothing =
        json!({ "sourceFolderId": own, "sourceFilename": "no.md", "destFolderId": id, "destFilename": "x" });
    assert_eq!(failure(&marcus, "copy_file_by_id", from_nothing).kind, ErrorKind::Denied);
    assert_eq!(office.content("team-fin/shared", "there.md").unwrap(), b"x");
    assert_eq!(office.content("marcus/private", "mine.md").unwrap(), b"x");
}

#[test]
fn f150_path_tools_and_folder_tools_show_the_same_file() {
    let office = Office::new();
    let marcus = office.tools("marcus");
    let id = folder_id(&marcus, "my_shared", "marcus/shared");
    write(&marcus, &id, "reports/a.md", "by id");
    let path = "/workspaces/marcus/shared/reports/a.md";
    assert_eq!(call_ok(&marcus, "read_file", json!({ "path": path })).0, "by id");
    call_ok(&marcus, "write_file", json!({ "path": path, "content": "by path" }));
    assert_eq!(read(&marcus, &id, "reports/a.md").1["content"], "by path");
    let outside = "/workspaces/marcus/private/../../fiona/private/x";
    assert_eq!(failure(&marcus, "read_file", json!({ "path": outside })).kind, ErrorKind::Denied);
}

#[test]
fn a_protected_or_hidden_name_stays_so_for_folder_tools() {
    let office = Office::new();
    office.put("marcus/private", ".env", "secret");
    let marcus = office.tools("marcus");
    assert!(file_names(&marcus, "my_private").is_empty());
    let id = folder_id(&marcus, "my_private", "marcus/private");
    let missing = failure(&marcus, "read_file_by_id", json!({ "folderId": id, "filename": ".env" }));
    assert_eq!(missing.kind, ErrorKind::NotFound);
    assert!(missing.message.ends_with("Available files: []"), "{missing}");
    for (name, arguments) in [
        ("delete_file_by_id", json!({ "folderId": id, "filename": ".env" })),
        ("write_file_by_id", json!({ "folderId": id, "filename": ".env", "content": "" })),
        ("write_file_by_id", json!({ "folderId": id, "filename": ".git/config", "content": "" })),
    ] {
        assert_eq!(failure(&marcus, name, arguments).kind, ErrorKind::Denied, "{name}");
    }
    assert_eq!(office.content("marcus/private", ".env").unwrap(), b"secret");
}

#[test]
fn a_person_is_asked_once_about_everything_that_a_call_does() {
    let office = Office::new();
    office.put("marcus/private", "a.md", "x");
    let marcus = office.tools("marcus");
    let id = folder_id(&marcus, "my_private", "marcus/private");
    let only = Some(TOOLS.iter().map(|tool| tool.name.to_owned()).collect());
    let ask = ["delete_file_by_id".to_owned(), "list_folders".to_owned()].into();
    let marcus = marcus.with_choice(ToolChoice { only, ask, ..ToolChoice::default() });
    office.audit_log.take();
    for (name, arguments) in [
        ("list_folders", json!({ "scope": "org_shared" })),
        ("delete_file_by_id", json!({ "folderId": id, "filename": "a.md" })),
    ] {
        let question = marcus.call(name, object(arguments.clone()), ApprovalAnswer::NotAsked).unwrap_err();
        assert!(office.audit_log.take().is_empty(), "the call hasn't ended");
        let reply = marcus.call(name, object(arguments), question.approve()).unwrap();
        assert_eq!(reply.failure, None, "{name}");
        assert_eq!(office.audit_log.take().len(), 1, "{name}");
    }
    assert_eq!(office.content("marcus/private", "a.md"), None);
}

#[test]
fn an_approval_question_names_the_files_before_any_store_is_touched() {
    let office = Office::new();
    let marcus = office.tools("marcus");
    let id = folder_id(&marcus, "my_private", "marcus/private");
    let subfolder = call_json(&marcus, "create_folder", json!({ "scope": "my_private", "folderName": "d" }));
    let arguments = json!({
        "scope": "my_private", "filename": "a", "content": "x", "folderName": "new", "newName": "new",
        "sourceFolderId": id, "sourceFilename": "a", "destFolderId": id, "destFilename": "b",
        "operations": [{ "folderId": id, "filename": "a" }],
    });
    for tool in folder_tools() {
        let names = TOOLS.into_iter().map(|tool| tool.name);
        let marcus = office.tools_over(Arc::new(PanickingStore), "marcus", names.clone());
        let (only, ask) = (Some(names.map(str::to_owned).collect()), [tool.name.to_owned()].into());
        let marcus = marcus.with_choice(ToolChoice { only, ask, ..ToolChoice::default() });
        let mut arguments = object(arguments.clone());
        let folder_id =
            if tool.name.contains("folder_by_id") { subfolder["folderId"].clone() } else { json!(id) };
        arguments.insert("folderId".to_owned(), folder_id);
        if tool.name == "write_multiple_files_by_id" {
            arguments["operations"][0]["content"] = "x".into();
        }
        arguments.retain(|name, _| tool.input.iter().any(|field| field.required && field.name == name));
        let question = marcus.call(tool.name, arguments, ApprovalAnswer::NotAsked).unwrap_err().text;
        let start = format!("May the agent `marcus` use `{}` on `/workspaces/marcus/private", tool.name);
        assert!(question.starts_with(&start), "{question}");
    }
}
