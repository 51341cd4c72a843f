//! The questions to a person that are open: how many, and what a yes to one of them would allow.
//!
//! A client from 2026-07-28 on is handed a question, asks the person, and makes the call again with the answer. What the
//! person was shown is kept here until then. A yes is spent by one call, and only by the very call that was asked about.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use stead_core::tools::ApprovalQuestion;

use crate::live_stead::CountGuard;

/// How many questions one identity may have open: as many as a person might look at.
const MAX_PENDING: usize = 32;

/// The open questions of one identity.
#[derive(Debug, Default)]
pub(crate) struct PendingApprovals {
    /// Those that a call waits for.
    waiting_calls: AtomicUsize,
    /// Those that a client takes with it.
    deferred: Mutex<VecDeque<PendingApproval>>,
}

#[derive(Debug)]
struct PendingApproval {
    name: String,
    /// The call that it is about: its tool and its arguments.
    call: blake3::Hash,
    question: ApprovalQuestion,
    expires: Instant,
}

impl PendingApprovals {
    /// A place among those that a call waits for, while there is one.
    pub(crate) fn begin_waiting(&self) -> Option<CountGuard<'_>> {
        CountGuard::acquire(&self.waiting_calls, MAX_PENDING)
    }

    /// Keeps a question about a call, and names it. Nobody can make up a name.
    pub(crate) fn defer(&self, question: ApprovalQuestion, call: blake3::Hash, time: Duration) -> String {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).expect("the host has randomness");
        let name = format!("agree-{:032x}", u128::from_ne_bytes(secret));
        let mut open = self.deferred.lock();
        let now = Instant::now();
        open.retain(|one| one.expires > now);
        while open.len() >= MAX_PENDING {
            open.pop_front();
        }
        open.push_back(PendingApproval { name: name.clone(), call, question, expires: now + time });
        name
    }

    /// The question of that name, if it is about this call. It is open no more.
    pub(crate) fn take(&self, name: &str, call: blake3::Hash) -> Option<ApprovalQuestion> {
        let mut open = self.deferred.lock();
        let now = Instant::now();
        let at = open.iter().position(|one| one.name == name && one.call == call && one.expires > now)?;
        open.remove(at).map(|one| one.question)
    }
}
