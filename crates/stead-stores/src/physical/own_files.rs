//! Stead's own files, recognised by what they are: another program may have given one of them a second name anywhere.
//!
//! A file that has one name has it where it lies, and that place is masked. So only a file with several names has to be
//! looked up here. Which files are Stead's own is looked at again as soon as one of their directories has changed: a
//! configuration is replaced by every editor, a database's `-wal` comes and goes.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, MutexGuard};
use stead_core::Timestamp;

use super::host::{self, HostStat};

/// In a state directory: what Physical Stores work with. Content of users waits and is kept there, and any of it may have
/// second names that are the users' business.
const STAGING_AREAS_DIR: &str = "physical";
/// A directory that has changed this lately may change again without another time to tell it by.
const TIMESTAMP_GRAIN: Duration = Duration::from_millis(50);
/// How deep a state directory is.
const MAX_DEPTH: usize = 8;

/// Files of Stead's own, wherever they are on the host.
#[derive(Default)]
pub(super) struct OwnFiles {
    /// Files, and directories in which all files are its own.
    paths: Vec<PathBuf>,
    index: Mutex<OwnFilesIndex>,
}

impl fmt::Debug for OwnFiles {
    /// Without paths of the host, which belong into no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnFiles").finish_non_exhaustive()
    }
}

/// What was found when it was last looked.
#[derive(Default)]
struct OwnFilesIndex {
    /// Where each file is, by its device and inode.
    files: HashMap<(u64, u64), PathBuf>,
    /// The directories that they are in, each with its state.
    directories: Vec<(PathBuf, Option<DirectoryStamp>)>,
    /// Whether a change since would be seen by these states.
    is_reliable: bool,
}

/// Which directory it is, and when it was changed.
type DirectoryStamp = (u64, u64, Timestamp, Timestamp);

impl OwnFiles {
    /// The files at these paths, and in the directories among them.
    pub(super) fn new(mut paths: Vec<PathBuf>) -> Self {
        paths.sort_unstable();
        paths.dedup();
        OwnFiles { paths, index: Mutex::default() }
    }

    /// Whether a file is one of them.
    pub(super) fn contains(&self, stat: &HostStat) -> bool {
        self.index().files.contains_key(&(stat.dev, stat.ino))
    }

    /// Whether one of them has a second name, somewhere.
    pub(super) fn have_hard_links(&self) -> bool {
        let has_several = |path: &PathBuf| host::stat_ambient(path).is_ok_and(|stat| stat.links > 1);
        self.index().files.values().any(has_several)
    }

    fn index(&self) -> MutexGuard<'_, OwnFilesIndex> {
        let mut known = self.index.lock();
        if !known.is_current() {
            *known = self.scan();
        }
        known
    }

    fn scan(&self) -> OwnFilesIndex {
        let mut known = OwnFilesIndex::default();
        for path in &self.paths {
            if let Some(parent) = path.parent() {
                known.note_directory(parent);
            }
            known.add(path, MAX_DEPTH);
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        let newest = known.directories.iter().filter_map(|(_, state)| Some(state.as_ref()?.3.0)).max();
        known.is_reliable =
            newest.is_none_or(|newest| now.saturating_sub(newest) > TIMESTAMP_GRAIN.as_nanos() as i64);
        known
    }
}

impl OwnFilesIndex {
    fn is_current(&self) -> bool {
        self.is_reliable && self.directories.iter().all(|(path, state)| directory_stamp(path) == *state)
    }

    fn note_directory(&mut self, directory: &Path) {
        if !self.directories.iter().any(|(known, _)| known == directory) {
            self.directories.push((directory.to_owned(), directory_stamp(directory)));
        }
    }

    fn add(&mut self, path: &Path, depth: usize) {
        let Ok(stat) = host::stat_ambient(path) else { return };
        if !stat.is_dir() {
            self.files.insert((stat.dev, stat.ino), path.to_owned());
            return;
        }
        // Before it is read: what changes meanwhile is seen at the next look.
        self.note_directory(path);
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        for entry in entries.filter(|_| depth > 0) {
            // What a symlink leads to is not in here.
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
    fn files_are_known_by_what_they_are_also_after_they_were_replaced() {
        let temp = tempfile::tempdir().unwrap();
        let at = |path: &str| temp.path().join(path);
        std::fs::create_dir_all(at("state/audit/running")).unwrap();
        std::fs::create_dir_all(at("state/physical/x/displaced")).unwrap();
        for path in ["config", "other", "state/db", "state/audit/key", "state/physical/x/displaced/1"] {
            std::fs::write(at(path), path).unwrap();
        }
        let own = OwnFiles::new(vec![at("config"), at("state"), at("none")]);
        let is_own = |path: &str| own.contains(&host::stat_ambient(&at(path)).unwrap());
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
        assert!(!own.have_hard_links());
        std::fs::hard_link(at("state/audit/key"), at("second")).unwrap();
        assert!(own.have_hard_links() && is_own("second"));
    }
}
