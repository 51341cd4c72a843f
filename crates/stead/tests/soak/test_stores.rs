//! The Stores under test, by name, so that a child process can open the same one.

use std::path::Path;
use std::sync::Arc;

use stead_core::{Identity, Mount, Store, Vfs, VfsPath, Workspace};
use stead_stores::{
    Database, DatabaseOptions, DisplacedRetention, Durability, PhysicalOptions, PhysicalStore,
};

/// The kind of a Store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A Physical Store without retention of displaced content.
    Physical,
    /// A Physical Store with retention of displaced content.
    PhysicalRetaining,
    Virtual,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Physical => "physical",
            Kind::PhysicalRetaining => "kept",
            Kind::Virtual => "virtual",
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        match name {
            "physical" => Kind::Physical,
            "kept" => Kind::PhysicalRetaining,
            "virtual" => Kind::Virtual,
            other => panic!("no such Store: {other}"),
        }
    }

    /// Opens the Store of this kind in a directory, with full durability.
    pub(crate) fn open(self, directory: &Path) -> Arc<dyn Store> {
        match self {
            Kind::Physical | Kind::PhysicalRetaining => {
                let root = directory.join("root");
                std::fs::create_dir_all(&root).unwrap();
                let options = PhysicalOptions {
                    durability: Durability::Full,
                    ledger: database(directory).into(),
                    displaced_retention: (self == Kind::PhysicalRetaining).then(DisplacedRetention::default),
                    ..PhysicalOptions::new(directory.join("state"))
                };
                Arc::new(PhysicalStore::open(&root, options).unwrap())
            }
            Kind::Virtual => Arc::new(database(directory).store(["soak"]).unwrap()),
        }
    }
}

pub(crate) fn database(directory: &Path) -> Database {
    let options = DatabaseOptions { durability: Durability::Full, ..DatabaseOptions::default() };
    Database::open(directory.join("stead.db"), options).unwrap()
}

/// A `Vfs` with one READ_WRITE Workspace at `/`.
pub(crate) fn vfs_for(store: Arc<dyn Store>, agent: &str) -> Vfs {
    vfs_at("/", store, agent)
}

/// A `Vfs` with one READ_WRITE Workspace.
pub(crate) fn vfs_at(prefix: &str, store: Arc<dyn Store>, agent: &str) -> Vfs {
    let scope = stead_core::AccessScope::ReadWrite;
    let workspace = Workspace::new(VfsPath::parse(prefix).unwrap(), scope, Mount::new(store));
    Vfs::builder(Identity::agent(agent)).workspace(workspace).build().unwrap()
}

/// Whether the long form of the tests is wanted.
pub(crate) fn is_long_run() -> bool {
    std::env::var_os("STEAD_TEST_LONG").is_some()
}

/// Checks that `verify` finds no problem in a Store.
pub(crate) fn assert_verified(store: &dyn Store) {
    let report = store.require_maintenance().unwrap().verify(&mut |_| ()).unwrap();
    assert_eq!(report.problems, [""; 0]);
}
