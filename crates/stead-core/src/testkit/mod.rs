//! For authors of a Store: a test suite of what every Store promises, a plain model to compare with, Stores that
//! misbehave on purpose, and an audit log in memory.
//!
//! ```
//! use std::sync::Arc;
//! use stead_core::testkit::{ModelStore, model_run, snapshot_of};
//!
//! let store = Arc::new(ModelStore::default());
//! // 50 random steps, seed 7: each result is compared with the model's.
//! model_run(store.clone(), 7, 50, |expected| assert_eq!(snapshot_of(&*store), *expected));
//! ```

mod faulty_store;
mod interfering_store;
mod memory_audit_log;
mod model;
mod model_store;
mod panicking_store;
pub mod suite;

pub use faulty_store::{Fault, FaultyStore};
pub use interfering_store::InterferingStore;
pub use memory_audit_log::MemoryAuditLog;
pub use model::{SnapshotEntry, TreeSnapshot, model_run, model_run_over, snapshot_of};
pub use model_store::ModelStore;
pub use panicking_store::PanickingStore;
pub use suite::Fixture;
