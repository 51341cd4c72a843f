//! The Stores of a configuration, each opened when it is first used.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::io::ErrorKind::{AlreadyExists, PermissionDenied, ReadOnlyFilesystem};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use stead_core::identity::SYSTEM_AGENT;
use stead_core::organization::{FolderIds, MemoryFolderIds};
use stead_core::store::{
    DatabaseId, RevisionNumber, StoreError, StoreId, StoreInfo, StoreKind, StorePath, VerifyReport,
};
use stead_core::vfs::VfsBuilder;
use stead_core::{
    AuditLog, AuditOutcome, AuditRecord, Clock, FixedClock, Identity, Store, SystemClock, Timestamp, Vfs,
};
use stead_stores::database::{BackupReport, Collected, ForgottenHistory, GcOptions, Retention};
use stead_stores::sync::{self, SyncPoint};
use stead_stores::{
    Audit, AuditAccess, Database, DatabaseOptions, DisplacedRetention, ForkRecord, HeldThread,
    LedgerOpenMode, LedgerSource, MemoryStore, OverlayStore, PhysicalOptions, PhysicalStore, Pruned,
    StateOwner, VirtualStore, resolve_symlinks,
};

use crate::config::{Config, DatabaseConfig, StoreConfig};
use crate::current_records::CurrentRecords;
use crate::error::{Error, Result, escaped_path};
use crate::lazy_audit_log::{LazyAuditLog, notify_audit_problems};
use crate::lazy_store::{Abilities, LazyStore};
use crate::server_lock::SERVER_LOCK_SUFFIX;
use crate::threads::{ThreadRegistry, lease_ttl};

/// The suffixes of a database's files: the database itself, SQLite's files, and the files that Stead puts beside it.
const DATABASE_FILE_SUFFIXES: [&str; 11] = [
    "",
    "-wal",
    "-shm",
    "-journal",
    "-turn",
    "-next",
    "-reserve",
    "-version",
    "-damaged",
    "-restoring",
    SERVER_LOCK_SUFFIX,
];

/// The Stores of a configuration. Each is opened at its first use, and only once, however many Workspaces use it and
/// however many names it has.
#[derive(Debug)]
pub struct Stores {
    config: Arc<Config>,
    opener: Arc<StoreOpener>,
    by_key: Arc<Mutex<BTreeMap<StoreKey, Arc<LazyStore>>>>,
    folder_ids: Arc<dyn FolderIds>,
    current_records: Arc<CurrentRecords>,
    thread_registry: Arc<ThreadRegistry>,
}

/// Two names with equal keys are the same Store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum StoreKey {
    /// Physical and Virtual Stores: where the Store is.
    Location(StoreConfig),
    /// Memory Stores have no location, so each name is its own Store.
    Named(String),
}

/// A fork as the database has it, with the Stores of all its parts.
#[derive(Debug)]
pub(crate) struct StoredFork {
    pub(crate) record: ForkRecord,
    pub(crate) store: Arc<dyn Store>,
    /// The other parts, by place.
    pub(crate) parts: Vec<(ForkRecord, Arc<dyn Store>)>,
}

impl Stores {
    /// The Stores of this configuration.
    pub fn of(config: &Config) -> Self {
        let config = Arc::new(config.clone());
        let opener = StoreOpener {
            database_id: Database::id_at(&config.database.path),
            config: Arc::clone(&config),
            database: Mutex::default(),
            audit: OnceLock::new(),
            audit_open_lock: Mutex::default(),
        };
        let opener = Arc::new(opener);
        let thread_registry = Arc::new(ThreadRegistry::new(Arc::clone(&opener), lease_ttl()));
        let folder_ids = Arc::new(MemoryFolderIds::new(Arc::new(SystemClock)));
        let current_records = Arc::new(CurrentRecords::of(&config));
        Stores { config, opener, by_key: Arc::default(), folder_ids, current_records, thread_registry }
    }

    /// These Stores with leases of threads that hold for this long without being renewed. Call it before a thread is used.
    #[doc(hidden)]
    pub fn with_lease_ttl(self, ttl: Duration) -> Self {
        let thread_registry = Arc::new(ThreadRegistry::new(Arc::clone(&self.opener), ttl));
        Stores { thread_registry, ..self }
    }

    /// The Stores of a new configuration that replaces this one's. If only agents and records have changed, they are the
    /// same Stores. Otherwise Memory Stores whose name stays keep their content.
    pub fn reconfigured(&self, config: &Config) -> Self {
        let folder_ids = Arc::clone(&self.folder_ids);
        if self.config.has_same_stores(config) {
            self.current_records.update(config);
            return Stores {
                config: Arc::new(config.clone()),
                opener: Arc::clone(&self.opener),
                by_key: Arc::clone(&self.by_key),
                folder_ids,
                current_records: Arc::clone(&self.current_records),
                thread_registry: Arc::clone(&self.thread_registry),
            };
        }
        let current_records = Arc::new(CurrentRecords::of_newer(config, &self.current_records));
        let stores = Stores { folder_ids, current_records, ..Stores::of(config) };
        let remains = |key: &StoreKey| match key {
            StoreKey::Named(name) => matches!(config.stores.get(name), Some(StoreConfig::Memory)),
            StoreKey::Location(_) => false,
        };
        let by_key = self.lock_stores();
        let remaining = by_key.iter().filter(|(key, _)| remains(key));
        stores.lock_stores().extend(remaining.map(|(key, lazy)| (key.clone(), Arc::clone(lazy))));
        stores
    }

    /// The Stores that were asked for so far. No Store is opened while this is locked.
    fn lock_stores(&self) -> MutexGuard<'_, BTreeMap<StoreKey, Arc<LazyStore>>> {
        // A panic can't leave the map half changed.
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration of these Stores.
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// The records of organizations as they are now.
    pub(crate) fn current_records(&self) -> &Arc<CurrentRecords> {
        &self.current_records
    }

    /// The ids of organizations' folders.
    pub(crate) fn folder_ids(&self) -> Arc<dyn FolderIds> {
        Arc::clone(&self.folder_ids)
    }

    /// The Store of this name. Only an unknown name fails here: the Store is opened at its first use, and errors of
    /// opening it are reported there.
    pub fn get(&self, name: &str) -> Result<Arc<dyn Store>> {
        Ok(self.lazy_store(name)?)
    }

    pub(crate) fn lazy_store(&self, name: &str) -> Result<Arc<LazyStore>> {
        let found = self.opener.config.stores.get(name);
        let config = found
            .ok_or_else(|| Error::Invalid(format!("there is no Store `{}`", name.escape_debug())))?
            .clone();
        let key = match config {
            StoreConfig::Memory => StoreKey::Named(name.to_owned()),
            ref location => StoreKey::Location(location.clone()),
        };
        let mut by_key = self.lock_stores();
        Ok(Arc::clone(match by_key.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Arc::new(self.opener.lazy_store(name, config)?)),
        }))
    }

    /// The Store that has a thread's own files in place of those of the Store of this name. A Physical Store has the files of
    /// all threads itself, in a directory for each.
    pub(crate) fn thread_store(&self, name: &str, thread: &Arc<HeldThread>) -> Result<Arc<dyn Store>> {
        let store = self.lazy_store(name)?;
        match self.opener.config.stores.get(name) {
            Some(StoreConfig::Virtual { namespace }) => {
                let (id, info) = (thread.volume_id(namespace)?, self.opener.info(StoreKind::Virtual));
                let (opener, thread, namespace) =
                    (Arc::clone(&self.opener), Arc::clone(thread), namespace.clone());
                Ok(Arc::new(LazyStore::new(name, id, info, Abilities::ALL, move || {
                    opener.try_open_audit();
                    Ok(Arc::new(thread.volume(&namespace)?))
                })))
            }
            Some(StoreConfig::Memory) => match store.memory() {
                Some(memory) => {
                    self.thread_registry.note_memory_volume(thread);
                    Ok(Arc::new(memory.thread_volume(thread.thread(), thread.key())?))
                }
                None => Ok(store),
            },
            Some(StoreConfig::Physical { .. }) | None => Ok(store),
        }
    }

    pub(crate) fn thread_registry(&self) -> &Arc<ThreadRegistry> {
        &self.thread_registry
    }

    /// The Store of the State of an agent's stead or, if it works in a thread of its own, of the thread's. It is opened at
    /// its first use.
    pub(crate) fn state_store(&self, agent: &str, thread: Option<&Arc<HeldThread>>) -> Arc<dyn Store> {
        let owner = match thread {
            Some(thread) => StateOwner::thread(thread.key(), thread.thread()),
            None => StateOwner::agent(agent),
        };
        let (thread, opener) = (thread.cloned(), Arc::clone(&self.opener));
        let (id, info) = (owner.store_id_in(self.opener.database_id), self.opener.info(StoreKind::Virtual));
        Arc::new(LazyStore::new("state", id, info, Abilities::ALL, move || {
            opener.try_open_audit();
            Ok(Arc::new(match &thread {
                Some(thread) => thread.state_volume()?,
                None => opener.database()?.state_store(&owner)?,
            }))
        }))
    }

    /// Removes the keys of all States that have expired by `now`, as the system's identity. Returns how many.
    fn remove_expired_keys(&self, database: &Database, now: Timestamp) -> Result<u64> {
        let mut removed = 0;
        for owner in database.state_owners()? {
            let store = match database.state_store(&owner) {
                // Its thread has ended meanwhile.
                Err(StoreError::NotFound) => continue,
                store => Arc::new(store?),
            };
            let builder = Vfs::builder(Identity::agent(SYSTEM_AGENT)).stead(owner.to_string()).state(store);
            let builder = builder.clock(Arc::new(FixedClock::at(now)));
            let builder = self.audit().into_iter().fold(builder, VfsBuilder::audit);
            let vfs = builder.build()?;
            removed += vfs.state().map_or(Ok(0), |state| state.remove_expired())?;
        }
        Ok(removed)
    }

    /// The id of the database.
    pub(crate) fn database_id(&self) -> DatabaseId {
        self.opener.database_id
    }

    /// What is known of a Store of this kind before it is open.
    pub(crate) fn info_of(&self, kind: StoreKind) -> StoreInfo {
        self.opener.info(kind)
    }

    /// The database, opened at its first use.
    pub(crate) fn database_source(&self) -> DatabaseSource {
        DatabaseSource::FromConfig(Arc::clone(&self.opener))
    }

    /// The database of the Virtual Stores, the snapshots, the audit, and the ledgers of the Physical Stores. Opens it
    /// if needed.
    pub fn database(&self) -> Result<Database> {
        self.opener.database()
    }

    /// The audit log, or `None` if the configuration turns it off. It is opened when the first record is written.
    pub fn audit(&self) -> Option<Arc<dyn AuditLog>> {
        let enabled = self.opener.config.audit.enabled;
        enabled.then(|| Arc::new(LazyAuditLog::new(Arc::clone(&self.opener))) as Arc<dyn AuditLog>)
    }

    /// Opens the audit log now, so that errors of opening it are reported here. Does nothing if the audit is turned
    /// off, or if the database is read-only.
    pub fn open_audit(&self) -> Result<()> {
        if self.opener.is_read_only() {
            return Ok(());
        }
        self.opener.audit().map(drop)
    }

    /// Checks quickly whether the audit log can be opened: fails if the state directory can't be created, or if the
    /// database exists and can't be opened. It doesn't open the log.
    pub fn check_audit(&self) -> Result<()> {
        if !self.opener.config.audit.enabled {
            return Ok(());
        }
        let check = || -> Result<()> {
            if self.opener.is_read_only() {
                return Ok(());
            }
            self.opener.create_state_directory().map_err(state_directory_error)?;
            if self.opener.config.database.path.exists() {
                self.opener.database()?;
            }
            Ok(())
        };
        check().map_err(|cause| Error::OpenAudit { cause: Box::new(cause) })
    }

    /// The audit log for reading, or `None` if no record was ever written.
    pub fn audit_access(&self) -> Result<Option<AuditAccess>> {
        let directory = self.opener.config.audit_directory();
        // If only the database is gone, the audit directory beside it still shows what it held.
        if !self.opener.config.database.path.exists() && !directory.exists() {
            return Ok(None);
        }
        let access = AuditAccess::open(&self.opener.database()?, &directory)?;
        notify_audit_problems(access.problems_at_open());
        Ok(Some(access))
    }

    /// Does something on behalf of the operator rather than an agent, with two audit records: one before it begins, so
    /// that the act is known even if it never ends, and one with the outcome.
    fn audited<T>(&self, call: &'static str, act: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(log) = self.opener.audit()? else { return act() };
        let began = Instant::now();
        let operator = Arc::new(Identity::agent("(operator)"));
        let mut record = AuditRecord::new(SystemClock.now(), operator, call, AuditOutcome::Begun);
        log.append(&record)?;
        let result = act();
        record.outcome = match &result {
            Ok(_) => AuditOutcome::Ok,
            Err(error) => AuditOutcome::from_error_kind(error.kind()),
        };
        record.duration = began.elapsed();
        log.append(&record)?;
        result
    }

    /// Removes history that `retention` doesn't keep, then frees the space of content that nothing refers to, and
    /// prunes what Physical Stores keep.
    pub fn gc(
        &self,
        retention: Retention,
        options: GcOptions,
        now: Timestamp,
        progress: &mut dyn FnMut(&str, u64),
    ) -> Result<GcReport> {
        let database = self.opener.database()?;
        self.audited("gc", || {
            let expired_keys = self.remove_expired_keys(&database, now)?;
            let forgotten = database.forget(retention, now, &mut |done| progress("forgetting", done))?;
            let collected = database.gc(options, now, &mut |done| progress("freeing", done))?;
            let pruned = self.opener.prune(now);
            Ok(GcReport { expired_keys, forgotten, collected, pruned })
        })
    }

    /// Copies the database into a new file while it is in use. Fails if the file exists.
    pub fn backup(&self, to: &Path, progress: &mut dyn FnMut(u64)) -> Result<BackupReport> {
        let database = self.opener.database()?;
        self.audited("backup", || {
            database.backup(to, progress).map_err(|cause| match cause {
                StoreError::AlreadyExists => Error::AlreadyExists(format!(
                    "`{}` exists already; choose another name",
                    escaped_path(to)
                )),
                cause => cause.into(),
            })
        })
    }

    /// Replaces the database's content with that of a backup, and returns the restored revision.
    pub fn restore_backup(&self, from: &Path, progress: &mut dyn FnMut(u64)) -> Result<RevisionNumber> {
        let restore_error = |cause| match cause {
            StoreError::NotFound => {
                let what = format!("the backup `{}` can't be read", escaped_path(from));
                Error::host(what, std::io::ErrorKind::NotFound.into())
            }
            cause => cause.into(),
        };
        let database = match self.opener.database() {
            // The database is gone or can't be opened, so there is nothing in it to preserve.
            Err(Error::Store(StoreError::Corrupt(_))) => {
                let DatabaseConfig { path, durability } = &self.opener.config.database;
                let options = DatabaseOptions { durability: *durability, ..DatabaseOptions::default() };
                let revision = Database::restore_lost(path, from, options).map_err(restore_error)?;
                self.adopt_audit()?;
                return self.audited("restore_backup", || self.sign_restored_audit(revision));
            }
            database => database?,
        };
        self.adopt_audit()?;
        self.audited("restore_backup", || {
            let revision = database.restore_backup(from, progress).map_err(restore_error)?;
            self.sign_restored_audit(revision)
        })
    }

    /// Lets the database continue the audit in the state directory, if that is the audit of a database that is lost.
    fn adopt_audit(&self) -> Result<()> {
        Ok(Audit::adopt_directory(&self.database()?, &self.opener.config.audit_directory())?)
    }

    /// Signs the audit chains that came with a restored backup: restoring a backup vouches for its records.
    fn sign_restored_audit(&self, revision: RevisionNumber) -> Result<RevisionNumber> {
        if let Some(audit) = self.opener.audit()? {
            audit.sign_restored_chains()?;
        }
        Ok(revision)
    }

    /// The forks of an agent, each with its Store and those of its parts, which are opened at their first use. Empty if there is
    /// no database yet.
    pub(crate) fn forks(&self, owner: &str) -> Result<Vec<StoredFork>> {
        if !self.opener.config.database.path.exists() {
            return Ok(Vec::new());
        }
        let database = self.opener.database()?;
        let stored = |mut record: ForkRecord| -> Result<StoredFork> {
            let mut parts = Vec::new();
            for part in std::mem::take(&mut record.parts) {
                let store = self.lazy_fork(&database, &part)?;
                parts.push((part, store));
            }
            Ok(StoredFork { store: self.lazy_fork(&database, &record)?, record, parts })
        };
        database.fork_records(owner)?.into_iter().map(stored).collect()
    }

    /// The Store of a fork, or of a part of one, which is opened at its first use.
    fn lazy_fork(&self, database: &Database, record: &ForkRecord) -> Result<Arc<dyn Store>> {
        let info = self.opener.info(StoreKind::Virtual);
        let (database, opener, opened) = (database.clone(), Arc::clone(&self.opener), record.clone());
        let lower = record.directory.as_deref().map(|location| self.directory_at(location)).transpose()?;
        let is_live = lower.is_some() && record.fork.pinned_at.is_none();
        let abilities = Abilities { feed: !is_live, live_forks: is_live, ..Abilities::ALL };
        let open = move || {
            opener.try_open_audit();
            let store = match database.open_fork(&opened) {
                Err(StoreError::NotFound) => {
                    return Err(Error::Invalid("the fork has been discarded".into()));
                }
                store => store?,
            };
            Ok(match &lower {
                Some(lower) => Arc::new(OverlayStore::open(store, Arc::clone(lower))?) as Arc<dyn Store>,
                None => Arc::new(store),
            })
        };
        let id = Database::store_id_of(self.opener.database_id, record)?;
        Ok(Arc::new(LazyStore::new(record.fork.name.as_str(), id, info, abilities, open)))
    }

    /// The Store of the host directory at a location, as [`ForkRecord::directory`] names it. If the configuration has no such
    /// Store any more, each use of it fails.
    fn directory_at(&self, location: &str) -> Result<Arc<dyn Store>> {
        let config = &self.opener.config;
        let is_there = |(_, store): &(&String, &StoreConfig)| is_directory_at(config, store, location);
        if let Some((name, _)) = config.stores.iter().find(is_there) {
            return self.get(name);
        }
        let missing = || {
            let what = "the directory that the fork was made from belongs to no Store of the configuration";
            Err(Error::Store(StoreError::unavailable(what)))
        };
        let (id, info) = (StoreId::fresh(), self.opener.info(StoreKind::Physical));
        Ok(Arc::new(LazyStore::new("the fork's base", id, info, Abilities::ALL, missing)))
    }

    /// The volumes of all forks, by owner. Empty if there is no database yet.
    pub(crate) fn fork_volumes(&self) -> Result<BTreeMap<String, Vec<i64>>> {
        match self.database_source().existing_database()? {
            Some(database) => Ok(database.fork_volumes()?),
            None => Ok(BTreeMap::new()),
        }
    }

    /// Verifies the database as a whole, and each Physical Store. Returns one report each, with its name.
    pub fn verify(&self, progress: &mut dyn FnMut(&str, u64)) -> Result<Vec<(String, VerifyReport)>> {
        let mut reports = Vec::new();
        let opener = Arc::clone(&self.opener);
        let stores = &opener.config.stores;
        let in_database = |store: &StoreConfig| match store {
            StoreConfig::Virtual { .. } => true,
            StoreConfig::Physical { .. } => Database::existed_at(&opener.config.database.path),
            StoreConfig::Memory => false,
        };
        let has_state = opener.config.agents.values().any(|agent| agent.state)
            && Database::existed_at(&opener.config.database.path);
        if has_state || stores.values().any(in_database) {
            let report = opener.database()?.verify(&mut |done| progress("database", done))?;
            reports.push(("database".to_owned(), report));
        }
        for (name, config) in stores {
            if matches!(config, StoreConfig::Physical { .. }) {
                let lazy = self.lazy_store(name)?;
                let report =
                    lazy.get_or_open()?.require_maintenance()?.verify(&mut |done| progress(name, done))?;
                reports.push((name.clone(), report));
            }
        }
        Ok(reports)
    }
}

/// Whether a Store of the configuration is the host directory at a location, as [`ForkRecord::directory`] names it.
pub(crate) fn is_directory_at(config: &Config, store: &StoreConfig, location: &str) -> bool {
    match store {
        StoreConfig::Physical { path, .. } => {
            PhysicalStore::location_in(&config.state_directory(), path) == location
        }
        StoreConfig::Virtual { .. } | StoreConfig::Memory => false,
    }
}

/// What [`Stores::gc`] did.
#[derive(Debug)]
pub struct GcReport {
    /// How many expired keys of States were removed.
    pub expired_keys: u64,
    /// The history that was removed.
    pub forgotten: ForgottenHistory,
    /// What happened to content that nothing refers to.
    pub collected: Collected,
    /// What was pruned from each Physical Store, by name. If one fails, the others are still pruned.
    pub pruned: Vec<(String, Result<Pruned>)>,
}

/// Where a stead's database comes from.
#[derive(Debug, Clone)]
pub(crate) enum DatabaseSource {
    /// An open database, given to the builder.
    Opened(Database),
    /// Opened from the configuration at its first use.
    FromConfig(Arc<StoreOpener>),
}

impl DatabaseSource {
    pub(crate) fn database(&self) -> Result<Database> {
        match self {
            DatabaseSource::Opened(database) => Ok(database.clone()),
            DatabaseSource::FromConfig(opener) => opener.database(),
        }
    }

    /// The id of the Store of the host directory at a location, as [`ForkRecord::directory`] names it, if the configuration has
    /// such a Store.
    pub(crate) fn directory_id_at(&self, location: &str) -> Option<StoreId> {
        let DatabaseSource::FromConfig(opener) = self else { return None };
        let config = &opener.config;
        config.stores.values().filter(|store| is_directory_at(config, store, location)).find_map(|store| {
            match store {
                StoreConfig::Physical { path, .. } => Some(PhysicalStore::id_in(opener.database_id, path)),
                StoreConfig::Virtual { .. } | StoreConfig::Memory => None,
            }
        })
    }

    /// The database, or `None` if there is none yet. Creates nothing.
    pub(crate) fn existing_database(&self) -> Result<Option<Database>> {
        match self {
            DatabaseSource::FromConfig(opener) if !Database::existed_at(&opener.config.database.path) => {
                Ok(None)
            }
            source => source.database().map(Some),
        }
    }
}

/// Opens Stores, the database and the audit log as the configuration says.
#[derive(Debug)]
pub(crate) struct StoreOpener {
    config: Arc<Config>,
    /// One database for all Stores that use it.
    database: Mutex<Option<Database>>,
    /// The id that the database has or will have.
    pub(crate) database_id: DatabaseId,
    audit: OnceLock<Arc<Audit>>,
    audit_open_lock: Mutex<()>,
}

impl StoreOpener {
    /// The Store that a configuration describes, opened at its first use.
    fn lazy_store(self: &Arc<Self>, name: &str, config: StoreConfig) -> Result<LazyStore> {
        let opener = Arc::clone(self);
        Ok(match config {
            StoreConfig::Memory => LazyStore::of_memory(name, MemoryStore::new()),
            StoreConfig::Virtual { namespace } => {
                let id = VirtualStore::id_in(self.database_id, &namespace)?;
                LazyStore::new(name, id, self.info(StoreKind::Virtual), Abilities::ALL, move || {
                    opener.try_open_audit();
                    Ok(Arc::new(opener.database()?.store(&namespace)?))
                })
            }
            StoreConfig::Physical { path, displaced_retention } => {
                let retains_content = displaced_retention.is_some();
                let abilities =
                    Abilities { feed: false, live_forks: true, retains_content, ..Abilities::ALL };
                let id = PhysicalStore::id_in(self.database_id, &path);
                LazyStore::new(name, id, self.info(StoreKind::Physical), abilities, move || {
                    opener.try_open_audit();
                    Ok(Arc::new(opener.open_physical(&path, displaced_retention)?))
                })
            }
        })
    }

    /// What a Store that commits to the database says about itself. The audit log is in the database, too.
    fn info(&self, kind: StoreKind) -> StoreInfo {
        StoreInfo { kind, database: Some(self.database_id), commits_audit: self.config.audit.enabled }
    }

    /// Opens the audit log before a Store whose `StoreInfo` names it as its log. If the log can't be opened, the error
    /// is ignored here: the Store can't write records, so it refuses changes, but it can still be read, which helps to
    /// find the cause.
    fn try_open_audit(&self) {
        let _ = self.audit();
    }

    fn open_physical(
        self: &Arc<Self>,
        path: &Path,
        displaced_retention: Option<DisplacedRetention>,
    ) -> Result<PhysicalStore> {
        match self.create_state_directory() {
            // A directory can be read even if the state directory can't be written.
            Err(error) if matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem) => {}
            result => result.map_err(state_directory_error)?,
        }
        let options = PhysicalOptions {
            durability: self.config.database.durability,
            mask: masked_paths(&self.config),
            pinned: store_directories(&self.config),
            ledger: self.ledger(),
            displaced_retention,
            ..PhysicalOptions::new(self.config.state_directory())
        };
        Ok(PhysicalStore::open(path, options)?)
    }

    /// Prunes what Physical Stores no longer have to keep. Two names with the same settings are one Store.
    fn prune(self: &Arc<Self>, now: Timestamp) -> Vec<(String, Result<Pruned>)> {
        let mut seen = BTreeSet::new();
        let mut pruned = Vec::new();
        for (name, config) in &self.config.stores {
            if let StoreConfig::Physical { path, displaced_retention } = config
                && seen.insert(config)
            {
                let store = self.open_physical(path, *displaced_retention);
                let result = store.and_then(|store| store.prune(now).map_err(Error::from));
                pruned.push((name.clone(), result));
            }
        }
        pruned
    }

    /// Removes what is kept of a directory of a Physical Store that is gone for good.
    pub(crate) fn forget_directory(self: &Arc<Self>, store: &str, at: &StorePath) -> Result<()> {
        if let Some(StoreConfig::Physical { path, displaced_retention }) = self.config.stores.get(store) {
            self.open_physical(path, *displaced_retention)?.forget_below(at)?;
        }
        Ok(())
    }

    /// Removes the displaced content of a Physical Store that no event has any more: a process that was forgetting events has
    /// died before it removed their content.
    pub(crate) fn remove_orphaned_content(self: &Arc<Self>, store: &str) -> Result<()> {
        if let Some(StoreConfig::Physical { path, displaced_retention }) = self.config.stores.get(store) {
            self.open_physical(path, *displaced_retention)?.prune(SystemClock.now())?;
        }
        Ok(())
    }

    /// The database as the ledger of a Physical Store. Reading the Store doesn't create the database.
    fn ledger(self: &Arc<Self>) -> LedgerSource {
        let opener = Arc::clone(self);
        LedgerSource::new(self.database_id, move |mode| {
            if mode == LedgerOpenMode::IfExists && !opener.config.database.path.exists() {
                return Ok(None);
            }
            opener.database().map(Some).map_err(|error| match error {
                Error::Store(cause) => cause,
                other => StoreError::unavailable(other),
            })
        })
    }

    /// The database. Opens or creates it if needed.
    pub(crate) fn database(&self) -> Result<Database> {
        // A panic can't leave the value under this lock half changed.
        let mut opened = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(database) = &*opened {
            return Ok(database.clone());
        }
        let DatabaseConfig { path, durability } = &self.config.database;
        if path.starts_with(self.config.state_directory()) {
            self.create_state_directory().map_err(state_directory_error)?;
        }
        if !Database::existed_at(path) {
            create_private_file(path).map_err(database_creation_error)?;
        }
        let options = DatabaseOptions { durability: *durability, ..DatabaseOptions::default() };
        Ok(opened.insert(Database::open(path, options)?).clone())
    }

    /// Whether the database exists and this process may only read it. Then it makes no changes and writes no audit
    /// records.
    pub(crate) fn is_read_only(&self) -> bool {
        if self.audit.get().is_some() {
            return false;
        }
        self.config.database.path.exists() && self.database().is_ok_and(|database| database.is_read_only())
    }

    /// The audit log, or `None` if it is turned off. Opens it if needed.
    pub(crate) fn audit(&self) -> Result<Option<&Arc<Audit>>> {
        if !self.config.audit.enabled {
            return Ok(None);
        }
        if let Some(audit) = self.audit.get() {
            return Ok(Some(audit));
        }
        let _guard = self.audit_open_lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(audit) = self.audit.get() {
            return Ok(Some(audit));
        }
        let audit = self.open_audit().map_err(|cause| Error::OpenAudit { cause: Box::new(cause) })?;
        Ok(Some(self.audit.get_or_init(|| audit)))
    }

    fn open_audit(&self) -> Result<Arc<Audit>> {
        self.create_state_directory().map_err(state_directory_error)?;
        let directory = self.config.audit_directory();
        let audit = Audit::open(&self.database()?, &directory)?;
        notify_audit_problems(audit.problems_at_open());
        Ok(audit)
    }

    /// Creates the state directory if it is missing. Only its owner may access it.
    fn create_state_directory(&self) -> io::Result<()> {
        create_private_directory(&self.config.state_directory())
    }
}

/// The directories of all Physical Stores. They are pinned: otherwise a Store that contains one could swap it for a
/// symlink.
fn store_directories(config: &Config) -> Vec<PathBuf> {
    let directory = |store: &StoreConfig| match store {
        StoreConfig::Physical { path, .. } => Some(path.clone()),
        StoreConfig::Virtual { .. } | StoreConfig::Memory => None,
    };
    config.stores.values().filter_map(directory).collect()
}

/// Host paths that no Physical Store may show: Stead's own state, and the configuration, with which an agent could
/// widen its own scopes.
fn masked_paths(config: &Config) -> Vec<PathBuf> {
    let database = &config.database.path;
    let resolved = resolved_database(config);
    let database_files = [database, &resolved].into_iter().flat_map(|database| {
        DATABASE_FILE_SUFFIXES.map(|suffix| {
            let mut name = OsString::from(database);
            name.push(suffix);
            PathBuf::from(name)
        })
    });
    let records = config.record_files().map(Path::to_owned);
    [config.state_directory(), config.file().to_owned()]
        .into_iter()
        .chain(records)
        .chain(database_files)
        .collect()
}

/// The database's file. If its name is a symlink, SQLite keeps its other files beside the target.
pub(crate) fn resolved_database(config: &Config) -> PathBuf {
    resolve_symlinks(&config.database.path)
}

/// The error of a database that can't be created. A directory that isn't there is a mistake in the configuration, not
/// the answer to what was asked.
fn database_creation_error(cause: io::Error) -> Error {
    match cause.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Error::Invalid(
            "the database's directory doesn't exist; create it, or name another file in `url` under [database]".to_owned(),
        ),
        _ => Error::host("the database can't be created", cause),
    }
}

fn state_directory_error(cause: io::Error) -> Error {
    Error::host("the state directory `.stead` can't be created", cause)
}

pub(crate) fn create_private_directory(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        // Nothing in the state directory belongs in a commit.
        Ok(()) => {
            std::fs::write(directory.join(".gitignore"), "*\n")?;
            sync::sync_directory(SyncPoint::StateDirectory, directory.parent().unwrap_or(Path::new("")))
        }
        Err(error) if error.kind() == AlreadyExists && directory.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates a file that only its owner may read, unless it exists.
fn create_private_file(file: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    if file.exists() {
        return Ok(());
    }
    std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(file).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use crate::{Config, Stead};

    #[test]
    fn a_database_that_is_created_later_behind_a_symlink_is_masked() {
        let host = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(host.path().join("data/deep")).unwrap();
        symlink("data/second", host.path().join("stead.db")).unwrap();
        symlink("deep/real.db", host.path().join("data/second")).unwrap();
        let text = r#"
            [database]
            url = "sqlite:stead.db"
            [stores.here]
            kind = "physical"
            path = "data"
            [stores.notes]
            kind = "virtual"
            [[agents.a.workspaces]]
            prefix = "/here"
            scope = "rw"
            store = "here"
            [[agents.a.workspaces]]
            prefix = "/notes"
            scope = "rw"
            store = "notes"
        "#;
        let config = Config::parse(text, &host.path().join("stead.toml")).unwrap();
        let stead = Stead::open(&config, "a").unwrap();
        stead.vfs().write("/here/fine", "x").unwrap();
        stead.vfs().write("/notes/secret", "x").unwrap();
        assert!(host.path().join("data/deep/real.db").is_file());
        assert!(stead.vfs().write("/here/deep/real.db", "").is_err());
        for path in ["/here/deep/real.db", "/here/deep/real.db-wal", "/here/second"] {
            assert!(stead.vfs().read(path).is_err(), "{path}");
        }
    }

    #[test]
    fn files_that_a_restored_backup_leaves_beside_the_database_are_masked() {
        let host = tempfile::tempdir().unwrap();
        std::fs::create_dir(host.path().join("data")).unwrap();
        let text = r#"
            [database]
            url = "sqlite:data/stead.db"
            [stores.here]
            kind = "physical"
            path = "data"
            [[agents.a.workspaces]]
            prefix = "/here"
            scope = "rw"
            store = "here"
        "#;
        let config = Config::parse(text, &host.path().join("stead.toml")).unwrap();
        let backup = host.path().join("backup");
        Stead::open(&config, "a").unwrap().vfs().write("/here/fine", "x").unwrap();
        crate::Stores::of(&config).backup(&backup, &mut |_| ()).unwrap();
        for damage in ["first", "second"] {
            std::fs::write(host.path().join("data/stead.db"), damage).unwrap();
            crate::Stores::of(&config).restore_backup(&backup, &mut |_| ()).unwrap();
        }
        let stead = Stead::open(&config, "a").unwrap();
        let listing = stead.vfs().list("/here", &stead_core::vfs::ListPage::all()).unwrap();
        let names: Vec<_> = listing.entries.iter().map(|entry| entry.name.to_string()).collect();
        assert_eq!(names, ["fine"]);
        // The copy of the backup is there only while it is restored.
        std::fs::create_dir(host.path().join("data/stead.db-restoring")).unwrap();
        std::fs::write(host.path().join("data/stead.db-restoring/copy.db"), "x").unwrap();
        assert!(stead.vfs().read("/here/stead.db-restoring/copy.db").is_err());
    }
}
