//! Maintenance of a database: snapshots, retention, garbage collection and backups.

mod backup;
mod gc;
mod retention;
mod snapshot;

pub use backup::BackupReport;
pub use gc::{Collected, GcOptions};
pub use retention::{ForgottenHistory, Retention};
pub use snapshot::{NewSnapshot, Snapshot};

pub(crate) use retention::{PINNED_REVISIONS, check_none_lost_after, check_readable, is_readable};
