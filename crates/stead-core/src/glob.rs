//! Globs over paths: `*` stays within a component, `**` spans them.

use std::fmt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// A set of globs over `/`-separated paths that have no leading `/`.
#[derive(Clone)]
pub struct PathGlobs {
    patterns: Vec<String>,
    set: GlobSet,
}

/// The text is no glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is no glob: {reason}")]
pub struct GlobError {
    pattern: String,
    reason: String,
}

/// Where a pattern may match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// From the start of the path only.
    Start,
    /// From any directory on, unless the pattern begins with `/`.
    AnyDirectory,
}

impl PathGlobs {
    /// Compiles patterns; `{a,b}`, `[a-z]`, `?`, `*` and `**` mean what they mean in a shell.
    pub fn new<P: AsRef<str>>(
        patterns: impl IntoIterator<Item = P>,
        anchor: Anchor,
    ) -> Result<Self, GlobError> {
        let mut set = GlobSetBuilder::new();
        let mut kept = Vec::new();
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let text = match (anchor, pattern.strip_prefix('/')) {
                (_, Some(rest)) => rest.to_owned(),
                (Anchor::Start, None) => pattern.to_owned(),
                (Anchor::AnyDirectory, None) if pattern.starts_with("**/") => pattern.to_owned(),
                (Anchor::AnyDirectory, None) => format!("**/{pattern}"),
            };
            let refused = |error: globset::Error| GlobError {
                pattern: crate::name::escaped(pattern.as_bytes()).to_string(),
                reason: error.kind().to_string(),
            };
            let glob = GlobBuilder::new(&text)
                .literal_separator(true)
                .backslash_escape(true)
                .build()
                .map_err(refused)?;
            set.add(glob);
            // `dir/**` covers what is in the directory; the directory's own name is covered by `dir`.
            kept.push(pattern.to_owned());
        }
        let set = set
            .build()
            .map_err(|error| GlobError { pattern: kept.join(", "), reason: error.kind().to_string() })?;
        Ok(PathGlobs { patterns: kept, set })
    }

    /// No pattern at all.
    pub fn none() -> Self {
        PathGlobs { patterns: Vec::new(), set: GlobSet::empty() }
    }

    /// Whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The patterns as they were written.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Whether some pattern matches this path.
    pub fn matches(&self, path: &str) -> bool {
        !self.is_empty() && self.set.is_match(path)
    }

    /// Whether some pattern matches this path, which may not be text.
    pub fn matches_bytes(&self, path: &[u8]) -> bool {
        if self.is_empty() {
            return false;
        }
        match std::str::from_utf8(path) {
            Ok(path) => self.set.is_match(path),
            Err(_) => self.set.is_match(&*String::from_utf8_lossy(path)),
        }
    }

    /// The first pattern that matches this path.
    pub fn which(&self, path: &str) -> Option<&str> {
        self.set.matches(path).first().map(|&index| &*self.patterns[index])
    }
}

impl fmt::Debug for PathGlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.patterns.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stay_within_a_component() {
        let globs = PathGlobs::new(["src/*.rs", "docs/**"], Anchor::Start).unwrap();
        assert!(globs.matches("src/a.rs"));
        assert!(!globs.matches("src/deep/a.rs"));
        assert!(!globs.matches("other/src/a.rs"));
        assert!(globs.matches("docs/a/b"));
    }

    #[test]
    fn a_pattern_can_match_from_any_directory() {
        let globs = PathGlobs::new([".git/hooks/**", "/.git/config"], Anchor::AnyDirectory).unwrap();
        assert!(globs.matches(".git/hooks/pre-commit"));
        assert!(globs.matches("sub/module/.git/hooks/a/b"));
        assert!(globs.matches(".git/config"));
        assert!(!globs.matches("sub/.git/config"));
        assert_eq!(globs.which(".git/config"), Some("/.git/config"));
    }

    #[test]
    fn a_broken_pattern_is_an_error() {
        assert!(PathGlobs::new(["a[b"], Anchor::Start).unwrap_err().to_string().contains("a[b"));
    }

    #[test]
    fn names_with_brackets_and_dots_are_matched_when_escaped() {
        let globs = PathGlobs::new(["[[]...slug[]].tsx"], Anchor::Start).unwrap();
        assert!(globs.matches("[...slug].tsx"));
    }
}
