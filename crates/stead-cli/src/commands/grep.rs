use std::time::Duration;

use serde_json::{Value, json};
use stead::search::{
    CaseSensitivity, GrepOutput, GrepQuery, HitLine, IgnoreFiles, LineRole, Multiline, PatternSyntax,
};
use stead::vfs::{FileMatch, GrepResult};

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::{AsOfArg, Colour, IgnoreArg, Session};
use crate::{human, json};

/// Find text in files; exits with 1 if nothing matches
///
/// What .gitignore, .ignore and .git/info/exclude name is left out, and so is .git. A PATH is always searched.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "stead grep [OPTIONS] <PATTERN> [PATH]...\n       stead grep [OPTIONS] -e <PATTERN> [PATH]..."
)]
pub(crate) struct Args {
    /// A regular expression; with -e, the first PATH
    #[arg(required_unless_present = "regexp")]
    pattern: Option<String>,
    /// The files and directories to search [default: /]
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
    /// A regular expression; may be repeated
    #[arg(short = 'e', long, value_name = "PATTERN", allow_hyphen_values = true)]
    regexp: Vec<String>,
    /// Ignore case
    #[arg(short, long)]
    ignore_case: bool,
    /// Ignore case unless the pattern has a capital letter
    #[arg(short = 'S', long, conflicts_with = "ignore_case")]
    smart_case: bool,
    /// The pattern is plain text, not a regular expression
    #[arg(short = 'F', long)]
    fixed_strings: bool,
    /// Match whole words only
    #[arg(short, long)]
    word_regexp: bool,
    /// Show the lines that don't match
    #[arg(short = 'v', long)]
    invert_match: bool,
    /// A match may span several lines
    #[arg(short = 'U', long)]
    multiline: bool,
    /// With --multiline, `.` matches line ends too
    #[arg(long, requires = "multiline")]
    multiline_dotall: bool,
    /// Show this many lines around each match
    #[arg(short = 'C', long, value_name = "N", default_value_t = 0)]
    context: usize,
    /// Show this many lines after each match
    #[arg(short = 'A', long, alias = "after", value_name = "N")]
    after_context: Option<usize>,
    /// Show this many lines before each match
    #[arg(short = 'B', long, alias = "before", value_name = "N")]
    before_context: Option<usize>,
    /// Only files that match this glob, or with a ! before it, no such files; may be repeated
    #[arg(short, long, value_name = "GLOB")]
    glob: Vec<String>,
    /// Only files that match this glob; may be repeated
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Skip files that match this glob; may be repeated
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Only files of this type, such as rust, py or ts; may be repeated
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    file_types: Vec<String>,
    /// Show only the names of files with a match
    #[arg(short = 'l', long, alias = "files", conflicts_with = "count")]
    files_with_matches: bool,
    /// Show only how many lines match in each file
    #[arg(short, long)]
    count: bool,
    /// Show only the text that matches
    #[arg(short, long, conflicts_with_all = ["files_with_matches", "count", "invert_match"])]
    only_matching: bool,
    /// Show nothing; the exit code says whether there is a match
    #[arg(short, long)]
    quiet: bool,
    /// Show at most this many matches
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = human::parse_positive)]
    max: usize,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    timeout: u64,
    #[command(flatten)]
    ignore: IgnoreArg,
    #[command(flatten)]
    habits: Habits,
    #[command(flatten)]
    at: AsOfArg,
}

/// Flags of grep and ripgrep that ask for what happens anyway, or for what can't be done.
#[derive(Debug, clap::Args)]
struct Habits {
    /// Directories are always searched with everything below them
    #[arg(short, long, short_alias = 'R', hide = true)]
    recursive: bool,
    /// Lines always have their numbers
    #[arg(short = 'n', long, hide = true)]
    line_number: bool,
    /// Lines always have their path
    #[arg(short = 'H', long, hide = true)]
    with_filename: bool,
    /// Every pattern is an extended regular expression
    #[arg(short = 'E', long, hide = true)]
    extended_regexp: bool,
    /// Refused: the engine has no look-around
    #[arg(short = 'P', long, hide = true)]
    perl_regexp: bool,
    /// ripgrep's short form of --no-ignore
    #[arg(short = 'u', action = clap::ArgAction::Count, hide = true)]
    unrestricted: u8,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    if args.habits.perl_regexp {
        return Err(CommandError::invalid(
            "-P isn't available: patterns have no look-around and no backreferences. Leave -P out if the pattern has none",
        ));
    }
    let query = query(&args, session.is_styled() || args.only_matching);
    // With -e, the first argument is a path.
    let first_path = args.pattern.as_ref().filter(|_| !args.regexp.is_empty());
    let mut paths: Vec<&String> = first_path.into_iter().chain(&args.paths).collect();
    let root = "/".to_owned();
    if paths.is_empty() {
        paths.push(&root);
    }
    let stead = session.stead()?;
    let (mut all, mut is_answered) = (GrepResult::default(), false);
    let exit = session.for_each(paths, |session, path| {
        let found = all.files.iter().map(|file| result_count(file, &query)).sum::<usize>();
        // If enough is found already, one more match shows that there are more.
        let query = GrepQuery { max_results: (args.max - found.min(args.max)).max(1), ..query.clone() };
        let result = session
            .compound("grep", &stead, (&args.at, path), |_, stead| Ok(stead.vfs().grep(&query, path)?))?;
        is_answered = true;
        all.truncated |= result.truncated || (found == args.max && !result.files.is_empty());
        all.timed_out |= result.timed_out;
        all.left_out = all.left_out.or(result.left_out);
        all.unreadable.extend(result.unreadable);
        if found < args.max {
            all.files.extend(result.files);
        }
        Ok(())
    })?;
    if is_answered && !args.quiet {
        print(&all, &args, &query, session)?;
    }
    session.warn_unreadable(&all.unreadable);
    Ok(if all.files.is_empty() { exit.max(Exit::NEGATIVE) } else { exit })
}

fn query(args: &Args, spans: bool) -> GrepQuery {
    let patterns =
        if args.regexp.is_empty() { args.pattern.iter().cloned().collect() } else { args.regexp.clone() };
    let excluded = args.glob.iter().filter_map(|glob| glob.strip_prefix('!')).map(str::to_owned);
    let included = args.glob.iter().filter(|glob| !glob.starts_with('!')).cloned();
    GrepQuery {
        patterns,
        syntax: if args.fixed_strings { PatternSyntax::Literal } else { PatternSyntax::Regex },
        multiline: match (args.multiline, args.multiline_dotall) {
            (false, _) => Multiline::Off,
            (true, false) => Multiline::On,
            (true, true) => Multiline::DotAll,
        },
        words: args.word_regexp,
        invert: args.invert_match,
        case: match (args.ignore_case, args.smart_case) {
            (true, _) => CaseSensitivity::Insensitive,
            (false, true) => CaseSensitivity::Smart,
            (false, false) => CaseSensitivity::Sensitive,
        },
        before: args.before_context.unwrap_or(args.context),
        after: args.after_context.unwrap_or(args.context),
        include: args.include.iter().cloned().chain(included).collect(),
        exclude: args.exclude.iter().cloned().chain(excluded).collect(),
        file_types: args.file_types.clone(),
        ignore_files: match args.habits.unrestricted {
            0 => args.ignore.ignore_files(),
            _ => IgnoreFiles::Disregarded,
        },
        max_results: args.max,
        output: match (args.files_with_matches || args.quiet, args.count) {
            (true, _) => GrepOutput::Files,
            (false, true) => GrepOutput::Counts,
            (false, false) => GrepOutput::Lines,
        },
        spans,
        time_limit: Duration::from_secs(args.timeout),
    }
}

/// How much a file counts towards `--max`.
fn result_count(file: &FileMatch, query: &GrepQuery) -> usize {
    if query.output == GrepOutput::Lines { file.count } else { 1 }
}

fn print(
    result: &GrepResult,
    args: &Args,
    query: &GrepQuery,
    session: &mut Session,
) -> Result<(), CommandError> {
    if session.wants_json() {
        return session.print_json(&json_document(result));
    }
    session.use_pager();
    for file in &result.files {
        match query.output {
            GrepOutput::Files => session.print_line(session.paint(Colour::Magenta, &file.path))?,
            GrepOutput::Counts => {
                let path = session.paint(Colour::Magenta, &file.path);
                session.print_line(format_args!("{path}:{}", file.count))?;
            }
            GrepOutput::Lines if args.only_matching => print_spans(file, session)?,
            GrepOutput::Lines => print_lines(file, session)?,
        }
    }
    if result.truncated {
        session.say(format_args!("There are more than {} matches; raise --max to see them.", args.max));
    }
    if result.timed_out {
        session.say(format_args!("Stopped after {} s; raise --timeout to search further.", args.timeout));
    }
    session.say_left_out(result.left_out);
    Ok(())
}

/// Prints the hits of one file: `path:3:text` for a hit, `path-2-text` for a line of context.
fn print_lines(file: &FileMatch, session: &mut Session) -> Result<(), CommandError> {
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
        let text = highlighted(line, session);
        session.print_line(format_args!("{path}{separator}{number}{separator}{text}"))?;
    }
    Ok(())
}

/// Prints each match of one file on a line of its own.
fn print_spans(file: &FileMatch, session: &mut Session) -> Result<(), CommandError> {
    let path = session.paint(Colour::Magenta, &file.path);
    for line in &file.lines {
        let number = session.paint(Colour::Green, line.number);
        for span in &line.spans {
            let text = session.paint(Colour::Red, shown(&line.text[span.clone()], session));
            session.print_line(format_args!("{path}:{number}:{text}"))?;
        }
    }
    Ok(())
}

/// The text of a line with its matches in colour.
fn highlighted(line: &HitLine, session: &Session) -> String {
    let mut text = String::new();
    let mut end = 0;
    for span in &line.spans {
        text.push_str(&shown(&line.text[end..span.start], session));
        text.push_str(&session.paint(Colour::Red, shown(&line.text[span.clone()], session)));
        end = span.end;
    }
    text.push_str(&shown(&line.text[end..], session));
    text
}

/// Text as it is shown: on a terminal without control characters.
fn shown(text: &str, session: &Session) -> String {
    if session.is_terminal() { human::escape_text(text) } else { text.to_owned() }
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
        "left_out": json::left_out(result.left_out),
    })
}
