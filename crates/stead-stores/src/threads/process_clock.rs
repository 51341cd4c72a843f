//! A clock for how long ago something was in this process: it only grows, and runs on while the process is stopped or the
//! machine is suspended.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
// Elsewhere the monotonic clock counts the time of a suspended machine, too, or nothing better exists.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Nanoseconds since some moment before the process began; at least 1.
pub(super) fn now() -> i64 {
    let time = clock_gettime(CLOCK);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec).max(1)
}

/// A duration in nanoseconds.
pub(super) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
