//! The companion rows of a merge: that a revision of a fork was merged, and which fork an operation came from.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::identity::OperationId;
use crate::store::{
    CompanionRecord, CompanionRow, Fork, NodeId, RecordKind, RevisionNumber, RevisionQuery, Store,
    StoreError, StoreId, StoreResult,
};
use crate::vfs::history::merge::manifest::DroppedTags;

/// How many nodes one row lists.
const NODES_PER_ROW: usize = 2_000;

/// How many changes of tags one row lists.
const TAGS_PER_ROW: usize = 200;

/// The kinds of rows that a merge writes to its target.
fn kind(name: &'static str) -> RecordKind {
    RecordKind::new(name).expect("the name is a valid kind")
}

/// The last merge of a fork: one row per fork.
const MERGE: &str = "fork_merge";
/// The nodes that this merge left out, in several rows.
const LEFT_OUT: &str = "fork_merge_left_out";
/// The changes of tags that the fork gives up in this merge, in several rows.
const DROPPED_TAGS: &str = "fork_merge_dropped_tags";
/// Which fork an operation merged: one row per operation.
const SOURCE: &str = "merged_fork";

/// A merge that was committed to the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommittedMerge {
    pub(super) operation: OperationId,
    pub(super) fork_revision: RevisionNumber,
    pub(super) target_revision: RevisionNumber,
    pub(super) left_out: BTreeSet<NodeId>,
    /// The nodes of which the target got a part. The fork keeps them as they are.
    pub(super) in_part: BTreeSet<NodeId>,
    /// The changes of tags that the fork gives up.
    pub(super) dropped_tags: Vec<DroppedTags>,
}

#[derive(Debug, Serialize, Deserialize)]
struct MergeRow {
    operation: OperationId,
    fork_revision: i64,
    left_out_rows: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    in_part: Vec<u64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    dropped_tags_rows: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[derive(Debug, Serialize, Deserialize)]
struct SourceRow {
    owner: String,
    fork: String,
}

fn fork_key(fork: StoreId) -> String {
    format!("{fork:?}")
}

fn row(kind: RecordKind, key: String, data: &impl Serialize) -> StoreResult<CompanionRecord> {
    let data = serde_json::to_string(data).expect("a row can be written as JSON");
    let row = CompanionRow::put(kind, key, data).map_err(|error| StoreError::Invalid(error.to_string()))?;
    Ok(CompanionRecord::Row(row))
}

/// The rows for a merge that is about to be committed.
pub(super) fn merge_records(
    fork: &Fork,
    store: StoreId,
    merge: &CommittedMerge,
) -> StoreResult<Vec<CompanionRecord>> {
    let CommittedMerge { operation, fork_revision, left_out, in_part, dropped_tags, .. } = merge;
    if in_part.len() > NODES_PER_ROW {
        let message = format!("parts of {} files are taken, and {NODES_PER_ROW} are the most", in_part.len());
        return Err(StoreError::Invalid(message));
    }
    let in_part = in_part.iter().map(|node| node.0).collect();
    let nodes: Vec<u64> = left_out.iter().map(|node| node.0).collect();
    let parts: Vec<&[u64]> = nodes.chunks(NODES_PER_ROW).collect();
    let key = fork_key(store);
    let dropped_tags: Vec<&[DroppedTags]> = dropped_tags.chunks(TAGS_PER_ROW).collect();
    let merge = MergeRow {
        operation: *operation,
        fork_revision: fork_revision.0,
        left_out_rows: parts.len(),
        in_part,
        dropped_tags_rows: dropped_tags.len(),
    };
    let source = SourceRow { owner: fork.owner.clone(), fork: fork.name.to_string() };
    let mut records =
        vec![row(kind(MERGE), key.clone(), &merge)?, row(kind(SOURCE), operation.to_string(), &source)?];
    for (index, part) in parts.into_iter().enumerate() {
        records.push(row(kind(LEFT_OUT), format!("{key}/{index}"), &part)?);
    }
    for (index, part) in dropped_tags.into_iter().enumerate() {
        records.push(row(kind(DROPPED_TAGS), format!("{key}/{index}"), &part)?);
    }
    Ok(records)
}

/// The last merge of a fork into this target, unless it has been undone.
pub(super) fn last_merge(target: &dyn Store, fork: StoreId) -> StoreResult<Option<CommittedMerge>> {
    let Some(records) = target.companion_records() else { return Ok(None) };
    let key = fork_key(fork);
    let Some(stored) = records.record(&kind(MERGE), &key)? else { return Ok(None) };
    let damaged = || StoreError::Corrupt("the record of a merge can't be read".into());
    let merge: MergeRow = serde_json::from_str(&stored.data).map_err(|_| damaged())?;
    let Some(target_revision) = stored.revision else { return Ok(None) };
    let mut left_out = BTreeSet::new();
    for index in 0..merge.left_out_rows {
        let part = records.record(&kind(LEFT_OUT), &format!("{key}/{index}"))?.ok_or_else(damaged)?;
        let nodes: Vec<u64> = serde_json::from_str(&part.data).map_err(|_| damaged())?;
        left_out.extend(nodes.into_iter().map(NodeId));
    }
    let mut dropped_tags = Vec::new();
    for index in 0..merge.dropped_tags_rows {
        let part = records.record(&kind(DROPPED_TAGS), &format!("{key}/{index}"))?.ok_or_else(damaged)?;
        dropped_tags.append(&mut serde_json::from_str(&part.data).map_err(|_| damaged())?);
    }
    let query = RevisionQuery {
        operations: Some(vec![merge.operation]),
        limit: 1,
        ..RevisionQuery::between(RevisionNumber(target_revision.0 - 1), target_revision)
    };
    let revisions = target.require_history()?.revisions(&query)?.revisions;
    if revisions.iter().any(|revision| revision.undone) {
        return Ok(None);
    }
    let (operation, fork_revision) = (merge.operation, RevisionNumber(merge.fork_revision));
    let in_part = merge.in_part.into_iter().map(NodeId).collect();
    Ok(Some(CommittedMerge { operation, fork_revision, target_revision, left_out, in_part, dropped_tags }))
}

/// The fork that an operation merged into a Store, as `OWNER/FORK`.
pub(in crate::vfs::history) fn merged_fork(
    store: &dyn Store,
    operation: OperationId,
) -> StoreResult<Option<String>> {
    let Some(records) = store.companion_records() else { return Ok(None) };
    let Some(stored) = records.record(&kind(SOURCE), &operation.to_string())? else { return Ok(None) };
    let damaged = || StoreError::Corrupt("the record of a merge can't be read".into());
    let source: SourceRow = serde_json::from_str(&stored.data).map_err(|_| damaged())?;
    Ok(Some(format!("{}/{}", source.owner, source.fork)))
}
