//! Which approval a call asks for, and what a given approval covers.

use super::*;
use crate::vfs::Overwrite;

/// `/free` needs no approval, `/prod` needs it before changes, `/vault` before everything. Each has a file `x`.
fn toolbox_with_approvals() -> Toolbox {
    let store = |text: &str| {
        let store = Arc::new(ModelStore::new());
        toolbox([workspace("/", ReadWrite, &store)]).vfs().write("/x", text).unwrap();
        store
    };
    toolbox([
        workspace("/free", ReadWrite, &store("free")),
        workspace("/prod", ReadWrite, &store("prod")).with_approval_policy(ApprovalPolicy::Changes),
        workspace("/vault", ReadWrite, &store("vault")).with_approval_policy(ApprovalPolicy::Everything),
    ])
}

fn ask(
    tools: &Toolbox,
    name: &str,
    arguments: &Value,
    answer: ApprovalAnswer,
) -> Result<Reply, ApprovalQuestion> {
    tools.call(name, object(arguments.clone()), answer)
}

fn question(tools: &Toolbox, name: &str, arguments: Value) -> String {
    ask(tools, name, &arguments, ApprovalAnswer::NotAsked).unwrap_err().text
}

fn text(tools: &Toolbox, path: &str) -> String {
    String::from_utf8(tools.vfs().with_approval().read(path).unwrap().bytes).unwrap()
}

#[test]
fn a_question_names_every_path() {
    let tools = toolbox_with_approvals();
    let transfer = |from: &str, to: &str| json!({ "source": from, "destination": to });
    assert_eq!(
        question(&tools, "copy_file", transfer("/vault/x", "/prod/y")),
        "May the agent `tester` use `copy_file` on `/vault/x`, `/prod/y`?"
    );
    assert_eq!(
        question(&tools, "copy_file", transfer("/vault/x", "/free/y")),
        "May the agent `tester` use `copy_file` on `/vault/x`, `/free/y`?"
    );
    assert_eq!(
        question(&tools, "move_file", transfer("/prod/x", "/vault/y")),
        "May the agent `tester` use `move_file` on `/prod/x`, `/vault/y`?"
    );
    assert_eq!(
        question(&tools, "read_many", json!({ "paths": ["/free/x", "/vault/x", "/vault/y"] })),
        "May the agent `tester` use `read_many` on `/free/x`, `/vault/x`, `/vault/y`?"
    );
    tools.vfs().symlink("/free/link", "/prod/x").unwrap();
    assert_eq!(
        question(&tools, "append_file", json!({ "path": "/free/link", "content": "2" })),
        "May the agent `tester` use `append_file` on `/free/link`, `/prod/x`?\n+2"
    );
    // If one end is denied, the call is denied, and nobody is asked about the other end.
    let arguments = transfer("/vault/x", "/nowhere/y");
    let error = ask(&tools, "copy_file", &arguments, ApprovalAnswer::NotAsked).unwrap().failure.unwrap();
    assert_eq!(error.kind, ErrorKind::Denied);
}

#[test]
fn a_backtick_in_a_name_is_escaped_in_the_question() {
    let tools = toolbox_with_approvals();
    let path = "/prod/x`? It is harmless. `";
    assert_eq!(
        question(&tools, "delete_file", json!({ "path": path })),
        "May the agent `tester` use `delete_file` on `/prod/x\\u{60}? It is harmless. \\u{60}`?"
    );
}

#[test]
fn an_approval_for_one_path_does_not_cover_another() {
    let tools = toolbox_with_approvals();
    let (vfs, edit) = (tools.vfs(), json!({ "path": "/free/link", "old_string": "t", "new_string": "T" }));
    vfs.symlink("/free/link", "/prod/x").unwrap();
    vfs.with_approval().write("/prod/x", "t").unwrap();
    let approval = ask(&tools, "edit_file", &edit, ApprovalAnswer::NotAsked).unwrap_err().approve();
    // While the person decides, the symlink is replaced by one with another target.
    vfs.symlink("/free/other", "/vault/x").unwrap();
    vfs.rename("/free/other", "/free/link", Overwrite::Replace).unwrap();
    let question = ask(&tools, "edit_file", &edit, approval.clone()).unwrap_err();
    assert_eq!(question.text, "May the agent `tester` use `edit_file` on `/free/link`, `/vault/x`?\n-t\n+T");
    assert_eq!((text(&tools, "/vault/x"), text(&tools, "/prod/x")), ("vault".into(), "t".into()));
    // With its old target, the symlink is again what the person approved.
    vfs.symlink("/free/other", "/prod/x").unwrap();
    vfs.rename("/free/other", "/free/link", Overwrite::Replace).unwrap();
    assert_eq!(ask(&tools, "edit_file", &edit, approval).unwrap().failure, None);
    assert_eq!(text(&tools, "/prod/x"), "T");
}

#[test]
fn an_approval_also_binds_the_path_that_needs_none() {
    let tools = toolbox_with_approvals();
    let copy = json!({ "source": "/vault/x", "destination": "/free/y" });
    let approval = ask(&tools, "copy_file", &copy, ApprovalAnswer::NotAsked).unwrap_err().approve();
    tools.vfs().mkdir("/free/d", crate::store::Parents::Create).unwrap();
    tools.vfs().symlink("/free/y", "/free/d/elsewhere").unwrap();
    let reply = ask(&tools, "copy_file", &copy, approval);
    assert!(reply.is_err() || reply.is_ok_and(|reply| reply.is_failure()));
    assert!(!tools.vfs().exists("/free/d/elsewhere").unwrap());
}

#[test]
fn an_approval_does_not_allow_exchanging_source_and_destination() {
    let tools = toolbox_with_approvals();
    let vfs = tools.vfs();
    vfs.mkdir("/free/d", crate::store::Parents::Create).unwrap();
    vfs.symlink("/free/from", "/vault").unwrap();
    vfs.symlink("/free/to", "/prod").unwrap();
    let copy = json!({ "source": "/free/from/x", "destination": "/free/to/x", "overwrite": true });
    let mut answer = ApprovalAnswer::NotAsked;
    let approval = loop {
        match ask(&tools, "copy_file", &copy, answer) {
            Err(question) if question.text.contains("`/vault/x`") && question.text.contains("`/prod/x`") => {
                break question.approve();
            }
            Err(question) => answer = question.approve(),
            Ok(reply) => panic!("{reply:?}"),
        }
    };
    for (link, target) in [("/free/from", "/prod"), ("/free/to", "/vault")] {
        vfs.remove_file(link, crate::vfs::RemoveOptions::default()).unwrap();
        vfs.symlink(link, target).unwrap();
    }
    ask(&tools, "copy_file", &copy, approval).unwrap_err();
    assert_eq!((text(&tools, "/vault/x"), text(&tools, "/prod/x")), ("vault".into(), "prod".into()));
}

#[test]
fn an_approval_question_names_its_paths_before_any_store_is_touched() {
    let arguments = json!({
        "path": "/w/x", "paths": ["/w/x"], "source": "/w/x", "destination": "/w/y", "content": "", "pattern": "x",
        "old_string": "a", "new_string": "b", "version": "1", "snapshot": "1",
        "action": "list",
    });
    // The folder tools and the tools for a State have tests of their own.
    let has_own_test =
        |tool: &&Tool| matches!(tool.offered, OfferedWhen::InOrganization | OfferedWhen::WithState);
    let tools = TOOLS.into_iter().filter(|tool| !has_own_test(tool));
    for tool in tools {
        let mount = Mount::new(Arc::new(PanickingStore));
        let choice =
            ToolChoice { ask: [tool.name.to_owned()].into(), history: true, ..ToolChoice::default() };
        let mut workspace = Workspace::new(VfsPath::parse("/w").unwrap(), ReadWrite, mount);
        if tool.offered == OfferedWhen::WithManaged {
            workspace = workspace.with_managed(crate::managed::Ttl::default());
        }
        let tools = toolbox([workspace]).with_choice(choice);
        // Only the Stores know which paths an undo changes.
        if tool.name == "undo" {
            continue;
        }
        let mut tool_arguments = object(arguments.clone());
        tool_arguments.retain(|name, _| tool.input.iter().any(|field| field.required && field.name == name));
        let question_text = tools.call(tool.name, tool_arguments, ApprovalAnswer::NotAsked).unwrap_err().text;
        let prefix = format!("May the agent `tester` use `{}` on `/", tool.name);
        assert!(question_text.starts_with(&prefix), "{question_text}");
    }
}

#[test]
fn if_nobody_can_be_asked_the_other_files_are_still_read() {
    let tools = toolbox_with_approvals();
    let paths = json!({ "paths": ["/free/x", "/vault/x"] });
    let reply = ask(&tools, "read_many", &paths, ApprovalAnswer::NobodyToAsk).unwrap();
    assert_eq!(reply.facts["files"][1]["code"], "denied");
    assert!(
        reply.joined_text().contains("free") && !reply.joined_text().contains("vault\n"),
        "{}",
        reply.joined_text()
    );
    let approval = ask(&tools, "read_many", &paths, ApprovalAnswer::NotAsked).unwrap_err().approve();
    assert!(
        ask(&tools, "read_many", &paths, approval).unwrap().joined_text().contains("==> /vault/x <==\nvault")
    );
}

#[test]
fn a_call_that_needed_approval_has_one_audit_record() {
    let audit_log = Arc::new(MemoryAuditLog::new());
    let store = Arc::new(ModelStore::new());
    let builder = Vfs::builder(Identity::agent("tester")).audit(audit_log.clone());
    let workspace = workspace("/prod", ReadWrite, &store).with_approval_policy(ApprovalPolicy::Changes);
    let tools = Toolbox::new(builder.workspace(workspace).build().unwrap());
    let write = json!({ "path": "/prod/x", "content": "1" });
    let records = || {
        let summary = |record: crate::audit::AuditRecord| {
            (record.outcome != crate::audit::AuditOutcome::Begun)
                .then(|| format!("{} {} {:?}", record.call, record.outcome.as_str(), record.paths))
        };
        audit_log.take().into_iter().filter_map(summary).collect::<Vec<_>>()
    };
    let approval = ask(&tools, "write_file", &write, ApprovalAnswer::NotAsked).unwrap_err().approve();
    assert_eq!(records(), Vec::<String>::new(), "a call that waits for approval must not be recorded");
    ask(&tools, "write_file", &write, approval).unwrap();
    let path = VfsPath::parse("/prod/x").unwrap();
    assert_eq!(records(), [format!("write_file ok {:?}", [&path])]);
    for answer in [ApprovalAnswer::Refused, ApprovalAnswer::NobodyToAsk] {
        ask(&tools, "write_file", &write, answer).unwrap();
        assert_eq!(records(), [format!("write_file denied {:?}", [&path])]);
    }
}
