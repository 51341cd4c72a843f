//! A process-wide limit on the memory for file contents that are held whole.
//!
//! An edit holds a file in memory before and after; a merge and a blame hold the contents they compare. Each is bounded
//! alone, but many at once could exceed the host's memory. So each caller first reserves what it needs and waits until
//! that is free. The order is first come, first served, so that small reservations can't starve a large one. A caller
//! reserves once, before it takes any lock, so there can be no deadlock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::monitor::StopReason;
use crate::store::{StoreError, StoreResult};

/// The memory for whole contents in this process: enough for the largest edit, which holds the file before and after.
pub(crate) static CONTENT_MEMORY: MemoryBudget =
    MemoryBudget::new(2 * crate::edit::MAX_EDIT_SIZE, Duration::from_secs(30));

/// Reservations up to this size aren't counted: even one per caller is little.
const UNCOUNTED_BYTES: u64 = 1 << 20;
/// How often a waiting caller checks whether it should stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Memory that callers share.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    capacity: u64,
    /// How long a caller waits before it gets an error.
    timeout: Duration,
    state: Mutex<BudgetState>,
    released: Condvar,
}

#[derive(Debug)]
struct BudgetState {
    reserved: u64,
    next_ticket: u64,
    /// The tickets of waiting callers, in order of arrival.
    waiting: VecDeque<u64>,
}

/// A reserved part of a [`MemoryBudget`], released on drop.
#[derive(Debug)]
pub(crate) struct MemoryReservation<'a> {
    budget: &'a MemoryBudget,
    bytes: u64,
}

impl MemoryBudget {
    pub(crate) const fn new(capacity: u64, timeout: Duration) -> Self {
        let state = BudgetState { reserved: 0, next_ticket: 0, waiting: VecDeque::new() };
        MemoryBudget { capacity, timeout, state: Mutex::new(state), released: Condvar::new() }
    }

    /// Reserves memory, waiting until it is free. While waiting, calls `stop` repeatedly and fails if it returns a
    /// reason.
    ///
    /// A request above the capacity reserves the whole capacity.
    pub(crate) fn reserve(
        &self,
        bytes: u64,
        stop: impl Fn() -> Option<StopReason>,
    ) -> StoreResult<MemoryReservation<'_>> {
        if bytes <= UNCOUNTED_BYTES {
            return Ok(MemoryReservation { budget: self, bytes: 0 });
        }
        let bytes = bytes.min(self.capacity);
        let deadline = Instant::now() + self.timeout;
        let mut state = self.state.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back(ticket);
        while state.waiting.front() != Some(&ticket) || state.reserved + bytes > self.capacity {
            let failure =
                if Instant::now() >= deadline { Some(budget_exhausted()) } else { stop().map(stopped) };
            if let Some(error) = failure {
                state.waiting.retain(|waiting| *waiting != ticket);
                self.released.notify_all();
                return Err(error);
            }
            self.released.wait_for(&mut state, POLL_INTERVAL);
        }
        state.waiting.pop_front();
        state.reserved += bytes;
        // Enough may be left for the next caller.
        self.released.notify_all();
        Ok(MemoryReservation { budget: self, bytes })
    }
}

impl Drop for MemoryReservation<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.state.lock().reserved -= self.bytes;
            self.budget.released.notify_all();
        }
    }
}

fn stopped(reason: StopReason) -> StoreError {
    StoreError::Stopped(reason)
}

fn budget_exhausted() -> StoreError {
    StoreError::unavailable(
        "too many large files are being worked on at once; nothing has changed: try again in a moment",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn never_stop() -> Option<StopReason> {
        None
    }

    #[test]
    fn never_more_than_the_capacity_is_reserved() {
        let budget = MemoryBudget::new(10 * MIB, Duration::from_secs(60));
        let (reserved, peak) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for n in 0..16 {
                let (budget, reserved, peak) = (&budget, &reserved, &peak);
                scope.spawn(move || {
                    for _ in 0..20 {
                        let bytes = (2 + n % 4) * MIB;
                        let _reserved = budget.reserve(bytes, never_stop).unwrap();
                        peak.fetch_max(reserved.fetch_add(bytes, Ordering::SeqCst) + bytes, Ordering::SeqCst);
                        std::thread::yield_now();
                        reserved.fetch_sub(bytes, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(peak.into_inner() <= 10 * MIB);
        assert_eq!(budget.state.lock().reserved, 0);
    }

    #[test]
    fn a_request_above_the_capacity_gets_all_of_it() {
        let budget = MemoryBudget::new(10 * MIB, Duration::ZERO);
        let reservation = budget.reserve(100 * MIB, never_stop).unwrap();
        assert!(budget.reserve(2 * MIB, never_stop).is_err());
        assert!(
            budget.reserve(UNCOUNTED_BYTES, never_stop).is_ok(),
            "a small reservation has to succeed without counting"
        );
        drop(reservation);
        assert!(budget.reserve(2 * MIB, never_stop).is_ok());
    }

    #[test]
    fn a_caller_that_waits_too_long_gets_an_error() {
        let budget = MemoryBudget::new(4 * MIB, Duration::from_millis(1));
        let _reservation = budget.reserve(4 * MIB, never_stop).unwrap();
        let error = budget.reserve(2 * MIB, never_stop).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Unavailable);
        assert!(error.to_string().contains("try again"), "{error}");
        assert!(budget.state.lock().waiting.is_empty());
    }

    #[test]
    fn a_cancelled_caller_stops_waiting_and_blocks_nobody() {
        let budget = MemoryBudget::new(4 * MIB, Duration::from_secs(600));
        let held = budget.reserve(3 * MIB, never_stop).unwrap();
        let (cancelled, granted) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let large = scope.spawn(|| {
                let stop = || cancelled.load(Ordering::SeqCst).then_some(StopReason::Cancelled);
                budget.reserve(4 * MIB, stop).map(drop)
            });
            while budget.state.lock().waiting.is_empty() {
                std::thread::yield_now();
            }
            let small = scope.spawn(|| {
                let _reserved = budget.reserve(MIB + 1, never_stop).unwrap();
                granted.store(true, Ordering::SeqCst);
            });
            while budget.state.lock().waiting.len() < 2 {
                std::thread::yield_now();
            }
            assert!(
                !granted.load(Ordering::SeqCst),
                "the large reservation came first, so it has to be granted first"
            );
            cancelled.store(true, Ordering::SeqCst);
            assert!(large.join().unwrap().is_err());
            // The 3 MiB that are held and `MIB + 1` exceed the budget together, so `small` waits until `held` is
            // dropped.
            drop(held);
            small.join().unwrap();
        });
        assert!(granted.into_inner());
    }
}
