//! How far a merge or an update has come, and whether the caller wants it to stop.
//!
//! Each node that is looked at, each one that is decided, each file whose lines get authors and each step is a unit. Nodes are
//! looked at before anyone knows how many there are, so only then is there a total.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::monitor::{CallMonitor, StopReason, check_not_stopped};
use crate::store::StoreResult;
use crate::vfs::call::Call;

/// The progress of one call.
#[derive(Debug, Clone, Default)]
pub(super) struct MergeProgress(Option<Arc<Counter>>);

#[derive(Debug)]
struct Counter {
    monitor: Arc<dyn CallMonitor>,
    done: AtomicU64,
    /// 0 if it isn't known yet.
    total: AtomicU64,
}

impl MergeProgress {
    pub(super) fn of(call: &Call<'_>) -> Self {
        let counter = |monitor| Counter { monitor, done: AtomicU64::new(0), total: AtomicU64::new(0) };
        MergeProgress(call.vfs.watch().cloned().map(counter).map(Arc::new))
    }

    /// Says how many units there are beside those that are done.
    pub(super) fn expect(&self, units: usize) {
        if let Some(counter) = &self.0 {
            let done = counter.done.load(Ordering::Relaxed);
            counter.total.store(done + units as u64, Ordering::Relaxed);
        }
    }

    /// Counts a unit.
    pub(super) fn advance(&self) {
        if let Some(counter) = &self.0 {
            counter.report(counter.done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    }

    /// Counts a unit. Fails if the caller wants the call to stop, and the call still may: `monitor` is `None` once it has
    /// changed something.
    pub(super) fn advance_or_stop(&self, monitor: Option<&Arc<dyn CallMonitor>>) -> StoreResult<()> {
        self.advance();
        check_not_stopped(monitor)
    }

    /// The monitor of a change of the call, whose steps are these units.
    pub(super) fn of_change(
        &self,
        monitor: Option<Arc<dyn CallMonitor>>,
        units: usize,
    ) -> Option<Arc<dyn CallMonitor>> {
        let (counter, monitor) = (self.0.clone()?, monitor?);
        let begin = counter.done.fetch_add(units as u64, Ordering::Relaxed);
        Some(Arc::new(ChangeProgress { counter, monitor, begin, units: units as u64 }))
    }
}

impl Counter {
    fn report(&self, done: u64) {
        let total = self.total.load(Ordering::Relaxed);
        // What is planned again because something has changed was not expected.
        self.monitor.progress(done, (total > 0).then_some(total.max(done)));
    }
}

/// Follows one change.
#[derive(Debug)]
struct ChangeProgress {
    counter: Arc<Counter>,
    monitor: Arc<dyn CallMonitor>,
    /// How many units were done before it.
    begin: u64,
    units: u64,
}

impl CallMonitor for ChangeProgress {
    fn progress(&self, done: u64, total: Option<u64>) {
        let part = u128::from(self.units) * u128::from(done) / u128::from(total.unwrap_or(done).max(1));
        self.counter.report(self.begin + u64::try_from(part).unwrap_or(self.units).min(self.units));
    }

    fn stop_reason(&self) -> Option<StopReason> {
        self.monitor.stop_reason()
    }
}
