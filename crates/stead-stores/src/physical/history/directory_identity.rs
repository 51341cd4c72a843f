//! The identity of a host directory: which inode it is, and where it lies. A directory that was removed and recreated
//! at the same location continues the earlier one's history.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stead_core::store::StoreResult;

use super::super::host::{self, HostStat, OpenMode};

use super::super::options::{Confinement, LedgerOpenMode};
use super::super::root::{Dir, Root};
use crate::Database;
use crate::ledger::{Ledger, LedgerDirectory};
use crate::reserved_names::STATE_DIR_NAME;

/// The names that the directories with displaced content have in a staging area.
pub(in super::super) const DISPLACED_DIR_NAMES: [&str; 2] = ["displaced", "displaced-2"];

/// Identifies a host directory, to find its ledger and its displaced content.
#[derive(Debug)]
pub(in super::super) struct DirectoryIdentity {
    /// A hash of device and inode.
    id: String,
    /// A hash of the path, relative to the state directory's parent where possible.
    location: String,
    /// Stead's state directory.
    state: PathBuf,
    /// The directories of other Stores.
    other_stores: Vec<PathBuf>,
    /// The directories that may contain staging areas.
    staging_candidates: Vec<Dir>,
}

impl DirectoryIdentity {
    /// The identity of the directory at `path`. All paths have to be absolute and resolved.
    pub(in super::super) fn new(root: &Root, path: &Path, state: &Path, other_stores: &[PathBuf]) -> Self {
        let physical_dir = |dir: Dir| dir.enter(b"physical", OpenMode::Traverse).ok();
        let in_state = Dir::open_ambient(state, Confinement::Automatic).ok().and_then(physical_dir);
        let in_root =
            root.dir.enter(STATE_DIR_NAME.as_bytes(), OpenMode::Traverse).ok().and_then(physical_dir);
        let staging_candidates = in_state.into_iter().chain(in_root).collect();
        let (id, location, state, other_stores) =
            (directory_id(&root.stat), location_key(path, state), state.to_owned(), other_stores.to_vec());
        DirectoryIdentity { id, location, state, other_stores, staging_candidates }
    }

    /// Where the directory is.
    pub(super) fn location(&self) -> &str {
        &self.location
    }

    /// Stead's state directory.
    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    /// The directory's ledger; `None` if it has none and `mode` doesn't ask to create one.
    pub(super) fn open_ledger(
        &self,
        database: &Database,
        mode: LedgerOpenMode,
    ) -> StoreResult<Option<Arc<dyn Ledger>>> {
        let is_elsewhere = |earlier_id: &str| {
            let stat_of = |path: &PathBuf| host::stat(host::open_ambient(path).ok()?).ok();
            self.other_stores.iter().filter_map(stat_of).any(|stat| directory_id(&stat) == earlier_id)
        };
        let directory =
            LedgerDirectory { id: &self.id, location: &self.location, is_elsewhere: &is_elsewhere };
        database.ledger(&directory, mode == LedgerOpenMode::CreateIfMissing)
    }

    /// The existing directories with displaced content of the directories with these ids, other than `own`.
    pub(super) fn earlier_displaced_dirs(&self, directories: &[String], own_dirs: &[&Dir]) -> Vec<Dir> {
        let device_and_inode = |dir: &Dir| host::stat(dir).ok().map(|stat| (stat.dev, stat.ino));
        let own_ids: Vec<_> = own_dirs.iter().map(|dir| device_and_inode(dir)).collect();
        let found = self.staging_candidates.iter().flat_map(|candidate| {
            let paths =
                directories.iter().flat_map(|id| DISPLACED_DIR_NAMES.map(|name| format!("{id}/{name}")));
            paths.filter_map(|path| candidate.enter(path.as_bytes(), OpenMode::Directory).ok())
        });
        found.filter(|dir| !own_ids.contains(&device_and_inode(dir))).collect()
    }
}

/// The id of a directory: the same for as long as the directory exists.
pub(in super::super) fn directory_id(stat: &HostStat) -> String {
    short_hash(&[stat.dev.to_le_bytes(), stat.ino.to_le_bytes()].concat())
}

/// The key of a directory's location. If one of the directory and the state directory's parent contains the other, the
/// key is relative, so that both can be moved or copied together.
pub(in super::super) fn location_key(path: &Path, state: &Path) -> String {
    let state_parent = state.parent().unwrap_or(state);
    let text = match (path.strip_prefix(state_parent), state_parent.strip_prefix(path)) {
        (Ok(below), _) => [b"below ", path_bytes(below)].concat(),
        (_, Ok(above)) => [b"above ", path_bytes(above)].concat(),
        _ => [b"at ", path_bytes(path)].concat(),
    };
    short_hash(&text)
}

fn path_bytes(path: &Path) -> &[u8] {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes()
}

fn short_hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..32].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_location_key_is_the_same_after_a_directory_was_moved_together_with_the_state() {
        let key = |path: &str, state: &str| location_key(Path::new(path), Path::new(state));
        assert_eq!(key("/a/site", "/a/.stead"), key("/b/c/site", "/b/c/.stead"));
        assert_eq!(key("/a", "/a/.stead"), key("/b", "/b/.stead"));
        assert_eq!(key("/a", "/a/in/.stead"), key("/b", "/b/in/.stead"));
        assert_eq!(key("/srv/x", "/home/one/state"), key("/srv/x", "/home/other/state"));
        assert_ne!(key("/a/site", "/a/.stead"), key("/a/other", "/a/.stead"));
        assert_ne!(key("/a/in", "/a/.stead"), key("/a", "/a/in/.stead"));
    }
}
