//! Threads and their leases in a database: made once, used by any number of processes, removed when no one uses them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod audit;
mod cost;
mod ending;
mod entering;
mod leases;
mod memory;
mod processes;
mod removal;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use stead_core::vfs::{LostUpdates, ThreadLease};
use stead_core::{
    AccessScope, AuditOutcome, AuditRecord, Clock, Identity, Mount, Store, SystemClock, Vfs, VfsPath,
    Workspace,
};
use stead_stores::{
    Database, DatabaseOptions, Durability, EndWhen, Ending, EndingThread, Entered, HeldThread, LeaseHolder,
    PhysicalOptions, PhysicalStore, ThreadKey,
};
use tempfile::TempDir;

/// A database in a directory of its own.
struct Bench {
    directory: TempDir,
}

impl Bench {
    fn new() -> Self {
        Bench { directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("db")
    }

    /// The database as another process opens it: nothing is shared with the other ones.
    fn database(&self) -> Database {
        open(&self.file())
    }

    /// The holder of another process.
    fn holder(&self) -> Arc<LeaseHolder> {
        self.database().lease_holder(LeaseHolder::DEFAULT_TTL)
    }

    /// Runs SQL, as if time had passed.
    fn sql(&self, sql: &str) {
        Connection::open(self.file()).unwrap().execute_batch(sql).unwrap();
    }

    /// Has all holders expire, as if their processes had been stopped.
    fn expire_holders(&self) {
        self.sql("UPDATE lease_holder SET expires = 1");
    }

    fn count(&self, sql: &str) -> i64 {
        Connection::open(self.file()).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

fn open(file: &Path) -> Database {
    Database::open(file, DatabaseOptions { durability: Durability::Fast, ..DatabaseOptions::default() })
        .unwrap()
}

fn key() -> ThreadKey {
    ThreadKey::new("coder", "t1")
}

fn record(key: &ThreadKey) -> AuditRecord {
    let identity = Arc::new(Identity::agent(&key.agent).with_thread(&key.thread));
    AuditRecord::new(SystemClock.now(), identity, "thread.destroy", AuditOutcome::Ok)
}

const IDLE_TIMEOUT: Duration = Duration::from_secs(1_800);

fn enter(holder: &Arc<LeaseHolder>, key: &ThreadKey) -> Entered {
    holder.enter(key, Some(IDLE_TIMEOUT), &record(key)).unwrap()
}

/// A `Vfs` of a thread with `/w` on a Store.
fn vfs(thread: &Arc<HeldThread>, store: Arc<dyn Store>) -> Vfs {
    let workspace = Workspace::new(VfsPath::parse("/w").unwrap(), AccessScope::ReadWrite, Mount::new(store));
    Vfs::builder(Identity::agent("coder").with_thread("t1"))
        .lost_updates(LostUpdates::Allow)
        .workspace(workspace)
        .lease(Arc::clone(thread) as Arc<dyn ThreadLease>)
        .build()
        .unwrap()
}

/// A `Vfs` of a thread with `/w` on the thread's own volume.
fn virtual_vfs(thread: &Arc<HeldThread>) -> Vfs {
    vfs(thread, Arc::new(thread.volume(["files"]).unwrap()))
}

/// A Physical Store whose ledger is in a database.
fn physical(directory: &Path, database: &Database) -> Arc<PhysicalStore> {
    let root = directory.join("root");
    std::fs::create_dir_all(&root).unwrap();
    let mut options = PhysicalOptions::new(directory.join("state"));
    options.durability = Durability::Fast;
    options.ledger = database.clone().into();
    Arc::new(PhysicalStore::open(root, options).unwrap())
}

fn begun(holder: &Arc<LeaseHolder>, key: &ThreadKey) -> EndingThread {
    match holder.begin_ending(key, EndWhen::Now).unwrap() {
        Ending::Begun(ending) => ending,
        other => panic!("{other:?}"),
    }
}

fn assert_sound(database: &Database) {
    assert_eq!(database.verify(&mut |_| ()).unwrap().problems, Vec::<String>::new());
}
