//! The binary on a disk that is full, read-only, damaged or gone.

#![allow(clippy::unwrap_used)]

mod damaged;
mod elsewhere;
mod full;
mod read_only;
mod small;
