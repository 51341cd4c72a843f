//! Forks: what one is called, whose it is, and what it was made of.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::name::escape_name;
use crate::path::VfsPath;
use crate::store::QuotaLimits;
use crate::workspace::ApprovalPolicy;

/// The longest name of a fork, in bytes.
const MAX_FORK_NAME: usize = 64;

/// The name of a fork: one component of a path that needs no quoting anywhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ForkName(String);

/// The text is no name for a fork.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` can't be the name of a fork; use up to {MAX_FORK_NAME} letters, digits, `-`, `_` and `.`, beginning with a letter \
     or a digit"
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
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if begins && text.len() <= MAX_FORK_NAME && text.bytes().all(plain) {
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

/// A fork of a Workspace: whose it is, and what it keeps of the Workspace that it was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The agent that has it; no two of its forks have one name.
    pub owner: String,
    /// What it is called.
    pub name: ForkName,
    /// The agent that made it.
    pub created_by: String,
    /// The prefix of the Workspace that it was made of, as its maker sees it.
    pub base_prefix: VfsPath,
    /// The path in the Store that it shows.
    pub path: VfsPath,
    /// What agents may not change in it.
    pub protect: Vec<String>,
    /// What is kept without history.
    pub scratch: Vec<String>,
    /// How much may lie in it.
    pub quota: QuotaLimits,
    /// Whether a person is asked before something is done in it.
    pub approval_policy: ApprovalPolicy,
    /// The places in it that were Workspaces of their own for its maker, counted from its top: they are no part of it.
    pub excluded: Vec<VfsPath>,
    /// When it was made.
    pub created: Timestamp,
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
