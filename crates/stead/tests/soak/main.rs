//! Stores under load: killed at random, shared by many processes, raced by a process that swaps directories for
//! symlinks, and held to tight limits.
//!
//! The loops are short here and long with `cargo xtask test --long`.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod audit;
mod child;
mod crash;
mod killed_history_work;
mod killed_managed_work;
mod killed_thread_work;
mod limited_process;
mod many_processes;
mod memory;
mod state;
mod symlink_swap;
mod test_stores;
