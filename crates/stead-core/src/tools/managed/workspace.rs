//! `workspace`: lists, finds, tags, moves and removes the files of managed Workspaces.
//!
//! The tool has two forms. A caller that may write in no managed Workspace has the read-only one, whose schema has only the
//! actions that change nothing.

use serde_json::{Map, Value};

use crate::clock::Timestamp;
use crate::managed::{
    Category, CleanupRun, DateRange, FileFilter, PastRemoval, SearchPattern, TagMode, Tags,
};
use crate::scope::Access;
use crate::tools::files::append_unreadable;
use crate::tools::page::MAX_REPLY_CHARACTERS;
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, Note, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::ManagedFiles;
use crate::vfs::managed::{
    CategoryTree, CleanupOptions, CleanupReport, DeletedFile, FilePage, ListedFile, ListedFiles, MoveTarget,
};

/// All actions.
const ACTIONS: [&str; 8] = ["list", "search", "info", "move", "delete", "tag", "cleanup", "tree"];
/// The actions that change nothing.
const READ_ACTIONS: [&str; 4] = ["list", "search", "info", "tree"];

const WORKSPACE: Field =
    Field::optional("workspace", FieldType::Path, "The managed Workspace, if you have several.");
const PATH: Field = Field::optional("path", FieldType::Path, "The file, for actions on one file.");
const QUERY: Field = Field::optional(
    "query",
    FieldType::Text,
    "For search and list: part of a path, name or tag; with * or ? a pattern for the whole of one.",
);
const CATEGORY: Field = Field::optional(
    "category",
    FieldType::Text,
    "code, documents, data, images, downloads or temp: of the files to list or search, or to move to.",
);
const DATE: Field = Field::optional(
    "date",
    FieldType::Text,
    "Only files last written on this day (2026-02-27), month or year.",
);
const FROM: Field = Field::optional("from", FieldType::Text, "Only files last written on this day or later.");
const TO: Field = Field::optional("to", FieldType::Text, "Only files last written on this day or earlier.");
const TAGS: Field = Field::optional(
    "tags",
    FieldType::TextList { max: 32 },
    "Only files with all of these tags; for the action tag, the tags.",
);
const SESSION: Field =
    Field::optional("session", FieldType::Text, "Only files of this session: AGENT or AGENT/THREAD.");
const LIMIT: Field = Field::optional(
    "limit",
    FieldType::Integer { min: 1, max: FilePage::MAX_LIMIT },
    "The most files; 50 if absent.",
);
const OFFSET: Field = Field::optional("offset", FieldType::integer_from(0), "How many files to skip.");

const OUTPUT: [Field; 10] = [
    Field::required("action", FieldType::Text, "The action."),
    Field::optional("path", FieldType::Path, "The path of the file after the action."),
    Field::optional("files", FieldType::ObjectList(&FILE_OUTPUT), "The files."),
    Field::optional("offset", FieldType::integer_from(0), "How many files come before these."),
    Field::optional(
        "total",
        FieldType::integer_from(0),
        "How many files there are, as far as they were counted.",
    ),
    Field::optional("total_is_more", FieldType::Flag, "Whether there are more than `total`."),
    Field::optional("removed", FieldType::integer_from(0), "How many files were removed."),
    Field::optional("tags", FieldType::TextList { max: 32 }, "The tags of the file."),
    Field::optional("operation", FieldType::Text, "The operation of the change; pass it to undo."),
    Field::optional("last_cleanup", FieldType::Text, "When the last cleanup ran."),
];

const FILE_OUTPUT: [Field; 10] = [
    Field::required("path", FieldType::Path, ""),
    Field::required("category", FieldType::Text, ""),
    Field::optional("original_name", FieldType::Text, "The name it was first written with."),
    Field::required("size", FieldType::integer_from(0), "Bytes."),
    Field::optional("source_tool", FieldType::Text, "The tool that wrote it last."),
    Field::optional("tags", FieldType::TextList { max: 32 }, ""),
    Field::required("created_at", FieldType::Text, ""),
    Field::required("modified_at", FieldType::Text, ""),
    Field::optional("accessed_at", FieldType::Text, ""),
    Field::optional("session", FieldType::Text, ""),
];

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "workspace",
    title: "Manage files",
    description: "Lists, searches, tags, moves and removes the files of a managed Workspace, which sorts them into \
                  category/day. Actions: list, search, info, tree, move (category, new_name), delete, tag (mode add, remove \
                  or set; pin keeps a file), cleanup (removes expired files; dry_run only lists them).",
    required_access: &[Access::Read],
    offered: OfferedWhen::WithManaged,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::DESTRUCTIVE,
    input: &[
        Field::required("action", FieldType::OneOf(&ACTIONS), "What to do."),
        WORKSPACE,
        PATH,
        QUERY,
        CATEGORY,
        DATE,
        FROM,
        TO,
        TAGS,
        SESSION,
        LIMIT,
        OFFSET,
        Field::optional("mode", FieldType::OneOf(&TagMode::NAMES), "For tag; add if absent."),
        Field::optional("new_name", FieldType::Text, "For move: another name."),
        Field::optional("dry_run", FieldType::Flag, "For cleanup: only list what would be removed."),
    ],
    output: &OUTPUT,
    max_characters: Some(MAX_REPLY_CHARACTERS),
    run,
};

pub(in crate::tools) static READ_ONLY_TOOL: Tool = Tool {
    name: "workspace",
    title: "Look at managed files",
    description: "Lists and searches the files of a managed Workspace, which sorts them into category/day. Actions: list, \
                  search, info, tree.",
    required_access: &[Access::Read],
    offered: OfferedWhen::WithManaged,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[
        Field::required("action", FieldType::OneOf(&READ_ACTIONS), "What to do."),
        WORKSPACE,
        PATH,
        QUERY,
        CATEGORY,
        DATE,
        FROM,
        TO,
        TAGS,
        SESSION,
        LIMIT,
        OFFSET,
    ],
    output: &OUTPUT,
    max_characters: Some(MAX_REPLY_CHARACTERS),
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let workspace = arguments.optional_text("workspace").or_else(|| arguments.optional_text("path"));
    // Otherwise the record of the call would say only that the tool was used.
    let facts = context.vfs.facts().clone().with_if_room("action", arguments.text("action"));
    let files = context.vfs.with_facts(facts).managed(workspace)?;
    let reply = match arguments.text("action") {
        "list" => list_reply(files.list(&filter(arguments)?, page(arguments))?),
        "search" => {
            required(arguments, "query")?;
            list_reply(files.list(&filter(arguments)?, page(arguments))?)
        }
        "info" => info_reply(&files.info(required(arguments, "path")?)?),
        "tree" => tree_reply(&files)?,
        "move" => move_file(&files, arguments)?,
        "delete" => delete(&files, arguments)?,
        "tag" => tag(&files, arguments)?,
        _ => cleanup(&files, arguments)?,
    };
    Ok(reply.fact("action", arguments.text("action")))
}

/// A parameter that an action needs.
fn required<'a>(arguments: &'a Arguments, name: &str) -> Result<&'a str, Failure> {
    arguments.optional_text(name).ok_or_else(|| {
        Failure::invalid(format!("the action `{}` needs the parameter `{name}`", arguments.text("action")))
    })
}

fn category(arguments: &Arguments) -> Result<Option<Category>, Failure> {
    let parsed = arguments.optional_text("category").map(str::parse::<Category>).transpose();
    parsed.map_err(|error| Failure::invalid(error.to_string()))
}

fn tags(arguments: &Arguments) -> Result<Tags, Failure> {
    Tags::parse(arguments.texts("tags")).map_err(|error| Failure::invalid(format!("`tags`: {error}")))
}

fn filter(arguments: &Arguments) -> Result<FileFilter, Failure> {
    let invalid = |error: crate::managed::InvalidDate| Failure::invalid(error.to_string());
    let text = |name| arguments.optional_text(name);
    let date = text("date").map(DateRange::parse).transpose().map_err(invalid)?.unwrap_or(DateRange::ALL);
    let written = date.and(DateRange::between(text("from"), text("to")).map_err(invalid)?);
    let (category, tags) = (category(arguments)?, tags(arguments)?);
    let (session, search) = (text("session").map(str::to_owned), text("query").map(SearchPattern::new));
    Ok(FileFilter { category, written, tags, session, search })
}

fn page(arguments: &Arguments) -> FilePage {
    let default = FilePage::default();
    FilePage {
        offset: arguments.number("offset").unwrap_or(default.offset),
        limit: arguments.number("limit").unwrap_or(default.limit),
    }
}

/// How many files there are, in words: `120`, or `more than 10000`.
fn total_text(listed: &ListedFiles) -> String {
    let more = if listed.total.is_more { "more than " } else { "" };
    format!("{more}{}", listed.total.count)
}

fn list_reply(listed: ListedFiles) -> Reply {
    let total = total_text(&listed);
    let mut text = String::new();
    for ListedFile { path, file } in &listed.files {
        let tags = if file.tags.is_empty() { String::new() } else { format!("\t[{}]", file.tags) };
        text.push_str(&format!("{path}\t{} bytes\t{}{tags}\n", file.size, minute(file.modified_at)));
    }
    let (first, last) = (listed.offset + 1, listed.offset + listed.files.len() as u64);
    text.push_str(&match (listed.files.is_empty(), listed.total.count) {
        (true, 0) => "No files match.\n".to_owned(),
        (true, _) => format!("There is nothing at offset {}: there are {total} files.\n", listed.offset),
        (false, count) if last < count || listed.total.is_more => {
            format!("[{first} to {last} of {total}; more with offset {last}]\n")
        }
        (false, _) => format!("[{first} to {last} of {total}]\n"),
    });
    append_unreadable(&mut text, &listed.unreadable);
    let files: Vec<Value> = listed.files.iter().map(file_fact).collect();
    Reply::text(text)
        .fact("files", files)
        .fact("offset", listed.offset)
        .fact("total", listed.total.count)
        .fact("total_is_more", listed.total.is_more)
}

/// A time to the minute.
fn minute(time: Timestamp) -> String {
    time.to_string()[..16].to_owned()
}

fn file_fact(ListedFile { path, file }: &ListedFile) -> Value {
    let mut fact = Map::new();
    fact.insert("path".to_owned(), path.as_str().into());
    fact.insert("category".to_owned(), file.category.as_str().into());
    fact.insert("size".to_owned(), file.size.into());
    fact.insert("created_at".to_owned(), file.created_at.to_string().into());
    fact.insert("modified_at".to_owned(), file.modified_at.to_string().into());
    if !file.tags.is_empty() {
        fact.insert("tags".to_owned(), file.tags.iter().collect::<Vec<_>>().into());
    }
    let optional = [
        ("original_name", file.original_name.clone()),
        ("source_tool", file.source_tool.clone()),
        ("accessed_at", file.accessed_at.map(|time| time.to_string())),
        ("session", file.session_key.clone()),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            fact.insert(name.to_owned(), value.into());
        }
    }
    fact.into()
}

fn info_reply(listed: &ListedFile) -> Reply {
    let ListedFile { path, file } = listed;
    let or_dash = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let tags = if file.tags.is_empty() { "-".to_owned() } else { file.tags.to_string() };
    let accessed = file.accessed_at.map_or_else(|| "never".to_owned(), |time| time.to_string());
    let text = format!(
        "path: {path}\ncategory: {}\noriginal name: {}\nsize: {} bytes\ntool: {}\ntags: {tags}\ncreated: {}\nwritten: {}\n\
         accessed: {accessed}\nsession: {}\n",
        file.category,
        or_dash(&file.original_name),
        file.size,
        or_dash(&file.source_tool),
        file.created_at,
        file.modified_at,
        or_dash(&file.session_key)
    );
    Reply::text(text).fact("path", path.as_str()).fact("files", vec![file_fact(listed)])
}

fn tree_reply(files: &ManagedFiles) -> Result<Reply, Failure> {
    let (mut text, mut not_read) = (String::new(), Vec::new());
    for CategoryTree { category, files, directories, unreadable, .. } in files.tree()? {
        not_read.extend(unreadable);
        text.push_str(&format!("{category}/ ({})\n", file_count(files)));
        for day in directories {
            text.push_str(&format!("  {}/ ({})\n", day.name, file_count(day.files)));
        }
    }
    if text.is_empty() {
        text.push_str("There are no managed files yet.\n");
    }
    append_unreadable(&mut text, &not_read);
    Ok(Reply::text(text))
}

fn file_count(count: u64) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

fn move_file(files: &ManagedFiles, arguments: &Arguments) -> Result<Reply, Failure> {
    let (path, category, name) =
        (required(arguments, "path")?, category(arguments)?, arguments.optional_text("new_name"));
    if category.is_none() && name.is_none() {
        return Err(Failure::invalid("the action `move` needs the parameter `category` or `new_name`"));
    }
    let moved = files.move_file(path, MoveTarget { category, name })?;
    let reply = Reply::text(format!("Moved {} to {}.", moved.from, moved.to));
    Ok(reply.fact("path", moved.to.as_str()).fact("operation", moved.operation.to_string()))
}

fn delete(files: &ManagedFiles, arguments: &Arguments) -> Result<Reply, Failure> {
    let path = required(arguments, "path")?;
    Ok(match files.delete(path)? {
        DeletedFile::Deleted(removed) => {
            let not_kept = (removed.not_kept > 0).then_some(Note::NotKept(removed.not_kept));
            let reply = Reply::text(format!("Deleted {}.", removed.path)).note(not_kept);
            reply.fact("path", removed.path.as_str()).fact("operation", removed.operation.to_string())
        }
        DeletedFile::WasGone => Reply::text(format!("{path} was gone already; its entry is removed now.")),
    })
}

fn tag(files: &ManagedFiles, arguments: &Arguments) -> Result<Reply, Failure> {
    let path = required(arguments, "path")?;
    let mode = arguments.optional_text("mode").and_then(TagMode::parse).unwrap_or_default();
    let changed = tags(arguments)?;
    if changed.is_empty() && mode != TagMode::Set {
        return Err(Failure::invalid("the action `tag` needs the parameter `tags`"));
    }
    let tags = files.tag(path, mode, &changed)?;
    let text = match tags.is_empty() {
        true => format!("{path} has no tags now."),
        false => format!("{path} has these tags now: {tags}."),
    };
    Ok(Reply::text(text).fact("path", path).fact("tags", tags.iter().collect::<Vec<_>>()))
}

fn cleanup(files: &ManagedFiles, arguments: &Arguments) -> Result<Reply, Failure> {
    let dry_run = arguments.flag("dry_run");
    let previous = files.last_cleanup()?;
    let CleanupReport { run, paths, .. } = files.cleanup(&CleanupOptions { dry_run })?;
    let mut text = match dry_run {
        true => format!("{} would be removed ({} bytes).\n", file_count(run.removed), run.bytes),
        false => format!("Removed {} ({} bytes).\n", file_count(run.removed), run.bytes),
    };
    for path in paths.iter().take(200) {
        text.push_str(&format!("{path}\n"));
    }
    if paths.len() > 200 {
        text.push_str(&format!("and {} more\n", run.removed.saturating_sub(200)));
    }
    for error in &run.errors {
        text.push_str(&format!("could not remove {error}\n"));
    }
    for error in &run.unread {
        text.push_str(&format!("could not read {error}\n"));
    }
    if run.not_kept > 0 {
        text.push_str(&format!(
            "[{} can't be brought back, because the content isn't kept]\n",
            file_count(run.not_kept)
        ));
    }
    if let Some(operation) = run.operation.as_ref().filter(|_| !dry_run && run.not_kept < run.removed) {
        text.push_str(&format!("[undo takes it back: operation {operation}]\n"));
    }
    if let Some(CleanupRun { at, removed, paths, errors, unread, last_removal, .. }) = &previous {
        let names = match paths.is_empty() {
            true => String::new(),
            false => {
                format!(": {}{}", paths.join(", "), if *removed > paths.len() as u64 { ", …" } else { "" })
            }
        };
        text.push_str(&format!("[the last cleanup, at {at}, removed {}{names}]\n", file_count(*removed)));
        for error in errors {
            text.push_str(&format!("[it could not remove {error}]\n"));
        }
        for error in unread {
            text.push_str(&format!("[it could not read {error}]\n"));
        }
        if let Some(PastRemoval { at, removed, operation, .. }) = last_removal {
            let count = file_count(*removed);
            text.push_str(&format!(
                "[the one before that removed {count} was at {at}: operation {operation}]\n"
            ));
        }
    }
    Ok(Reply::text(text)
        .fact("removed", run.removed)
        .optional_fact("operation", run.operation.filter(|_| !dry_run))
        .optional_fact("last_cleanup", previous.map(|run| run.at)))
}
