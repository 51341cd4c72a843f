//! Checking and removing a Store.

use std::fmt::Debug;

use crate::store::StoreResult;

/// A Store that keeps something of its own: rows of a database, displaced content.
pub trait Maintenance: Debug + Send + Sync {
    /// Checks everything that can be checked, and reports what is wrong. `progress` gets the number of entries so far.
    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<VerifyReport>;

    /// Removes everything that Stead keeps for the Store. The host's own files stay.
    fn destroy(&self) -> StoreResult<()>;

    /// Whether what the Store stands on was found to be removed. The Store is then unusable until it is opened again.
    fn is_gone(&self) -> bool;
}

/// What [`Maintenance::verify`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// How many entries were checked.
    pub entries: u64,
    /// How many pieces of content had their hash checked.
    pub contents: u64,
    /// How many bytes nothing refers to. They are not an error.
    pub unreferenced: u64,
    /// What is wrong, one sentence each.
    pub problems: Vec<String>,
}
