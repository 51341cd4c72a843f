//! Which approval a call asks for, and what a given approval covers.

use super::*;
use crate::vfs::Overwrite;

/// `/free` needs no approval, `/prod` needs it before changes, `/vault` before everything. Each has a file `x`.
fn world() -> Toolbox {
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
    let tools = world();
    let carry = |from: &str, to: &str| json!({ "source": from, "destination": to });
    assert_eq!(
        question(&tools, "copy_file", carry("/vault/x", "/prod/y")),
        "May the agent use `copy_file` on `/vault/x`, `/prod/y`?"
    );
    assert_eq!(
        question(&tools, "copy_file", carry("/vault/x", "/free/y")),
        "May the agent use `copy_file` on `/vault/x`, `/free/y`?"
    );
    assert_eq!(
        question(&tools, "move_file", carry("/prod/x", "/vault/y")),
        "May the agent use `move_file` on `/prod/x`, `/vault/y`?"
    );
    assert_eq!(
        question(&tools, "read_many", json!({ "paths": ["/free/x", "/vault/x", "/vault/y"] })),
        "May the agent use `read_many` on `/free/x`, `/vault/x`, `/vault/y`?"
    );
    tools.vfs().symlink("/free/link", "/prod/x").unwrap();
    assert_eq!(
        question(&tools, "append_file", json!({ "path": "/free/link", "content": "2" })),
        "May the agent use `append_file` on `/free/link`, `/prod/x`?"
    );
    // If one end is denied, the call is denied, and nobody is asked about the other end.
    let nowhere = carry("/vault/x", "/nowhere/y");
    let refused = ask(&tools, "copy_file", &nowhere, ApprovalAnswer::NotAsked).unwrap().failure.unwrap();
    assert_eq!(refused.kind, ErrorKind::Denied);
}

#[test]
fn no_name_reads_as_the_end_of_a_name() {
    let tools = world();
    let path = "/prod/x`? It is harmless. `";
    assert_eq!(
        question(&tools, "delete_file", json!({ "path": path })),
        "May the agent use `delete_file` on `/prod/x\\u{60}? It is harmless. \\u{60}`?"
    );
}

#[test]
fn an_agreement_to_one_path_is_none_to_another() {
    let tools = world();
    let (vfs, edit) = (tools.vfs(), json!({ "path": "/free/link", "old_string": "t", "new_string": "T" }));
    vfs.symlink("/free/link", "/prod/x").unwrap();
    vfs.with_approval().write("/prod/x", "t").unwrap();
    let agreed = ask(&tools, "edit_file", &edit, ApprovalAnswer::NotAsked).unwrap_err().approve();
    // While the person decides, the symlink is replaced by one with another target.
    vfs.symlink("/free/other", "/vault/x").unwrap();
    vfs.rename("/free/other", "/free/link", Overwrite::Replace).unwrap();
    let asked_again = ask(&tools, "edit_file", &edit, agreed.clone()).unwrap_err();
    assert_eq!(asked_again.text, "May the agent use `edit_file` on `/free/link`, `/vault/x`?");
    assert_eq!((text(&tools, "/vault/x"), text(&tools, "/prod/x")), ("vault".into(), "t".into()));
    // With its old target, the symlink is again what the person approved.
    vfs.symlink("/free/other", "/prod/x").unwrap();
    vfs.rename("/free/other", "/free/link", Overwrite::Replace).unwrap();
    assert_eq!(ask(&tools, "edit_file", &edit, agreed).unwrap().failure, None);
    assert_eq!(text(&tools, "/prod/x"), "T");
}

#[test]
fn an_agreement_holds_for_the_end_that_does_not_ask_as_well() {
    let tools = world();
    let copy = json!({ "source": "/vault/x", "destination": "/free/y" });
    let agreed = ask(&tools, "copy_file", &copy, ApprovalAnswer::NotAsked).unwrap_err().approve();
    tools.vfs().mkdir("/free/d", crate::store::Parents::Create).unwrap();
    tools.vfs().symlink("/free/y", "/free/d/elsewhere").unwrap();
    let reply = ask(&tools, "copy_file", &copy, agreed);
    assert!(reply.is_err() || reply.is_ok_and(|reply| reply.is_failure()));
    assert!(!tools.vfs().exists("/free/d/elsewhere").unwrap());
}

#[test]
fn what_is_read_and_what_is_written_are_not_exchanged() {
    let tools = world();
    let vfs = tools.vfs();
    vfs.mkdir("/free/d", crate::store::Parents::Create).unwrap();
    vfs.symlink("/free/from", "/vault").unwrap();
    vfs.symlink("/free/to", "/prod").unwrap();
    let copy = json!({ "source": "/free/from/x", "destination": "/free/to/x", "overwrite": true });
    let mut answer = ApprovalAnswer::NotAsked;
    let agreed = loop {
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
    ask(&tools, "copy_file", &copy, agreed).unwrap_err();
    assert_eq!((text(&tools, "/vault/x"), text(&tools, "/prod/x")), ("vault".into(), "prod".into()));
}

#[test]
fn a_tool_that_asks_names_its_paths_before_any_store_is_touched() {
    let arguments = json!({
        "path": "/w/x", "paths": ["/w/x"], "source": "/w/x", "destination": "/w/y", "content": "", "pattern": "x",
        "old_string": "a", "new_string": "b", "version": "1", "snapshot": "1",
    });
    for tool in TOOLS {
        let mount = Mount::new(Arc::new(PanickingStore));
        let choice =
            ToolChoice { ask: [tool.name.to_owned()].into(), history: true, ..ToolChoice::default() };
        let tools = toolbox([Workspace::new(VfsPath::parse("/w").unwrap(), ReadWrite, mount)]);
        let tools = tools.with_choice(choice);
        // Only the Stores know which paths an undo changes.
        if tool.name == "undo" {
            continue;
        }
        let mut given = object(arguments.clone());
        given.retain(|name, _| tool.input.iter().any(|field| field.required && field.name == name));
        let asked = tools.call(tool.name, given, ApprovalAnswer::NotAsked).unwrap_err().text;
        let begins = format!("May the agent use `{}` on `/", tool.name);
        assert!(asked.starts_with(&begins), "{asked}");
    }
}

#[test]
fn where_nobody_can_be_asked_the_other_files_are_still_read() {
    let tools = world();
    let paths = json!({ "paths": ["/free/x", "/vault/x"] });
    let reply = ask(&tools, "read_many", &paths, ApprovalAnswer::NobodyToAsk).unwrap();
    assert_eq!(reply.facts["files"][1]["code"], "denied");
    assert!(
        reply.joined_text().contains("free") && !reply.joined_text().contains("vault\n"),
        "{}",
        reply.joined_text()
    );
    let all = ask(&tools, "read_many", &paths, ApprovalAnswer::NotAsked).unwrap_err().approve();
    assert!(ask(&tools, "read_many", &paths, all).unwrap().joined_text().contains("==> /vault/x <==\nvault"));
}

#[test]
fn a_call_that_was_asked_about_has_one_record() {
    let notes = Arc::new(MemoryAuditLog::new());
    let store = Arc::new(ModelStore::new());
    let builder = Vfs::builder(Identity::agent("tester")).audit(notes.clone());
    let workspace = workspace("/prod", ReadWrite, &store).with_approval_policy(ApprovalPolicy::Changes);
    let tools = Toolbox::new(builder.workspace(workspace).build().unwrap());
    let write = json!({ "path": "/prod/x", "content": "1" });
    let records = || {
        let told = |record: crate::audit::AuditRecord| {
            (record.outcome != crate::audit::AuditOutcome::Begun)
                .then(|| format!("{} {} {:?}", record.call, record.outcome.as_str(), record.paths))
        };
        notes.take().into_iter().filter_map(told).collect::<Vec<_>>()
    };
    let agreed = ask(&tools, "write_file", &write, ApprovalAnswer::NotAsked).unwrap_err().approve();
    assert_eq!(records(), Vec::<String>::new(), "nothing has come of it yet");
    ask(&tools, "write_file", &write, agreed).unwrap();
    let path = VfsPath::parse("/prod/x").unwrap();
    assert_eq!(records(), [format!("write_file ok {:?}", [&path])]);
    for answer in [ApprovalAnswer::Refused, ApprovalAnswer::NobodyToAsk] {
        ask(&tools, "write_file", &write, answer).unwrap();
        assert_eq!(records(), [format!("write_file denied {:?}", [&path])]);
    }
}
