//! The Stores that hold the files of a Workspace: Physical (a host directory), Virtual (SQLite) and Memory.
//!
//! Nothing here can start a process.

pub mod audit;
mod boot;
pub mod database;
pub mod durability;
mod host_path;
mod ledger;
mod memory;
mod node_path_table;
mod overlay;
pub mod physical;
mod reserved_names;
mod state_folder;
pub mod sync;
pub mod threads;
pub mod virtual_store;
mod work_queue;

pub use audit::{
    ArchiveLookup, Archived, Audit, AuditAccess, AuditCursor, AuditEntry, AuditFollower, AuditPage,
    AuditQuery, AuditVerified, verify_archive,
};
pub use database::{Database, DatabaseOptions, StateOwner};
pub use durability::Durability;
pub use host_path::{resolve_existing_prefix, resolve_symlinks};
pub use memory::MemoryStore;
pub use overlay::{OverlayStore, TakenOver};
pub use physical::{
    Confinement, DisplacedRetention, LedgerOpenMode, LedgerSource, PhysicalOptions, PhysicalStore, Pruned,
};
pub use state_folder::{state_folder_name, state_folder_of, state_folders};
pub use threads::{
    EndWhen, Ending, EndingThread, Entered, EnteredAs, HeldThread, LeaseHolder, RemovedThread, ThreadKey,
    ThreadRecord,
};
pub use virtual_store::{ForkRecord, VirtualStore};
