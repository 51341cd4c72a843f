use stead::OperationId;
use stead::history::RevertAction;
use stead::vfs::{OnConflict, RevertResult, UndoOptions, UndoTarget};

use crate::command_error::{CommandResult, Exit};
use crate::session::{Colour, Session};
use crate::{human, json};

/// Undo operations of the agent; later changes by others stay
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The last N operations that aren't undone yet [default: 1]
    #[arg(long, value_name = "N", conflicts_with_all = ["since", "operation"])]
    last: Option<usize>,
    /// All operations since this time: 2026-11-15T08:30:00Z, or 2h, 30m, 7d ago
    #[arg(long, value_name = "TIME", conflicts_with = "operation", value_parser = super::parse_time)]
    since: Option<stead::Timestamp>,
    /// This operation; it may be an undo itself
    #[arg(long, value_name = "ID")]
    operation: Option<OperationId>,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Leave paths with conflicts as they are, and undo the rest
    #[arg(long)]
    skip_conflicts: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let what = match (args.operation, args.since) {
        (Some(id), _) => UndoTarget::Operation(id),
        (None, Some(since)) => UndoTarget::Since(since),
        (None, None) => UndoTarget::Last(args.last.unwrap_or(1)),
    };
    let on_conflict = if args.skip_conflicts { OnConflict::Skip } else { OnConflict::Refuse };
    let undone = session.vfs("undo")?.undo(what, UndoOptions { dry_run: args.dry_run, on_conflict })?;
    if undone.undone.is_empty() && undone.conflicts.is_empty() {
        session.say(match what {
            UndoTarget::Operation(_) => "There is nothing to undo: that operation has no effect any more.",
            UndoTarget::Last(_) | UndoTarget::Since(_) => "There is nothing to undo.",
        });
        if session.wants_json() {
            session.print_json(&json::undone(&undone, args.dry_run))?;
        }
        return Ok(Exit::OK);
    }
    let what = Reverted::Operations { skip_conflicts: args.skip_conflicts };
    report_undone(&undone, what, args.dry_run, session)
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
pub(super) fn report_undone(
    undone: &RevertResult,
    what: Reverted,
    dry_run: bool,
    session: &mut Session,
) -> CommandResult {
    let skips = what == Reverted::Operations { skip_conflicts: true };
    // Also for a dry run: the undo itself would be refused.
    let refused = !undone.done && !undone.conflicts.is_empty() && !skips;
    let exit = if undone.conflicts.is_empty() { Exit::OK } else { Exit::NEGATIVE };
    if session.wants_json() {
        session.print_json(&json::undone(undone, dry_run))?;
        return Ok(exit);
    }
    let whole =
        undone.undone.iter().map(|operation| (operation, if dry_run { "Would undo" } else { "Undid" }));
    let incomplete = undone.incomplete.iter().map(|one| {
        let verb = match (one.is_partial, dry_run) {
            (false, _) => "Could not undo",
            (true, true) => "Would partly undo",
            (true, false) => "Partly undid",
        };
        (&one.operation, verb)
    });
    for (operation, verb) in whole.chain(incomplete) {
        let (tool, time) = (human::escape_text(&operation.tool), human::time(Some(operation.at)));
        let verb = if refused { "Could not undo" } else { verb };
        session.say(format_args!("{verb} {tool} of {time} ({})", operation.id));
    }
    for change in undone.changes.iter().filter(|_| !refused) {
        let (word, colour) = match change.action {
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
            session.paint(colour, format_args!("{word:10}")),
            change.path
        ))?;
    }
    for (word, stays) in [("conflict", &undone.conflicts), ("left out", &undone.left_out)] {
        for one in stays {
            let word = session.paint(Colour::Yellow, format_args!("{word:10}"));
            session.print_line(format_args!("{word} {}: {}", one.path, one.why))?;
        }
    }
    // What can be undone in spite of the conflicts.
    let has_rest = !undone.undone.is_empty() || !undone.changes.is_empty();
    if refused || !has_rest && !undone.conflicts.is_empty() {
        let count = human::count(undone.conflicts.len() as u64, "conflict", "conflicts");
        let nothing = if dry_run { "Nothing would be changed" } else { "Nothing was changed" };
        let hint = match what {
            Reverted::Operations { .. } if has_rest => "; --skip-conflicts undoes the rest",
            Reverted::Operations { .. } | Reverted::Paths => "",
        };
        session.say(format_args!("{nothing}: {count}{hint}."));
    } else if undone.changes.is_empty() && undone.conflicts.is_empty() {
        if !undone.undone.is_empty() || what == Reverted::Paths {
            session.say("Nothing to do: everything is already in that state.");
        }
    } else if undone.done && what == Reverted::Paths {
        let count = human::count(undone.changes.len() as u64, "change", "changes");
        session.say(format_args!("Restored with {count}; `stead undo` undoes the restore."));
    }
    if !undone.left_out.is_empty() {
        let count =
            human::count(undone.left_out.len() as u64, "path stays as it was", "paths stay as they were");
        session.say(format_args!("{count}; see the reasons above."));
    }
    Ok(exit)
}
