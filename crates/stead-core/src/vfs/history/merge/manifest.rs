//! The rows of managed files in a merge: tags and origins go along with the files.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::history::RevertSteps;
use crate::managed::{ForkedRow, ManifestEdit, PIN_TAG, RowState, Tags};
use crate::path::VfsPath;
use crate::store::{CompanionRecord, CurrentNode, ForkSides, NodeId, RevisionNumber, StorePath, StoreResult};
use crate::vfs::call::Call;
use crate::vfs::history::StoreGroup;
use crate::vfs::history::merge::plan::Direction;
use crate::vfs::history::merge::withheld::Withheld;
use crate::vfs::history::merge::{ForkHandle, MergeChoice, MergeOptions, MergeResult};
use crate::vfs::history::undo::PathConflict;
use crate::workspace::Mount;

/// A managed file whose tags a merge or an update changes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetaggedFile {
    /// Its path: in the target for a merge, in the fork for an update.
    pub path: VfsPath,
    /// The tags that it gets.
    pub added: Tags,
    /// The tags that it loses.
    pub removed: Tags,
}

impl fmt::Display for RetaggedFile {
    /// The tags that come and go: `+new, -old`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signed =
            |sign: char, tags: &Tags| tags.iter().map(|tag| format!("{sign}{tag}")).collect::<Vec<_>>();
        f.write_str(&[signed('+', &self.added), signed('-', &self.removed)].concat().join(", "))
    }
}

/// A change of tags that the target didn't get, and that the fork gives up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DroppedTags {
    /// Where the target has the file, relative to the managed directory.
    path: String,
    /// The tags that the fork had added, with commas between them.
    added: String,
    /// The tags that the fork had removed, with commas between them.
    removed: String,
}

impl DroppedTags {
    /// Takes the change back in the fork.
    fn edit_of_fork(&self, root: &StorePath) -> ManifestEdit {
        ManifestEdit::Adopt {
            root: root.clone(),
            path: self.path.clone(),
            added: Tags::from_stored(&self.removed),
            removed: Tags::from_stored(&self.added),
            origin: None,
        }
    }
}

/// What happens to the row of one file.
#[derive(Debug)]
struct RowEdit {
    edit: ManifestEdit,
    /// The paths that the file has or had on the three sides.
    paths: Vec<StorePath>,
    /// Where the target has the file, relative to the managed directory.
    in_target: Option<String>,
    /// Whether the target has no such file: tags come there only if the merge brings the file back.
    is_gone: bool,
}

/// What a merge or an update does to the rows of one side, beside what its steps do.
#[derive(Debug, Default)]
pub(super) struct RowEdits {
    edits: Vec<RowEdit>,
    as_of: Option<RevisionNumber>,
    /// What the fork itself has changed of tags, as lines of text.
    fork_changes: Vec<String>,
    /// What the rules drop.
    dropped: Vec<DroppedTags>,
    pinned: PinnedPaths,
}

/// The files that one side has pinned.
#[derive(Debug, Default)]
struct PinnedPaths {
    in_fork: PinnedOnSide,
    in_target: PinnedOnSide,
}

/// The files that a side has pinned.
#[derive(Debug, Default)]
struct PinnedOnSide {
    /// Those that were not pinned in the base.
    since_base: BTreeSet<StorePath>,
    /// Those that the other side never had pinned, and doesn't have.
    alone: BTreeSet<StorePath>,
}

impl PinnedOnSide {
    /// Whether the side has pinned a file since the base of its node. A node that is behind has an older base than the rows have.
    fn has(&self, path: &StorePath, is_behind: bool) -> bool {
        self.since_base.contains(path) || is_behind && self.alone.contains(path)
    }
}

impl RowEdits {
    /// What the rows of the side that gets changed take from those of the other side.
    pub(super) fn plan(fork: ForkHandle<'_>, direction: Direction) -> StoreResult<RowEdits> {
        let Some(manifest) = fork.store.manifest()? else { return Ok(RowEdits::default()) };
        let mount = Mount::at(Arc::clone(fork.store), &fork.fork.path);
        let root = mount.path();
        let Some(forked) = manifest.forked_rows(root)? else { return Ok(RowEdits::default()) };
        let mut planned = RowEdits { as_of: Some(forked.as_of), ..RowEdits::default() };
        for row in &forked.rows {
            planned.fork_changes.extend(tag_change_of_fork(row));
            let is_pinned = |state: &&RowState| state.tags.contains(PIN_TAG);
            if row.base.as_ref().filter(is_pinned).is_none() {
                let path = |side: &Option<RowState>| store_path(root, &side.as_ref().filter(is_pinned)?.path);
                planned.pinned.in_fork.since_base.extend(path(&row.in_fork));
                planned.pinned.in_target.since_base.extend(path(&row.in_target));
            }
            let edit = match direction {
                Direction::IntoTarget => row.edit_of_target(root),
                Direction::IntoFork => row.edit_of_fork(root),
            };
            let Some(edit) = edit else { continue };
            let is_gone = direction == Direction::IntoTarget && row.in_target.is_none();
            let states = [&row.base, &row.in_fork, &row.in_target].into_iter().flatten();
            let paths = states.filter_map(|state| store_path(root, &state.path)).collect();
            let in_target = row.in_target.as_ref().map(|state| state.path.clone());
            planned.edits.push(RowEdit { edit, paths, in_target, is_gone });
        }
        planned.fork_changes.sort();
        let in_store = |paths: &[String]| paths.iter().filter_map(|path| store_path(root, path)).collect();
        planned.pinned.in_fork.alone = in_store(&forked.pinned_in_fork);
        planned.pinned.in_target.alone = in_store(&forked.pinned_in_target);
        Ok(planned)
    }

    /// The revision up to which they take in rows.
    pub(super) fn as_of(&self) -> Option<RevisionNumber> {
        self.as_of
    }

    /// What the fork itself has changed of tags: equal texts for equal changes.
    pub(super) fn fork_changes(&self) -> &[String] {
        &self.fork_changes
    }

    /// The files that one side has pinned since the base, and that the other side has removed. What the caller can't see of the target
    /// isn't among them.
    pub(super) fn pinned_and_removed(&self, sides: &ForkSides, withheld: &Withheld) -> BTreeSet<NodeId> {
        let mut found = BTreeSet::new();
        let (fork, target) = (&sides.in_fork, &sides.in_target);
        for (pinned, keeps, removes) in
            [(&self.pinned.in_fork, fork, target), (&self.pinned.in_target, target, fork)]
        {
            if pinned.since_base.is_empty() && pinned.alone.is_empty() {
                continue;
            }
            let exists = |current: &&CurrentNode| current.state.is_some();
            // What was saved by a move has the same path, and another node.
            let paths: HashSet<&StorePath> =
                removes.values().filter(exists).map(|current| &current.path).collect();
            for (&node, base) in &sides.nodes {
                let is_pinned = || {
                    let kept = keeps.get(&node).filter(exists);
                    kept.is_some_and(|current| {
                        pinned.has(&current.path, sides.sync.behind.contains_key(&node))
                    })
                };
                if let Some(base) = base
                    && removes.get(&node).filter(exists).is_none()
                    && !paths.contains(&base.path)
                    && !withheld.is_withheld(node)
                    && is_pinned()
                {
                    found.insert(node);
                }
            }
        }
        found
    }

    /// The changes of tags that the rules drop.
    pub(super) fn dropped(&self) -> &[DroppedTags] {
        &self.dropped
    }

    /// These edits without those of nodes that the merge leaves out.
    pub(super) fn leave_out(self, sides: &ForkSides, left_out: &BTreeSet<NodeId>) -> RowEdits {
        let paths: BTreeSet<StorePath> = left_out
            .iter()
            .flat_map(|node| [&sides.in_fork, &sides.in_target].map(|side| side.get(node)))
            .flatten()
            .map(|node| node.path.clone())
            .collect();
        self.without(&paths)
    }

    /// These edits without those of some paths.
    pub(super) fn without(mut self, paths: &BTreeSet<StorePath>) -> RowEdits {
        if !paths.is_empty() {
            self.edits.retain(|row| path_in_store(&row.edit).is_none_or(|path| !paths.contains(&path)));
        }
        self
    }

    /// These edits of a fork, which also gives up what its merge has dropped.
    pub(super) fn giving_up(mut self, fork: ForkHandle<'_>, dropped: &[DroppedTags]) -> RowEdits {
        let mount = Mount::at(Arc::clone(fork.store), &fork.fork.path);
        let edits = dropped.iter().map(|dropped| dropped.edit_of_fork(mount.path()));
        let row = |edit| RowEdit { edit, paths: Vec::new(), in_target: None, is_gone: false };
        self.edits.extend(edits.map(row));
        self
    }

    /// Whether they change something even if no file changes.
    pub(super) fn are_needed(&self) -> bool {
        self.edits.iter().any(|row| row.tags().is_some())
    }

    /// The paths of files that exist and get other tags, with the tags that come and go.
    pub(super) fn retagged(&self) -> impl Iterator<Item = (StorePath, &Tags, &Tags)> {
        self.edits.iter().filter_map(|row| {
            let (added, removed) = row.tags()?;
            Some((path_in_store(&row.edit)?, added, removed))
        })
    }

    pub(super) fn into_records(self) -> impl Iterator<Item = CompanionRecord> {
        self.edits.into_iter().map(|row| CompanionRecord::Manifest(Box::new(row.edit)))
    }
}

impl RowEdit {
    /// The tags that come and go, if the change is one of tags alone.
    fn tags(&self) -> Option<(&Tags, &Tags)> {
        match &self.edit {
            ManifestEdit::Adopt { added, removed, origin: None, .. } if !self.is_gone => {
                Some((added, removed))
            }
            _ => None,
        }
    }
}

/// What the fork has changed of the tags of a file.
fn tag_change_of_fork(row: &ForkedRow) -> Option<String> {
    let in_fork = row.in_fork.as_ref()?;
    let none = Tags::default();
    let before = row.base.as_ref().map_or(&none, |base| &base.tags);
    let (added, removed) = (in_fork.tags.without(before), before.without(&in_fork.tags));
    let is_changed = !added.is_empty() || !removed.is_empty();
    is_changed.then(|| format!("tags {:?} +{added} -{removed}", in_fork.path))
}

fn path_in_store(edit: &ManifestEdit) -> Option<StorePath> {
    match edit {
        ManifestEdit::Adopt { root, path, .. } => store_path(root, path),
        ManifestEdit::SetTags { .. } | ManifestEdit::Forget { .. } => None,
    }
}

/// The path in the Store of a file of a managed directory.
fn store_path(root: &StorePath, path: &str) -> Option<StorePath> {
    let text = match root.as_str()? {
        "" => path.to_owned(),
        root => format!("{root}/{path}"),
    };
    Some(StorePath::from_checked(text))
}

impl Call<'_> {
    /// Applies the rules of a merge to the changes of tags: a rule about a file is one about its tags, too. What is left out is
    /// noted in the result.
    pub(super) fn apply_rules_to_tags(
        &self,
        group: &StoreGroup<'_>,
        options: &MergeOptions,
        mut edits: RowEdits,
        result: &mut MergeResult,
    ) -> RowEdits {
        let mut kept = Vec::with_capacity(edits.edits.len());
        for row in std::mem::take(&mut edits.edits) {
            let Some((added, removed)) = row.tags() else {
                kept.push(row);
                continue;
            };
            let paths = row
                .paths
                .iter()
                .filter_map(|path| Some(options.path_for_rules(self.path_for_rules(group, path)?)));
            match options.choice_for(&paths.collect::<Vec<_>>()) {
                Some(MergeChoice::LeaveOut) => {
                    match row.paths.iter().find_map(|path| self.logical_path(group, path)) {
                        Some(path) => result.left_out.push(path),
                        None => result.left_out_unseen = true,
                    }
                }
                Some(MergeChoice::Drop) => {
                    let (added, removed) = (added.to_string(), removed.to_string());
                    edits.dropped.extend(row.in_target.map(|path| DroppedTags { path, added, removed }));
                }
                _ => kept.push(row),
            }
        }
        result.left_out.sort();
        result.left_out.dedup();
        edits.edits = kept;
        edits
    }

    /// Checks that the caller may change the tags of files whose content the merge doesn't change. Returns what it may not.
    pub(super) fn refused_tags(
        &self,
        group: &StoreGroup<'_>,
        steps: &RevertSteps,
        edits: &RowEdits,
    ) -> Result<Vec<PathConflict>> {
        let checked: BTreeSet<&StorePath> = steps.changes.iter().map(|change| &change.path).collect();
        let mut refused: BTreeMap<VfsPath, String> = BTreeMap::new();
        let mut approval_error: Option<Error> = None;
        for row in edits.edits.iter().filter(|row| row.tags().is_some()) {
            let Some(path) = path_in_store(&row.edit).filter(|path| !checked.contains(path)) else {
                continue;
            };
            if let Err(why) = self.authorize_restore(group, &path, &mut approval_error) {
                let shown = self.logical_path(group, &path);
                refused.entry(shown.unwrap_or_else(|| group.workspaces[0].prefix().clone())).or_insert(why);
            }
        }
        match approval_error {
            Some(error) => Err(error),
            None => Ok(refused.into_iter().map(|(path, why)| PathConflict { path, why }).collect()),
        }
    }
}
