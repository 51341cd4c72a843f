//! Each tool's hints match what the tool does.

use std::collections::BTreeMap;

use super::schemas::keeps_to;
use super::*;
use crate::vfs::WalkQuery;

/// Calls of each tool that succeed at first, on a Workspace with `a`, `b` and `d/e`. The history tools are tested
/// elsewhere, over a Store that has history.
fn examples() -> Vec<(&'static str, Value)> {
    vec![
        ("append_file", json!({ "path": "/rw/a", "content": "more" })),
        ("append_file", json!({ "path": "/rw/new", "content": "more" })),
        ("copy_file", json!({ "source": "/rw/a", "destination": "/rw/copy" })),
        ("copy_file", json!({ "source": "/rw/a", "destination": "/rw/b", "overwrite": true })),
        ("copy_file", json!({ "source": "/rw/d", "destination": "/rw/copy" })),
        ("create_directory", json!({ "path": "/rw/x/y" })),
        ("create_directory", json!({ "path": "/rw/d" })),
        ("delete_directory", json!({ "path": "/rw/d", "recursive": true })),
        ("delete_file", json!({ "path": "/rw/a" })),
        ("edit_file", json!({ "path": "/rw/a", "old_string": "one", "new_string": "xone" })),
        ("glob", json!({ "pattern": "**" })),
        ("grep", json!({ "pattern": "one", "context": 1 })),
        ("list_directory", json!({ "path": "/rw" })),
        ("move_file", json!({ "source": "/rw/a", "destination": "/rw/b", "overwrite": true })),
        ("move_file", json!({ "source": "/rw/d", "destination": "/rw/moved" })),
        ("read_file", json!({ "path": "/rw/a" })),
        ("read_many", json!({ "paths": ["/rw/a", "/rw/none", "/rw/b"] })),
        ("stat", json!({ "path": "/rw/a" })),
        ("write_file", json!({ "path": "/rw/a", "content": "other" })),
        ("write_file", json!({ "path": "/rw/new", "content": "other", "create_only": true })),
    ]
}

/// Every path, with its content if it is a file.
type State = BTreeMap<String, Option<Vec<u8>>>;

fn state(tools: &Toolbox) -> State {
    let vfs = tools.vfs();
    let walked = vfs.walk("/rw", &WalkQuery::default()).unwrap();
    let content = |path: &str| vfs.is_file(path).unwrap().then(|| vfs.read(path).unwrap().bytes);
    walked.entries.iter().map(|found| (found.path.clone(), content(&found.path))).collect()
}

#[test]
fn each_tool_does_what_its_hints_say() {
    let mut shown: Vec<(&str, bool, bool, bool)> = Vec::new();
    for (name, arguments) in examples() {
        let tools = three();
        tools.vfs().write("/rw/a", "one\ntwo\n").unwrap();
        tools.vfs().write("/rw/b", "three\n").unwrap();
        tools.vfs().write("/rw/d/e", "four\n").unwrap();
        let before = state(&tools);
        let (_, facts) = done(&tools, name, arguments.clone());
        keeps_to(&facts.into(), &tool(name).unwrap().output_schema().into(), name);
        let once = state(&tools);
        // The second call may fail; only its effect counts.
        let _ = call(&tools, name, arguments.clone());
        let twice = state(&tools);

        let hints = tool(name).unwrap().hints;
        let changed = once != before;
        let lost = before.iter().any(|(path, content)| match (content, once.get(path)) {
            (_, None) => true,
            // An append keeps the old content as a prefix.
            (Some(before), Some(Some(after))) => !after.starts_with(before),
            (content, Some(after)) => content != after,
        });
        assert!(!(hints.read_only && changed), "{name} {arguments} changes something");
        assert!(!lost || hints.destructive, "{name} {arguments} destroys something");
        assert!(!(hints.idempotent && once != twice), "{name} {arguments} does more the second time");
        assert!(!hints.open_world);
        shown.push((name, changed, lost, once != twice));
    }
    // No hint is stricter than necessary.
    for tool in TOOLS.iter().filter(|tool| tool.offered == OfferedWhen::Always) {
        let of_tool = || shown.iter().filter(|(name, ..)| *name == tool.name);
        assert!(of_tool().count() > 0, "{} has no example", tool.name);
        assert_eq!(of_tool().any(|(_, changed, ..)| *changed), !tool.hints.read_only, "{}", tool.name);
        assert_eq!(of_tool().any(|(.., lost, _)| *lost), tool.hints.destructive, "{}", tool.name);
        assert_eq!(of_tool().any(|(.., more)| *more), !tool.hints.idempotent, "{}", tool.name);
    }
}

#[test]
fn every_change_is_one_operation_with_the_tools_name() {
    let notes = Arc::new(MemoryAuditLog::new());
    for (name, arguments) in examples().into_iter().filter(|(name, _)| tool(name).unwrap().is_mutating()) {
        let store = Arc::new(ModelStore::new());
        let builder = Vfs::builder(Identity::agent("tester")).audit(notes.clone());
        let tools = Toolbox::new(builder.workspace(workspace("/rw", ReadWrite, &store)).build().unwrap());
        tools.vfs().write("/rw/a", "one\ntwo\n").unwrap();
        tools.vfs().write("/rw/b", "three\n").unwrap();
        tools.vfs().write("/rw/d/e", "four\n").unwrap();
        notes.take();
        let (_, facts) = done(&tools, name, arguments);
        let records = notes.take();
        let ended: Vec<_> =
            records.iter().filter(|record| record.outcome != crate::audit::AuditOutcome::Begun).collect();
        assert_eq!(ended.len(), 1, "{name}");
        assert_eq!(ended[0].call, name);
        assert_eq!(ended[0].operation.unwrap().to_string(), facts["operation"].as_str().unwrap(), "{name}");
    }
}
