//! For whoever writes a Store: what every Store promises as a suite of tests, a plain model to compare with, and
//! Stores that misbehave on purpose; and an audit log in memory.

mod faulty;
mod meddling;
mod model;
mod model_store;
mod notes;
pub mod suite;
mod untouchable;

pub use faulty::{Fault, FaultyStore};
pub use meddling::InterferingStore;
pub use model::{SnapshotEntry, TreeSnapshot, model_run, model_run_over, snapshot_of};
pub use model_store::ModelStore;
pub use notes::MemoryAuditLog;
pub use suite::Fixture;
pub use untouchable::PanickingStore;
