//! `state_list`: lists keys, page by page.

use super::{NAMESPACE, OUT_EXPIRES_AT, OUT_KEY, OUT_MODIFIED, OUT_NAMESPACE, OUT_TAG};
use crate::name::escape_text;
use crate::tools::page::{MAX_REPLY_CHARACTERS, PAGE_LINES, PagedText, ReplyBounds};
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, Note, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::state::StateEntry;

/// The most keys that one call returns.
const MAX_LIMIT: u64 = 5_000;
/// How many keys one call returns without `limit`.
const DEFAULT_LIMIT: u64 = PAGE_LINES as u64;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "state_list",
    title: "List the keys of the State",
    description: "Lists the keys of your State, sorted. A line has, between tabs, the key, the size of its value in bytes, \
                  the minute in UTC when it was set and, if it expires, when.",
    required_access: &[],
    offered: OfferedWhen::WithState,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[
        Field::optional("prefix", FieldType::Text, "Only keys that begin with this."),
        NAMESPACE,
        Field::optional("cursor", FieldType::Text, "From the last line of the previous page."),
        Field::optional(
            "limit",
            FieldType::Integer { min: 1, max: MAX_LIMIT },
            "The maximum; 800 if absent.",
        ),
    ],
    output: &[
        OUT_NAMESPACE,
        Field::required(
            "keys",
            FieldType::ObjectList(&[
                OUT_KEY,
                Field::required("size", FieldType::integer_from(0), "The bytes of the value."),
                OUT_TAG,
                OUT_MODIFIED,
                OUT_EXPIRES_AT,
            ]),
            "The keys of this page.",
        ),
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
    let state = context.state(arguments)?;
    let (limit, prefix) = (arguments.number("limit"), arguments.optional_text("prefix").unwrap_or_default());
    let count = limit.unwrap_or(DEFAULT_LIMIT) as usize;
    let mut listed = state.list(prefix, arguments.optional_text("cursor"), count)?;
    let mut page = PagedText::new(ReplyBounds::for_limit(limit, DEFAULT_LIMIT));
    let shown = listed.entries.iter().take_while(|entry| page.push_line(&entry_line(entry))).count();
    listed.truncate(shown);
    let mut text = page.into_text();
    if text.is_empty() {
        text.push_str("(no keys)\n");
    }
    if let Some(cursor) = &listed.cursor {
        text.push_str(&format!("[{}]\n", Note::More(format!("cursor {cursor}"))));
    }
    let keys: Vec<_> = listed.entries.iter().map(entry_fact).collect();
    Ok(Reply::text(text)
        .fact("namespace", state.namespace())
        .fact("keys", keys)
        .optional_fact("cursor", listed.cursor))
}

fn entry_line(entry: &StateEntry) -> String {
    // The first 16 characters are `2026-11-15T08:30`: date and time without seconds.
    let minute = entry.modified.to_string()[..16].to_owned();
    let expires = entry.expires_at.map(|time| format!("\texpires {time}")).unwrap_or_default();
    format!("{}\t{}\t{minute}{expires}", escape_text(&entry.key), entry.size)
}

fn entry_fact(entry: &StateEntry) -> serde_json::Value {
    let mut fact = serde_json::Map::new();
    fact.insert("key".to_owned(), entry.key.as_str().into());
    fact.insert("size".to_owned(), entry.size.into());
    fact.insert("version_tag".to_owned(), String::from(entry.version_tag).into());
    fact.insert("modified".to_owned(), entry.modified.to_string().into());
    if let Some(time) = entry.expires_at {
        fact.insert("expires_at".to_owned(), time.to_string().into());
    }
    fact.into()
}
