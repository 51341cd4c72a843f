//! Which tools are offered, and what happens to calls of other tools.

use super::*;

fn names(tools: &Toolbox) -> Vec<&'static str> {
    tools.offered().map(|tool| tool.name).collect()
}

fn of(scopes: &[AccessScope]) -> Toolbox {
    let mount = |(index, scope): (usize, &AccessScope)| {
        let prefix = VfsPath::parse(&format!("/w{index}")).unwrap();
        Workspace::new(prefix, *scope, Mount::new(Arc::new(PanickingStore)))
    };
    toolbox(scopes.iter().enumerate().map(mount))
}

const READING: [&str; 6] = ["glob", "grep", "list_directory", "read_file", "read_many", "stat"];
const WRITING: [&str; 7] = [
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
    assert_eq!(names(&of(&[])), [""; 0]);
    assert_eq!(names(&of(&[ReadOnly, ReadOnly])), READING);
    assert_eq!(names(&of(&[WriteOnly])), WRITING);
    let mut all: Vec<_> = READING.into_iter().chain(WRITING).chain(["copy_file"]).collect();
    all.sort_unstable();
    for scopes in [&[ReadWrite][..], &[ReadOnly, WriteOnly]] {
        assert_eq!(names(&of(scopes)), all, "{scopes:?}");
    }
}

#[test]
fn read_only_workspaces_offer_nothing_that_changes_and_write_only_ones_nothing_that_reads() {
    assert!(of(&[ReadOnly]).offered().all(|tool| !tool.is_mutating()));
    assert!(of(&[WriteOnly]).offered().all(|tool| tool.is_mutating()));
    let history = ToolChoice { history: true, ..ToolChoice::default() };
    let of = |scope| names(&of(&[scope]).with_choice(history.clone()));
    assert_eq!(of(WriteOnly), WRITING);
    let looking = ["list_versions", "read_version", "snapshot"];
    assert!(looking.iter().all(|name| of(ReadOnly).contains(name)), "a snapshot changes no file");
    assert!(!of(ReadOnly).contains(&"undo") && !of(ReadOnly).contains(&"restore"));
}

#[test]
fn a_choice_narrows_and_only_a_choice_gives_history() {
    let only = |names: &[&str]| ToolChoice {
        only: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..ToolChoice::default()
    };
    let tools = of(&[ReadOnly]).with_choice(only(&["read_file", "write_file", "list_versions"]));
    assert_eq!(names(&tools), ["list_versions", "read_file"], "a choice can't give what the scopes don't");
    let history = ["list_versions", "read_version", "restore", "snapshot", "undo"];
    assert!(names(&of(&[ReadWrite])).iter().all(|name| !history.contains(name)));
    let tools = of(&[ReadWrite]).with_choice(ToolChoice { history: true, ..ToolChoice::default() });
    assert!(history.iter().all(|name| names(&tools).contains(name)));
}

#[test]
fn what_is_not_offered_is_refused_and_written_down() {
    let notes = Arc::new(MemoryAuditLog::new());
    let builder = Vfs::builder(Identity::agent("tester")).audit(notes.clone());
    let untouchable = Mount::new(Arc::new(PanickingStore));
    let workspace = Workspace::new(VfsPath::parse("/ro").unwrap(), ReadOnly, untouchable);
    let tools = Toolbox::new(builder.workspace(workspace).build().unwrap());
    let refused = failure(&tools, "write_file", json!({ "path": "/ro/x", "content": "" }));
    assert_eq!(refused.kind, ErrorKind::Denied);
    assert_eq!(
        refused.message,
        "you have no tool `write_file`; your tools are `glob`, `grep`, `list_directory`, `read_file`, `read_many`, \
         `stat`"
    );
    let unknown = failure(&tools, "rm\u{1b}[31m -rf", json!({}));
    assert!(!unknown.message.contains('\u{1b}'), "{unknown}");
    failure(&tools, "read_file", json!({}));
    let records: Vec<_> =
        notes.take().iter().map(|record| format!("{} {}", record.call, record.outcome.as_str())).collect();
    assert_eq!(records, ["write_file denied", "rm\\u{1b}[31m -rf denied", "read_file failed"]);
}

#[test]
fn what_never_comes_to_the_door_is_on_record_as_well() {
    let notes = Arc::new(MemoryAuditLog::new());
    let builder = Vfs::builder(Identity::agent("tester")).audit(notes.clone());
    let store = Arc::new(ModelStore::new());
    let tools = Toolbox::new(builder.workspace(workspace("/w", ReadWrite, &store)).build().unwrap());
    let tools =
        tools.with_choice(ToolChoice { ask: ["delete_file".to_owned()].into(), ..ToolChoice::default() });
    let both = json!({ "path": "/w/x", "content": "", "if_match": "000000000001", "create_only": true });
    failure(&tools, "write_file", both);
    failure(&tools, "write_file", json!({ "path": "/w/x", "content": "§", "encoding": "base64" }));
    failure(&tools, "read_file", json!({ "path": "/w/x", "offset": 1, "byte_offset": 1 }));
    failure(&tools, "no\nsuch", json!({}));
    tools.call("delete_file", object(json!({ "path": "/w/x" })), ApprovalAnswer::NotAsked).unwrap_err();
    tools.call("delete_file", object(json!({ "path": "/w/x" })), ApprovalAnswer::NobodyToAsk).unwrap();
    let records: Vec<_> =
        notes.take().iter().map(|record| format!("{} {}", record.call, record.outcome.as_str())).collect();
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
fn parameters_that_do_not_fit_are_named_and_nothing_runs() {
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
            "`read_file` has no parameter `agent`; it takes `path`, `offset`, `limit`, `byte_offset`, `byte_limit`, `encoding`",
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
            json!({ "paths": "/x" }),
            "`read_many` takes a list of 1 to 100 strings as its parameter `paths`, not \"/x\"",
        ),
    ];
    for (name, arguments, message) in cases {
        let failure = failure(&tools, name, arguments);
        assert_eq!((failure.kind, &*failure.message), (ErrorKind::Invalid, message));
    }
}

#[test]
fn a_person_is_asked_first_where_that_is_set() {
    let store = Arc::new(ModelStore::new());
    let tools = toolbox([
        workspace("/free", ReadWrite, &store),
        workspace("/asks", ReadWrite, &Arc::new(ModelStore::new()))
            .with_approval_policy(ApprovalPolicy::Changes),
        workspace("/secret", ReadWrite, &Arc::new(ModelStore::new()))
            .with_approval_policy(ApprovalPolicy::Everything),
    ])
    .with_choice(ToolChoice { ask: ["delete_file".to_owned()].into(), ..ToolChoice::default() });
    done(&tools, "write_file", json!({ "path": "/free/x", "content": "1" }));
    let ask = |name: &str, arguments: Value, answer| tools.call(name, object(arguments), answer);

    // A tool can require approval.
    let delete = json!({ "path": "/free/x" });
    let question = ask("delete_file", delete.clone(), ApprovalAnswer::NotAsked).unwrap_err();
    assert_eq!(question.text, "May the agent use `delete_file` on `/free/x`?");
    for answer in [ApprovalAnswer::NobodyToAsk, ApprovalAnswer::Refused] {
        let denied = ask("delete_file", delete.clone(), answer).unwrap().failure.unwrap();
        assert_eq!(denied.kind, ErrorKind::Denied);
    }
    assert!(tools.vfs().exists("/free/x").unwrap());
    assert_eq!(ask("delete_file", delete, question.approve()).unwrap().failure, None);

    // A Workspace can require approval, also if the path leads there through a symlink.
    let write = json!({ "path": "/asks/x", "content": "1" });
    let question = ask("write_file", write.clone(), ApprovalAnswer::NotAsked).unwrap_err();
    assert_eq!(question.text, "May the agent use `write_file` on `/asks/x`?");
    assert_eq!(ask("write_file", write, question.approve()).unwrap().failure, None);
    done(&tools, "read_file", json!({ "path": "/asks/x" }));
    tools.vfs().symlink("/free/link", "/asks/x").unwrap();
    ask("append_file", json!({ "path": "/free/link", "content": "2" }), ApprovalAnswer::NotAsked)
        .unwrap_err();
    ask("copy_file", json!({ "source": "/asks/x", "destination": "/asks/y" }), ApprovalAnswer::NotAsked)
        .unwrap_err();

    // A Workspace can require approval for reading too; a search from above skips it.
    tools.vfs().with_approval().write("/secret/x", "needle").unwrap();
    ask("read_file", json!({ "path": "/secret/x" }), ApprovalAnswer::NotAsked).unwrap_err();
    assert_eq!(done(&tools, "grep", json!({ "pattern": "needle" })).0, "Nothing matches.\n");
    let everything = ApprovalAnswer::Approved(ApprovalGrant::everything());
    let found = ask("grep", json!({ "pattern": "needle" }), everything).unwrap();
    assert_eq!(found.joined_text(), "/secret/x:1:needle\n");
}
