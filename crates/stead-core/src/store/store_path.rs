//! Paths inside a Store, relative to its root or to a node.

use std::fmt;
use std::sync::Arc;

use crate::name::{Name, escape_name};
use crate::store::NodeId;

/// A relative path inside a Store: names joined by `/`, as bytes. The empty path is the starting point itself. Clones share
/// the bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StorePath(Arc<[u8]>);

impl StorePath {
    /// The empty path.
    pub fn empty() -> Self {
        StorePath::default()
    }

    /// Wraps a path that has been checked already: canonical, relative, `/`-separated. Only debug builds check it
    /// again.
    pub fn from_checked(path: impl Into<Vec<u8>>) -> Self {
        let path = path.into();
        debug_assert!(
            path.is_empty() || path.split(|&b| b == b'/').all(|c| Name::new(c).is_some()),
            "not canonical"
        );
        StorePath(path.into())
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path as text, if it is valid UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Whether this is the empty path.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The components, outermost first.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'/').filter(|component| !component.is_empty())
    }

    /// The number of components.
    pub fn depth(&self) -> usize {
        if self.0.is_empty() { 0 } else { memchr::memchr_iter(b'/', &self.0).count() + 1 }
    }

    /// The path of the parent, and the last component; `None` for the empty path.
    pub fn parent_and_name(&self) -> Option<(&[u8], &[u8])> {
        if self.0.is_empty() {
            return None;
        }
        match memchr::memrchr(b'/', &self.0) {
            Some(slash) => Some((&self.0[..slash], &self.0[slash + 1..])),
            None => Some((b"", &self.0)),
        }
    }

    /// This path extended by a name.
    pub fn child(&self, name: &[u8]) -> StorePath {
        let mut path = Vec::with_capacity(self.0.len() + name.len() + 1);
        path.extend_from_slice(&self.0);
        if !path.is_empty() && !name.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        StorePath(path.into())
    }

    /// This path followed by `path`.
    pub fn join(&self, path: &StorePath) -> StorePath {
        self.child(&path.0)
    }

    /// Whether this path is `other` or lies below it.
    pub fn is_at_or_below(&self, other: &StorePath) -> bool {
        self.strip_prefix(other).is_some()
    }

    /// The rest of this path below `other`, without a leading `/`; `None` if it isn't at or below `other`.
    pub fn strip_prefix(&self, other: &StorePath) -> Option<&[u8]> {
        if other.0.is_empty() {
            return Some(&self.0);
        }
        let rest = self.0.strip_prefix(&*other.0)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") }
    }
}

impl fmt::Display for StorePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape_name(&self.0).fmt(f)
    }
}

impl fmt::Debug for StorePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A path that starts at a node. A tool's path starts at the Store's root, a mounted file system's at an open
/// directory.
///
/// An empty path means the node itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodePath {
    /// The node where the path starts.
    pub base: NodeId,
    /// The path from there.
    pub path: StorePath,
}

impl NodePath {
    /// A path from the Store's root.
    pub fn from_root(path: StorePath) -> Self {
        NodePath { base: NodeId::ROOT, path }
    }

    /// The Store's root itself.
    pub fn root() -> Self {
        NodePath::from_root(StorePath::empty())
    }

    /// A node, by its id.
    pub fn of_node(node: NodeId) -> Self {
        NodePath { base: node, path: StorePath::empty() }
    }

    /// A name in a directory.
    pub fn child(parent: NodeId, name: &Name) -> Self {
        NodePath { base: parent, path: StorePath(name.as_bytes().into()) }
    }

    /// This path extended by a name.
    pub fn join(&self, name: &[u8]) -> Self {
        NodePath { base: self.base, path: self.path.child(name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split_and_join() {
        let path = StorePath::from_checked("a/b/c");
        assert_eq!(path.parent_and_name(), Some((&b"a/b"[..], &b"c"[..])));
        assert_eq!(StorePath::from_checked("a").parent_and_name(), Some((&b""[..], &b"a"[..])));
        assert_eq!(StorePath::empty().parent_and_name(), None);
        assert_eq!(StorePath::empty().child(b"a").child(b"b").child(b"c"), path);
        assert_eq!(StorePath::empty().join(&path), path);
        assert_eq!(path.depth(), 3);
        assert_eq!(path.strip_prefix(&StorePath::from_checked("a")), Some(&b"b/c"[..]));
        assert_eq!(path.strip_prefix(&StorePath::empty()), Some(&b"a/b/c"[..]));
        assert!(!StorePath::from_checked("ab").is_at_or_below(&StorePath::from_checked("a")));
    }
}
