use stead::history::diff::ContentDiff;
use stead::vfs::{DiffOptions, Difference, DifferenceKind};

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::{Colour, Session};
use crate::{human, json};

/// Show the differences between two versions, snapshots or times, or between a fork and its base
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The Workspace, or a path in one
    #[arg(value_name = "PREFIX", required_unless_present = "fork")]
    prefix: Option<String>,
    /// The first version: its number, a snapshot's label or #number, a time, or an age (2h)
    #[arg(value_name = "A", required_unless_present = "fork")]
    from: Option<String>,
    /// The second version
    #[arg(value_name = "B", default_value = "now")]
    to: String,
    /// Compare this fork with its base as it was when the fork was made
    #[arg(long, value_name = "FORK", conflicts_with_all = ["prefix", "from"])]
    fork: Option<String>,
    /// Only list the paths that differ
    #[arg(long)]
    stat: bool,
    /// Show this many lines around each difference
    #[arg(short = 'U', long, value_name = "N", default_value_t = 3)]
    unified: usize,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let options = DiffOptions { text: !args.stat, context: args.unified };
    let differences = match (&args.fork, &args.prefix, &args.from) {
        (None, Some(prefix), Some(from)) => {
            stead.single_record("diff", Some(prefix), CommandError::kind, |stead| {
                let (from, to) =
                    (stead.resolve_point(&**prefix, from)?, stead.resolve_point(&**prefix, &args.to)?);
                Ok::<_, CommandError>(stead.vfs().diff(&**prefix, from, to, options)?)
            })?
        }
        (fork, ..) => stead.diff_fork(fork.as_deref().unwrap_or_default(), options)?,
    };
    for difference in &differences {
        if session.wants_json() {
            session.print_json(&json::difference(difference))?;
        } else if args.stat {
            print_summary(difference, session)?;
        } else {
            print_difference(difference, session)?;
        }
    }
    if differences.is_empty() {
        session.say("There are no differences.");
    }
    Ok(Exit::OK)
}

fn print_summary(difference: &Difference, session: &mut Session) -> Result<(), CommandError> {
    let (letter, colour) = match difference.difference {
        DifferenceKind::Added => ('A', Colour::Green),
        DifferenceKind::Changed => ('M', Colour::Blue),
        DifferenceKind::Moved => ('R', Colour::Magenta),
        DifferenceKind::Removed => ('D', Colour::Red),
    };
    let from = difference.from.as_ref().map_or(String::new(), |from| format!("{from} -> "));
    let suffix = human::kind_suffix(difference.kind);
    session.print_line(format_args!("{} {from}{}{suffix}", session.paint(colour, letter), difference.path))
}

/// Prints one difference in the style of `git diff`.
fn print_difference(difference: &Difference, session: &mut Session) -> Result<(), CommandError> {
    let old = difference.from.as_ref().unwrap_or(&difference.path);
    let suffix = human::kind_suffix(difference.kind);
    let heading = match difference.difference {
        DifferenceKind::Added => format!("added {}{suffix}", difference.path),
        DifferenceKind::Changed => format!("changed {}{suffix}", difference.path),
        DifferenceKind::Moved => format!("moved {old} -> {}{suffix}", difference.path),
        DifferenceKind::Removed => format!("removed {}{suffix}", difference.path),
    };
    session.print_line(session.paint(Colour::Bold, heading))?;
    if let Some((before, after)) = difference.modes {
        session.print_line(format_args!("mode {before:04o} -> {after:04o}"))?;
    }
    match &difference.content {
        None => Ok(()),
        Some(ContentDiff::Binary) => {
            let (before, after) = difference.sizes;
            session.print_line(format_args!("binary: {} -> {}", human::size(before), human::size(after)))
        }
        Some(ContentDiff::Text(text)) => {
            let side = |exists: bool, path: &stead::VfsPath, letter: char| {
                if exists { format!("{letter}{path}") } else { "/dev/null".to_owned() }
            };
            let before = side(difference.difference != DifferenceKind::Added, old, 'a');
            let after = side(difference.difference != DifferenceKind::Removed, &difference.path, 'b');
            session.print_line(session.paint(Colour::Bold, format_args!("--- {before}")))?;
            session.print_line(session.paint(Colour::Bold, format_args!("+++ {after}")))?;
            for line in text.lines() {
                let colour = match line.bytes().next() {
                    Some(b'+') => Some(Colour::Green),
                    Some(b'-') => Some(Colour::Red),
                    Some(b'@') => Some(Colour::Cyan),
                    _ => None,
                };
                // A file's content must not control the terminal. Elsewhere it is printed unchanged.
                let line = if session.is_terminal() { human::escape_text(line) } else { line.to_owned() };
                match colour {
                    Some(colour) => session.print_line(session.paint(colour, line))?,
                    None => session.print_line(line)?,
                }
            }
            Ok(())
        }
    }
}
