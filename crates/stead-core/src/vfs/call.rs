//! One call at the door, from its beginning to its record.
//!
//! Whatever routes a path, looks into a Store or changes one is a method of [`Call`], and only [`Vfs::call`] and
//! [`Vfs::part`] make one. So no way leads into a Store past the audit. A call that is a part of an act
//! ([`Vfs::as_one`]) is written down with that.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::audit::{AuditLog, AuditOutcome, AuditRecord};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::{Operation, OperationId};
use crate::memory_budget::{CONTENT_MEMORY, MemoryReservation};
use crate::monitor::CallMonitor;
use crate::path::{PathError, VfsPath};
use crate::scope::AccessScope;
use crate::store::{
    Applied, Change, CompanionRecord, Step, Store, StoreError, StorePath, StoreResult, SyncPolicy,
};
use crate::vfs::batch::common_directory;
use crate::vfs::compound::CompoundOperation;
use crate::vfs::quota::{DraftCounting, without_usage};
use crate::vfs::write::same_store;
use crate::vfs::{Vfs, VfsShared};

/// A path as it came in: read, or not to be read as one.
pub(super) type ParsedPath = Result<VfsPath, PathError>;

/// One call, while it is under way.
pub(super) struct Call<'v> {
    pub(super) vfs: &'v Vfs,
    name: &'static str,
    paths: Vec<VfsPath>,
    /// The paths that it turned out to be about, where it was asked for none.
    reported_paths: RefCell<Vec<VfsPath>>,
    /// Where symlinks have led it: from its only path, or from both ends.
    resolved_paths: RefCell<Vec<VfsPath>>,
    /// Whether they have led on since a record said that it has begun.
    announce_again: Cell<bool>,
    /// What stood against it, where its answer tells what would have been done.
    refused: Cell<Option<ErrorKind>>,
    /// Whether it only asks what would be done.
    dry_run: Cell<bool>,
    at: Timestamp,
    began: Instant,
    /// What the Workspace of the first path allows, once it was routed.
    pub(super) scope: Cell<Option<AccessScope>>,
    bytes: Cell<Option<u64>>,
    operation: OnceCell<OperationId>,
    /// Whether a record says that it has begun.
    announced: Cell<bool>,
    /// Whether a change of it was made.
    changed: Cell<bool>,
    /// Whether a record says that it went well.
    success_recorded: Cell<bool>,
    /// What a change is called, where another name would tell less of what it does.
    pub(super) operation_name: Cell<Option<&'static str>>,
    /// Names that its changes have to leave free, and where: with them, git would take a directory for a repository.
    pub(super) expect_free: RefCell<Vec<(Arc<dyn Store>, StorePath)>>,
    /// Names that git looks for in a repository, which it may make.
    pub(super) created_git_names: RefCell<HashSet<StorePath>>,
    /// Whether it makes a change of what was written into an open file.
    pub(super) commits_draft: Cell<bool>,
    /// The first path that it was to change in a WRITE_ONLY Workspace: its Store, and the path there.
    pub(super) blind_at: RefCell<Option<(Arc<dyn Store>, StorePath)>>,
}

/// What a change is to the call that makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeStage {
    /// The call is done with it.
    Final,
    /// More has to happen before the call is done.
    Intermediate,
}

impl Vfs {
    /// Does something beside the files that has to be on record like everything else: a snapshot, say.
    pub fn audited<T>(
        &self,
        call: &'static str,
        path: Option<&VfsPath>,
        act: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match path {
            Some(path) => self.call(call, [Ok(path.clone())], |_, _| act()),
            None => self.call(call, [], |_, []| act()),
        }
    }

    /// Makes a call. It is written down, however it ends.
    pub(super) fn call<T, const N: usize>(
        &self,
        name: &'static str,
        paths: [ParsedPath; N],
        act: impl FnOnce(&Call<'_>, [&VfsPath; N]) -> Result<T>,
    ) -> Result<T> {
        let (call, result) = self.run_call(name, paths, act);
        match &self.compound {
            Some(whole) => call.finish_in_compound(whole, &result)?,
            None => call.finish(&result)?,
        }
        result
    }

    /// Makes a part of what is written down as a whole elsewhere: only if it is refused or fails, or has changed
    /// something, there is a record of its own. Says whether it has changed something.
    pub(super) fn subcall<T, const N: usize>(
        &self,
        name: &'static str,
        paths: [ParsedPath; N],
        act: impl FnOnce(&Call<'_>, [&VfsPath; N]) -> Result<T>,
    ) -> Result<(T, bool)> {
        let (call, result) = self.run_call(name, paths, act);
        let changed = call.changed.get();
        match &self.compound {
            Some(whole) => call.finish_in_compound(whole, &result)?,
            None if result.is_err() || call.announced.get() => call.finish(&result)?,
            None => {}
        }
        result.map(|value| (value, changed))
    }

    /// Looks something up. That is not written down: what is done with it is.
    pub(super) fn unaudited_call<T, const N: usize>(
        &self,
        name: &'static str,
        paths: [ParsedPath; N],
        act: impl FnOnce(&Call<'_>, [&VfsPath; N]) -> Result<T>,
    ) -> Result<T> {
        self.run_call(name, paths, act).1
    }

    fn run_call<T, const N: usize>(
        &self,
        name: &'static str,
        paths: [ParsedPath; N],
        act: impl FnOnce(&Call<'_>, [&VfsPath; N]) -> Result<T>,
    ) -> (Call<'_>, Result<T>) {
        let mut wrong = None;
        let mut good = Vec::with_capacity(N);
        for path in paths {
            match path {
                Ok(path) => good.push(path),
                Err(error) => wrong = wrong.or(Some(error)),
            }
        }
        let call = Call {
            vfs: self,
            name,
            paths: good,
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
        };
        let result = match wrong {
            Some(error) => Err(error.into()),
            None => act(&call, std::array::from_fn(|index| &call.paths[index])),
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

    /// Says what the call is about, which was not asked for by path: one or two paths, or the directory that holds all.
    pub(super) fn set_paths(&self, paths: Vec<VfsPath>) {
        *self.reported_paths.borrow_mut() =
            if paths.len() > 2 { vec![common_directory(&paths)] } else { paths };
    }

    /// Says where symlinks have led, from each of the paths that were asked for.
    pub(super) fn set_resolved_paths<const N: usize>(&self, paths: [&VfsPath; N]) {
        let led = paths.map(VfsPath::clone).to_vec();
        let before = self.resolved_paths.replace(led);
        self.announce_again.set(self.announced.get() && before != *self.resolved_paths.borrow());
    }

    /// Says that it was not done, though it is answered what would have been.
    pub(super) fn set_refused(&self, kind: ErrorKind) {
        self.refused.set(Some(kind));
    }

    /// Says whether it only asks what would be done.
    pub(super) fn set_dry_run(&self, dry_run: bool) {
        self.dry_run.set(dry_run);
    }

    /// The paths that the record names: those that were asked for, and where they led. Of a copy or a move it names the
    /// two ends as they turned out to be.
    fn audit_paths(&self) -> Vec<VfsPath> {
        let (led, named) = (self.resolved_paths.borrow(), self.reported_paths.borrow());
        match (&*self.paths, &**led) {
            ([], _) => named.clone(),
            ([asked], [led]) if asked != led => vec![asked.clone(), led.clone()],
            ([_, _], [_, _]) => led.clone(),
            (asked, _) => asked.to_vec(),
        }
    }

    /// Says how many bytes the caller gets, or has given.
    pub(super) fn set_bytes(&self, bytes: u64) {
        self.bytes.set(Some(bytes));
    }

    /// Says how far the call has come, to whoever waits for it, and stops if they want that.
    pub(super) fn report_progress(&self, done: u64, total: Option<u64>) -> Result<()> {
        let Some(watch) = &self.vfs.monitor else { return Ok(()) };
        watch.progress(done, total);
        self.check_not_stopped()
    }

    /// Stops if whoever waits for the call wants that.
    pub(super) fn check_not_stopped(&self) -> Result<()> {
        let stop = self.vfs.monitor.as_ref().and_then(|watch| watch.stop_reason());
        stop.map_or(Ok(()), |stop| Err(Error::Stopped(stop)))
    }

    /// Who may stop the call: once something of it has happened, it goes on to its end.
    pub(super) fn cancellation_monitor(&self) -> Option<Arc<dyn CallMonitor>> {
        self.vfs.monitor.clone().filter(|_| !self.changed.get())
    }

    /// Reserves memory for whole contents, having waited for it. A call does so once, and before it changes anything.
    pub(super) fn reserve(&self, bytes: u64) -> StoreResult<MemoryReservation<'static>> {
        CONTENT_MEMORY.reserve(bytes, || self.vfs.monitor.as_ref().and_then(|watch| watch.stop_reason()))
    }

    /// Makes a change in a Store.
    pub(super) fn apply(
        &self,
        store: &dyn Store,
        steps: Vec<Step>,
        stage: ChangeStage,
    ) -> StoreResult<Applied> {
        self.apply_with(store, steps, stage, |_| ())
    }

    /// Makes a change in a Store: the one place where that is done. Its record goes with it, or before it; `more` adds
    /// what else does.
    pub(super) fn apply_with(
        &self,
        store: &dyn Store,
        steps: Vec<Step>,
        stage: ChangeStage,
        more: impl FnOnce(&mut Change),
    ) -> StoreResult<Applied> {
        let operation = Operation {
            id: self.operation(),
            identity: Arc::clone(&self.shared().identity),
            tool: self.recorded_tool(),
            at: self.shared().clock.now(),
        };
        let drafts = if self.commits_draft.get() { DraftCounting::Ignored } else { DraftCounting::Counted };
        // A call that commits a draft holds the turn already.
        let _turn =
            (drafts == DraftCounting::Counted).then(|| self.shared().draft_reservations.change_guard(&steps));
        let (quotas, watch) = (self.quotas_for(store, drafts)?, self.cancellation_monitor());
        let mut change = Change { quotas, monitor: watch, ..Change::new(operation, steps) };
        let expect_free = self.expect_free.borrow();
        let here = expect_free.iter().filter(|(other, _)| same_store(&**other, store));
        change.expect_free = here.map(|(_, path)| path.clone()).collect();
        let blind_at = self.blind_at.borrow();
        let blind_at = blind_at.as_ref().filter(|(other, _)| same_store(&**other, store));
        change.blind_at = blind_at.map(|(_, path)| path.clone());
        more(&mut change);
        let mut told = false;
        if let Some(log) = &self.shared().audit {
            let about = store.info();
            let along = about.audit_log == Some(log.id());
            told = along && stage == ChangeStage::Final && self.vfs.compound.is_none();
            if along {
                let outcome = if told { AuditOutcome::Ok } else { AuditOutcome::Begun };
                let record = Box::new(self.audit_record(outcome));
                change.records.push(CompanionRecord::Audit { record, began: self.began });
            } else if let Some(whole) = &self.vfs.compound {
                // That the whole has begun is noted already; only what lasts longer has to be said once more.
                if about.is_persistent() {
                    whole
                        .announce(|| log.announce(&whole.audit_record(self.shared(), AuditOutcome::Begun)))?;
                }
            } else if !self.announced.get() || self.announce_again.replace(false) {
                let record = self.audit_record(AuditOutcome::Begun);
                // The record has to last no longer than the change.
                if about.is_persistent() && change.sync == SyncPolicy::Now {
                    log.announce(&record)?
                } else {
                    log.append(&record)?
                }
                self.announced.set(true);
            }
        }
        let under_way = self.shared().own_revisions.begin_change();
        let withheld = self.undisclosed_limits(store, &change.quotas);
        let applied = store.apply(change).map_err(|cause| without_usage(cause, &withheld))?;
        self.shared().draft_reservations.invalidate_usage();
        if let (Some(under_way), Some(version)) = (under_way, applied.revision)
            && store.info().feed
        {
            under_way.record_revision(store, version);
        }
        self.changed.set(true);
        if let Some(whole) = &self.vfs.compound {
            whole.mark_changed();
        }
        self.success_recorded.set(told);
        self.announced.set(self.announced.get() || !told);
        Ok(applied)
    }

    /// Makes a change without steps where a change failed, and the caller must not learn that: it makes a version, as one
    /// that succeeded would have.
    pub(super) fn apply_nothing(&self, lasts: SyncPolicy) -> StoreResult<()> {
        let blind_at = self.blind_at.borrow().clone();
        let Some((store, _)) = blind_at else { return Ok(()) };
        // They were expected of the change that failed.
        self.expect_free.take();
        self.apply_with(&*store, Vec::new(), ChangeStage::Final, |change| {
            change.quotas.clear();
            change.sync = lasts;
        })?;
        Ok(())
    }

    /// The operation that changes of this call belong to: one, in however many Stores they are made.
    pub(super) fn operation(&self) -> OperationId {
        let fresh = || self.vfs.operation.unwrap_or_else(|| OperationId::fresh(self.shared().clock.now()));
        *self.operation.get_or_init(fresh)
    }

    /// Makes its changes a part of an operation that has begun before, unless it is a part of one already.
    pub(super) fn join_operation(&self, operation: OperationId) {
        if self.vfs.operation.is_none() {
            // Whatever it has changed by now says which one it is.
            let _ = self.operation.set(operation);
        }
    }

    pub(super) fn tool(&self) -> Cow<'static, str> {
        self.vfs.tool.clone().unwrap_or(Cow::Borrowed(self.name))
    }

    /// What its changes are called, in the history and in the audit alike.
    fn recorded_tool(&self) -> Cow<'static, str> {
        self.operation_name.get().map_or_else(|| self.tool(), Cow::Borrowed)
    }

    fn audit_record(&self, outcome: AuditOutcome) -> AuditRecord {
        let paths = self.audit_paths();
        let scope = || Some(self.shared().router.route(paths.first()?)?.workspace.scope());
        AuditRecord {
            at: self.at,
            stead: self.shared().stead.clone(),
            identity: Arc::clone(&self.shared().identity),
            call: self.recorded_tool(),
            scope: self.scope.get().or_else(scope),
            paths,
            outcome,
            dry_run: self.dry_run.get(),
            bytes: self.bytes.get(),
            file_count: None,
            duration: self.began.elapsed(),
            operation: self.operation.get().copied().or(self.vfs.operation),
            revision: None,
        }
    }

    /// Writes down how the call went, unless a change of it has done so.
    fn finish<T>(self, result: &Result<T>) -> Result<()> {
        let Some(log) = &self.vfs.shared.audit else { return Ok(()) };
        let outcome = match result {
            Ok(_) if self.success_recorded.get() => {
                if let Some(once) = &self.vfs.single_record {
                    once.mark_written();
                }
                return Ok(());
            }
            // It has not ended: a person is asked, and the call is made again with the answer.
            Err(Error::ApprovalRequired { .. }) if self.vfs.approval.will_ask() && !self.changed.get() => {
                return Ok(());
            }
            Ok(_) => self.refused.get().map_or(AuditOutcome::Ok, AuditOutcome::from_error_kind),
            Err(error) => AuditOutcome::from_error_kind(error.kind()),
        };
        let record = self.audit_record(outcome);
        if let Some(once) = &self.vfs.single_record {
            // That something is about to change stands there already: how it went belongs to it.
            if !self.announced.get() {
                once.hold_back(record);
                return Ok(());
            }
            once.mark_written();
        }
        match log.append(&record) {
            // What has changed has changed, and a record says that it was about to.
            Err(cause) if !self.changed.get() => Err(Error::AuditUnavailable(cause)),
            _ => Ok(()),
        }
    }

    /// Ends it as a part of an act: only what is denied has a record of its own. Whoever looks whether something is
    /// there, and finds that it is not, goes on; and where the whole fails, its own record tells.
    fn finish_in_compound<T>(&self, whole: &CompoundOperation, result: &Result<T>) -> Result<()> {
        match (result, &self.shared().audit) {
            (Ok(_), _) => whole.add_bytes(self.bytes.get().unwrap_or(0)),
            (Err(error), Some(log)) if error.kind() == ErrorKind::Denied => {
                whole.record_denial(&**log, self.audit_record(AuditOutcome::Denied))?;
            }
            (Err(_), _) => {}
        }
        Ok(())
    }

    /// Begins what goes on after this call: a file that stays open.
    pub(super) fn open_audit(&self, begins: OpenRecording) -> Result<OpenAudit> {
        let whole = self.vfs.compound.clone();
        let log = self.shared().audit.as_ref().filter(|_| whole.is_none());
        let record = log.map(|log| (Arc::clone(log), self.audit_record(AuditOutcome::Begun)));
        if let (Some((log, record)), OpenRecording::Recorded) = (&record, begins) {
            log.append(record).map_err(Error::AuditUnavailable)?;
        }
        Ok(OpenAudit {
            record,
            compound: whole,
            began: self.began,
            bytes_read: AtomicU64::new(0),
            failed: Mutex::new(None),
            change_recorded: AtomicBool::new(false),
        })
    }
}

/// Whether it is written down as it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenRecording {
    /// Yes: what is read is known even if the end is never reached.
    Recorded,
    /// No: nothing happens that is not a change with a record of its own.
    Silent,
}

/// What a file that is open owes the audit: a record at its end, of what was read through it.
pub(super) struct OpenAudit {
    record: Option<(Arc<dyn AuditLog>, AuditRecord)>,
    /// What it is a part of: then that is told what was read, and nobody else.
    compound: Option<Arc<CompoundOperation>>,
    began: Instant,
    bytes_read: AtomicU64,
    failed: Mutex<Option<ErrorKind>>,
    change_recorded: AtomicBool,
}

impl fmt::Debug for OpenAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lasting").field("read", &self.bytes_read).finish_non_exhaustive()
    }
}

impl OpenAudit {
    /// So many bytes were read, or none could be.
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

    /// Something could not be written.
    pub(super) fn set_failed(&self, kind: ErrorKind) {
        self.failed.lock().get_or_insert(kind);
    }

    /// A change has a record that tells what was written.
    pub(super) fn mark_change_recorded(&self) {
        self.change_recorded.store(true, Ordering::Relaxed);
    }
}

impl Drop for OpenAudit {
    fn drop(&mut self) {
        if let Some(whole) = &self.compound {
            whole.add_bytes(*self.bytes_read.get_mut());
        }
        let Some((log, record)) = &mut self.record else { return };
        let (read, failed) = (*self.bytes_read.get_mut(), self.failed.get_mut().take());
        if *self.change_recorded.get_mut() && read == 0 && failed.is_none() {
            return;
        }
        record.outcome = failed.map_or(AuditOutcome::Ok, AuditOutcome::from_error_kind);
        record.bytes = Some(read);
        record.duration = self.began.elapsed();
        // That it began is written down; nobody is left to be told of more.
        let _ = log.append(record);
    }
}
