//! A copy of the whole database while it is used, and a database as a copy has it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, params};
use stead_core::store::RevisionNumber;
use stead_core::{Clock, Identity, OperationId, StoreError, StoreResult, SystemClock};

use super::super::database::{MAX_LEASED_NODES, advance_counters, newest_revision};
use super::super::error::{Result, from_io};
use super::super::revision_file::{AcknowledgedRevisions, RevisionFile};
use super::super::schema::{DIR_EPOCH, NEXT_NODE, check_copy};
use super::super::writer_lock::WriterLock;
use super::super::{Database, DatabaseOptions};
use crate::sync::{self, SyncPoint};

/// How often progress is told.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// What no backup takes back: the audit, which is only ever added to, and what Physical Stores have written down of
/// directories that are not in the backup.
///
/// Chains that the database knows stay as they are there. Others, of a backup that was made elsewhere, come along, with
/// numbers of their own. Sieves are made anew.
const CARRY_OVER_SQL: &str = "
    CREATE TEMP TABLE known AS
      SELECT id FROM main.audit_instance WHERE uuid IN (SELECT uuid FROM live.audit_instance);
    DELETE FROM main.audit WHERE instance IN (SELECT id FROM known);
    DELETE FROM main.audit_head WHERE instance IN (SELECT id FROM known);
    DELETE FROM main.audit_segment WHERE instance IN (SELECT id FROM known);
    DELETE FROM main.audit_instance WHERE id IN (SELECT id FROM known);
    CREATE TEMP TABLE beyond AS SELECT
      (SELECT ifnull(max(id), 0) FROM main.audit_instance) + (SELECT ifnull(max(id), 0) FROM live.audit_instance) AS rows;
    UPDATE main.audit SET instance = instance + (SELECT rows FROM beyond);
    UPDATE main.audit_head SET instance = instance + (SELECT rows FROM beyond);
    UPDATE main.audit_segment SET instance = instance + (SELECT rows FROM beyond);
    UPDATE main.audit_instance SET id = id + (SELECT rows FROM beyond);
    INSERT INTO audit_instance SELECT * FROM live.audit_instance;
    INSERT INTO audit_head SELECT * FROM live.audit_head;
    INSERT INTO audit_segment SELECT * FROM live.audit_segment;
    INSERT OR IGNORE INTO audit_archive SELECT * FROM live.audit_archive;
    INSERT INTO audit(id, instance, seq, hash, body) SELECT id, instance, seq, hash, body FROM live.audit;
    DELETE FROM main.audit_filter;
    DROP TABLE known;
    DROP TABLE beyond;
    INSERT OR IGNORE INTO volume SELECT * FROM live.volume WHERE namespace LIKE '{_directory_:%';
    DELETE FROM main.ledger_directory;
    INSERT INTO ledger_directory SELECT * FROM live.ledger_directory;
    UPDATE capture_volume SET turn = 1 + max(turn, ifnull((SELECT max(turn) FROM live.capture_volume), 0));
    DELETE FROM main.empty_revision WHERE volume IN (SELECT id FROM main.volume WHERE namespace LIKE '{_directory_:%');
    INSERT OR IGNORE INTO empty_revision SELECT * FROM live.empty_revision
      WHERE volume IN (SELECT id FROM live.volume WHERE namespace LIKE '{_directory_:%');
    INSERT OR IGNORE INTO revision SELECT * FROM live.revision WHERE id IN (
      SELECT revision FROM live.ledger_event UNION SELECT revision FROM empty_revision
        WHERE volume IN (SELECT id FROM live.volume WHERE namespace LIKE '{_directory_:%'));
    INSERT OR IGNORE INTO undone SELECT * FROM live.undone
      WHERE volume IN (SELECT id FROM live.volume WHERE namespace LIKE '{_directory_:%');
    DELETE FROM main.ledger_event;
    INSERT INTO ledger_event SELECT * FROM live.ledger_event;
    DELETE FROM main.intent;
    INSERT INTO intent SELECT * FROM live.intent;
    DELETE FROM main.ledger_usage;
    INSERT INTO ledger_usage SELECT * FROM live.ledger_usage;
";

/// What a backup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupReport {
    /// The newest version in it.
    pub revision: RevisionNumber,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Database {
    /// Copies the database as it is at one moment into a new file, whole or not at all, while others go on.
    pub fn backup(&self, to: &Path, progress: &mut dyn FnMut(u64)) -> StoreResult<BackupReport> {
        if to.exists() {
            return Err(StoreError::AlreadyExists);
        }
        let unfinished = sibling_path(to, ".part");
        let _ = std::fs::remove_file(&unfinished);
        let copied = self.copy_into(&unfinished, progress);
        let finished = copied.and_then(|version| {
            // SQLite has synced it, as it does for the database that it copies.
            let bytes = std::fs::metadata(&unfinished).map_err(|error| from_io(&error))?.len();
            std::fs::rename(&unfinished, to).map_err(|error| from_io(&error))?;
            if let Some(directory) = to.parent() {
                sync::sync_directory(SyncPoint::BackupName, directory).map_err(|error| from_io(&error))?;
            }
            Ok(BackupReport { revision: version, bytes })
        });
        if finished.is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
        finished
    }

    fn copy_into(&self, to: &Path, progress: &mut dyn FnMut(u64)) -> StoreResult<RevisionNumber> {
        let Some(name) = to.to_str() else {
            return Err(StoreError::Invalid("the backup's name has to be text".into()));
        };
        let copy = || -> Result<()> {
            let reader = self.0.reader()?;
            // A reader may change nothing, and SQLite takes the copy for a change.
            reader.execute_batch("PRAGMA query_only = OFF")?;
            let copied = reader.execute("VACUUM INTO ?1", [name]);
            reader.execute_batch("PRAGMA query_only = ON")?;
            copied?;
            Ok(())
        };
        std::thread::scope(|scope| {
            let copying = scope.spawn(copy);
            while !copying.is_finished() {
                std::thread::sleep(PROGRESS_INTERVAL.min(Duration::from_millis(5)));
                progress(std::fs::metadata(to).map_or(0, |file| file.len()));
            }
            copying.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        let open = || -> Result<i64> {
            let conn = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            check_copy(&conn)?;
            newest_revision(&conn)
        };
        Ok(RevisionNumber(open()?))
    }

    /// Makes the database what a backup holds, whole or not at all. What has changed since the backup is gone.
    ///
    /// Versions, nodes and tags that were given out since are not given out again. The audit stays whole, and so does what
    /// Physical Stores have written down.
    pub fn restore_backup(&self, from: &Path, progress: &mut dyn FnMut(u64)) -> StoreResult<RevisionNumber> {
        if !from.is_file() {
            return Err(StoreError::NotFound);
        }
        let Some(live) = self.0.file() else {
            return Err(StoreError::Unsupported("a database in memory can't be restored"));
        };
        // Prepared aside, so that the database itself changes in one step.
        let aside = RestoredCopy::copy(from, live.parent().unwrap_or(Path::new(".")))?;
        let version = self.with_exclusive_access(|conn| {
            let next = aside.prepare(conn, &live)?;
            let source = Connection::open_with_flags(&aside.0, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            let backup = Backup::new(&source, conn)?;
            match backup.step(-1)? {
                StepResult::Done => Ok(next),
                _ => Err(StoreError::unavailable("the database is in use; try again").into()),
            }
        })?;
        self.0.forget_volumes();
        // What was lost before is no longer missed.
        RevisionFile::of(&live)
            .make(AcknowledgedRevisions { revision: version, lost: (0, 0) })
            .map_err(|error| from_io(&error))?;
        progress(1);
        Ok(RevisionNumber(version))
    }

    /// Puts what a backup holds in the place of a database that is gone, or so damaged that it can't be opened. The damaged
    /// files stay beside it, with `-damaged` in their names.
    ///
    /// Versions that were acknowledged before are not given out again. The audit is as the backup has it.
    pub fn restore_lost(path: &Path, from: &Path, options: DatabaseOptions) -> StoreResult<RevisionNumber> {
        if !from.is_file() {
            return Err(StoreError::NotFound);
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let aside = RestoredCopy::copy(from, directory)?;
        let known = RevisionFile::of(path).read().unwrap_or_default();
        let version = aside.prepare_alone(known.revision)?;
        let turnstile = WriterLock::open(path)?;
        let _turn = turnstile.acquire(options.wait_timeout)?;
        let replace = || -> std::io::Result<()> {
            sync::sync_all(SyncPoint::RestoredDatabase, std::fs::File::open(&aside.0)?)?;
            let damaged = sibling_path(path, "-damaged");
            for suffix in ["-wal", "-shm", ""] {
                match std::fs::rename(sibling_path(path, suffix), sibling_path(&damaged, suffix)) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            std::fs::rename(&aside.0, path)?;
            sync::sync_directory(SyncPoint::RestoredDatabaseName, directory)?;
            RevisionFile::of(path).make(AcknowledgedRevisions { revision: version, lost: (0, 0) })
        };
        replace().map_err(|error| from_io(&error))?;
        Ok(RevisionNumber(version))
    }
}

/// A copy of a backup that is made ready to take the database's place.
struct RestoredCopy(PathBuf);

impl RestoredCopy {
    fn copy(from: &Path, directory: &Path) -> StoreResult<Self> {
        let aside = RestoredCopy(directory.join(format!("restoring-{:016x}.db", fastrand::u64(..))));
        std::fs::copy(from, &aside.0).map_err(|error| from_io(&error))?;
        Ok(aside)
    }

    /// Opens the copy and checks that it is a sound database of the present format.
    fn open(&self) -> Result<Connection> {
        let conn = Connection::open(&self.0)?;
        check_copy(&conn)?;
        let sound: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        if sound != "ok" {
            return Err(StoreError::Corrupt("the backup's structure is broken".into()).into());
        }
        Ok(conn)
    }

    /// Makes the copy ready to be the database by itself, with a version beyond all that were acknowledged.
    fn prepare_alone(&self, acknowledged: i64) -> Result<i64> {
        let conn = self.open()?;
        let version = newest_revision(&conn)?.max(acknowledged) + 1;
        advance_counters(&conn, version, "restore-backup")?;
        conn.execute_batch("PRAGMA journal_mode = DELETE")?;
        Ok(version)
    }

    /// Makes the copy ready, and lets its counters begin beyond the database's own.
    fn prepare(&self, current: &Connection, live: &Path) -> Result<i64> {
        let conn = self.open()?;
        let counter = |conn: &Connection, id: i64| -> Result<i64> {
            Ok(conn.query_row("SELECT value FROM meta WHERE id = ?1", [id], |row| row.get(0))?)
        };
        let epoch = counter(&conn, DIR_EPOCH)?.max(counter(current, DIR_EPOCH)?) + 1;
        let node = counter(&conn, NEXT_NODE)?.max(counter(current, NEXT_NODE)?) + MAX_LEASED_NODES;
        let known = RevisionFile::of(live).read().unwrap_or_default();
        let version = newest_revision(&conn)?.max(newest_revision(current)?).max(known.revision) + 1;
        conn.execute("ATTACH DATABASE ?1 AS live", [live.to_string_lossy()])?;
        let now = SystemClock.now();
        let transaction = conn.unchecked_transaction()?;
        for (id, value) in [(DIR_EPOCH, epoch), (NEXT_NODE, node)] {
            conn.execute("UPDATE meta SET value = ?2 WHERE id = ?1", [id, value])?;
        }
        conn.execute(
            "INSERT INTO revision(id, operation, agent, tool, at) VALUES (?1, ?2, ?3, 'restore-backup', ?4)",
            params![version, OperationId::fresh(now).as_bytes(), Identity::agent("operator").agent, now.0],
        )?;
        let triggers = audit_triggers(&conn)?;
        for (name, _) in &triggers {
            conn.execute_batch(&format!("DROP TRIGGER {name}"))?;
        }
        conn.execute_batch(CARRY_OVER_SQL)?;
        for (_, sql) in &triggers {
            conn.execute_batch(sql)?;
        }
        transaction.commit()?;
        conn.execute_batch("DETACH DATABASE live; PRAGMA journal_mode = DELETE")?;
        Ok(version)
    }
}

/// What keeps the audit from being changed by the way, each by its name.
fn audit_triggers(conn: &Connection) -> Result<Vec<(String, String)>> {
    let sql = "SELECT name, sql FROM main.sqlite_schema WHERE type = 'trigger' AND tbl_name = 'audit'";
    let mut statement = conn.prepare(sql)?;
    let triggers = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(triggers.collect::<rusqlite::Result<_>>()?)
}

impl Drop for RestoredCopy {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let _ = std::fs::remove_file(sibling_path(&self.0, suffix));
        }
    }
}

fn sibling_path(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
