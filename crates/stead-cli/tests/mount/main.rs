//! A stead on a real mount, used by real programs.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod coherence;
mod common;
mod forks;
mod history;
mod modes;
mod mounting;
mod posix;
#[path = "../shared/program.rs"]
mod program;
mod programs;
mod restrictions;
mod special_files;
mod torture;
mod visibility;
