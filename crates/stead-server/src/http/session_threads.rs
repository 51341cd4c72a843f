//! The threads of agents for which the server names them: each session is a thread of its own, and ends with it.
//!
//! A session is found here by its id, so that its requests get to the endpoint of its thread. What has to end is marked here and
//! ended by [`super::routes::Routes`], which tries again until the thread is gone.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use stead::Identity;

/// The sessions that are threads.
#[derive(Debug, Default)]
pub(super) struct SessionThreads {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the identity with the thread.
    threads: HashMap<Identity, SessionThread>,
    /// The identity with the thread, by the id of the session.
    by_session: HashMap<String, Identity>,
    /// How many threads each caller has, by the identity without a thread.
    counts: HashMap<Identity, usize>,
}

#[derive(Debug)]
struct SessionThread {
    caller: Identity,
    /// `None` until the session has begun.
    session: Option<String>,
    is_ending: bool,
}

impl SessionThreads {
    /// Adds a thread whose session begins now; `None` if the caller has `limit` of them.
    pub(super) fn begin(
        self: &Arc<Self>,
        caller: &Identity,
        identity: Identity,
        limit: usize,
    ) -> Option<BeginningSession> {
        let mut state = self.state.lock();
        let count = state.counts.entry(caller.clone()).or_default();
        if *count >= limit {
            return None;
        }
        *count += 1;
        let thread = SessionThread { caller: caller.clone(), session: None, is_ending: false };
        state.threads.insert(identity.clone(), thread);
        Some(BeginningSession { threads: Arc::clone(self), identity, has_begun: false })
    }

    /// The identity with the thread of a session that this caller has.
    pub(super) fn find(&self, caller: &Identity, session: &str) -> Option<Identity> {
        let state = self.state.lock();
        let identity = state.by_session.get(session)?;
        let thread = state.threads.get(identity)?;
        (thread.caller == *caller && !thread.is_ending).then(|| identity.clone())
    }

    /// Marks a thread that has to end. Its session can't be found any more.
    pub(super) fn mark_ending(&self, identity: &Identity) {
        if let Some(thread) = self.state.lock().threads.get_mut(identity) {
            thread.is_ending = true;
        }
    }

    /// Every thread whose session has begun or that has to end, and whether it has to.
    pub(super) fn all(&self) -> Vec<(Identity, bool)> {
        let state = self.state.lock();
        let known = state.threads.iter().filter(|(_, thread)| thread.is_ending || thread.session.is_some());
        known.map(|(identity, thread)| (identity.clone(), thread.is_ending)).collect()
    }

    /// Forgets a thread that has ended.
    pub(super) fn remove(&self, identity: &Identity) {
        let mut state = self.state.lock();
        let Some(thread) = state.threads.remove(identity) else { return };
        if let Some(session) = thread.session {
            state.by_session.remove(&session);
        }
        if let Some(count) = state.counts.get_mut(&thread.caller) {
            *count -= 1;
            if *count == 0 {
                state.counts.remove(&thread.caller);
            }
        }
    }
}

/// A thread whose session begins. Its thread has to end if this is dropped before the session has begun.
#[derive(Debug)]
pub(super) struct BeginningSession {
    threads: Arc<SessionThreads>,
    pub(super) identity: Identity,
    has_begun: bool,
}

impl BeginningSession {
    /// The session has begun, with this id.
    pub(super) fn begun(mut self, session: &str) {
        let mut state = self.threads.state.lock();
        state.by_session.insert(session.to_owned(), self.identity.clone());
        if let Some(thread) = state.threads.get_mut(&self.identity) {
            thread.session = Some(session.to_owned());
        }
        drop(state);
        self.has_begun = true;
    }
}

impl Drop for BeginningSession {
    fn drop(&mut self) {
        if !self.has_begun {
            self.threads.mark_ending(&self.identity);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_session_is_found_by_its_caller_alone_until_it_ends() {
        let threads = Arc::new(SessionThreads::default());
        let (ann, bob) = (Identity::agent("ann"), Identity::agent("bob"));
        let thread = |name: &str| ann.clone().with_thread(name);
        threads.begin(&ann, thread("one"), 2).unwrap().begun("s1");
        assert_eq!(threads.find(&ann, "s1"), Some(thread("one")));
        assert_eq!(threads.find(&bob, "s1"), None);
        // One that fails to begin has to end, and counts until it has.
        drop(threads.begin(&ann, thread("two"), 2).unwrap());
        assert!(threads.begin(&ann, thread("three"), 2).is_none());
        assert!(threads.all().contains(&(thread("two"), true)));
        threads.remove(&thread("two"));
        threads.begin(&ann, thread("three"), 2).unwrap().begun("s3");
        threads.mark_ending(&thread("one"));
        assert_eq!(threads.find(&ann, "s1"), None);
        threads.remove(&thread("one"));
        threads.remove(&thread("three"));
        let state = threads.state.lock();
        assert!(state.threads.is_empty() && state.by_session.is_empty() && state.counts.is_empty());
    }
}
