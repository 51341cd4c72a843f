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
        let history = &self.history;
        let Some(ledger) = history.ledger()? else { return Ok(()) };
        ledger.write_finished()?;
        // What unfinished changes displaced is still in a staging directory.
        let pending: HashSet<_> = ledger.pending_intents()?.iter().map(|pending| pending.revision).collect();
        let mut rows = LedgerRows::new(&*ledger);
        while let Some(stored_row) = rows.next()? {
            let row = (stored_row.revision, stored_row.row.seq);
            if !stored_row.row.displaced_kept || pending.contains(&stored_row.revision) {
                continue;
            }
            let description = || format!("the content that version {} displaced (entry {})", row.0, row.1);
            match (history.stat_displaced(row, b""), stored_row.content_hash) {
                (None, _) => verified.problems.push(format!("{} is missing", description())),
                (Some(stat), Some(hash)) => {
                    verified.contents += 1;
                    let source = ContentSource::displaced(row, Vec::new(), &Fingerprint::of(&stat));
                    if source.hash(&self.root, history).ok() != Some(hash) {
                        verified.problems.push(format!("{} doesn't match its hash", description()));
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
        let history = &self.history;
        if let Some(ledger) = history.ledger()? {
            ledger.destroy()?;
            *history.ledger.lock() = None;
        }
        for displaced_dir in history.displaced_dirs() {
            for name in displaced_names(displaced_dir)? {
                tree::remove(displaced_dir, &name).map_err(errno_to_store_error)?;
            }
        }
        Ok(())
    }
}

impl PhysicalHistory {
    /// Prunes once the content added since the last time is an eighth of the limit.
    pub(super) fn prune_if_needed(&self, new_bytes: u64, ledger: &dyn Ledger) {
        let threshold = self.retention.unwrap_or_default().bytes / 8;
        if new_bytes == 0
            || self.bytes_since_prune.fetch_add(new_bytes, Ordering::Relaxed) + new_bytes < threshold
        {
            return;
        }
        self.bytes_since_prune.store(0, Ordering::Relaxed);
        // The change itself is done, so an error isn't reported: a later change prunes again.
        let _ = self.prune(SystemClock.now(), ledger);
    }

    fn prune(&self, now: Timestamp, ledger: &dyn Ledger) -> StoreResult<Pruned> {
        ledger.write_finished()?;
        let newest = ledger.latest_revision()?.0;
        let (age, max_bytes) =
            self.retention.map_or((Duration::ZERO, 0), |retention| (retention.age, retention.bytes));
        let age = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
        let oldest = Timestamp(now.0.saturating_sub(age));
        let (mut dropped, mut freed, mut kept) = (Vec::new(), 0_u64, 0_u64);
        let mut is_full = false;
        let mut known_names: HashSet<Box<[u8]>> = HashSet::new();
        for (row, at) in ledger.rows_with_content()? {
            let name = displaced_name(row.0, row.1).into_bytes();
            let found = self
                .displaced_dir_of(row)
                .and_then(|displaced_dir| entries_below(displaced_dir, &name))
                .unwrap_or_default();
            let size: u64 = found.iter().map(|(_, fingerprint)| footprint(fingerprint)).sum();
            // Rows come newest first: once there is too much, all rows that follow are too much.
            is_full |= kept.saturating_add(size) > max_bytes;
            if at < oldest || is_full {
                dropped.push(row);
                freed = freed.saturating_add(size);
            } else {
                kept = kept.saturating_add(size);
            }
            known_names.insert(name.into());
        }
        // The ledger first: content without a row is removed below, but a row without content would be wrong.
        if !dropped.is_empty() {
            ledger.mark_content_dropped(dropped.clone())?;
        }
        for row in dropped {
            if let Ok(displaced_dir) = self.displaced_dir_of(row) {
                let _ = tree::remove(displaced_dir, displaced_name(row.0, row.1).as_bytes());
            }
        }
        for displaced_dir in self.own_displaced_dirs() {
            let mut orphans = displaced_names(displaced_dir)?;
            orphans.retain(|name| !known_names.contains(&**name));
            // Content newer than all revisions belongs to changes that were not read above.
            let rows = orphans.iter().filter_map(|name| parse_displaced_name(name));
            remove_orphans(
                ledger,
                displaced_dir,
                rows.filter(|(revision, _)| *revision <= newest).collect(),
            )?;
        }
        Ok(Pruned { freed, kept })
    }
}

/// Removes displaced content that has no row in the ledger.
fn remove_orphans(ledger: &dyn Ledger, displaced_dir: &Dir, rows: Vec<(i64, i64)>) -> StoreResult<()> {
    if rows.is_empty() {
        return Ok(());
    }
    // Before the rows are read: a change that isn't pending any more has all of its rows in the ledger.
    let pending: HashSet<_> = ledger.pending_intents()?.iter().map(|pending| pending.revision).collect();
    for (revision, seq) in rows.into_iter().filter(|(revision, _)| !pending.contains(revision)) {
        let rows = ledger.rows_of(revision)?;
        if rows.iter().all(|stored_row| stored_row.row.seq != seq || !stored_row.row.displaced_kept) {
            let _ = tree::remove(displaced_dir, displaced_name(revision, seq).as_bytes());
        }
    }
    Ok(())
}

/// The row of the ledger that displaced content of this name belongs to.
fn parse_displaced_name(name: &[u8]) -> Option<(i64, i64)> {
    let (revision, seq) = std::str::from_utf8(name).ok()?.split_once('-')?;
    Some((revision.parse().ok()?, seq.parse().ok()?))
}

fn displaced_names(displaced_dir: &Dir) -> StoreResult<Vec<Box<[u8]>>> {
    let view = displaced_dir.enter(b"", OpenMode::Directory).map_err(errno_to_store_error)?;
    Ok(tree::names(&view).map_err(errno_to_store_error)?.into_iter().map(|(name, _)| name).collect())
}

/// How much disk space an entry takes.
pub(super) fn footprint(fingerprint: &Fingerprint) -> u64 {
    fingerprint.size.max(1).next_multiple_of(BLOCK_SIZE)
}
