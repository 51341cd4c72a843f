//! The history of a Physical Store: a ledger of what changes did, and the content that they displaced.
//!
//! A change records each action in the ledger before the action happens (`ledger_transaction`, `action_events`). What
//! the action displaces lies in the staging directory at first. It moves to `displaced/` when the change is done, or
//! when recovery finds it there after a crash (`displaced`, `reconcile`). `replay` reads the ledger from the newest row
//! to the oldest, starting from what is on disk now, and so knows the state before and after each revision;
//! `old_content` opens the content of those states. `usage` has the counters of quotas, and `prune` removes displaced
//! content that is too old or too much. `capture` is for snapshots, which also capture what other programs have done to the directory.

mod action_events;
mod capture;
mod directory_identity;
mod displaced;
mod forget;
mod ledger_event;
mod ledger_rows;
mod ledger_transaction;
mod old_content;
mod prune;
mod reconcile;
mod replay;
mod usage;

use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use stead_core::store::{StoreError, StoreResult};

use super::PhysicalStore;
use super::host::{self, Errno, HostStat, OpenMode};
use super::options::{DisplacedRetention, LedgerOpenMode, LedgerSource};
use super::owner_access;
use super::root::Dir;
use crate::ledger::Ledger;
use crate::virtual_store::capture::CaptureVolume;
use crate::{Database, Durability};

pub(super) use directory_identity::{DISPLACED_DIR_NAMES, DirectoryIdentity, directory_id, location_key};
pub(super) use displaced::TreeFingerprint;
pub(super) use ledger_transaction::{FinishedChange, LedgerTransaction};
pub(super) use reconcile::DeadProcessState;

/// The history of one Physical Store: its ledger, and the content that its changes displaced.
#[derive(Debug)]
pub(super) struct PhysicalHistory {
    /// The database that the ledger is in, and how durable its entries are.
    ledger_source: (LedgerSource, Durability),
    identity: DirectoryIdentity,
    /// How much displaced content is kept, and for how long; `None` if none is kept.
    retention: Option<DisplacedRetention>,
    /// The directories with displaced content, once there is a staging area.
    displaced_dirs: OnceLock<DisplacedDirs>,
    ledger: Mutex<Option<Arc<dyn Ledger>>>,
    /// The directories with content that was displaced from earlier directories at this location. Set when the ledger
    /// is opened.
    earlier_displaced_dirs: OnceLock<Vec<Dir>>,
    /// Bytes of displaced content added since the last prune.
    bytes_since_prune: AtomicU64,
}

/// The directories with displaced content. In them, what a row displaced has the name `<revision>-<seq>`.
#[derive(Debug)]
pub(super) struct DisplacedDirs {
    pub(super) primary: Dir,
    /// Used when a full disk has no block for one more name in `primary`: this directory's first block is allocated
    /// already. `None` if the Store can only be read and the directory doesn't exist.
    pub(super) overflow: Option<Dir>,
}

impl PhysicalHistory {
    pub(super) fn new(
        ledger_source: (LedgerSource, Durability),
        identity: DirectoryIdentity,
        retention: Option<DisplacedRetention>,
        displaced_dirs: Option<DisplacedDirs>,
    ) -> Self {
        let (ledger, earlier_displaced_dirs, bytes_since_prune) =
            (Mutex::new(None), OnceLock::new(), AtomicU64::new(0));
        let displaced_dirs = displaced_dirs.map_or_else(OnceLock::new, OnceLock::from);
        PhysicalHistory {
            ledger_source,
            identity,
            retention,
            displaced_dirs,
            ledger,
            earlier_displaced_dirs,
            bytes_since_prune,
        }
    }

    /// Sets the directories with displaced content, once there is a staging area.
    pub(super) fn set_displaced_dirs(&self, displaced_dirs: DisplacedDirs) {
        // If they are set already, for reading, they are the same.
        let _ = self.displaced_dirs.set(displaced_dirs);
    }

    /// Whether any displaced content is kept.
    pub(super) fn keeps_displaced(&self) -> bool {
        self.retention.is_some()
    }

    /// The largest file whose content is kept when it is displaced, or captured by a snapshot. Captures have this limit
    /// even if no displaced content is kept.
    pub(super) fn max_file_bytes(&self) -> u64 {
        self.retention.unwrap_or_default().file_bytes
    }

    /// The ledger, if there is one yet.
    pub(super) fn ledger(&self) -> StoreResult<Option<Arc<dyn Ledger>>> {
        self.open_ledger(LedgerOpenMode::IfExists)
    }

    /// The ledger, which is created if there is none.
    pub(super) fn ledger_or_create(&self) -> StoreResult<Arc<dyn Ledger>> {
        Ok(self
            .open_ledger(LedgerOpenMode::CreateIfMissing)?
            .expect("a ledger is returned if it may be created"))
    }

    fn open_ledger(&self, mode: LedgerOpenMode) -> StoreResult<Option<Arc<dyn Ledger>>> {
        let mut ledger = self.ledger.lock();
        if ledger.is_none()
            && let Some(database) =
                self.ledger_source.0.open(mode, self.identity.state(), self.ledger_source.1)?
        {
            *ledger = self.identity.open_ledger(&database, mode)?;
            if let Some(ledger) = &*ledger {
                let own_dirs: Vec<_> = self.own_displaced_dirs().collect();
                let found = self.identity.earlier_displaced_dirs(&ledger.directories()?, &own_dirs);
                self.earlier_displaced_dirs.get_or_init(|| found);
            }
        }
        Ok(ledger.clone())
    }

    /// The database of the ledger, which is created if there is none.
    pub(super) fn database_or_create(&self) -> StoreResult<Database> {
        let (source, durability) = &self.ledger_source;
        let database = source.open(LedgerOpenMode::CreateIfMissing, self.identity.state(), *durability)?;
        Ok(database.expect("a database is returned if it may be created"))
    }

    /// Whether forks read the directory from its snapshots.
    pub(super) fn has_pinned_forks(&self) -> StoreResult<bool> {
        let (source, durability) = &self.ledger_source;
        let database = source.open(LedgerOpenMode::IfExists, self.identity.state(), *durability)?;
        database.map_or(Ok(false), |database| database.has_pinned_forks(self.location()))
    }

    /// Where the directory is.
    pub(super) fn location(&self) -> &str {
        self.identity.location()
    }

    /// The volume that holds what snapshots captured of the directory, if there is one.
    fn capture_volume(&self) -> StoreResult<Option<CaptureVolume>> {
        match self.ledger()? {
            Some(ledger) => ledger.capture_volume(),
            None => Ok(None),
        }
    }

    /// Writes the outcomes that the ledger has not written yet. For the end of the process.
    pub(super) fn close(&self) -> StoreResult<()> {
        self.ledger.lock().as_ref().map_or(Ok(()), |ledger| ledger.write_finished())
    }

    /// The directories with content that was displaced from this directory.
    fn own_displaced_dirs(&self) -> impl Iterator<Item = &Dir> {
        let own_dirs = self.displaced_dirs.get();
        own_dirs
            .into_iter()
            .flat_map(|own_dirs| [Some(&own_dirs.primary), own_dirs.overflow.as_ref()].into_iter().flatten())
    }

    /// The directories with displaced content: this directory's own, and those of earlier directories at its location.
    fn displaced_dirs(&self) -> impl Iterator<Item = &Dir> {
        self.own_displaced_dirs().chain(self.earlier_displaced_dirs.get().into_iter().flatten())
    }

    /// The directory that holds what a row displaced; `NotFound` if it isn't kept.
    fn displaced_dir_of(&self, (revision, seq): (i64, i64)) -> StoreResult<&Dir> {
        let name = displaced_name(revision, seq);
        let has = |displaced_dir: &&Dir| host::stat_at(displaced_dir.as_fd(), name.as_bytes()).is_ok();
        self.displaced_dirs().find(has).ok_or(StoreError::NotFound)
    }

    /// The attributes of what a row displaced, or of the path `below` it; `None` if it isn't there.
    fn stat_displaced(&self, row: (i64, i64), below: &[u8]) -> Option<HostStat> {
        let name = displaced_name(row.0, row.1);
        let path = super::mask::join(name.as_bytes(), below);
        let (parent, name) = super::mask::split(&path);
        let displaced_dir = self.displaced_dir_of(row).ok()?;
        match displaced_dir.enter(parent, OpenMode::Traverse).and_then(|dir| dir.stat_at(name)) {
            Err(Errno::ACCESS) => owner_access::enter(displaced_dir, parent).ok()?.stat_at(name).ok(),
            stat => stat.ok(),
        }
    }
}

/// The name that what a row displaced has in a directory with displaced content.
fn displaced_name(revision: i64, seq: i64) -> String {
    format!("{revision}-{seq}")
}

impl PhysicalStore {
    /// The ledger, if there is one yet.
    pub(super) fn ledger(&self) -> StoreResult<Option<Arc<dyn Ledger>>> {
        self.history.ledger()
    }

    /// Whether the ledger takes audit records; `false` before there is a ledger.
    pub(super) fn commits_audit(&self) -> bool {
        self.ledger().ok().flatten().is_some_and(|ledger| ledger.has_audit_log())
    }
}
