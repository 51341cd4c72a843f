//! Finds the ledger of a host directory: its own, or that of an earlier directory at the same location.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::StoreResult;

use crate::database::Database;
use crate::database::batch::WriteTransaction;
use crate::database::error::Result;
use crate::database::group_commit::CommitSync;
use crate::ledger::{Ledger, SqliteLedger};

/// What identifies a directory to the ledgers.
pub(crate) struct LedgerDirectory<'a> {
    /// The directory itself, by device and inode. Changes when the directory is recreated.
    pub(crate) id: &'a str,
    /// Where it is. Stays the same when the directory is recreated.
    pub(crate) location: &'a str,
    /// Whether the directory with this id exists at another location now, and so keeps its ledger.
    pub(crate) is_elsewhere: &'a dyn Fn(&str) -> bool,
}

/// A ledger that was found, as the id of its volume, and how it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LedgerMatch {
    /// It belongs to this directory at this location.
    SameDirectory(i64),
    /// It belongs to this directory, from when it was at another location.
    Moved(i64),
    /// It belonged to an earlier directory at this location.
    SameLocation(i64),
}

impl Database {
    /// The ledger of a directory; `None` if it has none and `create_if_missing` is false.
    pub(crate) fn ledger(
        &self,
        directory: &LedgerDirectory<'_>,
        create_if_missing: bool,
    ) -> StoreResult<Option<Arc<dyn Ledger>>> {
        let ledger = self.sqlite_ledger(directory, create_if_missing)?;
        Ok(ledger.map(|ledger| Arc::new(ledger) as Arc<dyn Ledger>))
    }

    fn sqlite_ledger(
        &self,
        directory: &LedgerDirectory<'_>,
        create_if_missing: bool,
    ) -> StoreResult<Option<SqliteLedger>> {
        let found = find_ledger(&*self.0.reader()?, directory)?;
        let (id, location) = (directory.id.to_owned(), directory.location.to_owned());
        let vol = match found {
            Some(LedgerMatch::SameDirectory(vol)) => vol,
            Some(found @ (LedgerMatch::Moved(vol) | LedgerMatch::SameLocation(vol))) => {
                let attached = self.0.write_reserved(CommitSync::Deferred, move |transaction| {
                    attach(transaction, &id, &location, vol)?;
                    if matches!(found, LedgerMatch::SameLocation(_)) {
                        // The counters don't know the content of the new directory.
                        transaction
                            .conn
                            .execute("UPDATE ledger_usage SET dirty = 1 WHERE volume = ?1", [vol])?;
                    }
                    Ok(())
                });
                // A caller that only reads can go on where nothing can be written.
                if create_if_missing {
                    attached?;
                }
                vol
            }
            None if !create_if_missing => return Ok(None),
            None => self.0.write_reserved(CommitSync::Deferred, move |transaction| {
                begin_ledger(transaction, &id, &location)
            })?,
        };
        Ok(Some(SqliteLedger::new(&self.0, vol)))
    }
}

fn find_ledger(conn: &Connection, directory: &LedgerDirectory<'_>) -> Result<Option<LedgerMatch>> {
    let LedgerDirectory { id, location, is_elsewhere } = directory;
    let same_directory = conn
        .prepare_cached("SELECT volume FROM ledger_directory WHERE identity = ?1 AND location = ?2")?
        .query_row([id, location], |row| row.get(0))
        .optional()?;
    if let Some(vol) = same_directory {
        return Ok(Some(LedgerMatch::SameDirectory(vol)));
    }
    // Unless another directory goes on with the ledger at the old location.
    let moved = conn
        .prepare_cached(
            "SELECT max(volume) FROM ledger_directory a WHERE identity = ?1 AND NOT EXISTS (
               SELECT 1 FROM ledger_directory b WHERE b.location = a.location AND b.volume = a.volume AND b.identity <> ?1)",
        )?
        .query_row([id], |row| row.get::<_, Option<i64>>(0))?;
    if let Some(vol) = moved {
        return Ok(Some(LedgerMatch::Moved(vol)));
    }
    let mut statement = conn.prepare_cached(
        "SELECT volume, identity FROM ledger_directory WHERE location = ?1 ORDER BY volume DESC",
    )?;
    let mut rows = statement.query([location])?;
    while let Some(row) = rows.next()? {
        let (vol, other_id): (i64, String) = (row.get(0)?, row.get(1)?);
        if !is_elsewhere(&other_id) {
            return Ok(Some(LedgerMatch::SameLocation(vol)));
        }
    }
    Ok(None)
}

fn attach(transaction: &mut WriteTransaction<'_>, id: &str, location: &str, vol: i64) -> Result<()> {
    transaction
        .conn
        .prepare_cached(
            "INSERT OR IGNORE INTO ledger_directory(identity, location, volume) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![id, location, vol])?;
    Ok(())
}

/// Creates a ledger, unless another process did so meanwhile.
fn begin_ledger(transaction: &mut WriteTransaction<'_>, id: &str, location: &str) -> Result<i64> {
    let mut statement = transaction
        .conn
        .prepare_cached("SELECT volume FROM ledger_directory WHERE identity = ?1 AND location = ?2")?;
    if let Some(vol) = statement.query_row([id, location], |row| row.get(0)).optional()? {
        return Ok(vol);
    }
    drop(statement);
    // From the node counter, like the id of every volume, so that ids are unique.
    let vol = transaction.fresh_node()?;
    let by_id = format!("{{\"directory\":\"{id}\"}}");
    let by_id_and_location = format!("{{\"directory\":\"{id}\",\"place\":\"{location}\"}}");
    for namespace in [by_id, by_id_and_location] {
        let inserted = transaction
            .conn
            .prepare_cached("INSERT OR IGNORE INTO volume(id, namespace, root) VALUES (?1, ?2, 0)")?
            .execute(params![vol, namespace])?;
        if inserted == 1 {
            break;
        }
    }
    attach(transaction, id, location, vol)?;
    Ok(vol)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger_volume(
        database: &Database,
        id: &str,
        location: &str,
        ids_elsewhere: &[&str],
        create_if_missing: bool,
    ) -> Option<i64> {
        let is_elsewhere = |id: &str| ids_elsewhere.contains(&id);
        let directory = LedgerDirectory { id, location, is_elsewhere: &is_elsewhere };
        database.sqlite_ledger(&directory, create_if_missing).unwrap().map(|ledger| ledger.volume)
    }

    #[test]
    fn a_recreated_directory_takes_over_the_ledger_of_its_location() {
        let database = Database::in_memory();
        assert_eq!(ledger_volume(&database, "one", "here", &[], false), None);
        let first = ledger_volume(&database, "one", "here", &[], true);
        assert!(first.is_some());
        assert_eq!(ledger_volume(&database, "one", "here", &[], true), first);
        // Recreated, and then the old one is back.
        assert_eq!(ledger_volume(&database, "two", "here", &[], false), first);
        assert_eq!(ledger_volume(&database, "one", "here", &[], true), first);
        // The first one is moved, while the second one goes on here.
        let moved = ledger_volume(&database, "one", "there", &[], true);
        assert_ne!(moved, first);
        assert_eq!(ledger_volume(&database, "one", "there", &[], true), moved);
        assert_eq!(ledger_volume(&database, "two", "here", &[], true), first);
        assert_eq!(ledger_volume(&database, "three", "elsewhere", &[], false), None);
    }

    #[test]
    fn a_directory_that_was_moved_keeps_its_ledger() {
        let database = Database::in_memory();
        let first = ledger_volume(&database, "one", "here", &[], true);
        // The first one was moved, and another one was created in its place. Either may be opened first.
        let second = ledger_volume(&database, "two", "here", &["one"], true);
        assert_ne!(second, first);
        assert_eq!(ledger_volume(&database, "one", "there", &["two"], true), first);
        // Two paths to one directory.
        assert_eq!(ledger_volume(&database, "one", "by another way", &[], true), first);
        assert_eq!(ledger_volume(&database, "one", "there", &[], true), first);
        assert_eq!(ledger_volume(&database, "three", "here", &["one", "two"], false), None);
        assert_eq!(ledger_volume(&database, "three", "here", &["one"], false), second);
    }

    #[test]
    fn a_change_that_did_not_happen_is_removed_from_its_own_ledger_only() {
        let database = Database::in_memory();
        let ledger = |id| {
            let directory = LedgerDirectory { id, location: id, is_elsewhere: &|_| false };
            database.sqlite_ledger(&directory, true).unwrap().unwrap()
        };
        let (applied, not_applied) = (ledger("done"), ledger("lost"));
        let volumes = (applied.volume, not_applied.volume);
        let revision: i64 = database
            .0
            .write(CommitSync::Deferred, move |transaction| {
                transaction.conn.execute(
                    "INSERT INTO revision(operation, agent, tool, at) VALUES (x'02', 'a', 'undo', 0)",
                    [],
                )?;
                let revision = transaction.conn.last_insert_rowid();
                transaction.conn.execute(
                    "INSERT INTO undone(volume, operation, undone_by) VALUES (?1, x'01', x'02'), (?2, x'01', x'02')",
                    [volumes.0, volumes.1],
                )?;
                Ok(revision)
            })
            .unwrap();
        not_applied.reconcile(Vec::new(), vec![revision]).unwrap();
        let volumes_with_undo: Vec<i64> = {
            let reader = database.0.reader().unwrap();
            let mut statement = reader.prepare("SELECT volume FROM undone").unwrap();
            let volumes = statement.query_map([], |row| row.get(0)).unwrap();
            volumes.map(Result::unwrap).collect()
        };
        assert_eq!(volumes_with_undo, [volumes.0]);
    }
}
