//! The audit of a running instance: takes records, moves them into the database, and signs the chain.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use stead_core::store::DatabaseId;
use stead_core::{AuditLog, AuditRecord, Clock, StoreError, StoreResult, SystemClock};

use crate::audit::adopt::sign_restored_chains;
use crate::audit::bloom_filter;
use crate::audit::body::{RecordBody, drop_superseded_begun};
use crate::audit::chain::Chain;
use crate::audit::directory::{AuditDirectory, InstanceDirectory};
use crate::audit::head::{AuditKey, SignedHead};
use crate::audit::recover::recover;
use crate::audit::spool::{DrainResult, Spool, WakeReason};
use crate::database::Database;
use crate::database::DatabaseInner;
use crate::database::group_commit::CommitSync;
use crate::database::manifest::PendingTouches;

/// How long a record waits for others before they are moved into the database together.
const BATCH_DELAY: Duration = Duration::from_millis(100);
/// How long the newest record of a chain may stay unsigned.
const MAX_UNSIGNED_TIME: Duration = Duration::from_secs(1);
/// How many filters are made at once at most, if many are missing.
const MAX_FILTERS_AT_ONCE: usize = 8;

/// The audit, kept in a database, of every call that is made with it.
///
/// While it is open, Virtual Stores of the same database commit the records of their changes with the changes. When the
/// last reference to it is dropped, the spooled records are moved into the database, and the end of the chain is
/// signed.
pub struct Audit {
    inner: Arc<AuditInner>,
    worker: Option<JoinHandle<()>>,
}

struct AuditInner {
    database: Arc<DatabaseInner>,
    spool: Spool,
    directory: AuditDirectory,
    key: AuditKey,
    problems: Vec<String>,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("database", &self.inner.database.id).finish_non_exhaustive()
    }
}

impl Audit {
    /// Opens the audit of a database. `directory` holds the key and the spool, and is made if it is missing.
    ///
    /// What a killed process left there is recovered first. An opened database has one audit at a time: opening a
    /// second one is [`StoreError::Invalid`], and so is a directory that belongs to another database.
    pub fn open(database: &Database, directory: &Path) -> StoreResult<Arc<Self>> {
        match (Audit::open_once(database, directory), &database.0.reserve) {
            // A directory and a lock file need a little disk space, too.
            (Err(StoreError::NoSpace), Some(reserve)) if reserve.release_to_host() => {
                let opened = Audit::open_once(database, directory);
                reserve.reclaim();
                opened
            }
            (opened, _) => opened,
        }
    }

    fn open_once(database: &Database, directory: &Path) -> StoreResult<Arc<Self>> {
        let database_inner = &database.0;
        let audit_directory = AuditDirectory::create(directory)?;
        audit_directory.claim(database_inner)?;
        let key = audit_directory.key()?;
        let problems = recover(database_inner, &audit_directory, &key)?;
        let (instance, chain_end_file, spooled_count) = audit_directory.begin_instance(&key)?;
        if !database_inner.begin_audit_log(Chain::new(instance.uuid), chain_end_file) {
            audit_directory.end_instance(instance, &[], &[])?;
            return Err(StoreError::Invalid("the audit of this database is already open".into()));
        }
        let (wait_timeout, reserve) = (database_inner.options.wait_timeout, database_inner.reserve.clone());
        let spool = Spool::new(&instance.directory, spooled_count, wait_timeout, reserve);
        let inner = Arc::new(AuditInner {
            database: Arc::clone(database_inner),
            spool,
            directory: audit_directory,
            key,
            problems,
        });
        let audit_worker =
            AuditWorker { inner: Arc::clone(&inner), instance, last_head: None, filtered_up_to: None };
        let worker = Builder::new().name("stead-audit".into()).spawn(move || audit_worker.run());
        let worker = worker.map_err(|_| {
            database_inner.end_audit_log();
            StoreError::unavailable("the host can't start another thread")
        })?;
        Ok(Arc::new(Audit { inner, worker: Some(worker) }))
    }

    /// Lets a database continue the audit in `directory` though that belongs to another database, which is lost.
    ///
    /// Call it only to restore a backup. What the backup lacks of the audit is reported as missing.
    pub fn adopt_directory(database: &Database, directory: &Path) -> StoreResult<()> {
        AuditDirectory::existing(directory).adopt(&database.0)
    }

    /// The problems that recovery found with what killed processes had left, one sentence each.
    pub fn problems_at_open(&self) -> &[String] {
        &self.inner.problems
    }

    /// Signs the chains that a restored backup brought into the database and of which nothing outside it knows.
    ///
    /// Call it only right after a backup was restored: from now on, checks compare these chains with their present
    /// state.
    pub fn sign_restored_chains(&self) -> StoreResult<()> {
        sign_restored_chains(&self.inner.database, &self.inner.directory, &self.inner.key)
    }
}

impl AuditLog for Audit {
    fn database(&self) -> DatabaseId {
        self.inner.database.id
    }

    fn append(&self, record: &AuditRecord) -> StoreResult<()> {
        self.inner.spool.put(&RecordBody::of(record))
    }

    fn announce(&self, record: &AuditRecord) -> StoreResult<()> {
        let body = RecordBody::of(record);
        self.inner
            .database
            .write_reserved(CommitSync::AsConfigured, move |transaction| transaction.append_body(&body))
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.inner.spool.close();
        if let Some(worker) = self.worker.take() {
            // The panic was printed to stderr, and the next process that opens the audit recovers the spool.
            let _ = worker.join();
        }
        self.inner.database.end_audit_log();
    }
}

/// Moves records into the database and signs them, on its own thread.
struct AuditWorker {
    inner: Arc<AuditInner>,
    instance: InstanceDirectory,
    last_head: Option<SignedHead>,
    /// The chain's position when no filter was left to make; `None` if there may be more to make.
    filtered_up_to: Option<i64>,
}

impl AuditWorker {
    fn run(mut self) {
        let mut last_signed = Instant::now();
        // What fails here is retried. Until then the records are in the spool, which survives the process.
        loop {
            let reason = self.inner.spool.wait(BATCH_DELAY, MAX_UNSIGNED_TIME);
            if reason == WakeReason::Closing {
                break;
            }
            if reason == WakeReason::Due && self.drain().is_err() {
                std::thread::sleep(BATCH_DELAY);
            }
            if last_signed.elapsed() >= MAX_UNSIGNED_TIME {
                let _ = self.sign_head();
                last_signed = Instant::now();
            }
            self.make_filters();
        }
        let Ok(()) = self.drain_all() else { return };
        self.make_filters();
        if self.sign_head().is_ok() {
            // If this fails, the next process that opens the audit ends the instance again.
            let _ = self.inner.directory.end_instance(self.instance, self.last_head.as_slice(), &[]);
        }
    }

    fn drain_all(&self) -> StoreResult<()> {
        while self.drain()? {}
        Ok(())
    }

    /// Moves the records of one spool file into the database, without a sync; returns whether there were any.
    fn drain(&self) -> StoreResult<bool> {
        let Some(file) = self.inner.spool.take_oldest() else { return Ok(false) };
        let entries = drop_superseded_begun(file.entries());
        // The records of reads come together with the times at which managed files were read.
        let touches = self.inner.database.touches.take();
        let result = self.inner.database.write_reserved(CommitSync::Deferred, move |transaction| {
            PendingTouches::write(transaction.conn, &touches)?;
            transaction.append_spooled(&entries)
        });
        let drain_result = if result.is_ok() { DrainResult::InDatabase } else { DrainResult::NotYet };
        self.inner.spool.return_file(file, drain_result);
        result.map(|()| true)
    }

    /// Makes filters, if there are enough records for one. Records of other instances count, too, so it looks again
    /// after every `RECORDS_PER_FILTER` own records. What fails is retried later. Until then, queries read those
    /// records one by one.
    fn make_filters(&mut self) {
        let Some(chain) = self.inner.database.chain() else { return };
        if self
            .filtered_up_to
            .is_some_and(|filtered| chain.seq - filtered < bloom_filter::RECORDS_PER_FILTER as i64)
        {
            return;
        }
        let made_all = (0..MAX_FILTERS_AT_ONCE)
            .all(|_| matches!(bloom_filter::make_next_filter(&self.inner.database), Ok(true)));
        self.filtered_up_to = (!made_all).then_some(chain.seq);
    }

    /// Signs the newest record, if it isn't signed yet.
    ///
    /// The transaction that stores the head is synced, so every record that the head covers is on the disk before the
    /// head is written outside the database. So no power cut can leave a head of records that are gone.
    fn sign_head(&mut self) -> StoreResult<()> {
        let signed_seq = self.last_head.as_ref().map_or(0, |head| head.seq);
        if self.inner.database.chain().is_none_or(|chain| chain.seq == signed_seq) {
            return Ok(());
        }
        let key = self.inner.key.clone();
        let head = self.inner.database.write_reserved(CommitSync::Always, move |transaction| {
            let Some((chain, row)) = transaction.chain().and_then(|chain| Some((chain, chain.row_id?)))
            else {
                return Ok(None);
            };
            chain.save(transaction.conn)?;
            let head = key.sign(&chain, SystemClock.now());
            head.insert(transaction.conn, row)?;
            Ok(Some(head))
        })?;
        if let Some(head) = head {
            self.instance.write_head(&head)?;
            self.last_head = Some(head);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w34_the_time_of_access_waits_less_than_a_second_to_be_written() {
        // It is written together with the records of reads.
        assert!(BATCH_DELAY < Duration::from_secs(1));
    }
}
