//! Recovery of the ledger after a crash. Compares intents whose outcome the ledger doesn't have with what the staging
//! directories of dead processes hold.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::AsFd;

use stead_core::store::{StoreError, StoreResult};

use super::super::host::errno_to_store_error;
use super::super::intent_log::IntentLogOutcomes;
use super::super::recover::NotedRevisions;
use super::super::root::{Dir, Root};
use super::super::undo::{UndoContext, UndoRecord, UndoTime, has_happened, undo};
use super::PhysicalHistory;
use crate::ledger::PendingIntent;
use crate::sync;

/// What a dead process left.
pub(in super::super) struct DeadProcessState<'a> {
    pub(in super::super) name: &'a str,
    pub(in super::super) dir: &'a Dir,
    pub(in super::super) outcomes: &'a IntentLogOutcomes,
    /// The revisions that it noted as performed or done.
    pub(in super::super) noted_revisions: &'a NotedRevisions,
}

impl PhysicalHistory {
    /// Resolves the pending intents of dead processes. Changes that happened stay in the ledger, and what they
    /// displaced is kept. The other changes are removed from the ledger. A process whose staging directory is gone
    /// ended properly, so its changes happened.
    pub(in super::super) fn reconcile(
        &self,
        root: &Root,
        rescued: &Dir,
        dead: &[DeadProcessState<'_>],
        alive: &HashSet<String>,
    ) -> StoreResult<()> {
        let Some(ledger) = self.ledger()? else { return Ok(()) };
        let mut changes: BTreeMap<i64, Vec<PendingIntent>> = BTreeMap::new();
        for pending in ledger.pending_intents()? {
            if !alive.contains(&pending.staging_dir) {
                changes.entry(pending.revision).or_default().push(pending);
            }
        }
        let (mut performed, mut undone, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        for (revision, intents) in changes {
            let process = dead.iter().find(|process| process.name == intents[0].staging_dir);
            let actions = intents
                .iter()
                .map(|pending| serde_json::from_str::<UndoRecord>(&pending.intent.undo_json))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|_| StoreError::Corrupt("an intent in the ledger can't be read".into()))?;
            let has_happened = match process {
                None => true,
                Some(process) => self.has_happened(root, rescued, process, &intents, &actions)?,
            };
            if !has_happened {
                undone.push(revision);
                continue;
            }
            performed.push(revision);
            let rows = ledger.rows_of(revision)?;
            let kept = rows.iter().map(|stored| &stored.row).filter(|row| row.displaced_kept);
            let kept: HashSet<i64> = kept.map(|row| row.seq).collect();
            for (pending, action) in intents.iter().zip(&actions) {
                let row = (revision, pending.intent.seq);
                let is_kept = kept.contains(&row.1);
                let Some(staged_name) = action.displaced_name().filter(|_| is_kept) else { continue };
                if let Some(process) = process {
                    // It may have been moved already.
                    let _ = self.move_displaced(process.dir, staged_name, row);
                }
                if self.stat_displaced(row, b"").is_none() {
                    lost.push(row);
                }
            }
        }
        if !lost.is_empty() {
            ledger.mark_content_dropped(lost)?;
        }
        if performed.is_empty() && undone.is_empty() {
            return Ok(());
        }
        for displaced_dir in self.own_displaced_dirs() {
            sync::sync_all(sync::SyncPoint::DisplacedContent, displaced_dir).map_err(errno_to_store_error)?;
        }
        ledger.reconcile(performed, undone)
    }

    /// Whether a change happened. A change of one action that happened in part is completed or undone here. A change of
    /// several actions is undone from its intent log afterwards (`intent_log::undo_unfinished`).
    fn has_happened(
        &self,
        root: &Root,
        rescued: &Dir,
        process: &DeadProcessState<'_>,
        intents: &[PendingIntent],
        actions: &[UndoRecord],
    ) -> StoreResult<bool> {
        // The intent log is cleared only after the change is done, or after the ledger has removed it. So without an
        // outcome it is done.
        if let Some(epoch) = intents.iter().find_map(|pending| pending.intent.intent_log_epoch) {
            return Ok(process.outcomes.get(&epoch).copied().unwrap_or(true));
        }
        let revision = intents[0].revision;
        if process.noted_revisions.done.contains(&revision) {
            return Ok(true);
        }
        let is_performed = process.noted_revisions.performed.contains(&revision);
        let context = UndoContext {
            root,
            staging_dir: process.dir.as_fd(),
            rescued,
            when: UndoTime::AfterCrash,
            is_performed,
        };
        for (pending, action) in intents.iter().zip(actions) {
            let is_moved = action.displaced_name().is_some()
                && self.stat_displaced((pending.revision, pending.intent.seq), b"").is_some();
            if is_moved {
                continue;
            }
            let happened = has_happened(&context, action)?;
            if action.is_only_action() {
                undo(&context, action)?;
            }
            if !happened {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
