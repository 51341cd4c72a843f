//! `list_versions`: what was done to a path, by whom and when.

use std::fmt::Write;

use crate::path::VfsPath;
use crate::scope::Access;
use crate::tools::schema::{Field, Takes};
use crate::tools::{Arguments, Capability, Desk, Failure, Hints, Offered, Reply, Tool};
use crate::vfs::LogQuery;

/// How many changes one call returns unless told otherwise.
const USUAL: u64 = 50;
/// How many paths of one change are told.
const PATHS: usize = 20;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "list_versions",
    title: "List versions",
    description: "Tells what was done to a file or below a directory, newest first: the version that each change \
                  made, when, by which agent and tool, its operation, and what became of which path. Read an earlier \
                  version with read_version; take an operation of your own back with undo.",
    needs: &[Access::History],
    offered: Offered::WithHistory,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::LOOKS,
    input: &[
        Field::needed("path", Takes::Path, "The file or directory; it may be gone by now."),
        Field::optional(
            "limit",
            Takes::Integer { least: 1, most: 1_000 },
            "At most so many changes; 50 if absent.",
        ),
    ],
    output: &[
        Field::needed("count", Takes::from(0), "How many changes were returned."),
        Field::needed("truncated", Takes::Flag, "Whether there may be older ones."),
    ],
    run,
};

fn run(desk: &Desk<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let path = arguments.text("path");
    let limit = arguments.number("limit").unwrap_or(USUAL) as usize;
    let path = VfsPath::parse(path).map_err(|error| Failure::invalid(error.to_string()))?;
    let entries = desk.vfs.log(&LogQuery { path: Some(path), limit, ..LogQuery::default() })?;
    let mut text = String::new();
    for entry in &entries {
        let operation = &entry.operation;
        let (agent, tool, at) = (&operation.identity.agent, &operation.tool, operation.at);
        let undone = if entry.undone { ", taken back" } else { "" };
        let _ = writeln!(
            text,
            "version {} at {at} by {} with {tool}, operation {}{undone}",
            entry.version.0,
            agent.escape_debug(),
            operation.id
        );
        for change in entry.changes.iter().take(PATHS) {
            let from = change.from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
            let _ = writeln!(text, "  {} {}{from}", change.did.word(), change.path);
        }
        if entry.changes.len() > PATHS {
            let _ = writeln!(text, "  and {} more", entry.changes.len() - PATHS);
        }
    }
    if text.is_empty() {
        text.push_str("Nothing is known to have been done to it.\n");
    }
    Ok(Reply::text(text).fact("count", entries.len()).fact("truncated", entries.len() == limit))
}
