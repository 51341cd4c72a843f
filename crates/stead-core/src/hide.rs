//! Which names a Workspace hides from agents.
//!
//! For an agent, what a `hide` glob matches does not exist. Globs are tested in their order and the last one that
//! matches decides, as in a `.gitignore`: one that begins with `!` shows again what an earlier one hides. A hidden
//! directory hides everything below it.
//!
//! ```
//! use stead_core::hide::HideGlobs;
//!
//! let globs = HideGlobs::new(["*.key", "!vendor/**/*.key", "secrets/**"])?;
//! assert!(globs.hides("a/server.key") && !globs.hides("vendor/x/server.key"));
//! assert!(globs.hides("secrets") && globs.hides("a/secrets/b/c"));
//! # Ok::<(), stead_core::glob::GlobError>(())
//! ```

use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::glob::{Anchor, GlobError, PathGlobs, rule_pattern};
use crate::name::case_fold;

/// The globs that a Workspace hides by default: files that usually hold keys, tokens and passwords.
pub const DEFAULT_HIDE: [&str; 21] = [
    "*.key",
    // Packages bring keys of their own, for tests and examples.
    "!{node_modules,site-packages,.venv,vendor,target}/**/*.key",
    ".env",
    ".env.*",
    "!.env.{example,sample,template}",
    "*-key.pem",
    "*.key.pem",
    "privkey*.pem",
    "id_rsa*",
    "id_ed25519*",
    "*.p12",
    "*.pfx",
    ".ssh/**",
    ".aws/**",
    ".gnupg/**",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".docker/config.json",
    ".kube/config",
    ".git-credentials",
];

/// [`DEFAULT_HIDE`], compiled on first use and shared by all Workspaces.
pub(crate) static DEFAULT_HIDE_GLOBS: LazyLock<Arc<HideGlobs>> =
    LazyLock::new(|| Arc::new(HideGlobs::new(DEFAULT_HIDE).expect("the default globs are valid")));

/// Whether a path is hidden by default in a Workspace that it is in.
pub fn is_hidden_by_default(path: &str) -> bool {
    DEFAULT_HIDE_GLOBS.hides(path)
}

/// The globs of one Workspace, compiled. Paths are relative to its prefix; names that differ only in case are equal.
#[derive(Clone)]
pub struct HideGlobs {
    patterns: Vec<String>,
    rules: PathGlobs,
    /// What each rule does with the paths that it matches.
    effects: Vec<Effect>,
    /// The last components of the rules that hide. A name that none of them matches isn't hidden, so for most names the
    /// rules don't run.
    names: PathGlobs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Hide,
    Show,
}

impl HideGlobs {
    /// Compiles globs. A glob matches from any directory; with a leading `/` it matches from the prefix. `directory/**`
    /// hides the directory itself, and with it everything below.
    pub fn new<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, GlobError> {
        let (mut written, mut rules, mut effects, mut names) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let (glob, effect) = match pattern.strip_prefix('!') {
                Some(glob) => (glob, Effect::Show),
                None => (pattern, Effect::Hide),
            };
            let glob = &*rule_pattern(glob)?;
            let directory = glob.strip_suffix("/**").filter(|directory| !directory.is_empty());
            match effect {
                Effect::Hide => {
                    let glob = directory.unwrap_or(glob);
                    names.push(last_component(glob).to_owned());
                    rules.push(glob.to_owned());
                }
                Effect::Show => {
                    rules.extend([directory, Some(glob)].into_iter().flatten().map(str::to_owned))
                }
            }
            effects.resize(rules.len(), effect);
            written.push(pattern.to_owned());
        }
        Ok(HideGlobs {
            patterns: written,
            rules: PathGlobs::case_folding(rules, Anchor::AnyDirectory)?,
            effects,
            names: PathGlobs::case_folding(names, Anchor::Start)?,
        })
    }

    /// Whether nothing is hidden.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The globs as they were written.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Whether the path, or a directory that it is in, is hidden.
    pub fn hides(&self, path: &str) -> bool {
        if self.is_empty() || path.is_empty() {
            return false;
        }
        let ends = memchr::memchr_iter(b'/', path.as_bytes()).chain([path.len()]);
        let mut start = 0;
        for end in ends {
            if self.may_hide(&path[start..end]) && self.hides_entry(&path[..end]) {
                return true;
            }
            start = end + 1;
        }
        false
    }

    /// Whether some path with this name may be hidden.
    fn may_hide(&self, name: &str) -> bool {
        self.names.matches(name)
    }

    /// Whether the rules hide this path, whatever they say about the directories that it is in.
    fn hides_entry(&self, path: &str) -> bool {
        let hides =
            |path: &str| self.rules.last_match(path).is_some_and(|rule| self.effects[rule] == Effect::Hide);
        // For some file systems, a name that isn't ASCII is the same as one that a rule hides.
        hides(path) || (!path.is_ascii() && hides(&case_fold(path)))
    }
}

/// The part of a glob that matches the last component of a path; `*` if it can't be told apart from the rest.
fn last_component(glob: &str) -> &str {
    match glob.rsplit_once('/') {
        None => glob,
        // A `/` may stand in braces or brackets, or be escaped.
        Some((before, last)) if last != "**" && !before.contains(['{', '[', '\\']) => last,
        Some(_) => "*",
    }
}

impl fmt::Debug for HideGlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.patterns.fmt(f)
    }
}

/// What a Workspace hides below one of its directories, for Stores: they know paths below a directory, and no Workspace.
#[derive(Clone)]
pub struct HiddenNames {
    globs: Arc<HideGlobs>,
    /// The directory's path in the Workspace.
    directory: String,
    /// Whether the directory is hidden, and so everything below it.
    hides_all: bool,
}

impl HiddenNames {
    /// What is hidden below a directory, which is given by its path in the Workspace; `None` if the globs hide nothing.
    pub fn below(globs: &Arc<HideGlobs>, directory: &str) -> Option<Self> {
        if globs.is_empty() {
            return None;
        }
        let (hides_all, directory) = (globs.hides(directory), directory.to_owned());
        Some(HiddenNames { globs: Arc::clone(globs), directory, hides_all })
    }

    /// Whether the entry at a path below the directory is hidden. The directories between the two must be visible, as
    /// they are for a walk that enters no hidden one.
    pub fn hides_entry(&self, path: &[u8]) -> bool {
        let start = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
        self.hides_all
            || (self.globs.may_hide(&String::from_utf8_lossy(&path[start..]))
                && self.globs.hides_entry(&self.path_in_workspace(path)))
    }

    /// Whether the path below the directory, or a directory on the way to it, is hidden.
    pub fn hides(&self, path: &[u8]) -> bool {
        self.hides_all || self.globs.hides(&self.path_in_workspace(path))
    }

    fn path_in_workspace(&self, path: &[u8]) -> String {
        let path = String::from_utf8_lossy(path);
        match (self.directory.is_empty(), path.is_empty()) {
            (true, _) => path.into_owned(),
            (false, true) => self.directory.clone(),
            (false, false) => format!("{}/{path}", self.directory),
        }
    }
}

impl fmt::Debug for HiddenNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HiddenNames({:?} below {:?})", self.globs, self.directory)
    }
}

impl PartialEq for HiddenNames {
    fn eq(&self, other: &Self) -> bool {
        self.directory == other.directory && self.globs.patterns == other.globs.patterns
    }
}

impl Eq for HiddenNames {}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(globs: &[&str], paths: &[&str]) -> String {
        let globs = HideGlobs::new(globs).unwrap();
        let hidden: Vec<_> = paths.iter().copied().filter(|path| globs.hides(path)).collect();
        hidden.join(" ")
    }

    #[test]
    fn the_default_hides_files_with_secrets_and_shows_their_templates() {
        let secret = [
            ".env",
            "app/.env.production",
            ".ENV",
            "server.key",
            "tls/ca-key.pem",
            "tls/ca.key.pem",
            "privkey1.pem",
            "id_rsa",
            "id_ed25519.pub",
            "a.p12",
            "a.PFX",
            ".ssh",
            "home/.ssh/config",
            ".aws/credentials",
            ".gnupg/a/b",
            ".netrc",
            ".npmrc",
            ".pypirc",
            ".docker/config.json",
            "u/.kube/config",
            ".git-credentials",
            "node_modules/x/.env",
            "vendor/id_rsa.key",
        ];
        assert_eq!(hidden(&DEFAULT_HIDE, &secret), secret.join(" "));
        let open = [
            "",
            ".env.example",
            "a/.env.sample",
            ".env.template",
            "env",
            ".envrc",
            "cert.pem",
            "node_modules/x/test.key",
            ".venv/lib/python3/site-packages/x/a.key",
            "target/debug/a.key",
            "vendor/a.key",
            ".docker/Dockerfile",
            "config.json",
            ".kube/cache",
            "keyboard.rs",
            ".ssh-notes",
            "docs/ssh/config",
        ];
        assert_eq!(hidden(&DEFAULT_HIDE, &open), "");
    }

    #[test]
    fn the_last_glob_that_matches_decides() {
        let paths = ["a.key", "keep/a.key", "keep/b.key"];
        assert_eq!(hidden(&["*.key", "!keep/*"], &paths), "a.key");
        assert_eq!(hidden(&["!keep/*", "*.key"], &paths), "a.key keep/a.key keep/b.key");
        assert_eq!(hidden(&["*.key", "!keep/*", "keep/b.key"], &paths), "a.key keep/b.key");
        assert_eq!(hidden(&["!*.key"], &paths), "");
    }

    #[test]
    fn a_hidden_directory_hides_everything_below_it_even_what_a_later_glob_shows() {
        let paths = ["secrets", "secrets/a", "x/secrets/a/b", "secrets2", "sub/top", "top/a"];
        assert_eq!(hidden(&["secrets"], &paths), "secrets secrets/a x/secrets/a/b");
        assert_eq!(hidden(&["secrets/**", "!secrets/a"], &paths), "secrets secrets/a x/secrets/a/b");
        assert_eq!(hidden(&["/top"], &paths), "top/a");
    }

    #[test]
    fn a_glob_whose_last_component_is_hard_to_tell_still_hides() {
        let paths = ["a/b", "c", "d/e.txt", "x/y/z"];
        assert_eq!(hidden(&["{a/b,c}"], &paths), "a/b c");
        assert_eq!(hidden(&["[d]/*.txt"], &paths), "d/e.txt");
        assert_eq!(hidden(&["x/**/z"], &paths), "x/y/z");
        assert_eq!(hidden(&["**"], &paths), paths.join(" "));
    }

    #[test]
    fn names_below_a_directory_are_judged_by_their_path_in_the_workspace() {
        let globs = Arc::new(HideGlobs::new([".kube/config", "*.key", ".ssh/**"]).unwrap());
        let below = |directory| HiddenNames::below(&globs, directory).unwrap();
        assert!(below(".kube").hides_entry(b"config") && !below("").hides_entry(b"config"));
        assert!(below("a").hides_entry(b"b/\xff.key") && !below("a").hides_entry(b"b/\xff.txt"));
        assert!(
            below("a").hides(b".ssh/x") && !below("a").hides_entry(b".ssh/x"),
            "only `hides` looks above"
        );
        assert!(below(".ssh").hides_entry(b"x") && below(".ssh").hides(b""));
        let nothing = Arc::new(HideGlobs::new(["!*.key"]).unwrap());
        assert!(HiddenNames::below(&nothing, "a").is_none());
    }

    #[test]
    fn a_broken_glob_is_an_error_that_shows_it() {
        assert!(HideGlobs::new(["!a[b"]).unwrap_err().to_string().contains("a[b"));
    }

    proptest::proptest! {
        /// Testing names first never changes the result.
        #[test]
        fn testing_the_name_first_excludes_no_match(
            globs in proptest::collection::vec(r"!?(/|\*\*/|a/|\{a,b\}/)?[ab*?.]{1,4}(/\*\*|/b)?", 1..4),
            path in "(a/|b/){0,3}[ab.]{1,3}",
        ) {
            if let Ok(globs) = HideGlobs::new(&globs) {
                let ancestors = path.match_indices('/').map(|(end, _)| &path[..end]).chain([&*path]);
                let expected = ancestors.into_iter().any(|path| globs.hides_entry(path));
                proptest::prop_assert_eq!(globs.hides(&path), expected);
            }
        }
    }
}
