//! Forks: the port, their names, and the record of who owns one and which Workspace it was made from.

use std::fmt::{self, Debug};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::name::escape_name;
use crate::path::VfsPath;
use crate::store::{LeaseId, QuotaLimits, RevisionNumber, Store, StoreResult};
use crate::workspace::ApprovalPolicy;

/// A Store that can be forked.
pub trait Forks: Debug + Send + Sync {
    /// Makes a fork of the Store as it is now, and records who owns it.
    ///
    /// `base` is this Store itself, or a wrapper of it: a fork of a host directory reads through it what the fork has not
    /// changed. A fork begins with the Store's present content, or with that of [`Fork::pinned_at`], with the same version
    /// tags. Changes of the fork never reach its base. Changes of the base don't reach the fork, unless
    /// [`Forks::shows_later_changes`] says so. The fork's history begins with the fork. The base can't be destroyed as long
    /// as the fork needs it. If the owner has another fork of this name, it returns [`StoreError::AlreadyExists`].
    ///
    /// [`StoreError::AlreadyExists`]: crate::StoreError::AlreadyExists
    fn fork(&self, base: Arc<dyn Store>, fork: &Fork) -> StoreResult<Arc<dyn Store>>;

    /// Whether a fork that isn't pinned shows later changes of this Store at names that the fork itself has not changed.
    /// Such a fork has node ids of its own. Otherwise its nodes are those of the base.
    fn shows_later_changes(&self) -> bool;
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
    /// Paths, relative to the top of the fork, that were Workspaces of their own for `created_by`. They aren't part of
    /// the fork.
    pub excluded: Vec<VfsPath>,
    /// When the fork was made.
    pub created: Timestamp,
    /// The revision of the base that the fork shows where it has changed nothing. `None` for the base's content when the
    /// fork was made or, if [`Forks::shows_later_changes`], for the base as it is.
    pub pinned_at: Option<RevisionNumber>,
    /// The lease of the thread that the fork belongs to and is removed with. The Store checks it when it makes the fork.
    /// `None` for a fork that belongs to no thread, and for every fork that was read from a Store.
    pub lease: Option<LeaseId>,
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
