//! One call through a `Vfs`, from its start to its audit record.
//!
//! Everything that routes a path or reads or changes a Store is a method of [`Call`], and only `Vfs::run_call` makes a
//! `Call`. So nothing reaches a Store without passing the audit. A call that is part of a compound operation
//! ([`Vfs::compound`]) is covered by that operation's record.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::audit::{AuditLog, AuditOutcome, AuditRecord};
use crate::audit_facts::AuditFacts;
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result, Visibility};
use crate::identity::{Operation, OperationId};
use crate::memory_budget::{CONTENT_MEMORY, MemoryReservation};
use crate::monitor::{CallMonitor, StopReason};
use crate::path::{PathError, VfsPath};
use crate::scope::AccessScope;
use crate::store::{
    Applied, Change, CompanionRecord, LeaseId, Step, Store, StoreError, StorePath, StoreResult, SyncPolicy,
    Usage,
};
use crate::vfs::batch::common_directory;
use crate::vfs::compound::CompoundOperation;
use crate::vfs::managed::FileUse;
use crate::vfs::quota::{DraftCounting, without_usage};
use crate::vfs::write::same_store;
use crate::vfs::{InUse, ThreadLease, Vfs, VfsShared};

/// A path argument after parsing: the path, or why the text isn't a valid one.
pub(super) type ParsedPath = Result<VfsPath, PathError>;

/// One call in progress.
pub(super) struct Call<'v> {
    pub(super) vfs: &'v Vfs,
    name: Cow<'static, str>,
    paths: Vec<VfsPath>,
    /// The paths for the record of a call that has no path arguments.
    reported_paths: RefCell<Vec<VfsPath>>,
    /// The paths after following symlinks, one per argument.
    resolved_paths: RefCell<Vec<VfsPath>>,
    /// Whether `resolved_paths` has changed since a Begun record was written.
    announce_again: Cell<bool>,
    /// Why nothing was done, for a call that succeeds with a description of what it would have done.
    refused: Cell<Option<ErrorKind>>,
    /// Whether the call only asks what would be done.
    dry_run: Cell<bool>,
    at: Timestamp,
    began: Instant,
    /// The scope of the Workspace of the first path that was routed.
    pub(super) scope: Cell<Option<AccessScope>>,
    bytes: Cell<Option<u64>>,
    operation: OnceCell<OperationId>,
    /// Whether a Begun record was written.
    announced: Cell<bool>,
    /// Whether the call has applied a change.
    changed: Cell<bool>,
    /// Whether a change carried a record that says the call succeeded.
    success_recorded: Cell<bool>,
    /// The tool name for the call's changes, where the call's own name says too little about what they do to content.
    pub(super) operation_name: Cell<Option<&'static str>>,
    /// Names that must still be free when a change is applied, with their Store: with one of them, git would treat a
    /// directory as a repository.
    pub(super) expect_free: RefCell<Vec<(Arc<dyn Store>, StorePath)>>,
    /// Names that git looks for in a repository and that this call may create.
    pub(super) created_git_names: RefCell<HashSet<StorePath>>,
    /// Whether the call commits the draft of an open file.
    pub(super) commits_draft: Cell<bool>,
    /// The first path that the call is to change in a WRITE_ONLY Workspace: its Store, and the path in the Store.
    pub(super) blind_at: RefCell<Option<(Arc<dyn Store>, StorePath)>>,
    /// How many files its changes have replaced or removed whose content is too large to be kept.
    not_kept: Cell<u64>,
    /// What the call does with the file that its path names, for the routing of managed Workspaces.
    pub(super) file_use: Cell<FileUse>,
    /// Where routing has led the call's path. Errors name it, like answers.
    pub(super) routed_path: RefCell<Option<VfsPath>>,
    /// That the call's thread is in use, if the call is made in one.
    in_use: Option<InUse>,
}

/// A call's monitor for one of its changes. The steps of the change are no progress of the call, which reports its own.
#[derive(Debug)]
struct StopsOnly(Arc<dyn CallMonitor>);

impl CallMonitor for StopsOnly {
    fn progress(&self, _: u64, _: Option<u64>) {}

    fn stop_reason(&self) -> Option<StopReason> {
        self.0.stop_reason()
    }
}

/// Whether a change completes the call that makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeStage {
    /// It does: the call is done after this change.
    Final,
    /// It doesn't: the call has more to do.
    Intermediate,
}

impl Vfs {
    /// Runs an act that is not a file operation, such as making a snapshot, as an audited call.
    pub fn audited<T>(
        &self,
        call: impl Into<Cow<'static, str>>,
        path: Option<&VfsPath>,
        body: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match path {
            Some(path) => self.call(call, [Ok(path.clone())], |_, _| body()),
            None => self.call(call, [], |_, []| body()),
        }
    }

    /// Runs a call and records its outcome, whatever it is.
    pub(super) fn call<T, const N: usize>(
        &self,
        name: impl Into<Cow<'static, str>>,
        paths: [ParsedPath; N],
        body: impl FnOnce(&Call<'_>, [&VfsPath; N]) -> Result<T>,
    ) -> Result<T> {
        let (call, result) = self.run_call(name, paths, body);
        match &self.compound {
            Some(compound) => call.finish_in_compound(compound, &result)?,
            None => call.finish(&result)?,
        }
        result
    }

    /// Runs a part of something that is recorded as a whole elsewhere. The part gets a record of its own only if it is
    /// refused, fails, or has written a Begun record. Also returns whether it has changed something.
    pub(super) fn subcall<T, const N: usize>(
        &self,
        name: impl Into<Cow<'static, str>>,
        paths: [ParsedPath; N],
        body: impl FnOnce(&Call<'_>, [&VfsPath; N]) -> Result<T>,
    ) -> Result<(T, bool)> {
        let (call, result) = self.run_call(name, paths, body);
        let changed = call.changed.get();
        match &self.compound {
            Some(compound) => call.finish_in_compound(compound, &result)?,
            None if result.is_err() || call.announced.get() => call.finish(&result)?,
            None => {}
        }
        result.map(|value| (value, changed))
    }

    /// Runs a lookup without a record: the operation that uses its result is recorded.
    pub(super) fn unaudited_call<T, const N: usize>(
        &self,
        name: impl Into<Cow<'static, str>>,
        paths: [ParsedPath; N],
        body: impl FnOnce(&Call<'_>, [&VfsPath; N]) -> Result<T>,
    ) -> Result<T> {
        self.run_call(name, paths, body).1
    }

    fn run_call<T, const N: usize>(
        &self,
        name: impl Into<Cow<'static, str>>,
        paths: [ParsedPath; N],
        body: impl FnOnce(&Call<'_>, [&VfsPath; N]) -> Result<T>,
    ) -> (Call<'_>, Result<T>) {
        let mut first_error = None;
        let mut parsed = Vec::with_capacity(N);
        for path in paths {
            match path {
                Ok(path) => parsed.push(path),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        let in_use = self.shared.lease.clone().map(ThreadLease::begin).transpose();
        let (in_use, lease_error) = match in_use {
            Ok(in_use) => (in_use, None),
            Err(error) => (None, Some(error)),
        };
        let call = Call {
            vfs: self,
            name: name.into(),
            paths: parsed,
            reported_paths: RefCell::default(),
            resolved_paths: RefCell::default(),
            announce_again: Cell::new(false),
            refused: Cell::new(None),
            dry_run: Cell::new(false),
            at: if self.shared.audit.is_some() { self.shared.clock.now() } else { Timestamp(0) },
            began: Instant::now(),
            scope: Cell::new(None),
            bytes: Cell::new(None),
            operation: OnceCell::new(),
            announced: Cell::new(false),
            changed: Cell::new(false),
            success_recorded: Cell::new(false),
            operation_name: Cell::new(None),
            expect_free: RefCell::default(),
            created_git_names: RefCell::default(),
            commits_draft: Cell::new(false),
            blind_at: RefCell::default(),
            not_kept: Cell::new(0),
            file_use: Cell::new(FileUse::Other),
            routed_path: RefCell::default(),
            in_use,
        };
        let result = match (first_error, lease_error) {
            (Some(error), _) => Err(error.into()),
            (None, Some(error)) => Err(error),
            (None, None) => body(&call, std::array::from_fn(|index| &call.paths[index])),
        };
        let result = result.map_err(|error| match error {
            Error::Store { cause: StoreError::Stopped(stop), .. } => Error::Stopped(stop),
            error => error,
        });
        (call, result)
    }
}

impl<'v> Call<'v> {
    pub(super) fn shared(&self) -> &'v VfsShared {
        &self.vfs.shared
    }

    /// Sets the paths for the record of a call that has no path arguments: one or two paths, or the directory that
    /// contains all of them.
    pub(super) fn set_paths(&self, paths: Vec<VfsPath>) {
        *self.reported_paths.borrow_mut() =
            if paths.len() > 2 { vec![common_directory(&paths)] } else { paths };
    }

    /// Sets the paths after following symlinks, one for each path argument.
    pub(super) fn set_resolved_paths<const N: usize>(&self, paths: [&VfsPath; N]) {
        let resolved = paths.map(VfsPath::clone).to_vec();
        let before = self.resolved_paths.replace(resolved);
        self.announce_again.set(self.announced.get() && before != *self.resolved_paths.borrow());
    }

    /// Says that nothing was done, and why, although the call succeeds with a description of what would have been done.
    pub(super) fn set_refused(&self, kind: ErrorKind) {
        self.refused.set(Some(kind));
    }

    /// Says whether the call only asks what would be done.
    pub(super) fn set_dry_run(&self, dry_run: bool) {
        self.dry_run.set(dry_run);
    }

    /// The paths for the record: the requested path and, where a symlink led elsewhere, the resolved one. For a copy or
    /// a move, both ends after following symlinks.
    fn audit_paths(&self) -> Vec<VfsPath> {
        let (resolved, reported) = (self.resolved_paths.borrow(), self.reported_paths.borrow());
        match (&*self.paths, &**resolved) {
            ([], _) => reported.clone(),
            ([requested], [resolved]) if requested != resolved => vec![requested.clone(), resolved.clone()],
            ([_, _], [_, _]) => resolved.clone(),
            (requested, _) => requested.to_vec(),
        }
    }

    /// Sets how many bytes the caller gets, or has given.
    pub(super) fn set_bytes(&self, bytes: u64) {
        self.bytes.set(Some(bytes));
    }

    /// Reports progress to the monitor. Fails if the monitor wants the call to stop.
    pub(super) fn report_progress(&self, done: u64, total: Option<u64>) -> Result<()> {
        let Some(monitor) = &self.vfs.monitor else { return Ok(()) };
        monitor.progress(done, total);
        self.check_not_stopped()
    }

    /// Fails if the monitor wants the call to stop.
    pub(super) fn check_not_stopped(&self) -> Result<()> {
        let stop = self.vfs.monitor.as_ref().and_then(|monitor| monitor.stop_reason());
        stop.map_or(Ok(()), |stop| Err(Error::Stopped(stop)))
    }

    /// The monitor that may stop the next change: `None` once the call has changed something, since it then has to
    /// complete.
    pub(super) fn cancellation_monitor(&self) -> Option<Arc<dyn CallMonitor>> {
        self.vfs.monitor.clone().filter(|_| !self.changed.get())
    }

    /// Reserves memory for whole contents; waits until it is free. A call reserves once, before it changes anything:
    /// two calls that each hold a part could wait for each other.
    pub(super) fn reserve(&self, bytes: u64) -> StoreResult<MemoryReservation<'static>> {
        CONTENT_MEMORY.reserve(bytes, || self.vfs.monitor.as_ref().and_then(|monitor| monitor.stop_reason()))
    }

    /// Applies a change to a Store.
    pub(super) fn apply(
        &self,
        store: &dyn Store,
        steps: Vec<Step>,
        stage: ChangeStage,
    ) -> StoreResult<Applied> {
        self.apply_with(store, steps, stage, |_| ())
    }

    /// Applies a change to a Store; no other function does. The audit record is a companion record of the change, or is
    /// written before it. `adjust` can alter the change before it is applied.
    pub(super) fn apply_with(
        &self,
        store: &dyn Store,
        steps: Vec<Step>,
        stage: ChangeStage,
        adjust: impl FnOnce(&mut Change),
    ) -> StoreResult<Applied> {
        let operation = Operation {
            id: self.operation(),
            identity: Arc::clone(&self.shared().identity),
            tool: self.recorded_tool(),
            at: self.shared().clock.now(),
        };
        self.make_room(&steps);
        let drafts = if self.commits_draft.get() { DraftCounting::Ignored } else { DraftCounting::Counted };
        // A call that commits a draft holds the guard already.
        let _guard =
            (drafts == DraftCounting::Counted).then(|| self.shared().draft_reservations.change_guard(&steps));
        let quotas = self.quotas_for(store, drafts)?;
        let monitor = self.cancellation_monitor();
        let monitor = monitor.map(|monitor| Arc::new(StopsOnly(monitor)) as Arc<dyn CallMonitor>);
        let mut change = Change { quotas, monitor, ..Change::new(operation, steps) };
        let expect_free = self.expect_free.borrow();
        let in_store = expect_free.iter().filter(|(other, _)| same_store(&**other, store));
        change.expect_free = in_store.map(|(_, path)| path.clone()).collect();
        let blind_at = self.blind_at.borrow();
        let blind_at = blind_at.as_ref().filter(|(other, _)| same_store(&**other, store));
        change.blind_at = blind_at.map(|(_, path)| path.clone());
        adjust(&mut change);
        let mut success_recorded = false;
        if let Some(log) = &self.shared().audit {
            let info = store.info();
            let commits_record = info.commits_audit && info.database == Some(log.database());
            success_recorded = commits_record && stage == ChangeStage::Final && self.vfs.compound.is_none();
            if commits_record {
                let outcome = if success_recorded { AuditOutcome::Ok } else { AuditOutcome::Begun };
                let record = Box::new(self.audit_record(outcome));
                change.records.push(CompanionRecord::Audit { record, began: self.began });
            } else if let Some(compound) = &self.vfs.compound {
                // The compound operation has a Begun record already. A persistent Store needs one that is synced.
                if info.is_persistent() {
                    compound.announce(|| {
                        log.announce(&compound.audit_record(self.shared(), AuditOutcome::Begun))
                    })?;
                }
            } else if !self.announced.get() || self.announce_again.replace(false) {
                let record = self.audit_record(AuditOutcome::Begun);
                // The record has to be as durable as the change, not more.
                if info.is_persistent() && change.sync == SyncPolicy::Now {
                    log.announce(&record)?
                } else {
                    log.append(&record)?
                }
                self.announced.set(true);
            }
        }
        self.add_lease(store, &mut change)?;
        change.records.extend(self.shared().managed_roots.record_for(store));
        let pending = self.shared().feed_echoes.begin_change();
        let undisclosed = self.shared().quotas.undisclosed_limits(store);
        let applied = store.apply(change).map_err(|cause| {
            if let (StoreError::LeaseExpired, Some(in_use)) = (&cause, &self.in_use) {
                in_use.lease().note_expired();
            }
            without_usage(cause, undisclosed)
        })?;
        self.not_kept.set(self.not_kept.get() + applied.not_kept);
        self.shared().draft_reservations.invalidate_usage();
        if let (Some(pending), Some(number)) = (pending, applied.revision)
            && store.feed().is_some()
        {
            pending.record_revision(store.revision(number));
        }
        self.changed.set(true);
        if let Some(compound) = &self.vfs.compound {
            compound.mark_changed();
        }
        self.success_recorded.set(success_recorded);
        self.announced.set(self.announced.get() || !success_recorded);
        Ok(applied)
    }

    /// How many files the call has replaced or removed whose content is too large to be kept. Where the caller may not read, it doesn't
    /// learn whether there was one.
    pub(super) fn disclosed_not_kept(&self, visibility: Visibility) -> u64 {
        if visibility == Visibility::Visible { self.not_kept.get() } else { 0 }
    }

    /// Removes the keys of the State that have expired if this change may need their room: nobody can list or delete them. A
    /// failure is left to the change, which is refused then.
    fn make_room(&self, steps: &[Step]) {
        let shared = self.shared();
        if shared.router.state().is_none() {
            return;
        }
        let added =
            steps.iter().try_fold(Usage::default(), |sum, step| Some(sum.plus(step.largest_addition()?)));
        if !steps.is_empty() && shared.quotas.may_exceed_stead(added).unwrap_or(true) {
            let _ = shared.remove_expired_keys();
        }
    }

    /// Puts the lease of the call's thread into a change, for the Store to check. A Store of another database can't check
    /// it, so this process does.
    fn add_lease(&self, store: &dyn Store, change: &mut Change) -> StoreResult<()> {
        let Some(in_use) = &self.in_use else { return Ok(()) };
        let lease = in_use.lease();
        if store.info().database == Some(lease.database()) {
            change.records.push(CompanionRecord::Lease(lease.id()));
            return Ok(());
        }
        lease.check().map_err(|_| StoreError::LeaseExpired)
    }

    /// The lease under which the call may make something in a Store's database that isn't a change, such as a fork.
    pub(super) fn lease_in(&self, store: &dyn Store) -> Option<LeaseId> {
        let lease = self.in_use.as_ref()?.lease();
        (store.info().database == Some(lease.database())).then(|| lease.id())
    }

    /// Applies a change without steps in place of a change that failed, where the caller must not learn of the failure:
    /// like a change that succeeds, it makes a revision.
    pub(super) fn apply_empty_change(&self, sync: SyncPolicy) -> StoreResult<()> {
        let blind_at = self.blind_at.borrow().clone();
        let Some((store, _)) = blind_at else { return Ok(()) };
        // These names had to be free for the change that failed.
        self.expect_free.take();
        self.apply_with(&*store, Vec::new(), ChangeStage::Final, |change| {
            change.quotas.clear();
            change.sync = sync;
        })?;
        Ok(())
    }

    /// The operation that this call's changes belong to: the same one in all Stores.
    pub(super) fn operation(&self) -> OperationId {
        let fresh = || self.vfs.operation.unwrap_or_else(|| OperationId::fresh(self.shared().clock.now()));
        *self.operation.get_or_init(fresh)
    }

    /// Makes the call's changes part of an operation that has begun before. Does nothing if the `Vfs` has an operation.
    pub(super) fn join_operation(&self, operation: OperationId) {
        if self.vfs.operation.is_none() {
            // Fails if a change of this call has used another operation id already: that one stays.
            let _ = self.operation.set(operation);
        }
    }

    pub(super) fn tool(&self) -> Cow<'static, str> {
        self.vfs.tool.clone().unwrap_or_else(|| self.name.clone())
    }

    /// The tool name of the call's changes, in the history and in the audit.
    fn recorded_tool(&self) -> Cow<'static, str> {
        self.operation_name.get().map_or_else(|| self.tool(), Cow::Borrowed)
    }

    fn audit_record(&self, outcome: AuditOutcome) -> AuditRecord {
        let paths = self.audit_paths();
        let scope = || Some(self.shared().router.route(paths.first()?)?.workspace.scope());
        AuditRecord {
            stead: self.shared().stead.clone(),
            scope: self.scope.get().or_else(scope),
            paths,
            dry_run: self.dry_run.get(),
            bytes: self.bytes.get(),
            duration: self.began.elapsed(),
            operation: self.operation.get().copied().or(self.vfs.operation),
            facts: self.vfs.facts.clone(),
            ..AuditRecord::new(self.at, Arc::clone(&self.shared().identity), self.recorded_tool(), outcome)
        }
    }

    /// Records how the call went, unless a change has carried that record.
    fn finish<T>(self, result: &Result<T>) -> Result<()> {
        let Some(log) = &self.vfs.shared.audit else { return Ok(()) };
        let outcome = match result {
            Ok(_) if self.success_recorded.get() => {
                if let Some(single_record) = &self.vfs.single_record {
                    single_record.mark_written();
                }
                return Ok(());
            }
            // The call has not ended: a person is asked, and the call is made again with the answer.
            Err(Error::ApprovalRequired { .. }) if self.vfs.approval.will_ask() && !self.changed.get() => {
                return Ok(());
            }
            Ok(_) => self.refused.get().map_or(AuditOutcome::Ok, AuditOutcome::from_error_kind),
            Err(error) => AuditOutcome::from_error_kind(error.kind()),
        };
        let record = AuditRecord { facts: self.facts_of(result), ..self.audit_record(outcome) };
        if let Some(single_record) = &self.vfs.single_record {
            // A Begun record is in the log, so the outcome has to follow it.
            if !self.announced.get() {
                single_record.hold_back(record);
                return Ok(());
            }
            single_record.mark_written();
        }
        match log.append(&record) {
            // The change is made, and a Begun record announced it: the call can't fail any more.
            Err(cause) if !self.changed.get() => Err(Error::AuditUnavailable(cause)),
            _ => Ok(()),
        }
    }

    /// The facts of the record of a call that ends with this result: a call that was stopped says so.
    fn facts_of<T>(&self, result: &Result<T>) -> AuditFacts {
        let facts = self.vfs.facts.clone();
        let Err(Error::Stopped(reason)) = result else { return facts };
        facts.with_if_room("stopped", reason.as_str())
    }

    /// Ends the call as a part of a compound operation: only a denial gets a record of its own. A caller that looks for
    /// a missing file simply goes on, and if the whole operation fails, its own record says so.
    fn finish_in_compound<T>(&self, compound: &CompoundOperation, result: &Result<T>) -> Result<()> {
        match (result, &self.shared().audit) {
            (Ok(_), _) => compound.add_bytes(self.bytes.get().unwrap_or(0)),
            (Err(error), Some(log)) if error.kind() == ErrorKind::Denied => {
                compound.record_denial(&**log, self.audit_record(AuditOutcome::Denied))?;
            }
            (Err(_), _) => {}
        }
        Ok(())
    }

    /// Starts the audit of a file that stays open after this call.
    pub(super) fn open_audit(&self, recording: OpenRecording) -> Result<OpenAudit> {
        let compound = self.vfs.compound.clone();
        let log = self.shared().audit.as_ref().filter(|_| compound.is_none());
        let record = log.map(|log| (Arc::clone(log), self.audit_record(AuditOutcome::Begun)));
        if let (Some((log, record)), OpenRecording::Recorded) = (&record, recording) {
            log.append(record).map_err(Error::AuditUnavailable)?;
        }
        Ok(OpenAudit {
            record,
            recording,
            compound,
            began: self.began,
            bytes_read: AtomicU64::new(0),
            failed: Mutex::new(None),
            change_recorded: AtomicBool::new(false),
        })
    }
}

/// Whether opening a file writes a Begun record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenRecording {
    /// Yes: the log shows that the file was read even if the process dies before it is closed.
    Recorded,
    /// No: the file isn't read, and every change has a record of its own.
    Silent,
}

/// The audit of an open file: on drop, writes the record of what was read through it.
pub(super) struct OpenAudit {
    record: Option<(Arc<dyn AuditLog>, AuditRecord)>,
    recording: OpenRecording,
    /// The compound operation that the open file is part of. Then only that operation counts the bytes, and there is no
    /// record.
    compound: Option<Arc<CompoundOperation>>,
    began: Instant,
    bytes_read: AtomicU64,
    failed: Mutex<Option<ErrorKind>>,
    change_recorded: AtomicBool,
}

impl fmt::Debug for OpenAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAudit").field("read", &self.bytes_read).finish_non_exhaustive()
    }
}

impl OpenAudit {
    /// Counts the bytes of a read, or keeps the kind of its error.
    pub(super) fn add_read<E>(&self, result: &Result<usize, E>, kind: impl FnOnce(&E) -> ErrorKind) {
        match result {
            Ok(count) => {
                self.bytes_read.fetch_add(*count as u64, Ordering::Relaxed);
            }
            Err(error) => {
                self.failed.lock().get_or_insert(kind(error));
            }
        }
    }

    /// Notes that a write failed.
    pub(super) fn set_failed(&self, kind: ErrorKind) {
        self.failed.lock().get_or_insert(kind);
    }

    /// Writes the record. Fails if it can't be written and nothing else in the log shows that the file was open.
    pub(super) fn finish(&mut self) -> Result<()> {
        let bytes_read = std::mem::take(self.bytes_read.get_mut());
        if let Some(compound) = &self.compound {
            compound.add_bytes(bytes_read);
        }
        let Some((log, mut record)) = self.record.take() else { return Ok(()) };
        let (change_recorded, failed) = (*self.change_recorded.get_mut(), self.failed.get_mut().take());
        if change_recorded && bytes_read == 0 && failed.is_none() {
            return Ok(());
        }
        record.outcome = failed.map_or(AuditOutcome::Ok, AuditOutcome::from_error_kind);
        record.bytes = Some(bytes_read);
        record.duration = self.began.elapsed();
        match log.append(&record) {
            Err(cause) if self.recording == OpenRecording::Silent && !change_recorded => {
                Err(Error::AuditUnavailable(cause))
            }
            _ => Ok(()),
        }
    }

    /// Notes that a change has a record of what was written.
    pub(super) fn mark_change_recorded(&self) {
        self.change_recorded.store(true, Ordering::Relaxed);
    }
}

impl Drop for OpenAudit {
    fn drop(&mut self) {
        // A drop can't report an error; `OpenFile::close` can.
        let _ = self.finish();
    }
}
