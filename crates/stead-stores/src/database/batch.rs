//! One write transaction: the jobs of a batch, each applied whole or not at all, and one commit for all of them.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, params};
use stead_core::{AuditRecord, Operation, StoreError, StoreResult};

use crate::Durability;
use crate::audit::{Chain, ChainAppender, ChainEndFile, RecordBody};
use crate::database::error::{DatabaseError, Result, from_sqlite};
use crate::database::group_commit::{CommitSync, DiskSpace, JobOutcome, WriteJob};
use crate::database::reserve::{DiskReserve, LOW_SPACE};
use crate::database::revision_file;
use crate::database::schema::{DIR_EPOCH, NEXT_NODE, synchronous};
use crate::database::{DatabaseInner, Volume, newest_revision};

/// How many node ids are taken from the database's counter at once.
const NODE_LEASE_SIZE: i64 = 1_024;
/// More nodes than one step can make one by one: a path has at most 2,048 names.
const MAX_NODES_PER_STEP: i64 = 4_096;

/// The connection that writes, and the state that belongs to it.
pub(crate) struct DatabaseWriter {
    /// `None` before the first write.
    pub(crate) conn: Option<Connection>,
    /// Node ids that this process may give out.
    node_lease: NodeLease,
    /// The end of the audit's chain, if an audit is open.
    pub(crate) chain: Option<Chain>,
    /// The file outside the database that holds the chain's end.
    pub(crate) chain_end_file: Option<ChainEndFile>,
    /// The file beside the database that holds the newest revision.
    pub(crate) revision_file: Option<File>,
}

#[derive(Default)]
struct NodeLease {
    nodes: Range<i64>,
    /// Whether one change has the lease alone. What is left of it is never given out.
    is_apart: bool,
    /// Whether the lease was taken in a transaction that has not committed. A rollback sets the counter back.
    is_uncommitted: bool,
}

impl DatabaseWriter {
    pub(crate) fn new(conn: Option<Connection>, revision_file: Option<File>) -> Self {
        DatabaseWriter {
            conn,
            node_lease: NodeLease::default(),
            chain: None,
            chain_end_file: None,
            revision_file,
        }
    }
}

/// A write transaction, as a job sees it.
pub(crate) struct WriteTransaction<'c> {
    pub(crate) conn: &'c Connection,
    node_lease: &'c mut NodeLease,
    /// The directory epoch when the transaction began.
    epoch: i64,
    /// Whether this transaction has moved or removed a directory.
    directories_moved: bool,
    learned_dirs: Vec<(Arc<Volume>, DirPaths)>,
    /// The end of the audit's chain, with the records of this transaction.
    chain: Option<Chain>,
    pub(crate) appender: ChainAppender,
}

/// The nodes of directories by path.
pub(crate) type DirPaths = HashMap<Box<[u8]>, i64>;

impl WriteTransaction<'_> {
    /// Returns a node id that was never used.
    pub(crate) fn fresh_node(&mut self) -> Result<i64> {
        self.fresh_nodes(1).map(|nodes| nodes.start)
    }

    /// Returns that many consecutive node ids that were never used.
    pub(crate) fn fresh_nodes(&mut self, count: i64) -> Result<Range<i64>> {
        if self.node_lease.is_apart && count > 1 {
            return self.take_nodes(count);
        }
        if self.node_lease.nodes.end - self.node_lease.nodes.start < count {
            let nodes = self.take_nodes(count.max(NODE_LEASE_SIZE))?;
            *self.node_lease = NodeLease { nodes, is_uncommitted: true, ..*self.node_lease };
        }
        let start = self.node_lease.nodes.start;
        self.node_lease.nodes.start += count;
        Ok(start..start + count)
    }

    /// Takes node ids from the database's counter.
    fn take_nodes(&self, count: i64) -> Result<Range<i64>> {
        let end: i64 = self
            .conn
            .prepare_cached("UPDATE meta SET value = value + ?2 WHERE id = ?1 RETURNING value")?
            .query_row([NEXT_NODE, count], |row| row.get(0))?;
        Ok(end - count..end)
    }

    /// Takes a lease for one change of so many steps alone. However many node ids the change uses, the whole lease is
    /// spent: the ids of later nodes reveal nothing about this change.
    pub(crate) fn begin_lease_apart(&mut self, steps: usize) -> Result<()> {
        // Rounded, because a few steps more or less must make no difference: a move over a file has a step for its
        // mode.
        let steps = i64::try_from(steps.max(1).next_multiple_of(16)).unwrap_or(i64::MAX);
        let nodes = self.take_nodes(steps.saturating_mul(MAX_NODES_PER_STEP))?;
        *self.node_lease = NodeLease { nodes, is_apart: true, is_uncommitted: true };
        Ok(())
    }

    /// Drops what is left of the lease of one change.
    pub(crate) fn end_lease_apart(&mut self) {
        *self.node_lease = NodeLease::default();
    }

    /// The directory epoch at which the shared caches are valid for this transaction; `None` once it has moved a
    /// directory itself.
    pub(crate) fn epoch(&self) -> Option<i64> {
        (!self.directories_moved).then_some(self.epoch)
    }

    /// Counts the directory epoch up, because a directory moves or is removed. This invalidates every cached path.
    pub(crate) fn invalidate_directories(&mut self) -> Result<()> {
        self.directories_moved = true;
        self.learned_dirs.clear();
        self.conn.prepare_cached("UPDATE meta SET value = value + 1 WHERE id = ?1")?.execute([DIR_EPOCH])?;
        Ok(())
    }

    /// Adds the next revision, made by this operation.
    pub(crate) fn new_revision(&mut self, operation: &Operation) -> Result<i64> {
        let Operation { id, identity, tool, at } = operation;
        let revision = self
            .conn
            .prepare_cached(
                "INSERT INTO revision(operation, agent, thread, organization, team, tool, at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .insert(params![
                id.as_bytes(),
                identity.agent,
                identity.thread,
                identity.organization,
                identity.team,
                tool,
                at.0
            ])?;
        Ok(revision)
    }

    /// Appends an audit record in the job's own transaction.
    pub(crate) fn append_record(&mut self, record: &AuditRecord) -> Result<()> {
        self.append_body(&RecordBody::of(record))
    }

    /// Appends to the audit's chain. Without an open audit, that is [`StoreError::Unsupported`].
    pub(crate) fn append_body(&mut self, body: &RecordBody) -> Result<()> {
        let no_audit_log = StoreError::unsupported("no audit is open on this database");
        let chain = self.chain.as_mut().ok_or(no_audit_log)?;
        self.appender.append(self.conn, chain, body)
    }

    /// Appends spooled records to the audit's chain, each with its number in the spool.
    pub(crate) fn append_spooled(&mut self, entries: &[(i64, RecordBody)]) -> Result<()> {
        for (number, body) in entries {
            self.append_body(body)?;
            if let Some(chain) = &mut self.chain {
                chain.spooled = number + 1;
            }
        }
        self.chain.map_or(Ok(()), |chain| chain.save(self.conn))
    }

    /// The end of the audit's chain, including this transaction.
    pub(crate) fn chain(&self) -> Option<Chain> {
        self.chain
    }

    /// Puts directories that a job has found into the shared cache once the transaction has committed.
    pub(crate) fn share_directories(&mut self, volume: &Arc<Volume>, paths: DirPaths) {
        if !self.directories_moved && !paths.is_empty() {
            self.learned_dirs.push((Arc::clone(volume), paths));
        }
    }
}

/// Runs the jobs of a batch, and returns the outcome of each: in one transaction, or on a full disk in one for each
/// job.
pub(crate) fn commit_batch(database: &DatabaseInner, jobs: &[Arc<WriteJob>]) -> Vec<JobOutcome> {
    let dropped_drafts = std::mem::take(&mut *database.dropped_drafts.lock());
    let mut is_unpinned = true;
    let run = |jobs: &[Arc<WriteJob>]| match run_batch(database, jobs, &dropped_drafts) {
        Ok(outcomes) => outcomes,
        Err(error) => {
            is_unpinned = false;
            jobs.iter().map(|_| JobOutcome::Failed(copy_error(&error))).collect()
        }
    };
    // On a full disk each job gets its own transaction: a job that needs more space than there is fails alone, and a
    // job that may use the reserve does not share it.
    let batch_size = match &database.reserve {
        Some(reserve) if reserve.is_needed() => 1,
        _ => jobs.len().max(1),
    };
    let outcomes: Vec<_> = jobs.chunks(batch_size).flat_map(run).collect();
    if outcomes.iter().any(|outcome| matches!(outcome, JobOutcome::Done)) {
        database.announce_commit();
    }
    if !is_unpinned {
        // At least one transaction was not committed, so the next batch removes the pins.
        database.dropped_drafts.lock().extend(dropped_drafts);
    }
    outcomes
}

fn run_batch(
    database: &DatabaseInner,
    jobs: &[Arc<WriteJob>],
    dropped_drafts: &[i64],
) -> StoreResult<Vec<JobOutcome>> {
    database.open_writer()?;
    let _guard =
        database.writer_lock.as_ref().map(|lock| lock.acquire(database.options.wait_timeout)).transpose()?;
    let mut writer = database.writer.lock();
    let DatabaseWriter { conn, node_lease, chain, chain_end_file, revision_file } = &mut *writer;
    let conn = conn.as_ref().expect("it was opened");
    let reserve =
        database.reserve.as_ref().filter(|_| jobs.iter().all(|job| job.disk_space == DiskSpace::Reserve));
    let borrowed = reserve.filter(|reserve| reserve.is_needed() && reserve.release_to_host());
    let _loan = borrowed.map(|reserve| BorrowedReserve {
        reserve,
        conn,
        wait_timeout: database.options.wait_timeout,
    });
    if let (Some(disk_reserve), None) = (&database.reserve, reserve)
        && !disk_reserve.has_room_for_log(2 * LOW_SPACE)
    {
        // While there is still room for it: a job that adds content must not leave a write-ahead log that can't be
        // checkpointed, because then no job could free space any more.
        truncate_wal(conn, database.options.wait_timeout);
    }
    let configured = database.options.durability;
    let durability = batch_durability(jobs, configured);
    let durability_override = (durability != configured)
        .then(|| DurabilityOverride::new(conn, durability, configured))
        .transpose()?;
    // The file beside the database holds only synced revisions, and only a commit that writes something is synced.
    let revision_file = revision_file.as_ref().filter(|_| durability == Durability::Full);
    let newest_before = revision_file.map(|_| newest_revision(conn)).transpose()?;
    let outcomes = run_transaction(conn, node_lease, (chain, chain_end_file.as_mut()), jobs, dropped_drafts);
    if node_lease.is_uncommitted {
        // The lease was not committed: the counter is back where it was.
        *node_lease = NodeLease::default();
    }
    if let (Ok(_), Some(revision_file), Some(newest_before)) = (&outcomes, revision_file, newest_before) {
        write_newest_revision(conn, revision_file, newest_before);
    }
    drop(durability_override);
    if let (Some(reserve), true) = (reserve, is_disk_full(&outcomes)) {
        // A disk quota doesn't show in the free space. The next transaction gets the reserve.
        reserve.note_no_space();
    } else if let (Some(reserve), None, Ok(_)) = (&database.reserve, borrowed, &outcomes) {
        reserve.note_space();
    }
    Ok(outcomes?)
}

/// The reserve of a full disk while a transaction uses it. Dropping it sets the reserve aside again.
struct BorrowedReserve<'a> {
    reserve: &'a DiskReserve,
    conn: &'a Connection,
    wait_timeout: Duration,
}

impl Drop for BorrowedReserve<'_> {
    fn drop(&mut self) {
        if self.reserve.has_room_for_log(0) {
            truncate_wal(self.conn, self.wait_timeout);
        }
        self.reserve.reclaim();
    }
}

/// Writes the newest revision into the file beside the database, now that the commit is on the disk. If that fails, the
/// file holds an older revision, which is still true.
fn write_newest_revision(conn: &Connection, file: &File, before: i64) {
    if let Some(newest) = newest_revision(conn).ok().filter(|newest| *newest > before) {
        let _ = revision_file::write_revision(file, newest);
    }
}

/// Checkpoints the write-ahead log and truncates it, so that its disk space is free again. It stays as it is while a
/// reader uses it.
fn truncate_wal(conn: &Connection, wait_timeout: Duration) {
    let truncate = || -> rusqlite::Result<()> {
        conn.busy_timeout(Duration::ZERO)?;
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    };
    let _ = truncate();
    // This only sets a field of the connection.
    let _ = conn.busy_timeout(wait_timeout);
}

/// Whether a job or the whole batch found no disk space.
fn is_disk_full(outcomes: &Result<Vec<JobOutcome>>) -> bool {
    match outcomes {
        Ok(outcomes) => {
            outcomes.iter().any(|outcome| matches!(outcome, JobOutcome::Failed(StoreError::NoSpace)))
        }
        Err(DatabaseError::Store(error)) => matches!(error, StoreError::NoSpace),
        Err(DatabaseError::Sqlite(error)) => matches!(from_sqlite(error), StoreError::NoSpace),
        Err(DatabaseError::NotTakenOver(_)) => false,
    }
}

/// The durability that a batch needs: that of its most demanding job.
fn batch_durability(jobs: &[Arc<WriteJob>], configured: Durability) -> Durability {
    let has_sync = |sync| jobs.iter().any(|job| job.sync == sync);
    match (has_sync(CommitSync::Always), has_sync(CommitSync::AsConfigured)) {
        (true, _) => Durability::Full,
        (false, true) => configured,
        (false, false) => Durability::Fast,
    }
}

fn run_transaction(
    conn: &Connection,
    node_lease: &mut NodeLease,
    (chain, chain_end_file): (&mut Option<Chain>, Option<&mut ChainEndFile>),
    jobs: &[Arc<WriteJob>],
    dropped_drafts: &[i64],
) -> Result<Vec<JobOutcome>> {
    let sql_transaction = SqlTransaction::begin(conn)?;
    let epoch = conn
        .prepare_cached("SELECT value FROM meta WHERE id = ?1")?
        .query_row([DIR_EPOCH], |row| row.get(0))?;
    for draft in dropped_drafts {
        conn.prepare_cached("DELETE FROM pin WHERE draft = ?1")?.execute([draft])?;
    }
    let mut transaction = WriteTransaction {
        conn,
        node_lease,
        epoch,
        directories_moved: false,
        learned_dirs: Vec::new(),
        chain: *chain,
        appender: ChainAppender::default(),
    };
    let outcomes = match jobs {
        [job] => vec![run_job(&mut transaction, job)],
        _ => jobs.iter().map(|job| run_job_in_savepoint(&mut transaction, job)).collect::<Result<_>>()?,
    };
    // A lone job that failed leaves nothing to commit; dropping the transaction rolls it back.
    if let [JobOutcome::Done] | [_, _, ..] = &*outcomes {
        commit_with_chain_end(sql_transaction, chain_end_file, *chain, transaction.chain)?;
        // The chain advances only with the commit: records that were rolled back have no position.
        *chain = transaction.chain;
        transaction.node_lease.is_uncommitted = false;
        for (volume, paths) in transaction.learned_dirs {
            volume.dirs.insert_all(epoch, paths);
        }
    }
    Ok(outcomes)
}

/// Commits, and writes the chain's end outside the database before and after the commit.
fn commit_with_chain_end(
    transaction: SqlTransaction<'_>,
    chain_end_file: Option<&mut ChainEndFile>,
    before: Option<Chain>,
    after: Option<Chain>,
) -> Result<()> {
    let (Some(chain_end_file), Some(before), Some(after)) = (chain_end_file, before, after) else {
        return transaction.commit();
    };
    if before == after {
        return transaction.commit();
    }
    chain_end_file.announce(&after);
    let committed = transaction.commit();
    match committed {
        Ok(()) => chain_end_file.confirm(&after),
        Err(_) => chain_end_file.announce(&before),
    }
    committed
}

/// Runs a job. A panic in it is caught and handed to the caller whose job it is.
fn run_job(transaction: &mut WriteTransaction<'_>, job: &WriteJob) -> JobOutcome {
    let work = job.take_work();
    match catch_unwind(AssertUnwindSafe(|| work(transaction))) {
        Ok(Ok(())) => JobOutcome::Done,
        Ok(Err(error)) => JobOutcome::Failed(error.into()),
        Err(panic) => JobOutcome::Panicked(panic),
    }
}

/// Runs a job in a savepoint, so that its failure undoes only its own changes.
fn run_job_in_savepoint(transaction: &mut WriteTransaction<'_>, job: &WriteJob) -> Result<JobOutcome> {
    let conn = transaction.conn;
    let execute = |sql| conn.prepare_cached(sql)?.execute([]).map(|_| ());
    execute("SAVEPOINT job")?;
    let (lease_end, learned_count, chain) =
        (transaction.node_lease.nodes.end, transaction.learned_dirs.len(), transaction.chain);
    let outcome = run_job(transaction, job);
    if !matches!(outcome, JobOutcome::Done) {
        if conn.is_autocommit() {
            // SQLite rolled back the whole transaction, and with it the changes of the jobs before.
            return Err(match outcome {
                JobOutcome::Failed(error) => DatabaseError::Store(error),
                JobOutcome::Done | JobOutcome::Panicked(_) => {
                    StoreError::unavailable("the database failed").into()
                }
            });
        }
        execute("ROLLBACK TO job")?;
        if transaction.node_lease.nodes.end != lease_end {
            *transaction.node_lease = NodeLease::default();
        }
        transaction.learned_dirs.truncate(learned_count);
        transaction.chain = chain;
        transaction.appender.reset_newest_id();
    }
    execute("RELEASE job")?;
    Ok(outcome)
}

/// A transaction that rolls back when dropped, unless it was committed.
struct SqlTransaction<'c>(&'c Connection);

impl<'c> SqlTransaction<'c> {
    fn begin(conn: &'c Connection) -> Result<Self> {
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(SqlTransaction(conn))
    }

    fn commit(self) -> Result<()> {
        self.0.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

impl Drop for SqlTransaction<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // If even this fails, the connection is unusable, and the next BEGIN fails.
            let _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

/// A durability for one transaction, other than the one the database was opened with. Dropping it sets that one again.
struct DurabilityOverride<'c> {
    conn: &'c Connection,
    previous: Durability,
}

impl<'c> DurabilityOverride<'c> {
    fn new(conn: &'c Connection, durability: Durability, previous: Durability) -> Result<Self> {
        conn.execute_batch(synchronous(durability))?;
        Ok(DurabilityOverride { conn, previous })
    }
}

impl Drop for DurabilityOverride<'_> {
    fn drop(&mut self) {
        // This only sets a field of the connection.
        self.conn
            .execute_batch(synchronous(self.previous))
            .expect("a connection outside a transaction can be set");
    }
}

/// A copy of the error of a whole batch, for one of its callers.
fn copy_error(error: &StoreError) -> StoreError {
    match error {
        StoreError::NoSpace => StoreError::NoSpace,
        StoreError::HostDenied => StoreError::HostDenied,
        StoreError::Corrupt(message) => StoreError::Corrupt(message.clone()),
        other => StoreError::unavailable(other),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::database::{Database, DatabaseOptions};

    #[test]
    fn only_a_deferred_commit_goes_unsynced_and_an_always_synced_one_never_does() {
        let dir = tempfile::tempdir().unwrap();
        let synchronous = |durability, sync| {
            let options = DatabaseOptions { durability, ..DatabaseOptions::default() };
            let database = Database::open(dir.path().join("db"), options).unwrap();
            // Twice: a batch of deferred jobs changes nothing for the next one.
            for _ in 0..2 {
                database.0.write(CommitSync::Deferred, |_| Ok(())).unwrap();
            }
            let read_pragma = |transaction: &mut WriteTransaction<'_>| {
                Ok(transaction.conn.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0))?)
            };
            database.0.write(sync, read_pragma).unwrap()
        };
        assert_eq!(synchronous(Durability::Full, CommitSync::AsConfigured), 2);
        assert_eq!(synchronous(Durability::Full, CommitSync::Deferred), 1);
        assert_eq!(synchronous(Durability::Fast, CommitSync::AsConfigured), 1);
        assert_eq!(synchronous(Durability::Fast, CommitSync::Always), 2);
        assert_eq!(synchronous(Durability::Full, CommitSync::Always), 2);
    }

    #[test]
    fn a_node_id_is_never_assigned_twice() {
        let database = Database::in_memory();
        let mut assigned = std::collections::HashSet::new();
        for round in 0..3_000_i64 {
            let result = database.0.write(CommitSync::AsConfigured, move |transaction| {
                let nodes = transaction.fresh_nodes(1 + round % 7)?;
                // Every third time the counter is rolled back; the ids that were given out are void.
                if round % 3 == 0 { Err(StoreError::Conflict.into()) } else { Ok(nodes) }
            });
            if let Ok(nodes) = result {
                assert!(nodes.into_iter().all(|node| assigned.insert(node)), "round {round}");
            }
        }
    }
}
