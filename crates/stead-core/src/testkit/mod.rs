//! For authors of a Store: a test suite of what every Store promises, a plain model to compare with, Stores that
//! misbehave on purpose, and an audit log in memory.

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
