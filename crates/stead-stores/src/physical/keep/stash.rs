//! Where displaced things lie.

use std::os::fd::AsFd;

use stead_core::store::{Kind, StoreResult};

use super::super::host::{self, Errno, How, refused};
use super::super::mask::{join, split};
use super::super::root::Dir;
use super::super::tree;
use super::super::workshop::Workshop;
use super::face::{Detail, Face, Said, What};
use super::prune::footprint;
use super::{Keeping, stash_name};
use crate::virtual_store::books::Books;

impl Keeping {
    /// Moves something from a room to where it is kept, and says how large it is.
    pub(super) fn keep(
        &self,
        shop: &Workshop,
        stash: &str,
        row: (i64, i64),
        books: &Books,
    ) -> StoreResult<u64> {
        self.take_in(shop.room_dir(), stash, row).map_err(refused)?;
        self.leave_out_large(row, books)
    }

    /// Moves something from a room to where it is kept.
    pub(super) fn take_in(&self, room: &Dir, stash: &str, (version, seq): (i64, i64)) -> Result<(), Errno> {
        let name = stash_name(version, seq);
        host::rename_new((room.as_fd(), stash.as_bytes()), (self.past.as_fd(), name.as_bytes()))
    }

    /// Lets go of files in a kept tree that are too large to be kept, and says how large the rest is.
    pub(super) fn leave_out_large(&self, (version, seq): (i64, i64), books: &Books) -> StoreResult<u64> {
        let name = stash_name(version, seq);
        let top = host::stat_at(self.past.as_fd(), name.as_bytes()).map_err(refused)?;
        if !top.is_dir() {
            return Ok(footprint(&Face::of(&top)));
        }
        let found = below(&self.past, name.as_bytes())?;
        let (large, small): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(_, face)| face.size > self.options.file_bytes);
        let mut rows = Vec::new();
        if !large.is_empty() {
            let told = books.rows_of(version)?;
            let at = told.iter().find(|told| told.row.seq == seq).map(|told| told.row.path.clone());
            // What was removed with the tree was removed just before it.
            let first = told.iter().map(|told| told.row.seq).min().unwrap_or(0).min(0);
            for ((path, face), seq) in large.iter().zip((i64::MIN..first).rev()) {
                let (parent, last) = split(path);
                let dir = self.past.enter(&join(name.as_bytes(), parent), How::Base).map_err(refused)?;
                host::unlink(dir.as_fd(), last).map_err(refused)?;
                let path = join(at.as_deref().unwrap_or_default(), path);
                let detail = Detail { before: Some(*face), ..Detail::default() };
                let said = Said { what: What::Removed, path, other: None, detail, stashed: false };
                rows.push(said.row(seq));
            }
            books.add(version, rows)?;
        }
        Ok(small.iter().map(|(_, face)| footprint(face)).sum())
    }
}

/// What tells whether something, or anything below it, has been changed since. Directories change with what is in them.
pub(in super::super) fn fingerprint(dir: &Dir, name: &[u8]) -> StoreResult<u64> {
    let mut hasher = blake3::Hasher::new();
    for (path, face) in below(dir, name)? {
        let changes = (face.kind != Kind::Directory).then_some((face.size, face.modified));
        let text = serde_json::to_vec(&(path, face.kind, face.ino, changes));
        hasher.update(&text.expect("numbers and words can be written as JSON"));
    }
    Ok(u64::from_le_bytes(*hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes")))
}

/// Something in one of Stead's own directories and all below it, parents first, with paths counted from it.
pub(super) fn below(dir: &Dir, name: &[u8]) -> StoreResult<Vec<(Vec<u8>, Face)>> {
    let top = host::stat_at(dir.as_fd(), name).map_err(refused)?;
    let mut found = vec![(Vec::new(), Face::of(&top))];
    if !top.is_dir() {
        return Ok(found);
    }
    let mut open = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let here = dir.enter(&join(name, &path), How::Directory).map_err(refused)?;
        for (name, _) in tree::names(&here).map_err(refused)? {
            let stat = here.stat_at(&name).map_err(refused)?;
            let path = join(&path, &name);
            if stat.is_dir() {
                open.push(path.clone());
            }
            found.push((path, Face::of(&stat)));
        }
    }
    // A parent sorts before what is in it.
    found[1..].sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}
