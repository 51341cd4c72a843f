//! For whoever writes a Store: what every Store promises as a suite of tests, a plain model to compare with, and
//! Stores that misbehave on purpose.

mod model;
mod model_store;
mod untouchable;

pub use model_store::ModelStore;
pub use untouchable::Untouchable;
