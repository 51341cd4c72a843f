use stead::history::RevertAction;
use stead::vfs::{LogEntry, LogQuery, OnConflict, RevertResult, UndoOptions, UndoTarget};
use stead::{OperationId, OperationIdPrefix, Stead};

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::{Colour, Session};
use crate::{human, json};

/// Among how many of the agent's last changes a review is looked for.
const MAX_SEARCHED: usize = 10_000;

/// Undo operations of the agent, or one of any agent by its id; later changes by others stay
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The last N operations that aren't undone yet [default: 1]
    #[arg(long, value_name = "N", conflicts_with_all = ["since", "operation"])]
    last: Option<usize>,
    /// All operations since this time: 2h, yesterday, 10:30, 2026-11-15 08:30
    #[arg(long, value_name = "TIME", conflicts_with = "operation", value_parser = super::parse_time)]
    since: Option<stead::Timestamp>,
    /// This operation, of any agent or the system, also an undo; the beginning of its id is enough
    #[arg(long, value_name = "ID")]
    operation: Option<OperationIdPrefix>,
    /// Only show what would be done (-n isn't a number here: that is --last)
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Leave paths with conflicts as they are, and undo the rest
    #[arg(long)]
    skip_conflicts: bool,
    /// Undo the last review, or the one that --operation names: what it merged into the Workspace itself
    #[arg(long, conflicts_with_all = ["last", "since"])]
    review: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let on_conflict = if args.skip_conflicts { OnConflict::Skip } else { OnConflict::Refuse };
    let stead = if args.review { session.stead_for_review()? } else { session.stead_of_owner()? };
    let result = stead.single_record("undo", None, CommandError::kind, |stead| {
        let target = match (&args.operation, args.since) {
            (None, _) if args.review => UndoTarget::Operation(last_review(stead)?),
            (Some(prefix), _) => UndoTarget::OperationOfAnyone(stead.find_operation(prefix)?),
            (None, Some(since)) => UndoTarget::Since(since),
            (None, None) => UndoTarget::Last(args.last.unwrap_or(1)),
        };
        let options = UndoOptions { dry_run: args.dry_run, on_conflict };
        Ok::<_, CommandError>(stead.vfs().undo(target, options)?)
    })?;
    if result.undone.is_empty() && result.conflicts.is_empty() {
        session.say(match args.operation {
            Some(_) => "There is nothing to undo: that operation has no effect any more.",
            None => "There is nothing to undo.",
        });
        if session.wants_json() {
            session.print_json(&json::revert_result(&result, args.dry_run))?;
        }
        return Ok(Exit::OK);
    }
    let reverted = Reverted::Operations { skip_conflicts: args.skip_conflicts };
    report_revert(&result, reverted, args.dry_run, session)
}

/// The last merge of a review fork by the agent that isn't undone.
fn last_review(stead: &Stead) -> Result<OperationId, CommandError> {
    let agent = Some(stead.vfs().identity().agent.clone());
    let entries = stead.vfs().log(&LogQuery { agent, limit: MAX_SEARCHED, ..LogQuery::default() })?;
    let is_review = |entry: &&LogEntry| {
        !entry.undone && entry.merged_fork.as_ref().is_some_and(|fork| fork.starts_with("review:"))
    };
    let last = entries.iter().find(is_review).map(|entry| entry.operation.id);
    last.ok_or_else(|| CommandError::invalid("the agent has made no review that could be undone"))
}

/// What was reverted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reverted {
    /// Operations, by an undo.
    Operations { skip_conflicts: bool },
    /// Paths, by a restore.
    Paths,
}

/// Prints what was undone or restored, or would be. With conflicts the exit code is `NEGATIVE`.
pub(super) fn report_revert(
    result: &RevertResult,
    reverted: Reverted,
    dry_run: bool,
    session: &mut Session,
) -> CommandResult {
    let skip_conflicts = reverted == Reverted::Operations { skip_conflicts: true };
    // Also for a dry run: the undo itself would be refused.
    let refused = !result.done && !result.conflicts.is_empty() && !skip_conflicts;
    let exit = if result.conflicts.is_empty() { Exit::OK } else { Exit::NEGATIVE };
    if session.wants_json() {
        session.print_json(&json::revert_result(result, dry_run))?;
        return Ok(exit);
    }
    let complete =
        result.undone.iter().map(|operation| (operation, if dry_run { "Would undo" } else { "Undid" }));
    let incomplete = result.incomplete.iter().map(|undo| {
        let verb = match (undo.is_partial, dry_run) {
            (false, _) => "Could not undo",
            (true, true) => "Would partly undo",
            (true, false) => "Partly undid",
        };
        (&undo.operation, verb)
    });
    for (operation, verb) in complete.chain(incomplete) {
        let (tool, time) = (human::escape_text(&operation.tool), human::time(Some(operation.at)));
        let verb = if refused { "Could not undo" } else { verb };
        session.say(format_args!("{verb} {tool} of {time} ({})", operation.id));
    }
    for change in result.changes.iter().filter(|_| !refused) {
        let (label, colour) = match change.action {
            RevertAction::Restored => ("restored", Colour::Green),
            RevertAction::Reverted => ("reverted", Colour::Blue),
            RevertAction::Merged => ("merged", Colour::Cyan),
            RevertAction::Moved => ("moved", Colour::Magenta),
            RevertAction::Attributes => ("attributes", Colour::Blue),
            RevertAction::Removed => ("removed", Colour::Red),
        };
        let from = change.from.as_ref().map_or(String::new(), |from| format!("{from} -> "));
        session.print_line(format_args!(
            "{} {from}{}",
            session.paint(colour, format_args!("{label:10}")),
            change.path
        ))?;
    }
    for (label, paths) in [("conflict", &result.conflicts), ("left out", &result.left_out)] {
        for conflict in paths {
            let label = session.paint(Colour::Yellow, format_args!("{label:10}"));
            session.print_line(format_args!("{label} {}: {}", conflict.path, conflict.why))?;
        }
    }
    for path in result.not_kept.iter().filter(|_| !refused) {
        let label = session.paint(Colour::Yellow, format_args!("{:10}", "not kept"));
        session.print_line(format_args!(
            "{label} {path}: its present content is too large to be kept, so this can't be undone"
        ))?;
    }
    // What can be undone in spite of the conflicts.
    let has_rest = !result.undone.is_empty() || !result.changes.is_empty();
    if refused || !has_rest && !result.conflicts.is_empty() {
        let count = human::count(result.conflicts.len() as u64, "conflict", "conflicts");
        let nothing = if dry_run { "Nothing would be changed" } else { "Nothing was changed" };
        let hint = match reverted {
            Reverted::Operations { .. } if has_rest => "; --skip-conflicts undoes the rest",
            Reverted::Operations { .. } | Reverted::Paths => "",
        };
        session.say(format_args!("{nothing}: {count}{hint}."));
    } else if result.changes.is_empty() && result.conflicts.is_empty() {
        if !result.undone.is_empty() || reverted == Reverted::Paths {
            session.say("Nothing to do: everything is already in that state.");
        }
    } else if result.done && reverted == Reverted::Paths {
        let count = human::count(result.changes.len() as u64, "change", "changes");
        let except = if result.not_kept.is_empty() { "" } else { ", except for what isn't kept" };
        session.say(format_args!("Restored with {count}; `stead undo` undoes the restore{except}."));
    }
    if !result.left_out.is_empty() {
        let count =
            human::count(result.left_out.len() as u64, "path stays as it was", "paths stay as they were");
        session.say(format_args!("{count}; see the reasons above."));
    }
    Ok(exit)
}
