//! `list_versions`: lists the changes of a path, with who made them and when.

use std::fmt::Write;

use crate::path::VfsPath;
use crate::scope::Access;
use crate::tools::page::{MAX_REPLY_CHARACTERS, PagedText, ReplyBounds};
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, Note, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::{LogEntry, LogQuery};

/// How many changes one call returns without `limit`.
const DEFAULT_LIMIT: u64 = 50;
/// The most changes that one call returns.
const MAX_LIMIT: u64 = 1_000;
/// The most paths shown for one change.
const MAX_PATHS_PER_CHANGE: usize = 20;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "list_versions",
    title: "List versions",
    description: "Lists the changes of a file, or of all below a directory, newest first: version, time, agent, tool \
                  and operation. read_version reads one, undo undoes an operation of yours.",
    required_access: &[Access::History],
    offered: OfferedWhen::WithHistory,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[
        Field::required("path", FieldType::Path, "A file or directory; it may be deleted."),
        Field::optional("limit", FieldType::Integer { min: 1, max: MAX_LIMIT }, "The maximum; 50 if absent."),
    ],
    output: &[
        Field::required("count", FieldType::integer_from(0), "How many changes were returned."),
        Field::required("truncated", FieldType::Flag, "Whether there may be older ones."),
    ],
    max_characters: Some(MAX_REPLY_CHARACTERS),
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let path = arguments.text("path");
    let limit = arguments.number("limit").unwrap_or(DEFAULT_LIMIT) as usize;
    let path = VfsPath::parse(path).map_err(|error| Failure::invalid(error.to_string()))?;
    let entries = context.vfs.log(&LogQuery { path: Some(path), limit, ..LogQuery::default() })?;
    let mut page = PagedText::new(ReplyBounds::for_limit(arguments.number("limit"), DEFAULT_LIMIT));
    let shown = entries.iter().take_while(|entry| page.push_line(format_entry(entry).trim_end())).count();
    let truncated = entries.len() == limit || shown < entries.len();
    let mut text = page.into_text();
    if text.is_empty() {
        text.push_str("The history has no changes of this path.\n");
    }
    let more = truncated.then(|| Note::More(how_to_get_more(limit, shown)));
    Ok(Reply::text(text).note(more).fact("count", shown).fact("truncated", truncated))
}

/// What to pass to get more, after a call with this limit that returned this many changes.
fn how_to_get_more(limit: usize, shown: usize) -> String {
    let next = (limit + shown).min(MAX_LIMIT as usize);
    // With the largest limit, the same call would return the same again.
    if next > limit { format!("limit {next}") } else { "a path below this one".to_owned() }
}

/// One change: a line for the change itself, and one for each of its paths.
fn format_entry(entry: &LogEntry) -> String {
    let operation = &entry.operation;
    let (agent, tool, at) = (&operation.identity.agent, &operation.tool, operation.at);
    let undone = if entry.undone { ", undone" } else { "" };
    let mut text = format!(
        "version {} at {at} by {} with {tool}, operation {}{undone}\n",
        entry.revision.number,
        agent.escape_debug(),
        operation.id
    );
    for change in entry.changes.iter().take(MAX_PATHS_PER_CHANGE) {
        let from = change.from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
        let _ = writeln!(text, "  {} {}{from}", change.action.as_str(), change.path);
    }
    if entry.changes.len() > MAX_PATHS_PER_CHANGE {
        let _ = writeln!(text, "  and {} more", entry.changes.len() - MAX_PATHS_PER_CHANGE);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_never_repeats_the_same_call() {
        assert_eq!(how_to_get_more(50, 50), "limit 100");
        assert_eq!(how_to_get_more(900, 900), "limit 1000");
        assert_eq!(how_to_get_more(1_000, 700), "a path below this one");
    }
}
