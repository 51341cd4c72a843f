//! Stead: a bounded place for every AI agent to work.
//!
//! An agent sees Workspaces: logical paths, each with an Access Scope, over Stores (host directories, databases,
//! memory). This crate reads the configuration, opens the Stores and builds a [`Stead`], which is everything that one
//! agent can reach and nothing else.

#[cfg(feature = "tokio")]
mod async_stead;
pub mod config;
mod convenience;
mod current_records;
pub mod demo;
pub mod doctor;
mod error;
mod fork_access;
mod fork_entry;
mod fork_merge;
mod fork_parts_merge;
mod forks;
mod host_locations;
mod hygiene;
mod lazy_audit_log;
mod lazy_store;
pub mod live_steads;
mod old_layout;
mod operations;
mod review_forks;
mod server_lock;
mod sharing;
mod snapshots;
mod stead;
mod stores;
mod threads;
pub mod time_text;
pub mod tokens;
mod toolbox;
pub mod transfer;

#[cfg(feature = "tokio")]
pub use crate::async_stead::AsyncStead;
pub use crate::config::Config;
pub use crate::current_records::FileFingerprint;
pub use crate::error::{Error, Result};
pub use crate::fork_merge::MergePlaces;
pub use crate::hygiene::{HYGIENE_INTERVAL, HygieneSchedule, ManagedDirectory};
pub use crate::lazy_audit_log::set_operator_notifier;
pub use crate::live_steads::{LiveEntry, LiveSteads};
pub use crate::old_layout::{MigrationClash, MigrationReport, MovedDirectory};
pub use crate::server_lock::{DatabaseInUse, ServerLock};
pub use crate::stead::{Stead, SteadBuilder, SteadOwner};
pub use crate::stores::{GcReport, Stores};
pub use crate::threads::{
    ArchiveDestination, ArchivedThread, DestroyedThread, Swept, ThreadDetails, ThreadWorkspace, Threads,
    generate_thread_name,
};
pub use crate::tokens::{Token, Tokens};

pub use stead_core::Error as VfsError;
pub use stead_core::clock::SystemClock;
pub use stead_core::history;
pub use stead_core::managed;
pub use stead_core::store::{
    DatabaseId, Fork, ForkName, ForkPart, NodeKind, RevisionId, RevisionNumber, StoreId, StoreRevisions,
    TagRef, VersionTag,
};
pub use stead_core::{
    Access, AccessScope, ApprovalPolicy, AuditFacts, AuditLog, AuditOutcome, AuditRecord, Clock, ErrorKind,
    FactName, FactValue, Identity, InvalidFact, Mount, Name, Occurrences, Operation, OperationId,
    OperationIdPrefix, PathError, Reply, Store, StoreError, Timestamp, Tool, Toolbox, Vfs, VfsPath,
    Visibility, Workspace, edit, filesystem_map, monitor, name, organization, parse_thread_name, search,
    store, tools, vfs,
};
pub use stead_stores::database::{
    BackupReport, Collected, ForgottenHistory, GcOptions, NewSnapshot, Retention, Snapshot,
};
pub use stead_stores::{
    ArchiveLookup, Archived, Audit, AuditAccess, AuditCursor, AuditEntry, AuditFollower, AuditPage,
    AuditQuery, AuditVerified, Database, DatabaseOptions, Durability, MemoryStore, PhysicalOptions,
    PhysicalStore, Pruned, ThreadKey, ThreadRecord, VirtualStore, verify_archive,
};
