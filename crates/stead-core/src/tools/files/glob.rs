//! `glob`: finds files and directories by name.

use super::{
    NO_IGNORE, OUT_LEFT_OUT, OUT_TRUNCATED, append_left_out, append_more, append_unreadable, ignore_files,
    left_out_fact, start_path, text_or,
};
use crate::scope::Access;
use crate::store::NodeKind;
use crate::tools::page::{MAX_REPLY_CHARACTERS, PAGE_LINES, PagedText, ReplyBounds};
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::{GlobQuery, PathEntry};

/// How many paths one call returns without `limit`.
const DEFAULT_LIMIT: u64 = PAGE_LINES as u64;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "glob",
    title: "Find files by name",
    description: "Finds files and directories by name, one per line. * matches within a name, ** across directories, \
                  {a,b} either; the pattern is relative to path. To search inside files use grep.",
    required_access: &[Access::Read],
    offered: OfferedWhen::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[
        Field::required("pattern", FieldType::Text, "The glob, such as **/*.rs."),
        Field::optional("path", FieldType::Path, "Where to start; all Workspaces if absent."),
        Field::optional("limit", FieldType::Integer { min: 1, max: 10_000 }, "The maximum; 800 if absent."),
        NO_IGNORE,
    ],
    output: &[
        Field::required("count", FieldType::integer_from(0), "How many paths were returned."),
        OUT_TRUNCATED,
        OUT_LEFT_OUT,
    ],
    max_characters: Some(MAX_REPLY_CHARACTERS),
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let limit = arguments.number("limit");
    let query = GlobQuery {
        limit: limit.unwrap_or(DEFAULT_LIMIT) as usize,
        ignore_files: ignore_files(arguments),
        ..GlobQuery::new(arguments.text("pattern"))
    };
    let result = context.vfs.glob(&query, start_path(arguments))?;
    let mut page = PagedText::new(ReplyBounds::for_limit(limit, DEFAULT_LIMIT));
    let mut fits = |entry: &&PathEntry| match entry.kind {
        NodeKind::Directory => page.push_line(&format!("{}/", entry.path)),
        _ => page.push_line(&entry.path),
    };
    let count = result.entries.iter().take_while(|entry| fits(entry)).count();
    let truncated = result.truncated || count < result.entries.len();
    let mut text = text_or(page.into_text(), "Nothing matches.\n");
    append_unreadable(&mut text, &result.unreadable);
    append_left_out(&mut text, result.left_out);
    if truncated {
        append_more(&mut text, "narrow the pattern or the path, or raise limit");
    }
    Ok(Reply::text(text)
        .fact("count", count)
        .fact("truncated", truncated)
        .optional_fact("left_out", left_out_fact(result.left_out)))
}
