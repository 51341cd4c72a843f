//! A database file, and the volumes in it.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{OptionalExtension, params};
use stead_core::store::{Verified, Version};
use stead_core::{Clock, LogId, StoreError, StoreResult, SystemClock};

use super::VirtualStore;
use super::audit::Chain;
use super::batch::{Writer, Writing, commit};
use super::connections::{Reader, Readers};
use super::dirs::DirCache;
use super::fault::{Result, of_host};
use super::fork;
use super::layers::{self, Layer};
use super::log_file::LogFile;
use super::queue::{Queue, Weight};
use super::row::DIRECTORY_MODE;
use super::schema::{Role, connect, connect_memory, is_current, is_prepared, prepare};
use super::turn::Turnstile;
use crate::Durability;

/// How a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabaseOptions {
    /// What a power cut may take.
    pub durability: Durability,
    /// How long a change waits for other processes before it is [`StoreError::Unavailable`].
    pub patience: Duration,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        DatabaseOptions { durability: Durability::default(), patience: Duration::from_secs(30) }
    }
}

/// A database with any number of volumes, each of them a Store. Clones are the same database.
#[derive(Clone)]
pub struct Database(pub(super) Arc<Shared>);

/// What all Stores on a database share.
pub(super) struct Shared {
    pub(super) options: DatabaseOptions,
    pub(super) writer: Mutex<Writer>,
    /// `None` where the database lives in memory: then the writer reads, too.
    readers: Option<Readers>,
    pub(super) turnstile: Option<Turnstile>,
    queue: Queue,
    /// Drafts whose pins the next write transaction takes away.
    pub(super) unpinned: Mutex<Vec<i64>>,
    pub(super) volumes: Mutex<HashMap<String, Arc<Volume>>>,
    /// The log that is open, or 0.
    log: AtomicU64,
    log_file: LogFile,
}

/// A namespace's tree.
#[derive(Debug)]
pub(super) struct Volume {
    pub(super) id: i64,
    pub(super) root: i64,
    pub(super) dirs: Arc<DirCache>,
    /// What it stands on, the nearest first; nothing, unless it is a fork.
    pub(super) below: Vec<Layer>,
}

impl Database {
    /// Opens the database in this file, and makes it if there is none.
    ///
    /// Two more files beside it, `-next` and `-turn`, are the queue of the processes that write to it.
    pub fn open(path: impl Into<PathBuf>, options: DatabaseOptions) -> StoreResult<Self> {
        let path: PathBuf = path.into();
        let turnstile = Turnstile::open(&path)?;
        let reader = open_prepared(&path, &options)?;
        let writer = match &reader {
            // It can be read as it is, and whoever only reads needs no more.
            Some(_) => None,
            None => Some(open_file(&path, &turnstile, &options)?),
        };
        let readers = Readers::new(path, options.patience, reader);
        Ok(Database::new(writer, options, Some(readers), Some(turnstile)))
    }

    /// A new database in memory, gone when the last Store on it is.
    pub fn in_memory() -> Self {
        // Nothing of it depends on the machine but the memory, without which nothing else would go on either.
        let conn = connect_memory().expect("a database in memory can be opened");
        prepare(&conn).expect("an empty database takes the schema");
        Database::new(Some(conn), DatabaseOptions::default(), None, None)
    }

    fn new(
        conn: Option<rusqlite::Connection>,
        options: DatabaseOptions,
        readers: Option<Readers>,
        turnstile: Option<Turnstile>,
    ) -> Self {
        Database(Arc::new(Shared {
            options,
            writer: Mutex::new(Writer::new(conn)),
            readers,
            turnstile,
            queue: Queue::default(),
            unpinned: Mutex::default(),
            volumes: Mutex::default(),
            log: AtomicU64::new(0),
            log_file: LogFile::default(),
        }))
    }

    /// The Store of a namespace. It is made at its first use.
    ///
    /// `["a"]`, `["a", "b"]` and `["a/b"]` are three namespaces, and none of them sees another.
    pub fn store<P: AsRef<str>>(&self, namespace: impl IntoIterator<Item = P>) -> StoreResult<VirtualStore> {
        self.volume(written(namespace)?)
    }

    /// The Store of a namespace as the database has it.
    pub(super) fn volume(&self, namespace: String) -> StoreResult<VirtualStore> {
        let known = self.0.volumes.lock().get(&namespace).cloned();
        let volume = match known {
            Some(volume) => volume,
            None => {
                let volume = self.0.find_or_make_volume(&namespace)?;
                // Whoever was first stays: everyone has to share one cache.
                Arc::clone(self.0.volumes.lock().entry(namespace).or_insert(volume))
            }
        };
        Ok(VirtualStore::new(self.clone(), volume))
    }

    /// Removes a volume. Its content is freed when nothing else refers to it any more.
    pub(super) fn destroy(&self, volume: &Arc<Volume>) -> StoreResult<()> {
        let id = volume.id;
        self.0.write(Weight::Change, move |writing| {
            fork::refuse_if_forked(writing.conn, id)?;
            remove_volume(writing.conn, id)?;
            fork::remove_unused(writing.conn)?;
            writing.move_directories()
        })?;
        self.0.volumes.lock().retain(|_, known| known.id != id);
        Ok(())
    }

    /// The newest version: what every volume holds now.
    pub fn version(&self) -> StoreResult<Version> {
        let reader = self.0.reader()?;
        Ok(Version(newest(&reader)?))
    }

    /// Works on the database while nobody else writes, outside of any transaction.
    pub(super) fn alone<T>(
        &self,
        work: impl FnOnce(&mut rusqlite::Connection) -> Result<T>,
    ) -> StoreResult<T> {
        self.0.open_writer()?;
        let patience = self.0.options.patience;
        let _turn = self.0.turnstile.as_ref().map(|turnstile| turnstile.take(patience)).transpose()?;
        let mut writer = self.0.writer.lock();
        Ok(work(writer.conn.as_mut().expect("it was opened"))?)
    }

    /// Checks all volumes and all content, and says what is wrong.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<Verified> {
        let reader = self.0.reader()?;
        Ok(super::verify::verify(&reader, progress)?)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Shared {
    /// Without the file's name: what is shown of a Store may reach an agent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.is_in_memory() { "memory" } else { "file" };
        f.debug_struct("Database")
            .field("in", &place)
            .field("durability", &self.options.durability)
            .finish_non_exhaustive()
    }
}

/// Opens a connection to read with, if the database is there and has the present format.
fn open_prepared(path: &Path, options: &DatabaseOptions) -> StoreResult<Option<rusqlite::Connection>> {
    if !path.exists() {
        return Ok(None);
    }
    let conn = connect(path, Role::Reader, options.patience)?;
    Ok(is_current(&conn)?.then_some(conn))
}

/// Opens the connection that writes. Where the database is not there yet, or has an older format, the turn is taken
/// first: several processes may make the same file at once. Where it is, whoever only reads need not wait for anyone.
fn open_file(
    path: &Path,
    turnstile: &Turnstile,
    options: &DatabaseOptions,
) -> StoreResult<rusqlite::Connection> {
    let connect = || connect(path, Role::Writer(options.durability), options.patience);
    if path.exists() {
        let conn = connect()?;
        if is_prepared(&conn)? {
            return Ok(conn);
        }
    }
    let _turn = turnstile.take(options.patience)?;
    let conn = connect()?;
    prepare(&conn)?;
    Ok(conn)
}

/// The newest version in the snapshot that this connection sees.
pub(super) fn newest(conn: &rusqlite::Connection) -> Result<i64> {
    let newest = conn
        .prepare_cached("SELECT id FROM version ORDER BY id DESC LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(newest.unwrap_or(0))
}

impl Shared {
    /// A connection to read with.
    pub(super) fn reader(&self) -> Result<Reader<'_>> {
        match &self.readers {
            Some(readers) => readers.take(),
            None => Ok(Reader::Only(MutexGuard::map(self.writer.lock(), |writer| {
                writer.conn.as_mut().expect("a database in memory is open from the beginning")
            }))),
        }
    }

    /// Opens the connection that writes, unless it is open. That has to happen before the turn is taken: it may take
    /// the turn itself.
    pub(super) fn open_writer(&self) -> StoreResult<()> {
        let conn = &mut self.writer.lock().conn;
        if let (None, Some(readers), Some(turnstile)) = (&conn, &self.readers, &self.turnstile) {
            *conn = Some(open_file(readers.path(), turnstile, &self.options)?);
        }
        Ok(())
    }

    /// The database's file, if it is in one.
    pub(super) fn file(&self) -> Option<PathBuf> {
        self.readers.as_ref().map(|readers| readers.path().to_owned())
    }

    /// Whether both are the same database, though it may have been opened twice.
    pub(super) fn is_same(&self, other: &Shared) -> bool {
        let file = |shared: &Shared| shared.file().and_then(|file| file.canonicalize().ok());
        std::ptr::eq(self, other) || file(self).is_some_and(|one| file(other) == Some(one))
    }

    /// Looks volumes up again when they are next opened.
    pub(super) fn forget_volumes(&self) {
        self.volumes.lock().clear();
    }

    /// The log that records of changes go to.
    pub(super) fn log(&self) -> Option<LogId> {
        match self.log.load(Ordering::Acquire) {
            0 => None,
            id => Some(LogId(id)),
        }
    }

    /// Begins a chain that the records of changes go to, unless there is one already.
    pub(super) fn begin_log(&self, id: LogId, chain: Chain) -> bool {
        let mut writer = self.writer.lock();
        if writer.chain.is_some() {
            return false;
        }
        writer.chain = Some(chain);
        self.log.store(id.0, Ordering::Release);
        true
    }

    /// Ends the chain: from now on there are no records.
    pub(super) fn end_log(&self) {
        self.log.store(0, Ordering::Release);
        self.writer.lock().chain = None;
    }

    /// Where the chain ends.
    pub(super) fn chain(&self) -> Option<Chain> {
        self.writer.lock().chain
    }

    /// Whether there is no file: then only one caller at a time can read.
    pub(super) fn is_in_memory(&self) -> bool {
        self.readers.is_none()
    }

    /// Has `work` done in a write transaction.
    pub(super) fn write<T: Send + 'static>(
        &self,
        weight: Weight,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.queue.run(weight, |jobs| commit(self, jobs), work)
    }

    /// Puts on the disk what could wait.
    pub(super) fn settle(&self) -> StoreResult<()> {
        match (&self.readers, self.options.durability) {
            (Some(readers), Durability::Full) => {
                self.log_file.sync(readers.path()).map_err(|error| of_host(&error))
            }
            (None, _) | (_, Durability::Fast) => Ok(()),
        }
    }

    fn find_or_make_volume(&self, namespace: &str) -> StoreResult<Arc<Volume>> {
        let found = find_volume(&*self.reader()?, namespace)?;
        let (id, root) = match found {
            Some(found) => found,
            None => {
                let namespace = namespace.to_owned();
                self.write(Weight::Staging, move |writing| make_volume(writing, &namespace))?
            }
        };
        let below = layers::load(&*self.reader()?, id)?;
        Ok(Arc::new(Volume { id, root, dirs: Arc::default(), below }))
    }
}

/// A namespace as the database has it.
pub(super) fn written<P: AsRef<str>>(namespace: impl IntoIterator<Item = P>) -> StoreResult<String> {
    let parts: Vec<String> = namespace.into_iter().map(|part| part.as_ref().to_owned()).collect();
    if parts.is_empty() || parts.iter().any(String::is_empty) {
        return Err(StoreError::Invalid("a namespace has at least one part, and none is empty".into()));
    }
    Ok(serde_json::to_string(&parts).expect("texts can be written as JSON"))
}

/// Removes all rows of a volume.
pub(super) fn remove_volume(conn: &rusqlite::Connection, id: i64) -> Result<()> {
    for table in ["entry", "entry_history", "change", "quota", "directory_time", "fork", "seen", "held"] {
        conn.execute(&format!("DELETE FROM {table} WHERE vol = ?1"), [id])?;
    }
    conn.execute("DELETE FROM volume WHERE id = ?1", [id])?;
    Ok(())
}

pub(super) fn find_volume(conn: &rusqlite::Connection, namespace: &str) -> Result<Option<(i64, i64)>> {
    let found = conn
        .prepare_cached("SELECT id, root FROM volume WHERE namespace = ?1")?
        .query_row([namespace], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(found)
}

/// Makes a volume with its root, which is there at every version, unless someone else has meanwhile.
fn make_volume(writing: &mut Writing<'_>, namespace: &str) -> Result<(i64, i64)> {
    if let Some(found) = find_volume(writing.conn, namespace)? {
        return Ok(found);
    }
    // From the counter of nodes: whoever still holds a volume that was destroyed must never meet another one.
    let (id, root) = (writing.fresh_node()?, writing.fresh_node()?);
    writing
        .conn
        .prepare_cached("INSERT INTO volume(id, namespace, root) VALUES (?1, ?2, ?3)")?
        .execute(params![id, namespace, root])?;
    writing
        .conn
        .prepare_cached(
            "INSERT INTO entry(vol, parent, name, node, kind, mode, size, created, modified, changed, since)
             VALUES (?1, 0, x'', ?2, 2, ?3, 0, ?4, ?4, ?4, 0)",
        )?
        .execute(params![id, root, DIRECTORY_MODE, SystemClock.now().0])?;
    Ok((id, root))
}
