//! The audit in the database: who did what, one chain of records per running instance.
//!
//! Records of changes come in with the change's own transaction; all others go through a spool in the state directory
//! (`spool`, `map`), from where a thread puts them into the database in batches (`log`). Each is chained to the one
//! before it (`chain`), and now and then the newest is signed with a key that is not in the database (`head`); how far
//! the chain has come is always known outside as well (`tail`). What lies beside the database is `place`'s; what a killed
//! process left there, the next one compares with the database and puts in order (`recover`). What a backup brings in is
//! signed when it is restored (`adopt`). A check (`verify`) holds the versions to their records, too (`versions`).
//! Records are found in the order of time, past what sieves keep back (`query`, `sieve`), and old ones go into files
//! (`archive`) that are not forgotten (`archives`). A change that is on record and was not made has a second record, which says so
//! (`compensate`).

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

pub(super) use body::RecordBody;
pub(super) use chain::{Chain, ChainAppender};
pub(super) use chain_end_file::ChainEndFile;
pub(super) use change_digest::ChangeDigest;
pub(super) use compensate::compensating;
