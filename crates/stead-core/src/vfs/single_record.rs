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
    held_back: Mutex<Option<AuditRecord>>,
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
        *self.held_back.lock() = Some(record);
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
        body: impl FnOnce(&Vfs) -> Result<T, E>,
    ) -> Result<T, E> {
        let tool = tool.into();
        let inner_vfs = match (&self.tool, self.operation) {
            (Some(current), Some(_)) if *current == tool => self.clone(),
            _ => self.operation(tool.clone()),
        };
        // Inside another single record or a compound operation, that one's record covers this call.
        let Some(log) =
            self.shared.audit.as_ref().filter(|_| self.compound.is_none() && self.single_record.is_none())
        else {
            return body(&inner_vfs);
        };
        let (at, began, single_record) =
            (self.shared.clock.now(), Instant::now(), Arc::new(SingleRecord::default()));
        let inner_vfs = Vfs { single_record: Some(Arc::clone(&single_record)), ..inner_vfs };
        let result = body(&inner_vfs);
        let outcome = match result.as_ref().err().map(end) {
            Some(CallEnd::Pending) => return result,
            Some(CallEnd::Outcome(outcome)) => Some(outcome),
            None => None,
        };
        if single_record.written.load(Ordering::Relaxed) {
            return result;
        }
        let held_back = single_record.held_back.lock().take();
        let record = match held_back {
            Some(record) => AuditRecord { outcome: outcome.unwrap_or(record.outcome), ..record },
            None => self.record_without_call(&inner_vfs, path, outcome.unwrap_or(AuditOutcome::Ok)),
        };
        let record = AuditRecord { at, call: tool, duration: began.elapsed(), ..record };
        log.append(&record).map_err(|cause| E::from(Error::AuditUnavailable(cause)))?;
        result
    }

    /// The record of a surface's call that made no `Vfs` call.
    fn record_without_call(&self, inner_vfs: &Vfs, path: Option<&str>, outcome: AuditOutcome) -> AuditRecord {
        let paths: Vec<_> = path.and_then(|path| VfsPath::parse(path).ok()).into_iter().collect();
        let route = paths.first().and_then(|path| self.shared.router.route(path));
        AuditRecord {
            stead: self.shared.stead.clone(),
            scope: route.map(|route| route.workspace.scope()),
            paths,
            operation: inner_vfs.operation,
            facts: inner_vfs.facts.clone(),
            ..AuditRecord::new(self.shared.clock.now(), Arc::clone(&self.shared.identity), "", outcome)
        }
    }
}
