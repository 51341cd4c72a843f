//! `grep`: files by their content.

use std::fmt::Write;

use super::{OUT_TRUNCATED, from, or_nothing, unread};
use crate::scope::Access;
use crate::search::{Case, GrepQuery, LineRole, Output, Syntax};
use crate::tools::schema::{Field, Takes};
use crate::tools::{Arguments, Capability, Desk, Failure, Hints, Offered, Reply, Tool};
use crate::vfs::{FileMatch, GrepResult};

/// How much text one call returns.
const MOST_BYTES: usize = 256 << 10;
/// How many hits one call returns unless told otherwise.
const USUAL: u64 = 200;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "grep",
    title: "Search inside files",
    description: "Searches the content of text files for a regular expression (Rust syntax; literal for plain text) \
                  and returns the matching lines as path:line:text, sorted by path, lines of context as \
                  path-line-text. output files returns only the paths, counts how many lines match in each. It \
                  covers every Workspace below path that you may read and skips binary files. Narrow it with include \
                  and exclude globs such as *.rs.",
    needs: &[Access::Read],
    offered: Offered::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::LOOKS,
    input: &[
        Field::needed("pattern", Takes::Text, "The regular expression."),
        Field::optional("path", Takes::Path, "The directory or file to search; everything if absent."),
        Field::optional("literal", Takes::Flag, "The pattern is plain text."),
        Field::optional(
            "case",
            Takes::OneOf(&["sensitive", "insensitive", "smart"]),
            "How letters compare: as they are (the default), alike, or alike unless the pattern has a capital.",
        ),
        Field::optional(
            "context",
            Takes::Integer { least: 0, most: 50 },
            "Lines shown before and after each hit.",
        ),
        Field::optional("before", Takes::Integer { least: 0, most: 50 }, "Lines shown before each hit."),
        Field::optional("after", Takes::Integer { least: 0, most: 50 }, "Lines shown after each hit."),
        Field::optional("include", Takes::Texts { most: 100 }, "Only files that match one of these globs."),
        Field::optional("exclude", Takes::Texts { most: 100 }, "No files that match one of these globs."),
        Field::optional(
            "max_results",
            Takes::Integer { least: 1, most: 10_000 },
            "At most so many lines, or files; 200 if absent.",
        ),
        Field::optional(
            "output",
            Takes::OneOf(&["lines", "files", "counts"]),
            "What comes back: lines (the default), files or counts.",
        ),
    ],
    output: &[
        Field::needed("files", Takes::from(0), "How many files match, of those returned."),
        Field::needed("matches", Takes::from(0), "How many lines match, of those returned."),
        OUT_TRUNCATED,
        Field::needed("timed_out", Takes::Flag, "Whether time ran out before everything was searched."),
    ],
    run,
};

fn run(desk: &Desk<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let number = |name, otherwise| arguments.number(name).unwrap_or(otherwise) as usize;
    let context = arguments.number("context").unwrap_or(0);
    let query = GrepQuery {
        syntax: if arguments.flag("literal") { Syntax::Literal } else { Syntax::Regex },
        case: match arguments.optional_text("case") {
            Some("insensitive") => Case::Insensitive,
            Some("smart") => Case::Smart,
            _ => Case::Sensitive,
        },
        before: number("before", context),
        after: number("after", context),
        include: arguments.texts("include").map(str::to_owned).collect(),
        exclude: arguments.texts("exclude").map(str::to_owned).collect(),
        max_results: number("max_results", USUAL),
        output: match arguments.optional_text("output") {
            Some("files") => Output::Files,
            Some("counts") => Output::Counts,
            _ => Output::Lines,
        },
        ..GrepQuery::new(arguments.text("pattern"))
    };
    let result = desk.vfs.grep(&query, from(arguments))?;
    let (text, cut) = told(&result, query.output);
    let mut text = or_nothing(text, "Nothing matches.\n");
    if result.truncated || cut {
        text.push_str("[there is more; narrow the pattern, the path or the globs]\n");
    }
    if result.timed_out {
        text.push_str("[time ran out; narrow the path or the globs]\n");
    }
    unread(&mut text, &result.unread);
    Ok(Reply::text(text)
        .fact("files", result.files.len())
        .fact("matches", result.files.iter().map(|file| file.count).sum::<usize>())
        .fact("truncated", result.truncated || cut)
        .fact("timed_out", result.timed_out))
}

/// The hits as lines, and whether they were too many for one call.
fn told(result: &GrepResult, output: Output) -> (String, bool) {
    let mut text = String::new();
    for FileMatch { path, count, lines } in &result.files {
        if text.len() > MOST_BYTES {
            return (text, true);
        }
        let _ = match output {
            Output::Files => writeln!(text, "{path}"),
            Output::Counts => writeln!(text, "{path}:{count}"),
            Output::Lines => Ok(()),
        };
        for line in lines {
            if text.len() > MOST_BYTES {
                return (text, true);
            }
            let mark = if line.role == LineRole::Match { ':' } else { '-' };
            let _ = writeln!(text, "{path}{mark}{}{mark}{}", line.number, line.text);
        }
    }
    (text, false)
}
