//! What of a Store a snapshot takes in.

use std::any::Any;
use std::fmt;

use crate::glob::PathGlobs;
use crate::store::{Kind, StorePath};

/// Names that no pattern names: what matches them below a directory matches everything below it.
const ANYTHING: &str = "\u{1}stead/\u{1}stead";

/// A part of a Store, without what has no history there.
#[derive(Debug, Clone)]
pub struct Extent {
    at: StorePath,
    from: StorePath,
    without: PathGlobs,
}

/// Whether something belongs to an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Covered {
    /// No.
    No,
    /// A directory does, and nothing in it.
    Itself,
    /// Yes; what is in a directory is judged by itself.
    Yes,
}

impl Extent {
    /// What lies at `at` and below, but not what the globs match, whose paths are counted from `from`.
    pub fn new(at: StorePath, from: StorePath, without: PathGlobs) -> Self {
        Extent { at, from, without }
    }

    /// Where it begins.
    pub fn at(&self) -> &StorePath {
        &self.at
    }

    /// What the paths of [`Extent::without`] are counted from.
    pub fn from(&self) -> &StorePath {
        &self.from
    }

    /// What does not belong to it.
    pub fn without(&self) -> &PathGlobs {
        &self.without
    }

    fn covers(&self, path: &StorePath, kind: Kind) -> Covered {
        if !path.is_at_or_below(&self.at) {
            // The way to it is needed, and nothing beside it.
            let leads = kind == Kind::Directory && self.at.is_at_or_below(path);
            return if leads { Covered::Itself } else { Covered::No };
        }
        let Some(below) = path.below(&self.from).filter(|_| !self.without.is_empty()) else {
            return Covered::Yes;
        };
        let below = String::from_utf8_lossy(below);
        let matched = self.without.matches(&below);
        if kind != Kind::Directory {
            return if matched { Covered::No } else { Covered::Yes };
        }
        let inside = if below.is_empty() { ANYTHING.to_owned() } else { format!("{below}/{ANYTHING}") };
        match (matched, self.without.matches(&inside)) {
            (true, true) => Covered::No,
            (false, true) => Covered::Itself,
            (_, false) => Covered::Yes,
        }
    }
}

/// Some extents of one Store, together.
#[derive(Debug, Clone, Default)]
pub struct Extents(Vec<Extent>);

impl Extents {
    /// Where they begin, none of these inside another.
    pub fn tops(&self) -> Vec<&StorePath> {
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
    pub fn hold(&self, path: &StorePath) -> bool {
        self.0.iter().any(|extent| path.is_at_or_below(&extent.at))
    }

    /// Whether something belongs to one of them.
    pub fn covers(&self, path: &StorePath, kind: Kind) -> Covered {
        let here = self.0.iter().map(|extent| extent.covers(path, kind)).max().unwrap_or(Covered::No);
        // What another one begins with lies in it.
        let leads = || self.0.iter().any(|extent| extent.at != *path && extent.at.is_at_or_below(path));
        if here == Covered::Itself && leads() && self.hold(path) { Covered::Yes } else { here }
    }
}

impl FromIterator<Extent> for Extents {
    fn from_iter<I: IntoIterator<Item = Extent>>(extents: I) -> Self {
        Extents(extents.into_iter().collect())
    }
}

impl Extend<Extent> for Extents {
    fn extend<I: IntoIterator<Item = Extent>>(&mut self, extents: I) {
        self.0.extend(extents);
    }
}

impl<'a> IntoIterator for &'a Extents {
    type Item = &'a Extent;
    type IntoIter = std::slice::Iter<'a, Extent>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// What a Store has taken in, for the snapshot that is made of it.
pub struct TakenIn(Box<dyn Any + Send + Sync>);

impl TakenIn {
    /// Wraps what a Store knows of it.
    pub fn new(inner: impl Any + Send + Sync) -> Self {
        TakenIn(Box::new(inner))
    }

    /// What the Store put in, if it is of that type.
    pub fn into_inner<T: Any>(self) -> Option<T> {
        let inner: Box<dyn Any> = self.0;
        inner.downcast().ok().map(|inner| *inner)
    }
}

impl fmt::Debug for TakenIn {
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

    fn extent(at: &str, from: &str, without: &[&str]) -> Extent {
        Extent::new(path(at), path(from), PathGlobs::new(without, Anchor::AnyDirectory).unwrap())
    }

    #[test]
    fn what_has_no_history_is_left_out() {
        let extents: Extents = [extent("w", "w", &["target/**", "*.log", "cache"])].into_iter().collect();
        for (name, kind, covered) in [
            ("w", Kind::Directory, Covered::Yes),
            ("w/a.rs", Kind::File, Covered::Yes),
            ("w/in/a.log", Kind::File, Covered::No),
            ("w/a.log", Kind::Directory, Covered::Yes),
            ("w/target", Kind::Directory, Covered::Itself),
            ("w/target/x", Kind::File, Covered::No),
            ("w/target/x", Kind::Directory, Covered::No),
            ("w/cache", Kind::Directory, Covered::Yes),
            ("w/cache/x", Kind::File, Covered::Yes),
            ("x", Kind::File, Covered::No),
            ("", Kind::Directory, Covered::Itself),
        ] {
            assert_eq!(extents.covers(&path(name), kind), covered, "{name}");
        }
    }

    #[test]
    fn what_one_leaves_out_another_may_take_in() {
        let extents: Extents =
            [extent("", "", &["target/**"]), extent("target/doc", "target/doc", &[])].into_iter().collect();
        assert_eq!(extents.tops(), [&path("")]);
        assert_eq!(extents.covers(&path("target"), Kind::Directory), Covered::Yes);
        assert_eq!(extents.covers(&path("target/debug"), Kind::Directory), Covered::No);
        assert_eq!(extents.covers(&path("target/doc"), Kind::Directory), Covered::Yes);
        assert_eq!(extents.covers(&path("target/doc/x"), Kind::File), Covered::Yes);
        let twice: Extents =
            [extent("a", "", &[]), extent("a", "", &[]), extent("b/c", "", &[])].into_iter().collect();
        assert_eq!(twice.tops(), [&path("a"), &path("b/c")]);
        assert!(twice.hold(&path("a/x")) && twice.hold(&path("b/c")) && !twice.hold(&path("b")));
    }
}
