//! The facade.
pub mod config;
mod error;
pub mod transfer;
pub use error::{Error, Result};
