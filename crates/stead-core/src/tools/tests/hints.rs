//! Each tool's hints match what the tool does.

use std::collections::BTreeMap;

use super::schemas::assert_matches_schema;
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
    let walk = vfs.walk("/rw", &WalkQuery::default()).unwrap();
    let content = |path: &str| vfs.is_file(path).unwrap().then(|| vfs.read(path).unwrap().bytes);
    walk.entries.iter().map(|entry| (entry.path.clone(), content(&entry.path))).collect()
}

#[test]
fn each_tool_does_what_its_hints_say() {
    let mut effects: Vec<(&str, bool, bool, bool)> = Vec::new();
    for (name, arguments) in examples() {
        let tools = toolbox_with_all_scopes();
        tools.vfs().write("/rw/a", "one\ntwo\n").unwrap();
        tools.vfs().write("/rw/b", "three\n").unwrap();
        tools.vfs().write("/rw/d/e", "four\n").unwrap();
        let before = state(&tools);
        let (_, facts) = call_ok(&tools, name, arguments.clone());
        assert_matches_schema(&facts.into(), &tool(name).unwrap().output_schema().into(), name);
        let after_once = state(&tools);
        // The second call may fail; only its effect counts.
        let _ = call(&tools, name, arguments.clone());
        let after_twice = state(&tools);

        let hints = tool(name).unwrap().hints;
        let changed = after_once != before;
        let destroyed = before.iter().any(|(path, content)| match (content, after_once.get(path)) {
            (_, None) => true,
            // An append keeps the old content as a prefix.
            (Some(before), Some(Some(after))) => !after.starts_with(before),
            (content, Some(after)) => content != after,
        });
        assert!(!(hints.read_only && changed), "{name} {arguments} changes something");
        assert!(!destroyed || hints.destructive, "{name} {arguments} destroys something");
        assert!(
            !(hints.idempotent && after_once != after_twice),
            "{name} {arguments} is marked idempotent, but a second call changes something"
        );
        assert!(!hints.open_world);
        effects.push((name, changed, destroyed, after_once != after_twice));
    }
    // No hint is stricter than necessary.
    for tool in TOOLS.iter().filter(|tool| tool.offered == OfferedWhen::Always) {
        let of_tool = || effects.iter().filter(|(name, ..)| *name == tool.name);
        assert!(of_tool().count() > 0, "{} has no example", tool.name);
        assert_eq!(of_tool().any(|(_, changed, ..)| *changed), !tool.hints.read_only, "{}", tool.name);
        assert_eq!(of_tool().any(|(.., destroyed, _)| *destroyed), tool.hints.destructive, "{}", tool.name);
        assert_eq!(of_tool().any(|(.., repeats)| *repeats), !tool.hints.idempotent, "{}", tool.name);
    }
}

#[test]
fn every_change_is_one_operation_with_the_tools_name() {
    let audit_log = Arc::new(MemoryAuditLog::new());
    for (name, arguments) in examples().into_iter().filter(|(name, _)| tool(name).unwrap().is_mutating()) {
        let store = Arc::new(ModelStore::new());
        let builder = Vfs::builder(Identity::agent("tester")).audit(audit_log.clone());
        let tools = Toolbox::new(builder.workspace(workspace("/rw", ReadWrite, &store)).build().unwrap());
        tools.vfs().write("/rw/a", "one\ntwo\n").unwrap();
        tools.vfs().write("/rw/b", "three\n").unwrap();
        tools.vfs().write("/rw/d/e", "four\n").unwrap();
        audit_log.take();
        let (_, facts) = call_ok(&tools, name, arguments);
        let records = audit_log.take();
        let finished: Vec<_> =
            records.iter().filter(|record| record.outcome != crate::audit::AuditOutcome::Begun).collect();
        assert_eq!(finished.len(), 1, "{name}");
        assert_eq!(finished[0].call, name);
        assert_eq!(
            finished[0].operation.unwrap().to_string(),
            facts["operation"].as_str().unwrap(),
            "{name}"
        );
    }
}
