//! The tools that read history, undo and restore, and what they share.

pub(super) mod list_versions;
pub(super) mod read_version;
pub(super) mod restore;
pub(super) mod snapshot;
pub(super) mod undo;

use std::fmt;

use serde_json::{Value, json};

use crate::clock::Timestamp;
use crate::error::ErrorKind;
use crate::history::RevertAction;
use crate::identity::OperationId;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::RevisionNumber;
use crate::tools::page::{PagedText, ReplyBounds};
use crate::tools::schema::{Field, FieldType};
use crate::tools::{Failure, Reply, ToolContext};
use crate::vfs::{IncompleteUndo, OnConflict, PathChange, PathConflict, PointInTime, RevertResult, Vfs};

/// Named revisions of the Stores. Implemented by the code that opens the Stores.
pub trait Snapshots: fmt::Debug + Send + Sync {
    /// The point in time that `text` names for a path: a snapshot's name, a revision number or a time.
    fn resolve_point(&self, vfs: &Vfs, path: &str, text: &str) -> Result<PointInTime, Failure>;

    /// Records the current revision of the Workspace at `path`, or of all Workspaces, as a snapshot named `label`.
    fn create_snapshot(
        &self,
        vfs: &Vfs,
        path: Option<&str>,
        label: Option<&str>,
    ) -> Result<CreatedSnapshot, Failure>;
}

/// A snapshot that was just created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedSnapshot {
    /// The snapshot's label, or its number with a `#` if it has none.
    pub name: String,
    /// The revision that it names.
    pub revision: RevisionNumber,
    /// When the snapshot was made.
    pub at: Timestamp,
    /// The Workspaces that it doesn't include.
    pub left_out: Vec<VfsPath>,
}

impl ToolContext<'_> {
    fn require_snapshots(&self) -> Result<&dyn Snapshots, Failure> {
        self.snapshots.ok_or_else(|| {
            Failure::new(
                ErrorKind::Unsupported,
                "snapshots aren't available: your Workspaces have no database",
            )
        })
    }

    /// Authorizes the access at a path, before anything is looked up for it.
    fn authorize(&self, path: &str, access: Access) -> Result<(), Failure> {
        let path = VfsPath::parse(path).map_err(|error| Failure::invalid(error.to_string()))?;
        Ok(self.vfs.authorize(Some(&path), access)?)
    }

    /// The point in time that `text` names. Without snapshots, a plain revision number of the path's Store still works.
    fn resolve_point(&self, path: &str, text: &str) -> Result<PointInTime, Failure> {
        let routed = VfsPath::parse(path).ok();
        let routed = routed.as_ref().and_then(|path| self.vfs.router().route(path));
        match (self.snapshots, text.parse::<i64>(), routed) {
            (None, Ok(number), Some(route)) if number >= 0 => {
                Ok(route.workspace.mount().store().revision(RevisionNumber(number)).into())
            }
            _ => self.require_snapshots()?.resolve_point(self.vfs, path, text),
        }
    }
}

const DRY_RUN: Field = Field::optional("dry_run", FieldType::Flag, "Only say what would be done.");

/// The output fields of undo and restore.
const REVERT_OUTPUT: [Field; 7] = [
    Field::required("done", FieldType::Flag, "Whether it was really done."),
    Field::required(
        "operations",
        FieldType::integer_from(0),
        "How many operations were undone, or would be.",
    ),
    Field::required("changes", FieldType::integer_from(0), "How many paths were changed, or would be."),
    Field::required(
        "conflicts",
        FieldType::ObjectList(&[
            Field::required("path", FieldType::Path, "The path."),
            Field::required("why", FieldType::Text, "Why it stays as it is."),
        ]),
        "The paths with conflicts, which stay as they are.",
    ),
    Field::required(
        "omitted",
        FieldType::integer_from(0),
        "How many paths stay as they are because they can't be restored.",
    ),
    Field::optional("operation", FieldType::Text, "The operation of this undo or restore; pass it to undo."),
    Field::required("truncated", FieldType::Flag, "Whether the text leaves paths out."),
];

/// Why content isn't kept.
const NOT_KEPT: &str = "its present content is too large to be kept";

/// The most paths of each kind that one reply lists.
const MAX_SHOWN: usize = 200;

/// The reply of an undo or a restore: what was done, what would be done, or which conflicts prevent it.
/// `verb` and `success_prefix` are what it does and has done, in sentences. `on_conflict` is what the call asked for.
fn revert_reply(
    result: &RevertResult,
    (verb, success_prefix): (&str, &str),
    on_conflict: OnConflict,
) -> Reply {
    let RevertResult {
        operation,
        undone: operations,
        incomplete,
        changes,
        conflicts,
        left_out,
        not_kept,
        done,
    } = result;
    let is_refused = !done && !conflicts.is_empty() && on_conflict == OnConflict::Refuse;
    let mut lines = vec![match (done, conflicts.is_empty()) {
        (_, false) if operations.is_empty() && changes.is_empty() => {
            "Nothing was changed, because of these conflicts:".to_owned()
        }
        (true, true) if changes.is_empty() => format!("{success_prefix}: nothing had to be changed."),
        (true, true) => format!("{success_prefix}."),
        (true, false) => format!("{success_prefix}, except for the conflicts below, which stay as they are."),
        (false, true) if operations.is_empty() && changes.is_empty() && left_out.is_empty() => {
            format!("There is nothing to {verb}: nothing would change.")
        }
        (false, true) => "This is what would be done:".to_owned(),
        (false, false) if is_refused => "Nothing was changed, because of these conflicts:".to_owned(),
        (false, false) => {
            "This is what would be done; the conflicts below would stay as they are:".to_owned()
        }
    }];
    // What a refused call would have done isn't listed as if it was done.
    let (shown_operations, shown_changes): (&[_], &[_]) =
        if is_refused { (&[], &[]) } else { (operations, changes) };
    for operation in shown_operations.iter().take(MAX_SHOWN) {
        lines.push(format!("operation {}: {} at {}", operation.id, operation.tool, operation.at));
    }
    for IncompleteUndo { operation, is_partial } in incomplete.iter().take(MAX_SHOWN) {
        let extent = if *is_partial && !is_refused { "not all of it is undone" } else { "not undone" };
        lines.push(format!("operation {}: {} at {}, {extent}", operation.id, operation.tool, operation.at));
    }
    lines.extend(shown_changes.iter().take(MAX_SHOWN).map(change_line));
    lines.extend(
        conflicts.iter().take(MAX_SHOWN).map(|PathConflict { path, why }| format!("conflict {path}: {why}")),
    );
    let not_kept = if is_refused { &[][..] } else { not_kept };
    let tense = if *done { "can't be undone" } else { "could not be undone" };
    lines.extend(
        not_kept.iter().take(MAX_SHOWN).map(|path| format!("not kept {path}: {NOT_KEPT}, so this {tense}")),
    );
    if !left_out.is_empty() {
        let (count, phrase) = (
            left_out.len(),
            if left_out.len() == 1 { "path stays as it is" } else { "paths stay as they are" },
        );
        lines.push(format!("{count} {phrase}, for these reasons:"));
    }
    lines.extend(
        left_out.iter().take(MAX_SHOWN).map(|PathConflict { path, why }| format!("left out {path}: {why}")),
    );
    let counts = [
        shown_operations.len(),
        incomplete.len(),
        shown_changes.len(),
        conflicts.len(),
        not_kept.len(),
        left_out.len(),
    ];
    let count: usize = counts.iter().sum();
    let listed: usize = counts.iter().map(|count| count.min(&MAX_SHOWN)).sum();
    let mut page = PagedText::new(ReplyBounds::PAGE);
    let fits = lines.iter().take_while(|line| page.push_line(line)).count();
    let omitted = count - listed + (lines.len() - fits);
    let mut text = page.into_text();
    if omitted > 0 {
        text.push_str(&format!("and {omitted} more\n"));
    }
    let shown_conflicts: Vec<Value> = conflicts
        .iter()
        .take(MAX_SHOWN)
        .map(|PathConflict { path, why }| json!({ "path": path.as_str(), "why": why }))
        .collect();
    let reply = Reply::text(text.trim_end())
        .fact("done", *done)
        .fact("operations", operations.len())
        .fact("changes", changes.len())
        .fact("conflicts", shown_conflicts)
        .fact("omitted", left_out.len())
        .fact("truncated", omitted > 0)
        .optional_fact("operation", operation.as_ref().map(OperationId::to_string));
    if !is_refused {
        return reply;
    }
    // Nothing was changed because of conflicts, so the reply is a failure.
    let message = reply.joined_text();
    Reply { failure: Some(Failure::new(ErrorKind::Conflict, message)), ..reply }
}

fn change_line(change: &PathChange) -> String {
    let PathChange { path, from, action } = change;
    match (action, from) {
        (RevertAction::Restored, _) => format!("restored {path}"),
        (RevertAction::Reverted, _) => format!("reverted {path}"),
        (RevertAction::Merged, _) => format!("merged {path}"),
        (RevertAction::Moved, Some(from)) => format!("moved {from} to {path}"),
        (RevertAction::Moved, None) => format!("moved {path}"),
        (RevertAction::Attributes, _) => format!("reset {path}"),
        (RevertAction::Removed, _) => format!("removed {path}"),
    }
}

/// Parses the paths that a caller passed.
fn parse_paths<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<VfsPath>, Failure> {
    texts.map(|text| VfsPath::parse(text).map_err(|error| Failure::invalid(error.to_string()))).collect()
}
