//! The directories that are still to be searched, shared by the threads of a search.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};
use stead_core::{StoreError, StoreResult};

/// Work that threads take one piece at a time, and to which each piece may add more.
pub(crate) struct WorkQueue<T> {
    queue: Mutex<WorkQueueState<T>>,
    changed: Condvar,
    stopped: AtomicBool,
    failure: Mutex<Option<StoreError>>,
}

struct WorkQueueState<T> {
    waiting: VecDeque<T>,
    /// How many directories are being searched: each may add more.
    in_progress: usize,
}

impl<T> WorkQueue<T> {
    pub(crate) fn new(first: T) -> Self {
        let queue = WorkQueueState { waiting: VecDeque::from([first]), in_progress: 0 };
        WorkQueue {
            queue: Mutex::new(queue),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// Returns the next directory, and waits while other threads may still add one. The caller must call
    /// `finish_directory` when it is done.
    pub(crate) fn next(&self) -> Option<T> {
        let mut queue = self.queue.lock();
        loop {
            if self.is_stopped() {
                return None;
            }
            if let Some(directory) = queue.waiting.pop_back() {
                queue.in_progress += 1;
                return Some(directory);
            }
            if queue.in_progress == 0 {
                return None;
            }
            self.changed.wait(&mut queue);
        }
    }

    pub(crate) fn add(&self, directory: T) {
        self.queue.lock().waiting.push_back(directory);
        self.changed.notify_one();
    }

    pub(crate) fn finish_directory(&self) {
        self.queue.lock().in_progress -= 1;
        self.changed.notify_all();
    }

    pub(crate) fn fail(&self, error: StoreError) {
        self.failure.lock().get_or_insert(error);
        self.stop();
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// The first failure of a thread, if there was one.
    pub(crate) fn into_result(self) -> StoreResult<()> {
        self.failure.into_inner().map_or(Ok(()), Err)
    }
}
