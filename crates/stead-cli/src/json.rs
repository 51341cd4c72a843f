//! The documents that `--json` prints. Scripts depend on their fields.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde_json::{Value, json};
use stead::history::diff::ContentDiff;
use stead::vfs::{
    BlameLine, CopyResult, Difference, DirEntry, IncompleteUndo, LogChange, LogEntry, PathChange,
    PathConflict, PathEntry, RevertResult, Stat, Unreadable, WriteResult,
};
use stead::{Fork, Operation, Snapshot, Timestamp, VersionTag};

/// An error.
pub(crate) fn error(code: &str, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message } })
}

fn time(time: Option<Timestamp>) -> Value {
    time.map_or(Value::Null, |time| time.to_string().into())
}

fn tag(tag: Option<VersionTag>) -> Value {
    tag.map_or(Value::Null, |tag| tag.to_string().into())
}

/// Permission bits in octal.
fn mode(mode: u32) -> String {
    format!("{mode:04o}")
}

/// An entry of a directory.
pub(crate) fn entry(entry: &DirEntry) -> Value {
    json!({
        "name": entry.name.to_string(),
        "kind": entry.kind.as_str(),
        "size": entry.size,
        "mode": mode(entry.mode),
        "modified": time(entry.modified),
        "tag": tag(entry.tag),
        "workspace": entry.workspace.map(|scope| scope.name()),
    })
}

/// A node found by a walk or a glob, with its path.
pub(crate) fn path_entry(entry: &PathEntry) -> Value {
    json!({
        "path": entry.path,
        "kind": entry.kind.as_str(),
        "size": entry.size,
        "mode": mode(entry.mode),
        "modified": time(entry.modified),
        "tag": tag(entry.tag),
    })
}

/// The metadata of a path.
pub(crate) fn stat(stat: &Stat) -> Value {
    json!({
        "path": stat.path.to_string(),
        "kind": stat.kind.as_str(),
        "size": stat.size,
        "mode": mode(stat.mode),
        "created": time(stat.created),
        "modified": time(stat.modified),
        "tag": tag(stat.tag),
        "mime": stat.mime,
        "scope": stat.scope.map(|scope| scope.name()),
    })
}

/// The result of a write.
pub(crate) fn write_result(result: &WriteResult) -> Value {
    json!({
        "path": result.path.to_string(),
        "created": result.created,
        "tag": tag(result.tag),
        "version": result.revision.map(|revision| revision.number.0),
        "operation": result.operation.to_string(),
    })
}

/// The result of a copy or a move.
pub(crate) fn copy_result(result: &CopyResult) -> Value {
    json!({
        "from": result.from.to_string(),
        "to": result.to.to_string(),
        "hidden": result.hidden,
        "tag": tag(result.tag),
        "version": result.revision.map(|revision| revision.number.0),
        "operation": result.operation.to_string(),
    })
}

/// A fork.
pub(crate) fn fork(fork: &Fork) -> Value {
    json!({
        "fork": fork.name.as_str(),
        "path": format!("/forks/{}", fork.name),
        "owner": fork.owner,
        "created_by": fork.created_by,
        "of": fork.base_prefix.to_string(),
        "omitted": fork.excluded.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "made": time(Some(fork.created)),
    })
}

/// The places that could not be read.
pub(crate) fn unreadable(unreadable: &[Unreadable]) -> Value {
    let to_json = |unreadable: &Unreadable| json!({ "path": unreadable.path, "reason": unreadable.reason });
    unreadable.iter().map(to_json).collect()
}

/// Bytes as base64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// A change and its operation.
pub(crate) fn log_entry(entry: &LogEntry) -> Value {
    let change = |change: &LogChange| {
        json!({
            "path": change.path.to_string(),
            "from": change.from.as_ref().map(ToString::to_string),
            "did": change.action.as_str(),
            "kind": change.kind.as_str(),
            "size": change.size,
        })
    };
    json!({
        "version": entry.revision.number.0,
        "operation": operation(&entry.operation),
        "changes": entry.changes.iter().map(change).collect::<Vec<_>>(),
        "undoes": entry.undoes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "undone": entry.undone,
    })
}

/// An operation: who did it, with which tool and when.
fn operation(operation: &Operation) -> Value {
    json!({
        "id": operation.id.to_string(),
        "agent": operation.identity.agent,
        "thread": operation.identity.thread,
        "tool": operation.tool,
        "at": operation.at.to_string(),
    })
}

/// One difference between two versions.
pub(crate) fn difference(difference: &Difference) -> Value {
    let (binary, diff) = match &difference.content {
        Some(ContentDiff::Binary) => (true, None),
        Some(ContentDiff::Text(text)) => (false, Some(text)),
        None => (false, None),
    };
    json!({
        "path": difference.path.to_string(),
        "from": difference.from.as_ref().map(ToString::to_string),
        "differs": difference.difference.as_str(),
        "kind": difference.kind.as_str(),
        "modes": difference.modes.map(|(before, after)| [mode(before), mode(after)]),
        "sizes": [difference.sizes.0, difference.sizes.1],
        "binary": binary,
        "diff": diff,
    })
}

/// A snapshot.
pub(crate) fn snapshot(snapshot: &Snapshot) -> Value {
    json!({
        "id": snapshot.id,
        "label": snapshot.label,
        "prefix": snapshot.prefix,
        "version": snapshot.revision.0,
        "at": snapshot.at.to_string(),
    })
}

/// The result of an undo or a restore, or of its dry run.
pub(crate) fn revert_result(result: &RevertResult, dry_run: bool) -> Value {
    let change = |change: &PathChange| {
        json!({
            "path": change.path.to_string(),
            "from": change.from.as_ref().map(ToString::to_string),
            "action": format!("{:?}", change.action).to_lowercase(),
        })
    };
    let incomplete = |undo: &IncompleteUndo| json!({ "operation": operation(&undo.operation), "partial": undo.is_partial });
    let conflict_list = |conflicts: &[PathConflict]| -> Vec<Value> {
        conflicts
            .iter()
            .map(|conflict| json!({ "path": conflict.path.to_string(), "why": conflict.why }))
            .collect()
    };
    json!({
        "done": result.done,
        "dry_run": dry_run,
        "operation": result.operation.map(|id| id.to_string()),
        "undone": result.undone.iter().map(operation).collect::<Vec<_>>(),
        "incomplete": result.incomplete.iter().map(incomplete).collect::<Vec<_>>(),
        "changes": result.changes.iter().map(change).collect::<Vec<_>>(),
        "conflicts": conflict_list(&result.conflicts),
        "omitted": conflict_list(&result.left_out),
    })
}

/// A line of a file, and the operation that wrote it.
pub(crate) fn blame_line(number: usize, line: &BlameLine) -> Value {
    json!({
        "line": number,
        "text": String::from_utf8_lossy(&line.line),
        "version": line.revision.map(|revision| revision.number.0),
        "operation": line.operation.as_ref().map(operation),
        "by_another_program": line.by_another_program,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_base64() {
        // The test vectors of RFC 4648.
        let pairs = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ];
        for (plain, encoded) in pairs {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfd]), "//79");
    }
}
