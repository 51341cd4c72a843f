//! A copy of the whole database while it is used, and a database as a copy has it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, params};
use stead_core::store::Version;
use stead_core::{Clock, Identity, OperationId, StoreError, StoreResult, SystemClock};

use super::super::Database;
use super::super::database::newest;
use super::super::fault::{Result, of_host};
use super::super::schema::{DIR_EPOCH, NEXT_NODE, check_copy, migrate_copy};
use crate::sync::{self, Site};

/// How often progress is told.
const LOOK: Duration = Duration::from_millis(100);
/// More nodes than running processes may have leased.
const LEASED: i64 = 1 << 24;

/// What no backup takes back: the audit, which is only ever added to, and what Physical Stores have written down of
/// directories that are not in the backup.
const CARRIED_OVER: &str = "
    INSERT OR REPLACE INTO audit_instance SELECT * FROM live.audit_instance;
    INSERT OR IGNORE INTO audit_head SELECT * FROM live.audit_head;
    INSERT OR IGNORE INTO audit_segment SELECT * FROM live.audit_segment;
    INSERT INTO audit(id, instance, seq, hash, body)
      SELECT id, instance, seq, hash, body FROM live.audit
      WHERE id > (SELECT ifnull(max(id), 0) FROM main.audit);
    DELETE FROM main.audit WHERE EXISTS (
      SELECT 1 FROM main.audit_segment s WHERE s.instance = audit.instance AND s.last >= audit.seq);
    INSERT OR IGNORE INTO volume SELECT * FROM live.volume WHERE namespace LIKE '{_directory_:%';
    DELETE FROM main.attached;
    INSERT INTO attached SELECT * FROM live.attached;
    UPDATE shadow SET turn = 1 + max(turn, ifnull((SELECT max(turn) FROM live.shadow), 0));
    INSERT OR IGNORE INTO version SELECT * FROM live.version WHERE id IN (SELECT ver FROM live.kept);
    INSERT OR IGNORE INTO undone SELECT * FROM live.undone;
    DELETE FROM main.kept;
    INSERT INTO kept SELECT * FROM live.kept;
    DELETE FROM main.intent;
    INSERT INTO intent SELECT * FROM live.intent;
    DELETE FROM main.counted;
    INSERT INTO counted SELECT * FROM live.counted;
";

/// What a backup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupReport {
    /// The newest version in it.
    pub version: Version,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Database {
    /// Copies the database as it is at one moment into a new file, whole or not at all, while others go on.
    pub fn backup(&self, to: &Path, progress: &mut dyn FnMut(u64)) -> StoreResult<BackupReport> {
        if to.exists() {
            return Err(StoreError::AlreadyExists);
        }
        let unfinished = beside(to, ".part");
        let _ = std::fs::remove_file(&unfinished);
        let copied = self.copy_into(&unfinished, progress);
        let finished = copied.and_then(|version| {
            // SQLite has synced it, as it does for the database that it copies.
            let bytes = std::fs::metadata(&unfinished).map_err(|error| of_host(&error))?.len();
            std::fs::rename(&unfinished, to).map_err(|error| of_host(&error))?;
            if let Some(directory) = to.parent() {
                sync::directory(Site::BackupName, directory).map_err(|error| of_host(&error))?;
            }
            Ok(BackupReport { version, bytes })
        });
        if finished.is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
        finished
    }

    fn copy_into(&self, to: &Path, progress: &mut dyn FnMut(u64)) -> StoreResult<Version> {
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
                std::thread::sleep(LOOK.min(Duration::from_millis(5)));
                progress(std::fs::metadata(to).map_or(0, |file| file.len()));
            }
            copying.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        let open = || -> Result<i64> {
            let conn = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            check_copy(&conn)?;
            newest(&conn)
        };
        Ok(Version(open()?))
    }

    /// Makes the database what a backup holds, whole or not at all. What has changed since the backup is gone.
    ///
    /// Versions, nodes and tags that were given out since are not given out again. The audit stays whole, and so does what
    /// Physical Stores have written down.
    pub fn restore_backup(&self, from: &Path, progress: &mut dyn FnMut(u64)) -> StoreResult<Version> {
        if !from.is_file() {
            return Err(StoreError::NotFound);
        }
        let Some(live) = self.0.file() else {
            return Err(StoreError::Unsupported("a database in memory can't be restored"));
        };
        // Prepared aside, so that the database itself changes in one step.
        let aside = Aside::copy(from, live.parent().unwrap_or(Path::new(".")))?;
        let version = self.alone(|conn| {
            let next = aside.prepare(conn, &live)?;
            let source = Connection::open_with_flags(&aside.0, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            let backup = Backup::new(&source, conn)?;
            match backup.step(-1)? {
                StepResult::Done => Ok(next),
                _ => Err(StoreError::unavailable("the database is in use; try again").into()),
            }
        })?;
        self.0.forget_volumes();
        progress(1);
        Ok(Version(version))
    }
}

/// A copy of a backup that is made ready to take the database's place.
struct Aside(PathBuf);

impl Aside {
    fn copy(from: &Path, directory: &Path) -> StoreResult<Self> {
        let aside = Aside(directory.join(format!("restoring-{:016x}.db", fastrand::u64(..))));
        std::fs::copy(from, &aside.0).map_err(|error| of_host(&error))?;
        Ok(aside)
    }

    /// Checks the copy, brings it to the present format, and lets its counters begin beyond the database's own.
    fn prepare(&self, current: &Connection, live: &Path) -> Result<i64> {
        let conn = Connection::open(&self.0)?;
        check_copy(&conn)?;
        let sound: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        if sound != "ok" {
            return Err(StoreError::Corrupt("the backup's structure is broken".into()).into());
        }
        migrate_copy(&conn)?;
        let counter = |conn: &Connection, id: i64| -> Result<i64> {
            Ok(conn.query_row("SELECT value FROM meta WHERE id = ?1", [id], |row| row.get(0))?)
        };
        let epoch = counter(&conn, DIR_EPOCH)?.max(counter(current, DIR_EPOCH)?) + 1;
        let node = counter(&conn, NEXT_NODE)?.max(counter(current, NEXT_NODE)?) + LEASED;
        let version = newest(&conn)?.max(newest(current)?) + 1;
        conn.execute("ATTACH DATABASE ?1 AS live", [live.to_string_lossy()])?;
        let now = SystemClock.now();
        let transaction = conn.unchecked_transaction()?;
        for (id, value) in [(DIR_EPOCH, epoch), (NEXT_NODE, node)] {
            conn.execute("UPDATE meta SET value = ?2 WHERE id = ?1", [id, value])?;
        }
        conn.execute(
            "INSERT INTO version(id, operation, agent, tool, at) VALUES (?1, ?2, ?3, 'restore-backup', ?4)",
            params![version, OperationId::fresh(now).as_bytes(), Identity::agent("operator").agent, now.0],
        )?;
        conn.execute_batch(CARRIED_OVER)?;
        transaction.commit()?;
        conn.execute_batch("DETACH DATABASE live; PRAGMA journal_mode = DELETE")?;
        Ok(version)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let _ = std::fs::remove_file(beside(&self.0, suffix));
        }
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
