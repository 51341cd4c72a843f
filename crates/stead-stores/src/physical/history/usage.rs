//! Usage counters of quota roots. A counter starts with a scan of the disk; each change then adds its differences.

use std::ops::ControlFlow;

use stead_core::search::WalkOptions;
use stead_core::store::{
    NodeKind, NodePath, QuotaRoot, StoreError, StorePath, StoreResult, Usage, WalkEntry,
};
use stead_core::{Clock, SystemClock};

use super::super::PhysicalStore;
use super::super::change::PhysicalChange;
use super::super::mask::{is_at_or_below, join};
use super::ledger_event::{Fingerprint, LedgerEvent, LedgerEventKind};
use crate::ledger::UsageDelta;

/// The age in seconds at which a counter is compared with the disk: what other programs do isn't counted.
const RECOUNT_AFTER_SECONDS: i64 = 600;

/// The usage that one file adds or removes. A file that changes its size is removed and added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UsageChange {
    path: Vec<u8>,
    bytes: i64,
    files: i64,
    /// The file's size, if it has to be checked against the limit for a single file.
    new_size: Option<u64>,
    /// The path that it was moved from, if it was moved.
    moved_from: Option<Vec<u8>>,
}

impl UsageChange {
    fn removed(path: Vec<u8>, fingerprint: &Fingerprint) -> Option<Self> {
        let bytes = counted_bytes(fingerprint)?;
        Some(UsageChange { path, bytes: -bytes.cast_signed(), files: -1, new_size: None, moved_from: None })
    }

    fn added(path: Vec<u8>, fingerprint: &Fingerprint) -> Option<Self> {
        let bytes = counted_bytes(fingerprint)?;
        Some(UsageChange {
            path,
            bytes: bytes.cast_signed(),
            files: 1,
            new_size: Some(bytes),
            moved_from: None,
        })
    }

    /// A file got other content: one change instead of a removal and an addition.
    fn replaced(path: Vec<u8>, before: &Fingerprint, after: &Fingerprint) -> Option<Self> {
        let (removed, added) = (counted_bytes(before)?, UsageChange::added(path, after)?);
        Some(UsageChange { bytes: added.bytes - removed.cast_signed(), files: 0, ..added })
    }

    fn moved(from: Vec<u8>, to: Vec<u8>, fingerprint: &Fingerprint) -> Option<Self> {
        Some(UsageChange { moved_from: Some(from), ..UsageChange::added(to, fingerprint)? })
    }

    /// The same for a file that was there before, whose size isn't checked.
    fn into_revived(self) -> Self {
        UsageChange { new_size: None, ..self }
    }
}

/// The bytes that an entry counts for; `None` for a directory.
fn counted_bytes(fingerprint: &Fingerprint) -> Option<u64> {
    match fingerprint.kind {
        NodeKind::Directory => None,
        NodeKind::File => Some(fingerprint.size),
        NodeKind::Symlink | NodeKind::Special(_) => Some(0),
    }
}

/// Whether a path lies below a root, and is not the root itself.
fn is_below(path: &[u8], root: &[u8]) -> bool {
    path != root && is_at_or_below(path, root)
}

/// The sum of the usage changes below each root, without roots where it is zero.
pub(super) fn usage_deltas(roots: &[Vec<u8>], usage_changes: &[UsageChange]) -> Vec<UsageDelta> {
    let sum = |root: &Vec<u8>| {
        let below_root = usage_changes.iter().filter(|change| is_below(&change.path, root));
        let (bytes, files) =
            below_root.fold((0, 0), |(bytes, files), change| (bytes + change.bytes, files + change.files));
        UsageDelta { path: root.clone(), bytes, files }
    };
    roots.iter().map(sum).filter(|delta| (delta.bytes, delta.files) != (0, 0)).collect()
}

/// Checks the sizes of single files against the quotas. Files that move within a quota's roots aren't checked.
pub(super) fn check_file_sizes(quotas: &[QuotaRoot], usage_changes: &[UsageChange]) -> StoreResult<()> {
    for quota in quotas {
        let is_inside = |path: &[u8]| quota.roots().any(|root| is_below(path, root.as_bytes()));
        for change in usage_changes.iter().filter(|change| is_inside(&change.path)) {
            if !change.moved_from.as_deref().is_some_and(is_inside) {
                quota.limits.check_file_size(change.new_size.unwrap_or(0))?;
            }
        }
    }
    Ok(())
}

impl PhysicalChange<'_> {
    /// Starts the usage counters that the change's quotas need. What isn't counted yet is scanned, with the tree locked
    /// so that no other change is made meanwhile.
    pub(in super::super) fn begin_usage_counters(&mut self) -> StoreResult<()> {
        let transaction = &self.ledger;
        if transaction.quotas.is_empty() {
            return Ok(());
        }
        let counters = transaction.ledger.counters()?;
        let is_counted =
            |path: &[u8]| counters.iter().any(|(root, counter)| **root == *path && !counter.is_stale);
        let uncounted: Vec<StorePath> = transaction
            .quotas
            .iter()
            .flat_map(QuotaRoot::roots)
            .filter(|path| !is_counted(path.as_bytes()))
            .cloned()
            .collect();
        if uncounted.is_empty() {
            return Ok(());
        }
        self.make_multi_action()?;
        let mut new_counters = Vec::with_capacity(uncounted.len());
        for path in uncounted {
            new_counters.push((path.as_bytes().to_vec(), usage_below(self.store, &path)?));
        }
        self.ledger.new_counters = new_counters;
        Ok(())
    }

    /// Counts what an action will do, if anything is counted.
    pub(super) fn count_action(&mut self, events: &[LedgerEvent]) -> StoreResult<()> {
        if self.ledger.counted_roots()?.is_empty() {
            return Ok(());
        }
        let mut usage_changes = Vec::new();
        for event in events {
            let (before, after) = (event.detail.before.as_ref(), event.detail.after.as_ref());
            let path = || event.path.clone();
            match event.kind {
                LedgerEventKind::Placed => usage_changes
                    .extend(after.and_then(|fingerprint| UsageChange::added(path(), fingerprint))),
                LedgerEventKind::Replaced | LedgerEventKind::Patched => {
                    let replaced = before.zip(after);
                    usage_changes.extend(
                        replaced.and_then(|(before, after)| UsageChange::replaced(path(), before, after)),
                    );
                }
                LedgerEventKind::Removed if event.displaced_kept => {
                    self.each_entry_below(&event.path, before, |below, fingerprint| {
                        usage_changes.extend(UsageChange::removed(join(&event.path, below), fingerprint));
                    })?
                }
                // Each entry below it has its own row.
                LedgerEventKind::Removed => usage_changes
                    .extend(before.and_then(|fingerprint| UsageChange::removed(path(), fingerprint))),
                LedgerEventKind::Moved | LedgerEventKind::Exchanged => {
                    let other_path = event.other_path.as_deref().unwrap_or_default();
                    let mut add_move = |from: &[u8], to: &[u8], below: &[u8], fingerprint: &Fingerprint| {
                        usage_changes.extend(UsageChange::removed(join(from, below), fingerprint));
                        usage_changes.extend(UsageChange::moved(
                            join(from, below),
                            join(to, below),
                            fingerprint,
                        ));
                    };
                    self.each_entry_below(&event.path, before, |below, fingerprint| {
                        add_move(&event.path, other_path, below, fingerprint)
                    })?;
                    if event.kind == LedgerEventKind::Exchanged {
                        self.each_entry_below(other_path, after, |below, fingerprint| {
                            add_move(other_path, &event.path, below, fingerprint)
                        })?;
                    }
                }
                LedgerEventKind::AttributesSet => {}
            }
        }
        if self.ledger.is_restoring() {
            usage_changes = usage_changes.into_iter().map(UsageChange::into_revived).collect();
        }
        self.ledger.add_usage_changes(usage_changes);
        Ok(())
    }

    /// Calls `visit` for the entry at a path, or for everything visible below it if it is a directory.
    fn each_entry_below(
        &self,
        path: &[u8],
        fingerprint: Option<&Fingerprint>,
        mut visit: impl FnMut(&[u8], &Fingerprint),
    ) -> StoreResult<()> {
        let Some(fingerprint) = fingerprint else { return Ok(()) };
        if fingerprint.kind != NodeKind::Directory {
            visit(b"", fingerprint);
            return Ok(());
        }
        let directory = NodePath::from_root(StorePath::from_checked(path));
        self.store.walk_below(&directory, &WalkOptions::default(), &mut |entry| {
            let fingerprint = Fingerprint { kind: entry.attr.kind, size: entry.attr.size, ..*fingerprint };
            visit(entry.path.as_bytes(), &fingerprint);
            ControlFlow::Continue(())
        })
    }
}

impl PhysicalStore {
    /// The usage below a path. Comes from the counter if there is one; a counter that is old or stale is compared with
    /// the disk first.
    pub(in super::super) fn counted_usage(&self, at: &StorePath) -> StoreResult<Usage> {
        // Without a ledger, as where nothing can be written, there are no counters.
        let Some(ledger) = self.ledger().ok().flatten() else { return usage_below(self, at) };
        let counters = ledger.counters()?;
        let Some((_, counter)) = counters.iter().find(|(path, _)| **path == *at.as_bytes()) else {
            return usage_below(self, at);
        };
        let now = SystemClock.now();
        if !counter.is_stale && now.as_secs() - counter.counted_at.as_secs() < RECOUNT_AFTER_SECONDS {
            return Ok(counter.usage);
        }
        let found = usage_below(self, at)?;
        ledger.correct_counter(at.as_bytes().to_vec(), counter.usage, found, now)?;
        Ok(found)
    }
}

/// Scans the disk for the usage below a path; zero if there is no directory.
fn usage_below(store: &PhysicalStore, at: &StorePath) -> StoreResult<Usage> {
    let mut usage = Usage::default();
    let count = &mut |found: WalkEntry| {
        usage.count(&found.attr);
        ControlFlow::Continue(())
    };
    match store.walk_below(&NodePath::from_root(at.clone()), &WalkOptions::default(), count) {
        Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => {}
        walked => walked?,
    }
    Ok(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage_change(path: &str, bytes: i64, files: i64) -> UsageChange {
        UsageChange { path: path.into(), bytes, files, new_size: None, moved_from: None }
    }

    #[test]
    fn a_change_counts_for_every_root_above_it() {
        let roots = [b"".to_vec(), b"w".to_vec(), b"w/in".to_vec(), b"x".to_vec()];
        let usage_changes = [
            usage_change("w/a", 5, 1),
            usage_change("w/in/b", -3, -1),
            usage_change("wx", 7, 1),
            usage_change("x", 100, 1),
        ];
        let found: Vec<_> = usage_deltas(&roots, &usage_changes)
            .into_iter()
            .map(|delta| (String::from_utf8(delta.path).unwrap(), delta.bytes, delta.files))
            .collect();
        assert_eq!(found, [("".into(), 109, 2), ("w".into(), 2, 0), ("w/in".into(), -3, -1)]);
    }
}
