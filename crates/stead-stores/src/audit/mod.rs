//! The audit in the database: who did what, as one hash chain of records per running instance.
//!
//! The record of a change is committed in the change's own transaction or, for a Store outside the database, in a
//! transaction before the change. Every other record is written to a spool in the state directory (`spool`,
//! `mapped_file`), and a worker thread moves spooled records into the database in batches (`log`). Each record is
//! chained to the one before it (`chain`). About once a second the newest record of a chain is signed with a key that
//! isn't in the database (`head`), and a file outside the database always holds the chain's end (`chain_end_file`).
//!
//! - `body`: a record as JSON text. `change_digest`: what a revision did, as a digest in its record.
//! - `directory`: the files beside the database. `directory_owner`: whose they are. `external_state`: what they say, read without the database.
//! - `recover`: moves into the database what a killed process left in those files.
//! - `adopt`: signs chains that came with a restored backup.
//! - `verify`: checks the chains. `revision_check`: compares revisions with their records.
//! - `query`, `bloom_filter`: find records by time, and skip ranges that can't match.
//! - `archive`, `archive_index`: move old records into files, and remember those files.
//! - `compensate`: the second record of a change that was recorded and then not made.
//! - `access`: reads, checks and archives the audit without adding to it.
//!
//! ```
//! use std::sync::Arc;
//! use stead_core::{AccessScope, Identity, Mount, Vfs, VfsPath, Workspace};
//! use stead_stores::{Audit, AuditAccess, AuditQuery, Database, DatabaseOptions};
//! # let directory = std::env::temp_dir().join(format!("stead-audit-{}", std::process::id()));
//! # std::fs::create_dir(&directory)?;
//!
//! let database = Database::open(directory.join("stead.db"), DatabaseOptions::default())?;
//! let audit = Audit::open(&database, &directory.join("audit"))?;
//! let mount = Mount::new(Arc::new(database.store(["notes"])?));
//! let notes = Workspace::new(VfsPath::parse("/notes")?, AccessScope::ReadWrite, mount);
//! let vfs = Vfs::builder(Identity::agent("coder")).workspace(notes).audit(audit.clone()).build()?;
//! vfs.write("/notes/a", "1")?;
//! let access = AuditAccess::open(&database, &directory.join("audit"))?;
//! let page = access.page(&AuditQuery::default(), None, 10)?;
//! assert_eq!(page.entries[0].paths, ["/notes/a"]);
//! # drop((vfs, access, audit, database));
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod adopt;
mod archive;
mod archive_index;
mod bloom_filter;
mod body;
mod chain;
mod chain_end_file;
mod change_digest;
mod compensate;
mod directory;
mod directory_owner;
mod external_state;
mod head;
mod log;
mod mapped_file;
mod query;
mod recover;
mod revision_check;
mod spool;
mod verify;

pub use access::AuditAccess;
pub use archive::{Archived, verify_archive};
pub use archive_index::ArchiveLookup;
pub use body::AuditEntry;
pub use log::Audit;
pub use query::{AuditCursor, AuditFollower, AuditPage, AuditQuery};
pub use verify::AuditVerified;

pub(crate) use body::RecordBody;
pub(crate) use chain::{Chain, ChainAppender};
pub(crate) use chain_end_file::ChainEndFile;
pub(crate) use change_digest::ChangeDigest;
pub(crate) use compensate::compensating;
