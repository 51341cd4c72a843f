//! The log of a running instance.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use stead_core::{AuditLog, AuditLogId, AuditRecord, Clock, StoreError, StoreResult, SystemClock};

use super::super::Database;
use super::super::database::DatabaseInner;
use super::super::group_commit::CommitSync;
use super::adopt::sign_restored_chains;
use super::bloom_filter;
use super::body::{RecordBody, drop_superseded_begun};
use super::chain::Chain;
use super::directory::{AuditDirectory, InstanceDirectory};
use super::head::{AuditKey, SignedHead};
use super::recover::recover;
use super::spool::{DrainResult, Spool, WakeReason};

/// How long a record waits for others before all of them go into the database.
const BATCH_DELAY: Duration = Duration::from_millis(100);
/// How long a chain may grow before its newest record is signed.
const MAX_UNSIGNED_TIME: Duration = Duration::from_secs(1);
/// How many sieves are made at once at the most, where many are missing.
const MAX_FILTERS_AT_ONCE: usize = 8;

/// The audit of everything that goes through doors with this log, kept in a database.
///
/// Virtual Stores of the same database write the records of their changes in the changes' own transactions from now on.
/// When the last reference to it goes, what waits is put into the database, and the chain's end is signed.
pub struct Audit {
    inner: Arc<AuditInner>,
    worker: Option<JoinHandle<()>>,
}

struct AuditInner {
    database: Arc<DatabaseInner>,
    id: AuditLogId,
    spool: Spool,
    directory: AuditDirectory,
    key: AuditKey,
    problems: Vec<String>,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("id", &self.inner.id).finish_non_exhaustive()
    }
}

impl Audit {
    /// Opens the log of a database. `directory` is where the key lies, and what is on its way into the database; it is
    /// made if it is missing.
    ///
    /// What a process that was killed has left there is put in order first.
    pub fn open(database: &Database, directory: &Path) -> StoreResult<Arc<Self>> {
        Audit::open_as(Audit::fresh_id(), database, directory)
    }

    /// An id that no log has.
    pub fn fresh_id() -> AuditLogId {
        AuditLogId(fastrand::u64(1..))
    }

    /// The same for who had to know the log's id before.
    pub fn open_as(id: AuditLogId, database: &Database, directory: &Path) -> StoreResult<Arc<Self>> {
        match (Audit::open_once(id, database, directory), &database.0.reserve) {
            // A directory and a lock need a little room, too.
            (Err(StoreError::NoSpace), Some(reserve)) if reserve.release_to_host() => {
                let opened = Audit::open_once(id, database, directory);
                reserve.reclaim();
                opened
            }
            (opened, _) => opened,
        }
    }

    fn open_once(id: AuditLogId, database: &Database, directory: &Path) -> StoreResult<Arc<Self>> {
        let shared = &database.0;
        let place = AuditDirectory::make(directory)?;
        let key = place.key()?;
        let wrong = recover(shared, &place, &key)?;
        let (running, tail, count) = place.begin_instance(&key)?;
        if !shared.begin_audit_log(id, Chain::new(running.uuid), tail) {
            place.end_instance(running, &[], &[])?;
            return Err(StoreError::Invalid("the audit of this database is open already".into()));
        }
        let (patience, reserve) = (shared.options.wait_timeout, shared.reserve.clone());
        let spool = Spool::new(&running.directory, count, patience, reserve);
        let inner = Arc::new(AuditInner {
            database: Arc::clone(shared),
            id,
            spool,
            directory: place,
            key,
            problems: wrong,
        });
        let keeper = AuditWorker {
            inner: Arc::clone(&inner),
            instance: running,
            last_head: None,
            filtered_up_to: None,
        };
        let worker = Builder::new().name("stead-audit".into()).spawn(move || keeper.run());
        let worker = worker.map_err(|_| {
            shared.end_audit_log();
            StoreError::unavailable("the host starts no more threads")
        })?;
        Ok(Arc::new(Audit { inner, worker: Some(worker) }))
    }

    /// What was wrong with what killed processes had left when the log was opened, a sentence each.
    pub fn problems_at_open(&self) -> &[String] {
        &self.inner.problems
    }

    /// Signs the chains that a backup has brought into the database and that nothing outside of it tells of.
    ///
    /// Only for someone who has just restored a backup: from now on these chains are held to what they are now.
    pub fn sign_restored_chains(&self) -> StoreResult<()> {
        sign_restored_chains(&self.inner.database, &self.inner.directory, &self.inner.key)
    }
}

impl AuditLog for Audit {
    fn id(&self) -> AuditLogId {
        self.inner.id
    }

    fn append(&self, record: &AuditRecord) -> StoreResult<()> {
        self.inner.spool.put(&RecordBody::of(record))
    }

    fn announce(&self, record: &AuditRecord) -> StoreResult<()> {
        let facts = RecordBody::of(record);
        self.inner
            .database
            .write_reserved(CommitSync::AsConfigured, move |writing| writing.append_body(&facts))
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.inner.spool.close();
        if let Some(worker) = self.worker.take() {
            // A panic there has been told on stderr, and the spool is still there for the next one who opens the log.
            let _ = worker.join();
        }
        self.inner.database.end_audit_log();
    }
}

/// The one who brings records into the database and signs them, on a thread of its own.
struct AuditWorker {
    inner: Arc<AuditInner>,
    instance: InstanceDirectory,
    last_head: Option<SignedHead>,
    /// Up to where there were no records left without a sieve, when that was last looked at.
    filtered_up_to: Option<i64>,
}

impl AuditWorker {
    fn run(mut self) {
        let mut sealed = Instant::now();
        // What fails here is tried again: until then the records are in the spool, which outlives the process.
        loop {
            let woken = self.inner.spool.wait(BATCH_DELAY, MAX_UNSIGNED_TIME);
            if woken == WakeReason::Closing {
                break;
            }
            if woken == WakeReason::Due && self.drain().is_err() {
                std::thread::sleep(BATCH_DELAY);
            }
            if sealed.elapsed() >= MAX_UNSIGNED_TIME {
                let _ = self.sign_head();
                sealed = Instant::now();
            }
            self.make_filters();
        }
        let Ok(()) = self.drain_all() else { return };
        self.make_filters();
        if self.sign_head().is_ok() {
            // Where this fails, whoever opens the log next ends the instance once more.
            let _ = self.inner.directory.end_instance(self.instance, self.last_head.as_slice(), &[]);
        }
    }

    fn drain_all(&self) -> StoreResult<()> {
        while self.drain()? {}
        Ok(())
    }

    /// Puts the records of one file into the database, without waiting for the disk; says whether there were any.
    fn drain(&self) -> StoreResult<bool> {
        let Some(bin) = self.inner.spool.take_oldest() else { return Ok(false) };
        let entries = drop_superseded_begun(bin.entries());
        let drained = self
            .inner
            .database
            .write_reserved(CommitSync::Deferred, move |writing| writing.append_spooled(&entries));
        let emptied = if drained.is_ok() { DrainResult::InDatabase } else { DrainResult::NotYet };
        self.inner.spool.return_file(bin, emptied);
        drained.map(|()| true)
    }

    /// Makes sieves, where there are records enough for one. Those of other instances count, too, so it is looked at now
    /// and then; what fails is tried again, and until then records are looked at one by one.
    fn make_filters(&mut self) {
        let Some(chain) = self.inner.database.chain() else { return };
        if self
            .filtered_up_to
            .is_some_and(|sifted| chain.seq - sifted < bloom_filter::RECORDS_PER_FILTER as i64)
        {
            return;
        }
        let all = (0..MAX_FILTERS_AT_ONCE)
            .all(|_| matches!(bloom_filter::make_next_filter(&self.inner.database), Ok(true)));
        self.filtered_up_to = (!all).then_some(chain.seq);
    }

    /// Signs the newest record, if it is not signed yet.
    ///
    /// The head goes into the database in a transaction that is synced, so all that it speaks of is on the disk before
    /// it is kept outside: no power cut can make it speak of records that are gone.
    fn sign_head(&mut self) -> StoreResult<()> {
        let signed = self.last_head.as_ref().map_or(0, |head| head.seq);
        if self.inner.database.chain().is_none_or(|chain| chain.seq == signed) {
            return Ok(());
        }
        let key = self.inner.key.clone();
        let head = self.inner.database.write_reserved(CommitSync::Always, move |writing| {
            let Some((chain, row)) = writing.chain().and_then(|chain| Some((chain, chain.row_id?))) else {
                return Ok(None);
            };
            chain.save(writing.conn)?;
            let head = key.sign(&chain, SystemClock.now());
            head.insert(writing.conn, row)?;
            Ok(Some(head))
        })?;
        if let Some(head) = head {
            self.instance.write_head(&head)?;
            self.last_head = Some(head);
        }
        Ok(())
    }
}
