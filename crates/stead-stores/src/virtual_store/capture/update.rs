//! Brings a capture volume up to date.

use rusqlite::{OptionalExtension, params};
use stead_core::store::{Change, NodeId, Step, StoreError, StoreResult, VersionTag};
use stead_core::{Clock, Operation, SystemClock};

use crate::database::batch::WriteTransaction;
use crate::database::error::Result;
use crate::database::group_commit::CommitSync;
use crate::virtual_store::capture::CaptureVolume;

/// The turn of a capture. Starting another capture of the directory ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CaptureTurn(pub(crate) i64);

/// What a capture found out about an entry.
#[derive(Debug)]
pub(crate) enum CaptureNote {
    /// The entry was changed: the step that does the same to the volume, and the host file's tag, if it has one.
    Changed(Box<Step>, Option<VersionTag>),
    /// A file's content is unchanged, and its tag is this one now.
    Unchanged(NodeId, VersionTag),
}

impl CaptureVolume {
    /// Starts a capture of the directory, and so ends any other one. `Conflict` if the volume was removed.
    pub(crate) fn begin_capture(&self) -> StoreResult<CaptureTurn> {
        let vol = self.vol;
        self.database().write(CommitSync::Deferred, move |transaction| {
            let turn = transaction
                .conn
                .prepare_cached(
                    "UPDATE capture_volume SET turn = turn + 1, at = ?2 WHERE volume = ?1 RETURNING turn",
                )?
                .query_row([vol, SystemClock.now().0], |row| row.get(0))
                .optional()?;
            turn.map(CaptureTurn).ok_or_else(|| StoreError::Conflict.into())
        })
    }

    /// Writes what a capture found out. `Conflict` if its turn is over. Nothing is synced before the snapshot is.
    pub(crate) fn write_batch(
        &self,
        turn: CaptureTurn,
        operation: &Operation,
        notes: Vec<CaptureNote>,
    ) -> StoreResult<()> {
        let vol = self.vol;
        let (mut steps, mut tags, mut unchanged) = (Vec::new(), Vec::new(), Vec::new());
        for note in notes {
            match note {
                CaptureNote::Changed(step, tag) => {
                    steps.push(*step);
                    tags.push(tag);
                }
                CaptureNote::Unchanged(node, tag) => unchanged.push((node, tag)),
            }
        }
        let change = Change::new(operation.clone(), steps);
        let check = move |transaction: &mut WriteTransaction<'_>| check_turn(transaction, vol, turn);
        self.store.apply_with(CommitSync::Deferred, change, check, move |transaction, applied| {
            let written = applied.outcomes.iter().zip(tags).filter_map(|(outcome, tag)| {
                let (attr, tag) = (outcome.attr?, tag?);
                Some((attr.node, tag))
            });
            let mut statement = transaction.conn.prepare_cached(
                "INSERT OR REPLACE INTO fingerprint(volume, node, since, tag)
                 SELECT volume, node, since, ?3 FROM entry WHERE volume = ?1 AND node = ?2",
            )?;
            for (node, VersionTag(tag)) in written.chain(unchanged) {
                statement.execute(params![vol, node.0.cast_signed(), tag.to_le_bytes()])?;
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// Fails with `Conflict` if the turn is over; otherwise notes that the capture is active.
fn check_turn(transaction: &mut WriteTransaction<'_>, vol: i64, turn: CaptureTurn) -> Result<()> {
    let updated = transaction
        .conn
        .prepare_cached("UPDATE capture_volume SET at = ?3 WHERE volume = ?1 AND turn = ?2")?
        .execute([vol, turn.0, SystemClock.now().0])?;
    if updated == 0 { Err(StoreError::Conflict.into()) } else { Ok(()) }
}
