//! The Stores: what can stand behind a Workspace.
//!
//! Nothing here can start a process.
