//! Limits how many connections are open. When full, evicts the oldest unauthenticated connection.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Counts the open connections.
#[derive(Debug)]
pub(super) struct ConnectionLimiter {
    slots: Arc<Semaphore>,
    next_number: AtomicU64,
    /// The connections that aren't authenticated yet, oldest first.
    unauthenticated: Mutex<BTreeMap<u64, CancellationToken>>,
}

/// One connection. Dropping it frees its slot.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    number: u64,
    is_authenticated: AtomicBool,
    eviction: CancellationToken,
    limiter: Weak<ConnectionLimiter>,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionLimiter {
    /// A limiter for `most` connections.
    pub(super) fn new(most: usize) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(most));
        Arc::new(ConnectionLimiter {
            slots: places,
            next_number: AtomicU64::new(0),
            unauthenticated: Mutex::default(),
        })
    }

    /// Waits for a slot for a new connection. If none is free, evicts the oldest unauthenticated connection; if there
    /// is none of these either, waits until a connection closes.
    pub(super) async fn admit(self: &Arc<Self>) -> ConnectionSlot {
        let place = match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                if let Some((_, oldest)) = self.unauthenticated.lock().pop_first() {
                    oldest.cancel();
                }
                let place = Arc::clone(&self.slots).acquire_owned().await;
                place.expect("the semaphore is never closed")
            }
        };
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let sent_away = CancellationToken::new();
        self.unauthenticated.lock().insert(number, sent_away.clone());
        ConnectionSlot {
            number,
            is_authenticated: AtomicBool::new(false),
            eviction: sent_away,
            limiter: Arc::downgrade(self),
            _permit: place,
        }
    }

    /// Waits until all connections are closed. `most` must be the number that the limiter was created with.
    pub(super) async fn wait_until_empty(&self, most: usize) {
        let all = u32::try_from(most).expect("the limit fits into 32 bits");
        let _ = self.slots.acquire_many(all).await;
    }
}

impl ConnectionSlot {
    /// Marks this connection as authenticated: it is never evicted from now on.
    pub(super) fn mark_authenticated(&self) {
        if !self.is_authenticated.swap(true, Ordering::Relaxed) {
            self.stop_tracking();
        }
    }

    /// Resolves when this connection is evicted.
    pub(super) async fn evicted(&self) {
        self.eviction.cancelled().await;
    }

    fn stop_tracking(&self) {
        if let Some(among) = self.limiter.upgrade() {
            among.unauthenticated.lock().remove(&self.number);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.stop_tracking();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(test);
    }

    /// Holds a connection open until it is evicted.
    fn silent(guest: ConnectionSlot) {
        tokio::spawn(async move { guest.evicted().await });
    }

    #[test]
    fn the_oldest_stranger_makes_room() {
        run(async {
            let guests = ConnectionLimiter::new(3);
            let known = guests.admit().await;
            known.mark_authenticated();
            for _ in 0..10 {
                let admitted = tokio::time::timeout(Duration::from_secs(5), guests.admit()).await;
                silent(admitted.expect("there is room at once"));
            }
            assert!(!known.eviction.is_cancelled());
        });
    }

    #[test]
    fn whoever_was_let_in_stays_and_others_wait() {
        run(async {
            let guests = ConnectionLimiter::new(1);
            let known = guests.admit().await;
            known.mark_authenticated();
            let waits = tokio::time::timeout(Duration::from_millis(50), guests.admit()).await;
            assert!(waits.is_err());
            drop(known);
            guests.admit().await;
            guests.wait_until_empty(1).await;
        });
    }
}
