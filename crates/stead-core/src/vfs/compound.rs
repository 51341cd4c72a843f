//! Many calls that are one act to whoever asked for it: an import, an export. One record tells how it went.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::audit::{AuditLog, AuditOutcome, AuditRecord};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::OperationId;
use crate::path::VfsPath;
use crate::store::StoreResult;
use crate::vfs::{IntoPath, Vfs, VfsShared};

/// An act of many calls, while it is under way.
pub(super) struct CompoundOperation {
    tool: Cow<'static, str>,
    paths: Vec<VfsPath>,
    at: Timestamp,
    began: Instant,
    operation: OperationId,
    bytes: AtomicU64,
    file_count: Mutex<Option<u64>>,
    /// Whether a lasting record says that it is about to change something.
    announced: AtomicBool,
    changed: AtomicBool,
    /// A part of it that was denied at its own path: unless that ends all of it, it has a record of its own.
    denied: Mutex<Option<AuditRecord>>,
}

impl fmt::Debug for CompoundOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Whole").field("tool", &self.tool).field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl Vfs {
    /// Does with many calls what is one act to whoever asked for it, at a path: one record tells how it went, and how
    /// many bytes passed.
    ///
    /// The calls go through the door that `act` is handed, and are one operation. What they look at has no record of its
    /// own. A change has one that goes with it, and says that it has begun; what is denied has one, too. `kind` sorts a
    /// failure, or says that it is none.
    pub fn compound<T, E: From<Error>>(
        &self,
        tool: impl Into<Cow<'static, str>>,
        path: impl IntoPath,
        kind: impl FnOnce(&E) -> Option<ErrorKind>,
        act: impl FnOnce(&Vfs) -> Result<T, E>,
    ) -> Result<T, E> {
        // Within another one it is a part of that.
        if self.compound.is_some() {
            return act(self);
        }
        let path = path.into_path().map_err(Error::from);
        let at = self.shared.clock.now();
        let operation = OperationId::fresh(at);
        let tool = tool.into();
        let whole = Arc::new(CompoundOperation {
            tool: tool.clone(),
            paths: path.iter().cloned().collect(),
            at,
            began: Instant::now(),
            operation,
            bytes: AtomicU64::new(0),
            file_count: Mutex::new(None),
            announced: AtomicBool::new(false),
            changed: AtomicBool::new(false),
            denied: Mutex::new(None),
        });
        let (tool, operation) = (Some(tool), Some(operation));
        let inside = Vfs { tool, operation, compound: Some(Arc::clone(&whole)), ..self.clone() };
        // What was looked at is known even if the end is never reached.
        whole.append_record(&self.shared, AuditOutcome::Begun)?;
        let result = path.map_err(E::from).and_then(|_| act(&inside));
        let failed = result.as_ref().err().and_then(kind);
        let outcome = failed.map_or(AuditOutcome::Ok, AuditOutcome::from_error_kind);
        if let (Some(log), Some(denied)) = (&self.shared.audit, whole.denied.lock().take())
            && outcome != AuditOutcome::Denied
        {
            log.append(&denied).map_err(Error::AuditUnavailable)?;
        }
        whole.append_record(&self.shared, outcome)?;
        if let Some(once) = &self.single_record {
            once.mark_written();
        }
        result
    }

    /// Says how many files the act was about that this door is for. Outside of one, nobody asks.
    pub fn set_file_count(&self, count: u64) {
        if let Some(whole) = &self.compound {
            *whole.file_count.lock() = Some(count);
        }
    }
}

impl CompoundOperation {
    /// So many bytes were read or written by a part of it.
    pub(super) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A part of it has changed something.
    pub(super) fn mark_changed(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    /// Writes down that a part of it was denied: once, if that is the end of it.
    pub(super) fn record_denial(&self, log: &dyn AuditLog, record: AuditRecord) -> Result<()> {
        let before = match record.paths == self.paths {
            true => self.denied.lock().replace(record),
            false => Some(record),
        };
        before.map_or(Ok(()), |record| log.append(&record).map_err(Error::AuditUnavailable))
    }

    /// Announces that it changes something, the first time.
    pub(super) fn announce(&self, announce: impl FnOnce() -> StoreResult<()>) -> StoreResult<()> {
        if !self.announced.load(Ordering::Acquire) {
            announce()?;
            self.announced.store(true, Ordering::Release);
        }
        Ok(())
    }

    pub(super) fn audit_record(&self, shared: &VfsShared, outcome: AuditOutcome) -> AuditRecord {
        let begun = outcome == AuditOutcome::Begun;
        let route = self.paths.first().and_then(|path| shared.router.route(path));
        AuditRecord {
            at: self.at,
            stead: shared.stead.clone(),
            identity: Arc::clone(&shared.identity),
            call: self.tool.clone(),
            paths: self.paths.clone(),
            scope: route.map(|route| route.workspace.scope()),
            outcome,
            bytes: (!begun).then(|| self.bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0),
            dry_run: false,
            file_count: *self.file_count.lock(),
            duration: self.began.elapsed(),
            operation: Some(self.operation),
            revision: None,
        }
    }

    fn append_record(&self, shared: &VfsShared, outcome: AuditOutcome) -> Result<()> {
        let Some(log) = &shared.audit else { return Ok(()) };
        match log.append(&self.audit_record(shared, outcome)) {
            // What has changed has changed, and a record says that it was about to.
            Err(cause) if !self.changed.load(Ordering::Relaxed) => Err(Error::AuditUnavailable(cause)),
            _ => Ok(()),
        }
    }
}
