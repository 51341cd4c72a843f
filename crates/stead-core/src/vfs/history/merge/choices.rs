//! What the caller of a merge decides about paths.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::glob::{Anchor, PathGlobs};
use crate::history::tree_merge::{
    ConflictChoice, MergeChoices, MergeSide, NodePreset, NodeSides, TreeConflict, TreeConflictKind,
};
use crate::path::VfsPath;
use crate::store::{NodeId, NodeKind, NodeState, StorePath};
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
    /// The paths that match a glob, and everything below them. The glob is relative to the Workspace. It is the name of a path, too, so
    /// that `[id].ts` is that file.
    Glob {
        /// The glob.
        globs: Arc<PathGlobs>,
        /// The same, read as a path.
        path: Arc<str>,
    },
    /// Exactly these paths, relative to the Workspace.
    Exactly(Arc<BTreeSet<String>>),
    /// What the caller may not see: hidden names, and what nested Workspaces stand in front of.
    Hidden,
}

impl RulePaths {
    /// Parses a glob. It may begin with the prefix of the target or of the fork; otherwise it is relative to them.
    pub fn parse(text: &str, prefixes: &[&VfsPath]) -> Result<Self> {
        let text = match relative_to(text, prefixes)? {
            "" => "**",
            text => text,
        };
        let globs = Arc::new(PathGlobs::new([text], Anchor::Start)?);
        Ok(RulePaths::Glob { globs, path: text.trim_end_matches('/').into() })
    }

    /// One path, whatever characters it has. Like a glob, it may begin with the prefix of the target or of the fork.
    pub fn exactly(text: &str, prefixes: &[&VfsPath]) -> Result<Self> {
        let path = relative_to(text, prefixes)?;
        let path = path.strip_prefix("./").unwrap_or(path);
        Ok(RulePaths::Exactly(Arc::new(BTreeSet::from([path.to_owned()]))))
    }

    /// Whether a path, relative to the Workspace, matches, or lies below one that does.
    pub fn matches(&self, path: &str) -> bool {
        match self {
            RulePaths::All => true,
            RulePaths::Glob { globs, path: named } => {
                let is_named = |path: &str| path == &**named || globs.matches(path);
                is_named(path) || path.match_indices('/').any(|(end, _)| is_named(&path[..end]))
            }
            RulePaths::Exactly(paths) => paths.contains(path),
            RulePaths::Hidden => false,
        }
    }
}

/// The part of a path or a glob that is relative to the target or to the fork.
fn relative_to<'t>(text: &'t str, prefixes: &[&VfsPath]) -> Result<&'t str> {
    let relative = prefixes.iter().find_map(|prefix| {
        let rest = text.strip_prefix(prefix.as_str())?;
        rest.strip_prefix('/').or_else(|| rest.is_empty().then_some(""))
    });
    match relative {
        Some(relative) => Ok(relative),
        None if text.starts_with('/') => Err(Error::Invalid(format!(
            "`{}` is neither in the fork nor in the Workspace that it was made from; use a path relative to them",
            text.escape_debug()
        ))),
        None => Ok(text.trim_start_matches("./")),
    }
}

/// What to do about a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeChoice {
    /// If it is in conflict, it stays as it is in the target.
    TakeTarget,
    /// If it is in conflict, it becomes what it is in the fork.
    TakeFork,
    /// If it is a file that the fork has changed, or that is in conflict, it gets this content ([`MergeResult::given`]).
    ///
    /// [`MergeResult::given`]: crate::vfs::MergeResult::given
    Content(Arc<Vec<u8>>),
    /// Its change is left out, and stays in the fork.
    LeaveOut,
    /// Its change is dropped: it stays as it is in the target, and the fork gets it as it is there.
    Drop,
    /// The target's file gets a part of what the fork has changed.
    Part {
        /// What the target's file has. With other content, the merge fails: somebody has changed the file meanwhile.
        before: Arc<Vec<u8>>,
        /// What it gets.
        content: Arc<Vec<u8>>,
        /// What becomes of the rest.
        rest: RestOfPart,
    },
}

/// What becomes of the part of a change that isn't taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestOfPart {
    /// It stays in the fork, to be merged later.
    Stays,
    /// The fork gets the file as the target has it then.
    Dropped,
}

/// The rules of a merge, applied to nodes by the paths that they have on the three sides.
pub(super) struct RuleChoices<'r> {
    pub(super) rules: &'r [MergeRule],
    pub(super) direction: Direction,
    /// A path of the Store as the caller sees it, relative to the Workspace; of something in a nested Workspace with other
    /// files, the nested Workspace; `None` for what the caller may not see. Rules are about nothing else: a rule must not tell
    /// whether its guess of a hidden name is right.
    pub(super) visible_path: &'r dyn Fn(&StorePath) -> Option<String>,
    /// Whether rules aren't about a node: a directory above the Workspace, without which there is no place for its files.
    pub(super) has_no_rules: &'r dyn Fn(&NodeState) -> bool,
    /// What to do about a conflict that no rule is about: for an update.
    pub(super) writes_markers: bool,
    /// The nodes in conflict that an update leaves as the fork has them.
    pub(super) unresolved: Vec<TreeConflict>,
    /// Whether a rule has decided a conflict.
    pub(super) has_decided: bool,
    /// Whether a rule has taken the target's side, so that the fork's is given up.
    pub(super) gives_up_fork: bool,
    /// The files that get the content of a rule, by the paths that rules know.
    pub(super) given: BTreeSet<String>,
    /// The files of which a part is taken, as the side that gets changed has them, and what they are expected to have.
    pub(super) parts: Vec<(Option<NodeState>, Arc<Vec<u8>>)>,
}

/// What the rules say about something with these paths. None of them if the caller may not see it.
pub(super) fn choice_for<'r>(rules: &'r [MergeRule], paths: &[String]) -> Option<&'r MergeChoice> {
    let is_about = |rule: &&MergeRule| match &rule.paths {
        RulePaths::All => true,
        RulePaths::Hidden => paths.is_empty(),
        some => paths.iter().any(|path| some.matches(path)),
    };
    rules.iter().rev().find(is_about).map(|rule| &rule.choice)
}

impl RuleChoices<'_> {
    fn choice(&mut self, sides: &NodeSides) -> Option<MergeChoice> {
        let states = || [&sides.ours, &sides.theirs, &sides.base].into_iter().flatten();
        if states().any(|state| (self.has_no_rules)(state)) {
            return None;
        }
        let paths: Vec<String> = states().filter_map(|state| (self.visible_path)(&state.path)).collect();
        let choice = choice_for(self.rules, &paths)?.clone();
        if matches!(choice, MergeChoice::Content(_)) {
            // Only a file can have content.
            if !states().any(|state| state.kind == NodeKind::File) {
                return None;
            }
            self.given.extend(paths);
        }
        Some(choice)
    }

    fn take(&self, side: Direction) -> ConflictChoice {
        // Ours is the side that gets changed.
        if side == self.direction { ConflictChoice::Ours } else { ConflictChoice::Theirs }
    }
}

impl MergeChoices for RuleChoices<'_> {
    fn resolve(&mut self, conflict: &TreeConflict) -> Option<ConflictChoice> {
        let choice = self.choice(&conflict.sides);
        let gives_up_fork = matches!(choice, Some(MergeChoice::TakeTarget | MergeChoice::Drop));
        let choice = match choice {
            Some(MergeChoice::TakeTarget) => Some(self.take(Direction::IntoTarget)),
            Some(MergeChoice::TakeFork) => Some(self.take(Direction::IntoFork)),
            Some(MergeChoice::Content(content) | MergeChoice::Part { content, .. }) => {
                Some(ConflictChoice::Content(content))
            }
            Some(MergeChoice::LeaveOut) => Some(ConflictChoice::LeaveOut),
            Some(MergeChoice::Drop) => Some(ConflictChoice::Ours),
            None => None,
        };
        if choice.is_some() {
            self.has_decided = true;
            self.gives_up_fork |= gives_up_fork;
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
        match self.choice(sides)? {
            MergeChoice::LeaveOut => Some(NodePreset::LeaveOut),
            MergeChoice::Drop => {
                (self.has_decided, self.gives_up_fork) = (true, true);
                Some(NodePreset::Drop)
            }
            MergeChoice::Content(content) => Some(NodePreset::Content(content)),
            MergeChoice::Part { before, content, rest } => {
                self.parts.push((sides.ours.clone(), before));
                Some(match rest {
                    RestOfPart::Stays => NodePreset::Part(content),
                    RestOfPart::Dropped => NodePreset::Content(content),
                })
            }
            MergeChoice::TakeTarget | MergeChoice::TakeFork => None,
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
