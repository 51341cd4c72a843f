//! What changes do is written down, and what they displace is kept, unless the Store keeps nothing.
//!
//! A change tells its `book` of each action before it happens; the entry is in the ledger's database before the action
//! is on the disk (`enter`). What was displaced moves from the room to `past/` when the change is done, or when someone
//! finds the room after a crash (`reconcile`). `replay` reads the entries from the newest to the oldest over what is on
//! the disk now, and so knows what was there before and after each; `past` opens that content. `count` keeps the
//! counters of quotas, and `prune` lets go of what is too old or too much. `shadow` is about snapshots, which also hold what
//! other programs have made of the directory.

mod action_events;
mod capture;
mod directory_identity;
mod displaced;
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
use stead_core::AuditLogId;
use stead_core::store::{StoreError, StoreResult};

use super::PhysicalStore;
use super::host::{self, Errno, HostStat, OpenMode};
use super::options::{DisplacedRetention, LedgerOpenMode, LedgerSource};
use super::owner_access;
use super::root::Dir;
use crate::Durability;
use crate::virtual_store::capture::CaptureVolume;
use crate::virtual_store::ledger::Ledger;

pub(super) use directory_identity::{DISPLACED_DIR_NAMES, DirectoryIdentity, directory_id};
pub(super) use displaced::TreeFingerprint;
pub(super) use ledger_transaction::LedgerTransaction;
pub(super) use reconcile::DeadProcessState;

/// What a Store needs to keep things.
#[derive(Debug)]
pub(super) struct PhysicalHistory {
    /// Where the ledger is, and what its entries survive.
    ledger_source: (LedgerSource, Durability),
    identity: DirectoryIdentity,
    /// How much is kept, and for how long; `None` where nothing is.
    retention: Option<DisplacedRetention>,
    /// Where displaced things lie, once there is a staging area.
    displaced_dirs: OnceLock<DisplacedDirs>,
    ledger: Mutex<Option<Arc<Ledger>>>,
    /// Where things lie that were displaced in directories which had the place before, once the books are open.
    earlier_displaced_dirs: OnceLock<Vec<Dir>>,
    /// How many bytes were kept since it was last looked whether that is too much.
    bytes_since_prune: AtomicU64,
}

/// Where displaced things lie, as `<version>-<seq>`.
#[derive(Debug)]
pub(super) struct DisplacedDirs {
    pub(super) primary: Dir,
    /// For what finds no room in `past` on a full disk: a directory whose first block is there already. `None` where only
    /// reading is possible and there is none.
    pub(super) overflow: Option<Dir>,
}

impl PhysicalHistory {
    pub(super) fn new(
        ledger_source: (LedgerSource, Durability),
        identity: DirectoryIdentity,
        retention: Option<DisplacedRetention>,
        pasts: Option<DisplacedDirs>,
    ) -> Self {
        let (ledger, earlier_displaced_dirs, bytes_since_prune) =
            (Mutex::new(None), OnceLock::new(), AtomicU64::new(0));
        let displaced_dirs = pasts.map_or_else(OnceLock::new, OnceLock::from);
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

    /// Says where displaced things lie, now that there is a staging area.
    pub(super) fn set_displaced_dirs(&self, pasts: DisplacedDirs) {
        // Where it could be read before, it is the same.
        let _ = self.displaced_dirs.set(pasts);
    }

    /// Whether displaced content is kept at all.
    pub(super) fn keeps_displaced(&self) -> bool {
        self.retention.is_some()
    }

    /// How large a file may be whose content is kept, or held by a snapshot: also where nothing else is kept.
    fn max_file_bytes(&self) -> u64 {
        self.retention.unwrap_or_default().file_bytes
    }

    /// The books, if there are any yet.
    pub(super) fn ledger(&self) -> StoreResult<Option<Arc<Ledger>>> {
        self.open_ledger(LedgerOpenMode::IfExists)
    }

    /// The books, which are begun if there are none.
    pub(super) fn ledger_or_begin(&self) -> StoreResult<Arc<Ledger>> {
        Ok(self
            .open_ledger(LedgerOpenMode::CreateIfMissing)?
            .expect("books that are needed in any case are opened"))
    }

    fn open_ledger(&self, need: LedgerOpenMode) -> StoreResult<Option<Arc<Ledger>>> {
        let mut books = self.ledger.lock();
        if books.is_none()
            && let Some(database) =
                self.ledger_source.0.open(need, self.identity.state(), self.ledger_source.1)?
        {
            *books = self.identity.open_ledger(&database, need)?.map(Arc::new);
            if let Some(books) = &*books {
                let own: Vec<_> = self.own_displaced_dirs().collect();
                let found = self.identity.earlier_displaced_dirs(&books.directories()?, &own);
                self.earlier_displaced_dirs.get_or_init(|| found);
            }
        }
        Ok(books.clone())
    }

    /// What snapshots hold of the directory, if there is a shadow.
    fn capture_volume(&self) -> StoreResult<Option<CaptureVolume>> {
        match self.ledger()? {
            Some(books) => books.capture_volume(),
            None => Ok(None),
        }
    }

    /// Writes what is left to be written, at the end.
    pub(super) fn close(&self) -> StoreResult<()> {
        self.ledger.lock().as_ref().map_or(Ok(()), |books| books.write_finished())
    }

    /// Where the things lie that were displaced in this directory.
    fn own_displaced_dirs(&self) -> impl Iterator<Item = &Dir> {
        let own = self.displaced_dirs.get();
        own.into_iter().flat_map(|own| [Some(&own.primary), own.overflow.as_ref()].into_iter().flatten())
    }

    /// Where the things lie that were displaced, of this directory and of those that had its place before.
    fn displaced_dirs(&self) -> impl Iterator<Item = &Dir> {
        self.own_displaced_dirs().chain(self.earlier_displaced_dirs.get().into_iter().flatten())
    }

    /// Where what a row displaced lies; not found where it is not kept.
    fn displaced_dir_of(&self, (version, seq): (i64, i64)) -> StoreResult<&Dir> {
        let name = displaced_name(version, seq);
        let has = |past: &&Dir| host::stat_at(past.as_fd(), name.as_bytes()).is_ok();
        self.displaced_dirs().find(has).ok_or(StoreError::NotFound)
    }

    /// What a row displaced, if it is there.
    fn stat_displaced(&self, row: (i64, i64), below: &[u8]) -> Option<HostStat> {
        let name = displaced_name(row.0, row.1);
        let path = super::mask::join(name.as_bytes(), below);
        let (parent, name) = super::mask::split(&path);
        let past = self.displaced_dir_of(row).ok()?;
        match past.enter(parent, OpenMode::Traverse).and_then(|dir| dir.stat_at(name)) {
            Err(Errno::ACCESS) => owner_access::enter(past, parent).ok()?.stat_at(name).ok(),
            stat => stat.ok(),
        }
    }
}

/// The name in `past/` of what a row displaced.
fn displaced_name(version: i64, seq: i64) -> String {
    format!("{version}-{seq}")
}

impl PhysicalStore {
    /// The books, if there are any yet.
    pub(super) fn ledger(&self) -> StoreResult<Option<Arc<Ledger>>> {
        self.history.ledger()
    }

    /// The log that the ledger writes into; none before there is a ledger.
    pub(super) fn audit_log(&self) -> Option<AuditLogId> {
        self.ledger().ok().flatten().and_then(|books| books.audit_log())
    }
}
