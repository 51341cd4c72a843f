//! The real binary as people and scripts use it. Each test compares the whole output.
#![allow(clippy::unwrap_used)]

mod audit;
mod audit_attacks;
mod audit_records;
mod broken_stores;
mod common;
mod config_search;
mod demo;
mod exit_codes;
mod first_minutes;
mod fixtures;
mod fork_tools;
mod forks;
mod git_repositories;
mod habits;
mod help;
mod hidden_names;
mod history;
mod host_install;
mod interrupted;
mod json_documents;
mod one_line;
mod organizations;
mod output;
#[path = "../shared/program.rs"]
mod program;
mod review;
mod searching;
mod serving;
mod threads;
mod tool_results;
mod tools;
