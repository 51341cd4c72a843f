//! Whether a query asks for something: by what it is now, not by the names it had.

use stead_core::store::{NodeId, NodePath, StoreError, StoreResult};

use super::super::super::mask::{is_at_or_below, join};
use super::super::face::{LedgerEvent, LedgerEventKind};
use super::super::rows::LedgerRows;
use super::LedgerReplay;

/// What a query asks for.
pub(super) enum QuerySubject {
    Everything,
    At(Vec<u8>),
    /// It was not there at this time any more: the entry that took it away comes later, and what its path was then.
    Gone((i64, i64), Vec<u8>),
    /// It was not there yet.
    Before,
}

impl LedgerReplay<'_> {
    /// Whether the query asks for what is at a path at this time.
    pub(super) fn wants(&self, path: &[u8]) -> bool {
        match &self.top {
            QuerySubject::Everything => true,
            QuerySubject::At(top) => is_at_or_below(path, top),
            QuerySubject::Gone(..) | QuerySubject::Before => false,
        }
    }

    /// What lies at a place, or lay there last.
    pub(super) fn find_subject(&self, place: &NodePath) -> StoreResult<QuerySubject> {
        let mut path = place.path.as_bytes().to_vec();
        if place.from != NodeId::ROOT {
            let from = self.store.nodes.path(place.from.0).ok_or(StoreError::NotFound)?;
            path = join(&from, &path);
        }
        if path.is_empty() {
            return Ok(QuerySubject::Everything);
        }
        if self.stat_now(&path).is_some() {
            return Ok(QuerySubject::At(path));
        }
        let mut rows = LedgerRows::new(self.books);
        let mut newer: Vec<(LedgerEvent, (i64, i64))> = Vec::new();
        while let Some(told) = rows.next()? {
            let (said, row) = (LedgerEvent::from_row(&told)?, (told.version, told.row.seq));
            let ends = match said.what {
                LedgerEventKind::Removed | LedgerEventKind::Moved => is_at_or_below(&path, &said.path),
                LedgerEventKind::Crossed => {
                    is_at_or_below(&path, &said.path)
                        || said.other.as_ref().is_some_and(|other| is_at_or_below(&path, other))
                }
                LedgerEventKind::Placed
                | LedgerEventKind::Replaced
                | LedgerEventKind::Patched
                | LedgerEventKind::Dressed => false,
            };
            newer.push((said, row));
            if ends {
                return Ok(follow_to_now(path, newer));
            }
        }
        Err(StoreError::NotFound)
    }
}

/// Where something is now that was at `path` before the last of these entries, which come newest first.
fn follow_to_now(mut path: Vec<u8>, entries: Vec<(LedgerEvent, (i64, i64))>) -> QuerySubject {
    for (said, row) in entries.iter().rev() {
        let other = said.other.as_deref().unwrap_or_default();
        match said.what {
            LedgerEventKind::Removed if is_at_or_below(&path, &said.path) => {
                return QuerySubject::Gone(*row, path);
            }
            LedgerEventKind::Moved | LedgerEventKind::Crossed if is_at_or_below(&path, &said.path) => {
                path = [other, &path[said.path.len()..]].concat();
            }
            LedgerEventKind::Crossed if is_at_or_below(&path, other) => {
                path = [&said.path, &path[other.len()..]].concat();
            }
            _ => {}
        }
    }
    QuerySubject::At(path)
}
