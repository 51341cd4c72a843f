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
     not `.` or `..`"
)]
pub struct InvalidThreadName;

/// Checks that a text can name a thread: it has to be usable as a directory name, and visible as it is without
/// escaping.
pub fn parse_thread_name(text: &str) -> Result<String, InvalidThreadName> {
    let is_name = !text.is_empty() && text.len() <= MAX_THREAD_NAME && !matches!(text, "." | "..");
    let is_visible = !text.contains(['/', '\\']) && escape_text(text).to_string() == text;
    if is_name && is_visible { Ok(text.to_owned()) } else { Err(InvalidThreadName) }
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
}
