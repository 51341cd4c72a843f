//! The newest revision that was acknowledged, in a small file beside the database.
//!
//! A database can't tell that it was removed, or that its end was: an empty file is an empty database, and a truncated
//! write-ahead log is a shorter one. The file `-version` outlives both. It is written after a commit is on the disk, so
//! it never names a revision that wasn't there.
//!
//! ```text
//! version 00000000000000000042
//! lost 00000000000000000000 00000000000000000000
//! ```

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::host_path::beside;
use crate::sync::{self, SyncPoint};

/// The content of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AcknowledgedRevisions {
    /// The newest revision that was acknowledged.
    pub(crate) revision: i64,
    /// The first and the last revision that were acknowledged and are missing from the database; 0 if none are.
    pub(crate) lost: (i64, i64),
}

/// The file beside one database.
#[derive(Debug)]
pub(crate) struct RevisionFile {
    path: PathBuf,
}

impl RevisionFile {
    /// The file of the database at that path.
    pub(crate) fn of(database: &Path) -> Self {
        RevisionFile { path: beside(database, "-version") }
    }

    /// Reads the file; `None` if there never was a database. A file that can't be read or parsed still says that there
    /// was one.
    pub(crate) fn read(&self) -> Option<AcknowledgedRevisions> {
        match std::fs::read_to_string(&self.path) {
            Ok(text) => Some(parse(&text).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => Some(AcknowledgedRevisions::default()),
        }
    }

    /// Creates or overwrites the file of an existing database, and syncs it and its name.
    pub(crate) fn make(&self, acknowledged: AcknowledgedRevisions) -> io::Result<()> {
        let file = self.open()?;
        write_state(&file, acknowledged)?;
        sync::sync_all(SyncPoint::NewestRevision, &file)?;
        sync::sync_directory(SyncPoint::NewestRevisionName, self.path.parent().unwrap_or(Path::new("")))
    }

    /// Opens the file to be written after every synced commit.
    pub(crate) fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).open(&self.path)
    }
}

/// Overwrites the whole file. Its length never changes, so this works on a full disk.
pub(crate) fn write_state(file: &File, acknowledged: AcknowledgedRevisions) -> io::Result<()> {
    let AcknowledgedRevisions { revision, lost: (first, last) } = acknowledged;
    file.write_all_at(format!("version {revision:020}\nlost {first:020} {last:020}\n").as_bytes(), 0)
}

/// Overwrites the newest revision, and leaves the rest.
pub(crate) fn write_revision(file: &File, revision: i64) -> io::Result<()> {
    file.write_all_at(format!("version {revision:020}\n").as_bytes(), 0)
}

fn parse(text: &str) -> Option<AcknowledgedRevisions> {
    let mut lines = text.lines();
    let revision = lines.next()?.strip_prefix("version ")?.parse().ok()?;
    let (first, last) = lines.next()?.strip_prefix("lost ")?.split_once(' ')?;
    Some(AcknowledgedRevisions { revision, lost: (first.parse().ok()?, last.parse().ok()?) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_written_file_is_read_and_a_torn_one_says_that_there_was_a_database() {
        let directory = tempfile::tempdir().unwrap();
        let revision_file = RevisionFile::of(&directory.path().join("db"));
        assert_eq!(revision_file.read(), None);
        let acknowledged = AcknowledgedRevisions { revision: 42, lost: (7, 9) };
        revision_file.make(acknowledged).unwrap();
        assert_eq!(revision_file.read(), Some(acknowledged));
        let path = directory.path().join("db-version");
        std::fs::write(&path, "version 00").unwrap();
        assert_eq!(revision_file.read(), Some(AcknowledgedRevisions::default()));
    }
}
