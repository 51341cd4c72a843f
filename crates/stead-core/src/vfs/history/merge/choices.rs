//! What the caller of a merge decides about paths.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::glob::{Anchor, PathGlobs};
use crate::history::tree_merge::{
    ConflictChoice, MergeChoices, MergeSide, NodePreset, NodeSides, TreeConflict, TreeConflictKind,
};
use crate::path::VfsPath;
use crate::store::{NodeId, NodeState, StorePath};
use crate::vfs::history::merge::plan::Direction;

/// What to do about some paths.
#[derive(Debug, Clone)]
pub struct MergeRule {
    /// The paths.
    pub paths: RulePaths,
    /// What to do about them.
    pub choice: MergeChoice,
}

/// Which paths a rule is about.
#[derive(Debug, Clone)]
pub enum RulePaths {
    /// All paths.
    All,
    /// The paths that match a glob, and everything below them. The glob is relative to the Workspace.
    Glob(Arc<PathGlobs>),
}

impl RulePaths {
    /// Parses a glob. It may begin with the prefix of the target or of the fork; otherwise it is relative to them.
    pub fn parse(text: &str, prefixes: &[&VfsPath]) -> Result<Self> {
        let relative = prefixes.iter().find_map(|prefix| {
            let rest = text.strip_prefix(prefix.as_str())?;
            rest.strip_prefix('/').or_else(|| rest.is_empty().then_some("**"))
        });
        if relative.is_none() && text.starts_with('/') {
            return Err(Error::Invalid(format!(
                "`{}` is neither in the fork nor in the Workspace that it was made from; use a path relative to them",
                text.escape_debug()
            )));
        }
        let globs = PathGlobs::new([relative.unwrap_or(text)], Anchor::Start)?;
        Ok(RulePaths::Glob(Arc::new(globs)))
    }

    /// Whether a path, relative to the Workspace, matches, or lies below one that does.
    fn matches(&self, path: &str) -> bool {
        match self {
            RulePaths::All => true,
            RulePaths::Glob(globs) => {
                globs.matches(path) || path.match_indices('/').any(|(end, _)| globs.matches(&path[..end]))
            }
        }
    }
}

/// What to do about a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeChoice {
    /// If it is in conflict, it stays as it is in the target.
    TakeTarget,
    /// If it is in conflict, it becomes what it is in the fork.
    TakeFork,
    /// The file gets this content.
    Content(Arc<Vec<u8>>),
    /// Its change is left out.
    LeaveOut,
}

/// The rules of a merge, applied to nodes by the paths that they have on the three sides.
pub(super) struct RuleChoices<'r> {
    pub(super) rules: &'r [MergeRule],
    pub(super) direction: Direction,
    /// The directory of the Store that the target shows.
    pub(super) top: &'r StorePath,
    /// What to do about a conflict that no rule is about: for an update.
    pub(super) writes_markers: bool,
    /// The nodes in conflict that an update leaves as the fork has them.
    pub(super) unresolved: Vec<TreeConflict>,
    /// Whether a rule has decided a conflict.
    pub(super) has_decided: bool,
}

impl RuleChoices<'_> {
    fn choice(&self, sides: &NodeSides) -> Option<&MergeChoice> {
        let paths: Vec<String> = [&sides.ours, &sides.theirs, &sides.base]
            .into_iter()
            .flatten()
            .filter_map(|state: &NodeState| {
                Some(String::from_utf8_lossy(state.path.strip_prefix(self.top)?).into_owned())
            })
            .collect();
        let matching = self.rules.iter().rev().find(|rule| paths.iter().any(|path| rule.paths.matches(path)));
        matching.map(|rule| &rule.choice)
    }

    fn take(&self, side: Direction) -> ConflictChoice {
        // Ours is the side that gets changed.
        if side == self.direction { ConflictChoice::Ours } else { ConflictChoice::Theirs }
    }
}

impl MergeChoices for RuleChoices<'_> {
    fn resolve(&mut self, conflict: &TreeConflict) -> Option<ConflictChoice> {
        let choice = match self.choice(&conflict.sides) {
            Some(MergeChoice::TakeTarget) => Some(self.take(Direction::IntoTarget)),
            Some(MergeChoice::TakeFork) => Some(self.take(Direction::IntoFork)),
            Some(MergeChoice::Content(content)) => Some(ConflictChoice::Content(Arc::clone(content))),
            Some(MergeChoice::LeaveOut) => Some(ConflictChoice::Ours),
            None => None,
        };
        if choice.is_some() {
            self.has_decided = true;
            return choice;
        }
        if !self.writes_markers {
            return None;
        }
        let is_text = matches!(conflict.kind, TreeConflictKind::Content | TreeConflictKind::AddedAdded);
        let was_tried = self.unresolved.iter().any(|known| known.node == conflict.node);
        self.unresolved.push(conflict.clone());
        // If markers can't be written, the same conflict is asked about again.
        Some(if is_text && !was_tried { ConflictChoice::Markers } else { ConflictChoice::Ours })
    }

    fn preset(&mut self, _: NodeId, sides: &NodeSides) -> Option<NodePreset> {
        match self.choice(sides) {
            Some(MergeChoice::LeaveOut) => Some(NodePreset::LeaveOut),
            Some(MergeChoice::Content(content)) => Some(NodePreset::Content(Arc::clone(content))),
            Some(MergeChoice::TakeTarget | MergeChoice::TakeFork) | None => None,
        }
    }
}

/// The side of a fork that a side of a tree merge is.
pub(super) fn fork_side(direction: Direction, side: MergeSide) -> Direction {
    match (direction, side) {
        (direction, MergeSide::Ours) => direction,
        (Direction::IntoTarget, MergeSide::Theirs) => Direction::IntoFork,
        (Direction::IntoFork, MergeSide::Theirs) => Direction::IntoTarget,
    }
}
