//! One SQLite table of paths and contents: the simplest way to store files in a database.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::{Connection, params};

use super::{Contender, Durability};
use crate::Result;

/// A connection to the table.
#[derive(Debug)]
pub struct FlatSqlite {
    connection: Mutex<Connection>,
    path: PathBuf,
    durability: Durability,
}

impl FlatSqlite {
    /// A database in this directory.
    pub fn open(directory: &Path, durability: Durability) -> Result<Self> {
        FlatSqlite::connect(directory.join("flat.db"), durability)
    }

    fn connect(path: PathBuf, durability: Durability) -> Result<Self> {
        let connection = Connection::open(&path)?;
        connection.busy_timeout(Duration::from_secs(60))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = match durability {
            Durability::Full => "FULL",
            Durability::Fast => "NORMAL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection
            .execute_batch("CREATE TABLE IF NOT EXISTS file(path TEXT PRIMARY KEY, data BLOB NOT NULL)")?;
        Ok(FlatSqlite { connection: Mutex::new(connection), path, durability })
    }

    /// Runs something on the connection.
    fn with<T>(&self, run: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        Ok(run(&self.connection.lock().expect("no thread panics while it holds the lock"))?)
    }
}

/// The range of the paths below a directory: the text before all of them, and the text after all of them.
fn range(directory: &str) -> (String, String) {
    // `0` is the byte after `/`.
    (format!("{directory}/"), format!("{directory}0"))
}

impl Contender for FlatSqlite {
    fn fill(&self, files: &mut dyn Iterator<Item = (String, Vec<u8>)>) -> Result {
        self.with(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let mut insert = connection.prepare("INSERT INTO file VALUES (?1, ?2)")?;
            for (path, content) in files {
                insert.execute(params![path, content])?;
            }
            transaction.commit()
        })
    }

    fn make_directory(&self, _: &str) -> Result {
        Ok(())
    }

    fn create(&self, path: &str, content: &[u8]) -> Result {
        self.with(|connection| {
            connection.prepare_cached("INSERT INTO file VALUES (?1, ?2)")?.execute(params![path, content])
        })?;
        Ok(())
    }

    fn overwrite(&self, path: &str, content: &[u8]) -> Result {
        self.with(|connection| {
            let mut update = connection.prepare_cached("UPDATE file SET data = ?2 WHERE path = ?1")?;
            update.execute(params![path, content])
        })?;
        Ok(())
    }

    fn read(&self, path: &str) -> Result<Vec<u8>> {
        self.with(|connection| {
            let mut select = connection.prepare_cached("SELECT data FROM file WHERE path = ?1")?;
            select.query_row([path], |row| row.get(0))
        })
    }

    fn size(&self, path: &str) -> Result<u64> {
        let size: i64 = self.with(|connection| {
            let mut select = connection.prepare_cached("SELECT length(data) FROM file WHERE path = ?1")?;
            select.query_row([path], |row| row.get(0))
        })?;
        Ok(u64::try_from(size)?)
    }

    fn list(&self, path: &str) -> Result<usize> {
        let (low, high) = range(path);
        self.with(|connection| {
            let query = "SELECT path, length(data) FROM file WHERE path > ?1 AND path < ?2 ORDER BY path";
            let mut select = connection.prepare_cached(query)?;
            let entries = select.query_map([low, high], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(entries.collect::<rusqlite::Result<Vec<(String, i64)>>>()?.len())
        })
    }

    fn rename(&self, from: &str, to: &str) -> Result {
        let (low, high) = range(from);
        self.with(|connection| {
            let update =
                "UPDATE file SET path = ?1 || substr(path, length(?2) + 1) WHERE path > ?3 AND path < ?4";
            connection.prepare_cached(update)?.execute(params![to, from, low, high])
        })?;
        Ok(())
    }

    fn write_large(&self, path: &str, content: &[u8]) -> Result {
        self.with(|connection| {
            let mut replace = connection.prepare_cached("REPLACE INTO file VALUES (?1, ?2)")?;
            replace.execute(params![path, content])
        })?;
        Ok(())
    }

    fn read_large(&self, path: &str) -> Result<u64> {
        Ok(self.read(path)?.len() as u64)
    }

    fn for_thread(&self) -> Result<Box<dyn Contender>> {
        Ok(Box::new(FlatSqlite::connect(self.path.clone(), self.durability)?))
    }
}
