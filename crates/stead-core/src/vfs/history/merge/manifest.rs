//! The rows of managed files in a merge: tags and origins go along with the files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::history::RevertSteps;
use crate::managed::{ForkedRow, ManifestEdit};
use crate::path::VfsPath;
use crate::store::{CompanionRecord, ForkSides, NodeId, RevisionNumber, StorePath, StoreResult};
use crate::vfs::call::Call;
use crate::vfs::history::StoreGroup;
use crate::vfs::history::merge::ForkHandle;
use crate::vfs::history::merge::plan::Direction;
use crate::vfs::history::undo::PathConflict;
use crate::workspace::Mount;

/// What a merge or an update does to the rows of one side, beside what its steps do.
#[derive(Debug, Default)]
pub(super) struct RowEdits {
    edits: Vec<ManifestEdit>,
    /// The paths at which there is no row any more: tags come there only if the merge brings the file back.
    gone: BTreeSet<StorePath>,
    as_of: Option<RevisionNumber>,
}

impl RowEdits {
    /// What the rows of the side that gets changed take from those of the other side.
    pub(super) fn plan(fork: ForkHandle<'_>, direction: Direction) -> StoreResult<RowEdits> {
        let Some(manifest) = fork.store.manifest()? else { return Ok(RowEdits::default()) };
        let mount = Mount::at(Arc::clone(fork.store), &fork.fork.path);
        let root = mount.path();
        let Some(forked) = manifest.forked_rows(root)? else { return Ok(RowEdits::default()) };
        let edit = |row: &ForkedRow| match direction {
            Direction::IntoTarget => row.edit_of_target(root),
            Direction::IntoFork => row.edit_of_fork(root),
        };
        let is_gone = |row: &&ForkedRow| direction == Direction::IntoTarget && row.in_target.is_none();
        let gone = forked.rows.iter().filter(is_gone).filter_map(edit);
        let gone = gone.filter_map(|edit| path_in_store(&edit)).collect();
        let edits = forked.rows.iter().filter_map(edit).collect();
        Ok(RowEdits { edits, gone, as_of: Some(forked.as_of) })
    }

    /// The revision up to which they take in rows.
    pub(super) fn as_of(&self) -> Option<RevisionNumber> {
        self.as_of
    }

    /// These edits without those of nodes that the merge leaves out.
    pub(super) fn leave_out(mut self, sides: &ForkSides, left_out: &BTreeSet<NodeId>) -> RowEdits {
        let paths: BTreeSet<StorePath> = left_out
            .iter()
            .flat_map(|node| [&sides.in_fork, &sides.in_target].map(|side| side.get(node)))
            .flatten()
            .map(|node| node.path.clone())
            .collect();
        if !paths.is_empty() {
            self.edits.retain(|edit| path_in_store(edit).is_none_or(|path| !paths.contains(&path)));
        }
        self
    }

    /// These edits without those of some paths.
    pub(super) fn without(mut self, paths: &BTreeSet<StorePath>) -> RowEdits {
        self.edits.retain(|edit| path_in_store(edit).is_none_or(|path| !paths.contains(&path)));
        self
    }

    /// Whether they change something even if no file changes.
    pub(super) fn are_needed(&self) -> bool {
        self.edits.iter().any(|edit| matches!(edit, ManifestEdit::Adopt { origin: None, .. }))
    }

    /// The paths of files that exist and get other tags.
    pub(super) fn retagged(&self) -> impl Iterator<Item = StorePath> {
        let tags = self.edits.iter().filter(|edit| matches!(edit, ManifestEdit::Adopt { origin: None, .. }));
        tags.filter_map(path_in_store).filter(|path| !self.gone.contains(path))
    }

    pub(super) fn into_records(self) -> impl Iterator<Item = CompanionRecord> {
        self.edits.into_iter().map(|edit| CompanionRecord::Manifest(Box::new(edit)))
    }
}

fn path_in_store(edit: &ManifestEdit) -> Option<StorePath> {
    match edit {
        ManifestEdit::Adopt { root, path, .. } => {
            let text = match root.as_str()? {
                "" => path.clone(),
                root => format!("{root}/{path}"),
            };
            Some(StorePath::from_checked(text))
        }
        ManifestEdit::SetTags { .. } | ManifestEdit::Forget { .. } => None,
    }
}

impl Call<'_> {
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
        for edit in &edits.edits {
            let ManifestEdit::Adopt { origin: None, .. } = edit else { continue };
            let Some(path) = path_in_store(edit).filter(|path| !checked.contains(path)) else { continue };
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
