//! `grep`: files by their content.

use super::{OUT_TRUNCATED, from, more, or_nothing, unread};
use crate::scope::Access;
use crate::search::{Case, GrepQuery, LineRole, Output, Syntax};
use crate::tools::page::{Bounds, MOST_CHARACTERS, Paged};
use crate::tools::schema::{Field, Takes};
use crate::tools::{Arguments, Capability, Desk, Failure, Hints, Offered, Reply, Tool};
use crate::vfs::{FileMatch, GrepResult};

/// How many hits one call returns unless told otherwise.
const USUAL: u64 = 200;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "grep",
    title: "Search inside files",
    description: "Searches text files for a regular expression (Rust syntax) and returns path:line:text. Lines of context \
                  are path-line-text.",
    needs: &[Access::Read],
    offered: Offered::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::LOOKS,
    input: &[
        Field::needed("pattern", Takes::Text, "The regular expression."),
        Field::optional("path", Takes::Path, "A directory or file; all Workspaces if absent."),
        Field::optional("literal", Takes::Flag, "The pattern is plain text, not a regular expression."),
        Field::optional(
            "case",
            Takes::OneOf(&["sensitive", "insensitive", "smart"]),
            "sensitive if absent; smart: insensitive unless the pattern has a capital.",
        ),
        Field::optional("context", Takes::Integer { least: 0, most: 50 }, "Lines before and after each hit."),
        Field::optional("before", Takes::Integer { least: 0, most: 50 }, "Instead of context."),
        Field::optional("after", Takes::Integer { least: 0, most: 50 }, "Instead of context."),
        Field::optional(
            "include",
            Takes::Texts { most: 100 },
            "Only files that match these globs, such as *.rs.",
        ),
        Field::optional("exclude", Takes::Texts { most: 100 }, "No files that match these globs."),
        Field::optional(
            "max_results",
            Takes::Integer { least: 1, most: 10_000 },
            "At most so many; 200 if absent.",
        ),
        Field::optional(
            "output",
            Takes::OneOf(&["lines", "files", "counts"]),
            "lines if absent; files: only paths; counts: hits in each.",
        ),
    ],
    output: &[
        Field::needed("files", Takes::from(0), "How many files match, of those returned."),
        Field::needed("matches", Takes::from(0), "How many lines match, of those returned."),
        OUT_TRUNCATED,
        Field::needed("timed_out", Takes::Flag, "Whether time ran out before everything was searched."),
    ],
    longest: Some(MOST_CHARACTERS),
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
    let (text, cut) = told(&result, query.output, Bounds::of(arguments.number("max_results"), USUAL));
    let mut text = or_nothing(text, "Nothing matches.\n");
    unread(&mut text, &result.unread);
    match (result.timed_out, result.truncated || cut) {
        (true, _) => more(&mut text, "time ran out; narrow the path or the globs"),
        (false, true) => more(&mut text, "narrow the pattern, the path or the globs, or raise max_results"),
        (false, false) => {}
    }
    Ok(Reply::text(text)
        .fact("files", result.files.len())
        .fact("matches", result.files.iter().map(|file| file.count).sum::<usize>())
        .fact("truncated", result.truncated || cut)
        .fact("timed_out", result.timed_out))
}

/// The hits as lines, and whether they were too many for one call.
fn told(result: &GrepResult, output: Output, bounds: Bounds) -> (String, bool) {
    let mut page = Paged::new(bounds);
    for FileMatch { path, count, lines } in &result.files {
        let fits = match output {
            Output::Files => page.line(path),
            Output::Counts => page.line(&format!("{path}:{count}")),
            Output::Lines => lines.iter().all(|line| {
                let mark = if line.role == LineRole::Match { ':' } else { '-' };
                page.line(&format!("{path}{mark}{}{mark}{}", line.number, line.text))
            }),
        };
        if !fits {
            return (page.into_text(), true);
        }
    }
    (page.into_text(), false)
}
