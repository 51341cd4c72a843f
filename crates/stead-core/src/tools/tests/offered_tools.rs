//! Which tools are offered, and what happens to calls of other tools.

use super::*;

fn names(tools: &Toolbox) -> Vec<&'static str> {
    tools.offered().map(|tool| tool.name).collect()
}

fn toolbox_with_scopes(scopes: &[AccessScope]) -> Toolbox {
    let mount = |(index, scope): (usize, &AccessScope)| {
        let prefix = VfsPath::parse(&format!("/w{index}")).unwrap();
        Workspace::new(prefix, *scope, Mount::new(Arc::new(PanickingStore)))
    };
    toolbox(scopes.iter().enumerate().map(mount))
}

const READ_TOOLS: [&str; 6] = ["glob", "grep", "list_directory", "read_file", "read_many", "stat"];
const WRITE_TOOLS: [&str; 7] = [
    "append_file",
    "create_directory",
    "delete_directory",
    "delete_file",
    "edit_file",
    "move_file",
    "write_file",
];

#[test]
fn the_table_is_sorted_and_has_each_name_once() {
    assert!(TOOLS.windows(2).all(|pair| pair[0].name < pair[1].name));
    for tool in TOOLS {
        assert_eq!(super::super::tool(tool.name).unwrap().title, tool.title);
        assert!(tool.capabilities.contains(&Capability::BuiltIn));
    }
}

#[test]
fn the_scopes_decide_what_is_offered() {
    assert_eq!(names(&toolbox_with_scopes(&[])), [""; 0]);
    assert_eq!(names(&toolbox_with_scopes(&[ReadOnly, ReadOnly])), READ_TOOLS);
    assert_eq!(names(&toolbox_with_scopes(&[WriteOnly])), WRITE_TOOLS);
    let mut all: Vec<_> = READ_TOOLS.into_iter().chain(WRITE_TOOLS).chain(["copy_file"]).collect();
    all.sort_unstable();
    for scopes in [&[ReadWrite][..], &[ReadOnly, WriteOnly]] {
        assert_eq!(names(&toolbox_with_scopes(scopes)), all, "{scopes:?}");
    }
}

#[test]
fn read_only_workspaces_offer_no_changing_tool_and_write_only_ones_no_reading_tool() {
    assert!(toolbox_with_scopes(&[ReadOnly]).offered().all(|tool| !tool.is_mutating()));
    assert!(toolbox_with_scopes(&[WriteOnly]).offered().all(|tool| tool.is_mutating()));
    let history = ToolChoice { history: true, ..ToolChoice::default() };
    let names_with_history = |scope| names(&toolbox_with_scopes(&[scope]).with_choice(history.clone()));
    assert_eq!(names_with_history(WriteOnly), WRITE_TOOLS);
    let read_only_tools = ["list_versions", "read_version", "snapshot"];
    assert!(
        read_only_tools.iter().all(|name| names_with_history(ReadOnly).contains(name)),
        "a snapshot changes no file, so it is offered"
    );
    assert!(
        !names_with_history(ReadOnly).contains(&"undo") && !names_with_history(ReadOnly).contains(&"restore")
    );
}

#[test]
fn a_tool_choice_narrows_and_only_it_enables_history() {
    let choice_of = |names: &[&str]| ToolChoice {
        only: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..ToolChoice::default()
    };
    let tools = toolbox_with_scopes(&[ReadOnly]).with_choice(choice_of(&[
        "read_file",
        "write_file",
        "list_versions",
    ]));
    assert_eq!(
        names(&tools),
        ["list_versions", "read_file"],
        "the choice of tools must not offer more than the scopes allow"
    );
    let history = ["list_versions", "read_version", "restore", "snapshot", "undo"];
    assert!(names(&toolbox_with_scopes(&[ReadWrite])).iter().all(|name| !history.contains(name)));
    let tools =
        toolbox_with_scopes(&[ReadWrite]).with_choice(ToolChoice { history: true, ..ToolChoice::default() });
    assert!(history.iter().all(|name| names(&tools).contains(name)));
}

#[test]
fn a_tool_that_is_not_offered_is_refused_and_audited() {
    let audit_log = Arc::new(MemoryAuditLog::new());
    let builder = Vfs::builder(Identity::agent("tester")).audit(audit_log.clone());
    let untouchable = Mount::new(Arc::new(PanickingStore));
    let workspace = Workspace::new(VfsPath::parse("/ro").unwrap(), ReadOnly, untouchable);
    let tools = Toolbox::new(builder.workspace(workspace).build().unwrap());
    let error = failure(&tools, "write_file", json!({ "path": "/ro/x", "content": "" }));
    assert_eq!(error.kind, ErrorKind::Denied);
    assert_eq!(
        error.message,
        "you have no tool `write_file`; your tools are `glob`, `grep`, `list_directory`, `read_file`, `read_many`, \
         `stat`"
    );
    let error = failure(&tools, "rm\u{1b}[31m -rf", json!({}));
    assert!(!error.message.contains('\u{1b}'), "{error}");
    failure(&tools, "read_file", json!({}));
    let records: Vec<_> = audit_log
        .take()
        .iter()
        .map(|record| format!("{} {}", record.call, record.outcome.as_str()))
        .collect();
    assert_eq!(records, ["write_file denied", "rm\\u{1b}[31m -rf denied", "read_file failed"]);
}

#[test]
fn a_call_that_fails_before_it_reaches_the_vfs_is_audited() {
    let audit_log = Arc::new(MemoryAuditLog::new());
    let builder = Vfs::builder(Identity::agent("tester")).audit(audit_log.clone());
    let store = Arc::new(ModelStore::new());
    let tools = Toolbox::new(builder.workspace(workspace("/w", ReadWrite, &store)).build().unwrap());
    let tools =
        tools.with_choice(ToolChoice { ask: ["delete_file".to_owned()].into(), ..ToolChoice::default() });
    let arguments = json!({ "path": "/w/x", "content": "", "if_match": "000000000001", "create_only": true });
    failure(&tools, "write_file", arguments);
    failure(&tools, "write_file", json!({ "path": "/w/x", "content": "§", "encoding": "base64" }));
    failure(&tools, "read_file", json!({ "path": "/w/x", "offset": 1, "byte_offset": 1 }));
    failure(&tools, "no\nsuch", json!({}));
    tools.call("delete_file", object(json!({ "path": "/w/x" })), ApprovalAnswer::NotAsked).unwrap_err();
    tools.call("delete_file", object(json!({ "path": "/w/x" })), ApprovalAnswer::NobodyToAsk).unwrap();
    let records: Vec<_> = audit_log
        .take()
        .iter()
        .map(|record| format!("{} {}", record.call, record.outcome.as_str()))
        .collect();
    assert_eq!(
        records,
        [
            "write_file failed",
            "write_file failed",
            "read_file failed",
            "no\\nsuch denied",
            "delete_file denied"
        ]
    );
}

#[test]
fn invalid_parameters_are_named_and_nothing_runs() {
    let store = Mount::new(Arc::new(PanickingStore));
    let tools = toolbox([Workspace::new(VfsPath::parse("/").unwrap(), ReadWrite, store)]);
    let cases = [
        (
            "read_file",
            json!({}),
            "`read_file` needs the parameter `path`: a path, such as \"/notes/plan.md\"",
        ),
        (
            "read_file",
            json!({ "path": null }),
            "`read_file` takes a path, such as \"/notes/plan.md\" as its parameter `path`, not null",
        ),
        (
            "read_file",
            json!({ "path": 7 }),
            "`read_file` takes a path, such as \"/notes/plan.md\" as its parameter `path`, not 7",
        ),
        (
            "read_file",
            json!({ "path": "/x", "limit": 100_001 }),
            "`read_file` takes a whole number from 1 to 100000 as its parameter `limit`, not 100001",
        ),
        (
            "read_file",
            json!({ "path": "/x", "limit": "ten" }),
            "`read_file` takes a whole number from 1 to 100000 as its parameter `limit`, not \"ten\"",
        ),
        (
            "read_file",
            json!({ "path": "/x", "offset": 1.5 }),
            "`read_file` takes a whole number of at least 1 as its parameter `offset`, not 1.5",
        ),
        (
            "read_file",
            json!({ "path": "/x", "agent": "root" }),
            "`read_file` has no parameter `agent`; it takes `path`, `offset`, `limit`, `byte_offset`, `byte_limit`, `encoding`, `line_numbers`",
        ),
        (
            "read_file",
            json!({ "path": "/x", "encoding": "latin1" }),
            "`read_file` takes one of \"utf-8\", \"base64\" as its parameter `encoding`, not \"latin1\"",
        ),
        (
            "write_file",
            json!({ "path": "/x", "content": ["a"] }),
            "`write_file` takes a string as its parameter `content`, not a list of 1",
        ),
        (
            "write_file",
            json!({ "path": "/x", "content": "", "create_only": "yes" }),
            "`write_file` takes true or false as its parameter `create_only`, not \"yes\"",
        ),
        (
            "write_file",
            json!({ "path": "/x", "content": "", "if_match": "W/1" }),
            "`write_file` takes a version tag, as a read returned it as its parameter `if_match`, not \"W/1\"",
        ),
        (
            "write_file",
            json!({ "path": "/x", "content": "", "if_match": "000000000001", "create_only": true }),
            "pass `if_match` or `create_only`, not both",
        ),
        (
            "write_file",
            json!({ "path": "/x", "content": "§", "encoding": "base64" }),
            "`content` isn't valid base64, but `encoding` is base64",
        ),
        (
            "read_many",
            json!({ "paths": [] }),
            "`read_many` takes a list of 1 to 100 strings as its parameter `paths`, not a list of 0",
        ),
        (
            "read_many",
            json!({ "paths": 7 }),
            "`read_many` takes a list of 1 to 100 strings as its parameter `paths`, not 7",
        ),
    ];
    for (name, arguments, message) in cases {
        let failure = failure(&tools, name, arguments);
        assert_eq!((failure.kind, &*failure.message), (ErrorKind::Invalid, message));
    }
}

#[test]
fn a_person_is_asked_first_where_approval_is_required() {
    let store = Arc::new(ModelStore::new());
    let tools = toolbox([
        workspace("/free", ReadWrite, &store),
        workspace("/asks", ReadWrite, &Arc::new(ModelStore::new()))
            .with_approval_policy(ApprovalPolicy::Changes),
        workspace("/secret", ReadWrite, &Arc::new(ModelStore::new()))
            .with_approval_policy(ApprovalPolicy::Everything),
    ])
    .with_choice(ToolChoice { ask: ["delete_file".to_owned()].into(), ..ToolChoice::default() });
    call_ok(&tools, "write_file", json!({ "path": "/free/x", "content": "1" }));
    let ask = |name: &str, arguments: Value, answer| tools.call(name, object(arguments), answer);

    // A tool can require approval.
    let delete = json!({ "path": "/free/x" });
    let question = ask("delete_file", delete.clone(), ApprovalAnswer::NotAsked).unwrap_err();
    assert_eq!(question.text, "May the agent `tester` use `delete_file` on `/free/x`?");
    for answer in [ApprovalAnswer::NobodyToAsk, ApprovalAnswer::Refused] {
        let denied = ask("delete_file", delete.clone(), answer).unwrap().failure.unwrap();
        assert_eq!(denied.kind, ErrorKind::Denied);
    }
    assert!(tools.vfs().exists("/free/x").unwrap());
    assert_eq!(ask("delete_file", delete, question.approve()).unwrap().failure, None);

    // A Workspace can require approval, also if the path leads there through a symlink.
    let write = json!({ "path": "/asks/x", "content": "1" });
    let question = ask("write_file", write.clone(), ApprovalAnswer::NotAsked).unwrap_err();
    assert_eq!(question.text, "May the agent `tester` use `write_file` on `/asks/x`?\n+1");
    assert_eq!(ask("write_file", write, question.approve()).unwrap().failure, None);
    call_ok(&tools, "read_file", json!({ "path": "/asks/x" }));
    tools.vfs().symlink("/free/link", "/asks/x").unwrap();
    ask("append_file", json!({ "path": "/free/link", "content": "2" }), ApprovalAnswer::NotAsked)
        .unwrap_err();
    ask("copy_file", json!({ "source": "/asks/x", "destination": "/asks/y" }), ApprovalAnswer::NotAsked)
        .unwrap_err();

    // A Workspace can require approval for reading too; a search from above skips it.
    tools.vfs().with_approval().write("/secret/x", "needle").unwrap();
    ask("read_file", json!({ "path": "/secret/x" }), ApprovalAnswer::NotAsked).unwrap_err();
    assert_eq!(call_ok(&tools, "grep", json!({ "pattern": "needle" })).0, "Nothing matches.\n");
    let everything = ApprovalAnswer::Approved(ApprovalGrant::everything());
    let reply = ask("grep", json!({ "pattern": "needle" }), everything).unwrap();
    assert_eq!(reply.joined_text(), "/secret/x:1:needle\n");
}
