use std::path::PathBuf;
use std::sync::Arc;

use stead::vfs::{MergeAction, MergeChoice, MergeConflict, MergeOptions, MergeResult, MergeRule, RulePaths};
use stead::{Stead, VfsPath};

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::progress::follow_merge;
use crate::session::{Colour, Session};
use crate::{human, json};

/// Merge a fork into the Workspace that it was made from
///
/// What the fork and the Workspace have changed is combined, by line within text files. If there is a conflict, or a path
/// that the agent may not change, nothing is changed and the reasons are listed. Afterwards the fork goes on from what the
/// Workspace has then. Nested Workspaces that were forked with it are merged with it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The fork; OWNER/FORK for a fork of another agent of a Workspace that this one may write
    #[arg(value_name = "FORK", value_parser = crate::commands::parse_fork)]
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
    /// The paths that --take is about; without a glob, it is about all conflicts
    #[arg(value_name = "GLOB", requires = "take")]
    globs: Vec<String>,
    /// Resolve conflicts with one side: `target` (or `ours`) or `fork` (or `theirs`); `SIDE:GLOB` to give each side its paths
    #[arg(long, value_name = "SIDE[:GLOB]")]
    take: Vec<String>,
    /// Give the one file at PATH, which is merged or in conflict, the content of the host's FILE
    #[arg(long, num_args = 2, value_names = ["PATH", "FILE"])]
    content: Vec<String>,
    /// Leave the changes of these paths out; they stay in the fork
    #[arg(long, value_name = "GLOB")]
    leave: Vec<String>,
    /// Leave out what the agent may not see: hidden names
    #[arg(long)]
    leave_hidden: bool,
}

impl ChoiceArgs {
    /// The rules, the most general ones first.
    pub(super) fn rules(&self, stead: &Stead, fork: &str) -> Result<Vec<MergeRule>, CommandError> {
        let prefixes = prefixes_of(stead, fork);
        let prefixes: Vec<&VfsPath> = prefixes.iter().collect();
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
            let globs =
                glob.map_or_else(|| self.globs.iter().map(String::as_str).collect(), |glob| vec![glob]);
            let paths: Vec<_> = globs.into_iter().map(parse).collect::<Result<_, _>>()?;
            let paths = if paths.is_empty() { vec![RulePaths::All] } else { paths };
            rules.extend(paths.into_iter().map(|paths| MergeRule { paths, choice: choice.clone() }));
        }
        if !self.globs.is_empty() && self.take.iter().filter(|text| !text.contains(':')).count() != 1 {
            let message = "it isn't clear which --take the globs belong to; use --take SIDE:GLOB for each";
            return Err(stead::Error::Invalid(message.to_owned()).into());
        }
        rules.sort_by_key(|rule| !matches!(rule.paths, RulePaths::All));
        for content in self.content.chunks_exact(2) {
            let (path, file) = (&content[0], &content[1]);
            let bytes = std::fs::read(PathBuf::from(file)).map_err(|error| {
                let path = human::escape_text(path);
                stead::Error::Invalid(format!("the file for `{path}` can't be read: {error}"))
            })?;
            let paths = RulePaths::exactly(path, &prefixes)?;
            rules.push(MergeRule { paths, choice: MergeChoice::Content(Arc::new(bytes)) });
        }
        for glob in &self.leave {
            rules.push(MergeRule { paths: parse(glob)?, choice: MergeChoice::LeaveOut });
        }
        if self.leave_hidden {
            rules.push(MergeRule { paths: RulePaths::Hidden, choice: MergeChoice::LeaveOut });
        }
        Ok(rules)
    }

    /// Fails if content was given for something that isn't a file, or isn't merged, or if a glob leaves nothing out. `plan` says what
    /// would be merged with these rules.
    pub(super) fn check_used(
        &self,
        stead: &Stead,
        fork: &str,
        rules: &[MergeRule],
        plan: impl Fn(&[MergeRule]) -> stead::Result<MergeResult>,
    ) -> Result<(), CommandError> {
        if self.content.is_empty() && self.leave.is_empty() {
            return Ok(());
        }
        let planned = plan(rules)?;
        let is_used = |rule: &&MergeRule| planned.given.iter().any(|path| rule.paths.matches(path));
        let contents = rules.iter().filter(|rule| matches!(rule.choice, MergeChoice::Content(_)));
        let mut unused = contents
            .zip(self.content.chunks_exact(2))
            .filter(|(rule, _)| !is_used(rule))
            .map(|(_, pair)| &pair[0]);
        if let Some(path) = unused.next() {
            let path = human::escape_text(path);
            let message = format!(
                "`{path}` isn't a file that is merged; --content takes the path of one such file, and `--dry-run` lists them"
            );
            return Err(stead::Error::Invalid(message).into());
        }
        let (places, prefixes) = (stead.merge_places(fork).ok(), prefixes_of(stead, fork));
        let relative = |path: &VfsPath| {
            let place = places.as_ref().and_then(|places| places.rule_path(path));
            place.or_else(|| Some(prefixes.iter().find_map(|prefix| path.strip_prefix(prefix))?.to_owned()))
        };
        let left_out: Vec<String> = planned.left_out.iter().filter_map(relative).collect();
        let is_leave = |rule: &MergeRule| {
            matches!(rule.choice, MergeChoice::LeaveOut) && !matches!(rule.paths, RulePaths::Hidden)
        };
        let leave = rules.iter().enumerate().filter(|(_, rule)| is_leave(rule));
        for ((index, rule), glob) in leave.zip(&self.leave) {
            if left_out.iter().any(|path| rule.paths.matches(path)) {
                continue;
            }
            // It may name an earlier path of something, or what the agent may not see.
            let mut others = rules.to_vec();
            others.remove(index);
            let without = plan(&others)?;
            let outcome = |result: &MergeResult| {
                let left_out = (result.left_out.len(), result.left_out_unseen);
                let others = (result.changes.len(), result.retagged.len());
                (left_out, others, result.conflicts.len(), result.refused.len())
            };
            let may_be_hidden = self.leave_hidden && planned.left_out_unseen;
            if !may_be_hidden && outcome(&without) == outcome(&planned) {
                let message = format!(
                    "--leave {} matches none of the changes, so nothing was done; globs are relative to the Workspace, and \
                     `--dry-run` lists the changes",
                    human::escape_text(glob)
                );
                return Err(stead::Error::Invalid(message).into());
            }
        }
        Ok(())
    }
}

/// The prefixes of which a path of a rule may begin with one: of the Workspace that a fork was made from, and of the fork.
fn prefixes_of(stead: &Stead, fork: &str) -> Vec<VfsPath> {
    match stead.find_fork(fork) {
        Ok(own) => {
            let fork_prefix = VfsPath::parse(&format!("/forks/{fork}")).ok();
            std::iter::once(own.base_prefix.clone()).chain(fork_prefix).collect()
        }
        Err(_) => stead.merge_places(fork).ok().map(|places| places.target().clone()).into_iter().collect(),
    }
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead_for_fork(&args.fork)?;
    let mut options = MergeOptions::default();
    options.dry_run = args.dry_run;
    options.with_markers = args.markers;
    options.rules = args.choices.rules(&stead, &args.fork)?;
    args.choices.check_used(&stead, &args.fork, &options.rules, |rules| {
        let mut plan = options.clone();
        (plan.dry_run, plan.rules) = (true, rules.to_vec());
        stead.merge_fork(&args.fork, &plan)
    })?;
    let result = follow_merge(session, &stead, "Merging", |stead| stead.merge_fork(&args.fork, &options))?;
    let discards = args.discard && result.took_everything();
    if discards {
        stead.discard(&args.fork)?;
    }
    report(&result, &args.fork, args.dry_run, MergeKind::Merge { discarded: discards }, session)
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MergeKind {
    Merge {
        discarded: bool,
    },
    /// A review shows what can be taken. What stands in the way of a merge of everything doesn't stand in the way of the rest.
    ReviewList,
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
    let takes_all = matches!(kind, MergeKind::Merge { .. });
    let is_refused = is_stopped && !result.done && result.merged.is_empty() && takes_all;
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
    for file in result.retagged.iter().filter(|_| !is_refused) {
        let label = session.paint(Colour::Blue, format_args!("{:10}", "tags"));
        session.print_line(format_args!(
            "{label} {}: {}",
            file.path,
            human::escape_text(&file.to_string())
        ))?;
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
    if result.left_out_unseen {
        let label = session.paint(Colour::Yellow, format_args!("{:10}", "left out"));
        session.print_line(format_args!("{label} what the agent may not see"))?;
    }
    say_summary(result, fork, dry_run, kind, session);
    Ok(exit)
}

pub(super) fn print_conflict(conflict: &MergeConflict, session: &mut Session) -> Result<(), CommandError> {
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
    let files = human::count(result.retagged.len() as u64, "file", "files");
    let changes = match human::count(result.changes.len() as u64, "change", "changes") {
        changes if result.retagged.is_empty() => changes,
        _ if result.changes.is_empty() => format!("the tags of {files}"),
        changes => format!("{changes} and the tags of {files}"),
    };
    let conflicts = human::count(result.conflicts.len() as u64, "conflict", "conflicts");
    let are = if result.conflicts.len() == 1 { "is" } else { "are" };
    let refused = human::count(
        result.refused.len() as u64,
        "path that may not be changed",
        "paths that may not be changed",
    );
    // The agent itself can't undo what was merged into the Workspace that it has only a fork of.
    let is_review = fork.starts_with("review:");
    let undo = if is_review { "stead undo --review" } else { "stead undo" };
    match kind {
        MergeKind::ReviewList if !result.refused.is_empty() => session.say(format_args!(
            "{changes} can be taken, with {conflicts}; left in the fork: {refused}."
        )),
        MergeKind::ReviewList if !result.conflicts.is_empty() => session.say(format_args!(
            "There {are} {conflicts}; `stead merge {fork} --take SIDE` resolves them. The rest, {changes}, can be reviewed."
        )),
        MergeKind::ReviewList => session.say(format_args!("This would be {changes}.")),
        MergeKind::Update if dry_run => session.say(format_args!("This would be {changes}, with {conflicts}.")),
        MergeKind::Update if !result.conflicts.is_empty() => session.say(format_args!(
            "Updated the fork {fork}: {changes}. There {are} {conflicts}: files with the lines <<<<<<< target and >>>>>>> fork \
             have to be edited before the fork can be merged; for the others, choose with `stead merge --take`."
        )),
        MergeKind::Update if result.is_unchanged() && result.decided => session.say(
            "Nothing was changed in the fork: it keeps its own side, and the next merge brings that into the Workspace.",
        ),
        MergeKind::Update if result.is_unchanged() => session.say("Nothing to do: the fork has everything already."),
        MergeKind::Update => session.say(format_args!("Updated the fork {fork}: {changes}.")),
        MergeKind::Merge { .. } if !result.merged.is_empty() => {
            let merged: Vec<String> = result.merged.iter().map(ToString::to_string).collect();
            session.say(format_args!(
                "Only a part of the fork was merged, into {}: something changed in the meantime. Merge again for the rest; `{undo}` \
                 undoes what was merged.",
                merged.join(", ")
            ));
        }
        MergeKind::Merge { .. } if !result.refused.is_empty() => {
            session.say(format_args!(
                "Nothing was changed: {refused}. `--leave GLOB` and, for hidden names, `--leave-hidden` merge the rest."
            ));
        }
        MergeKind::Merge { .. } if result.has_only_markers() => session.say(format_args!(
            "Nothing was changed: {conflicts}. Edit the files in the fork, remove the lines <<<<<<< target to >>>>>>> fork, and \
             merge again."
        )),
        MergeKind::Merge { .. } if !result.conflicts.is_empty() && is_review => session.say(format_args!(
            "There {are} {conflicts}; `stead merge {fork} --take SIDE` resolves them. The rest can be reviewed."
        )),
        MergeKind::Merge { .. } if !result.conflicts.is_empty() && fork.contains('/') => {
            session.say(format_args!(
                "Nothing was changed: {conflicts}. Choose with --take, --content or --leave, or let the fork's owner resolve them after \
                 `stead update`."
            ));
        }
        MergeKind::Merge { .. } if !result.conflicts.is_empty() => session.say(format_args!(
            "Nothing was changed: {conflicts}. Resolve them in the fork after `stead update {fork}`, or choose with --take, \
             --content or --leave."
        )),
        MergeKind::Merge { .. } if dry_run => session.say(format_args!("This would be {changes}.")),
        MergeKind::Merge { discarded } => {
            let discarded = if discarded { " The fork is discarded." } else { "" };
            if result.is_unchanged() && result.fork_gave_up {
                session.say(format_args!("Nothing was changed in the Workspace; the fork has taken its side.{discarded}"));
            } else if result.is_unchanged() {
                session.say(format_args!("Nothing to merge.{discarded}"));
            } else if result.changes.is_empty() {
                session.say(format_args!("Merged the fork {fork}: {changes}.{discarded}"));
            } else {
                session.say(format_args!("Merged the fork {fork}: {changes}; `{undo}` undoes it.{discarded}"));
            }
        }
    }
}
