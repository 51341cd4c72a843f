//! Removes displaced content that is too old or too much; also checks displaced content, and removes all history.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use stead_core::store::{StoreError, StoreResult, VerifyReport};
use stead_core::{Clock, SystemClock, Timestamp};

use super::super::host::{OpenMode, errno_to_store_error};
use super::super::root::Dir;
use super::super::tree;
use super::super::{PhysicalStore, Pruned};
use super::displaced::entries_below;
use super::ledger_event::Fingerprint;
use super::ledger_rows::LedgerRows;
use super::old_content::ContentSource;
use super::{PhysicalHistory, displaced_name};
use crate::ledger::Ledger;

/// Hosts allocate space in blocks, so many small files take much space, too.
const BLOCK_SIZE: u64 = 4_096;

impl PhysicalStore {
    /// Removes content that was displaced longer ago than it is to be kept, and the oldest if there is too much. The
    /// ledger still has what changed, and who changed it.
    pub fn prune(&self, now: Timestamp) -> StoreResult<Pruned> {
        let Some(ledger) = self.ledger()? else { return Ok(Pruned::default()) };
        // Pruning works on a full disk. On a disk that can't be written nothing can be removed, so the ledger must not
        // mark it as dropped.
        if let Err(error @ StoreError::HostDenied) = self.staging() {
            return Err(error);
        }
        self.history.prune(now, &*ledger)
    }

    /// Checks that everything that the ledger says is kept exists, and matches its hash if that is known. Adds what it
    /// finds to `verified`.
    pub(in super::super) fn verify_displaced(
        &self,
        verified: &mut VerifyReport,
        progress: &mut dyn FnMut(u64),
    ) -> StoreResult<()> {
        let keeping = &self.history;
        let Some(ledger) = keeping.ledger()? else { return Ok(()) };
        ledger.write_finished()?;
        // What unfinished changes displaced is still in a staging directory.
        let pending: HashSet<_> = ledger.pending_intents()?.iter().map(|pending| pending.revision).collect();
        let mut rows = LedgerRows::new(&*ledger);
        while let Some(told) = rows.next()? {
            let row = (told.revision, told.row.seq);
            if !told.row.displaced_kept || pending.contains(&told.revision) {
                continue;
            }
            let what = || format!("the content that version {} displaced (entry {})", row.0, row.1);
            match (keeping.stat_displaced(row, b""), told.content_hash) {
                (None, _) => verified.problems.push(format!("{} is missing", what())),
                (Some(stat), Some(hash)) => {
                    verified.contents += 1;
                    let origin = ContentSource::displaced(row, Vec::new(), &Fingerprint::of(&stat));
                    if origin.hash(&self.root, keeping).ok() != Some(hash) {
                        verified.problems.push(format!("{} doesn't match its hash", what()));
                    }
                }
                (Some(_), None) => {}
            }
            progress(verified.entries + verified.contents);
        }
        Ok(())
    }

    /// Removes the ledger and all displaced content.
    pub(in super::super) fn forget_history(&self) -> StoreResult<()> {
        let keeping = &self.history;
        if let Some(ledger) = keeping.ledger()? {
            ledger.destroy()?;
            *keeping.ledger.lock() = None;
        }
        for past in keeping.displaced_dirs() {
            for name in displaced_names(past)? {
                tree::remove(past, &name).map_err(errno_to_store_error)?;
            }
        }
        Ok(())
    }
}

impl PhysicalHistory {
    /// Prunes once the content added since the last time is an eighth of the limit.
    pub(super) fn prune_if_needed(&self, kept: u64, ledger: &dyn Ledger) {
        let much = self.retention.unwrap_or_default().bytes / 8;
        if kept == 0 || self.bytes_since_prune.fetch_add(kept, Ordering::Relaxed) + kept < much {
            return;
        }
        self.bytes_since_prune.store(0, Ordering::Relaxed);
        // The change itself is done, so an error isn't reported: a later change prunes again.
        let _ = self.prune(SystemClock.now(), ledger);
    }

    fn prune(&self, now: Timestamp, ledger: &dyn Ledger) -> StoreResult<Pruned> {
        ledger.write_finished()?;
        let newest = ledger.last_revision()?;
        let (age, most) = self.retention.map_or((Duration::ZERO, 0), |keep| (keep.age, keep.bytes));
        let age = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
        let oldest = Timestamp(now.0.saturating_sub(age));
        let (mut gone, mut freed, mut kept) = (Vec::new(), 0_u64, 0_u64);
        let mut is_full = false;
        let mut known: HashSet<Box<[u8]>> = HashSet::new();
        for (row, at) in ledger.rows_with_content()? {
            let name = displaced_name(row.0, row.1).into_bytes();
            let found =
                self.displaced_dir_of(row).and_then(|past| entries_below(past, &name)).unwrap_or_default();
            let size: u64 = found.iter().map(|(_, face)| footprint(face)).sum();
            // Rows come newest first: once there is too much, all rows that follow are too much.
            is_full |= kept.saturating_add(size) > most;
            if at < oldest || is_full {
                gone.push(row);
                freed = freed.saturating_add(size);
            } else {
                kept = kept.saturating_add(size);
            }
            known.insert(name.into());
        }
        // The ledger first: content without a row is removed below, but a row without content would be wrong.
        if !gone.is_empty() {
            ledger.mark_content_dropped(gone.clone())?;
        }
        for row in gone {
            if let Ok(past) = self.displaced_dir_of(row) {
                let _ = tree::remove(past, displaced_name(row.0, row.1).as_bytes());
            }
        }
        for past in self.own_displaced_dirs() {
            for name in displaced_names(past)? {
                // Newer content belongs to changes that were not read above.
                let version =
                    std::str::from_utf8(&name).ok().and_then(|name| name.split('-').next()?.parse().ok());
                if !known.contains(&*name) && version.is_some_and(|version: i64| version < newest) {
                    let _ = remove_orphan(ledger, past, &name);
                }
            }
        }
        Ok(Pruned { freed, kept })
    }
}

/// Removes displaced content that has no row in the ledger.
fn remove_orphan(ledger: &dyn Ledger, past: &Dir, name: &[u8]) -> StoreResult<()> {
    let text = std::str::from_utf8(name).unwrap_or_default();
    let Some((version, seq)) = text.split_once('-') else { return Ok(()) };
    let (Ok(version), Ok(seq)) = (version.parse::<i64>(), seq.parse::<i64>()) else { return Ok(()) };
    if ledger.rows_of(version)?.iter().all(|told| told.row.seq != seq || !told.row.displaced_kept) {
        tree::remove(past, name).map_err(errno_to_store_error)?;
    }
    Ok(())
}

fn displaced_names(past: &Dir) -> StoreResult<Vec<Box<[u8]>>> {
    let view = past.enter(b"", OpenMode::Directory).map_err(errno_to_store_error)?;
    Ok(tree::names(&view).map_err(errno_to_store_error)?.into_iter().map(|(name, _)| name).collect())
}

/// How much disk space an entry takes.
pub(super) fn footprint(face: &Fingerprint) -> u64 {
    face.size.max(1).next_multiple_of(BLOCK_SIZE)
}
