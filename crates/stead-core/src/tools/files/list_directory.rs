//! `list_directory`: lists a directory, page by page.

use std::fmt::Write;

use super::{OUT_PATH, append_more, text_or};
use crate::scope::Access;
use crate::store::NodeKind;
use crate::tools::page::{MAX_REPLY_CHARACTERS, PAGE_LINES, PagedText, ReplyBounds};
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::{DirEntry, ListPage};

/// The most entries that one call returns.
const MAX_LIMIT: u64 = 5_000;
/// How many entries one call returns without `limit`.
const DEFAULT_LIMIT: u64 = PAGE_LINES as u64;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "list_directory",
    title: "List a directory",
    description: "Lists a directory, sorted by name. A line has, between tabs, the name (ending with / for a directory, \
                  @ for a symlink), the size in bytes and the minute of the last change in UTC.",
    required_access: &[Access::Read],
    offered: OfferedWhen::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[
        Field::required("path", FieldType::Path, "The directory; / for the Workspaces."),
        Field::optional("cursor", FieldType::Text, "From the last line of the previous page."),
        Field::optional(
            "limit",
            FieldType::Integer { min: 1, max: MAX_LIMIT },
            "The maximum; 800 if absent.",
        ),
        Field::optional("details", FieldType::Flag, "Exact times, and each file's version_tag."),
    ],
    output: &[
        OUT_PATH,
        Field::required("entries", FieldType::integer_from(0), "How many entries were returned."),
        Field::required("total", FieldType::integer_from(0), "How many entries the directory has."),
        Field::optional(
            "cursor",
            FieldType::Text,
            "What to pass for the next page; absent after the last one.",
        ),
    ],
    max_characters: Some(MAX_REPLY_CHARACTERS),
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let limit = arguments.number("limit");
    let page = ListPage {
        cursor: arguments.optional_text("cursor").map(str::to_owned),
        limit: limit.unwrap_or(DEFAULT_LIMIT) as usize,
    };
    let details = arguments.flag("details");
    let mut listing = context.vfs.list(arguments.text("path"), &page)?;
    let mut page = PagedText::new(ReplyBounds::for_limit(limit, DEFAULT_LIMIT));
    let shown =
        listing.entries.iter().take_while(|entry| page.push_line(&entry_line(entry, details))).count();
    listing.truncate(shown);
    let mut text = text_or(page.into_text(), "(empty)\n");
    if let Some(cursor) = &listing.cursor {
        append_more(&mut text, &format!("cursor {cursor}; {shown} of {} entries", listing.total));
    }
    Ok(Reply::text(text)
        .fact("path", listing.path.to_string())
        .fact("entries", shown)
        .fact("total", listing.total)
        .optional_fact("cursor", listing.cursor))
}

fn entry_line(entry: &DirEntry, details: bool) -> String {
    let DirEntry { name, kind, size, modified, tag, workspace, .. } = entry;
    let mut text = match (kind, workspace) {
        (NodeKind::Directory, Some(scope)) => format!("{name}/\t-\tWorkspace, {scope}"),
        (NodeKind::Directory, None) => format!("{name}/\t-"),
        (NodeKind::File, _) => format!("{name}\t{size}"),
        (NodeKind::Symlink, _) => format!("{name}@\t-"),
        (other, _) => format!("{name}\t{}", other.as_str()),
    };
    if let Some(modified) = modified {
        text.push('\t');
        let exact = modified.to_string();
        // The first 16 characters are `2026-11-15T08:30`: date and time without seconds.
        text.push_str(if details { &exact } else { &exact[..16] });
    }
    if let (Some(tag), NodeKind::File, true) = (tag, kind, details) {
        let _ = write!(text, "\t{}", tag.short());
    }
    text
}
