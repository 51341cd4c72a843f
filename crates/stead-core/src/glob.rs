//! Globs over paths: `*` stays within a component, `**` spans components.
//!
//! ```
//! use stead_core::glob::{Anchor, PathGlobs};
//!
//! let globs = PathGlobs::new(["*.rs", "docs/**"], Anchor::AnyDirectory)?;
//! assert!(globs.matches("src/main.rs") && globs.matches("docs/guide/tools.md"));
//! assert!(!globs.matches("README.md"));
//! # Ok::<(), stead_core::glob::GlobError>(())
//! ```

use std::borrow::Cow;
use std::fmt;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::path::{MAX_DEPTH, MAX_PATH};

/// A set of globs over `/`-separated paths that have no leading `/`.
#[derive(Clone)]
pub struct PathGlobs {
    patterns: Vec<String>,
    set: GlobSet,
    /// The directories that the patterns name on their way: `.git` and `.git/hooks` for `.git/hooks/**`.
    ancestors: GlobSet,
    /// The suffix that every matching name has. Comparing it rules out most names without running a glob.
    name_suffix: Vec<u8>,
    /// Where each pattern can match.
    reaches: Vec<Reach>,
    base: String,
    case: CaseMatching,
}

/// Where the paths lie that a pattern can match.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reach {
    /// The components that every match begins with.
    prefix: Vec<String>,
    /// The most components that a match has, if that is limited.
    max_depth: Option<usize>,
}

/// Whether names that differ only in case match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CaseMatching {
    /// They don't match.
    Sensitive,
    /// They match, and so do all names that some case-insensitive file system treats as equal.
    Folded,
}

/// The text isn't a valid glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` isn't a valid glob: {reason}")]
pub struct GlobError {
    pattern: String,
    reason: String,
}

/// A pattern of a rule about names (`hide`, `protect`, `scratch`) as [`PathGlobs`] takes it: `name/` means everything in
/// that directory, and `./name` begins at the top. Refuses what can't match any path.
pub fn rule_pattern(pattern: &str) -> Result<Cow<'_, str>, GlobError> {
    let refused = |reason: &str| GlobError {
        pattern: crate::name::escape_text(pattern).to_string(),
        reason: reason.to_owned(),
    };
    if pattern.trim() != pattern {
        return Err(refused("it begins or ends with white space"));
    }
    let below = pattern.strip_prefix("./").or(pattern.strip_prefix('/')).unwrap_or(pattern);
    let name = below.strip_suffix('/').unwrap_or(below);
    if name.is_empty() {
        return Err(refused("it names nothing; write a name such as `secrets/**`"));
    }
    if name.split('/').any(|component| matches!(component, "" | "." | "..")) {
        return Err(refused("no path has a component that is empty, `.` or `..`"));
    }
    let top = if below.len() < pattern.len() { "/" } else { "" };
    Ok(match name.len() < below.len() {
        true => Cow::Owned(format!("{top}{name}/**")),
        false if pattern.starts_with("./") => Cow::Owned(format!("/{name}")),
        false => Cow::Borrowed(pattern),
    })
}

/// Compiles the patterns of a rule with `compile`.
pub(crate) fn compile_rule<P: AsRef<str>>(
    patterns: impl IntoIterator<Item = P>,
    compile: impl FnOnce(Vec<String>, Anchor) -> Result<PathGlobs, GlobError>,
) -> Result<PathGlobs, GlobError> {
    let patterns = patterns.into_iter().map(|pattern| rule_pattern(pattern.as_ref()).map(Cow::into_owned));
    compile(patterns.collect::<Result<_, _>>()?, Anchor::AnyDirectory)
}

/// Where in a path a pattern may start to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// From the start of the path only.
    Start,
    /// At any directory, unless the pattern begins with `/`.
    AnyDirectory,
}

impl PathGlobs {
    /// Compiles patterns; `{a,b}`, `[a-z]`, `?`, `*` and `**` mean what they mean in a shell. Case matters.
    pub fn new<P: AsRef<str>>(
        patterns: impl IntoIterator<Item = P>,
        anchor: Anchor,
    ) -> Result<Self, GlobError> {
        PathGlobs::with_case(patterns, anchor, CaseMatching::Sensitive)
    }

    /// Like [`PathGlobs::new`], for protecting files: a pattern also matches every name that some case-insensitive file
    /// system treats as equal, because there it is the same file.
    pub fn case_folding<P: AsRef<str>>(
        patterns: impl IntoIterator<Item = P>,
        anchor: Anchor,
    ) -> Result<Self, GlobError> {
        PathGlobs::with_case(patterns, anchor, CaseMatching::Folded)
    }

    fn with_case<P: AsRef<str>>(
        patterns: impl IntoIterator<Item = P>,
        anchor: Anchor,
        case: CaseMatching,
    ) -> Result<Self, GlobError> {
        let mut set = GlobSetBuilder::new();
        let mut ancestors = GlobSetBuilder::new();
        let (mut pattern_texts, mut reaches) = (Vec::new(), Vec::new());
        for pattern in patterns {
            let pattern = pattern.as_ref();
            // No path is longer than that, and the cost of compiling grows faster than the pattern's length.
            if pattern.len() > MAX_PATH {
                return Err(GlobError {
                    pattern: format!(
                        "{}…",
                        crate::name::escape_text(&pattern.chars().take(64).collect::<String>())
                    ),
                    reason: format!("it has {} bytes; at most {MAX_PATH} are allowed", pattern.len()),
                });
            }
            let text = match (anchor, pattern.strip_prefix('/')) {
                (_, Some(rest)) => rest.to_owned(),
                (Anchor::Start, None) => pattern.to_owned(),
                (Anchor::AnyDirectory, None) if pattern.starts_with("**/") => pattern.to_owned(),
                (Anchor::AnyDirectory, None) => format!("**/{pattern}"),
            };
            set.add(compile(&text, pattern, case)?);
            for (end, _) in text.match_indices('/').take(MAX_DEPTH) {
                // A directory named `*` or `**` matches any name, so it would cover every path. Half of a `{a/b}` isn't
                // a valid glob.
                let Some(directory) = text[..end].split('/').next_back() else { continue };
                if !matches!(directory, "**" | "*")
                    && let Ok(glob) = compile(&text[..end], pattern, case)
                {
                    ancestors.add(glob);
                }
            }
            pattern_texts.push(pattern.to_owned());
            reaches.push(Reach::of(&text, case));
        }
        let build = |set: GlobSetBuilder| {
            set.build().map_err(|error| GlobError {
                pattern: pattern_texts.join(", "),
                reason: error.kind().to_string(),
            })
        };
        let (set, ancestors) = (build(set)?, build(ancestors)?);
        let name_suffix = match case {
            CaseMatching::Sensitive => {
                common_suffix(pattern_texts.iter().map(|pattern| literal_suffix(pattern).as_bytes()))
            }
            CaseMatching::Folded => Vec::new(),
        };
        let (patterns, base) = (pattern_texts, String::new());
        Ok(PathGlobs { patterns, set, ancestors, name_suffix, reaches, base, case })
    }

    /// An empty set: it matches nothing.
    pub fn none() -> Self {
        PathGlobs {
            patterns: Vec::new(),
            set: GlobSet::empty(),
            ancestors: GlobSet::empty(),
            name_suffix: Vec::new(),
            reaches: Vec::new(),
            base: String::new(),
            case: CaseMatching::Sensitive,
        }
    }

    /// The same patterns for paths relative to `base`: `matches` puts `base` before each path.
    pub fn with_base(self, base: &str) -> Self {
        let base = if base.is_empty() { String::new() } else { format!("{base}/") };
        PathGlobs { base, ..self }
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
        if self.is_empty() {
            false
        } else if self.base.is_empty() {
            self.set_matches(&self.set, path)
        } else {
            self.set_matches(&self.set, &[&self.base, path].concat())
        }
    }

    /// Whether some pattern matches this path, which may not be UTF-8.
    pub fn matches_bytes(&self, path: &[u8]) -> bool {
        !self.is_empty() && path.ends_with(&self.name_suffix) && self.matches(&String::from_utf8_lossy(path))
    }

    /// The suffix that the name of every matching path has; empty if there is no common one.
    pub fn name_suffix(&self) -> &[u8] {
        &self.name_suffix
    }

    /// Whether some pattern may match a path below this directory. `false` is certain.
    pub fn may_match_below(&self, directory: &[u8]) -> bool {
        let base = self.base.as_bytes();
        let components =
            || base.split(|&b| b == b'/').chain(directory.split(|&b| b == b'/')).filter(|c| !c.is_empty());
        let depth = components().count();
        self.reaches.iter().any(|reach| {
            reach.max_depth.is_none_or(|max_depth| depth < max_depth)
                && components().zip(&reach.prefix).all(|(component, prefix)| component == prefix.as_bytes())
        })
    }

    /// The path that the only pattern begins with, as far as it has no wildcards: `src/app` for `src/app/*.rs`. Like the
    /// paths to match, it is relative to the base. Empty if there are several patterns, or if the base lies elsewhere.
    pub fn literal_prefix(&self) -> String {
        let [reach] = &*self.reaches else { return String::new() };
        let mut prefix = reach.prefix.iter();
        let base = self.base.split('/').filter(|component| !component.is_empty());
        let is_below_base =
            base.into_iter().all(|component| prefix.next().is_some_and(|name| name == component));
        if is_below_base { prefix.map(String::as_str).collect::<Vec<_>>().join("/") } else { String::new() }
    }

    /// Whether this path is a directory that some pattern names on its way: `.git` for `.git/hooks/**`.
    ///
    /// A file or a symlink with such a name could give access to, or stand in for, the files that the pattern covers.
    pub fn is_ancestor_of_match(&self, path: &str) -> bool {
        self.set_matches(&self.ancestors, path)
    }

    fn set_matches(&self, set: &GlobSet, path: &str) -> bool {
        set.is_match(path)
            || (self.case == CaseMatching::Folded
                && !path.is_ascii()
                && set.is_match(crate::name::case_fold(path)))
    }

    /// Whether a pattern matches this path or one of its ancestors.
    pub fn matches_path_or_ancestor(&self, path: &str) -> bool {
        let directories = memchr::memchr_iter(b'/', path.as_bytes()).map(|end| &path[..end]);
        self.matches(path) || directories.into_iter().any(|directory| self.matches(directory))
    }

    /// The index of the last pattern that matches this path as it is written; case matters only if it does for the set.
    pub fn last_match(&self, path: &str) -> Option<usize> {
        self.set.matches(path).last().copied()
    }

    /// The first pattern that matches this path.
    pub fn first_match(&self, path: &str) -> Option<&str> {
        self.set.matches(path).first().map(|&index| &*self.patterns[index])
    }
}

impl Reach {
    fn of(pattern: &str, case: CaseMatching) -> Self {
        if case == CaseMatching::Folded {
            return Reach { prefix: Vec::new(), max_depth: None };
        }
        let is_literal = |component: &&str| !component.contains(['*', '?', '[', ']', '{', '}', '\\']);
        let components = || pattern.split('/').filter(|component| !component.is_empty());
        // A `/` between brackets or braces doesn't separate components.
        let is_limited = !pattern.contains(['[', '{', '\\']) && !pattern.contains("**");
        Reach {
            prefix: components().take_while(is_literal).map(str::to_owned).collect(),
            max_depth: is_limited.then(|| components().count()),
        }
    }
}

/// The literal end of a pattern: a name has to end with it to match.
fn literal_suffix(pattern: &str) -> &str {
    // Escapes (`\`) aren't analysed, and U+FFFD may stand for bytes that weren't valid UTF-8: both give no suffix.
    if pattern.contains(['\\', char::REPLACEMENT_CHARACTER]) {
        return "";
    }
    let special = pattern.rfind(['/', '*', '?', '[', ']', '{', ',', '}']);
    special.map_or(pattern, |index| &pattern[index + 1..])
}

/// The longest common suffix of all of these.
fn common_suffix<'a>(mut suffixes: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let first = suffixes.next().unwrap_or_default();
    let common = suffixes.fold(first, |common, suffix| {
        let same = common.iter().rev().zip(suffix.iter().rev()).take_while(|(one, other)| one == other);
        &common[common.len() - same.count()..]
    });
    common.to_vec()
}

fn compile(text: &str, pattern: &str, case: CaseMatching) -> Result<Glob, GlobError> {
    let mut glob = GlobBuilder::new(text);
    glob.literal_separator(true).backslash_escape(true).case_insensitive(case == CaseMatching::Folded);
    let glob = glob.build();
    glob.map_err(|error| GlobError {
        pattern: crate::name::escape_text(pattern).to_string(),
        reason: error.kind().to_string(),
    })
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
    fn the_pattern_of_a_rule_means_what_it_looks_like_or_is_refused() {
        for (written, meant) in [
            ("secrets/", "secrets/**"),
            ("/secrets/", "/secrets/**"),
            ("./secrets", "/secrets"),
            ("./a/b/", "/a/b/**"),
            ("*.key", "*.key"),
            ("**/x", "**/x"),
            ("...", "..."),
        ] {
            assert_eq!(rule_pattern(written).unwrap(), meant);
        }
        for refused in ["", "/", "./", " secrets", "secrets ", "../x", "a//b", "//x", "a/./b", "a/.."] {
            assert!(rule_pattern(refused).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn a_case_folding_glob_matches_every_name_that_a_file_system_may_treat_as_equal() {
        let globs = PathGlobs::case_folding([".git/hooks/**", ".git/config"], Anchor::AnyDirectory).unwrap();
        for path in [
            ".git/config",
            ".GIT/config",
            "a/.Git/CONFIG",
            ".git/Hooks/pre-commit",
            ".git/hoo\u{212a}s/x",
            ".git/hook\u{17f}/x",
            ".git/con\u{fb01}g",
            ".g\u{200c}it/config",
        ] {
            assert!(globs.matches(path) && globs.matches_bytes(path.as_bytes()), "{path}");
        }
        assert!(globs.is_ancestor_of_match(".GIT") && globs.is_ancestor_of_match(".gi\u{200d}t"));
        assert!(!globs.matches(".git/configs") && !globs.matches("git/config"));
        let case_sensitive = PathGlobs::new([".git/config"], Anchor::AnyDirectory).unwrap();
        assert!(!case_sensitive.matches(".GIT/config"), "a search has to be case-sensitive");
    }

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
        assert_eq!(globs.first_match(".git/config"), Some("/.git/config"));
    }

    #[test]
    fn the_ancestor_directories_of_a_pattern_are_known() {
        let globs = PathGlobs::new([".git/hooks/**", ".git/config", "*/x"], Anchor::AnyDirectory).unwrap();
        assert!(globs.is_ancestor_of_match(".git") && globs.is_ancestor_of_match("sub/.git/hooks"));
        assert!(
            !globs.is_ancestor_of_match("sub")
                && !globs.is_ancestor_of_match(".git/config")
                && !globs.is_ancestor_of_match(".gitignore")
        );
    }

    #[test]
    fn a_base_is_put_before_each_path() {
        let globs = PathGlobs::new(["src/*.rs"], Anchor::Start).unwrap().with_base("src");
        assert!(globs.matches("a.rs") && !globs.matches("src/a.rs"));
    }

    #[test]
    fn it_is_known_where_nothing_can_match() {
        let globs = |pattern| PathGlobs::new([pattern], Anchor::Start).unwrap();
        for (pattern, directory, expected) in [
            ("*.rs", "src", false),
            ("*/*.rs", "src", true),
            ("*/*.rs", "src/deep", false),
            ("src/*.rs", "src", true),
            ("src/*.rs", "docs", false),
            ("src/**", "src/very/deep", true),
            ("src/**", "docs/very/deep", false),
            ("**/a", "src", true),
            ("{src/a,b}", "src", true),
            ("/src/*", "src", true),
        ] {
            assert_eq!(
                globs(pattern).may_match_below(directory.as_bytes()),
                expected,
                "{pattern} {directory}"
            );
        }
        let below = globs("src/app/*.rs").with_base("src");
        assert!(
            below.may_match_below(b"app") && below.may_match_below(b"") && !below.may_match_below(b"lib")
        );
        assert!(PathGlobs::new(["a/b"], Anchor::AnyDirectory).unwrap().may_match_below(b"x/a"));
    }

    #[test]
    fn the_path_that_a_pattern_begins_with_is_known() {
        let prefix = |pattern, base| {
            PathGlobs::new([pattern], Anchor::Start).unwrap().with_base(base).literal_prefix()
        };
        assert_eq!(prefix("target/debug/*.d", ""), "target/debug");
        assert_eq!(prefix("target/debug/a.d", "target"), "debug/a.d");
        assert_eq!(prefix("target/*.d", "src"), "");
        assert_eq!(prefix("**/*.d", ""), "");
    }

    #[test]
    fn the_common_suffix_of_all_matches_is_known() {
        for (patterns, suffix) in [
            (&["**/*77.txt"][..], "77.txt"),
            (&["README.md"], "README.md"),
            (&["/docs/a.md", "**/*.md"], ".md"),
            (&["*.rs", "*.ts", "x/*s"], "s"),
            (&["*.rs", "*.md"], ""),
            (&["src/**"], ""),
            (&["src/"], ""),
            (&["**"], ""),
            (&["*.{a,b}"], ""),
            (&["{a,b}.c"], ".c"),
            (&["*.[ch]"], ""),
            (&[r"a\*"], ""),
            (&[], ""),
        ] {
            for anchor in [Anchor::Start, Anchor::AnyDirectory] {
                let globs = PathGlobs::new(patterns, anchor).unwrap();
                assert_eq!(globs.name_suffix(), suffix.as_bytes(), "{patterns:?}");
            }
        }
    }

    proptest::proptest! {
        /// Comparing the suffix first never changes the result.
        #[test]
        fn comparing_the_suffix_excludes_no_match(
            pattern in r"(\*\*/|a/|\{a,b\}/)?[ab*?.,é]{0,4}(\[ab\]|\{b,.a\}|\\\*|\\b)?[ab*.é]{0,3}",
            path in "(a/|b/)?[ab.,*é]{1,6}",
        ) {
            if let Ok(globs) = PathGlobs::new([&pattern], Anchor::Start) {
                proptest::prop_assert_eq!(globs.matches_bytes(path.as_bytes()), globs.matches(&path));
            }
        }
    }

    proptest::proptest! {
        /// No directory with a match below it is ruled out.
        #[test]
        fn a_directory_above_a_match_may_have_one(
            pattern in r"(\*\*/|a/|b/|\{a,b\}/|\*/){0,2}[ab*?]{1,3}(/\*\*)?",
            path in "(a/|b/){0,3}[ab]{1,3}",
        ) {
            let globs = PathGlobs::new([&pattern], Anchor::Start).unwrap();
            if globs.matches(&path) {
                for (end, _) in path.match_indices('/') {
                    proptest::prop_assert!(globs.may_match_below(&path.as_bytes()[..end]), "{} {}", pattern, path);
                }
            }
        }
    }

    #[test]
    fn a_broken_pattern_is_an_error() {
        assert!(PathGlobs::new(["a[b"], Anchor::Start).unwrap_err().to_string().contains("a[b"));
    }

    #[test]
    fn a_pattern_longer_than_any_path_is_refused_before_memory_is_allocated() {
        // The ancestors of this pattern would be half a terabyte of text.
        let error = PathGlobs::new(["a/".repeat(1 << 19)], Anchor::Start).unwrap_err().to_string();
        assert!(error.len() < 300 && error.contains("at most 4096"), "{error}");
        assert!(PathGlobs::new(["a/".repeat(2048)], Anchor::Start).is_ok());
    }

    #[test]
    fn names_with_brackets_and_dots_are_matched_when_escaped() {
        let globs = PathGlobs::new(["[[]...slug[]].tsx"], Anchor::Start).unwrap();
        assert!(globs.matches("[...slug].tsx"));
    }
}
