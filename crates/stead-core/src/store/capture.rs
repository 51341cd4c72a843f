//! Which part of a Store a snapshot captures, and the token that a Store returns for a capture.
//!
//! The copying itself is the Store's (`Store::capture`).

use std::any::Any;
use std::fmt;

use crate::glob::PathGlobs;
use crate::store::{NodeKind, StorePath};

/// A path that no glob spells out. A glob that matches it below a directory matches everything below that directory.
const UNNAMED_PATH: &str = "\u{1}stead/\u{1}stead";

/// A subtree of a Store, without what its globs exclude (scratch files, which have no history).
#[derive(Debug, Clone)]
pub struct CaptureScope {
    root: StorePath,
    globs_base: StorePath,
    excluded: PathGlobs,
}

/// Whether a node belongs to a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coverage {
    /// It doesn't.
    Excluded,
    /// The directory itself does, but nothing in it.
    DirectoryOnly,
    /// It does. The entries of a directory are checked one by one.
    Included,
}

impl CaptureScope {
    /// The scope of everything at and below `root`, except what `excluded` matches. The globs match paths relative to
    /// `globs_base`.
    pub fn new(root: StorePath, globs_base: StorePath, excluded: PathGlobs) -> Self {
        CaptureScope { root, globs_base, excluded }
    }

    /// The top of the subtree.
    pub fn root(&self) -> &StorePath {
        &self.root
    }

    /// The directory that the paths of [`CaptureScope::excluded`] are relative to.
    pub fn globs_base(&self) -> &StorePath {
        &self.globs_base
    }

    /// The globs for what doesn't belong to the scope.
    pub fn excluded(&self) -> &PathGlobs {
        &self.excluded
    }

    fn coverage(&self, path: &StorePath, kind: NodeKind) -> Coverage {
        if !path.is_at_or_below(&self.root) {
            // A directory above the root is needed to reach the root; nothing else outside the root is.
            let leads_to_root = kind == NodeKind::Directory && self.root.is_at_or_below(path);
            return if leads_to_root { Coverage::DirectoryOnly } else { Coverage::Excluded };
        }
        let Some(relative_path) = path.strip_prefix(&self.globs_base).filter(|_| !self.excluded.is_empty())
        else {
            return Coverage::Included;
        };
        let relative_path = String::from_utf8_lossy(relative_path);
        let matched = self.excluded.matches(&relative_path);
        if kind != NodeKind::Directory {
            return if matched { Coverage::Excluded } else { Coverage::Included };
        }
        let path_inside = if relative_path.is_empty() {
            UNNAMED_PATH.to_owned()
        } else {
            format!("{relative_path}/{UNNAMED_PATH}")
        };
        match (matched, self.excluded.matches(&path_inside)) {
            (true, true) => Coverage::Excluded,
            (false, true) => Coverage::DirectoryOnly,
            (_, false) => Coverage::Included,
        }
    }
}

/// Several scopes of one Store.
#[derive(Debug, Clone, Default)]
pub struct CaptureScopes(Vec<CaptureScope>);

impl CaptureScopes {
    /// The roots of the scopes, without those that lie inside another scope's root and without duplicates.
    pub fn roots(&self) -> Vec<&StorePath> {
        let is_inside = |path: &StorePath, index: usize| {
            self.0.iter().enumerate().any(|(other, scope)| {
                let same = scope.root == *path;
                other != index && path.is_at_or_below(&scope.root) && (!same || other < index)
            })
        };
        let outermost = self.0.iter().enumerate().filter(|(index, scope)| !is_inside(&scope.root, *index));
        outermost.map(|(_, scope)| &scope.root).collect()
    }

    /// Whether `path` is at or below the root of a scope: then the scopes cover all of it that has a history.
    pub fn contains(&self, path: &StorePath) -> bool {
        self.0.iter().any(|scope| path.is_at_or_below(&scope.root))
    }

    /// Whether a node belongs to at least one scope.
    pub fn coverage(&self, path: &StorePath, kind: NodeKind) -> Coverage {
        let coverage =
            self.0.iter().map(|scope| scope.coverage(path, kind)).max().unwrap_or(Coverage::Excluded);
        // Another scope begins below this directory. `roots` leaves out a nested root, so a walk can reach that scope
        // only through this directory.
        let leads_to_scope =
            || self.0.iter().any(|scope| scope.root != *path && scope.root.is_at_or_below(path));
        if coverage == Coverage::DirectoryOnly && leads_to_scope() && self.contains(path) {
            Coverage::Included
        } else {
            coverage
        }
    }
}

impl FromIterator<CaptureScope> for CaptureScopes {
    fn from_iter<I: IntoIterator<Item = CaptureScope>>(scopes: I) -> Self {
        CaptureScopes(scopes.into_iter().collect())
    }
}

impl Extend<CaptureScope> for CaptureScopes {
    fn extend<I: IntoIterator<Item = CaptureScope>>(&mut self, scopes: I) {
        self.0.extend(scopes);
    }
}

impl<'a> IntoIterator for &'a CaptureScopes {
    type Item = &'a CaptureScope;
    type IntoIter = std::slice::Iter<'a, CaptureScope>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// A Store's token for one finished capture. It is passed on when the snapshot that names the capture is made.
pub struct Captured(Box<dyn Any + Send + Sync>);

impl Captured {
    /// Wraps what the Store needs to know about the capture.
    pub fn new(inner: impl Any + Send + Sync) -> Self {
        Captured(Box::new(inner))
    }

    /// What the Store passed to `new`, if it has this type.
    pub fn into_inner<T: Any>(self) -> Option<T> {
        let inner: Box<dyn Any> = self.0;
        inner.downcast().ok().map(|inner| *inner)
    }
}

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Captured")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glob::Anchor;

    fn path(text: &str) -> StorePath {
        StorePath::from_checked(text)
    }

    fn scope(root: &str, globs_base: &str, excluded: &[&str]) -> CaptureScope {
        CaptureScope::new(
            path(root),
            path(globs_base),
            PathGlobs::new(excluded, Anchor::AnyDirectory).unwrap(),
        )
    }

    #[test]
    fn paths_without_history_are_excluded() {
        let scopes: CaptureScopes = [scope("w", "w", &["target/**", "*.log", "cache"])].into_iter().collect();
        for (name, kind, expected) in [
            ("w", NodeKind::Directory, Coverage::Included),
            ("w/a.rs", NodeKind::File, Coverage::Included),
            ("w/in/a.log", NodeKind::File, Coverage::Excluded),
            ("w/a.log", NodeKind::Directory, Coverage::Included),
            ("w/target", NodeKind::Directory, Coverage::DirectoryOnly),
            ("w/target/x", NodeKind::File, Coverage::Excluded),
            ("w/target/x", NodeKind::Directory, Coverage::Excluded),
            ("w/cache", NodeKind::Directory, Coverage::Included),
            ("w/cache/x", NodeKind::File, Coverage::Included),
            ("x", NodeKind::File, Coverage::Excluded),
            ("", NodeKind::Directory, Coverage::DirectoryOnly),
        ] {
            assert_eq!(scopes.coverage(&path(name), kind), expected, "{name}");
        }
    }

    #[test]
    fn one_scope_can_include_what_another_excludes() {
        let scopes: CaptureScopes =
            [scope("", "", &["target/**"]), scope("target/doc", "target/doc", &[])].into_iter().collect();
        assert_eq!(scopes.roots(), [&path("")]);
        assert_eq!(scopes.coverage(&path("target"), NodeKind::Directory), Coverage::Included);
        assert_eq!(scopes.coverage(&path("target/debug"), NodeKind::Directory), Coverage::Excluded);
        assert_eq!(scopes.coverage(&path("target/doc"), NodeKind::Directory), Coverage::Included);
        assert_eq!(scopes.coverage(&path("target/doc/x"), NodeKind::File), Coverage::Included);
        let twice: CaptureScopes =
            [scope("a", "", &[]), scope("a", "", &[]), scope("b/c", "", &[])].into_iter().collect();
        assert_eq!(twice.roots(), [&path("a"), &path("b/c")]);
        assert!(twice.contains(&path("a/x")) && twice.contains(&path("b/c")) && !twice.contains(&path("b")));
    }
}
