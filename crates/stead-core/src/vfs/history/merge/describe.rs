//! Describes conflicts for callers: the three sides, and which lines of them are in conflict.

use std::ops::Range;

use crate::history::merge::MAX_MERGE_SIZE;
use crate::history::text_merge::{ConflictHunk, MergeLabels, TextMerge, is_binary};
use crate::history::tree_merge::{MergeSide, TreeConflict, TreeConflictKind};
use crate::path::VfsPath;
use crate::store::{NodeKind, NodeState, Store, StoreResult};
use crate::vfs::call::Call;
use crate::vfs::history::merge::MergeOptions;
use crate::vfs::history::merge::choices::fork_side;
use crate::vfs::history::merge::plan::Direction;
use crate::vfs::history::{StoreGroup, read_content};

/// A path that could not be merged.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MergeConflict {
    /// The path: in the target for a merge, in the fork for an update.
    pub path: VfsPath,
    /// Why.
    pub kind: MergeConflictKind,
    /// The state that both sides began with; `None` if there was none.
    pub base: Option<SideState>,
    /// The state in the target.
    pub target: Option<SideState>,
    /// The state in the fork.
    pub fork: Option<SideState>,
    /// Which lines are in conflict, if it is text.
    pub hunks: Vec<MergeHunk>,
    /// The merged file with markers around the conflicts, if it was asked for and is text.
    pub marked: Option<Vec<u8>>,
}

/// Why a path could not be merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MergeConflictKind {
    /// Both changed the same lines, or both changed content that can't be merged by line.
    Content,
    /// The fork deleted what the target changed.
    DeletedInFork,
    /// The target deleted what the fork changed.
    DeletedInTarget,
    /// Both added something else under one name.
    AddedAdded,
    /// Both renamed it, each to another place.
    RenamedRenamed,
    /// The name that it would get is taken.
    NameTaken,
    /// One side made it another kind of node, and the other one changed it.
    Kind,
    /// Both moved directories, so that one would lie inside the other.
    Cycle,
    /// An update, or a merge while the fork was changed, wrote conflict markers into the fork's file, and it still has them.
    Unresolved,
}

impl MergeConflictKind {
    /// The kind as the commands and tools show it.
    pub fn as_str(self) -> &'static str {
        match self {
            MergeConflictKind::Content => "content",
            MergeConflictKind::DeletedInFork | MergeConflictKind::DeletedInTarget => "deleted/changed",
            MergeConflictKind::AddedAdded => "added/added",
            MergeConflictKind::RenamedRenamed => "renamed/renamed",
            MergeConflictKind::NameTaken => "name taken",
            MergeConflictKind::Kind => "kind",
            MergeConflictKind::Cycle => "cycle",
            MergeConflictKind::Unresolved => "unresolved",
        }
    }

    /// What happened, as a sentence without a full stop.
    pub fn explanation(self) -> &'static str {
        match self {
            MergeConflictKind::Content => {
                "the fork and the target changed the same lines, or content that isn't text"
            }
            MergeConflictKind::DeletedInFork => {
                "the fork deleted it, and the target changed or pinned it, or put something into it"
            }
            MergeConflictKind::DeletedInTarget => {
                "the target deleted it or its directory, and the fork changed or pinned it"
            }
            MergeConflictKind::AddedAdded => "the fork and the target added different things under this name",
            MergeConflictKind::RenamedRenamed => "the fork and the target renamed it, each to another place",
            MergeConflictKind::NameTaken => "something else has the name that it would get",
            MergeConflictKind::Kind => "one side made it another kind of node, and the other side changed it",
            MergeConflictKind::Cycle => "the fork and the target moved directories into each other",
            MergeConflictKind::Unresolved => "the fork's file still has conflict markers",
        }
    }

    fn of(kind: TreeConflictKind, direction: Direction) -> Self {
        match kind {
            TreeConflictKind::Content => MergeConflictKind::Content,
            TreeConflictKind::Deleted { by } => match fork_side(direction, by) {
                Direction::IntoFork => MergeConflictKind::DeletedInFork,
                Direction::IntoTarget => MergeConflictKind::DeletedInTarget,
            },
            TreeConflictKind::AddedAdded => MergeConflictKind::AddedAdded,
            TreeConflictKind::RenamedRenamed => MergeConflictKind::RenamedRenamed,
            TreeConflictKind::NameTaken => MergeConflictKind::NameTaken,
            TreeConflictKind::Kind => MergeConflictKind::Kind,
            TreeConflictKind::Cycle => MergeConflictKind::Cycle,
        }
    }
}

/// One side of a conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SideState {
    /// The path, relative to the Workspace.
    pub path: String,
    /// The kind of node.
    pub kind: NodeKind,
    /// Permission bits.
    pub mode: u32,
    /// The size in bytes.
    pub size: u64,
    /// The BLAKE3 hash of the content, in hexadecimal; `None` for a directory, and for content that is too large or no
    /// longer known.
    pub hash: Option<String>,
}

/// Lines of the three sides that are in conflict, counted from 1. An empty range says where lines would be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MergeHunk {
    /// The lines of the base.
    pub base: Range<usize>,
    /// The lines of the target.
    pub target: Range<usize>,
    /// The lines of the fork.
    pub fork: Range<usize>,
}

impl From<ConflictHunk> for MergeHunk {
    fn from(hunk: ConflictHunk) -> Self {
        let from_one = |range: Range<usize>| range.start + 1..range.end + 1;
        MergeHunk { base: from_one(hunk.base), target: from_one(hunk.ours), fork: from_one(hunk.theirs) }
    }
}

impl Call<'_> {
    /// Describes a conflict. Where the caller may not see the path, only the Workspace is named.
    pub(super) fn describe_conflict(
        &self,
        group: &StoreGroup<'_>,
        conflict: &TreeConflict,
        direction: Direction,
        options: &MergeOptions,
    ) -> StoreResult<MergeConflict> {
        let kind = MergeConflictKind::of(conflict.kind, direction);
        self.describe_sides(group, conflict, kind, direction, options)
    }

    /// The same for a given kind of conflict.
    pub(super) fn describe_sides(
        &self,
        group: &StoreGroup<'_>,
        conflict: &TreeConflict,
        kind: MergeConflictKind,
        direction: Direction,
        options: &MergeOptions,
    ) -> StoreResult<MergeConflict> {
        let sides = &conflict.sides;
        let (target, fork) = match fork_side(direction, MergeSide::Ours) {
            Direction::IntoTarget => (&sides.ours, &sides.theirs),
            Direction::IntoFork => (&sides.theirs, &sides.ours),
        };
        let states = [&sides.base, target, fork];
        let shown = [&sides.ours, &sides.theirs, &sides.base]
            .into_iter()
            .flatten()
            .find_map(|state| self.logical_path(group, &state.path));
        let Some(path) = shown else {
            let path = group.workspaces[0].prefix().clone();
            let (base, target, fork) = (None, None, None);
            return Ok(MergeConflict { path, kind, base, target, fork, hunks: Vec::new(), marked: None });
        };
        let store = &**group.store;
        let [base, target, fork] = states;
        let (mut hunks, mut marked) = (Vec::new(), None);
        if matches!(kind, MergeConflictKind::Content | MergeConflictKind::AddedAdded)
            && let (Some(target), Some(fork)) = (target, fork)
            && let Some([base, target, fork]) = texts(store, [base.as_ref(), Some(target), Some(fork)])?
        {
            let merge = TextMerge::new(&base, &target, &fork);
            hunks = merge.conflicts().map(MergeHunk::from).collect();
            marked = options.with_markers.then(|| merge.to_bytes(&MergeLabels::FORK));
        }
        let describe = |state: &Option<NodeState>| {
            state.as_ref().map(|state| self.side_state(group, state)).transpose().map(Option::flatten)
        };
        let (base, target, fork) = (describe(base)?, describe(target)?, describe(fork)?);
        Ok(MergeConflict { path, kind, base, target, fork, hunks, marked })
    }

    /// A side as the caller may see it; `None` if it may not see the path.
    fn side_state(&self, group: &StoreGroup<'_>, state: &NodeState) -> StoreResult<Option<SideState>> {
        let Some(path) = self.logical_path(group, &state.path) else { return Ok(None) };
        let prefix = group.workspaces[0].prefix();
        let path = path.strip_prefix(prefix).unwrap_or(path.as_str()).to_owned();
        let hash = match &state.content {
            Some(content) if content.size() <= MAX_MERGE_SIZE as u64 => {
                Some(blake3::hash(&read_content(&**group.store, content)?).to_hex().to_string())
            }
            _ => None,
        };
        Ok(Some(SideState { path, kind: state.kind, mode: state.mode, size: state.size, hash }))
    }
}

/// The contents of three files, if all of them are text that can be merged. A missing one is empty.
fn texts(store: &dyn Store, states: [Option<&NodeState>; 3]) -> StoreResult<Option<[Vec<u8>; 3]>> {
    let mut contents = [const { Vec::new() }; 3];
    for (bytes, state) in contents.iter_mut().zip(states) {
        let Some(state) = state else { continue };
        match &state.content {
            Some(content) if state.kind == NodeKind::File && content.size() <= MAX_MERGE_SIZE as u64 => {
                *bytes = read_content(store, content)?;
                if is_binary(bytes) {
                    return Ok(None);
                }
            }
            _ => return Ok(None),
        }
    }
    Ok(Some(contents))
}
