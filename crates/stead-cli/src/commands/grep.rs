use std::time::Duration;

use serde_json::{Value, json};
use stead::search::{CaseSensitivity, GrepOutput, GrepQuery, LineRole, PatternSyntax};
use stead::vfs::{FileMatch, GrepResult};

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::{AsOfArg, Colour, Session};
use crate::{human, json};

/// Find text in files; exits with 1 if nothing matches
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A regular expression
    pattern: String,
    /// The file or directory to search
    #[arg(default_value = "/")]
    path: String,
    /// Ignore case
    #[arg(short, long)]
    ignore_case: bool,
    /// The pattern is plain text, not a regular expression
    #[arg(short = 'F', long)]
    fixed_strings: bool,
    /// Show this many lines around each match
    #[arg(short = 'C', long, value_name = "N", default_value_t = 0)]
    context: usize,
    /// Show this many lines after each match
    #[arg(short = 'A', long, value_name = "N")]
    after: Option<usize>,
    /// Show this many lines before each match
    #[arg(short = 'B', long, value_name = "N")]
    before: Option<usize>,
    /// Only files that match this glob; may be repeated
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Skip files that match this glob; may be repeated
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Show only the names of files with a match
    #[arg(short = 'l', long, conflicts_with = "count")]
    files: bool,
    /// Show only how many lines match in each file
    #[arg(short, long)]
    count: bool,
    /// Show at most this many matches
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = human::parse_positive)]
    max: usize,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    timeout: u64,
    #[command(flatten)]
    at: AsOfArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let output = match (args.files, args.count) {
        (true, _) => GrepOutput::Files,
        (_, true) => GrepOutput::Counts,
        _ => GrepOutput::Lines,
    };
    let query = GrepQuery {
        syntax: if args.fixed_strings { PatternSyntax::Literal } else { PatternSyntax::Regex },
        case: if args.ignore_case { CaseSensitivity::Insensitive } else { CaseSensitivity::Sensitive },
        before: args.before.unwrap_or(args.context),
        after: args.after.unwrap_or(args.context),
        include: args.include,
        exclude: args.exclude,
        max_results: args.max,
        output,
        time_limit: Duration::from_secs(args.timeout),
        ..GrepQuery::new(args.pattern)
    };
    let result = session.compound("grep", &stead, (&args.at, &args.path), |_, stead| {
        Ok(stead.vfs().grep(&query, &args.path)?)
    })?;
    if session.wants_json() {
        session.print_json(&json_document(&result))?;
    } else {
        for file in &result.files {
            match output {
                GrepOutput::Files => session.print_line(session.paint(Colour::Magenta, &file.path))?,
                GrepOutput::Counts => {
                    session.print_line(format_args!(
                        "{}:{}",
                        session.paint(Colour::Magenta, &file.path),
                        file.count
                    ))?;
                }
                GrepOutput::Lines => print_matches(file, session)?,
            }
        }
    }
    if result.truncated {
        session.say(format_args!("There are more than {} matches; raise --max to see them.", args.max));
    }
    if result.timed_out {
        session.say(format_args!("Stopped after {} s; raise --timeout to search further.", args.timeout));
    }
    session.warn_unreadable(&result.unreadable);
    Ok(if result.files.is_empty() { Exit::NEGATIVE } else { Exit::OK })
}

/// Prints the hits of one file: `path:3:text` for a hit, `path-2-text` for a line of context.
fn print_matches(file: &FileMatch, session: &mut Session) -> Result<(), CommandError> {
    let path = session.paint(Colour::Magenta, &file.path);
    let mut next = None;
    for line in &file.lines {
        if next.is_some_and(|next| next != line.number)
            && file.lines.iter().any(|line| line.role == LineRole::Context)
        {
            session.print_line("--")?;
        }
        next = Some(line.number + 1);
        let separator = if line.role == LineRole::Match { ':' } else { '-' };
        let number = session.paint(Colour::Green, line.number);
        let text = if session.is_terminal() { human::escape_text(&line.text) } else { line.text.clone() };
        session.print_line(format_args!("{path}{separator}{number}{separator}{text}"))?;
    }
    Ok(())
}

fn json_document(result: &GrepResult) -> Value {
    let to_json = |file: &FileMatch| {
        let lines: Vec<_> = file
            .lines
            .iter()
            .map(|line| {
                json!({ "number": line.number, "text": line.text, "match": line.role == LineRole::Match })
            })
            .collect();
        json!({ "path": file.path, "count": file.count, "lines": lines })
    };
    json!({
        "files": result.files.iter().map(to_json).collect::<Vec<_>>(),
        "truncated": result.truncated,
        "timed_out": result.timed_out,
        "unread": json::unreadable(&result.unreadable),
    })
}
