//! The binary on a disk that is full, read-only, damaged or gone.

#![allow(clippy::unwrap_used)]

mod damaged;
mod full;
#[path = "../shared/program.rs"]
mod program;
mod read_only;
mod separate_store_disk;
mod small_disk;
