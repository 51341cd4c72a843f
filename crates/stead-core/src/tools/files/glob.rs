//! `glob`: paths by their names.

use super::{OUT_TRUNCATED, from, or_nothing, unread};
use crate::scope::Access;
use crate::store::Kind;
use crate::tools::schema::{Field, Takes};
use crate::tools::{Arguments, Capability, Desk, Failure, Hints, Offered, Reply, Tool};

/// How many paths one call returns unless told otherwise.
const USUAL: u64 = 1_000;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "glob",
    title: "Find files by name",
    description: "Finds files and directories by name: * matches within a name, ** across directories, {a,b} either, \
                  ? one character. The pattern counts from path, so **/*.md finds every Markdown file below it. \
                  Returns one path a line, sorted, directories with a / at the end. It covers every Workspace below \
                  path that you may read. To search inside files, use grep.",
    needs: &[Access::Read],
    offered: Offered::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::LOOKS,
    input: &[
        Field::needed("pattern", Takes::Text, "The glob, such as **/*.rs."),
        Field::optional("path", Takes::Path, "The directory to begin at; everything if absent."),
        Field::optional(
            "limit",
            Takes::Integer { least: 1, most: 10_000 },
            "At most so many; 1,000 if absent.",
        ),
    ],
    output: &[Field::needed("count", Takes::from(0), "How many paths were returned."), OUT_TRUNCATED],
    run,
};

fn run(desk: &Desk<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let limit = arguments.number("limit").unwrap_or(USUAL) as usize;
    let result = desk.vfs.glob(arguments.text("pattern"), from(arguments), limit)?;
    let mut text = String::new();
    for found in &result.found {
        text.push_str(&found.path);
        text.push_str(if found.kind == Kind::Directory { "/\n" } else { "\n" });
    }
    let mut text = or_nothing(text, "Nothing matches.\n");
    if result.truncated {
        text.push_str("[there is more; narrow the pattern or the path, or raise the limit]\n");
    }
    unread(&mut text, &result.unread);
    Ok(Reply::text(text).fact("count", result.found.len()).fact("truncated", result.truncated))
}
