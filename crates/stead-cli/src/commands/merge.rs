use std::path::PathBuf;
use std::sync::Arc;

use stead::vfs::{MergeAction, MergeChoice, MergeConflict, MergeOptions, MergeResult, MergeRule, RulePaths};
use stead::{Stead, VfsPath};

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::{Colour, Session};
use crate::{human, json};

/// Merge a fork into the Workspace that it was made from
///
/// What the fork and the Workspace have changed is combined, by line within text files. If there is a conflict, or a path
/// that the agent may not change, nothing is changed and the reasons are listed. Afterwards the fork goes on from what the
/// Workspace has then.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The fork; OWNER/FORK for a fork of another agent of a Workspace that this one may write
    #[arg(value_name = "FORK")]
    fork: String,
    #[command(flatten)]
    choices: ChoiceArgs,
    /// Discard the fork after it was merged
    #[arg(long)]
    discard: bool,
    /// Only show what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Show each text in conflict with markers around the lines in conflict
    #[arg(long)]
    markers: bool,
}

/// What to do about paths. A glob is relative to the Workspace. For each path, the last choice that names it counts.
#[derive(Debug, clap::Args)]
pub(super) struct ChoiceArgs {
    /// Resolve conflicts with one side: `target` (or `ours`) or `fork` (or `theirs`); with `SIDE:GLOB` only for these paths
    #[arg(long, value_name = "SIDE[:GLOB]")]
    take: Vec<String>,
    /// Give a file the content of a host file: PATH=FILE
    #[arg(long, value_name = "PATH=FILE")]
    content: Vec<String>,
    /// Leave the changes of these paths out; they stay in the fork
    #[arg(long, value_name = "GLOB")]
    leave_out: Vec<String>,
}

impl ChoiceArgs {
    /// The rules, the most general ones first.
    pub(super) fn rules(&self, stead: &Stead, fork: &str) -> Result<Vec<MergeRule>, CommandError> {
        let own = stead.find_fork(fork).ok();
        let fork_prefix = VfsPath::parse(&format!("/forks/{fork}")).ok();
        let prefixes: Vec<&VfsPath> =
            own.map(|fork| &fork.base_prefix).into_iter().chain(&fork_prefix).collect();
        let parse =
            |glob: &str| -> Result<RulePaths, CommandError> { Ok(RulePaths::parse(glob, &prefixes)?) };
        let mut rules = Vec::new();
        for text in &self.take {
            let (side, glob) =
                text.split_once(':').map_or((text.as_str(), None), |(side, glob)| (side, Some(glob)));
            let choice = match side {
                "target" | "ours" => MergeChoice::TakeTarget,
                "fork" | "theirs" => MergeChoice::TakeFork,
                _ => {
                    let side = human::escape_text(side);
                    let message = format!("`{side}` isn't a side; use target (ours) or fork (theirs)");
                    return Err(stead::Error::Invalid(message).into());
                }
            };
            let paths = glob.map_or(Ok(RulePaths::All), parse)?;
            rules.push(MergeRule { paths, choice });
        }
        rules.sort_by_key(|rule| !matches!(rule.paths, RulePaths::All));
        for text in &self.content {
            let Some((path, file)) = text.split_once('=') else {
                let message = format!("`{}` has no `=`; use PATH=FILE", human::escape_text(text));
                return Err(stead::Error::Invalid(message).into());
            };
            let bytes = std::fs::read(PathBuf::from(file)).map_err(|error| {
                stead::Error::Invalid(format!("the file for `{path}` can't be read: {error}"))
            })?;
            rules.push(MergeRule { paths: parse(path)?, choice: MergeChoice::Content(Arc::new(bytes)) });
        }
        for glob in &self.leave_out {
            rules.push(MergeRule { paths: parse(glob)?, choice: MergeChoice::LeaveOut });
        }
        Ok(rules)
    }
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead_of_owner()?;
    let mut options = MergeOptions::default();
    options.dry_run = args.dry_run;
    options.with_markers = args.markers;
    options.rules = args.choices.rules(&stead, &args.fork)?;
    let result = stead.merge_fork(&args.fork, &options)?;
    let discards = args.discard && result.done && result.left_out.is_empty();
    if discards {
        stead.discard(&args.fork)?;
    }
    report(&result, &args.fork, args.dry_run, MergeKind::Merge { discarded: discards }, session)
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MergeKind {
    Merge { discarded: bool },
    Update,
}

/// Prints what was merged, or would be. With conflicts or refusals the exit code is `NEGATIVE`.
pub(super) fn report(
    result: &MergeResult,
    fork: &str,
    dry_run: bool,
    kind: MergeKind,
    session: &mut Session,
) -> CommandResult {
    let is_stopped = !result.conflicts.is_empty() || !result.refused.is_empty();
    let exit = if is_stopped { Exit::NEGATIVE } else { Exit::OK };
    if session.wants_json() {
        let discarded = kind == MergeKind::Merge { discarded: true };
        session.print_json(&json::merge_result(result, fork, dry_run, discarded))?;
        return Ok(exit);
    }
    let is_refused = is_stopped && !result.done && kind != MergeKind::Update;
    for change in result.changes.iter().filter(|_| !is_refused) {
        let (label, colour) = match change.action {
            MergeAction::Added => ("added", Colour::Green),
            MergeAction::Changed => ("changed", Colour::Blue),
            MergeAction::Merged => ("merged", Colour::Cyan),
            MergeAction::Moved => ("moved", Colour::Magenta),
            MergeAction::Attributes => ("attributes", Colour::Blue),
            MergeAction::Removed => ("removed", Colour::Red),
        };
        let from = change.from.as_ref().map_or(String::new(), |from| format!("{from} -> "));
        let label = session.paint(colour, format_args!("{label:10}"));
        session.print_line(format_args!("{label} {from}{}", change.path))?;
    }
    for conflict in &result.conflicts {
        print_conflict(conflict, session)?;
    }
    for refused in &result.refused {
        let label = session.paint(Colour::Yellow, format_args!("{:10}", "refused"));
        session.print_line(format_args!("{label} {}: {}", refused.path, refused.why))?;
    }
    for path in &result.left_out {
        let label = session.paint(Colour::Yellow, format_args!("{:10}", "left out"));
        session.print_line(format_args!("{label} {path}"))?;
    }
    say_summary(result, fork, dry_run, kind, session);
    Ok(exit)
}

fn print_conflict(conflict: &MergeConflict, session: &mut Session) -> Result<(), CommandError> {
    let label = session.paint(Colour::Yellow, format_args!("{:10}", "conflict"));
    let hunks: Vec<String> = conflict
        .hunks
        .iter()
        .map(|hunk| format!("target {}, fork {}", lines(&hunk.target), lines(&hunk.fork)))
        .collect();
    let hunks = if hunks.is_empty() { String::new() } else { format!(" ({})", hunks.join("; ")) };
    let (path, kind) = (&conflict.path, conflict.kind);
    session.print_line(format_args!("{label} {path}: {}: {}{hunks}", kind.as_str(), kind.explanation()))?;
    if let Some(marked) = &conflict.marked {
        session.print_line(format_args!("{}", human::escape_lines(&String::from_utf8_lossy(marked))))?;
    }
    Ok(())
}

/// A range of lines, for people.
fn lines(range: &std::ops::Range<usize>) -> String {
    match range.len() {
        0 => format!("before line {}", range.start),
        1 => format!("line {}", range.start),
        _ => format!("lines {} to {}", range.start, range.end - 1),
    }
}

fn say_summary(result: &MergeResult, fork: &str, dry_run: bool, kind: MergeKind, session: &mut Session) {
    let changes = human::count(result.changes.len() as u64, "change", "changes");
    let conflicts = human::count(result.conflicts.len() as u64, "conflict", "conflicts");
    let refused = human::count(
        result.refused.len() as u64,
        "path that may not be changed",
        "paths that may not be changed",
    );
    match kind {
        MergeKind::Update if dry_run => session.say(format_args!("This would be {changes}, with {conflicts}.")),
        MergeKind::Update if !result.conflicts.is_empty() => session.say(format_args!(
            "Updated the fork {fork}: {changes}. There are {conflicts}: files with the lines <<<<<<< target and >>>>>>> fork \
             have to be edited before the fork can be merged; for the others, choose with `stead merge --take`."
        )),
        MergeKind::Update if result.changes.is_empty() => session.say("Nothing to do: the fork has everything already."),
        MergeKind::Update => session.say(format_args!("Updated the fork {fork}: {changes}.")),
        MergeKind::Merge { .. } if !result.refused.is_empty() => {
            session.say(format_args!("Nothing was changed: {refused}. `--leave-out GLOB` merges the rest."));
        }
        MergeKind::Merge { .. } if !result.conflicts.is_empty() => session.say(format_args!(
            "Nothing was changed: {conflicts}. Resolve them in the fork after `stead update {fork}`, or choose with --take, \
             --content or --leave-out."
        )),
        MergeKind::Merge { .. } if dry_run => session.say(format_args!("This would be {changes}.")),
        MergeKind::Merge { discarded } => {
            let discarded = if discarded { " The fork is discarded." } else { "" };
            if result.changes.is_empty() {
                session.say(format_args!("Nothing to merge.{discarded}"));
            } else {
                session.say(format_args!("Merged the fork {fork}: {changes}; `stead undo` undoes it.{discarded}"));
            }
        }
    }
}
