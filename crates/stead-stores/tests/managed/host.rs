//! A managed Workspace at `/notes` on a Virtual and on a Physical Store, with a clock that the test sets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stead_core::clock::FixedClock;
use stead_core::managed::{FileFilter, Ttl};
use stead_core::vfs::managed::FilePage;
use stead_core::vfs::{ManagedFiles, VfsBuilder};
use stead_core::{AccessScope, Clock, Identity, Mount, Store, Timestamp, Vfs, VfsPath, Workspace};
use stead_stores::{Database, DatabaseOptions, Durability, LedgerSource, PhysicalOptions, PhysicalStore};

/// The day on which tests begin.
pub(crate) const DAY: &str = "2026-02-27";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Virtual,
    Physical,
}

/// A directory of the host with a database and, for a Physical Store, a directory `files`.
pub(crate) struct Host {
    pub(crate) kind: Kind,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) clock: Arc<FixedClock>,
    pub(crate) database: Database,
    pub(crate) store: Arc<dyn Store>,
    durability: Durability,
}

impl Host {
    pub(crate) fn new(kind: Kind) -> Self {
        Host::with(kind, Durability::Fast)
    }

    pub(crate) fn with(kind: Kind, durability: Durability) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("files")).unwrap();
        std::fs::create_dir(directory.path().join("state")).unwrap();
        let clock = Arc::new(FixedClock::at(format!("{DAY}T12:00:00Z").parse().unwrap()));
        let (database, store) = open(kind, &directory, durability);
        Host { kind, directory, clock, database, store, durability }
    }

    /// Runs a test on both kinds of Store.
    pub(crate) fn each(test: impl Fn(&Host)) {
        for kind in [Kind::Virtual, Kind::Physical] {
            test(&Host::new(kind));
        }
    }

    /// Opens everything again, as another process would.
    pub(crate) fn reopen(&mut self) {
        let memory: Arc<dyn Store> = Arc::new(stead_stores::MemoryStore::new());
        self.store = memory;
        self.database = Database::in_memory();
        (self.database, self.store) = open(self.kind, &self.directory, self.durability);
    }

    pub(crate) fn workspace(&self, prefix: &str, scope: AccessScope) -> Workspace {
        let mount = Mount::new(Arc::clone(&self.store));
        Workspace::new(VfsPath::parse(prefix).unwrap(), scope, mount).with_managed(Ttl::default())
    }

    pub(crate) fn builder(&self, agent: &str) -> VfsBuilder {
        Vfs::builder(Identity::agent(agent)).clock(Arc::clone(&self.clock) as Arc<dyn Clock>)
    }

    /// The stead of the agent `coder`, with the managed Workspace at `/notes`.
    pub(crate) fn vfs(&self) -> Vfs {
        self.builder("coder").workspace(self.workspace("/notes", AccessScope::ReadWrite)).build().unwrap()
    }

    pub(crate) fn vfs_with(&self, workspace: Workspace) -> Vfs {
        self.builder("coder").workspace(workspace).build().unwrap()
    }

    pub(crate) fn files(&self) -> ManagedFiles {
        self.vfs().managed(None).unwrap()
    }

    pub(crate) fn advance_days(&self, days: u64) {
        self.clock.advance(Duration::from_secs(days * 86_400));
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The paths in the manifest, sorted, by plain SQL.
    pub(crate) fn rows(&self) -> Vec<String> {
        self.query("SELECT path FROM workspace_files ORDER BY path")
    }

    /// The first column of a query, as text; `NULL` for a null.
    pub(crate) fn query(&self, sql: &str) -> Vec<String> {
        let conn = rusqlite::Connection::open(self.directory.path().join("stead.db")).unwrap();
        let mut statement = conn.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| {
            Ok(match row.get_ref(0)? {
                rusqlite::types::ValueRef::Null => "NULL".to_owned(),
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                value => value.as_str().unwrap().to_owned(),
            })
        });
        rows.unwrap().map(Result::unwrap).collect()
    }

    /// Where a path of the Workspace is on the host's disk.
    pub(crate) fn on_disk(&self, path: &str) -> PathBuf {
        assert_eq!(self.kind, Kind::Physical);
        self.directory.path().join("files").join(path)
    }
}

fn open(kind: Kind, directory: &tempfile::TempDir, durability: Durability) -> (Database, Arc<dyn Store>) {
    let options = DatabaseOptions { durability, ..DatabaseOptions::default() };
    let database = Database::open(directory.path().join("stead.db"), options).unwrap();
    let store: Arc<dyn Store> = match kind {
        Kind::Virtual => Arc::new(database.store(["notes"]).unwrap()),
        Kind::Physical => {
            let ledger = database.clone();
            let ledger = LedgerSource::new(database.id(), move |_| Ok(Some(ledger.clone())));
            let state = directory.path().join("state");
            let options = PhysicalOptions { durability, ledger, ..PhysicalOptions::new(state) };
            Arc::new(PhysicalStore::open(directory.path().join("files"), options).unwrap())
        }
    };
    (database, store)
}

/// The relative paths of a list without a filter.
pub(crate) fn listed(files: &ManagedFiles) -> Vec<String> {
    listed_with(files, &FileFilter::default())
}

pub(crate) fn listed_with(files: &ManagedFiles, filter: &FileFilter) -> Vec<String> {
    let page = files.list(filter, FilePage { offset: 0, limit: 200 }).unwrap();
    page.files.into_iter().map(|listed| listed.file.path).collect()
}
