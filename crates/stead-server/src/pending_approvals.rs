//! The approval questions that are open: how many there are, and which call each of them would allow.
//!
//! A client of protocol 2026-07-28 or later is handed a question, asks the person, and repeats the call with the
//! answer. Until then the question is stored here. An approval is valid for one call, and only for the call that was
//! asked about.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use stead_core::tools::ApprovalQuestion;

use crate::live_stead::CountGuard;

/// How many questions one identity may have open: as many as a person might look at.
const MAX_PENDING: usize = 32;

/// The open questions of one identity.
#[derive(Debug, Default)]
pub(crate) struct PendingApprovals {
    /// How many calls wait for an answer.
    waiting_calls: AtomicUsize,
    /// Questions that were handed to a client, which repeats the call with the answer.
    deferred: Mutex<VecDeque<PendingApproval>>,
}

#[derive(Debug)]
struct PendingApproval {
    name: String,
    /// Hash of the tool and the arguments that the question is about.
    call: blake3::Hash,
    question: ApprovalQuestion,
    expires: Instant,
}

impl PendingApprovals {
    /// Reserves one of the places for calls that wait for an answer; `None` if all are taken.
    pub(crate) fn acquire_waiting(&self) -> Option<CountGuard<'_>> {
        CountGuard::acquire(&self.waiting_calls, MAX_PENDING)
    }

    /// Stores a question about a call for `timeout` and returns its name, which can't be guessed.
    ///
    /// When full, drops the oldest question.
    pub(crate) fn defer(&self, question: ApprovalQuestion, call: blake3::Hash, timeout: Duration) -> String {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).expect("the system's random number generator works");
        let name = format!("approval-{:032x}", u128::from_ne_bytes(secret));
        let mut deferred = self.deferred.lock();
        let now = Instant::now();
        deferred.retain(|pending| pending.expires > now);
        while deferred.len() >= MAX_PENDING {
            deferred.pop_front();
        }
        deferred.push_back(PendingApproval { name: name.clone(), call, question, expires: now + timeout });
        name
    }

    /// Whether a question can still be answered.
    pub(crate) fn has_open(&self) -> bool {
        let now = Instant::now();
        self.waiting_calls.load(Ordering::Relaxed) > 0
            || self.deferred.lock().iter().any(|one| one.expires > now)
    }

    /// Removes and returns the question of that name, if it is about this call and hasn't expired.
    pub(crate) fn take(&self, name: &str, call: blake3::Hash) -> Option<ApprovalQuestion> {
        let mut deferred = self.deferred.lock();
        let now = Instant::now();
        let index = deferred
            .iter()
            .position(|pending| pending.name == name && pending.call == call && pending.expires > now)?;
        deferred.remove(index).map(|pending| pending.question)
    }
}
