//! Bringing a shadow up to date.

use rusqlite::{OptionalExtension, params};
use stead_core::store::{Change, NodeId, Step, StoreError, StoreResult, VersionTag};
use stead_core::{Clock, Operation, SystemClock};

use super::super::batch::WriteTransaction;
use super::super::error::Result;
use super::super::group_commit::CommitSync;
use super::CaptureVolume;

/// The turn of someone who takes a directory in. Whoever begins after that has the next one, and this one is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CaptureTurn(pub(super) i64);

/// What is to be noted in a shadow.
#[derive(Debug)]
pub(crate) enum CaptureNote {
    /// Something is another than it was; of a file also what the host told of it.
    Changed(Step, Option<VersionTag>),
    /// A file is what it was, and the host tells this of it now.
    Unchanged(NodeId, VersionTag),
}

impl CaptureVolume {
    /// Begins to take the directory in.
    pub(crate) fn begin_capture(&self) -> StoreResult<CaptureTurn> {
        let vol = self.vol;
        self.database().write(CommitSync::Deferred, move |writing| {
            let turn = writing
                .conn
                .prepare_cached(
                    "UPDATE capture_volume SET turn = turn + 1, at = ?2 WHERE volume = ?1 RETURNING turn",
                )?
                .query_row([vol, SystemClock.now().0], |row| row.get(0))
                .optional()?;
            turn.map(CaptureTurn).ok_or_else(|| StoreError::Conflict.into())
        })
    }

    /// Notes what differs. Nothing of it is synced before the snapshot itself is.
    pub(crate) fn write_batch(
        &self,
        turn: CaptureTurn,
        operation: &Operation,
        notes: Vec<CaptureNote>,
    ) -> StoreResult<()> {
        let vol = self.vol;
        let (mut steps, mut tags, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        for note in notes {
            match note {
                CaptureNote::Changed(step, tag) => {
                    steps.push(step);
                    tags.push(tag);
                }
                CaptureNote::Unchanged(node, tag) => seen.push((node, tag)),
            }
        }
        let change = Change::new(operation.clone(), steps);
        let go_on = move |writing: &mut WriteTransaction<'_>| check_turn(writing, vol, turn);
        self.store.apply_with(CommitSync::Deferred, change, go_on, move |writing, applied| {
            let written = applied.outcomes.iter().zip(tags).filter_map(|(outcome, tag)| {
                let (attr, tag) = (outcome.attr?, tag?);
                Some((attr.node, tag))
            });
            let mut note = writing.conn.prepare_cached(
                "INSERT OR REPLACE INTO fingerprint(volume, node, since, tag)
                 SELECT volume, node, since, ?3 FROM entry WHERE volume = ?1 AND node = ?2",
            )?;
            for (node, VersionTag(tag)) in written.chain(seen) {
                note.execute(params![vol, node.0.cast_signed(), tag.to_le_bytes()])?;
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// Makes sure that the turn is not over.
fn check_turn(writing: &mut WriteTransaction<'_>, vol: i64, turn: CaptureTurn) -> Result<()> {
    let goes_on = writing
        .conn
        .prepare_cached("UPDATE capture_volume SET at = ?3 WHERE volume = ?1 AND turn = ?2")?
        .execute([vol, turn.0, SystemClock.now().0])?;
    if goes_on == 0 { Err(StoreError::Conflict.into()) } else { Ok(()) }
}
