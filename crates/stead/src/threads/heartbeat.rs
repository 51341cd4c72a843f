//! The heartbeat: one OS thread that renews the leases of this process, whatever the number of steads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex};
use stead_stores::LeaseHolder;

/// Starts with the first lease, and ends after the last one was given back.
#[derive(Debug, Default)]
pub(super) struct Heartbeat {
    is_running: Mutex<bool>,
    wake: Condvar,
    is_stopped: AtomicBool,
}

impl Heartbeat {
    /// Starts the OS thread if it doesn't run. Call it after a thread was entered.
    pub(super) fn ensure_running(self: &Arc<Self>, holder: &Arc<LeaseHolder>) {
        let mut is_running = self.is_running.lock();
        if *is_running || self.is_stopped.load(Ordering::Relaxed) {
            return;
        }
        let (heartbeat, interval, weak) =
            (Arc::clone(self), holder.heartbeat_interval(), Arc::downgrade(holder));
        let spawned = std::thread::Builder::new().name("stead-leases".to_owned()).spawn(move || {
            while heartbeat.is_needed_after(&weak, interval) {
                // A failure is tried again. A call that begins after the leases may have expired renews them itself.
                if let Some(holder) = weak.upgrade() {
                    let _ = holder.renew_all();
                }
            }
        });
        // Without the OS thread, calls renew the leases when they need them.
        *is_running = spawned.is_ok();
    }

    /// Waits for the interval, and returns whether there is anything left to do.
    fn is_needed_after(&self, holder: &Weak<LeaseHolder>, interval: std::time::Duration) -> bool {
        let mut is_running = self.is_running.lock();
        self.wake.wait_for(&mut is_running, interval);
        // Under the lock: a thread that is entered from now on starts the heartbeat again.
        *is_running = holder.upgrade().is_some_and(|holder| holder.has_work());
        *is_running &= !self.is_stopped.load(Ordering::Relaxed);
        *is_running
    }

    /// Ends the OS thread at once if nothing is left to do.
    pub(super) fn end_if_done(&self, holder: &LeaseHolder) {
        if !holder.has_work() {
            self.wake.notify_all();
        }
    }

    /// Ends the OS thread for good, for a test of what happens without it.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.wake.notify_all();
    }
}
