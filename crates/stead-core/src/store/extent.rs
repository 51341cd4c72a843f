//! What of a Store a snapshot takes in.

use std::any::Any;
use std::fmt;

use crate::glob::PathGlobs;
use crate::store::{NodeKind, StorePath};

/// Names that no pattern names: what matches them below a directory matches everything below it.
const UNNAMED_PATH: &str = "\u{1}stead/\u{1}stead";

/// A part of a Store, without what has no history there.
#[derive(Debug, Clone)]
pub struct CaptureScope {
    at: StorePath,
    from: StorePath,
    without: PathGlobs,
}

/// Whether something belongs to an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coverage {
    /// No.
    No,
    /// A directory does, and nothing in it.
    Itself,
    /// Yes; what is in a directory is judged by itself.
    Yes,
}

impl CaptureScope {
    /// What lies at `at` and below, but not what the globs match, whose paths are counted from `from`.
    pub fn new(at: StorePath, from: StorePath, without: PathGlobs) -> Self {
        CaptureScope { at, from, without }
    }

    /// Where it begins.
    pub fn root(&self) -> &StorePath {
        &self.at
    }

    /// What the paths of [`Extent::without`] are counted from.
    pub fn globs_base(&self) -> &StorePath {
        &self.from
    }

    /// What does not belong to it.
    pub fn excluded(&self) -> &PathGlobs {
        &self.without
    }

    fn coverage(&self, path: &StorePath, kind: NodeKind) -> Coverage {
        if !path.is_at_or_below(&self.at) {
            // The way to it is needed, and nothing beside it.
            let leads = kind == NodeKind::Directory && self.at.is_at_or_below(path);
            return if leads { Coverage::Itself } else { Coverage::No };
        }
        let Some(below) = path.strip_prefix(&self.from).filter(|_| !self.without.is_empty()) else {
            return Coverage::Yes;
        };
        let below = String::from_utf8_lossy(below);
        let matched = self.without.matches(&below);
        if kind != NodeKind::Directory {
            return if matched { Coverage::No } else { Coverage::Yes };
        }
        let inside =
            if below.is_empty() { UNNAMED_PATH.to_owned() } else { format!("{below}/{UNNAMED_PATH}") };
        match (matched, self.without.matches(&inside)) {
            (true, true) => Coverage::No,
            (false, true) => Coverage::Itself,
            (_, false) => Coverage::Yes,
        }
    }
}

/// Some extents of one Store, together.
#[derive(Debug, Clone, Default)]
pub struct CaptureScopes(Vec<CaptureScope>);

impl CaptureScopes {
    /// Where they begin, none of these inside another.
    pub fn roots(&self) -> Vec<&StorePath> {
        let inside = |path: &StorePath, index: usize| {
            self.0.iter().enumerate().any(|(other, extent)| {
                let same = extent.at == *path;
                other != index && path.is_at_or_below(&extent.at) && (!same || other < index)
            })
        };
        let tops = self.0.iter().enumerate().filter(|(index, extent)| !inside(&extent.at, *index));
        tops.map(|(_, extent)| &extent.at).collect()
    }

    /// Whether everything at and below a path that has a history lies inside.
    pub fn contains(&self, path: &StorePath) -> bool {
        self.0.iter().any(|extent| path.is_at_or_below(&extent.at))
    }

    /// Whether something belongs to one of them.
    pub fn coverage(&self, path: &StorePath, kind: NodeKind) -> Coverage {
        let here = self.0.iter().map(|extent| extent.coverage(path, kind)).max().unwrap_or(Coverage::No);
        // What another one begins with lies in it.
        let leads = || self.0.iter().any(|extent| extent.at != *path && extent.at.is_at_or_below(path));
        if here == Coverage::Itself && leads() && self.contains(path) { Coverage::Yes } else { here }
    }
}

impl FromIterator<CaptureScope> for CaptureScopes {
    fn from_iter<I: IntoIterator<Item = CaptureScope>>(extents: I) -> Self {
        CaptureScopes(extents.into_iter().collect())
    }
}

impl Extend<CaptureScope> for CaptureScopes {
    fn extend<I: IntoIterator<Item = CaptureScope>>(&mut self, extents: I) {
        self.0.extend(extents);
    }
}

impl<'a> IntoIterator for &'a CaptureScopes {
    type Item = &'a CaptureScope;
    type IntoIter = std::slice::Iter<'a, CaptureScope>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// What a Store has taken in, for the snapshot that is made of it.
pub struct Captured(Box<dyn Any + Send + Sync>);

impl Captured {
    /// Wraps what a Store knows of it.
    pub fn new(inner: impl Any + Send + Sync) -> Self {
        Captured(Box::new(inner))
    }

    /// What the Store put in, if it is of that type.
    pub fn into_inner<T: Any>(self) -> Option<T> {
        let inner: Box<dyn Any> = self.0;
        inner.downcast().ok().map(|inner| *inner)
    }
}

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TakenIn")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glob::Anchor;

    fn path(text: &str) -> StorePath {
        StorePath::from_checked(text)
    }

    fn extent(at: &str, from: &str, without: &[&str]) -> CaptureScope {
        CaptureScope::new(path(at), path(from), PathGlobs::new(without, Anchor::AnyDirectory).unwrap())
    }

    #[test]
    fn what_has_no_history_is_left_out() {
        let extents: CaptureScopes =
            [extent("w", "w", &["target/**", "*.log", "cache"])].into_iter().collect();
        for (name, kind, covered) in [
            ("w", NodeKind::Directory, Coverage::Yes),
            ("w/a.rs", NodeKind::File, Coverage::Yes),
            ("w/in/a.log", NodeKind::File, Coverage::No),
            ("w/a.log", NodeKind::Directory, Coverage::Yes),
            ("w/target", NodeKind::Directory, Coverage::Itself),
            ("w/target/x", NodeKind::File, Coverage::No),
            ("w/target/x", NodeKind::Directory, Coverage::No),
            ("w/cache", NodeKind::Directory, Coverage::Yes),
            ("w/cache/x", NodeKind::File, Coverage::Yes),
            ("x", NodeKind::File, Coverage::No),
            ("", NodeKind::Directory, Coverage::Itself),
        ] {
            assert_eq!(extents.coverage(&path(name), kind), covered, "{name}");
        }
    }

    #[test]
    fn what_one_leaves_out_another_may_take_in() {
        let extents: CaptureScopes =
            [extent("", "", &["target/**"]), extent("target/doc", "target/doc", &[])].into_iter().collect();
        assert_eq!(extents.roots(), [&path("")]);
        assert_eq!(extents.coverage(&path("target"), NodeKind::Directory), Coverage::Yes);
        assert_eq!(extents.coverage(&path("target/debug"), NodeKind::Directory), Coverage::No);
        assert_eq!(extents.coverage(&path("target/doc"), NodeKind::Directory), Coverage::Yes);
        assert_eq!(extents.coverage(&path("target/doc/x"), NodeKind::File), Coverage::Yes);
        let twice: CaptureScopes =
            [extent("a", "", &[]), extent("a", "", &[]), extent("b/c", "", &[])].into_iter().collect();
        assert_eq!(twice.roots(), [&path("a"), &path("b/c")]);
        assert!(twice.contains(&path("a/x")) && twice.contains(&path("b/c")) && !twice.contains(&path("b")));
    }
}
