//! Identities, and the operations they perform.
//!
//! ```
//! use stead_core::{Identity, OperationId, Timestamp};
//!
//! let identity = Identity::agent("coder").with_thread("review-12");
//! assert_eq!(identity.thread.as_deref(), Some("review-12"));
//! let id = OperationId::fresh(Timestamp::from_secs(1_790_000_000));
//! assert_eq!(id.to_string().parse::<OperationId>()?, id);
//! # Ok::<(), stead_core::identity::InvalidOperationId>(())
//! ```

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::clock::Timestamp;
use crate::name::escape_text;

/// The agent name of Stead itself, where it acts without being asked by an agent or a person.
pub const SYSTEM_AGENT: &str = "system";

/// No agent can have the name of Stead itself: the agent would be the author of Stead's own operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{SYSTEM_AGENT}` is the name of Stead itself, in the log and in the audit; choose another name for the agent"
)]
pub struct ReservedAgentName;

/// Fails if no agent can have this name.
pub fn check_agent_name(name: &str) -> Result<(), ReservedAgentName> {
    if name == SYSTEM_AGENT { Err(ReservedAgentName) } else { Ok(()) }
}

/// The caller's identity. It comes from the connection, never from a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The agent.
    pub agent: String,
    /// The thread that the agent works in, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The organization that the agent belongs to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// The team within the organization, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
}

impl Identity {
    /// An agent outside any organization or thread.
    pub fn agent(name: impl Into<String>) -> Self {
        Identity { agent: name.into(), thread: None, organization: None, team: None }
    }

    /// The same agent, in a thread.
    pub fn with_thread(self, thread: impl Into<String>) -> Self {
        Identity { thread: Some(thread.into()), ..self }
    }
}

/// The longest thread name, in bytes.
const MAX_THREAD_NAME: usize = 128;

/// The text isn't a valid thread name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "this isn't a valid thread name; use 1 to {MAX_THREAD_NAME} bytes without `/`, `\\` or invisible characters, and \
     not `.`, `..`, `.stead` or `stead.toml`"
)]
pub struct InvalidThreadName;

/// Checks that a text can name a thread: it has to be usable as a directory name, and visible as it is without
/// escaping.
pub fn parse_thread_name(text: &str) -> Result<String, InvalidThreadName> {
    if is_valid_id(text) { Ok(text.to_owned()) } else { Err(InvalidThreadName) }
}

/// Whether a text can be an id: usable as a directory name, and visible as it is without escaping.
pub(crate) fn is_valid_id(text: &str) -> bool {
    // Stead's own files have the last two in a host directory, however they are written.
    let is_taken = [".", "..", ".stead", "stead.toml"].iter().any(|taken| text.eq_ignore_ascii_case(taken));
    let is_name = !text.is_empty() && text.len() <= MAX_THREAD_NAME && !is_taken;
    is_name && !text.contains(['/', '\\']) && escape_text(text).to_string() == text
}

/// The globally unique id of an operation. Ids sort by time, to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OperationId(Uuid);

impl OperationId {
    /// A fresh id for an operation that happens at `at`.
    pub fn fresh(at: Timestamp) -> Self {
        let seconds = u64::try_from(at.as_secs()).unwrap_or(0);
        OperationId(Uuid::new_v7(uuid::Timestamp::from_unix(
            uuid::ContextV7::new(),
            seconds,
            at.subsec_nanos(),
        )))
    }

    /// The 16 bytes that Stores save.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The id with these 16 bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        OperationId(Uuid::from_bytes(bytes))
    }
}

/// The text isn't a valid operation id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this isn't a valid operation id; an id looks like 019a8c3e-5f00-7c01-8000-0123456789ab")]
pub struct InvalidOperationId;

impl FromStr for OperationId {
    type Err = InvalidOperationId;

    fn from_str(text: &str) -> Result<Self, InvalidOperationId> {
        Uuid::try_parse(text).map(OperationId).map_err(|_| InvalidOperationId)
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// The beginning of an operation id, as people type it: at least 4 of its 32 hexadecimal digits, with or without hyphens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationIdPrefix {
    /// The digits, in lower case and without hyphens.
    digits: String,
}

/// The text isn't the beginning of an operation id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOperationIdPrefix {
    /// It isn't hexadecimal, or has too many digits.
    #[error(transparent)]
    Invalid(#[from] InvalidOperationId),
    /// It has too few digits to mean one operation.
    #[error(
        "this is too short for an operation id; give at least its first {} characters",
        OperationIdPrefix::MIN_DIGITS
    )]
    TooShort,
}

impl OperationIdPrefix {
    /// The fewest digits.
    pub const MIN_DIGITS: usize = 4;

    /// The id, if all of its digits are given.
    pub fn as_whole_id(&self) -> Option<OperationId> {
        if self.digits.len() == 32 { self.digits.parse().ok() } else { None }
    }

    /// Whether an id begins like this.
    pub fn matches(&self, id: OperationId) -> bool {
        id.0.simple().to_string().starts_with(&self.digits)
    }

    /// The earliest time that an id which begins like this can contain.
    pub fn earliest_time(&self) -> Timestamp {
        // The first 12 digits of an id are its time in milliseconds.
        let digits = &self.digits[..self.digits.len().min(12)];
        let millis = i64::from_str_radix(&format!("{digits:0<12}"), 16).expect("12 hexadecimal digits");
        Timestamp(millis.saturating_mul(1_000_000))
    }
}

impl FromStr for OperationIdPrefix {
    type Err = InvalidOperationIdPrefix;

    fn from_str(text: &str) -> Result<Self, InvalidOperationIdPrefix> {
        let digits = text.replace('-', "").to_ascii_lowercase();
        if digits.len() > 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(InvalidOperationId.into());
        }
        if digits.len() < Self::MIN_DIGITS {
            return Err(InvalidOperationIdPrefix::TooShort);
        }
        Ok(OperationIdPrefix { digits })
    }
}

impl fmt::Display for OperationIdPrefix {
    /// With hyphens where an id has them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, digit) in self.digits.chars().enumerate() {
            if matches!(index, 8 | 12 | 16 | 20) {
                f.write_str("-")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// One act of one identity. Every change it makes, in however many Stores, belongs to it.
#[derive(Debug, Clone)]
pub struct Operation {
    /// The operation's id.
    pub id: OperationId,
    /// The identity that acts.
    pub identity: Arc<Identity>,
    /// The name of the tool or the command.
    pub tool: Cow<'static, str>,
    /// When the operation began.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_ids_sort_by_time_and_never_repeat() {
        let ids: Vec<_> = (0..100).map(|second| OperationId::fresh(Timestamp::from_secs(second))).collect();
        assert!(ids.is_sorted());
        let now = Timestamp::from_secs(1_000);
        assert_ne!(OperationId::fresh(now), OperationId::fresh(now));
        assert_eq!(OperationId::from_bytes(*ids[3].as_bytes()), ids[3]);
        assert_eq!(ids[3].to_string().parse(), Ok(ids[3]));
        assert_eq!("now".parse::<OperationId>(), Err(InvalidOperationId));
    }

    #[test]
    fn the_beginning_of_an_id_is_enough_to_name_it() {
        let id: OperationId = "019a8c3e-5f00-7c01-8000-0123456789ab".parse().unwrap();
        let prefix = |text: &str| text.parse::<OperationIdPrefix>();
        for text in
            ["019a", "019A8C3E", "019a8c3e-5f", "019a8c3e5f00", "019a8c3e-5f00-7c01-8000-0123456789ab"]
        {
            let prefix = prefix(text).unwrap();
            assert!(prefix.matches(id), "{text}");
            assert_eq!(prefix.as_whole_id().is_some(), text.len() == 36);
        }
        assert_eq!(prefix("019A8C3E5f").unwrap().to_string(), "019a8c3e-5f");
        assert!(!prefix("019a9").unwrap().matches(id));
        assert_eq!(prefix("019"), Err(InvalidOperationIdPrefix::TooShort));
        assert_eq!(prefix(""), Err(InvalidOperationIdPrefix::TooShort));
        for invalid in ["now!", "019a-x", "019a8c3e-5f00-7c01-8000-0123456789abc"] {
            assert_eq!(prefix(invalid), Err(InvalidOperationId.into()), "{invalid}");
        }
    }

    #[test]
    fn the_beginning_of_an_id_bounds_its_time() {
        let at = Timestamp::from_secs(1_700_000_000);
        let id = OperationId::fresh(at).to_string();
        let earliest = |digits| id[..digits].parse::<OperationIdPrefix>().unwrap().earliest_time();
        assert_eq!(earliest(13), at);
        assert!(earliest(6) <= at && at.0 - earliest(6).0 < 20 * 86_400 * 1_000_000_000);
        assert_eq!("ffff".parse::<OperationIdPrefix>().unwrap().earliest_time(), Timestamp(i64::MAX));
    }
}
