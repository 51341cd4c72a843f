//! The options of a Physical Store.

use std::fmt;
#[cfg(target_os = "linux")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stead_core::StoreResult;
use stead_core::store::DatabaseId;

use super::fault_point::Faults;
#[cfg(target_os = "linux")]
use super::host::io_to_store_error;
use crate::{Database, Durability};
#[cfg(target_os = "linux")]
use crate::{DatabaseOptions, sync};

/// How a Physical Store is opened.
#[derive(Clone)]
pub struct PhysicalOptions {
    /// Stead's state directory. `None` for a directory in the user's state folder, which is derived from the root's
    /// path ([`state_folder_of`](crate::state_folder_of)).
    ///
    /// The Store's staging area lies there if it is on the same mount as the root, and otherwise in `.stead/` in the
    /// root. Callers can't reach either through the Store.
    pub state: Option<PathBuf>,
    /// What a power cut may lose of the acknowledged changes.
    pub durability: Durability,
    /// Stead's own files and directories. Those that lie inside the root can't be reached through the Store.
    pub mask: Vec<PathBuf>,
    /// Directories that other Stores use. Those that lie inside the root can't be moved or removed through this Store.
    pub pinned: Vec<PathBuf>,
    /// Which side enforces that a path stays below the root.
    pub confinement: Confinement,
    /// How long a change waits for other changes and processes. After that it fails, and has changed nothing.
    pub wait_timeout: Duration,
    /// The database that holds the ledger: by default `stead.db` in the state directory. It needs the same durability
    /// as the Store, because the ledger has to survive whatever the Store's changes survive.
    pub ledger: LedgerSource,
    /// How much displaced content is kept for undo, and for how long. `None` keeps nothing; the ledger records every
    /// change either way.
    pub displaced_retention: Option<DisplacedRetention>,
    /// For tests: stops the Store right before an action, as if the process had been killed there.
    pub faults: Option<Faults>,
}

/// Which side enforces that a path stays below the root of a Physical Store. Both are equally strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Confinement {
    /// The kernel if it has `openat2`, otherwise the Store.
    #[default]
    Automatic,
    /// The Store, which opens each name of a path separately. Slower, but works on every Linux.
    Walk,
}

impl PhysicalOptions {
    /// The default options with this state directory.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        PhysicalOptions { state: Some(state.into()), ..PhysicalOptions::default() }
    }
}

impl Default for PhysicalOptions {
    fn default() -> Self {
        PhysicalOptions {
            state: None,
            durability: Durability::default(),
            mask: Vec::new(),
            pinned: Vec::new(),
            confinement: Confinement::default(),
            wait_timeout: Duration::from_secs(30),
            ledger: LedgerSource::default(),
            displaced_retention: Some(DisplacedRetention::default()),
            faults: None,
        }
    }
}

impl fmt::Debug for PhysicalOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PhysicalOptions")
            .field("state", &self.state)
            .field("durability", &self.durability)
            .field("mask", &self.mask)
            .field("pinned", &self.pinned)
            .field("confinement", &self.confinement)
            .field("wait_timeout", &self.wait_timeout)
            .field("displaced_retention", &self.displaced_retention)
            .finish_non_exhaustive()
    }
}

/// How much of the content that changes displace is kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct DisplacedRetention {
    /// How long content is kept.
    pub age: Duration,
    /// How many bytes are kept in all, counted in blocks of 4 KiB. The oldest content is dropped first.
    pub bytes: u64,
    /// Files larger than this many bytes are not kept, so a change that displaced one can't be undone.
    pub file_bytes: u64,
}

impl Default for DisplacedRetention {
    fn default() -> Self {
        DisplacedRetention { age: Duration::from_secs(14 * 24 * 3_600), bytes: 1 << 30, file_bytes: 64 << 20 }
    }
}

/// The database that a Physical Store writes its ledger to, opened when it is first needed. The default is a database
/// of the Store's own in the state directory.
#[derive(Clone, Default)]
pub struct LedgerSource(Option<(DatabaseId, Arc<OpenLedger>)>);

type OpenLedger = dyn Fn(LedgerOpenMode) -> StoreResult<Option<Database>> + Send + Sync;

/// Whether a missing ledger is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerOpenMode {
    /// To read the ledger if there is one. A missing one is not created.
    IfExists,
    /// To write to the ledger.
    CreateIfMissing,
}

impl LedgerSource {
    /// A ledger in `database`, which `open` opens. `open` may return `None` for [`LedgerOpenMode::IfExists`] if the
    /// database doesn't exist yet; [`Database::id_at`] has its id before that.
    pub fn new(
        database: DatabaseId,
        open: impl Fn(LedgerOpenMode) -> StoreResult<Option<Database>> + Send + Sync + 'static,
    ) -> Self {
        LedgerSource(Some((database, Arc::new(open))))
    }

    /// The database's id.
    #[cfg(target_os = "linux")]
    pub(super) fn database_id(&self, state: &Path) -> DatabaseId {
        self.0.as_ref().map_or_else(|| Database::id_at(&own_database(state)), |(database, _)| *database)
    }

    /// Opens the database. If the caller gave none, that is `stead.db` in this state directory.
    #[cfg(target_os = "linux")]
    pub(super) fn open(
        &self,
        mode: LedgerOpenMode,
        state: &Path,
        durability: Durability,
    ) -> StoreResult<Option<Database>> {
        if let Some((_, open)) = &self.0 {
            return open(mode);
        }
        let path = own_database(state);
        if mode == LedgerOpenMode::IfExists && !Database::existed_at(&path) {
            return Ok(None);
        }
        sync::make_private_dir(sync::SyncPoint::StateDirectory, state).map_err(io_to_store_error)?;
        Database::open_private(path, DatabaseOptions { durability, ..DatabaseOptions::default() }).map(Some)
    }
}

/// The database of a Store that was given none.
#[cfg(target_os = "linux")]
fn own_database(state: &Path) -> PathBuf {
    state.join("stead.db")
}

impl From<Database> for LedgerSource {
    fn from(database: Database) -> Self {
        LedgerSource::new(database.id(), move |_| Ok(Some(database.clone())))
    }
}

impl fmt::Debug for LedgerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LedgerSource")
    }
}

/// How much displaced content of a Physical Store a pruning has dropped, and how much is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// How many bytes were freed.
    pub freed: u64,
    /// How many bytes are still kept.
    pub kept: u64,
}
