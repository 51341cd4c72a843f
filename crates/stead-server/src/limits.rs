//! How much one client, or one identity, may ask for at once.

use std::time::Duration;

/// The longest message that is read, in bytes. What is longer is refused before memory is taken for it.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// How much of the server one identity may have, and all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// How many calls of all identities together run at a time. Each holds a thread, so a runtime of one's own needs more
    /// threads for blocking work than this. Half of it is for identities that have no call running.
    pub running_calls: usize,
    /// How many of its calls are made at a time. Further ones wait.
    pub calls_per_identity: usize,
    /// How many may wait. Further ones are refused.
    pub waiting_per_identity: usize,
    /// How long one call may take. One that can stop half way does, and nothing of it has happened.
    pub call_timeout: Duration,
    /// How long a person has time to answer.
    pub answer_timeout: Duration,
    /// How many of its clients may listen for changes at a time, from 2026-07-28 on.
    pub listeners_per_identity: usize,
    /// How many sessions it may have open, over HTTP.
    pub sessions_per_identity: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            running_calls: 128,
            calls_per_identity: 8,
            waiting_per_identity: 256,
            call_timeout: Duration::from_secs(120),
            answer_timeout: Duration::from_secs(300),
            listeners_per_identity: 64,
            sessions_per_identity: 64,
        }
    }
}
