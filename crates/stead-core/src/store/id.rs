//! What identifies a database, a Store, and a revision of a Store.

use std::collections::BTreeMap;
use std::fmt;

use uuid::Uuid;

use crate::store::RevisionNumber;

/// Identifies a database. The Stores that commit to one database share its revision numbers, and it holds their audit log
/// and their companion records.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DatabaseId(u128);

impl DatabaseId {
    /// An id that no other database has, for a database that ends with the process.
    pub fn fresh() -> Self {
        DatabaseId(Uuid::now_v7().as_u128())
    }

    /// The id of the database at a location: the same after it was closed and opened again, and another one for a copy.
    pub fn at_location(location: &[u8]) -> Self {
        DatabaseId(derive_id("stead 2026 database at location", &[location]))
    }
}

impl fmt::Debug for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseId({:032x})", self.0)
    }
}

/// Identifies a Store. Two open Stores with one id have the same files, nodes and revisions.
///
/// The id of a persistent Store is the same after it was closed and opened again. A fork is a Store of its own. So is a
/// view of the past: it must not be taken for the present.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoreId(u128);

impl StoreId {
    /// An id that no other Store has, for a Store without a database.
    pub fn fresh() -> Self {
        StoreId(Uuid::now_v7().as_u128())
    }

    /// The id of the Store that has this name in a database.
    pub fn in_database(database: DatabaseId, name: &[u8]) -> Self {
        StoreId(derive_id("stead 2026 store in database", &[&database.0.to_be_bytes(), name]))
    }

    /// The id of a view of this Store as of a revision.
    pub fn as_of(self, revision: RevisionNumber) -> Self {
        let parts: [&[u8]; 2] = [&self.0.to_be_bytes(), &revision.0.to_be_bytes()];
        StoreId(derive_id("stead 2026 store as of revision", &parts))
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreId({:032x})", self.0)
    }
}

/// Hashes the parts. Only the last part may have any length.
fn derive_id(context: &'static str, parts: &[&[u8]]) -> u128 {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    for part in parts {
        hasher.update(part);
    }
    let mut id = [0; 16];
    hasher.finalize_xof().fill(&mut id);
    u128::from_be_bytes(id)
}

/// A revision, and the Store that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RevisionId {
    /// The Store.
    pub store: StoreId,
    /// The revision's number, which Stores of another database count apart.
    pub number: RevisionNumber,
}

/// One revision for each of several Stores, such as a snapshot of a stead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreRevisions(BTreeMap<StoreId, RevisionNumber>);

impl StoreRevisions {
    /// The revision of a Store, if the set has one.
    pub fn get(&self, store: StoreId) -> Option<RevisionNumber> {
        self.0.get(&store).copied()
    }

    /// The revisions, one per Store.
    pub fn iter(&self) -> impl Iterator<Item = RevisionId> + '_ {
        self.0.iter().map(|(store, number)| RevisionId { store: *store, number: *number })
    }
}

impl FromIterator<RevisionId> for StoreRevisions {
    /// If several revisions are of one Store, the last one stays.
    fn from_iter<T: IntoIterator<Item = RevisionId>>(revisions: T) -> Self {
        StoreRevisions(revisions.into_iter().map(|revision| (revision.store, revision.number)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_depend_on_every_part_and_on_nothing_else() {
        let [one, other] = [b"/a/stead.db", b"/b/stead.db"].map(|path| DatabaseId::at_location(path));
        assert_eq!(one, DatabaseId::at_location(b"/a/stead.db"));
        let notes = StoreId::in_database(one, b"notes");
        let same = StoreId::in_database(one, b"notes");
        let ids = [
            notes,
            StoreId::in_database(other, b"notes"),
            StoreId::in_database(one, b"code"),
            notes.as_of(RevisionNumber(1)),
            notes.as_of(RevisionNumber(2)),
            StoreId::fresh(),
            StoreId::fresh(),
        ];
        assert_eq!(notes, same);
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
    }
}
