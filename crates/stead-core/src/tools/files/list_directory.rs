//! `list_directory`: what is in a directory, page by page.

use std::fmt::Write;

use super::{OUT_PATH, or_nothing};
use crate::scope::Access;
use crate::store::Kind;
use crate::tools::schema::{Field, Takes};
use crate::tools::{Arguments, Capability, Desk, Failure, Hints, Offered, Reply, Tool};
use crate::vfs::{DirEntry, ListPage};

/// How many entries one call returns.
const MOST: u64 = 5_000;
/// How many it returns unless told otherwise.
const USUAL: u64 = 2_000;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "list_directory",
    title: "List a directory",
    description: "Lists what is in a directory, sorted by name. Each line holds, separated by tabs, the name (a \
                  directory's ends with /, a symlink's with @), the size in bytes, the time of the last change and \
                  the version tag. / shows your Workspaces. A long directory comes in pages: pass cursor to go on.",
    needs: &[Access::Read],
    offered: Offered::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::LOOKS,
    input: &[
        Field::needed("path", Takes::Path, "The directory, such as /notes; / for everything."),
        Field::optional("cursor", Takes::Text, "Where the page before ended, as it said."),
        Field::optional(
            "limit",
            Takes::Integer { least: 1, most: MOST },
            "At most so many entries; 2,000 if absent.",
        ),
    ],
    output: &[
        OUT_PATH,
        Field::needed("entries", Takes::from(0), "How many entries were returned."),
        Field::needed("total", Takes::from(0), "How many entries the directory has."),
        Field::optional("cursor", Takes::Text, "What to pass for the next page; absent after the last one."),
    ],
    run,
};

fn run(desk: &Desk<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let page = ListPage {
        cursor: arguments.optional_text("cursor").map(str::to_owned),
        limit: arguments.number("limit").unwrap_or(USUAL) as usize,
    };
    let directory = desk.vfs.list(arguments.text("path"), &page)?;
    let mut text = String::with_capacity(directory.entries.len() * 64);
    directory.entries.iter().for_each(|entry| line(&mut text, entry));
    if let Some(cursor) = &directory.cursor {
        let (shown, total) = (directory.entries.len(), directory.total);
        let _ = writeln!(text, "[{shown} of {total} entries; go on with the cursor {cursor:?}]");
    }
    Ok(Reply::text(or_nothing(text, "(empty)\n"))
        .fact("path", directory.path.to_string())
        .fact("entries", directory.entries.len())
        .fact("total", directory.total)
        .maybe("cursor", directory.cursor))
}

fn line(text: &mut String, entry: &DirEntry) {
    let DirEntry { name, kind, size, modified, tag, workspace, .. } = entry;
    let _ = write!(text, "{name}");
    let _ = match (kind, workspace) {
        (Kind::Directory, Some(scope)) => write!(text, "/\t-\tWorkspace, {scope}"),
        (Kind::Directory, None) => write!(text, "/\t-"),
        (Kind::File, _) => write!(text, "\t{size}"),
        (Kind::Symlink, _) => write!(text, "@\t-"),
        (other, _) => write!(text, "\t{}", other.word()),
    };
    if let Some(modified) = modified {
        let _ = write!(text, "\t{modified}");
    }
    if let (Some(tag), Kind::File) = (tag, kind) {
        let _ = write!(text, "\t{tag}");
    }
    text.push('\n');
}
