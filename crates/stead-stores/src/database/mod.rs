//! A database file: opening it, its volumes, and the state that all Stores on it share.
//!
//! It serves Virtual Stores, the ledgers of Physical Stores and the audit alike. A change goes through `group_commit`, whose
//! leader writes a `batch` under the `writer_lock`. `reader_pool` has the connections for reading.
//!
//! ```
//! use stead_core::Store;
//! use stead_stores::Database;
//!
//! let database = Database::in_memory();
//! let (one, other) = (database.store(["agents", "one"])?, database.store(["agents", "other"])?);
//! assert_eq!(one.info().kind, other.info().kind);
//! assert!(database.verify(&mut |_| ())?.problems.is_empty());
//! # Ok::<(), stead_core::StoreError>(())
//! ```

pub(crate) mod batch;
mod commit_follower;
pub(crate) mod companion;
pub(crate) mod error;
pub(crate) mod group_commit;
pub(crate) mod maintenance;
pub(crate) mod manifest;
pub(crate) mod reader_pool;
pub(crate) mod reserve;
mod revision_file;
pub(crate) mod schema;
mod shm_vfs;
mod state_volume;
mod verify;
mod wal_file;
mod writer_lock;

pub use maintenance::{
    BackupReport, Collected, ForgottenHistory, GcOptions, NewSnapshot, Retention, Snapshot,
};
pub use state_volume::StateOwner;
pub(crate) use state_volume::is_state_namespace;

use std::collections::HashMap;
use std::fmt;
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{OptionalExtension, params};
use stead_core::store::{ChangeListener, DatabaseId, RevisionNumber, StoreId, Subscription, VerifyReport};
use stead_core::{Clock, Identity, OperationId, StoreError, StoreResult, SystemClock};

use crate::Durability;
use crate::audit::{Chain, ChainEndFile};
use crate::database::batch::{DatabaseWriter, WriteTransaction, commit_batch};
use crate::database::commit_follower::CommitFollower;
use crate::database::error::{DatabaseError, Result, from_io};
use crate::database::group_commit::{CommitSync, DiskSpace, GroupCommit};
use crate::database::manifest::PendingTouches;
use crate::database::reader_pool::{ReadConnection, ReaderPool};
use crate::database::reserve::DiskReserve;
use crate::database::revision_file::{AcknowledgedRevisions, RevisionFile};
use crate::database::schema::{
    ConnectionRole, DIR_EPOCH, NEXT_NODE, check_file_start, connect, connect_memory, has_format, is_current,
    is_empty, is_prepared, prepare, synchronous,
};
use crate::database::wal_file::WalFile;
use crate::database::writer_lock::WriterLock;
use crate::host_path::location;
use crate::threads::LeaseHolder;
use crate::virtual_store::VirtualStore;
use crate::virtual_store::dir_cache::DirCache;
use crate::virtual_store::entry_row::DIRECTORY_MODE;
use crate::virtual_store::layers::{self, Layer};
use crate::virtual_store::{fork, fork_part};

/// More node ids than running processes may have leased.
pub(crate) const MAX_LEASED_NODES: i64 = 1 << 24;

/// The tool of the revision that a restored backup makes, beyond those that it replaces.
pub(crate) const RESTORE_TOOL: &str = "restore-backup";
/// The tool of the revision that is made beyond those whose end of the database is missing.
pub(crate) const RECOVERY_TOOL: &str = "recovery";

/// Options for opening a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabaseOptions {
    /// What a power cut may lose.
    pub durability: Durability,
    /// How long a change waits for other processes before it fails with [`StoreError::Unavailable`].
    pub wait_timeout: Duration,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        DatabaseOptions { durability: Durability::default(), wait_timeout: Duration::from_secs(30) }
    }
}

/// A database with any number of volumes, each of them a Store. Clones are the same database.
#[derive(Clone)]
pub struct Database(pub(crate) Arc<DatabaseInner>);

/// What all Stores on a database share.
pub(crate) struct DatabaseInner {
    pub(crate) id: DatabaseId,
    pub(crate) options: DatabaseOptions,
    pub(crate) writer: Mutex<DatabaseWriter>,
    /// `None` for a database in memory: then the writing connection reads, too.
    readers: Option<ReaderPool>,
    /// `None` for a database in memory, or one that can only be read.
    pub(crate) writer_lock: Option<WriterLock>,
    /// Disk space for what must work on a full disk; `None` if nothing is written to a disk.
    pub(crate) reserve: Option<Arc<DiskReserve>>,
    group_commit: GroupCommit,
    commit_follower: CommitFollower,
    /// Drafts whose pins the next write transaction removes.
    pub(crate) dropped_drafts: Mutex<Vec<i64>>,
    pub(crate) volumes: Mutex<HashMap<String, Arc<Volume>>>,
    /// Whether the audit log is open.
    has_audit_log: AtomicBool,
    wal_file: WalFile,
    /// Reads of managed files that aren't in their manifests yet.
    pub(crate) touches: PendingTouches,
    /// This process as a user of threads.
    pub(crate) lease_holder: Mutex<Weak<LeaseHolder>>,
}

/// A volume: the tree of a namespace.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) id: i64,
    pub(crate) root: i64,
    pub(crate) dirs: Arc<DirCache>,
    /// The layers below it, the nearest first; empty unless it is a fork.
    pub(crate) base_layers: Vec<Layer>,
    /// The lowest layer, if it is filled from a host directory.
    pub(crate) overlay: Option<i64>,
}

impl Database {
    /// Opens the database in this file, which is created if there is none.
    ///
    /// Four more files beside it belong to it. `-next` and `-turn` are locks that queue the processes that write to it.
    /// `-reserve` is disk space for when the disk is full. `-version` holds the newest revision that was acknowledged.
    /// If that file exists and the database is missing or empty, the database was lost: that is
    /// [`StoreError::Corrupt`], and no new one is created.
    ///
    /// If the host refuses writing, the database is opened for reading.
    pub fn open(path: impl Into<PathBuf>, options: DatabaseOptions) -> StoreResult<Self> {
        let path: PathBuf = path.into();
        let reserve = Arc::new(DiskReserve::of(&path));
        match Database::open_with_reserve(&path, options, &reserve) {
            // The files that SQLite shares between processes need a little disk space, too.
            Err(StoreError::NoSpace) if reserve.release_to_host() => {
                let opened = Database::open_with_reserve(&path, options, &reserve);
                reserve.reclaim();
                opened
            }
            opened => opened,
        }
    }

    fn open_with_reserve(
        path: &Path,
        options: DatabaseOptions,
        reserve: &Arc<DiskReserve>,
    ) -> StoreResult<Self> {
        if RevisionFile::of(path).read().is_some() && is_missing_or_empty(path) {
            return Err(lost_database_error());
        }
        let writer_lock = match WriterLock::open(path) {
            Err(StoreError::HostDenied) if path.exists() => return Database::open_to_read(path, options),
            writer_lock => writer_lock?,
        };
        let reader = open_prepared(path, &options)?;
        let writer = match &reader {
            // The database has the present format, and a process that only reads needs no more.
            Some(_) => None,
            None => Some(open_file(path, &writer_lock, &options)?),
        };
        let revision_file = writer.is_some().then(|| open_revision_file(path)).transpose()?;
        if writer.is_some() {
            reserve.fill();
        }
        let readers = ReaderPool::new(path.to_owned(), ConnectionRole::Reader, options.wait_timeout, reader);
        let writer = DatabaseWriter::new(writer, revision_file);
        let (id, reserve) = (Database::id_at(path), Some(Arc::clone(reserve)));
        Ok(Database::new(id, writer, options, Some(readers), Some(writer_lock), reserve))
    }

    /// Opens a database that this process may not write to.
    fn open_to_read(path: &Path, options: DatabaseOptions) -> StoreResult<Self> {
        let open = |role| -> StoreResult<Option<rusqlite::Connection>> {
            let conn = connect(path, role, options.wait_timeout)?;
            let is_ready =
                if role == ConnectionRole::Immutable { has_format(&conn)? } else { is_current(&conn)? };
            Ok(is_ready.then_some(conn))
        };
        let (role, conn) = match open(ConnectionRole::Reader) {
            // Without the files that processes share, only a database that nobody can change is read: all of it is in
            // the one file.
            Err(StoreError::Unavailable { .. } | StoreError::HostDenied) if is_immutable(path) => {
                (ConnectionRole::Immutable, open(ConnectionRole::Immutable)?)
            }
            opened => (ConnectionRole::Reader, opened?),
        };
        // The format is older, and would have to be migrated.
        let conn = conn.ok_or(StoreError::HostDenied)?;
        let readers = ReaderPool::new(path.to_owned(), role, options.wait_timeout, Some(conn));
        let writer = DatabaseWriter::new(None, None);
        Ok(Database::new(Database::id_at(path), writer, options, Some(readers), None, None))
    }

    /// Whether this process may only read the database.
    pub fn is_read_only(&self) -> bool {
        self.0.readers.is_some() && self.0.writer_lock.is_none()
    }

    /// Opens a database. If there never was one, it is created so that only its owner can open it.
    #[cfg(target_os = "linux")]
    pub(crate) fn open_private(path: PathBuf, options: DatabaseOptions) -> StoreResult<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        if !Database::existed_at(&path) {
            let created = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
            created.map_err(|error| from_io(&error))?;
        }
        Database::open(path, options)
    }

    /// Whether there is or was a database at this path, even if its file is gone.
    pub fn existed_at(path: &Path) -> bool {
        path.exists() || RevisionFile::of(path).read().is_some()
    }

    /// How many bytes of a file [`Database::check_file_start`] needs.
    pub const FILE_START_LENGTH: usize = 105;

    /// Fails if a file that begins with these bytes is a database of another program or of another format. Opens
    /// nothing.
    pub fn check_file_start(start: &[u8]) -> StoreResult<()> {
        check_file_start(start)
    }

    /// A new database in memory, which exists until the last Store on it is dropped.
    pub fn in_memory() -> Self {
        // This fails only without memory, and then nothing else would work either.
        let conn = connect_memory().expect("a database in memory can be opened");
        prepare(&conn).expect("an empty database takes the schema");
        let writer = DatabaseWriter::new(Some(conn), None);
        Database::new(DatabaseId::fresh(), writer, DatabaseOptions::default(), None, None, None)
    }

    fn new(
        id: DatabaseId,
        writer: DatabaseWriter,
        options: DatabaseOptions,
        readers: Option<ReaderPool>,
        writer_lock: Option<WriterLock>,
        reserve: Option<Arc<DiskReserve>>,
    ) -> Self {
        let file = readers.as_ref().map(|readers| readers.path().to_owned());
        Database(Arc::new(DatabaseInner {
            commit_follower: CommitFollower::new(file),
            id,
            options,
            writer: Mutex::new(writer),
            readers,
            writer_lock,
            reserve,
            group_commit: GroupCommit::default(),
            dropped_drafts: Mutex::default(),
            volumes: Mutex::default(),
            has_audit_log: AtomicBool::new(false),
            wal_file: WalFile::default(),
            touches: PendingTouches::default(),
            lease_holder: Mutex::default(),
        }))
    }

    /// The database's id. A database in memory has one of its own. The id of any other follows from where its file is: it
    /// stays the same when the database is opened again, also by another process, and a copy has another one.
    pub fn id(&self) -> DatabaseId {
        self.0.id
    }

    /// The id of the database in this file, which need not exist yet.
    pub fn id_at(path: &Path) -> DatabaseId {
        DatabaseId::at_location(&location(path))
    }

    /// The Store of a namespace. Its volume is created at the first use.
    ///
    /// `["a"]`, `["a", "b"]` and `["a/b"]` are three namespaces, and none of them sees another.
    pub fn store<P: AsRef<str>>(&self, namespace: impl IntoIterator<Item = P>) -> StoreResult<VirtualStore> {
        self.volume(namespace_text(namespace)?)
    }

    /// The Store of a namespace in the form that the database has it, if its volume exists. The Store has a cache of
    /// directories of its own: use it only for a moment.
    pub(crate) fn existing_volume(&self, namespace: &str) -> StoreResult<Option<VirtualStore>> {
        let found = find_volume(&*self.0.reader()?, namespace)?;
        Ok(found.map(|(id, root)| {
            let volume =
                Arc::new(Volume { id, root, dirs: Arc::default(), base_layers: Vec::new(), overlay: None });
            VirtualStore::new(self.clone(), volume, volume_store_id(self.id(), namespace))
        }))
    }

    /// The Store of a namespace in the form that the database has it.
    pub(crate) fn volume(&self, namespace: String) -> StoreResult<VirtualStore> {
        let id = volume_store_id(self.id(), &namespace);
        let cached = self.0.volumes.lock().get(&namespace).cloned();
        let volume = match cached {
            Some(volume) => volume,
            None => {
                let volume = self.0.find_or_make_volume(&namespace)?;
                // The first one stays: all Stores of a volume have to share one cache.
                Arc::clone(self.0.volumes.lock().entry(namespace).or_insert(volume))
            }
        };
        Ok(VirtualStore::new(self.clone(), volume, id))
    }

    /// Removes a volume and, if it is a fork, the volumes of its parts. Their content is freed once nothing else refers to it. A
    /// fork with forks is gone at once, and what these need of it goes with the last of them. Another volume with forks can't be
    /// removed.
    pub(crate) fn destroy(&self, volume: &Arc<Volume>) -> StoreResult<()> {
        let id = volume.id;
        let removed = self.0.write_reserved(CommitSync::AsConfigured, move |transaction| {
            let conn = transaction.conn;
            let mut volumes = fork_part::part_volumes(conn, id)?;
            volumes.push(id);
            volumes.iter().try_for_each(|volume| fork::refuse_if_forked(conn, *volume))?;
            volumes.extend(fork_part::left_beside(conn, id)?);
            fork::remove_volumes(conn, &volumes)?;
            transaction.invalidate_directories()?;
            Ok(volumes)
        })?;
        self.0.forget_volumes_in(&removed);
        Ok(())
    }

    /// The newest revision, which is the present state of every volume.
    pub fn latest_revision(&self) -> StoreResult<RevisionNumber> {
        let reader = self.0.reader()?;
        Ok(RevisionNumber(newest_revision(&reader)?))
    }

    /// Runs `work` on the writing connection, outside any transaction, while no other caller or process writes.
    pub(crate) fn with_exclusive_access<T>(
        &self,
        work: impl FnOnce(&mut rusqlite::Connection) -> Result<T>,
    ) -> StoreResult<T> {
        self.0.open_writer()?;
        let wait_timeout = self.0.options.wait_timeout;
        let _guard = self.0.writer_lock.as_ref().map(|lock| lock.acquire(wait_timeout)).transpose()?;
        let mut writer = self.0.writer.lock();
        let result = work(writer.conn.as_mut().expect("it was opened"));
        drop(writer);
        self.0.announce_commit();
        Ok(result?)
    }

    /// Calls the listener after every commit to this database by any process, until the subscription is dropped. One
    /// call may stand for many commits, and a call may come without any.
    pub fn subscribe(&self, listener: ChangeListener) -> StoreResult<Subscription> {
        self.0.subscribe(listener)
    }

    /// Checks all volumes and all content, and reports the problems.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<VerifyReport> {
        let reader = self.0.reader()?;
        let acknowledged =
            self.0.readers.as_ref().and_then(|readers| RevisionFile::of(readers.path()).read());
        Ok(crate::database::verify::verify(&reader, acknowledged, progress)?)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for DatabaseInner {
    /// Without the file's name: the debug text of a Store may reach an agent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let medium = if self.is_in_memory() { "memory" } else { "file" };
        f.debug_struct("Database")
            .field("in", &medium)
            .field("durability", &self.options.durability)
            .finish_non_exhaustive()
    }
}

/// Opens a connection for reading, if the database exists and has the present format.
fn open_prepared(path: &Path, options: &DatabaseOptions) -> StoreResult<Option<rusqlite::Connection>> {
    if !path.exists() {
        return Ok(None);
    }
    let conn = connect(path, ConnectionRole::Reader, options.wait_timeout)?;
    if is_current(&conn)? {
        return Ok(Some(conn));
    }
    if RevisionFile::of(path).read().is_some() && is_empty(&conn)? {
        return Err(lost_database_error());
    }
    Ok(None)
}

/// Whether the file at the path is missing or empty.
fn is_missing_or_empty(path: &Path) -> bool {
    std::fs::metadata(path).map_or_else(|error| error.kind() == NotFound, |file| file.len() == 0)
}

/// The error for a database that existed and is gone.
fn lost_database_error() -> StoreError {
    StoreError::Corrupt(
        "the database file is missing or empty, but there was a database here; restore a backup with \
         `stead restore-backup`, or remove the file beside it that ends with `-version` to start with a new database"
            .into(),
    )
}

/// Whether the file can't be changed and holds the whole database: its file system is read-only, and its write-ahead
/// log is missing or empty.
fn is_immutable(path: &Path) -> bool {
    let read_only = rustix::fs::statvfs(path)
        .is_ok_and(|disk| disk.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    read_only && wal_file::length_of(path) == 0
}

/// Opens the file with the newest revision, which is created if there is none.
fn open_revision_file(path: &Path) -> StoreResult<std::fs::File> {
    let revision_file = RevisionFile::of(path);
    let open = || -> std::io::Result<std::fs::File> {
        if revision_file.read().is_none() {
            revision_file.make(AcknowledgedRevisions::default())?;
        }
        revision_file.open()
    };
    open().map_err(|error| from_io(&error))
}

/// Records that acknowledged revisions are missing from the database, and makes sure that none of their numbers is used
/// again.
fn record_loss(
    conn: &rusqlite::Connection,
    path: &Path,
    writer_lock: &WriterLock,
    wait_timeout: Duration,
) -> StoreResult<()> {
    let revision_file = RevisionFile::of(path);
    // In this order: a commit of another process is in the database before it is in the file.
    let find_loss = || -> Result<Option<(AcknowledgedRevisions, i64)>> {
        let acknowledged = revision_file.read().unwrap_or_default();
        let newest = newest_revision(conn)?;
        Ok((acknowledged.revision > newest).then_some((acknowledged, newest)))
    };
    if find_loss()?.is_none() {
        return Ok(());
    }
    let _guard = writer_lock.acquire(wait_timeout)?;
    let Some((acknowledged, newest)) = find_loss()? else { return Ok(()) };
    let revision = acknowledged.revision + 1;
    advance_counters(conn, revision, RECOVERY_TOOL)?;
    let first = if acknowledged.lost.0 > 0 { acknowledged.lost.0.min(newest + 1) } else { newest + 1 };
    revision_file
        .make(AcknowledgedRevisions { revision, lost: (first, acknowledged.revision) })
        .map_err(|error| from_io(&error))
}

/// Moves the counters of revisions and nodes past everything that was given out before, in one transaction. `revision`
/// is the number of the revision that this makes.
pub(crate) fn advance_counters(conn: &rusqlite::Connection, revision: i64, tool: &str) -> Result<()> {
    let now = SystemClock.now();
    let transaction = conn.unchecked_transaction()?;
    conn.execute("UPDATE meta SET value = value + ?2 WHERE id = ?1", [NEXT_NODE, MAX_LEASED_NODES])?;
    conn.execute("UPDATE meta SET value = value + 1 WHERE id = ?1", [DIR_EPOCH])?;
    conn.execute(
        "INSERT INTO revision(id, operation, agent, tool, at) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![revision, OperationId::fresh(now).as_bytes(), Identity::agent("operator").agent, tool, now.0],
    )?;
    transaction.commit()?;
    Ok(())
}

/// Opens the connection that writes. If the database doesn't exist yet, or has an older format, the writer lock is
/// taken first, because several processes may create the same file at once. Otherwise this waits for no other process.
fn open_file(
    path: &Path,
    writer_lock: &WriterLock,
    options: &DatabaseOptions,
) -> StoreResult<rusqlite::Connection> {
    let connect = || connect(path, ConnectionRole::Writer(options.durability), options.wait_timeout);
    if path.exists() {
        let conn = connect()?;
        if is_prepared(&conn)? {
            return Ok(conn);
        }
    }
    let _guard = writer_lock.acquire(options.wait_timeout)?;
    let conn = connect()?;
    // Synced whatever the durability is: the file that says that there is a database must not outlive it.
    conn.execute_batch(synchronous(Durability::Full)).map_err(DatabaseError::from)?;
    prepare(&conn)?;
    conn.execute_batch(synchronous(options.durability)).map_err(DatabaseError::from)?;
    Ok(conn)
}

/// The newest revision in the snapshot that this connection sees.
pub(crate) fn newest_revision(conn: &rusqlite::Connection) -> Result<i64> {
    let newest = conn
        .prepare_cached("SELECT id FROM revision ORDER BY id DESC LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(newest.unwrap_or(0))
}

impl DatabaseInner {
    /// Returns a connection for reading.
    pub(crate) fn reader(&self) -> Result<ReadConnection<'_>> {
        match &self.readers {
            Some(readers) => readers.take(),
            None => Ok(ReadConnection::Writer(MutexGuard::map(self.writer.lock(), |writer| {
                writer.conn.as_mut().expect("a database in memory is open from the beginning")
            }))),
        }
    }

    /// A connection for one short read that often follows a write of this process: the one that writes, unless it is in use. Its
    /// cache has what it wrote, whereas a commit makes the caches of the readers useless.
    pub(crate) fn reader_after_write(&self) -> Result<ReadConnection<'_>> {
        let writer = self.readers.as_ref().and_then(|_| self.writer.try_lock());
        match writer.map(|writer| MutexGuard::try_map(writer, |writer| writer.conn.as_mut())) {
            Some(Ok(conn)) => Ok(ReadConnection::Writer(conn)),
            Some(Err(_)) | None => self.reader(),
        }
    }

    /// Opens the connection that writes, unless it is open. Call it before taking the writer lock, which it may take
    /// itself.
    pub(crate) fn open_writer(&self) -> StoreResult<()> {
        let writer = &mut *self.writer.lock();
        match (&writer.conn, &self.readers, &self.writer_lock) {
            (None, Some(readers), Some(writer_lock)) => {
                let conn = open_file(readers.path(), writer_lock, &self.options)?;
                record_loss(&conn, readers.path(), writer_lock, self.options.wait_timeout)?;
                (writer.revision_file, writer.conn) = (Some(open_revision_file(readers.path())?), Some(conn));
                if let Some(reserve) = &self.reserve {
                    reserve.fill();
                }
                Ok(())
            }
            (None, ..) => Err(StoreError::HostDenied),
            (Some(_), ..) => Ok(()),
        }
    }

    /// Has the listeners called, in every process that uses this database.
    pub(crate) fn announce_commit(&self) {
        if let Some(lock) = &self.writer_lock {
            lock.announce_commit();
        }
        self.commit_follower.note_own_commit();
    }

    pub(crate) fn subscribe(&self, listener: ChangeListener) -> StoreResult<Subscription> {
        self.commit_follower.subscribe(listener)
    }

    /// The database's file; `None` for a database in memory.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.readers.as_ref().map(|readers| readers.path().to_owned())
    }

    /// Has volumes looked up again when they are next opened.
    pub(crate) fn forget_volumes(&self) {
        self.volumes.lock().clear();
    }

    /// Has these volumes, which were removed, looked up again when they are next opened.
    pub(crate) fn forget_volumes_in(&self, removed: &[i64]) {
        if !removed.is_empty() {
            self.volumes.lock().retain(|_, volume| !removed.contains(&volume.id));
        }
    }

    /// Whether the audit log is open, so that changes can have records.
    pub(crate) fn has_audit_log(&self) -> bool {
        self.has_audit_log.load(Ordering::Acquire)
    }

    /// Starts a chain for the records of changes, and returns `false` if there is one already. `chain_end_file` receives
    /// the chain's end.
    pub(crate) fn begin_audit_log(&self, chain: Chain, chain_end_file: ChainEndFile) -> bool {
        let mut writer = self.writer.lock();
        if writer.chain.is_some() {
            return false;
        }
        (writer.chain, writer.chain_end_file) = (Some(chain), Some(chain_end_file));
        self.has_audit_log.store(true, Ordering::Release);
        true
    }

    /// Ends the chain: from now on, changes have no records.
    pub(crate) fn end_audit_log(&self) {
        self.has_audit_log.store(false, Ordering::Release);
        let mut writer = self.writer.lock();
        (writer.chain, writer.chain_end_file) = (None, None);
    }

    /// The end of the audit's chain.
    pub(crate) fn chain(&self) -> Option<Chain> {
        self.writer.lock().chain
    }

    /// Whether there is no file. Then only one caller at a time can read.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.readers.is_none()
    }

    /// Runs `work` in a write transaction, perhaps together with other callers' work.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        sync: CommitSync,
        work: impl FnOnce(&mut WriteTransaction<'_>) -> Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.group_commit.run((sync, DiskSpace::Free), |jobs| commit_batch(self, jobs), work)
    }

    /// Like `write`, for work that may use the reserve of a full disk: it frees space, or is a small record.
    pub(crate) fn write_reserved<T: Send + 'static>(
        &self,
        sync: CommitSync,
        work: impl FnOnce(&mut WriteTransaction<'_>) -> Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.group_commit.run((sync, DiskSpace::Reserve), |jobs| commit_batch(self, jobs), work)
    }

    /// Syncs the commits whose sync was deferred.
    pub(crate) fn sync(&self) -> StoreResult<()> {
        match (&self.readers, self.options.durability) {
            (Some(readers), Durability::Full) => {
                self.wal_file.sync(readers.path()).map_err(|error| from_io(&error))
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
                self.write(CommitSync::Deferred, move |transaction| {
                    make_volume(transaction, &namespace, None)
                })?
            }
        };
        let reader = self.reader()?;
        let base_layers = layers::load_layers(&reader, id)?;
        let overlay = layers::find_overlay(&reader, &base_layers)?;
        Ok(Arc::new(Volume { id, root, dirs: Arc::default(), base_layers, overlay }))
    }
}

impl Drop for DatabaseInner {
    fn drop(&mut self) {
        let touches = self.touches.take();
        if let Some(conn) = &self.writer.get_mut().conn {
            if !touches.is_empty() {
                // When a file was read last is information only. If it can't be written now, it is lost.
                let _ = PendingTouches::write(conn, &touches);
            }
            // The write-ahead log stays as a file, but truncated: the next process to open it would read all of it.
            let _ = conn.execute_batch("PRAGMA journal_size_limit = 0");
        }
    }
}

/// A namespace in the form that the database has it.
pub(crate) fn namespace_text<P: AsRef<str>>(namespace: impl IntoIterator<Item = P>) -> StoreResult<String> {
    let parts: Vec<String> = namespace.into_iter().map(|part| part.as_ref().to_owned()).collect();
    if parts.is_empty() || parts.iter().any(String::is_empty) {
        return Err(StoreError::Invalid(
            "a namespace needs at least one part, and no part can be empty".into(),
        ));
    }
    Ok(serde_json::to_string(&parts).expect("texts can be written as JSON"))
}

/// The id of the Store of a namespace, in the form that the database has it.
pub(crate) fn volume_store_id(database: DatabaseId, namespace: &str) -> StoreId {
    StoreId::in_database(database, namespace.as_bytes())
}

/// Removes all rows of a volume.
pub(crate) fn remove_volume(conn: &rusqlite::Connection, id: i64) -> Result<()> {
    for table in [
        "entry",
        "entry_history",
        "node_change",
        "usage",
        "directory_time",
        "fork",
        "fork_part",
        "fork_sync",
        "fork_sync_node",
        "fingerprint",
        "capture",
        "undone",
        "empty_revision",
        "companion_record",
        "overlay",
        "taken_name",
    ] {
        conn.execute(&format!("DELETE FROM {table} WHERE volume = ?1"), [id])?;
    }
    manifest::remove_rows_of(conn, id)?;
    conn.execute("DELETE FROM volume WHERE id = ?1", [id])?;
    Ok(())
}

pub(crate) fn find_volume(conn: &rusqlite::Connection, namespace: &str) -> Result<Option<(i64, i64)>> {
    let found = conn
        .prepare_cached("SELECT id, root FROM volume WHERE namespace = ?1")?
        .query_row([namespace], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(found)
}

/// Creates a volume, perhaps of a thread, with its root, which exists at every revision, unless another caller has created it meanwhile.
pub(crate) fn make_volume(
    transaction: &mut WriteTransaction<'_>,
    namespace: &str,
    thread: Option<i64>,
) -> Result<(i64, i64)> {
    if let Some(found) = find_volume(transaction.conn, namespace)? {
        return Ok(found);
    }
    // The id comes from the counter of nodes, which never repeats: a Store of a removed volume must never reach another
    // one.
    let (id, root) = (transaction.fresh_node()?, transaction.fresh_node()?);
    transaction
        .conn
        .prepare_cached("INSERT INTO volume(id, namespace, root, thread) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![id, namespace, root, thread])?;
    transaction
        .conn
        .prepare_cached(
            "INSERT INTO entry(volume, parent, name, node, kind, mode, size, created, modified, changed, since)
             VALUES (?1, 0, x'', ?2, 2, ?3, 0, ?4, ?4, ?4, 0)",
        )?
        .execute(params![id, root, DIRECTORY_MODE, SystemClock.now().0])?;
    Ok((id, root))
}
