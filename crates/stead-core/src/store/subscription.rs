//! Being told of changes: the listeners of a feed, and a signal that a thread waits for.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// What a feed calls after a change. It must return at once, and must use neither the Store nor its subscription.
pub type ChangeListener = Box<dyn Fn() + Send + Sync>;

/// A listener's place in a feed. After it is dropped, the listener isn't called any more.
#[must_use = "dropping it ends the subscription"]
pub struct Subscription(Option<Box<dyn Any + Send + Sync>>);

impl Subscription {
    /// A subscription that drops `guard` when it is dropped itself; dropping `guard` has to remove the listener.
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Subscription(Some(Box::new(guard)))
    }

    /// The subscription to something that never changes.
    pub fn never() -> Self {
        Subscription(None)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscription").field(&self.0.is_some()).finish()
    }
}

/// The listeners of one feed.
#[derive(Default)]
pub struct ChangeListeners(Mutex<ListenerTable>);

#[derive(Default)]
struct ListenerTable {
    listeners: BTreeMap<u64, ChangeListener>,
    next_id: u64,
}

impl ChangeListeners {
    /// Adds a listener, until the returned value is dropped.
    pub fn add(self: &Arc<Self>, listener: ChangeListener) -> ListenerGuard {
        let mut table = self.0.lock();
        let id = table.next_id;
        table.next_id += 1;
        table.listeners.insert(id, listener);
        ListenerGuard { listeners: Arc::clone(self), id }
    }

    /// Calls every listener.
    pub fn notify(&self) {
        self.0.lock().listeners.values().for_each(|listener| listener());
    }

    /// Whether there is no listener.
    pub fn is_empty(&self) -> bool {
        self.0.lock().listeners.is_empty()
    }
}

impl fmt::Debug for ChangeListeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChangeListeners").field(&self.0.lock().listeners.len()).finish()
    }
}

/// Removes its listener when it is dropped, after a notification that is running. A feed hands it out inside a
/// [`Subscription`].
#[derive(Debug)]
#[must_use = "dropping it removes the listener"]
pub struct ListenerGuard {
    listeners: Arc<ChangeListeners>,
    id: u64,
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        let removed = self.listeners.0.lock().listeners.remove(&self.id);
        // Without the lock, because dropping what the listener holds may do anything.
        drop(removed);
    }
}

/// A flag that listeners raise and a thread waits for. A raised flag stays raised until the thread has seen it.
#[derive(Debug, Default)]
pub struct ChangeSignal {
    is_raised: Mutex<bool>,
    raised: Condvar,
}

impl ChangeSignal {
    /// A listener that raises this signal.
    pub fn listener(self: &Arc<Self>) -> ChangeListener {
        let signal = Arc::clone(self);
        Box::new(move || signal.raise())
    }

    /// Raises the flag, and wakes the thread that waits for it.
    pub fn raise(&self) {
        *self.is_raised.lock() = true;
        self.raised.notify_one();
    }

    /// Waits until the flag is raised, and lowers it. Returns `false` if it wasn't raised before the timeout; `None`
    /// waits forever.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut is_raised = self.is_raised.lock();
        while !*is_raised {
            match deadline {
                None => self.raised.wait(&mut is_raised),
                Some(deadline) => {
                    if self.raised.wait_until(&mut is_raised, deadline).timed_out() {
                        break;
                    }
                }
            }
        }
        std::mem::take(&mut *is_raised)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_signal_waits_for_its_thread_and_a_timeout_returns() {
        let signal = Arc::new(ChangeSignal::default());
        assert!(!signal.wait(Some(Duration::from_millis(1))));
        signal.raise();
        signal.raise();
        assert!(signal.wait(None));
        assert!(!signal.wait(Some(Duration::ZERO)), "it was lowered");
        std::thread::scope(|scope| {
            scope.spawn(|| signal.raise());
            assert!(signal.wait(None));
        });
    }

    #[test]
    fn a_listener_is_called_until_its_guard_is_dropped() {
        let listeners = Arc::new(ChangeListeners::default());
        let [one, other] = [(); 2].map(|()| Arc::new(ChangeSignal::default()));
        let guard = listeners.add(one.listener());
        let _other = listeners.add(other.listener());
        listeners.notify();
        assert!(one.wait(Some(Duration::ZERO)) && other.wait(Some(Duration::ZERO)));
        drop(guard);
        assert!(!listeners.is_empty());
        listeners.notify();
        assert!(!one.wait(Some(Duration::ZERO)) && other.wait(Some(Duration::ZERO)));
    }
}
