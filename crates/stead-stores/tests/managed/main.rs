//! Managed Workspaces on real Stores: each test is named after the line of the specification that it proves.

#![allow(clippy::unwrap_used)]

mod host;
mod lifecycle;
mod lists;
mod manifest;
mod routing;
mod syncing;
mod tool;
mod year;
