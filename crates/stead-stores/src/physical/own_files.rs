//! Recognises Stead's own files by device and inode, because another program may have made a hard link to one of them
//! anywhere.
//!
//! A file with one name lies at a path that is masked, so only files with several names are looked up here. The index
//! is rebuilt as soon as one of the directories has changed: every editor replaces a configuration when it saves, and a
//! database's `-wal` comes and goes.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, MutexGuard};
use stead_core::Timestamp;

use super::host::{self, HostStat};

/// The subdirectory of a state directory that holds the staging areas of Physical Stores. It is skipped: it holds
/// content of users, which may have hard links that are the users' business.
const STAGING_AREAS_DIR: &str = "physical";
/// A directory that was changed more recently than this may change again without getting another timestamp.
const TIMESTAMP_GRAIN: Duration = Duration::from_millis(50);
/// How deep a state directory is searched.
const MAX_DEPTH: usize = 8;

/// Stead's own files, wherever they lie on the host.
#[derive(Default)]
pub(super) struct OwnFiles {
    /// Files, and directories in which all files are Stead's own.
    paths: Vec<PathBuf>,
    index: Mutex<OwnFilesIndex>,
}

impl fmt::Debug for OwnFiles {
    /// Leaves out the paths, because host paths must not appear in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnFiles").finish_non_exhaustive()
    }
}

/// The result of the last scan.
#[derive(Default)]
struct OwnFilesIndex {
    /// The path of each file, by its device and inode.
    files: HashMap<(u64, u64), PathBuf>,
    /// The directories that contain the files, each with its stamp at the time of the scan.
    directories: Vec<(PathBuf, Option<DirectoryStamp>)>,
    /// Whether a change since the scan would change a stamp.
    is_reliable: bool,
}

/// Device, inode, modification time and change time of a directory.
type DirectoryStamp = (u64, u64, Timestamp, Timestamp);

impl OwnFiles {
    /// The files at these paths, and in the directories among these paths.
    pub(super) fn new(mut paths: Vec<PathBuf>) -> Self {
        paths.sort_unstable();
        paths.dedup();
        OwnFiles { paths, index: Mutex::default() }
    }

    /// Whether a file is one of them.
    pub(super) fn contains(&self, stat: &HostStat) -> bool {
        self.index().files.contains_key(&(stat.dev, stat.ino))
    }

    /// Whether one of them has more than one name.
    pub(super) fn have_hard_links(&self) -> bool {
        let has_several = |path: &PathBuf| host::stat_ambient(path).is_ok_and(|stat| stat.links > 1);
        self.index().files.values().any(has_several)
    }

    fn index(&self) -> MutexGuard<'_, OwnFilesIndex> {
        let mut index = self.index.lock();
        if !index.is_current() {
            *index = self.scan();
        }
        index
    }

    fn scan(&self) -> OwnFilesIndex {
        let mut index = OwnFilesIndex::default();
        for path in &self.paths {
            if let Some(parent) = path.parent() {
                index.note_directory(parent);
            }
            index.add(path, MAX_DEPTH);
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        let newest = index.directories.iter().filter_map(|(_, state)| Some(state.as_ref()?.3.0)).max();
        index.is_reliable =
            newest.is_none_or(|newest| now.saturating_sub(newest) > TIMESTAMP_GRAIN.as_nanos() as i64);
        index
    }
}

impl OwnFilesIndex {
    fn is_current(&self) -> bool {
        self.is_reliable && self.directories.iter().all(|(path, state)| directory_stamp(path) == *state)
    }

    fn note_directory(&mut self, directory: &Path) {
        if !self.directories.iter().any(|(path, _)| path == directory) {
            self.directories.push((directory.to_owned(), directory_stamp(directory)));
        }
    }

    fn add(&mut self, path: &Path, depth: usize) {
        let Ok(stat) = host::stat_ambient(path) else { return };
        if !stat.is_dir() {
            self.files.insert((stat.dev, stat.ino), path.to_owned());
            return;
        }
        // Stamped before the directory is read, so that a change meanwhile is noticed by the next call.
        self.note_directory(path);
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        for entry in entries.filter(|_| depth > 0) {
            // A symlink is not followed: its target isn't in this directory.
            let kind = entry.file_type();
            if kind.is_ok_and(|kind| !kind.is_symlink()) && entry.file_name() != STAGING_AREAS_DIR {
                self.add(&entry.path(), depth - 1);
            }
        }
    }
}

fn directory_stamp(directory: &Path) -> Option<DirectoryStamp> {
    let stat = host::stat_ambient(directory).ok()?;
    Some((stat.dev, stat.ino, stat.modified, stat.changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_files_are_recognised_also_after_they_were_replaced() {
        let temp = tempfile::tempdir().unwrap();
        let at = |path: &str| temp.path().join(path);
        std::fs::create_dir_all(at("state/audit/running")).unwrap();
        std::fs::create_dir_all(at("state/physical/x/displaced")).unwrap();
        for path in ["config", "other", "state/db", "state/audit/key", "state/physical/x/displaced/1"] {
            std::fs::write(at(path), path).unwrap();
        }
        let own_files = OwnFiles::new(vec![at("config"), at("state"), at("none")]);
        let is_own = |path: &str| own_files.contains(&host::stat_ambient(&at(path)).unwrap());
        for round in 0..40 {
            for path in ["config", "state/db", "state/audit/key"] {
                assert!(is_own(path), "{path} {round}");
            }
            for path in ["other", "state/physical/x/displaced/1"] {
                assert!(!is_own(path), "{path} {round}");
            }
            // As an editor saves, more often than a file system's clock ticks.
            std::fs::write(at("new"), "x").unwrap();
            std::fs::rename(at("new"), at("config")).unwrap();
            std::fs::write(at("state/audit/new"), "x").unwrap();
            std::fs::rename(at("state/audit/new"), at("state/audit/key")).unwrap();
        }
        assert!(!own_files.have_hard_links());
        std::fs::hard_link(at("state/audit/key"), at("second")).unwrap();
        assert!(own_files.have_hard_links() && is_own("second"));
    }
}
