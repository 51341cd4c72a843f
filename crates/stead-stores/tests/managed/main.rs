//! Managed Workspaces on real Stores: each test is named after the line of the specification that it proves.

#![allow(clippy::unwrap_used)]

mod cost;
mod host;
mod kept;
mod large;
mod lifecycle;
mod lists;
mod manifest;
mod paths;
mod returning;
mod rewritten;
mod routing;
mod row_transactions;
mod syncing;
mod tag_index;
mod tool;
mod year;
