//! The tools that fork a Workspace, and compare, update, merge and discard forks. They are offered only where the configuration
//! enables them.

pub(super) mod diff_fork;
pub(super) mod discard_fork;
pub(super) mod fork_workspace;
pub(super) mod merge_fork;
pub(super) mod update_fork;

use std::fmt;

use serde_json::{Value, json};

use crate::error::ErrorKind;
use crate::path::VfsPath;
use crate::store::Fork;
use crate::tools::page::{PagedText, ReplyBounds};
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Arguments, Failure, Reply, ToolContext};
use crate::vfs::{
    DiffOptions, Difference, MergeChange, MergeChoice, MergeConflict, MergeOptions, MergeResult, MergeRule,
    RetaggedFile, RulePaths, Vfs,
};

/// The forks of a stead. Implemented by the code that opens the Stores.
pub trait ForkOperations: fmt::Debug + Send + Sync {
    /// Forks the Workspace at a prefix.
    fn fork(&self, vfs: &Vfs, prefix: &str, name: &str) -> Result<Fork, Failure>;
    /// How a fork differs from its base.
    fn diff(&self, vfs: &Vfs, fork: &str, options: DiffOptions) -> Result<Vec<Difference>, Failure>;
    /// Brings the changes of its target into a fork.
    fn update(&self, vfs: &Vfs, fork: &str, options: &MergeOptions) -> Result<MergeResult, Failure>;
    /// Merges a fork into its target.
    fn merge(&self, vfs: &Vfs, fork: &str, options: &MergeOptions) -> Result<MergeResult, Failure>;
    /// Removes a fork.
    fn discard(&self, vfs: &Vfs, fork: &str) -> Result<(), Failure>;
    /// The prefixes that globs for a fork may begin with: its own, and that of its base.
    fn prefixes(&self, fork: &str) -> Vec<VfsPath>;
}

impl ToolContext<'_> {
    fn require_forks(&self) -> Result<&dyn ForkOperations, Failure> {
        self.forks
            .ok_or_else(|| Failure::new(ErrorKind::Unsupported, "forks aren't available for your Workspaces"))
    }
}

const FORK: Field = Field::required("fork", FieldType::Text, "The fork's name, or OWNER/FORK.");
const DRY_RUN: Field = Field::optional("dry_run", FieldType::Flag, "Only say what would be done.");
const TAKE: Field = Field::optional(
    "take",
    FieldType::OneOf(&["target", "fork", "ours", "theirs"]),
    "Resolve all conflicts with this side; ours is the target.",
);
const TAKE_TARGET: Field = Field::optional(
    "take_target",
    FieldType::TextList { max: 1_000 },
    "Globs: resolve conflicts there with the target.",
);
const TAKE_FORK: Field = Field::optional(
    "take_fork",
    FieldType::TextList { max: 1_000 },
    "Globs: resolve conflicts there with the fork.",
);
const LEAVE_OUT: Field = Field::optional(
    "leave_out",
    FieldType::TextList { max: 1_000 },
    "Globs: leave these changes out; they stay in the fork.",
);
const LEAVE_OUT_HIDDEN: Field =
    Field::optional("leave_out_hidden", FieldType::Flag, "Leave out what you may not see.");

/// The facts of an update or a merge.
const MERGE_OUTPUT: [Field; 6] = [
    Field::required("done", FieldType::Flag, "Whether it was really done."),
    Field::required("changes", FieldType::integer_from(0), "How many paths were changed, or would be."),
    Field::required(
        "conflicts",
        FieldType::ObjectList(&[
            Field::required("path", FieldType::Path, "The path."),
            Field::required("kind", FieldType::Text, "The kind of conflict."),
            Field::required("why", FieldType::Text, "What happened."),
        ]),
        "The paths in conflict.",
    ),
    Field::required("refused", FieldType::integer_from(0), "How many paths may not be changed."),
    Field::optional("operation", FieldType::Text, "The operation; pass it to undo."),
    Field::required("truncated", FieldType::Flag, "Whether the text leaves paths out."),
];

/// The most paths of each kind that one reply lists.
const MAX_SHOWN: usize = 200;

/// The options that the arguments of an update or a merge say.
fn merge_options(
    forks: &dyn ForkOperations,
    fork: &str,
    arguments: &Arguments,
) -> Result<MergeOptions, Failure> {
    let prefixes = forks.prefixes(fork);
    let prefixes: Vec<&VfsPath> = prefixes.iter().collect();
    let mut rules = Vec::new();
    if let Some(side) = arguments.optional_text("take") {
        let choice = match side {
            "fork" | "theirs" => MergeChoice::TakeFork,
            _ => MergeChoice::TakeTarget,
        };
        rules.push(MergeRule { paths: RulePaths::All, choice });
    }
    for (name, choice) in [
        ("take_target", MergeChoice::TakeTarget),
        ("take_fork", MergeChoice::TakeFork),
        ("leave_out", MergeChoice::LeaveOut),
    ] {
        for glob in arguments.texts(name) {
            let paths = RulePaths::parse(glob, &prefixes)?;
            rules.push(MergeRule { paths, choice: choice.clone() });
        }
    }
    if arguments.flag("leave_out_hidden") {
        rules.push(MergeRule { paths: RulePaths::Hidden, choice: MergeChoice::LeaveOut });
    }
    Ok(MergeOptions { dry_run: arguments.flag("dry_run"), rules, ..MergeOptions::default() })
}

/// What happened, for a model. `summary` is the first line if it was done.
fn merge_reply(result: &MergeResult, summary: &str, is_update: bool) -> Reply {
    let MergeResult { operation, changes, conflicts, refused, left_out, done, merged, .. } = result;
    let is_stopped = !done && result.is_stopped();
    let first = match (done, is_stopped) {
        (true, _) if result.is_unchanged() && result.fork_gave_up => {
            "Nothing was changed in the Workspace; the fork has taken its side.".to_owned()
        }
        (true, _) if result.is_unchanged() && conflicts.is_empty() => "There was nothing to do.".to_owned(),
        (true, _) => summary.to_owned(),
        (false, true) if !merged.is_empty() => {
            let merged: Vec<String> = merged.iter().map(ToString::to_string).collect();
            format!("Only a part was merged, into {}; merge again for the rest:", merged.join(", "))
        }
        (false, true) if !is_update => "Nothing was changed:".to_owned(),
        (false, _) => "This is what would be done:".to_owned(),
    };
    let is_hidden = is_stopped && !is_update && merged.is_empty();
    let shown_changes: &[MergeChange] = if is_hidden { &[] } else { changes };
    let retagged: &[RetaggedFile] = if is_hidden { &[] } else { &result.retagged };
    let mut lines = vec![first];
    lines.extend(shown_changes.iter().take(MAX_SHOWN).map(|change| match &change.from {
        Some(from) => format!("{} {from} to {}", change.action.as_str(), change.path),
        None => format!("{} {}", change.action.as_str(), change.path),
    }));
    lines.extend(retagged.iter().take(MAX_SHOWN).map(|file| format!("tags of {}: {file}", file.path)));
    lines.extend(conflicts.iter().take(MAX_SHOWN).map(conflict_line));
    lines.extend(
        refused.iter().take(MAX_SHOWN).map(|refused| format!("refused {}: {}", refused.path, refused.why)),
    );
    lines.extend(left_out.iter().take(MAX_SHOWN).map(|path| format!("left out {path}")));
    if result.left_out_unseen {
        lines.push("left out what you may not see".to_owned());
    }
    if !conflicts.is_empty() {
        lines.push(match is_update || result.has_only_markers() {
            true => {
                "Edit the files that have the lines <<<<<<< target and >>>>>>> fork, then merge.".to_owned()
            }
            false => {
                "Call update_fork and resolve the conflicts in the fork, or choose with take, take_target, \
                      take_fork or leave_out."
                    .to_owned()
            }
        });
    }
    let counts = [shown_changes.len(), retagged.len(), conflicts.len(), refused.len(), left_out.len()];
    let not_listed: usize = counts.iter().map(|count| count.saturating_sub(MAX_SHOWN)).sum();
    let mut page = PagedText::new(ReplyBounds::PAGE);
    let fits = lines.iter().take_while(|line| page.push_line(line)).count();
    let omitted = not_listed + (lines.len() - fits);
    let mut text = page.into_text();
    if omitted > 0 {
        text.push_str(&format!("and {omitted} more\n"));
    }
    let shown: Vec<Value> = conflicts
        .iter()
        .take(MAX_SHOWN)
        .map(|conflict| {
            json!({
                "path": conflict.path.as_str(),
                "kind": conflict.kind.as_str(),
                "why": conflict.kind.explanation(),
            })
        })
        .collect();
    let reply = Reply::text(text.trim_end())
        .fact("done", *done)
        .fact("changes", changes.len())
        .fact("conflicts", shown)
        .fact("refused", refused.len())
        .fact("truncated", omitted > 0)
        .optional_fact("operation", operation.as_ref().map(ToString::to_string));
    if !is_stopped {
        return reply;
    }
    let kind = if refused.is_empty() { ErrorKind::Conflict } else { ErrorKind::Denied };
    let message = reply.joined_text();
    Reply { failure: Some(Failure::new(kind, message)), ..reply }
}

fn conflict_line(conflict: &MergeConflict) -> String {
    let lines = |range: &std::ops::Range<usize>| format!("{}-{}", range.start, range.end.saturating_sub(1));
    let hunks: Vec<String> = conflict
        .hunks
        .iter()
        .map(|hunk| format!("lines {} of the target, {} of the fork", lines(&hunk.target), lines(&hunk.fork)))
        .collect();
    let hunks = if hunks.is_empty() { String::new() } else { format!(" ({})", hunks.join("; ")) };
    format!("conflict {}: {}: {}{hunks}", conflict.path, conflict.kind.as_str(), conflict.kind.explanation())
}
