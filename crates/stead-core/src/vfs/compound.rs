//! Compound operations: many calls that are one operation with one audit record, such as an import or an export.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::audit::{AuditLog, AuditOutcome, AuditRecord};
use crate::audit_facts::AuditFacts;
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::OperationId;
use crate::path::VfsPath;
use crate::store::StoreResult;
use crate::vfs::{IntoPath, Vfs, VfsShared};

/// A compound operation in progress.
pub(super) struct CompoundOperation {
    tool: Cow<'static, str>,
    paths: Vec<VfsPath>,
    at: Timestamp,
    began: Instant,
    operation: OperationId,
    facts: AuditFacts,
    bytes: AtomicU64,
    file_count: Mutex<Option<u64>>,
    /// Why some of the calls failed, if the operation goes on without them.
    partial_failure: Mutex<Option<ErrorKind>>,
    /// Whether a synced record says that the operation is about to change something.
    announced: AtomicBool,
    changed: AtomicBool,
    /// The record of a denial at the operation's own path. It is dropped if the whole operation ends as denied, and
    /// written otherwise.
    denied: Mutex<Option<AuditRecord>>,
}

impl fmt::Debug for CompoundOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompoundOperation")
            .field("tool", &self.tool)
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

impl Vfs {
    /// Runs many calls as one operation at `path`, with one audit record of the outcome and the number of bytes.
    ///
    /// The calls go through the `Vfs` that `body` gets, and all belong to one operation. Calls that only read have no
    /// record of their own. A change carries a record that says it has begun, and a denial has a record, too. `kind`
    /// returns the error kind to record for a failure, or `None` if it doesn't count as one.
    pub fn compound<T, E: From<Error>>(
        &self,
        tool: impl Into<Cow<'static, str>>,
        path: impl IntoPath,
        kind: impl FnOnce(&E) -> Option<ErrorKind>,
        body: impl FnOnce(&Vfs) -> Result<T, E>,
    ) -> Result<T, E> {
        // Inside a compound operation, this is part of the outer one.
        if self.compound.is_some() {
            return body(self);
        }
        let path = path.into_path().map_err(Error::from);
        let at = self.shared.clock.now();
        let operation = OperationId::fresh(at);
        let tool = tool.into();
        let compound = Arc::new(CompoundOperation {
            tool: tool.clone(),
            paths: path.iter().cloned().collect(),
            at,
            began: Instant::now(),
            operation,
            facts: self.facts.clone(),
            bytes: AtomicU64::new(0),
            file_count: Mutex::new(None),
            partial_failure: Mutex::new(None),
            announced: AtomicBool::new(false),
            changed: AtomicBool::new(false),
            denied: Mutex::new(None),
        });
        let (tool, operation) = (Some(tool), Some(operation));
        let inner_vfs = Vfs { tool, operation, compound: Some(Arc::clone(&compound)), ..self.clone() };
        // The log shows what was read even if the process dies before the end.
        compound.append_record(&self.shared, AuditOutcome::Begun)?;
        let result = path.map_err(E::from).and_then(|_| body(&inner_vfs));
        let error_kind = match &result {
            Ok(_) => *compound.partial_failure.lock(),
            Err(error) => kind(error),
        };
        let outcome = error_kind.map_or(AuditOutcome::Ok, AuditOutcome::from_error_kind);
        if let (Some(log), Some(denied)) = (&self.shared.audit, compound.denied.lock().take())
            && outcome != AuditOutcome::Denied
        {
            log.append(&denied).map_err(Error::AuditUnavailable)?;
        }
        compound.append_record(&self.shared, outcome)?;
        if let Some(single_record) = &self.single_record {
            single_record.mark_written();
        }
        result
    }

    /// Sets the number of files for the record of the compound operation. Outside of one, does nothing.
    pub fn set_file_count(&self, count: u64) {
        if let Some(compound) = &self.compound {
            *compound.file_count.lock() = Some(count);
        }
    }

    /// Notes that one call of the compound operation failed and that the others go on: the record doesn't say that all went
    /// well. A denial counts before every other failure, and the first failure before later ones. Outside of a compound
    /// operation, does nothing.
    pub fn note_partial_failure(&self, kind: ErrorKind) {
        if let Some(compound) = &self.compound {
            let mut noted = compound.partial_failure.lock();
            if noted.is_none() || kind == ErrorKind::Denied {
                *noted = Some(kind);
            }
        }
    }
}

impl CompoundOperation {
    /// Whether the operation is made at this path.
    pub(super) fn is_at(&self, path: &VfsPath) -> bool {
        self.paths.contains(path)
    }

    /// Adds to the number of bytes that the calls have read or written.
    pub(super) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that a call has changed something.
    pub(super) fn mark_changed(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    /// Records a denied call. A denial at the operation's own path is held back: if it ends the whole operation, the
    /// final record says so.
    pub(super) fn record_denial(&self, log: &dyn AuditLog, record: AuditRecord) -> Result<()> {
        let to_append = match record.paths == self.paths {
            true => self.denied.lock().replace(record),
            false => Some(record),
        };
        to_append.map_or(Ok(()), |record| log.append(&record).map_err(Error::AuditUnavailable))
    }

    /// Announces, the first time, that the operation changes something.
    pub(super) fn announce(&self, announce: impl FnOnce() -> StoreResult<()>) -> StoreResult<()> {
        if !self.announced.load(Ordering::Acquire) {
            announce()?;
            self.announced.store(true, Ordering::Release);
        }
        Ok(())
    }

    pub(super) fn audit_record(&self, shared: &VfsShared, outcome: AuditOutcome) -> AuditRecord {
        let is_begun = outcome == AuditOutcome::Begun;
        let route = self.paths.first().and_then(|path| shared.router.route(path));
        AuditRecord {
            stead: shared.stead.clone(),
            paths: self.paths.clone(),
            scope: route.map(|route| route.workspace.scope()),
            bytes: (!is_begun).then(|| self.bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0),
            file_count: *self.file_count.lock(),
            duration: self.began.elapsed(),
            operation: Some(self.operation),
            facts: self.facts.clone(),
            ..AuditRecord::new(self.at, Arc::clone(&shared.identity), self.tool.clone(), outcome)
        }
    }

    fn append_record(&self, shared: &VfsShared, outcome: AuditOutcome) -> Result<()> {
        let Some(log) = &shared.audit else { return Ok(()) };
        match log.append(&self.audit_record(shared, outcome)) {
            // The change is made, and a Begun record announced it: the operation can't fail any more.
            Err(cause) if !self.changed.load(Ordering::Relaxed) => Err(Error::AuditUnavailable(cause)),
            _ => Ok(()),
        }
    }
}
