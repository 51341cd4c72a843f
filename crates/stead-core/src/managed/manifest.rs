//! The manifest of managed files: what a Store that keeps one offers.

use std::collections::HashSet;
use std::fmt::Debug;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::managed::{Category, FileFilter, Tags};
use crate::store::{StorePath, StoreResult};

/// What a manifest says about one file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ManagedFile {
    /// The number of the row. It stays when the file is overwritten, moved or restored.
    pub id: i64,
    /// The path, relative to the managed directory.
    pub path: String,
    /// The category.
    pub category: Category,
    /// The name that the file was first written with.
    pub original_name: Option<String>,
    /// The size in bytes.
    pub size: u64,
    /// The tool that wrote it last.
    pub source_tool: Option<String>,
    /// The tags.
    pub tags: Tags,
    /// When it was first written, or found.
    pub created_at: Timestamp,
    /// When it was last written, or found. Its time to live counts from here.
    pub modified_at: Timestamp,
    /// When it was last read.
    pub accessed_at: Option<Timestamp>,
    /// The session in which it was created: `AGENT`, or `AGENT/THREAD`.
    pub session_key: Option<String>,
}

impl ManagedFile {
    /// A file of which nothing but this is known.
    pub fn new(id: i64, path: impl Into<String>, category: Category, size: u64, at: Timestamp) -> Self {
        ManagedFile {
            id,
            path: path.into(),
            category,
            original_name: None,
            size,
            source_tool: None,
            tags: Tags::default(),
            created_at: at,
            modified_at: at,
            accessed_at: None,
            session_key: None,
        }
    }
}

/// What sync has to know of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestRow {
    /// The number of the row.
    pub id: i64,
    /// The path, relative to the managed directory.
    pub path: String,
    /// The size in bytes.
    pub size: u64,
    /// When the file was last written.
    pub modified_at: Timestamp,
}

/// What sync does to a manifest. A row that has changed since it was read is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestRepair {
    /// Adds a row for a file that has none.
    Add {
        /// The path, relative to the managed directory.
        path: String,
        /// The file's size.
        size: u64,
    },
    /// Removes a row whose file is gone.
    Remove {
        /// The row as it was read.
        row: ManifestRow,
    },
    /// Sets the size of a file that another program has changed, which counts as a write.
    Resize {
        /// The row as it was read.
        row: ManifestRow,
        /// The file's size.
        size: u64,
    },
}

/// How many rows sync has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RepairCounts {
    /// How many rows were added.
    pub added: u64,
    /// How many rows were removed.
    pub removed: u64,
    /// How many rows got another size.
    pub resized: u64,
}

impl RepairCounts {
    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        *self == RepairCounts::default()
    }

    /// The sum of both.
    pub fn plus(self, other: RepairCounts) -> RepairCounts {
        RepairCounts {
            added: self.added + other.added,
            removed: self.removed + other.removed,
            resized: self.resized + other.resized,
        }
    }
}

/// A change of a row alone, as a companion record of a change without steps. It fails with [`crate::StoreError::NotFound`] if
/// there is no such row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestEdit {
    /// Replaces the tags of a file.
    SetTags {
        /// The managed directory.
        root: StorePath,
        /// The path, relative to it.
        path: String,
        /// The tags that the file has; if it has others, the edit fails with [`crate::StoreError::Conflict`].
        before: Tags,
        /// The tags that it gets.
        after: Tags,
    },
    /// Removes the row of a file that is gone.
    Forget {
        /// The managed directory.
        root: StorePath,
        /// The path, relative to it.
        path: String,
    },
}

/// How the last cleanup of a managed directory went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CleanupRun {
    /// When it began, in RFC 3339.
    pub at: String,
    /// How many files it removed.
    pub removed: u64,
    /// How many bytes those files had.
    pub bytes: u64,
    /// How many rows it removed whose files were gone already.
    pub stale: u64,
    /// The paths that could not be removed, and why; the first few of them.
    pub errors: Vec<String>,
    /// The operation that removed the files, if any was removed.
    pub operation: Option<String>,
    /// What sync repaired before.
    pub synced: RepairCounts,
}

impl CleanupRun {
    /// A run that has done nothing yet.
    pub fn begun(at: Timestamp) -> Self {
        CleanupRun {
            at: at.to_string(),
            removed: 0,
            bytes: 0,
            stale: 0,
            errors: Vec::new(),
            operation: None,
            synced: RepairCounts::default(),
        }
    }
}

/// The manifests of the managed directories of a Store. The Store writes the rows itself, with the changes of the files.
///
/// Every method takes the managed directory as `root`. A directory that was never managed has no rows.
pub trait Manifest: Debug + Send + Sync {
    /// Visits the rows that pass the filter, those of the files that were written last first.
    fn scan(
        &self,
        root: &StorePath,
        filter: &FileFilter,
        visit: &mut dyn FnMut(ManagedFile) -> ControlFlow<()>,
    ) -> StoreResult<()>;

    /// The row of a path.
    fn file(&self, root: &StorePath, path: &str) -> StoreResult<Option<ManagedFile>>;

    /// The rows of files that were first written with this name, the newest first; the first few of them.
    fn named(&self, root: &StorePath, original_name: &str) -> StoreResult<Vec<ManagedFile>>;

    /// The rows of files of a category that were last written at `cutoff` or earlier, the oldest first: up to `limit` after
    /// the row that `after` names by its time and number.
    fn written_until(
        &self,
        root: &StorePath,
        category: Category,
        cutoff: Timestamp,
        after: Option<(Timestamp, i64)>,
        limit: usize,
    ) -> StoreResult<Vec<ManagedFile>>;

    /// All rows, sorted by the bytes of their paths.
    fn rows(&self, root: &StorePath) -> StoreResult<Vec<ManifestRow>>;

    /// Starts to manage a directory. Returns whether sync has to run: the directory is new here, or a change was made whose
    /// rows nobody could know.
    fn manage(&self, root: &StorePath) -> StoreResult<bool>;

    /// Makes repairs that sync found, at time `at`. `is_complete` says that they are all there are.
    fn repair(
        &self,
        root: &StorePath,
        repairs: Vec<ManifestRepair>,
        at: Timestamp,
        is_complete: bool,
    ) -> StoreResult<RepairCounts>;

    /// Notes that a file was read. It is written with a later transaction, and may be lost in a power cut.
    fn touch(&self, root: &StorePath, path: &str, at: Timestamp);

    /// The sessions whose threads are in use now, as `AGENT/THREAD`.
    fn active_sessions(&self) -> StoreResult<HashSet<String>>;

    /// Whether the Store has the files of a thread that is in use now.
    fn is_of_active_thread(&self) -> StoreResult<bool>;

    /// How the last cleanup went.
    fn last_cleanup(&self, root: &StorePath) -> StoreResult<Option<CleanupRun>>;

    /// Records how a cleanup went.
    fn record_cleanup(&self, root: &StorePath, run: &CleanupRun) -> StoreResult<()>;
}
