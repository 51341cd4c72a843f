//! Stores under load: killed at random, shared by many processes, raced by someone who swaps directories for symlinks.
//!
//! The loops are short here and long with `cargo xtask test --long`.

mod child;
mod crash;
mod crowd;
mod places;
mod swap;
