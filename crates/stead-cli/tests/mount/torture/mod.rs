//! A mounted stead under load: many processes on one tree, and a mount that is killed again and again.
//!
//! The loops are short here and long with `cargo xtask test --long`.

mod child;
mod killed;
pub(crate) mod mapping;
mod separate_directories;
mod stress;
mod tree;
