//! Where each node was last seen. The host finds files by path, but a mounted file system asks by node.
//!
//! An entry is only a hint: the caller opens the path confined and compares the inode.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// How many nodes that no caller has asked for one generation holds. There are at most two generations.
const GENERATION_SIZE: usize = 8_192;

#[derive(Debug, Default)]
pub(crate) struct NodePathTable(Mutex<NodePathGenerations>);

#[derive(Debug, Default)]
struct NodePathGenerations {
    /// Nodes that a caller has asked for. They stay until [`NodePathTable::forget`].
    named_by_caller: HashMap<u64, Arc<[u8]>>,
    /// Nodes that were only handed out. When `recent` is full, it becomes `older`, and the previous `older` is dropped.
    recent: HashMap<u64, Arc<[u8]>>,
    older: HashMap<u64, Arc<[u8]>>,
}

impl NodePathTable {
    /// Remembers the path of a node.
    pub(crate) fn remember(&self, ino: u64, path: &[u8]) {
        let tables = &mut *self.0.lock();
        if let Some(remembered) = tables.named_by_caller.get_mut(&ino) {
            if **remembered != *path {
                *remembered = path.into();
            }
            return;
        }
        if tables.recent.get(&ino).is_some_and(|remembered| **remembered == *path) {
            return;
        }
        if tables.recent.len() >= GENERATION_SIZE {
            tables.older = std::mem::take(&mut tables.recent);
        }
        tables.recent.insert(ino, path.into());
    }

    /// Returns where a node was last seen. From now on the node stays in the table until [`NodePathTable::forget`].
    pub(crate) fn path(&self, ino: u64) -> Option<Arc<[u8]>> {
        let tables = &mut *self.0.lock();
        if let Some(path) = tables.named_by_caller.get(&ino) {
            return Some(path.clone());
        }
        let path = tables.recent.remove(&ino).or_else(|| tables.older.remove(&ino))?;
        tables.named_by_caller.insert(ino, path.clone());
        Some(path)
    }

    pub(crate) fn forget(&self, ino: u64) {
        self.0.lock().named_by_caller.remove(&ino);
    }

    /// Updates the paths after `from`, and everything below it, was renamed to `to`.
    pub(crate) fn rename(&self, from: &[u8], to: &[u8]) {
        self.rewrite(|path| is_at_or_below(path, from).then(|| [to, &path[from.len()..]].concat()));
    }

    /// Updates the paths after two names were exchanged.
    pub(crate) fn exchange(&self, first: &[u8], second: &[u8]) {
        self.rewrite(|path| {
            if is_at_or_below(path, first) {
                Some([second, &path[first.len()..]].concat())
            } else {
                is_at_or_below(path, second).then(|| [first, &path[second.len()..]].concat())
            }
        });
    }

    fn rewrite(&self, change: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        let tables = &mut *self.0.lock();
        for table in [&mut tables.named_by_caller, &mut tables.recent, &mut tables.older] {
            for path in table.values_mut() {
                if let Some(changed) = change(path) {
                    *path = changed.into();
                }
            }
        }
    }
}

/// Whether `path` is `ancestor` or lies below it.
fn is_at_or_below(path: &[u8], ancestor: &[u8]) -> bool {
    path.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renames_and_exchanges_are_followed() {
        let table = NodePathTable::default();
        table.remember(1, b"a/x");
        table.remember(2, b"b");
        table.remember(3, b"ab");
        table.rename(b"a", b"c/d");
        assert_eq!(table.path(1).as_deref(), Some(&b"c/d/x"[..]));
        table.exchange(b"b", b"c");
        assert_eq!(table.path(1).as_deref(), Some(&b"b/d/x"[..]));
        assert_eq!(table.path(2).as_deref(), Some(&b"c"[..]));
        assert_eq!(table.path(3).as_deref(), Some(&b"ab"[..]));
    }

    #[test]
    fn paths_that_no_caller_uses_are_dropped() {
        let table = NodePathTable::default();
        table.remember(0, b"kept");
        table.path(0);
        for ino in 1..100_000 {
            table.remember(ino, b"x");
        }
        let tables = table.0.lock();
        assert!(tables.recent.len() + tables.older.len() <= 2 * GENERATION_SIZE);
        assert!(tables.named_by_caller.contains_key(&0));
    }
}
