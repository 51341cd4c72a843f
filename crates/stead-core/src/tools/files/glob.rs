//! `glob`: paths by their names.

use super::{OUT_TRUNCATED, from, more, or_nothing, unread};
use crate::scope::Access;
use crate::store::Kind;
use crate::tools::page::{Bounds, MOST_CHARACTERS, PAGE_LINES, Paged};
use crate::tools::schema::{Field, Takes};
use crate::tools::{Arguments, Capability, Desk, Failure, Hints, Offered, Reply, Tool};
use crate::vfs::Walked;

/// How many paths one call returns unless told otherwise.
const USUAL: u64 = PAGE_LINES as u64;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "glob",
    title: "Find files by name",
    description: "Finds files and directories by name, one path a line. * matches within a name, ** across directories, \
                  {a,b} either; the pattern counts from path. To search inside files use grep.",
    needs: &[Access::Read],
    offered: Offered::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::LOOKS,
    input: &[
        Field::needed("pattern", Takes::Text, "The glob, such as **/*.rs."),
        Field::optional("path", Takes::Path, "Where to begin; all Workspaces if absent."),
        Field::optional(
            "limit",
            Takes::Integer { least: 1, most: 10_000 },
            "At most so many; 800 if absent.",
        ),
    ],
    output: &[Field::needed("count", Takes::from(0), "How many paths were returned."), OUT_TRUNCATED],
    longest: Some(MOST_CHARACTERS),
    run,
};

fn run(desk: &Desk<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let limit = arguments.number("limit");
    let most = limit.unwrap_or(USUAL) as usize;
    let result = desk.vfs.glob(arguments.text("pattern"), from(arguments), most)?;
    let mut page = Paged::new(Bounds::of(limit, USUAL));
    let mut fits = |found: &&Walked| match found.kind {
        Kind::Directory => page.line(&format!("{}/", found.path)),
        _ => page.line(&found.path),
    };
    let count = result.found.iter().take_while(|found| fits(found)).count();
    let truncated = result.truncated || count < result.found.len();
    let mut text = or_nothing(page.into_text(), "Nothing matches.\n");
    unread(&mut text, &result.unread);
    if truncated {
        more(&mut text, "narrow the pattern or the path, or raise limit");
    }
    Ok(Reply::text(text).fact("count", count).fact("truncated", truncated))
}
