//! `grep`: searches inside files.

use super::{
    NO_IGNORE, OUT_LEFT_OUT, OUT_TRUNCATED, append_left_out, append_more, append_unreadable, ignore_files,
    left_out_fact, start_path, text_or,
};
use crate::scope::Access;
use crate::search::{CaseSensitivity, GrepOutput, GrepQuery, HitLine, LineRole, Multiline, PatternSyntax};
use crate::tools::page::{MAX_REPLY_CHARACTERS, PagedText, ReplyBounds};
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Capability, Failure, Hints, OfferedWhen, Reply, Tool, ToolContext};
use crate::vfs::{FileMatch, GrepResult};

/// How many hits one call returns without `max_results`.
const DEFAULT_LIMIT: u64 = 200;

pub(in crate::tools) static TOOL: Tool = Tool {
    name: "grep",
    title: "Search inside files",
    description: "Searches text files for a regular expression (Rust syntax) and returns path:line:text. Context \
                  lines are path-line-text.",
    required_access: &[Access::Read],
    offered: OfferedWhen::Always,
    capabilities: &[Capability::BuiltIn],
    hints: Hints::READ_ONLY,
    input: &[
        Field::required("pattern", FieldType::Text, "The regular expression."),
        Field::optional("path", FieldType::Path, "A directory or file; all Workspaces if absent."),
        Field::optional("literal", FieldType::Flag, "The pattern is plain text, not a regular expression."),
        Field::optional(
            "case",
            FieldType::OneOf(&["sensitive", "insensitive", "smart"]),
            "sensitive if absent; smart: insensitive unless the pattern has a capital.",
        ),
        Field::optional(
            "context",
            FieldType::Integer { min: 0, max: 50 },
            "Lines before and after each hit.",
        ),
        Field::optional("before", FieldType::Integer { min: 0, max: 50 }, "Instead of context."),
        Field::optional("after", FieldType::Integer { min: 0, max: 50 }, "Instead of context."),
        Field::optional(
            "include",
            FieldType::TextList { max: 100 },
            "Only files that match these globs, such as *.rs.",
        ),
        Field::optional("exclude", FieldType::TextList { max: 100 }, "No files that match these globs."),
        Field::optional("type", FieldType::Text, "Only files of this type, such as rust, py or ts."),
        Field::optional("multiline", FieldType::Flag, "Matches may span lines; . matches line ends too."),
        NO_IGNORE,
        Field::optional(
            "max_results",
            FieldType::Integer { min: 1, max: 10_000 },
            "The maximum; 200 if absent.",
        ),
        Field::optional(
            "output",
            FieldType::OneOf(&["lines", "files", "counts"]),
            "lines if absent; files: only paths; counts: hits in each.",
        ),
    ],
    output: &[
        Field::required("files", FieldType::integer_from(0), "How many files match, of those returned."),
        Field::required("matches", FieldType::integer_from(0), "How many lines match, of those returned."),
        OUT_TRUNCATED,
        OUT_LEFT_OUT,
        Field::required("timed_out", FieldType::Flag, "Whether time ran out before everything was searched."),
    ],
    max_characters: Some(MAX_REPLY_CHARACTERS),
    run,
};

fn run(context: &ToolContext<'_>, arguments: &mut Arguments) -> Result<Reply, Failure> {
    let number = |name, default| arguments.number(name).unwrap_or(default) as usize;
    let context_lines = arguments.number("context").unwrap_or(0);
    let query = GrepQuery {
        syntax: if arguments.flag("literal") { PatternSyntax::Literal } else { PatternSyntax::Regex },
        case: match arguments.optional_text("case") {
            Some("insensitive") => CaseSensitivity::Insensitive,
            Some("smart") => CaseSensitivity::Smart,
            _ => CaseSensitivity::Sensitive,
        },
        before: number("before", context_lines),
        after: number("after", context_lines),
        include: arguments.texts("include").map(str::to_owned).collect(),
        exclude: arguments.texts("exclude").map(str::to_owned).collect(),
        file_types: arguments.optional_text("type").map(str::to_owned).into_iter().collect(),
        multiline: if arguments.flag("multiline") { Multiline::DotAll } else { Multiline::Off },
        ignore_files: ignore_files(arguments),
        max_results: number("max_results", DEFAULT_LIMIT),
        output: match arguments.optional_text("output") {
            Some("files") => GrepOutput::Files,
            Some("counts") => GrepOutput::Counts,
            _ => GrepOutput::Lines,
        },
        ..GrepQuery::new(arguments.text("pattern"))
    };
    let result = context.vfs.grep(&query, start_path(arguments))?;
    let HitsText { text, files, matches, truncated } = format_hits(
        &result,
        query.output,
        ReplyBounds::for_limit(arguments.number("max_results"), DEFAULT_LIMIT),
    );
    let mut text = text_or(text, "Nothing matches.\n");
    append_unreadable(&mut text, &result.unreadable);
    append_left_out(&mut text, result.left_out);
    match (result.timed_out, result.truncated || truncated) {
        (true, _) => append_more(&mut text, "time ran out; narrow the path or the globs"),
        (false, true) => {
            append_more(&mut text, "narrow the pattern, the path or the globs, or raise max_results")
        }
        (false, false) => {}
    }
    Ok(Reply::text(text)
        .fact("files", files)
        .fact("matches", matches)
        .fact("truncated", result.truncated || truncated)
        .fact("timed_out", result.timed_out)
        .optional_fact("left_out", left_out_fact(result.left_out)))
}

/// The hits as lines.
struct HitsText {
    text: String,
    /// How many files are in the text.
    files: usize,
    /// How many matching lines of these files are in the text or counted in it.
    matches: usize,
    /// Whether some hits were truncated because they exceed the bounds.
    truncated: bool,
}

fn format_hits(result: &GrepResult, output: GrepOutput, bounds: ReplyBounds) -> HitsText {
    let mut page = PagedText::new(bounds);
    let (mut files, mut matches, mut truncated) = (0, 0, false);
    for FileMatch { path, count, lines } in &result.files {
        match output {
            GrepOutput::Files | GrepOutput::Counts => {
                let is_count = output == GrepOutput::Counts;
                let line = if is_count { format!("{path}:{count}") } else { path.clone() };
                truncated = !page.push_line(&line);
                (files, matches) = if truncated { (files, matches) } else { (files + 1, matches + count) };
            }
            GrepOutput::Lines => {
                let fits = |line: &&HitLine| {
                    let separator = if line.role == LineRole::Match { ':' } else { '-' };
                    page.push_line(&format!("{path}{separator}{}{separator}{}", line.number, line.text))
                };
                let shown: Vec<_> = lines.iter().take_while(fits).collect();
                truncated = shown.len() < lines.len();
                let hits = shown.iter().filter(|line| line.role == LineRole::Match).count();
                (files, matches) = (files + usize::from(hits > 0), matches + hits);
            }
        }
        if truncated {
            break;
        }
    }
    HitsText { text: page.into_text(), files, matches, truncated }
}
