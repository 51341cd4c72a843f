//! What the ledger says of an action, before it happens.

use std::ops::ControlFlow;

use stead_core::search::Walk;
use stead_core::store::{Kind, Place, StorePath, StoreResult};

use super::super::act::Act;
use super::super::host::{self, How, Stat, refused};
use super::super::mask::{join, split};
use super::super::patch::Looks;
use super::super::root;
use super::super::undo::Undo;
use super::face::{Detail, Face, Replaced, Said, What};
use super::stash::below;

impl Act<'_> {
    /// The rows of an action. The first one is of what it displaces, if it displaces something.
    pub(super) fn said(&self, how: &Undo) -> StoreResult<Vec<Said>> {
        let (room, book, keeping) = (self.shop.room(), &self.book, &self.shop.keeping);
        let said = |what, path: &[u8], before: Option<Face>, after: Option<Face>, stashed| Said {
            what,
            path: path.to_vec(),
            other: None,
            detail: Detail { before, after, ..Detail::default() },
            stashed,
        };
        Ok(match how {
            Undo::Placed { at, stash, .. } => {
                let found = below(self.shop.room_dir(), stash.as_bytes())?;
                let place = |(path, face): (Vec<u8>, Face)| {
                    said(What::Placed, &join(at, &path), None, Some(face), false)
                };
                let mut placed: Vec<_> = found.into_iter().map(place).collect();
                if let (Some(last), Some(node)) = (placed.last_mut(), book.returns()) {
                    last.detail.returns = Some(node.0);
                }
                placed
            }
            Undo::Swapped { at, stash, .. } => {
                let before = Face::of(&self.seen(at)?);
                let after = Face::of(&host::stat_at(room, stash.as_bytes()).map_err(refused)?);
                let stashed = book.keeps(keeping, before.size);
                vec![said(What::Replaced, at, Some(before), Some(after), stashed)]
            }
            Undo::Taken { at, .. } => {
                let before = Face::of(&self.seen(at)?);
                let stashed = book.keeps(keeping, before.size);
                // What is kept tells what was in it; otherwise the ledger does, each thing before its directory.
                let mut gone = if stashed { Vec::new() } else { self.below(at, &before)? };
                gone.sort_by(|one, other| other.0.cmp(&one.0));
                let gone = gone.into_iter().chain([(at.clone(), before)]);
                gone.map(|(path, face)| said(What::Removed, &path, Some(face), None, stashed)).collect()
            }
            Undo::Moved { from, to, .. } => vec![self.named(What::Moved, from, to)?],
            Undo::Over { from, to, stash, .. } => {
                let before = Face::of(&self.seen(to)?);
                let stashed = stash.is_some() && book.keeps(keeping, before.size);
                vec![said(What::Removed, to, Some(before), None, stashed), self.named(What::Moved, from, to)?]
            }
            Undo::Crossed { from, to, .. } => {
                let mut crossed = self.named(What::Crossed, from, to)?;
                crossed.detail.after = Some(Face::of(&self.seen(to)?));
                vec![crossed]
            }
            Undo::Patched { at, patch } => {
                let face = |size, looks: Looks| Face {
                    kind: Kind::File,
                    ino: patch.ino,
                    size,
                    mode: looks.mode & 0o7777,
                    modified: looks.modified,
                };
                let before = face(patch.old_length, patch.before);
                let after = face(patch.new_length, patch.after);
                let bytes = patch.replaced.iter().map(|(_, length)| length).sum();
                let stashed = patch.stash.is_some() && book.keeps(keeping, bytes);
                let mut patched = said(What::Patched, at, Some(before), Some(after), stashed);
                patched.detail.patch = Some(Replaced::from(patch));
                vec![patched]
            }
            Undo::Dressed { at, before, after, .. } => {
                let now = Face::of(&self.seen(at)?);
                let face =
                    |looks: &Looks| Face { mode: looks.mode & 0o7777, modified: looks.modified, ..now };
                vec![said(What::Dressed, at, Some(face(before)), Some(face(after)), false)]
            }
        })
    }

    /// A row with two names.
    fn named(&self, what: What, from: &[u8], to: &[u8]) -> StoreResult<Said> {
        let before = Some(Face::of(&self.seen(from)?));
        let detail = Detail { before, ..Detail::default() };
        Ok(Said { what, path: from.to_vec(), other: Some(to.to_vec()), detail, stashed: false })
    }

    /// All that can be seen below a path.
    fn below(&self, path: &[u8], face: &Face) -> StoreResult<Vec<(Vec<u8>, Face)>> {
        let mut found = Vec::new();
        if face.kind == Kind::Directory {
            let place = Place::path(StorePath::from_checked(path));
            self.store.walk_below(&place, &Walk::default(), &mut |below| {
                found.push((join(path, below.path.as_bytes()), Face::found(&below.attr)));
                ControlFlow::Continue(())
            })?;
        }
        Ok(found)
    }

    /// What is at a path now.
    fn seen(&self, path: &[u8]) -> StoreResult<Stat> {
        let (parent, name) = split(path);
        let dir = root::enter(&self.store.root.dir, parent, How::Base)?;
        dir.stat_at(name).map_err(refused)
    }
}
