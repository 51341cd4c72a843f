//! Forks: the port, their names, and the record of who owns one and which Workspace it was made from.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::{self, Debug};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::identity::OperationId;
use crate::name::escape_name;
use crate::path::VfsPath;
use crate::scope::AccessScope;
use crate::store::{
    ContentRef, CurrentNode, LeaseId, NodeId, NodeState, QuotaLimits, RevisionNumber, Store, StoreId,
    StorePath, StoreResult,
};
use crate::workspace::ApprovalPolicy;

/// A Store that can be forked.
pub trait Forks: Debug + Send + Sync {
    /// Makes a fork of the Store as it is now, and records who owns it.
    ///
    /// `base` is this Store itself, or a wrapper of it: a fork of a host directory reads through it what the fork has not
    /// changed. A fork begins with the Store's present content, or with that of [`Fork::pinned_at`], with the same version
    /// tags. Changes of the fork never reach its base. Changes of the base don't reach the fork, unless
    /// [`Forks::shows_later_changes`] says so. The fork's history begins with the fork. A base that is a fork can
    /// be destroyed, and what this fork needs of it stays; any other base can't be destroyed as long as it has forks. If the owner has another fork of this name, it returns [`StoreError::AlreadyExists`].
    ///
    /// [`StoreError::AlreadyExists`]: crate::StoreError::AlreadyExists
    fn fork(&self, base: Arc<dyn Store>, fork: &Fork) -> StoreResult<Arc<dyn Store>>;

    /// Whether a fork that isn't pinned shows later changes of this Store at names that the fork itself has not changed.
    /// Such a fork has node ids of its own. Otherwise its nodes are those of the base.
    fn shows_later_changes(&self) -> bool;

    /// The Store that this one, a fork, was made from. Fails like [`Forks::sides`].
    fn target(&self) -> StoreResult<StoreId>;

    /// The three sides of this Store, which is a fork: everything that the fork or the Store that it was made from has changed,
    /// all as of one moment. Returns [`StoreError::Unsupported`] if this Store isn't a fork, and [`StoreError::Expired`] if the
    /// Store that it was made from is gone. The nodes of `also` are among them even if nothing about them has changed but a
    /// directory above them. `progress` is called for each node that is looked at; its error ends the call.
    ///
    /// [`StoreError::Unsupported`]: crate::StoreError::Unsupported
    /// [`StoreError::Expired`]: crate::StoreError::Expired
    fn sides(
        &self,
        query: SidesQuery,
        also: &BTreeSet<NodeId>,
        progress: &mut dyn FnMut() -> StoreResult<()>,
    ) -> StoreResult<ForkSides>;

    /// Begins to store texts that a merge or an update of this Store, which is a fork, combines.
    fn merge_drafts(&self) -> StoreResult<Box<dyn MergeDrafts>>;
}

/// The texts that a merge has combined: the Store of the fork holds them, and nothing refers to them yet.
///
/// A change of the fork and a change of its target can use them as stored content. When this is dropped, those that no change
/// has used are garbage.
pub trait MergeDrafts: Debug {
    /// Stores texts, and returns a reference to each.
    fn store(&self, texts: Vec<Vec<u8>>) -> StoreResult<Vec<ContentRef>>;
}

/// What the sides of a fork are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SidesQuery {
    /// The base is the target as it was when the fork took in its changes the last time. The sides are the present ones.
    SinceSync,
    /// The same, but the target is shown as the fork's Store knows it, which may be older than it is: for callers that need
    /// only the base and the fork. It works without the target.
    BaseAndFork,
    /// The base is the fork as it was at a revision, and the target is as it was at another one. This is for a fork that was
    /// merged at these revisions and has not yet taken in the result.
    AfterMerge {
        /// The revision of the fork that was merged.
        fork_revision: RevisionNumber,
        /// The revision of the target that the merge made.
        target_revision: RevisionNumber,
    },
}

/// What a fork and the Store that it was made from, its target, have changed since their base.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ForkSides {
    /// The Store that the fork was made from.
    pub target: StoreId,
    /// Which changes of the target the fork has taken in.
    pub sync: ForkSync,
    /// The newest revision that the sides show, of the fork and of the target.
    pub revision: RevisionNumber,
    /// The revision of the target's states: what a sync that takes them in records. If the target has no revisions of its own,
    /// because host programs change it too, this is a revision of what the fork's Store knows of it.
    pub target_revision: RevisionNumber,
    /// Every node that at least one of them has changed, with its state in the base; `None` if it didn't exist there.
    pub nodes: BTreeMap<NodeId, Option<NodeState>>,
    /// These nodes and the directories that a state of them names, as the target has them.
    pub in_target: HashMap<NodeId, CurrentNode>,
    /// The same as the fork has them.
    pub in_fork: HashMap<NodeId, CurrentNode>,
    /// `None` if the target has the same node ids. Otherwise the ids that the target itself has for directories of
    /// `in_target`, and a node of the target is found by its path.
    pub target_ids: Option<HashMap<NodeId, NodeId>>,
    /// Paths of the fork that show a node of the target which the fork itself has elsewhere, because the target has moved it there.
    /// They are free when the fork takes the move in.
    pub shown_twice: HashSet<StorePath>,
}

impl ForkSides {
    /// Sides without nodes.
    pub fn new(target: StoreId, sync: ForkSync, revision: RevisionNumber) -> Self {
        let (nodes, in_target, in_fork) = (BTreeMap::new(), HashMap::new(), HashMap::new());
        let (target_revision, target_ids, shown_twice) = (revision, None, HashSet::new());
        ForkSides {
            target,
            sync,
            revision,
            target_revision,
            nodes,
            in_target,
            in_fork,
            target_ids,
            shown_twice,
        }
    }
}

/// Which changes of its target a fork has taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkSync {
    /// A number that grows with every sync. The next sync names it, so that two can't be made at once.
    pub number: i64,
    /// The number of the sync that counts: the newest one that has not been undone, nor what it was made after.
    pub counting: i64,
    /// The revision of the target up to which its changes are in the fork.
    pub target_revision: RevisionNumber,
    /// The nodes whose base is an older revision of the target: their changes were in conflict or left out.
    pub behind: BTreeMap<NodeId, RevisionNumber>,
    /// The nodes that have no base, although the target has them: it has moved them to where the fork's owner can't see them, and
    /// so the fork has them no more.
    pub absent: BTreeSet<NodeId>,
    /// Those of `behind` that the target has moved to where the fork's owner can't see them. A fork that shows later changes of its
    /// target shows nothing of such a directory.
    pub out_of_sight: BTreeSet<NodeId>,
    /// The nodes that an update wrote with conflict markers.
    pub marked: BTreeSet<NodeId>,
    /// The merges of the fork whose result it has taken in.
    pub merges: BTreeSet<OperationId>,
}

/// That a fork takes in changes of its target: a companion record of the change that does it.
///
/// If the last sync of the fork isn't the one with the number `after`, the Store refuses the change with
/// [`StoreError::Conflict`](crate::StoreError::Conflict).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewForkSync {
    /// The number of the sync before it.
    pub after: i64,
    /// The number of the sync that counted when this one was planned. If that one is undone, this one doesn't count either.
    pub based_on: i64,
    /// The revision of the target up to which its changes are in the fork then.
    pub target_revision: RevisionNumber,
    /// The revision up to which the rows of the target's manifest are in that of the fork; `None` if there are none.
    pub manifest_revision: Option<RevisionNumber>,
    /// Whether none of these rows came since the sync that this one is based on.
    pub keeps_manifest: bool,
    /// The merge whose result the fork takes in, if it is one.
    pub merge: Option<OperationId>,
    /// As in [`ForkSync`].
    pub behind: BTreeMap<NodeId, RevisionNumber>,
    /// As in [`ForkSync`].
    pub absent: BTreeSet<NodeId>,
    /// As in [`ForkSync`].
    pub out_of_sight: BTreeSet<NodeId>,
    /// The nodes that this change writes with conflict markers.
    pub marked: BTreeSet<NodeId>,
}

/// The maximum length of a fork's name, in bytes.
const MAX_FORK_NAME: usize = 64;

/// The name of a fork: one path component that needs no quoting anywhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ForkName(String);

/// The text isn't a valid name for a fork.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` isn't a valid fork name; use up to {MAX_FORK_NAME} letters, digits, `-`, `_` and `.`, beginning with a \
     letter or a digit"
)]
pub struct InvalidForkName(String);

impl ForkName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ForkName {
    type Err = InvalidForkName;

    fn from_str(text: &str) -> Result<Self, InvalidForkName> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let starts_alphanumeric = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if starts_alphanumeric && text.len() <= MAX_FORK_NAME && text.bytes().all(is_allowed) {
            Ok(ForkName(text.to_owned()))
        } else {
            Err(InvalidForkName(escape_name(text.as_bytes()).to_string()))
        }
    }
}

impl TryFrom<String> for ForkName {
    type Error = InvalidForkName;

    fn try_from(text: String) -> Result<Self, InvalidForkName> {
        text.parse()
    }
}

impl From<ForkName> for String {
    fn from(name: ForkName) -> String {
        name.0
    }
}

impl fmt::Display for ForkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A fork of a Workspace: its owner, and the settings that it takes over from that Workspace.
///
/// The Workspaces that are nested in the forked one are forked with it. Each of them is a part of the fork: a fork of its own
/// Store, with the owner and the name of the whole, at its [`place`](Fork::place).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The agent that owns the fork. The names of one owner's forks are unique.
    pub owner: String,
    /// The fork's name.
    pub name: ForkName,
    /// The agent that made the fork.
    pub created_by: String,
    /// The prefix of the Workspace that the fork was made from, as `created_by` sees it.
    pub base_prefix: VfsPath,
    /// The path in the Store that the fork shows.
    pub path: VfsPath,
    /// Globs for what agents may not change in the fork.
    pub protect: Vec<String>,
    /// Globs for the names that are hidden in the fork, as they were for `created_by`.
    pub hide: Vec<String>,
    /// Globs for what has no history in the fork.
    pub scratch: Vec<String>,
    /// The limits on what the fork may hold.
    pub quota: QuotaLimits,
    /// Which accesses to the fork a person has to approve.
    pub approval_policy: ApprovalPolicy,
    /// Where this part is, relative to the top of the whole fork: `/` for the fork itself.
    pub place: VfsPath,
    /// What its owner may do in it: READ_WRITE for the fork itself, and the scope of the nested Workspace for any other part.
    pub scope: AccessScope,
    /// Paths, relative to the top of this part, that were Workspaces of their own for `created_by`. The Store of this part never
    /// shows anything there: another part does, or nothing.
    pub excluded: Vec<VfsPath>,
    /// The other parts, by place. A Store fills it in when it reads the fork itself, and ignores it when it makes one.
    pub parts: Vec<ForkPart>,
    /// When the fork was made.
    pub created: Timestamp,
    /// The revision of the base that the fork shows where it has changed nothing. `None` for the base's content when the
    /// fork was made or, if [`Forks::shows_later_changes`], for the base as it is.
    pub pinned_at: Option<RevisionNumber>,
    /// The lease of the thread that the fork belongs to and is removed with. The Store checks it when it makes the fork.
    /// `None` for a fork that belongs to no thread, and for every fork that was read from a Store.
    pub lease: Option<LeaseId>,
    /// Tells apart what was made together: the parts of a fork, and the fork itself. `None` for a fork without other parts.
    pub made_by: Option<OperationId>,
}

/// A nested Workspace that was forked with the one around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkPart {
    /// Where it is, relative to the top of the fork.
    pub place: VfsPath,
    /// What the fork's owner may do in it.
    pub scope: AccessScope,
    /// The prefix of the nested Workspace, as the fork's maker sees it.
    pub base_prefix: VfsPath,
}

impl Fork {
    /// Whether this is the fork itself, and not the fork of a nested Workspace in it.
    pub fn is_whole(&self) -> bool {
        self.place.is_root()
    }

    /// A path of this part, relative to the top of the whole fork.
    pub fn path_in_whole(&self, path: &VfsPath) -> VfsPath {
        let relative_path = &path.as_str()[1..];
        self.place.join(relative_path).unwrap_or_else(|_| self.place.clone())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_name_is_a_plain_component() {
        for name in ["draft", "v1.2", "7", "a_b-c", &"x".repeat(64)] {
            assert_eq!(name.parse::<ForkName>().unwrap().as_str(), name);
        }
        for text in ["", ".", "..", ".hidden", "-x", "a/b", "a b", "ä", "a\n", &"x".repeat(65)] {
            assert!(text.parse::<ForkName>().is_err(), "{text:?}");
        }
    }
}
