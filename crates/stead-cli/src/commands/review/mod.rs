//! Reviewing a fork: what is taken is merged as one operation.

mod decisions;
mod editor;
mod prompt;

use std::io::{IsTerminal, stdin};

use stead::vfs::{MergeOptions, MergeResult, RulePaths};
use stead::{Fork, MergePlaces, Stead, VfsPath};

use super::merge::{MergeKind, print_conflict, report};
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::progress::follow_merge;
use crate::session::{Colour, Session};
use crate::{human, json};
use decisions::{Decision, ReviewedChange, count_changes, review_rules};

/// Review what a fork has changed, and take it over or refuse it
///
/// Shows each change, hunk by hunk, and asks. What is taken is merged into the Workspace as one operation; what is refused stays
/// in the fork. Without FORK, lists the forks of Workspaces with `fork` in stead.toml, or reviews it if there is only one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The fork: AGENT/FORK or AGENT/THREAD/FORK as listed, one of the agent's own, or OWNER/FORK of another agent
    #[arg(value_name = "FORK", value_parser = crate::commands::parse_fork)]
    fork: Option<String>,
    /// Only list the forks, or what the fork has changed
    #[arg(short, long, conflicts_with_all = ["take", "refuse", "drop", "interactive"])]
    list: bool,
    /// Without asking, take the changes of these paths, and refuse the others
    #[arg(long, value_name = "GLOB", num_args = 1.., conflicts_with = "interactive")]
    take: Vec<String>,
    /// Without asking, refuse the changes of these paths, and take the others unless --take is given
    #[arg(long, value_name = "GLOB", num_args = 1.., conflicts_with = "interactive")]
    refuse: Vec<String>,
    /// Remove what is refused from the fork
    #[arg(long)]
    drop: bool,
    /// Read the answers from standard input, even if it isn't a terminal
    #[arg(short, long)]
    interactive: bool,
}

impl Args {
    fn decides_by_glob(&self) -> bool {
        !self.take.is_empty() || !self.refuse.is_empty()
    }
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead_for_review()?;
    let asks = args.interactive || stdin().is_terminal() && session.is_terminal() && !session.wants_json();
    let name = match &args.fork {
        Some(name) => name.clone(),
        None => {
            let waiting = waiting_forks(&stead, session)?;
            match waiting.as_slice() {
                [(name, ..)] if !args.list && (asks || args.decides_by_glob()) => name.clone(),
                _ if args.decides_by_glob() && !waiting.is_empty() => {
                    return Err(CommandError::invalid("several forks wait for a review; name one"));
                }
                _ => return list_forks(&waiting, session),
            }
        }
    };
    let (fork, target) = stead.find_reviewable(&name)?;
    let shown = dry_run(&stead, &fork)?;
    if args.list || session.wants_json() && !args.decides_by_glob() {
        return report(&shown, &fork, true, MergeKind::ReviewList, session);
    }
    let places = stead.merge_places(&fork)?;
    // Looking at what is there now is part of the review.
    let changes = stead.compound("review", &target, CommandError::kind, |stead| {
        let present_kind = |path: &VfsPath| stead.vfs().stat(path).ok().map(|stat| stat.kind);
        Ok::<_, CommandError>(ReviewedChange::all(&shown, &places, present_kind))
    });
    let mut changes = changes?;
    if let Some(change) = changes.iter().find(|change| change.paths().next().is_none()) {
        // What can't be named can't be refused, either.
        let message = format!("`{}` can't be reviewed by itself; use `stead merge`", change.path);
        return Err(CommandError::invalid(message));
    }
    for conflict in &shown.conflicts {
        print_conflict(conflict, session)?;
    }
    // What the agent may not see is left out without a word.
    for refused in shown.refused.iter().filter(|refused| refused.path != target) {
        let label = session.paint(Colour::Yellow, format_args!("{:10}", "refused"));
        session.print_line(format_args!("{label} {}: {}", refused.path, refused.why))?;
    }
    if args.decides_by_glob() {
        let in_conflict: Vec<_> =
            shown.conflicts.iter().filter_map(|conflict| places.rule_path(&conflict.path)).collect();
        decide_by_glob(&mut changes, &in_conflict, &args, &target)?;
    } else if asks {
        prompt::ask_all(&mut changes, session)?;
    } else {
        return Err(CommandError::invalid(
            "a review asks questions, and this isn't a terminal; use --list, --take, --refuse or --interactive",
        ));
    }
    take_over(&stead, &fork, &places, &shown, &changes, &args, session)
}

/// The review forks that have changes, each with its name and the number of them. A fork that can't be read now is only warned
/// of.
fn waiting_forks(stead: &Stead, session: &mut Session) -> Result<Vec<(String, Fork, u64)>, CommandError> {
    let mut waiting = Vec::new();
    for mut fork in stead.review_forks()? {
        let name = format!("{}/{}", fork.owner, fork.name);
        let shown = stead.find_reviewable(&name).map_err(CommandError::from).and_then(|(_, target)| {
            let shown = dry_run(stead, &name)?;
            Ok((target, shown))
        });
        let (target, shown) = match shown {
            Ok(shown) => shown,
            Err(error) => {
                session.warn(format_args!("{}: {}", short_name(&name), error.message()));
                continue;
            }
        };
        let visible = shown.refused.iter().filter(|refused| refused.path != target).count();
        let count = count_changes(&shown) + shown.conflicts.len() + visible;
        fork.base_prefix = target;
        if count > 0 {
            waiting.push((name, fork, count as u64));
        }
    }
    Ok(waiting)
}

/// The name of a fork as people write it.
fn short_name(name: &str) -> &str {
    name.strip_prefix("review:").unwrap_or(name)
}

fn dry_run(stead: &Stead, fork: &str) -> Result<MergeResult, CommandError> {
    let mut options = MergeOptions::default();
    (options.dry_run, options.with_contents) = (true, true);
    Ok(stead.merge_fork(fork, &options)?)
}

fn list_forks(waiting: &[(String, Fork, u64)], session: &mut Session) -> CommandResult {
    for (name, fork, count) in waiting {
        if session.wants_json() {
            session.print_json(&json::fork(fork, false))?;
            continue;
        }
        let shown = short_name(name);
        let changes = human::count(*count, "change", "changes");
        session
            .print_line(format_args!("{shown}  of {}, {changes}, made {}", fork.base_prefix, fork.created))?;
    }
    match waiting.is_empty() {
        true => session.say("Nothing waits for a review."),
        false => session.say("Review one with `stead review FORK`."),
    }
    Ok(Exit::OK)
}

/// `in_conflict` are the paths that no glob can take, because they are in conflict.
fn decide_by_glob(
    changes: &mut [ReviewedChange<'_>],
    in_conflict: &[String],
    args: &Args,
    target: &VfsPath,
) -> Result<(), CommandError> {
    let parse = |globs: &[String]| -> Result<Vec<RulePaths>, CommandError> {
        let parsed = globs.iter().map(|glob| Ok(RulePaths::parse(glob, &[target])?));
        parsed.collect()
    };
    let (take, refuse) = (parse(&args.take)?, parse(&args.refuse)?);
    let given = args
        .take
        .iter()
        .map(|text| ("--take", text))
        .chain(args.refuse.iter().map(|text| ("--refuse", text)));
    for ((option, text), glob) in given.zip(take.iter().chain(&refuse)) {
        let is_change = changes.iter().any(|change| change.paths().any(|path| glob.matches(path)));
        if !is_change && !in_conflict.iter().any(|path| glob.matches(path)) {
            return Err(CommandError::invalid(format!(
                "{option} {} matches none of the changes, so nothing was taken or dropped",
                human::escape_text(text)
            )));
        }
    }
    for change in changes {
        let is_in =
            |globs: &[RulePaths]| globs.iter().any(|glob| change.paths().any(|path| glob.matches(path)));
        let is_taken = (take.is_empty() || is_in(&take)) && !is_in(&refuse);
        change.decide(if is_taken { Decision::Take } else { Decision::Refuse });
    }
    Ok(())
}

/// Merges what was taken.
fn take_over(
    stead: &Stead,
    fork: &str,
    places: &MergePlaces,
    shown: &MergeResult,
    changes: &[ReviewedChange<'_>],
    args: &Args,
    session: &mut Session,
) -> CommandResult {
    let is_stopped = !shown.conflicts.is_empty() || !shown.refused.is_empty();
    let exit = if is_stopped { Exit::NEGATIVE } else { Exit::OK };
    let rules = review_rules(changes, shown, places, args.drop);
    if !rules.takes && rules.dropped.is_empty() {
        session.say(match changes.is_empty() {
            true => "There is nothing to take.",
            false => "Nothing was taken.",
        });
        if !shown.conflicts.is_empty() {
            say_how_to_resolve(fork, session);
        }
        return Ok(exit);
    }
    let mut options = MergeOptions::default();
    (options.fork_state, options.rules) = (shown.fork_state, rules.rules);
    let result = follow_merge(session, stead, "Merging", |stead| stead.merge_fork(fork, &options))?;
    let shows_dropped = result.done && !session.wants_json();
    for path in rules.dropped.iter().filter(|_| shows_dropped) {
        let label = session.paint(Colour::Red, format_args!("{:10}", "dropped"));
        session.print_line(format_args!("{label} {path}"))?;
    }
    let reported = report(&result, fork, false, MergeKind::Merge { discarded: false }, session)?;
    if is_stopped {
        say_how_to_resolve(fork, session);
    }
    Ok(exit.max(reported))
}

fn say_how_to_resolve(fork: &str, session: &mut Session) {
    session.say(format_args!(
        "What is in conflict or may not be changed stays in the fork; `stead merge {fork} --take SIDE` resolves conflicts."
    ));
}
