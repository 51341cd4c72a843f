//! The real binary as people and scripts use it. Each test compares the whole output.
#![allow(clippy::unwrap_used)]

mod answers;
mod attacks;
mod audit;
mod broken;
mod common;
mod demo;
mod first_minutes;
mod fixtures;
mod forks;
mod hosts;
mod interrupted;
mod past;
mod records;
mod repositories;
mod serving;
mod tools;
