//! For whoever writes a Store: what every Store promises as a suite of tests, a plain model to compare with, and
//! Stores that misbehave on purpose.

mod faulty;
mod meddling;
mod model;
mod model_store;
pub mod suite;
mod untouchable;

pub use faulty::{Fault, Faulty};
pub use meddling::Meddling;
pub use model::{Snapshot, Thing, model_run, model_run_over, snapshot_of};
pub use model_store::ModelStore;
pub use suite::Fixture;
pub use untouchable::Untouchable;
