//! Forgets the history of a directory that is gone for good, such as that of a thread.

use stead_core::store::{Store, StorePath, StoreResult};

use super::super::PhysicalStore;
use super::super::tree;
use super::displaced_name;

impl PhysicalStore {
    /// Removes what is kept of a path and of everything below it: the ledger's events, displaced content, and what snapshots
    /// have captured. The files themselves have to be removed before. An event that moved something out of there, or into
    /// there, stays in the ledger without its content.
    ///
    /// The directory has to be that of a thread, `threads/AGENT/THREAD`: the check of the audit looks for the record of the thread's
    /// end.
    pub fn forget_below(&self, at: &StorePath) -> StoreResult<()> {
        let Some(ledger) = self.ledger()? else { return Ok(()) };
        self.sync()?;
        // The ledger first: content without a row is removed by pruning, but a row without content would be wrong.
        for (revision, seq) in ledger.forget_below(at.as_bytes().to_vec())? {
            if let Ok(displaced_dir) = self.history.displaced_dir_of((revision, seq)) {
                let _ = tree::remove(displaced_dir, displaced_name(revision, seq).as_bytes());
            }
        }
        Ok(())
    }
}
