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
    /// A limiter for `max_connections` connections.
    pub(super) fn new(max_connections: usize) -> Arc<Self> {
        let slots = Arc::new(Semaphore::new(max_connections));
        Arc::new(ConnectionLimiter {
            slots,
            next_number: AtomicU64::new(0),
            unauthenticated: Mutex::default(),
        })
    }

    /// Waits for a slot for a new connection. If none is free, evicts the oldest unauthenticated connection; if there
    /// is none of these either, waits until a connection closes.
    pub(super) async fn admit(self: &Arc<Self>) -> ConnectionSlot {
        let permit = match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                if let Some((_, oldest)) = self.unauthenticated.lock().pop_first() {
                    oldest.cancel();
                }
                let permit = Arc::clone(&self.slots).acquire_owned().await;
                permit.expect("the semaphore is never closed")
            }
        };
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let eviction = CancellationToken::new();
        self.unauthenticated.lock().insert(number, eviction.clone());
        ConnectionSlot {
            number,
            is_authenticated: AtomicBool::new(false),
            eviction,
            limiter: Arc::downgrade(self),
            _permit: permit,
        }
    }

    /// Waits until all connections are closed. `max_connections` must be the number that the limiter was created with.
    pub(super) async fn wait_until_empty(&self, max_connections: usize) {
        let all = u32::try_from(max_connections).expect("the limit fits into 32 bits");
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
        if let Some(limiter) = self.limiter.upgrade() {
            limiter.unauthenticated.lock().remove(&self.number);
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
    fn hold_until_evicted(slot: ConnectionSlot) {
        tokio::spawn(async move { slot.evicted().await });
    }

    #[test]
    fn the_oldest_unauthenticated_connection_is_evicted() {
        run(async {
            let limiter = ConnectionLimiter::new(3);
            let authenticated = limiter.admit().await;
            authenticated.mark_authenticated();
            for _ in 0..10 {
                let admitted = tokio::time::timeout(Duration::from_secs(5), limiter.admit()).await;
                hold_until_evicted(admitted.expect("there is room at once"));
            }
            assert!(!authenticated.eviction.is_cancelled());
        });
    }

    #[test]
    fn authenticated_connections_stay_and_new_ones_wait() {
        run(async {
            let limiter = ConnectionLimiter::new(1);
            let authenticated = limiter.admit().await;
            authenticated.mark_authenticated();
            let admitted = tokio::time::timeout(Duration::from_millis(50), limiter.admit()).await;
            assert!(admitted.is_err());
            drop(authenticated);
            limiter.admit().await;
            limiter.wait_until_empty(1).await;
        });
    }
}
