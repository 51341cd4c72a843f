//! A stead on a real mount, used by real programs.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod bounds;
mod coherence;
mod common;
mod life;
mod modes;
mod ordinary;
mod past;
mod posix;
mod programs;
mod together;
mod torture;
