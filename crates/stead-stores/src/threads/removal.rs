//! Removing what the database has of a thread: its volumes and forks with all that they hold, its snapshots, and its row. The
//! audit stays.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::{Connection, params};
use stead_core::{AuditRecord, FactName, StoreError, StoreResult};

use crate::database::batch::WriteTransaction;
use crate::database::error::Result;
use crate::database::group_commit::CommitSync;
use crate::database::is_state_namespace;
use crate::threads::ending::check_ending;
use crate::threads::{EndingThread, LeaseHolder, ThreadKey};
use crate::virtual_store::fork;

/// What was removed with a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemovedThread {
    /// How many volumes it had, without its forks and its State.
    pub volumes: u64,
    /// How many forks.
    pub forks: u64,
    /// How many snapshots.
    pub snapshots: u64,
    /// How many files were in the volumes and the forks' own rows.
    pub files: u64,
    /// How many bytes these files had.
    pub bytes: u64,
    /// How many keys its State had, with those that had expired and were not removed yet.
    pub keys: u64,
}

impl LeaseHolder {
    /// Removes what the database has of a thread, and the thread itself, in one transaction with `record`, if an audit is
    /// open. The record gets what was removed: files and bytes, added to those that it has, and the facts `volumes`, `forks`,
    /// `snapshots` and `keys`.
    ///
    /// [`StoreError::LeaseExpired`] if another process has taken the removal over. Then it is that process's to finish.
    pub fn finish_ending(
        self: &Arc<Self>,
        ending: EndingThread,
        record: AuditRecord,
    ) -> StoreResult<RemovedThread> {
        let (id, key) = (ending.id, ending.key.clone());
        if ending.check().is_err() {
            // The holder may have expired only because no heartbeat came.
            self.renew_all()?;
        }
        let holder = self.id.load(Ordering::Acquire);
        let (removed, volumes) =
            self.database().0.write_reserved(CommitSync::AsConfigured, move |transaction| {
                check_ending(transaction.conn, id, holder)?;
                let (removed, volumes) = remove_thread(transaction, id, &key)?;
                if transaction.chain().is_some() {
                    transaction.append_record(&with_removed(record, &removed)?)?;
                }
                Ok((removed, volumes))
            })?;
        drop(ending);
        self.database().0.forget_volumes_in(&volumes);
        Ok(removed)
    }
}

/// Removes the volumes of a thread, the forks and snapshots that it owns, and its row. Also returns which volumes that were.
pub(crate) fn remove_thread(
    transaction: &mut WriteTransaction<'_>,
    id: i64,
    key: &ThreadKey,
) -> Result<(RemovedThread, Vec<i64>)> {
    let (conn, owner) = (transaction.conn, key.to_string());
    let volumes = volumes_of(conn, id, &owner)?;
    let mut removed = RemovedThread::default();
    for (volume, kind) in &volumes {
        let (files, bytes): (i64, i64) = conn
            .prepare_cached(
                "SELECT count(*), ifnull(sum(size), 0) FROM entry WHERE volume = ?1 AND kind = 1",
            )?
            .query_row([volume], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if *kind == VolumeKind::State {
            removed.keys += files.cast_unsigned();
            continue;
        }
        removed.files += files.cast_unsigned();
        removed.bytes += bytes.cast_unsigned();
        match kind {
            VolumeKind::Fork => removed.forks += 1,
            // Counted with its fork.
            VolumeKind::ForkPart => {}
            VolumeKind::Files | VolumeKind::State => removed.volumes += 1,
        }
    }
    // A fork that another owner has keeps what it shares with these volumes, until it is discarded.
    let ids: Vec<i64> = volumes.iter().map(|(volume, _)| *volume).collect();
    fork::remove_volumes(conn, &ids)?;
    removed.snapshots =
        conn.prepare_cached("DELETE FROM snapshot WHERE agent = ?1")?.execute([&owner])? as u64;
    conn.prepare_cached("DELETE FROM thread_lease WHERE thread = ?1")?.execute([id])?;
    conn.prepare_cached("DELETE FROM thread WHERE id = ?1")?.execute([id])?;
    transaction.invalidate_directories()?;
    Ok((removed, volumes.into_iter().map(|(volume, _)| volume).collect()))
}

/// The threads that have volumes.
pub(crate) fn threads_with_volumes(conn: &Connection) -> Result<Vec<i64>> {
    let mut statement = conn.prepare_cached("SELECT DISTINCT thread FROM volume WHERE thread IS NOT NULL")?;
    let threads = statement.query_map([], |row| row.get(0))?;
    Ok(threads.collect::<rusqlite::Result<_>>()?)
}

/// What a volume of a thread holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VolumeKind {
    Files,
    Fork,
    ForkPart,
    State,
}

/// The volumes of a thread and of the forks that it owns.
fn volumes_of(conn: &Connection, thread: i64, owner: &str) -> Result<Vec<(i64, VolumeKind)>> {
    let mut statement = conn.prepare_cached(
        "WITH own(volume) AS (
           SELECT id FROM volume WHERE thread IS NOT NULL AND thread = ?1
           UNION SELECT volume FROM fork WHERE owner = ?2
           UNION SELECT volume FROM fork_part WHERE owner = ?2)
         SELECT v.id, v.base IS NOT NULL, iif(v.base IS NULL, v.namespace, NULL),
                EXISTS (SELECT 1 FROM fork_part p WHERE p.volume = v.id)
         FROM own o JOIN volume v ON v.id = o.volume",
    )?;
    let rows = statement.query_map(params![thread, owner], |row| {
        let (is_fork, namespace): (bool, Option<String>) = (row.get(1)?, row.get(2)?);
        let kind = match namespace {
            _ if row.get(3)? => VolumeKind::ForkPart,
            _ if is_fork => VolumeKind::Fork,
            Some(namespace) if is_state_namespace(&namespace) => VolumeKind::State,
            _ => VolumeKind::Files,
        };
        Ok((row.get(0)?, kind))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn with_removed(mut record: AuditRecord, removed: &RemovedThread) -> Result<AuditRecord> {
    let RemovedThread { volumes, forks, snapshots, files, bytes, keys } = *removed;
    record.file_count = Some(record.file_count.unwrap_or(0) + files);
    record.bytes = Some(record.bytes.unwrap_or(0) + bytes);
    for (name, count) in [("volumes", volumes), ("forks", forks), ("snapshots", snapshots), ("keys", keys)] {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let facts = FactName::new(name).and_then(|name| record.facts.with(name, count));
        record.facts = facts.map_err(|error| StoreError::Invalid(error.to_string()))?;
    }
    Ok(record)
}
