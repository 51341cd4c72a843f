//! Moves displaced content to the directories where it is kept, and fingerprints trees.

use std::os::fd::AsFd;

use serde::{Deserialize, Serialize};
use stead_core::store::{NodeKind, StoreResult};
use stead_core::{Clock, SystemClock, Timestamp};

use super::super::host::{self, Errno, errno_to_store_error};
use super::super::mask::{join, split};
use super::super::owner_access;
use super::super::root::Dir;
use super::super::staging_area::StagingArea;
use super::super::tree;
use super::ledger_event::{Fingerprint, LedgerEvent, LedgerEventDetail, LedgerEventKind};
use super::prune::footprint;
use super::{PhysicalHistory, displaced_name};
use crate::ledger::Ledger;
use crate::sync;

impl PhysicalHistory {
    /// Moves an entry from the staging directory to the displaced content. Returns how much space it takes, and how many of its files
    /// are too large to be kept.
    pub(super) fn keep_displaced(
        &self,
        staging: &StagingArea,
        staged_name: &str,
        row: (i64, i64),
        ledger: &dyn Ledger,
    ) -> StoreResult<(u64, u64)> {
        self.move_displaced(staging.staging_dir(), staged_name, row).map_err(errno_to_store_error)?;
        self.drop_large_files(row, ledger)
    }

    /// Moves an entry from a staging directory to the displaced content.
    pub(super) fn move_displaced(
        &self,
        staging_dir: &Dir,
        staged_name: &str,
        (revision, seq): (i64, i64),
    ) -> Result<(), Errno> {
        let name = displaced_name(revision, seq);
        let move_to = |displaced_dir: &Dir| {
            owner_access::rename_new(
                (staging_dir.as_fd(), staged_name.as_bytes()),
                (displaced_dir.as_fd(), name.as_bytes()),
            )
        };
        let mut displaced_dirs = self.own_displaced_dirs();
        let result = displaced_dirs.next().map_or(Err(Errno::NOENT), move_to);
        match (result, displaced_dirs.next()) {
            // A full disk may have no block for one more name in a directory.
            (Err(Errno::NOSPC | Errno::DQUOT), Some(overflow)) => {
                move_to(overflow)?;
                sync::sync_all(sync::SyncPoint::DisplacedContent, overflow)
            }
            (result, _) => result,
        }
    }

    /// Removes files that are too large to be kept from a displaced tree. Returns how much space the rest takes, and how many were
    /// removed. Each of these files gets a ledger row.
    pub(super) fn drop_large_files(
        &self,
        (revision, seq): (i64, i64),
        ledger: &dyn Ledger,
    ) -> StoreResult<(u64, u64)> {
        let name = displaced_name(revision, seq);
        let displaced_dir = self.displaced_dir_of((revision, seq))?;
        let stat = host::stat_at(displaced_dir.as_fd(), name.as_bytes()).map_err(errno_to_store_error)?;
        if !stat.is_dir() {
            return Ok((footprint(&Fingerprint::of(&stat)), 0));
        }
        let found = entries_below(displaced_dir, name.as_bytes())?;
        let (large, small): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(_, fingerprint)| fingerprint.size > self.max_file_bytes());
        let mut rows = Vec::new();
        if !large.is_empty() {
            let stored_rows = ledger.rows_of(revision)?;
            let at = stored_rows
                .iter()
                .find(|stored_row| stored_row.row.seq == seq)
                .map(|stored_row| stored_row.row.path.clone());
            // In the ledger, what was removed with the tree is removed just before it.
            let first = stored_rows.iter().map(|stored_row| stored_row.row.seq).min().unwrap_or(0).min(0);
            for ((path, fingerprint), seq) in large.iter().zip((i64::MIN..first).rev()) {
                let (parent, last) = split(path);
                let dir = owner_access::enter(displaced_dir, &join(name.as_bytes(), parent))
                    .map_err(errno_to_store_error)?;
                host::unlink(dir.as_fd(), last).map_err(errno_to_store_error)?;
                let path = join(at.as_deref().unwrap_or_default(), path);
                let detail = LedgerEventDetail { before: Some(*fingerprint), ..LedgerEventDetail::default() };
                let event = LedgerEvent {
                    kind: LedgerEventKind::Removed,
                    path,
                    other_path: None,
                    detail,
                    displaced_kept: false,
                };
                rows.push(event.to_row(seq));
            }
            ledger.add_rows(revision, rows)?;
        }
        Ok((small.iter().map(|(_, fingerprint)| footprint(fingerprint)).sum(), large.len() as u64))
    }
}

/// A fingerprint of an entry and everything below it, to find out whether any of it was changed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct TreeFingerprint {
    /// A hash of names, kinds and inodes, and of the sizes and times of everything but directories, whose times change
    /// with their entries.
    hash: u64,
    /// The total size of everything but directories.
    entries: usize,
    /// The newest modification time of everything but directories.
    bytes: u64,
    newest: Timestamp,
    /// When it was taken.
    at: Timestamp,
}

impl TreeFingerprint {
    pub(in super::super) fn of(dir: &Dir, name: &[u8]) -> StoreResult<Self> {
        let found = entries_below(dir, name)?;
        let mut hasher = blake3::Hasher::new();
        for (path, fingerprint) in &found {
            let changes =
                (fingerprint.kind != NodeKind::Directory).then_some((fingerprint.size, fingerprint.modified));
            let text = serde_json::to_vec(&(path, fingerprint.kind, fingerprint.ino, changes));
            hasher.update(&text.expect("plain data can be written as JSON"));
        }
        let hash = *hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes");
        let files = || {
            found
                .iter()
                .map(|(_, fingerprint)| fingerprint)
                .filter(|fingerprint| fingerprint.kind != NodeKind::Directory)
        };
        Ok(TreeFingerprint {
            hash: u64::from_le_bytes(hash),
            entries: found.len(),
            bytes: files().map(|fingerprint| fingerprint.size).sum(),
            newest: files().map(|fingerprint| fingerprint.modified).max().unwrap_or(Timestamp(0)),
            at: SystemClock.now(),
        })
    }

    /// Whether no other program has changed the tree since `earlier` was taken. A power cut may have lost some of it:
    /// that shows as fewer entries and bytes, and nothing newer.
    pub(in super::super) fn is_unchanged_since(&self, earlier: &TreeFingerprint) -> bool {
        self.hash == earlier.hash
            || self.entries <= earlier.entries && self.bytes <= earlier.bytes && self.newest <= earlier.at
    }
}

/// An entry in one of Stead's own directories, and everything below it, parents first, with paths relative to the
/// entry.
pub(super) fn entries_below(dir: &Dir, name: &[u8]) -> StoreResult<Vec<(Vec<u8>, Fingerprint)>> {
    let stat = host::stat_at(dir.as_fd(), name).map_err(errno_to_store_error)?;
    let mut found = vec![(Vec::new(), Fingerprint::of(&stat))];
    if !stat.is_dir() {
        return Ok(found);
    }
    let mut pending = vec![Vec::new()];
    while let Some(path) = pending.pop() {
        let current = owner_access::enter(dir, &join(name, &path)).map_err(errno_to_store_error)?;
        for (name, _) in tree::names(&current).map_err(errno_to_store_error)? {
            let stat = current.stat_at(&name).map_err(errno_to_store_error)?;
            let path = join(&path, &name);
            if stat.is_dir() {
                pending.push(path.clone());
            }
            found.push((path, Fingerprint::of(&stat)));
        }
    }
    // A parent sorts before its entries.
    found[1..].sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::super::options::Confinement;
    use super::*;

    #[test]
    fn fewer_bytes_and_no_newer_time_count_as_a_power_cut_and_not_as_another_program() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient(temp.path(), Confinement::Automatic).unwrap();
        let path = temp.path().join("file");
        std::fs::write(&path, "content").unwrap();
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        let before = TreeFingerprint::of(&dir, b"file").unwrap();
        let is_unchanged = || TreeFingerprint::of(&dir, b"file").unwrap().is_unchanged_since(&before);
        assert!(is_unchanged());
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        file.set_len(0).unwrap();
        file.set_modified(modified).unwrap();
        assert!(is_unchanged(), "its content was lost");
        file.set_modified(modified + std::time::Duration::from_secs(9)).unwrap();
        assert!(!is_unchanged(), "cut later");
        (&file).write_all(b"content, and more").unwrap();
        file.set_modified(modified).unwrap();
        assert!(!is_unchanged(), "more than there was");
    }
}
