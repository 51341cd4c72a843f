//! Compared steads through the tools.

use serde_json::{Value, json};
use stead::vfs::{LogEntry, LogQuery, UndoOptions, UndoTarget, WalkQuery};
use stead::{Operation, Stead, Timestamp};

use super::compared_stead::{COMPARED_PAIRS, ComparedStead, Occupant, STORES, Transcript};
use super::{At, Needs};
use crate::is_long;

/// A tool, the argument that takes the path, its other arguments, and what has to be at the path.
type Action = (&'static str, &'static str, Value, Needs);

fn actions() -> Vec<Action> {
    use Needs::{Nothing, OwnFile, Room};
    vec![
        ("create_directory", "path", json!({}), Nothing),
        ("delete_file", "path", json!({}), Nothing),
        ("delete_file", "path", json!({ "force": true }), Nothing),
        ("delete_directory", "path", json!({}), Nothing),
        ("delete_directory", "path", json!({ "recursive": true }), Nothing),
        ("append_file", "path", json!({ "content": "x" }), Room),
        ("append_file", "path", json!({ "content": "" }), Room),
        ("write_file", "path", json!({ "content": "x" }), Room),
        // The content that another agent's file already has.
        ("write_file", "path", json!({ "content": "theirs\n" }), Room),
        ("move_file", "destination", json!({ "overwrite": true }), Room),
        ("copy_file", "destination", json!({ "overwrite": true }), Room),
        ("edit_file", "path", json!({ "old_string": "t", "new_string": "x" }), OwnFile),
        ("move_file", "source", json!({ "destination": "/main/wo/moved" }), OwnFile),
    ]
}

fn call(stead: &Stead, transcript: &mut Transcript, question: &str, tool: &str, arguments: Value) -> Value {
    let reply = stead.call(tool, arguments.clone());
    let structured = Value::from(reply.structured());
    let answer = format!("{} {structured} {:?}", reply.joined_text(), reply.failure);
    transcript.note(&format!("{question} {tool} {arguments}"), &answer);
    structured
}

/// Looks at everything that may be seen.
fn record_view(stead: &Stead, transcript: &mut Transcript, question: &str, operations: &[Value]) {
    for store in STORES {
        let new = format!("{store}/after-{}", transcript.len());
        call(stead, transcript, question, "write_file", json!({ "path": new, "content": "1" }));
        for path in [store, &new] {
            call(stead, transcript, question, "get_file_info", json!({ "path": path }));
        }
        // The library returns more facts to a program than a tool returns to a model.
        let written = stead.vfs().write(&*new, "2").unwrap();
        let revision = written.revision.map(|revision| revision.number);
        transcript.note(question, &format!("{store} {revision:?} {:?}", written.tag));
    }
    for last in [1, 6] {
        call(stead, transcript, question, "undo", json!({ "last": last, "dry_run": true }));
    }
    for operation in operations {
        call(stead, transcript, question, "undo", json!({ "operation": operation, "dry_run": true }));
    }
    for limit in [5, 9] {
        let log = stead.vfs().log(&LogQuery { limit, ..LogQuery::default() }).unwrap();
        let entry = |entry: &LogEntry| {
            let Operation { id, tool, .. } = &entry.operation;
            let number = entry.revision.number;
            format!("{id} {tool} {number:?} {:?} {}", entry.changes, entry.undone)
        };
        let log: Vec<_> = log.iter().map(entry).collect();
        transcript.note(&format!("{question} log {limit}"), &log.join("\n"));
    }
}

/// Looks once more, at the whole of each Store.
fn record_whole_view(stead: &Stead, transcript: &mut Transcript) {
    transcript.note("map", &stead.map());
    for store in STORES {
        call(stead, transcript, "in the end", "list_directory", json!({ "path": store }));
    }
    let dry_run = UndoOptions { dry_run: true, ..UndoOptions::default() };
    let undo_result = stead.vfs().undo(UndoTarget::Since(Timestamp(0)), dry_run).unwrap();
    let incomplete: Vec<_> =
        undo_result.incomplete.iter().map(|undo| (&undo.operation.tool, undo.is_partial)).collect();
    let undo_result = format!(
        "{} {incomplete:?} {:?} {:?}",
        undo_result.undone.len(),
        undo_result.changes,
        undo_result.conflicts
    );
    transcript.note("undo of all", &undo_result);
    let walk = stead.vfs().walk("/", &WalkQuery::default()).unwrap();
    let walk: Vec<_> = walk.entries.iter().map(|entry| &entry.path).collect();
    transcript.note("walk", &format!("{walk:?}"));
}

/// All answers that an agent gets in one stead.
fn transcript_of(occupant: Occupant, pair: (Occupant, Occupant)) -> Transcript {
    let all_actions = actions();
    let positions = [At::Name, At::Below];
    let actions: Vec<(&Action, At)> = all_actions
        .iter()
        .flat_map(|action| positions.map(|at| (action, at)))
        .filter(|((.., needs), at)| needs.hides_occupant(pair.1, *at))
        .collect();
    let names: Vec<String> = (0..actions.len()).map(|number| format!("n{number}")).collect();
    let mut compared = ComparedStead::new(occupant, &names);
    let stead = compared.stead("coder");
    let mut transcript = std::mem::take(&mut compared.transcript);
    for (((tool, key, arguments, _), at), name) in actions.iter().zip(&names) {
        let mut operations = Vec::new();
        for store in STORES {
            let below = if *at == At::Below { "/below" } else { "" };
            let path = format!("{store}/wo/{name}{below}");
            let mut arguments = arguments.clone();
            arguments[*key] = json!(path);
            if *key == "destination" {
                let source = format!("{store}/source-{name}");
                stead.vfs().write(&*source, "s").unwrap();
                arguments["source"] = json!(source);
            }
            let answer = call(&stead, &mut transcript, "act", tool, arguments);
            operations.extend(answer.get("operation").cloned());
            // The agent can edit and move a file of its own, but not one behind another agent's symlink.
            if !matches!(pair.1, Occupant::Own | Occupant::Symlink | Occupant::Dangling) {
                // What the agent may do with the file afterwards depends only on what the agent wrote.
                let edit = json!({ "path": path, "old_string": "x", "new_string": "y" });
                call(&stead, &mut transcript, "then", "edit_file", edit);
                let move_arguments =
                    json!({ "source": path, "destination": format!("{store}/wo/moved-{name}") });
                call(&stead, &mut transcript, "then", "move_file", move_arguments);
            }
        }
        record_view(&stead, &mut transcript, &format!("after {tool} at {name}"), &operations);
    }
    record_whole_view(&stead, &mut transcript);
    for arguments in [json!({ "last": 4 }), json!({ "last": 9, "skip_conflicts": true })] {
        call(&stead, &mut transcript, "in the end", "undo", arguments);
        record_view(&stead, &mut transcript, "in the end", &[]);
    }
    drop(stead);
    compared.transcript = transcript;
    compared.look_at_records(pair);
    compared.transcript
}

fn check(pair: (Occupant, Occupant)) {
    transcript_of(pair.0, pair).check_same(&transcript_of(pair.1, pair), pair);
}

#[test]
fn no_tool_reveals_whether_a_file_exists_in_a_write_only_workspace() {
    check((Occupant::Nothing, Occupant::File));
}

#[test]
fn no_tool_reveals_whether_a_directory_exists_in_a_write_only_workspace() {
    check((Occupant::Nothing, Occupant::FullDirectory));
}

#[test]
fn no_tool_reveals_whether_another_agent_has_deleted_a_file_in_a_write_only_workspace() {
    check((Occupant::OwnDeleted, Occupant::Own));
    if is_long() {
        COMPARED_PAIRS.into_iter().for_each(check);
    }
}
