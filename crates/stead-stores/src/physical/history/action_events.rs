//! Finds out, before an action happens, which ledger events it causes.

use std::ops::ControlFlow;

use stead_core::search::WalkOptions;
use stead_core::store::{NodeKind, NodePath, StorePath, StoreResult};

use super::super::change::PhysicalChange;
use super::super::host::{self, HostStat, OpenMode, errno_to_store_error};
use super::super::mask::{join, split};
use super::super::patch::ModeAndTime;
use super::super::root;
use super::super::undo::UndoRecord;
use super::displaced::entries_below;
use super::ledger_event::{Fingerprint, LedgerEvent, LedgerEventDetail, LedgerEventKind, ReplacedBytes};

impl PhysicalChange<'_> {
    /// The events of an action. If the action displaces something that is kept, the first event is of that.
    pub(super) fn ledger_events(&self, how: &UndoRecord) -> StoreResult<Vec<LedgerEvent>> {
        let (room, book, keeping) = (self.staging.staging_dir_fd(), &self.ledger, &self.staging.history);
        let said = |what, path: &[u8], before: Option<Fingerprint>, after: Option<Fingerprint>, stashed| {
            LedgerEvent {
                kind: what,
                path: path.to_vec(),
                other_path: None,
                detail: LedgerEventDetail { before, after, ..LedgerEventDetail::default() },
                displaced_kept: stashed,
            }
        };
        Ok(match how {
            UndoRecord::Placed { at, stash, .. } => {
                let found = entries_below(self.staging.staging_dir(), stash.as_bytes())?;
                let place = |(path, face): (Vec<u8>, Fingerprint)| {
                    said(LedgerEventKind::Placed, &join(at, &path), None, Some(face), false)
                };
                let mut placed: Vec<_> = found.into_iter().map(place).collect();
                if let (Some(last), Some(node)) = (placed.last_mut(), book.revived_node()) {
                    last.detail.revived_node = Some(node.0);
                }
                placed
            }
            UndoRecord::Replaced { at, stash, .. } => {
                let before = Fingerprint::of(&self.stat_now(at)?);
                let after =
                    Fingerprint::of(&host::stat_at(room, stash.as_bytes()).map_err(errno_to_store_error)?);
                let stashed = book.keeps_displaced(keeping, before.size);
                vec![said(LedgerEventKind::Replaced, at, Some(before), Some(after), stashed)]
            }
            UndoRecord::Removed { at, .. } => {
                let before = Fingerprint::of(&self.stat_now(at)?);
                let stashed = book.keeps_displaced(keeping, before.size);
                // If the directory is kept, it shows what was in it. Otherwise each entry has its own row, before its
                // directory's.
                let mut gone = if stashed { Vec::new() } else { self.entries_below(at, &before)? };
                gone.sort_by(|one, other| other.0.cmp(&one.0));
                let gone = gone.into_iter().chain([(at.clone(), before)]);
                gone.map(|(path, face)| said(LedgerEventKind::Removed, &path, Some(face), None, stashed))
                    .collect()
            }
            UndoRecord::Moved { from, to, .. } => {
                vec![self.event_with_two_paths(LedgerEventKind::Moved, from, to)?]
            }
            UndoRecord::MovedOver { from, to, stash, .. } => {
                let before = Fingerprint::of(&self.stat_now(to)?);
                let stashed = stash.is_some() && book.keeps_displaced(keeping, before.size);
                vec![
                    said(LedgerEventKind::Removed, to, Some(before), None, stashed),
                    self.event_with_two_paths(LedgerEventKind::Moved, from, to)?,
                ]
            }
            UndoRecord::Exchanged { from, to, .. } => {
                let mut crossed = self.event_with_two_paths(LedgerEventKind::Exchanged, from, to)?;
                crossed.detail.after = Some(Fingerprint::of(&self.stat_now(to)?));
                vec![crossed]
            }
            UndoRecord::Patched { at, patch } => {
                let face = |size, looks: ModeAndTime| Fingerprint {
                    kind: NodeKind::File,
                    ino: patch.ino,
                    size,
                    mode: looks.mode & 0o7777,
                    modified: looks.modified,
                };
                let before = face(patch.old_length, patch.before);
                let after = face(patch.new_length, patch.after);
                let bytes = patch.replaced.iter().map(|(_, length)| length).sum();
                let stashed = patch.stash.is_some() && book.keeps_displaced(keeping, bytes);
                let mut patched = said(LedgerEventKind::Patched, at, Some(before), Some(after), stashed);
                patched.detail.patch = Some(ReplacedBytes::from(patch));
                vec![patched]
            }
            UndoRecord::AttributesSet { at, before, after, .. } => {
                let now = Fingerprint::of(&self.stat_now(at)?);
                let face = |looks: &ModeAndTime| Fingerprint {
                    mode: looks.mode & 0o7777,
                    modified: looks.modified,
                    ..now
                };
                vec![said(LedgerEventKind::AttributesSet, at, Some(face(before)), Some(face(after)), false)]
            }
        })
    }

    /// An event that has two paths: a move or an exchange.
    fn event_with_two_paths(
        &self,
        what: LedgerEventKind,
        from: &[u8],
        to: &[u8],
    ) -> StoreResult<LedgerEvent> {
        let before = Some(Fingerprint::of(&self.stat_now(from)?));
        let detail = LedgerEventDetail { before, ..LedgerEventDetail::default() };
        Ok(LedgerEvent {
            kind: what,
            path: from.to_vec(),
            other_path: Some(to.to_vec()),
            detail,
            displaced_kept: false,
        })
    }

    /// Everything visible below a path, if it is a directory's.
    fn entries_below(&self, path: &[u8], face: &Fingerprint) -> StoreResult<Vec<(Vec<u8>, Fingerprint)>> {
        let mut found = Vec::new();
        if face.kind == NodeKind::Directory {
            let place = NodePath::from_root(StorePath::from_checked(path));
            self.store.walk_below(&place, &WalkOptions::default(), &mut |below| {
                found.push((join(path, below.path.as_bytes()), Fingerprint::of_attr(&below.attr)));
                ControlFlow::Continue(())
            })?;
        }
        Ok(found)
    }

    /// The attributes of what is at a path now.
    fn stat_now(&self, path: &[u8]) -> StoreResult<HostStat> {
        let (parent, name) = split(path);
        let dir = root::enter(&self.store.root.dir, parent, OpenMode::Traverse)?;
        dir.stat_at(name).map_err(errno_to_store_error)
    }
}
