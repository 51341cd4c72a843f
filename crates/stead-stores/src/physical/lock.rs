//! Locks between threads and processes: which changes may run at the same time.
//!
//! An ordinary change locks the tree shared, and the stripes of the names it touches exclusively. A change that moves a
//! directory, or has several steps, locks the tree exclusively. Locks are always taken in the same order, the tree and
//! then the stripes by their index, so there is no deadlock. Threads wait for a lock in memory first, so that a process
//! waits at each lock file at most once.
//!
//! The host frees the locks of a process that dies. To keep other processes from building on its unfinished change, the
//! file `acting` has one cell per lock: the holder of an exclusive lock writes the number of its staging directory
//! there, and zero before it releases the lock. If the next holder finds another number, that process died while it
//! held the lock, and its changes are recovered first.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use stead_core::store::{StoreError, StoreResult};

use super::fault_point::FaultPoint;
use super::host::{self, Errno, HostResult, LockMode, errno_to_store_error};
use super::shared_cells::SharedCells;

const STRIPES: usize = 64;
/// How long a process lets its own new threads join the shared tree lock before it queues again with other processes.
const SHARED_TURN_TIME: Duration = Duration::from_millis(20);
/// The index of the tree's cell, after the cells of the stripes.
const TREE_CELL: usize = STRIPES;
/// How many changes a process applies at once. More would only use up file descriptors.
const MAX_CONCURRENT_CHANGES: usize = 16;

/// The lock that a name in a directory belongs to. Several names share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stripe(usize);

impl Stripe {
    /// Returns the stripe of a name. Must be the same in every process, so the hash has no random seed.
    pub(super) fn of(dir: u64, name: &[u8]) -> Self {
        let bytes = dir.to_le_bytes();
        let hash = bytes.iter().chain(name).fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Stripe(((hash ^ (hash >> 32)) % STRIPES as u64) as usize)
    }
}

/// The locks of one staging area.
#[derive(Debug)]
pub(super) struct Locks {
    dir: OwnedFd,
    stripes: Vec<Mutex<Option<StripeFiles>>>,
    tree_in_process: RwLock<()>,
    shared_holders: Mutex<SharedHolders>,
    no_shared_holders: Condvar,
    tree_queue: File,
    tree: File,
    /// Which staging directory holds each lock exclusively; zero for none.
    acting_cells: SharedCells<{ STRIPES + 1 }>,
    /// The number of this Store's staging directory.
    own_number: u64,
    fault_point: Arc<FaultPoint>,
    active_changes: Mutex<usize>,
    permit_returned: Condvar,
    /// How long a change waits for any lock here: the process that holds it may have been suspended.
    wait_timeout: Duration,
}

/// The two lock files of a stripe. A process locks `queue` while it waits for `lock`, so that the process that releases
/// `lock` can't take it again before the waiting one.
#[derive(Debug)]
struct StripeFiles {
    queue: File,
    lock: File,
}

/// How many threads of this process hold the tree shared, and since when the process has held it.
#[derive(Debug)]
struct SharedHolders {
    holders: usize,
    since: Instant,
}

impl Locks {
    pub(super) fn new(
        dir: OwnedFd,
        wait_timeout: Duration,
        own_number: u64,
        fault_point: Arc<FaultPoint>,
    ) -> HostResult<Self> {
        Ok(Locks {
            acting_cells: SharedCells::new(host::open_or_create(dir.as_fd(), "acting")?),
            own_number,
            fault_point,
            tree_queue: host::open_or_create(dir.as_fd(), "turn")?,
            tree: host::open_or_create(dir.as_fd(), "tree")?,
            dir,
            stripes: (0..STRIPES).map(|_| Mutex::new(None)).collect(),
            tree_in_process: RwLock::new(()),
            shared_holders: Mutex::new(SharedHolders { holders: 0, since: Instant::now() }),
            no_shared_holders: Condvar::new(),
            active_changes: Mutex::new(0),
            permit_returned: Condvar::new(),
            wait_timeout,
        })
    }

    /// The deadline for a wait that starts now.
    pub(super) fn wait_deadline(&self) -> Instant {
        Instant::now() + self.wait_timeout
    }

    /// Waits until this process may apply another change.
    pub(super) fn admit_change(&self) -> StoreResult<ChangePermit<'_>> {
        let deadline = self.wait_deadline();
        let mut active = self.active_changes.lock();
        while *active >= MAX_CONCURRENT_CHANGES {
            if self.permit_returned.wait_until(&mut active, deadline).timed_out() {
                return Err(errno_to_store_error(Errno::TIMEDOUT));
            }
        }
        *active += 1;
        Ok(ChangePermit(self))
    }

    /// Locks names for an ordinary change; `None` if a process died while it held one of the locks, and recovery must
    /// run first.
    pub(super) fn lock_names(&self, requested: &mut [Stripe]) -> StoreResult<Option<NameLocks<'_>>> {
        let deadline = self.wait_deadline();
        let tree = self.lock_tree_shared(deadline).map_err(errno_to_store_error)?;
        requested.sort_unstable();
        let mut stripes = Vec::with_capacity(requested.len());
        for (index, &stripe) in requested.iter().enumerate() {
            if index == 0 || requested[index - 1] != stripe {
                stripes.push(self.lock_stripe(stripe, deadline).map_err(errno_to_store_error)?);
            }
        }
        let cells = self.acting_cells.all()?;
        if self.is_abandoned(cells[TREE_CELL])
            || requested.iter().any(|stripe| self.is_abandoned(cells[stripe.0]))
        {
            return Ok(None);
        }
        for stripe in &mut stripes {
            self.mark_acting(stripe.index, self.own_number)?;
            stripe.is_marked = true;
        }
        Ok(Some(NameLocks { _stripes: stripes, _tree: tree }))
    }

    /// Whether the cell of a lock that this Store holds names another staging directory: its process died while it held
    /// the lock.
    fn is_abandoned(&self, cell: u64) -> bool {
        cell != 0 && cell != self.own_number
    }

    fn mark_acting(&self, index: usize, number: u64) -> StoreResult<()> {
        match self.acting_cells.set(index, number) {
            // Things must still be removable on a full disk. Only a file system that never writes in place gets here.
            Err(StoreError::NoSpace) => Ok(()),
            result => result,
        }
    }

    /// Clears the cell of a lock. A Store that a test has stopped leaves the cell as it is, as a killed process would.
    fn unmark_acting(&self, index: usize) {
        if !self.fault_point.is_stopped() {
            // A cell that was not cleared costs the next holder a look at a staging directory that is in order.
            let _ = self.mark_acting(index, 0);
        }
    }

    /// The numbers of the other staging directories that are in a cell. If the caller holds the tree exclusively, their
    /// processes died.
    pub(super) fn acting_numbers(&self) -> StoreResult<Vec<u64>> {
        let mut numbers: Vec<_> =
            self.acting_cells.all()?.into_iter().filter(|cell| self.is_abandoned(*cell)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// Clears all cells. The caller must hold the tree exclusively and have recovered the unfinished changes.
    pub(super) fn clear_acting(&self) -> StoreResult<()> {
        (0..=TREE_CELL).try_for_each(|index| self.mark_acting(index, 0))
    }

    fn lock_stripe(&self, Stripe(index): Stripe, deadline: Instant) -> HostResult<StripeLock<'_>> {
        let mut slot = self.stripes[index].try_lock_until(deadline).ok_or(Errno::TIMEDOUT)?;
        if slot.is_none() {
            let open = |name: &str| host::open_or_create(self.dir.as_fd(), name);
            *slot = Some(StripeFiles {
                queue: open(&format!("{index:02}-next"))?,
                lock: open(&format!("{index:02}"))?,
            });
        }
        let StripeFiles { queue, lock } = slot.as_ref().expect("opened above");
        host::lock(queue, LockMode::Exclusive, deadline)?;
        let result = host::lock(lock, LockMode::Exclusive, deadline);
        host::unlock(queue)?;
        result?;
        Ok(StripeLock { locks: self, index, is_marked: false, files: Some(slot) })
    }

    fn lock_tree_shared(&self, deadline: Instant) -> HostResult<SharedTreeLock<'_>> {
        let guard = self.tree_in_process.try_read_until(deadline).ok_or(Errno::TIMEDOUT)?;
        let mut shared = self.shared_holders.try_lock_until(deadline).ok_or(Errno::TIMEDOUT)?;
        // New threads join those that hold the lock, but not for ever: another process may be waiting for exclusive
        // access.
        while shared.holders > 0 && shared.since.elapsed() > SHARED_TURN_TIME {
            if self.no_shared_holders.wait_until(&mut shared, deadline).timed_out() {
                return Err(Errno::TIMEDOUT);
            }
        }
        if shared.holders == 0 {
            self.lock_tree_file(LockMode::Shared, deadline)?;
            shared.since = Instant::now();
        }
        shared.holders += 1;
        drop(shared);
        Ok(SharedTreeLock { locks: self, _in_process: guard })
    }

    /// Locks the tree exclusively for a change; `None` if a process died while it held a lock, and recovery must run
    /// first.
    pub(super) fn lock_tree(&self) -> StoreResult<Option<TreeLock<'_>>> {
        let mut tree_lock = self.lock_tree_for_recovery()?;
        if self.acting_cells.all()?.into_iter().any(|cell| self.is_abandoned(cell)) {
            return Ok(None);
        }
        self.mark_acting(TREE_CELL, self.own_number)?;
        tree_lock.is_marked = true;
        Ok(Some(tree_lock))
    }

    /// Locks the tree exclusively, even if dead processes have left cells.
    pub(super) fn lock_tree_for_recovery(&self) -> StoreResult<TreeLock<'_>> {
        let deadline = self.wait_deadline();
        let guard = self
            .tree_in_process
            .try_write_until(deadline)
            .ok_or(Errno::TIMEDOUT)
            .map_err(errno_to_store_error)?;
        self.lock_tree_file(LockMode::Exclusive, deadline).map_err(errno_to_store_error)?;
        Ok(TreeLock { locks: self, is_marked: false, _in_process: guard })
    }

    /// Waits for the tree's lock file. A process that waits holds the queue, so that new processes wait behind it.
    fn lock_tree_file(&self, lock: LockMode, deadline: Instant) -> HostResult<()> {
        host::lock(&self.tree_queue, LockMode::Exclusive, deadline)?;
        let result = host::lock(&self.tree, lock, deadline);
        host::unlock(&self.tree_queue)?;
        result
    }
}

/// The permit for one change; returned when dropped.
#[derive(Debug)]
pub(super) struct ChangePermit<'a>(&'a Locks);

impl Drop for ChangePermit<'_> {
    fn drop(&mut self) {
        *self.0.active_changes.lock() -= 1;
        self.0.permit_returned.notify_one();
    }
}

/// The locks of an ordinary change. The fields are dropped in order: the stripes first, then the tree.
#[derive(Debug)]
pub(super) struct NameLocks<'a> {
    _stripes: Vec<StripeLock<'a>>,
    _tree: SharedTreeLock<'a>,
}

#[derive(Debug)]
struct StripeLock<'a> {
    locks: &'a Locks,
    index: usize,
    /// Whether this Store's number is in the lock's cell.
    is_marked: bool,
    files: Option<MutexGuard<'a, Option<StripeFiles>>>,
}

impl Drop for StripeLock<'_> {
    fn drop(&mut self) {
        let Some(slot) = self.files.take() else { return };
        if self.is_marked {
            self.locks.unmark_acting(self.index);
        }
        if let Some(pair) = &*slot {
            // Closing the file would release the lock, too; nothing can be done about a failure.
            let _ = host::unlock(&pair.lock);
        }
        MutexGuard::unlock_fair(slot);
    }
}

#[derive(Debug)]
struct SharedTreeLock<'a> {
    locks: &'a Locks,
    _in_process: RwLockReadGuard<'a, ()>,
}

impl Drop for SharedTreeLock<'_> {
    fn drop(&mut self) {
        let mut shared = self.locks.shared_holders.lock();
        shared.holders -= 1;
        if shared.holders == 0 {
            let _ = host::unlock(&self.locks.tree);
            self.locks.no_shared_holders.notify_all();
        }
    }
}

/// The exclusive lock of the whole tree.
#[derive(Debug)]
pub(super) struct TreeLock<'a> {
    locks: &'a Locks,
    is_marked: bool,
    _in_process: RwLockWriteGuard<'a, ()>,
}

impl Drop for TreeLock<'_> {
    fn drop(&mut self) {
        if self.is_marked {
            self.locks.unmark_acting(TREE_CELL);
        }
        let _ = host::unlock(&self.locks.tree);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

    use super::*;

    fn locks(dir: &std::path::Path) -> Locks {
        let (dir, wait_timeout) = (host::open_ambient(dir).unwrap(), Duration::from_secs(60));
        Locks::new(dir, wait_timeout, fastrand::u64(1..), Arc::default()).unwrap()
    }

    #[test]
    fn a_name_has_one_holder_at_a_time_and_the_tree_lock_excludes_all_others() {
        let dir = tempfile::tempdir().unwrap();
        // Two sets of locks on one directory: what two processes would have.
        let sets = [locks(dir.path()), locks(dir.path())];
        let (name_holders, tree_holders) = (AtomicI32::new(0), AtomicI32::new(0));
        std::thread::scope(|scope| {
            for index in 0..16 {
                let (sets, name_holders, tree_holders) = (&sets, &name_holders, &tree_holders);
                scope.spawn(move || {
                    for round in 0..200 {
                        let _permit = sets[index % 2].admit_change();
                        if round % 10 == index % 10 {
                            let _lock = sets[index % 2].lock_tree().unwrap().unwrap();
                            assert_eq!(tree_holders.fetch_add(1, Ordering::SeqCst), 0);
                            assert_eq!(name_holders.load(Ordering::SeqCst), 0);
                            tree_holders.fetch_sub(1, Ordering::SeqCst);
                        } else {
                            let _lock = sets[index % 2]
                                .lock_names(&mut [Stripe(7), Stripe(3), Stripe(7)])
                                .unwrap()
                                .unwrap();
                            assert_eq!(name_holders.fetch_add(1, Ordering::SeqCst), 0);
                            assert_eq!(tree_holders.load(Ordering::SeqCst), 0);
                            name_holders.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn the_lock_of_a_dead_process_is_not_granted_before_its_staging_directory_is_recovered() {
        let dir = tempfile::tempdir().unwrap();
        let stopping_locks = || {
            let fault_point = Arc::new(FaultPoint::new(Some(Arc::new(|_| true))));
            let dir = host::open_ambient(dir.path()).unwrap();
            (Locks::new(dir, Duration::from_secs(60), 7, fault_point.clone()).unwrap(), fault_point)
        };
        let live_locks = locks(dir.path());
        let (locks, fault_point) = stopping_locks();
        let name_locks = locks.lock_names(&mut [Stripe(3)]).unwrap().unwrap();
        fault_point.pass("death").unwrap_err();
        drop(name_locks);
        assert!(live_locks.lock_names(&mut [Stripe(3), Stripe(4)]).unwrap().is_none());
        assert!(live_locks.lock_tree().unwrap().is_none());
        assert!(live_locks.lock_names(&mut [Stripe(4)]).unwrap().is_some(), "other names are nobody's");
        let tree_lock = live_locks.lock_tree_for_recovery().unwrap();
        assert_eq!(live_locks.acting_numbers().unwrap(), [7]);
        live_locks.clear_acting().unwrap();
        drop(tree_lock);
        let (locks, fault_point) = stopping_locks();
        let tree_lock = locks.lock_tree().unwrap().unwrap();
        fault_point.pass("death").unwrap_err();
        drop(tree_lock);
        assert!(live_locks.lock_names(&mut [Stripe(4)]).unwrap().is_none(), "everything was the dead one's");
    }

    #[test]
    fn no_lock_holder_is_starved() {
        const TURNS: u64 = 50;
        let dir = tempfile::tempdir().unwrap();
        let sets: Vec<_> = (0..4).map(|_| locks(dir.path())).collect();
        let turns: Vec<_> = (0..16).map(|_| AtomicU64::new(0)).collect();
        let all_had_enough_turns = || turns.iter().all(|turns| turns.load(Ordering::Relaxed) >= TURNS);
        std::thread::scope(|scope| {
            for (index, own_turns) in turns.iter().enumerate() {
                let (set, all_had_enough_turns) = (&sets[index % 4], &all_had_enough_turns);
                scope.spawn(move || {
                    // Nobody stops coming before everybody had enough turns; a minute is for machines that stand still.
                    let deadline = Instant::now() + Duration::from_secs(60);
                    while !all_had_enough_turns() && Instant::now() < deadline {
                        if index == 0 {
                            let _lock = set.lock_tree().unwrap().unwrap();
                            own_turns.fetch_add(1, Ordering::Relaxed);
                        } else {
                            let _lock = set.lock_names(&mut [Stripe(index)]).unwrap().unwrap();
                            own_turns.fetch_add(1, Ordering::Relaxed);
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                });
            }
        });
        assert!(all_had_enough_turns(), "someone was starved: {turns:?}");
    }
}
