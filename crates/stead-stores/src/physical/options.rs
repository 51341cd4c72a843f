//! How a Physical Store is opened.

use std::fmt;
#[cfg(target_os = "linux")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stead_core::StoreResult;

use super::fault_point::Faults;
#[cfg(target_os = "linux")]
use super::host::io_to_store_error;
use crate::{Database, Durability};
#[cfg(target_os = "linux")]
use crate::{DatabaseOptions, sync};

/// How a Physical Store is opened.
#[derive(Clone)]
pub struct PhysicalOptions {
    /// Stead's state directory; `None` for one in the user's state folder, which the root's path decides
    /// ([`state_folder_of`](crate::state_folder_of)). What the Store needs for itself goes there if it is on the same mount
    /// as the root, and else into `.stead/` in the root. Either is out of reach through the Store.
    pub state: Option<PathBuf>,
    /// What an acknowledged change survives.
    pub durability: Durability,
    /// Files and directories of Stead's own that are out of reach where they lie inside the root.
    pub mask: Vec<PathBuf>,
    /// Directories that stay where they are, where they lie inside the root: other Stores stand on them.
    pub pinned: Vec<PathBuf>,
    /// Who keeps a path below the root.
    pub confinement: Confinement,
    /// How long a change waits for other processes; after that it is refused, having changed nothing.
    pub wait_timeout: Duration,
    /// Where it writes down what it does: by default, `stead.db` in the state directory. Its entries have to survive what the
    /// Store's changes do, so it needs the same durability.
    pub ledger: LedgerSource,
    /// How much of what it displaces is kept, and for how long; nothing where `None`. The ledger tells who did what either
    /// way.
    pub displaced_retention: Option<DisplacedRetention>,
    /// For tests: stops the Store right before an action, as if the process had been killed there.
    pub faults: Option<Faults>,
}

/// Who keeps a path below the root of a Physical Store. It is kept there either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Confinement {
    /// The kernel where it can (`openat2`), and else the Store.
    #[default]
    Automatic,
    /// The Store, which opens each name on the way by itself. Slower, and there on every Linux.
    Walk,
}

impl PhysicalOptions {
    /// The defaults, with this state directory.
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
            .field("hold", &self.pinned)
            .field("confinement", &self.confinement)
            .field("patience", &self.wait_timeout)
            .field("keep", &self.displaced_retention)
            .finish_non_exhaustive()
    }
}

/// How much of what changes displace is kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DisplacedRetention {
    /// For so long.
    pub age: Duration,
    /// At most so many bytes in all, counted in blocks of 4 KiB; the oldest go first.
    pub bytes: u64,
    /// A file with more bytes than this is not kept: its deed has no content to go back to.
    pub file_bytes: u64,
}

impl Default for DisplacedRetention {
    fn default() -> Self {
        DisplacedRetention { age: Duration::from_secs(14 * 24 * 3_600), bytes: 1 << 30, file_bytes: 64 << 20 }
    }
}

/// The database that a Physical Store writes its deeds into, opened when it is first needed. The default is one of its own,
/// in the state directory.
#[derive(Clone, Default)]
pub struct LedgerSource(Option<Arc<OpenLedger>>);

type OpenLedger = dyn Fn(LedgerOpenMode) -> StoreResult<Option<Database>> + Send + Sync;

/// What a ledger is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerOpenMode {
    /// To be read, if there is one: nothing is made for that.
    IfExists,
    /// To be written to.
    CreateIfMissing,
}

impl LedgerSource {
    /// A ledger that `open` opens, again and again the same one. It answers `None` where it is not needed in any case,
    /// and not there yet.
    pub fn new(
        open: impl Fn(LedgerOpenMode) -> StoreResult<Option<Database>> + Send + Sync + 'static,
    ) -> Self {
        LedgerSource(Some(Arc::new(open)))
    }

    /// Opens the database, which lies in this state directory unless the caller has said where it is.
    #[cfg(target_os = "linux")]
    pub(super) fn open(
        &self,
        need: LedgerOpenMode,
        state: &Path,
        durability: Durability,
    ) -> StoreResult<Option<Database>> {
        if let Some(open) = &self.0 {
            return open(need);
        }
        let path = state.join("stead.db");
        if need == LedgerOpenMode::IfExists && !Database::existed_at(&path) {
            return Ok(None);
        }
        sync::make_private_dir(sync::SyncPoint::StateDirectory, state).map_err(io_to_store_error)?;
        Database::open_private(path, DatabaseOptions { durability, ..DatabaseOptions::default() }).map(Some)
    }
}

impl From<Database> for LedgerSource {
    fn from(database: Database) -> Self {
        LedgerSource::new(move |_| Ok(Some(database.clone())))
    }
}

impl fmt::Debug for LedgerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ledger")
    }
}

/// How much a Physical Store has kept of what was displaced, and let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// The space that was given back.
    pub freed: u64,
    /// The space that is still taken.
    pub kept: u64,
}
