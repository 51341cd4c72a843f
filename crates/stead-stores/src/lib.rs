//! The Stores: what can stand behind a Workspace.
//!
//! Nothing here can start a process.

mod durability;
pub mod physical;

pub use durability::{Durability, UnknownDurability};
pub use physical::{PhysicalOptions, PhysicalStore};
