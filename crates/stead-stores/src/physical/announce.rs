//! Announces many actions of a change with one sync of its intent log.
//!
//! Each action of a change with several actions has to be in the intent log, on the disk, before it happens. Steps that write or
//! remove files at different paths don't depend on each other, so the actions of a whole run of them are known before the first
//! one happens. They are written to the log together, and synced once. An announced action that doesn't happen is harmless: an
//! undo checks what has happened before it does anything.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::AsFd;

use stead_core::store::{Content, IfMissing, NodeId, Parents, SealedContent, Step, StoreResult, Subtree};

use super::change::PhysicalChange;
use super::draft::DraftContent;
use super::history::TreeFingerprint;
use super::host::{self, HostStat, errno_to_store_error};
use super::slot::{HostSlot, LookupPurpose};
use super::undo::UndoRecord;
use crate::Durability;

/// How many steps are announced together.
const MAX_RUN: usize = 256;
/// A single action is announced when it happens.
const MIN_RUN: usize = 2;

/// Actions that are in the intent log, on the disk, and have not happened yet, by the paths that they change.
#[derive(Debug, Default)]
pub(super) struct AnnouncedActions(HashMap<Vec<u8>, UndoRecord>);

impl AnnouncedActions {
    /// Takes the record of an action, if it was announced as it is about to happen.
    pub(super) fn take(&mut self, action: &UndoRecord) -> Option<UndoRecord> {
        let path = match action {
            UndoRecord::Placed { at, .. }
            | UndoRecord::Replaced { at, .. }
            | UndoRecord::Removed { at, .. } => at,
            _ => return None,
        };
        let announced = self.0.remove(path)?;
        announced.is_same_action(action).then_some(announced)
    }

    /// The name in the staging directory that was announced for what a removal takes away.
    pub(super) fn name_for_removed(&self, path: &[u8], seen: &HostStat) -> Option<String> {
        match self.0.get(path)? {
            UndoRecord::Removed { staged_name, ino, changed, .. }
                if (*ino, *changed) == (seen.ino, seen.changed) =>
            {
                Some(staged_name.clone())
            }
            _ => None,
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PhysicalChange<'_> {
    /// Announces the actions of the steps that come next, as far as they are known already.
    pub(super) fn announce_run(&mut self, waiting: &mut VecDeque<Step>) -> StoreResult<()> {
        if self.durability() != Durability::Full || !self.is_multi_action() || !self.announced.is_empty() {
            return Ok(());
        }
        let mut run: Vec<(Vec<u8>, UndoRecord)> = Vec::new();
        let mut paths: HashSet<Vec<u8>> = HashSet::new();
        for (index, step) in waiting.iter_mut().take(MAX_RUN).enumerate() {
            // What can't be announced now is checked again, and fails, when the step has its turn. A second step at the same path
            // depends on the first one.
            match self.action_of(step, index) {
                Some((path, action)) if paths.insert(path.clone()) => run.push((path, action)),
                _ => break,
            }
        }
        if run.len() < MIN_RUN {
            return Ok(());
        }
        self.log_intents(run.iter().map(|(_, action)| action))?;
        self.announced = AnnouncedActions(run.into_iter().collect());
        Ok(())
    }

    /// The path and the action of a step that writes or removes one file, if nothing is in its way.
    fn action_of(&self, step: &mut Step, index: usize) -> Option<(Vec<u8>, UndoRecord)> {
        match step {
            Step::Write { at, content, options } if at.base == NodeId::ROOT => {
                let slot = self.store.slot(at, LookupPurpose::Create, options.parents).ok()?;
                // New directories are an action of their own.
                if !slot.has_parent() {
                    return None;
                }
                let existing = self.file_at(&slot, options.expect).ok()?;
                if let Content::Bytes(bytes) = content {
                    let (size, temp) = (bytes.len() as u64, self.stage_bytes(bytes).ok()?);
                    let staged = DraftContent::staged(temp, index);
                    *content = Content::Sealed(SealedContent::new(size, staged));
                }
                let Content::Sealed(sealed) = content else { return None };
                let staged_name = match sealed.as_inner::<DraftContent>()? {
                    DraftContent::Complete(temp) => temp.entry.name().to_owned(),
                    DraftContent::Closed(entry) => entry.name().to_owned(),
                    DraftContent::Overlay(_) => return None,
                };
                let modified = *options.modified.get_or_insert_with(|| self.now());
                let action = self.write_action(&slot, staged_name, existing.as_ref(), modified).ok()?;
                Some((slot.path().to_vec(), action))
            }
            Step::Remove { at, subtree: Subtree::File, expect, if_missing: IfMissing::Fail, .. }
                if at.base == NodeId::ROOT =>
            {
                let slot = self.store.slot(at, LookupPurpose::Find, Parents::Required).ok()?;
                let seen = self.store.stat_slot(&slot).ok()??;
                expect.check(Some(seen.tag())).ok()?;
                let (staged_name, ino, changed) = (self.staging.fresh_name(), seen.ino, seen.changed);
                let at = slot.path().to_vec();
                (!seen.is_dir()).then(|| (at.clone(), UndoRecord::Removed { at, staged_name, ino, changed }))
            }
            _ => None,
        }
    }

    fn write_action(
        &self,
        slot: &HostSlot,
        staged_name: String,
        existing: Option<&HostStat>,
        modified: stead_core::Timestamp,
    ) -> StoreResult<UndoRecord> {
        let staging_dir = self.staging.staging_dir();
        // The fingerprint contains the time, so the file gets it now.
        host::set_modified_at(staging_dir.as_fd(), staged_name.as_bytes(), modified)
            .map_err(errno_to_store_error)?;
        let stat =
            host::stat_at(staging_dir.as_fd(), staged_name.as_bytes()).map_err(errno_to_store_error)?;
        let fingerprint = Some(TreeFingerprint::of(staging_dir, staged_name.as_bytes())?);
        let at = slot.path().to_vec();
        Ok(match existing {
            Some(existing) => UndoRecord::Replaced {
                at,
                staged_name,
                our_ino: stat.ino,
                their_ino: existing.ino,
                fingerprint,
            },
            None => UndoRecord::Placed { at, staged_name, ino: stat.ino, fingerprint },
        })
    }
}
