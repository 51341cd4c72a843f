//! Waiting for the end of a FUSE session without polling.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// The end of a session: the mount was unmounted, and no request comes any more.
#[derive(Debug, Clone, Default)]
pub struct SessionEnd(Arc<EndState>);

#[derive(Debug, Default)]
struct EndState {
    has_ended: Mutex<bool>,
    ended: Condvar,
}

/// Ends the session when it is dropped.
#[derive(Debug)]
pub(crate) struct EndOnDrop(SessionEnd);

impl SessionEnd {
    /// Waits until the session has ended.
    pub fn wait(&self) {
        self.0.ended.wait_while(&mut self.0.has_ended.lock(), |has_ended| !*has_ended);
    }

    /// Waits until the session has ended, but not longer than until the deadline.
    pub(crate) fn wait_until(&self, deadline: Instant) {
        self.0.ended.wait_while_until(&mut self.0.has_ended.lock(), |has_ended| !*has_ended, deadline);
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.0.has_ended.lock()
    }

    pub(crate) fn end_on_drop(&self) -> EndOnDrop {
        EndOnDrop(self.clone())
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let state = &self.0.0;
        *state.has_ended.lock() = true;
        state.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    #[test]
    fn everyone_who_waits_is_woken_by_the_end() {
        let end = SessionEnd::default();
        let session = end.end_on_drop();
        end.wait_until(Instant::now() + Duration::from_millis(10));
        assert!(!end.has_ended());
        let waiting = [(); 2].map(|()| {
            let end = end.clone();
            std::thread::spawn(move || end.wait())
        });
        drop(session);
        waiting.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(end.has_ended());
    }
}
