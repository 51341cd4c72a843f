//! The Stores that hold the files of a Workspace: Physical (a host directory), Virtual (SQLite) and Memory.
//!
//! Nothing here can start a process.

mod boot;
pub mod durability;
pub mod physical;
mod state_folder;
pub mod sync;
pub mod virtual_store;

pub use durability::Durability;
pub use physical::{
    Confinement, DisplacedRetention, LedgerOpenMode, LedgerSource, PhysicalOptions, PhysicalStore, Pruned,
};
pub use state_folder::state_folder_of;
pub use virtual_store::{
    ArchiveLookup, Archived, Audit, AuditAccess, AuditCursor, AuditEntry, AuditFollower, AuditPage,
    AuditQuery, AuditVerified, Database, DatabaseOptions, MemoryStore, VirtualStore, verify_archive,
};
