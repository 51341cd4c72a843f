//! The Physical Store: a directory of the host.
//!
//! The host's file system holds the truth, and other programs may change it at any time. Three rules follow:
//!
//! - The host never resolves a path on its own: every call starts at a directory handle (`host`, `root`, `slot`).
//! - No file is overwritten where readers can see it half written: new content is made in the `staging_area` and
//!   renamed into place, and the displaced content is checked before it is released (`change`). Appends, and drafts of
//!   an existing file, are the exception: they are written in place (`patch`).
//! - The intent is written before the action, so that the next process that opens the directory, or needs the same
//!   names, can undo an unfinished change (`recover`), unless another program has changed the result since. A change of
//!   one action goes into the ledger, with everything that its history will show (`history`). For a change of several
//!   actions, each action goes into an `intent_log`, which is faster, and the change goes into the ledger at its end.
//!
//! What a change displaces is kept for undo, unless the Store's options say otherwise.
//!
//! Reads take no lock. They see every file complete, but while a change of several steps, or one that writes into a
//! file in place, is being made, they may see a part of it. A lock for readers would cost two system calls per read,
//! and would make changes wait for readers.
//!
//! ```
//! use stead_core::Store;
//! use stead_core::store::{NodePath, StorePath};
//! use stead_stores::{PhysicalOptions, PhysicalStore};
//! # let directory = std::env::temp_dir().join(format!("stead-physical-{}", std::process::id()));
//! # std::fs::create_dir_all(directory.join("project"))?;
//! # std::fs::write(directory.join("project/plan.md"), "1. read")?;
//!
//! let store = PhysicalStore::open(directory.join("project"), PhysicalOptions::new(directory.join("state")))?;
//! let plan = store.read(&NodePath::from_root(StorePath::from_checked("plan.md")), 1 << 20)?;
//! assert_eq!(plan.bytes, b"1. read");
//! # drop(store);
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(target_os = "linux")]
mod announce;
mod change;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod draft;
mod fault_point;
#[cfg(target_os = "linux")]
mod foreign_writes;
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
