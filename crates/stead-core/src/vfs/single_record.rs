//! One audit record for one call of a surface, however many `Vfs` calls it makes, even if it makes none.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::audit::{AuditOutcome, AuditRecord};
use crate::error::{Error, Result};
use crate::path::VfsPath;
use crate::vfs::Vfs;

/// The record of a surface's call in progress.
#[derive(Default)]
pub(super) struct SingleRecord {
    /// Whether the record was written already, for example together with a change.
    written: AtomicBool,
    /// The record of the last `Vfs` call. It stands for the ones before, which only led to it.
    held: Mutex<Option<AuditRecord>>,
}

impl fmt::Debug for SingleRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleRecord").field("written", &self.written).finish_non_exhaustive()
    }
}

impl SingleRecord {
    /// Notes that the record was written.
    pub(super) fn mark_written(&self) {
        self.written.store(true, Ordering::Relaxed);
    }

    /// Holds a record back until the surface's call ends.
    pub(super) fn hold_back(&self, record: AuditRecord) {
        *self.held.lock() = Some(record);
    }
}

/// How a surface's call ended, for its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// It ended with this outcome.
    Outcome(AuditOutcome),
    /// It hasn't ended: it will be made again, with a person's answer.
    Pending,
}

impl Vfs {
    /// Runs one call of a surface, under the name of a tool or a command, with one audit record of its outcome, however
    /// many calls it makes through the `Vfs`, even if it makes none.
    ///
    /// `path` is what the call is about, as far as known beforehand; it need not be a valid path. `end` says how a
    /// failure is recorded. A compound operation ([`Vfs::compound`]) may run inside: its record then is the one.
    pub fn single_record<T, E: From<Error>>(
        &self,
        tool: impl Into<Cow<'static, str>>,
        path: Option<&str>,
        end: impl FnOnce(&E) -> CallEnd,
        act: impl FnOnce(&Vfs) -> Result<T, E>,
    ) -> Result<T, E> {
        let tool = tool.into();
        let inside = match (&self.tool, self.operation) {
            (Some(own), Some(_)) if *own == tool => self.clone(),
            _ => self.operation(tool.clone()),
        };
        // Inside another single record or a compound operation, that one's record covers this call.
        let Some(log) =
            self.shared.audit.as_ref().filter(|_| self.compound.is_none() && self.single_record.is_none())
        else {
            return act(&inside);
        };
        let (at, began, once) = (self.shared.clock.now(), Instant::now(), Arc::new(SingleRecord::default()));
        let inside = Vfs { single_record: Some(Arc::clone(&once)), ..inside };
        let result = act(&inside);
        let outcome = match result.as_ref().err().map(end) {
            Some(CallEnd::Pending) => return result,
            Some(CallEnd::Outcome(outcome)) => Some(outcome),
            None => None,
        };
        if once.written.load(Ordering::Relaxed) {
            return result;
        }
        let held = once.held.lock().take();
        let record = match held {
            Some(held) => AuditRecord { outcome: outcome.unwrap_or(held.outcome), ..held },
            None => self.record_without_call(&inside, path, outcome.unwrap_or(AuditOutcome::Ok)),
        };
        let record = AuditRecord { at, call: tool, duration: began.elapsed(), ..record };
        log.append(&record).map_err(|cause| E::from(Error::AuditUnavailable(cause)))?;
        result
    }

    /// The record of a surface's call that made no `Vfs` call.
    fn record_without_call(&self, inside: &Vfs, path: Option<&str>, outcome: AuditOutcome) -> AuditRecord {
        let paths: Vec<_> = path.and_then(|path| VfsPath::parse(path).ok()).into_iter().collect();
        let route = paths.first().and_then(|path| self.shared.router.route(path));
        AuditRecord {
            stead: self.shared.stead.clone(),
            scope: route.map(|route| route.workspace.scope()),
            paths,
            operation: inside.operation,
            facts: inside.facts.clone(),
            ..AuditRecord::new(self.shared.clock.now(), Arc::clone(&self.shared.identity), "", outcome)
        }
    }
}
