//! The Stores of a configuration, opened as they are asked for.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::io::ErrorKind::{AlreadyExists, PermissionDenied, ReadOnlyFilesystem};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stead_core::store::Verified;
use stead_core::{AuditLog, Store};
use stead_stores::{
    Audit, AuditAccess, Database, DatabaseOptions, MemoryStore, PhysicalOptions, PhysicalStore,
};

use crate::config::{Config, StoreConfig};
use crate::error::{Error, Result};

/// The files that SQLite and the queue of writers keep beside a database.
const BESIDE_DATABASE: [&str; 6] = ["", "-wal", "-shm", "-journal", "-turn", "-next"];

/// The Stores of a configuration: each is opened once, however many Workspaces or names it has.
#[derive(Debug)]
pub struct Stores<'c> {
    config: &'c Config,
    database: Option<Database>,
    audit: Option<Arc<Audit>>,
    open: BTreeMap<Key<'c>, Arc<dyn Store>>,
}

/// What makes two names one Store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'c> {
    /// The same place.
    Place(&'c StoreConfig),
    /// Memory is nowhere: each name has its own.
    Named(&'c str),
}

impl<'c> Stores<'c> {
    /// The Stores of this configuration, none of them open yet.
    pub fn of(config: &'c Config) -> Self {
        Stores { config, database: None, audit: None, open: BTreeMap::new() }
    }

    /// The Store of this name.
    pub fn get(&mut self, name: &str) -> Result<Arc<dyn Store>> {
        let found = self.config.stores.get_key_value(name);
        let (name, config) = found.ok_or_else(|| Error::Invalid(format!("there is no Store `{name}`")))?;
        let key = match config {
            StoreConfig::Memory => Key::Named(name),
            place => Key::Place(place),
        };
        if let Some(store) = self.open.get(&key) {
            return Ok(Arc::clone(store));
        }
        let store = self.opened(config).map_err(|error| match error {
            Error::Store(cause) => Error::Open { store: name.clone(), cause },
            other => other,
        })?;
        self.open.insert(key, Arc::clone(&store));
        Ok(store)
    }

    fn opened(&mut self, config: &StoreConfig) -> Result<Arc<dyn Store>> {
        Ok(match config {
            StoreConfig::Memory => Arc::new(MemoryStore::new()),
            StoreConfig::Virtual { namespace } => Arc::new(self.database()?.store(namespace)?),
            StoreConfig::Physical { path } => {
                match self.make_state() {
                    // Where nothing may be written, a directory can be read all the same.
                    Err(error) if matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem) => {}
                    made => made.map_err(no_state)?,
                }
                let options = PhysicalOptions {
                    durability: self.config.database.durability,
                    mask: masked(self.config),
                    hold: held(self.config),
                    ..PhysicalOptions::new(self.config.state_directory())
                };
                Arc::new(PhysicalStore::open(path, options)?)
            }
        })
    }

    /// The database, for those that are kept in it.
    fn database(&mut self) -> Result<&Database> {
        if self.database.is_none() {
            let database = &self.config.database;
            if database.path.starts_with(self.config.state_directory()) {
                self.make_state().map_err(no_state)?;
            }
            let options = DatabaseOptions { durability: database.durability, ..DatabaseOptions::default() };
            self.database = Some(Database::open(&database.path, options)?);
        }
        Ok(self.database.as_ref().expect("it was opened just now"))
    }

    /// The log of everything that is done, unless it is turned off.
    pub fn audit(&mut self) -> Result<Option<Arc<dyn AuditLog>>> {
        if !self.config.audit.enabled {
            return Ok(None);
        }
        if self.audit.is_none() {
            let opened = self.open_audit().map_err(|cause| Error::Audit { cause: Box::new(cause) })?;
            self.audit = Some(opened);
        }
        Ok(self.audit.clone().map(|audit| audit as Arc<dyn AuditLog>))
    }

    fn open_audit(&mut self) -> Result<Arc<Audit>> {
        self.make_state().map_err(no_state)?;
        let directory = self.config.audit_directory();
        Ok(Audit::open(self.database()?, &directory)?)
    }

    /// What the log holds, to be looked at; `None` where nothing was ever written down.
    pub fn audited(&mut self) -> Result<Option<AuditAccess>> {
        let directory = self.config.audit_directory();
        // Where only the database is gone, what lies beside it tells what was in it.
        if !self.config.database.path.exists() && !directory.exists() {
            return Ok(None);
        }
        Ok(Some(AuditAccess::open(self.database()?, &directory)?))
    }

    /// Makes the state directory if it is missing. Only its owner may look into it.
    fn make_state(&self) -> io::Result<()> {
        make_private(&self.config.state_directory())
    }

    /// Checks everything that can be checked: the database as a whole, and each Physical Store.
    pub fn verify(&mut self, progress: &mut dyn FnMut(&str, u64)) -> Result<Vec<(String, Verified)>> {
        let mut verified = Vec::new();
        let stores = &self.config.stores;
        if stores.values().any(|store| matches!(store, StoreConfig::Virtual { .. })) {
            let found = self.database()?.verify(&mut |done| progress("database", done))?;
            verified.push(("database".to_owned(), found));
        }
        for (name, config) in stores {
            if matches!(config, StoreConfig::Physical { .. }) {
                let store = self.get(name)?;
                let found = store.verify(&mut |done| progress(name, done))?;
                verified.push((name.clone(), found));
            }
        }
        Ok(verified)
    }
}

/// Directories that Physical Stores stand on: through a Store around one of them, it could be swapped for a symlink.
fn held(config: &Config) -> Vec<PathBuf> {
    let directory = |store: &StoreConfig| match store {
        StoreConfig::Physical { path } => Some(path.clone()),
        StoreConfig::Virtual { .. } | StoreConfig::Memory => None,
    };
    config.stores.values().filter_map(directory).collect()
}

/// Host paths that no Physical Store may show: Stead's own state, and the configuration, with which an agent could
/// widen its own scopes.
fn masked(config: &Config) -> Vec<PathBuf> {
    let database = &config.database.path;
    // SQLite keeps its files beside the database itself, also where its name is a symlink.
    let resolved = std::fs::canonicalize(database).unwrap_or_else(|_| database.clone());
    let beside = [database, &resolved].into_iter().flat_map(|database| {
        BESIDE_DATABASE.map(|suffix| {
            let mut name = OsString::from(database);
            name.push(suffix);
            PathBuf::from(name)
        })
    });
    [config.state_directory(), config.file().to_owned()].into_iter().chain(beside).collect()
}

fn no_state(cause: io::Error) -> Error {
    Error::host("the state directory `.stead` can't be made", cause)
}

fn make_private(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        // It is no one's to commit.
        Ok(()) => std::fs::write(directory.join(".gitignore"), "*\n"),
        Err(error) if error.kind() == AlreadyExists && directory.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}
