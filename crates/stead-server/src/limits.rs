//! How much one client, or one identity, may ask for at once.

use std::time::Duration;

/// The longest message that is read, in bytes. A longer one is refused before memory is allocated for it.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// What one identity may use of the server at a time, and what all identities may use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// How many calls run at a time, over all identities. Each holds a thread, so a caller that brings its own runtime
    /// must give it more blocking threads than this. Half of the calls are reserved for identities that have none
    /// running.
    pub running_calls: usize,
    /// How many calls of one identity run at a time. Further calls wait.
    pub calls_per_identity: usize,
    /// How many calls of one identity may wait. Further calls are refused.
    pub waiting_per_identity: usize,
    /// How long one call may take. A call that supports cancellation stops then and changes nothing.
    pub call_timeout: Duration,
    /// How long a person has to answer an approval question.
    pub answer_timeout: Duration,
    /// How many clients of one identity may listen for changes at a time (protocol 2026-07-28 and later).
    pub listeners_per_identity: usize,
    /// How many HTTP sessions one identity may have open.
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
