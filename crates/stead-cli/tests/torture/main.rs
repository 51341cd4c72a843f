//! A mounted stead under load: many processes on one tree, and a mount that is killed again and again.
//!
//! The loops are short here and long with `cargo xtask test --long`.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod alone;
mod child;
mod killed;
mod mapping;
mod place;
mod stress;
mod tree;
