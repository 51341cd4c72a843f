//! Which node a query asks for: the one that has the query's path now, or had it last. The replay follows that node,
//! not the path.

use stead_core::store::{NodeId, NodePath, StoreError, StoreResult};

use super::super::super::mask::{is_at_or_below, join};
use super::super::ledger_event::{LedgerEvent, LedgerEventKind};
use super::super::ledger_rows::LedgerRows;
use super::LedgerReplay;

/// What a query asks for.
pub(super) enum QuerySubject {
    Everything,
    At(Vec<u8>),
    /// It doesn't exist at this time. The row that removed it, which the replay has yet to reach, and its path then.
    Removed((i64, i64), Vec<u8>),
    /// It wasn't created yet at this time.
    NotYetCreated,
}

impl LedgerReplay<'_> {
    /// Whether the query asks for what is at this path, at the replay's current time.
    pub(super) fn wants(&self, path: &[u8]) -> bool {
        match &self.subject {
            QuerySubject::Everything => true,
            QuerySubject::At(subject_path) => is_at_or_below(path, subject_path),
            QuerySubject::Removed(..) | QuerySubject::NotYetCreated => false,
        }
    }

    /// Finds the node at a path, or the last one that was there.
    pub(super) fn find_subject(&self, at: &NodePath) -> StoreResult<QuerySubject> {
        let mut path = at.path.as_bytes().to_vec();
        if at.base != NodeId::ROOT {
            let from = self.store.node_path_table.path(at.base.0).ok_or(StoreError::NotFound)?;
            path = join(&from, &path);
        }
        if path.is_empty() {
            return Ok(QuerySubject::Everything);
        }
        if self.stat_now(&path).is_some() {
            return Ok(QuerySubject::At(path));
        }
        let mut rows = LedgerRows::new(self.ledger);
        let mut newer: Vec<(LedgerEvent, (i64, i64))> = Vec::new();
        while let Some(stored_row) = rows.next()? {
            let (event, row) =
                (LedgerEvent::from_row(&stored_row)?, (stored_row.revision, stored_row.row.seq));
            let ends_there = match event.kind {
                LedgerEventKind::Removed | LedgerEventKind::Moved => is_at_or_below(&path, &event.path),
                LedgerEventKind::Exchanged => {
                    is_at_or_below(&path, &event.path)
                        || event
                            .other_path
                            .as_ref()
                            .is_some_and(|other_path| is_at_or_below(&path, other_path))
                }
                LedgerEventKind::Placed
                | LedgerEventKind::Replaced
                | LedgerEventKind::Patched
                | LedgerEventKind::AttributesSet => false,
            };
            newer.push((event, row));
            if ends_there {
                return Ok(follow_to_now(path, newer));
            }
        }
        Err(StoreError::NotFound)
    }
}

/// Finds where the node is now that was at `path` before the oldest of these entries, which come newest first.
fn follow_to_now(mut path: Vec<u8>, entries: Vec<(LedgerEvent, (i64, i64))>) -> QuerySubject {
    for (event, row) in entries.iter().rev() {
        let other_path = event.other_path.as_deref().unwrap_or_default();
        match event.kind {
            LedgerEventKind::Removed if is_at_or_below(&path, &event.path) => {
                return QuerySubject::Removed(*row, path);
            }
            LedgerEventKind::Moved | LedgerEventKind::Exchanged if is_at_or_below(&path, &event.path) => {
                path = [other_path, &path[event.path.len()..]].concat();
            }
            LedgerEventKind::Exchanged if is_at_or_below(&path, other_path) => {
                path = [&event.path, &path[other_path.len()..]].concat();
            }
            _ => {}
        }
    }
    QuerySubject::At(path)
}
