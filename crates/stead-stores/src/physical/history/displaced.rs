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
    /// Moves an entry from the staging directory to the displaced content, and returns how much space it takes.
    pub(super) fn keep_displaced(
        &self,
        shop: &StagingArea,
        stash: &str,
        row: (i64, i64),
        ledger: &dyn Ledger,
    ) -> StoreResult<u64> {
        self.move_displaced(shop.staging_dir(), stash, row).map_err(errno_to_store_error)?;
        self.drop_large_files(row, ledger)
    }

    /// Moves an entry from a staging directory to the displaced content.
    pub(super) fn move_displaced(
        &self,
        room: &Dir,
        stash: &str,
        (version, seq): (i64, i64),
    ) -> Result<(), Errno> {
        let name = displaced_name(version, seq);
        let take = |past: &Dir| {
            owner_access::rename_new((room.as_fd(), stash.as_bytes()), (past.as_fd(), name.as_bytes()))
        };
        let mut pasts = self.own_displaced_dirs();
        let taken = pasts.next().map_or(Err(Errno::NOENT), take);
        match (taken, pasts.next()) {
            // A full disk may have no block for one more name in a directory.
            (Err(Errno::NOSPC | Errno::DQUOT), Some(more)) => {
                take(more)?;
                sync::sync_all(sync::SyncPoint::DisplacedContent, more)
            }
            (taken, _) => taken,
        }
    }

    /// Removes files that are too large to be kept from a displaced tree, and returns how much space the rest takes.
    /// Each of these files gets a ledger row.
    pub(super) fn drop_large_files(
        &self,
        (version, seq): (i64, i64),
        ledger: &dyn Ledger,
    ) -> StoreResult<u64> {
        let name = displaced_name(version, seq);
        let past = self.displaced_dir_of((version, seq))?;
        let top = host::stat_at(past.as_fd(), name.as_bytes()).map_err(errno_to_store_error)?;
        if !top.is_dir() {
            return Ok(footprint(&Fingerprint::of(&top)));
        }
        let found = entries_below(past, name.as_bytes())?;
        let (large, small): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(_, face)| face.size > self.max_file_bytes());
        let mut rows = Vec::new();
        if !large.is_empty() {
            let told = ledger.rows_of(version)?;
            let at = told.iter().find(|told| told.row.seq == seq).map(|told| told.row.path.clone());
            // In the ledger, what was removed with the tree is removed just before it.
            let first = told.iter().map(|told| told.row.seq).min().unwrap_or(0).min(0);
            for ((path, face), seq) in large.iter().zip((i64::MIN..first).rev()) {
                let (parent, last) = split(path);
                let dir = owner_access::enter(past, &join(name.as_bytes(), parent))
                    .map_err(errno_to_store_error)?;
                host::unlink(dir.as_fd(), last).map_err(errno_to_store_error)?;
                let path = join(at.as_deref().unwrap_or_default(), path);
                let detail = LedgerEventDetail { before: Some(*face), ..LedgerEventDetail::default() };
                let said = LedgerEvent {
                    kind: LedgerEventKind::Removed,
                    path,
                    other_path: None,
                    detail,
                    displaced_kept: false,
                };
                rows.push(said.to_row(seq));
            }
            ledger.add_rows(version, rows)?;
        }
        Ok(small.iter().map(|(_, face)| footprint(face)).sum())
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
        for (path, face) in &found {
            let changes = (face.kind != NodeKind::Directory).then_some((face.size, face.modified));
            let text = serde_json::to_vec(&(path, face.kind, face.ino, changes));
            hasher.update(&text.expect("plain data can be written as JSON"));
        }
        let hash = *hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes");
        let files = || found.iter().map(|(_, face)| face).filter(|face| face.kind != NodeKind::Directory);
        Ok(TreeFingerprint {
            hash: u64::from_le_bytes(hash),
            entries: found.len(),
            bytes: files().map(|face| face.size).sum(),
            newest: files().map(|face| face.modified).max().unwrap_or(Timestamp(0)),
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
    let top = host::stat_at(dir.as_fd(), name).map_err(errno_to_store_error)?;
    let mut found = vec![(Vec::new(), Fingerprint::of(&top))];
    if !top.is_dir() {
        return Ok(found);
    }
    let mut open = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let here = owner_access::enter(dir, &join(name, &path)).map_err(errno_to_store_error)?;
        for (name, _) in tree::names(&here).map_err(errno_to_store_error)? {
            let stat = here.stat_at(&name).map_err(errno_to_store_error)?;
            let path = join(&path, &name);
            if stat.is_dir() {
                open.push(path.clone());
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
    fn less_and_no_newer_is_a_power_cut_and_anything_else_another_program() {
        let temp = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient(temp.path(), Confinement::Automatic).unwrap();
        let path = temp.path().join("file");
        std::fs::write(&path, "content").unwrap();
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        let left = TreeFingerprint::of(&dir, b"file").unwrap();
        let is_as_left = || TreeFingerprint::of(&dir, b"file").unwrap().is_unchanged_since(&left);
        assert!(is_as_left());
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        file.set_len(0).unwrap();
        file.set_modified(modified).unwrap();
        assert!(is_as_left(), "its content was lost");
        file.set_modified(modified + std::time::Duration::from_secs(9)).unwrap();
        assert!(!is_as_left(), "cut later");
        (&file).write_all(b"content, and more").unwrap();
        file.set_modified(modified).unwrap();
        assert!(!is_as_left(), "more than there was");
    }
}
