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
    pub(super) fn ledger_events(&self, undo_record: &UndoRecord) -> StoreResult<Vec<LedgerEvent>> {
        let (staging_dir, transaction, history) =
            (self.staging.staging_dir_fd(), &self.ledger, &self.staging.history);
        let event =
            |kind, path: &[u8], before: Option<Fingerprint>, after: Option<Fingerprint>, displaced_kept| {
                LedgerEvent {
                    kind,
                    path: path.to_vec(),
                    other_path: None,
                    detail: LedgerEventDetail { before, after, ..LedgerEventDetail::default() },
                    displaced_kept,
                }
            };
        Ok(match undo_record {
            UndoRecord::Placed { at, staged_name, .. } => {
                let found = entries_below(self.staging.staging_dir(), staged_name.as_bytes())?;
                let placed_event = |(path, fingerprint): (Vec<u8>, Fingerprint)| {
                    event(LedgerEventKind::Placed, &join(at, &path), None, Some(fingerprint), false)
                };
                let mut placed: Vec<_> = found.into_iter().map(placed_event).collect();
                if let (Some(last), Some(node)) = (placed.last_mut(), transaction.revived_node()) {
                    last.detail.revived_node = Some(node.0);
                }
                placed
            }
            UndoRecord::Replaced { at, staged_name, .. } => {
                let before = Fingerprint::of(&self.stat_now(at)?);
                let after = Fingerprint::of(
                    &host::stat_at(staging_dir, staged_name.as_bytes()).map_err(errno_to_store_error)?,
                );
                let displaced_kept = transaction.keeps_displaced(history, before.size);
                vec![event(LedgerEventKind::Replaced, at, Some(before), Some(after), displaced_kept)]
            }
            UndoRecord::Removed { at, .. } => {
                let before = Fingerprint::of(&self.stat_now(at)?);
                let displaced_kept = transaction.keeps_displaced(history, before.size);
                // If the directory is kept, it shows what was in it. Otherwise each entry has its own row, before its
                // directory's.
                let mut removed = if displaced_kept { Vec::new() } else { self.entries_below(at, &before)? };
                removed.sort_by(|one, other| other.0.cmp(&one.0));
                let removed = removed.into_iter().chain([(at.clone(), before)]);
                removed
                    .map(|(path, fingerprint)| {
                        event(LedgerEventKind::Removed, &path, Some(fingerprint), None, displaced_kept)
                    })
                    .collect()
            }
            UndoRecord::Moved { from, to, .. } => {
                vec![self.event_with_two_paths(LedgerEventKind::Moved, from, to)?]
            }
            UndoRecord::MovedOver { from, to, staged_name, .. } => {
                let before = Fingerprint::of(&self.stat_now(to)?);
                let displaced_kept =
                    staged_name.is_some() && transaction.keeps_displaced(history, before.size);
                vec![
                    event(LedgerEventKind::Removed, to, Some(before), None, displaced_kept),
                    self.event_with_two_paths(LedgerEventKind::Moved, from, to)?,
                ]
            }
            UndoRecord::Exchanged { from, to, .. } => {
                let mut exchanged = self.event_with_two_paths(LedgerEventKind::Exchanged, from, to)?;
                exchanged.detail.after = Some(Fingerprint::of(&self.stat_now(to)?));
                vec![exchanged]
            }
            UndoRecord::Patched { at, patch } => {
                let fingerprint = |size, attributes: ModeAndTime| Fingerprint {
                    kind: NodeKind::File,
                    ino: patch.ino,
                    size,
                    mode: attributes.mode & 0o7777,
                    modified: attributes.modified,
                };
                let before = fingerprint(patch.old_length, patch.before);
                let after = fingerprint(patch.new_length, patch.after);
                let bytes = patch.replaced.iter().map(|(_, length)| length).sum();
                let displaced_kept =
                    patch.old_bytes_name.is_some() && transaction.keeps_displaced(history, bytes);
                let mut patched =
                    event(LedgerEventKind::Patched, at, Some(before), Some(after), displaced_kept);
                patched.detail.patch = Some(ReplacedBytes::from(patch));
                vec![patched]
            }
            UndoRecord::AttributesSet { at, before, after, .. } => {
                let current = Fingerprint::of(&self.stat_now(at)?);
                let fingerprint = |attributes: &ModeAndTime| Fingerprint {
                    mode: attributes.mode & 0o7777,
                    modified: attributes.modified,
                    ..current
                };
                vec![event(
                    LedgerEventKind::AttributesSet,
                    at,
                    Some(fingerprint(before)),
                    Some(fingerprint(after)),
                    false,
                )]
            }
        })
    }

    /// An event that has two paths: a move or an exchange.
    fn event_with_two_paths(
        &self,
        kind: LedgerEventKind,
        from: &[u8],
        to: &[u8],
    ) -> StoreResult<LedgerEvent> {
        let before = Some(Fingerprint::of(&self.stat_now(from)?));
        let detail = LedgerEventDetail { before, ..LedgerEventDetail::default() };
        Ok(LedgerEvent {
            kind,
            path: from.to_vec(),
            other_path: Some(to.to_vec()),
            detail,
            displaced_kept: false,
        })
    }

    /// Everything visible below a path, if it is a directory's.
    fn entries_below(
        &self,
        path: &[u8],
        fingerprint: &Fingerprint,
    ) -> StoreResult<Vec<(Vec<u8>, Fingerprint)>> {
        let mut found = Vec::new();
        if fingerprint.kind == NodeKind::Directory {
            let directory = NodePath::from_root(StorePath::from_checked(path));
            self.store.walk_below(&directory, &WalkOptions::default(), &mut |below| {
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
