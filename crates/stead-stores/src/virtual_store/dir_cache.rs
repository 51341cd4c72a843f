//! A cache from the paths of a volume's directories to their nodes.
//!
//! The cached nodes are valid at one directory epoch. Every transaction that moves or removes a directory counts that
//! epoch up in the database, and a caller compares it with the cache's epoch. So a rename by another process
//! invalidates the cache, too.

use parking_lot::RwLock;

use crate::database::batch::DirPaths;

/// When the cache would exceed this, it starts over: about four megabytes for paths of usual length.
const MAX_ENTRIES: usize = 32_768;

/// The directories of one volume by path.
#[derive(Debug, Default)]
pub(crate) struct DirCache(RwLock<DirCacheState>);

#[derive(Debug, Default)]
struct DirCacheState {
    epoch: i64,
    nodes: DirPaths,
}

impl DirCache {
    /// Returns the directory's node, and the epoch at which that is valid.
    pub(crate) fn get(&self, path: &[u8]) -> Option<(i64, i64)> {
        let state = self.0.read();
        state.nodes.get(path).map(|&node| (node, state.epoch))
    }

    /// Returns the directory's node if the cache has it at this epoch.
    pub(crate) fn get_at(&self, epoch: i64, path: &[u8]) -> Option<i64> {
        self.get(path).filter(|&(_, valid_at)| valid_at == epoch).map(|(node, _)| node)
    }

    /// Adds directories that are valid at an epoch. A later epoch replaces the cache; an earlier one is ignored.
    pub(crate) fn insert_all(&self, epoch: i64, paths: DirPaths) {
        if paths.is_empty() {
            return;
        }
        let mut state = self.0.write();
        if epoch < state.epoch {
            return;
        }
        if epoch > state.epoch || state.nodes.len() + paths.len() > MAX_ENTRIES {
            *state = DirCacheState { epoch, nodes: DirPaths::default() };
        }
        state.nodes.extend(paths);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(path: &[u8], node: i64) -> DirPaths {
        DirPaths::from([(path.into(), node)])
    }

    #[test]
    fn a_later_epoch_clears_the_cache_and_an_earlier_one_is_ignored() {
        let cache = DirCache::default();
        cache.insert_all(3, paths(b"a", 7));
        assert_eq!(
            (cache.get(b"a"), cache.get_at(3, b"a"), cache.get_at(4, b"a")),
            (Some((7, 3)), Some(7), None)
        );
        cache.insert_all(4, paths(b"b", 8));
        assert_eq!((cache.get(b"a"), cache.get(b"b")), (None, Some((8, 4))));
        cache.insert_all(3, paths(b"a", 7));
        assert_eq!(cache.get(b"a"), None);
    }

    #[test]
    fn the_cache_stays_bounded() {
        let cache = DirCache::default();
        for node in 0..3 * MAX_ENTRIES as i64 {
            cache.insert_all(1, paths(&node.to_be_bytes(), node));
        }
        assert!(cache.0.read().nodes.len() <= MAX_ENTRIES);
    }
}
