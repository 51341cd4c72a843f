//! The domain of Stead: paths, Access Scopes, Workspaces, the Store trait and the Vfs.
//!
//! An agent sees Workspaces, logical paths with an Access Scope, and nothing else. Every file operation of every
//! surface goes through [`Vfs`]. It resolves the path, routes it to a Workspace, checks the scope, and only then calls
//! the Store behind it. Nothing in this crate uses a disk, a database, a network or a process.

pub mod audit;
mod audit_facts;
pub mod clock;
pub mod edit;
mod error;
pub mod filesystem_map;
pub mod glob;
pub mod hide;
pub mod history;
pub mod identity;
mod lines;
pub mod managed;
mod memory_budget;
pub mod monitor;
pub mod name;
pub mod organization;
pub mod path;
pub mod router;
pub mod scope;
pub mod search;
pub mod store;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;
mod text_encoding;
pub mod tools;
pub mod vfs;
pub mod workspace;

pub use audit::{AuditLog, AuditOutcome, AuditRecord};
pub use audit_facts::{AuditFacts, FactName, FactValue, InvalidFact};
pub use clock::{Clock, FixedClock, SystemClock, Timestamp};
pub use edit::{Edit, EditError, EditMismatch, MAX_EDIT_SIZE, MismatchReason, Occurrences};
pub use error::{Error, ErrorKind, Result, StateChange, Visibility};
pub use identity::{Identity, Operation, OperationId, OperationIdPrefix, parse_thread_name};
pub use monitor::CallMonitor;
pub use name::Name;
pub use path::{PathError, VfsPath};
pub use router::{Router, WorkspaceNames};
pub use scope::{Access, AccessScope};
pub use store::{Store, StoreError, StoreResult};
pub use text_encoding::TextEncoding;
pub use tools::{Reply, Tool, Toolbox};
pub use vfs::Vfs;
pub use workspace::{ApprovalPolicy, Barrier, ForkOrigin, Mount, RootMode, Workspace};
