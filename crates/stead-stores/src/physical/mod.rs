//! The Physical Store: a directory of the host.
//!
//! The host's file system is the truth, and other programs may change it at any time. Three things follow. Nothing is
//! reached by a path that the host resolves on its own: every call starts at a directory handle (`host`, `root`,
//! `spot`). Nothing is overwritten in sight: new content is made in the `workshop` and put into place by a rename,
//! and what was displaced is looked at before it is let go (`act`). And what is about to happen is written down first,
//! so that the next process that opens the directory, or wants the same names, can take it back (`recover`), as far as
//! nobody has gone on from there: a change of one action into the ledger, with all that will be told of it (`keep`), and
//! each action of a change that has several into a `journal`, which is faster, and the change into the ledger at its end.
//!
//! What a change displaces is kept, if the Store keeps it.
//!
//! Reads take no lock. They see every file whole; of a change with several steps, or one that writes into a file where
//! it is, they may see a part while it is being made. A lock for them would cost two system calls a read, and make changes
//! wait for readers.

#[cfg(target_os = "linux")]
mod change;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod draft;
mod fault_point;
#[cfg(target_os = "linux")]
mod history;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod intent_log;
#[cfg(target_os = "linux")]
mod lock;
#[cfg(target_os = "linux")]
mod mask;
#[cfg(target_os = "linux")]
mod name_steps;
#[cfg(target_os = "linux")]
mod new_parents;
#[cfg(target_os = "linux")]
mod node_path_table;
mod options;
mod own_files;
#[cfg(target_os = "linux")]
mod owner_access;
#[cfg(target_os = "linux")]
mod patch;
#[cfg(target_os = "linux")]
mod patch_outcome;
#[cfg(target_os = "linux")]
mod read;
#[cfg(target_os = "linux")]
mod recover;
#[cfg(target_os = "linux")]
mod recovery_report;
#[cfg(target_os = "linux")]
mod root;
#[cfg(target_os = "linux")]
mod shared_cells;
#[cfg(target_os = "linux")]
mod slot;
#[cfg(target_os = "linux")]
mod staging_area;
#[cfg(target_os = "linux")]
mod staging_dir;
#[cfg(target_os = "linux")]
mod store;
#[cfg(target_os = "linux")]
mod tree;
#[cfg(target_os = "linux")]
mod undo;
#[cfg(not(target_os = "linux"))]
mod unsupported;
#[cfg(target_os = "linux")]
mod walk;
#[cfg(target_os = "linux")]
mod write_steps;

pub use fault_point::Faults;
pub use options::{Confinement, DisplacedRetention, LedgerOpenMode, LedgerSource, PhysicalOptions, Pruned};
#[cfg(target_os = "linux")]
pub use store::PhysicalStore;
#[cfg(not(target_os = "linux"))]
pub use unsupported::PhysicalStore;
