//! Backups: copies a database while it is in use, and restores one from a copy.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, params};
use stead_core::store::RevisionNumber;
use stead_core::{Clock, Identity, OperationId, StoreError, StoreResult, SystemClock};

use crate::database::error::{Result, from_io};
use crate::database::revision_file::{AcknowledgedRevisions, RevisionFile};
use crate::database::schema::{DIR_EPOCH, NEXT_NODE, check_copy};
use crate::database::verify::structure_problems;
use crate::database::writer_lock::WriterLock;
use crate::database::{Database, DatabaseOptions};
use crate::database::{MAX_LEASED_NODES, RESTORE_TOOL, advance_counters, newest_revision};
use crate::sync::{self, SyncPoint};

/// The longest time between two progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Copies into a restored backup (`main`) what the current database (`live`) keeps: its identity, the audit, which is
/// append-only, and the ledgers of Physical Stores, whose directories are not in the backup.
///
/// Audit chains of the current database replace the backup's copies of them. Other chains, of a backup that was made
/// elsewhere, stay and get new numbers. The audit's Bloom filters are dropped, and rebuilt later.
const CARRY_OVER_SQL: &str = "
    UPDATE main.meta SET value = (SELECT value FROM live.meta WHERE name = 'identity') WHERE name = 'identity';
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
    DELETE FROM main.forgotten_event;
    INSERT INTO forgotten_event SELECT * FROM live.forgotten_event;
    DELETE FROM main.intent;
    INSERT INTO intent SELECT * FROM live.intent;
    DELETE FROM main.companion_record WHERE volume IN (SELECT id FROM main.volume WHERE namespace LIKE '{_directory_:%');
    INSERT INTO companion_record(volume, kind, key, revision, path, node, size, tag, data, pending)
      SELECT volume, kind, key, revision, path, node, size, tag, data, pending FROM live.companion_record
      WHERE volume IN (SELECT id FROM live.volume WHERE namespace LIKE '{_directory_:%') ORDER BY id;
    DELETE FROM main.workspace_files WHERE workspace IN (SELECT workspace FROM main.managed_workspace
      WHERE volume IN (SELECT id FROM main.volume WHERE namespace LIKE '{_directory_:%'));
    DELETE FROM main.workspace_file_history WHERE workspace IN (SELECT workspace FROM main.managed_workspace
      WHERE volume IN (SELECT id FROM main.volume WHERE namespace LIKE '{_directory_:%'));
    DELETE FROM main.workspace_file_missing WHERE workspace IN (SELECT workspace FROM main.managed_workspace
      WHERE volume IN (SELECT id FROM main.volume WHERE namespace LIKE '{_directory_:%'));
    DELETE FROM main.managed_workspace WHERE volume IN (SELECT id FROM main.volume WHERE namespace LIKE '{_directory_:%');
    INSERT INTO managed_workspace SELECT * FROM live.managed_workspace
      WHERE volume IN (SELECT id FROM live.volume WHERE namespace LIKE '{_directory_:%');
    INSERT INTO workspace_files SELECT iif(EXISTS (SELECT 1 FROM main.workspace_files x WHERE x.id = f.id), NULL, f.id) AS free,
        f.workspace, f.path, category, original_name, size_bytes, source_tool, tags, created_at, modified_at, accessed_at,
        session_key, since FROM live.workspace_files f JOIN live.managed_workspace m ON m.workspace = f.workspace
      WHERE m.volume IN (SELECT id FROM live.volume WHERE namespace LIKE '{_directory_:%') ORDER BY free IS NULL, f.id;
    INSERT OR IGNORE INTO workspace_file_tag(workspace, tag, written, file)
      SELECT f.workspace, j.value, f.modified_at, f.id
      FROM main.workspace_files f, json_each('[' || replace(json_quote(f.tags), ',', '\",\"') || ']') j WHERE f.tags <> '';
    INSERT INTO workspace_file_history SELECT h.* FROM live.workspace_file_history h
      JOIN live.managed_workspace m ON m.workspace = h.workspace
      WHERE m.volume IN (SELECT id FROM live.volume WHERE namespace LIKE '{_directory_:%');
    INSERT INTO workspace_file_missing SELECT h.* FROM live.workspace_file_missing h
      JOIN live.managed_workspace m ON m.workspace = h.workspace
      WHERE m.volume IN (SELECT id FROM live.volume WHERE namespace LIKE '{_directory_:%');
    DELETE FROM main.ledger_usage;
    INSERT INTO ledger_usage SELECT * FROM live.ledger_usage;
";

/// Makes the threads of a restored backup usable: leases are those of processes that used another database, and an idle time-out
/// begins anew, so that a sweep doesn't remove at once what was just restored. Running processes take new leases on the threads
/// that the backup has.
const RENEW_THREADS_SQL: &str = "
    DELETE FROM main.thread_lease;
    DELETE FROM main.lease_holder;
    UPDATE main.thread SET last_used = max(last_used, CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000000);
";

/// What a backup contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// The newest revision in it.
    pub revision: RevisionNumber,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Database {
    /// Copies the database, as of one point in time, into a new file, while other callers go on. The file is complete
    /// or doesn't exist; `AlreadyExists` if it was there before. `progress` gets the number of bytes so far.
    pub fn backup(&self, to: &Path, progress: &mut dyn FnMut(u64)) -> StoreResult<BackupReport> {
        if to.exists() {
            return Err(StoreError::AlreadyExists);
        }
        let unfinished = sibling_path(to, ".part");
        let _ = std::fs::remove_file(&unfinished);
        let copied = self.copy_into(&unfinished, progress);
        let finished = copied.and_then(|revision| {
            // SQLite has synced the copy, with the same settings as for the database itself.
            let bytes = std::fs::metadata(&unfinished).map_err(|error| from_io(&error))?.len();
            std::fs::rename(&unfinished, to).map_err(|error| from_io(&error))?;
            if let Some(directory) = to.parent() {
                sync::sync_directory(SyncPoint::BackupName, directory).map_err(|error| from_io(&error))?;
            }
            Ok(BackupReport { revision, bytes })
        });
        if finished.is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
        finished
    }

    fn copy_into(&self, to: &Path, progress: &mut dyn FnMut(u64)) -> StoreResult<RevisionNumber> {
        let Some(name) = to.to_str() else {
            return Err(StoreError::Invalid("the backup's path has to be valid UTF-8".into()));
        };
        let copy = || -> Result<()> {
            let reader = self.0.reader()?;
            // Readers have `query_only` on, and SQLite treats the copy as a write.
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

    /// Restores a backup into this database, completely or not at all. Changes since the backup are lost.
    ///
    /// Revisions, nodes and tags that were handed out since then are not used again. The audit and the ledgers of
    /// Physical Stores stay as they are.
    pub fn restore_backup(&self, from: &Path, progress: &mut dyn FnMut(u64)) -> StoreResult<RevisionNumber> {
        if !from.is_file() {
            return Err(StoreError::NotFound);
        }
        let Some(live) = self.0.file() else {
            return Err(StoreError::unsupported("a database in memory can't be restored"));
        };
        // Prepared in a copy, so that the database itself changes in one step.
        let restored = RestoredCopy::copy(from, &live)?;
        let revision = self.with_exclusive_access(|conn| {
            let next = restored.prepare(conn, &live)?;
            let source = Connection::open_with_flags(&restored.0, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            let backup = Backup::new(&source, conn)?;
            match backup.step(-1)? {
                StepResult::Done => Ok(next),
                _ => Err(StoreError::unavailable("the database is in use; try again").into()),
            }
        })?;
        self.0.forget_volumes();
        // Revisions that were lost before are not reported any more.
        RevisionFile::of(&live)
            .make(AcknowledgedRevisions { revision, lost: (0, 0) })
            .map_err(|error| from_io(&error))?;
        progress(1);
        Ok(RevisionNumber(revision))
    }

    /// Restores a backup in place of a database that is missing, or too damaged to be opened. The damaged files stay:
    /// they are moved to a new directory in the directory `-damaged` beside the database.
    ///
    /// Revisions that were acknowledged before are not used again. The audit is the backup's: call
    /// [`Audit::adopt_directory`](crate::Audit::adopt_directory) if the lost database had one.
    pub fn restore_lost(path: &Path, from: &Path, options: DatabaseOptions) -> StoreResult<RevisionNumber> {
        if !from.is_file() {
            return Err(StoreError::NotFound);
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let restored = RestoredCopy::copy(from, path)?;
        let acknowledged = RevisionFile::of(path).read().unwrap_or_default();
        let revision = restored.prepare_alone(acknowledged.revision)?;
        let writer_lock = WriterLock::open(path)?;
        let _guard = writer_lock.acquire(options.wait_timeout)?;
        let replace = || -> std::io::Result<()> {
            sync::sync_all(SyncPoint::RestoredDatabase, std::fs::File::open(&restored.0)?)?;
            move_damaged(path)?;
            std::fs::rename(&restored.0, path)?;
            sync::sync_directory(SyncPoint::RestoredDatabaseName, directory)?;
            RevisionFile::of(path).make(AcknowledgedRevisions { revision, lost: (0, 0) })
        };
        replace().map_err(|error| from_io(&error))?;
        Ok(RevisionNumber(revision))
    }
}

/// A copy of a backup that is prepared to replace the database. Removed when it is dropped.
struct RestoredCopy(PathBuf);

impl RestoredCopy {
    /// Copies a backup into the directory `-restoring` beside the database: the Stores hide it, like the database.
    fn copy(from: &Path, database: &Path) -> StoreResult<Self> {
        let directory = sibling_path(database, "-restoring");
        let restored = RestoredCopy(directory.join(format!("{:016x}.db", fastrand::u64(..))));
        let copy = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
            std::fs::copy(from, &restored.0)
        };
        copy().map_err(|error| from_io(&error))?;
        Ok(restored)
    }

    /// Checks the copy, and migrates it to the current format.
    fn open(&self) -> Result<Connection> {
        let conn = Connection::open(&self.0)?;
        check_copy(&conn)?;
        if !structure_problems(&conn)?.is_empty() {
            return Err(StoreError::Corrupt("the backup's structure is broken".into()).into());
        }
        Ok(conn)
    }

    /// Prepares the copy to be used on its own. Returns its new revision, which is beyond all acknowledged ones.
    fn prepare_alone(&self, acknowledged: i64) -> Result<i64> {
        let conn = self.open()?;
        let revision = newest_revision(&conn)?.max(acknowledged) + 1;
        advance_counters(&conn, revision, RESTORE_TOOL)?;
        conn.execute_batch(RENEW_THREADS_SQL)?;
        conn.execute_batch("PRAGMA journal_mode = DELETE")?;
        Ok(revision)
    }

    /// Prepares the copy to replace the current database: carries over what that keeps, and sets counters beyond those
    /// of both. Returns the new revision.
    fn prepare(&self, current: &Connection, live: &Path) -> Result<i64> {
        let conn = self.open()?;
        let counter = |conn: &Connection, id: i64| -> Result<i64> {
            Ok(conn.query_row("SELECT value FROM meta WHERE id = ?1", [id], |row| row.get(0))?)
        };
        let epoch = counter(&conn, DIR_EPOCH)?.max(counter(current, DIR_EPOCH)?) + 1;
        let node = counter(&conn, NEXT_NODE)?.max(counter(current, NEXT_NODE)?) + MAX_LEASED_NODES;
        let acknowledged = RevisionFile::of(live).read().unwrap_or_default();
        let revision = newest_revision(&conn)?.max(newest_revision(current)?).max(acknowledged.revision) + 1;
        conn.execute("ATTACH DATABASE ?1 AS live", [live.to_string_lossy()])?;
        let now = SystemClock.now();
        let transaction = conn.unchecked_transaction()?;
        for (id, value) in [(DIR_EPOCH, epoch), (NEXT_NODE, node)] {
            conn.execute("UPDATE meta SET value = ?2 WHERE id = ?1", [id, value])?;
        }
        conn.execute(
            "INSERT INTO revision(id, operation, agent, tool, at) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                revision,
                OperationId::fresh(now).as_bytes(),
                Identity::agent("operator").agent,
                RESTORE_TOOL,
                now.0
            ],
        )?;
        let triggers = audit_triggers(&conn)?;
        for (name, _) in &triggers {
            conn.execute_batch(&format!("DROP TRIGGER {name}"))?;
        }
        conn.execute_batch(CARRY_OVER_SQL)?;
        conn.execute_batch(RENEW_THREADS_SQL)?;
        for (_, sql) in &triggers {
            conn.execute_batch(sql)?;
        }
        transaction.commit()?;
        conn.execute_batch("DETACH DATABASE live; PRAGMA journal_mode = DELETE")?;
        Ok(revision)
    }
}

/// The triggers that protect the audit from changes: name and SQL.
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
        if let Some(directory) = self.0.parent() {
            // Fails if another restore uses it.
            let _ = std::fs::remove_dir(directory);
        }
    }
}

/// Moves the files of a damaged database to a new directory, so that none of an earlier damage is lost.
fn move_damaged(database: &Path) -> std::io::Result<()> {
    let files = ["-wal", "-shm", ""].map(|suffix| sibling_path(database, suffix));
    if !files.iter().any(|file| file.symlink_metadata().is_ok()) {
        return Ok(());
    }
    let now = SystemClock.now().as_millis();
    let directory = sibling_path(database, "-damaged").join(format!("{now}-{:08x}", fastrand::u32(..)));
    sync::make_private_dir(SyncPoint::RestoredDatabaseName, &directory)?;
    for file in files {
        let name = file.file_name().ok_or(std::io::ErrorKind::InvalidInput)?;
        match std::fs::rename(&file, directory.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    // Before the database gets its name back: that syncs only that the damaged files have left.
    sync::sync_directory(SyncPoint::RestoredDatabaseName, &directory)
}

fn sibling_path(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
