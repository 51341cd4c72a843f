//! The manifest of managed files: what a Store that keeps one offers.

use std::collections::HashSet;
use std::fmt::Debug;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::managed::{Category, FileFilter, FileOrigin, ForkedRows, Tags};
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

impl From<ManagedFile> for ManifestRow {
    fn from(file: ManagedFile) -> Self {
        ManifestRow { id: file.id, path: file.path, size: file.size, modified_at: file.modified_at }
    }
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
    /// Sets the size of a file that another program has written, whose time to live begins again.
    Resize {
        /// The row as it was read.
        row: ManifestRow,
        /// The file's size.
        size: u64,
    },
}

impl ManifestRepair {
    /// The path of the row, relative to the managed directory.
    pub fn path(&self) -> &str {
        match self {
            ManifestRepair::Add { path, .. } => path,
            ManifestRepair::Remove { row } | ManifestRepair::Resize { row, .. } => &row.path,
        }
    }
}

/// How many rows sync has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RepairCounts {
    /// How many rows were added.
    pub added: u64,
    /// How many rows were removed.
    pub removed: u64,
    /// How many rows were corrected because another program had written the file.
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

/// A change of a row, as a companion record of a change. Except [`ManifestEdit::Adopt`], it belongs to a change without steps and
/// fails with [`crate::StoreError::NotFound`] if there is no such row.
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
    /// Gives a row what a merge brings from the row of the other side. The change's steps are made first. If the path has no row
    /// then, nothing happens.
    Adopt {
        /// The managed directory.
        root: StorePath,
        /// The path, relative to it.
        path: String,
        /// Tags that the row gets.
        added: Tags,
        /// Tags that it loses.
        removed: Tags,
        /// Where the file came from. It counts if the change makes the row.
        origin: Option<FileOrigin>,
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
    /// The removed files, relative to the managed directory; the first few of them. The operation has all of them.
    #[serde(default)]
    pub paths: Vec<String>,
    /// How many bytes each of `paths` had.
    #[serde(default)]
    pub path_bytes: Vec<u64>,
    /// How many rows it removed whose files were gone already.
    pub stale: u64,
    /// The paths that could not be removed, and why; the first few of them.
    pub errors: Vec<String>,
    /// The paths that could not be read, and why; the first few of them.
    #[serde(default)]
    pub unread: Vec<String>,
    /// The operation that removed the files, if any was removed.
    pub operation: Option<String>,
    /// What sync repaired before.
    pub synced: RepairCounts,
    /// How many of the removed files can't be brought back, because their content isn't kept.
    #[serde(default)]
    pub not_kept: u64,
    /// If this run has removed no file: the last one that has.
    #[serde(default)]
    pub last_removal: Option<PastRemoval>,
}

/// A cleanup that has removed files, and its operation, by which they can be brought back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PastRemoval {
    /// When it began, in RFC 3339.
    pub at: String,
    /// How many files it removed.
    pub removed: u64,
    /// The operation that removed the files.
    pub operation: String,
}

impl CleanupRun {
    /// A run that has done nothing yet.
    pub fn begun(at: Timestamp) -> Self {
        CleanupRun {
            at: at.to_string(),
            removed: 0,
            bytes: 0,
            paths: Vec::new(),
            path_bytes: Vec::new(),
            stale: 0,
            errors: Vec::new(),
            unread: Vec::new(),
            operation: None,
            synced: RepairCounts::default(),
            not_kept: 0,
            last_removal: None,
        }
    }

    /// The run as it is told to somebody who may not know of some of its files: of those that the run names, the visible ones are all
    /// that is told. `sees_all` says that there can't be such files, unless the run names one.
    #[must_use]
    pub fn visible_part(mut self, is_visible: &dyn Fn(&str) -> bool, sees_all: bool) -> Self {
        let sizes = self.path_bytes.iter().copied().chain(std::iter::repeat(0));
        let (visible, hidden): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.paths).into_iter().zip(sizes).partition(|(path, _)| is_visible(path));
        let is_partial = !sees_all || !hidden.is_empty();
        (self.paths, self.path_bytes) = visible.into_iter().unzip();
        if is_partial {
            self.removed = self.paths.len() as u64;
            self.bytes = self.path_bytes.iter().sum();
            self.not_kept = self.not_kept.min(self.removed);
            // Their texts name paths.
            (self.errors, self.unread) = (Vec::new(), Vec::new());
            (self.stale, self.synced) = (0, RepairCounts::default());
            self.last_removal = None;
        }
        self
    }

    /// The last run that has removed files: this one, or the one that it names.
    pub fn newest_removal(&self) -> Option<PastRemoval> {
        let own = self.operation.clone().map(|operation| PastRemoval {
            at: self.at.clone(),
            removed: self.removed,
            operation,
        });
        own.or_else(|| self.last_removal.clone())
    }
}

/// A row that a scan visits. Most rows are only counted, so that the rest of a row is read when it is asked for.
pub trait ScannedRow {
    /// The path, relative to the managed directory.
    fn path(&self) -> StoreResult<&str>;

    /// Everything that the row says.
    fn file(&self) -> StoreResult<ManagedFile>;
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
        visit: &mut dyn FnMut(&dyn ScannedRow) -> ControlFlow<()>,
    ) -> StoreResult<()>;

    /// The row of a path.
    fn file(&self, root: &StorePath, path: &str) -> StoreResult<Option<ManagedFile>>;

    /// The rows of files that were first written with this name, the newest first; the first few of them. Those of a fork that shows
    /// later changes of its base include the base's rows at paths at which the fork has none.
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

    /// Whether there are rows of files below a path, as if it were a directory.
    fn has_rows_below(&self, root: &StorePath, path: &str) -> StoreResult<bool>;

    /// All rows, sorted by the bytes of their paths.
    fn rows(&self, root: &StorePath) -> StoreResult<Vec<ManifestRow>>;

    /// The managed directories inside this one, relative to it. Their files have rows there, not here.
    fn nested(&self, root: &StorePath) -> StoreResult<Vec<String>>;

    /// Whether this is the manifest as it was earlier, which can't be changed.
    fn is_past(&self) -> bool;

    /// Starts to manage a directory. Returns whether sync has to run: the directory is new here, or a change was made whose
    /// rows nobody could know.
    fn manage(&self, root: &StorePath) -> StoreResult<bool>;

    /// Makes repairs that sync found, at time `at`: first those that remove rows. `is_complete` says that they are all there are.
    ///
    /// In a fork that shows later changes of its base, the row of a file that the base has moved follows the file.
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

    /// For the manifest of a fork: the rows that the fork or its target has changed since the fork took in the target's rows the
    /// last time. `None` for any other manifest.
    fn forked_rows(&self, root: &StorePath) -> StoreResult<Option<ForkedRows>>;

    /// Records how a cleanup went.
    fn record_cleanup(&self, root: &StorePath, run: &CleanupRun) -> StoreResult<()>;
}
