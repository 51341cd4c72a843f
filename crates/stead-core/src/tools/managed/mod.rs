//! The tool for the files of managed Workspaces.

pub(super) mod workspace;
