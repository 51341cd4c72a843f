//! Paths that callers can't reach through a Store: Stead's own state, if it lies inside the root.

use std::path::{Path, PathBuf};

use stead_core::name::escape_name;
use stead_core::{StoreError, StoreResult};

use crate::reserved_names::is_reserved;

/// The paths below a root that are hidden from callers, as if they didn't exist.
#[derive(Debug, Clone, Default)]
pub(super) struct Mask {
    paths: Vec<Vec<u8>>,
    /// Paths that callers can reach, but can't move, remove or replace.
    pinned: Vec<Vec<u8>>,
}

impl Mask {
    /// Masks those of the host paths that lie below the root. All paths must be absolute and resolved.
    pub(super) fn new(root: &Path, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Mask { paths: relative_to_root(root, paths), pinned: Vec::new() }
    }

    /// Pins those of the host paths that lie below the root.
    pub(super) fn with_pinned(self, root: &Path, pinned: impl IntoIterator<Item = PathBuf>) -> Self {
        Mask { pinned: relative_to_root(root, pinned), ..self }
    }

    /// Whether a path below the root is masked, or has a reserved name in it.
    pub(super) fn hides(&self, path: &[u8]) -> bool {
        path.split(|&byte| byte == b'/').any(is_reserved)
            || self.paths.iter().any(|masked| is_at_or_below(path, masked))
    }

    /// Like [`Mask::hides`], for a name in a directory that isn't masked itself.
    pub(super) fn hides_entry(&self, dir: &[u8], name: &[u8]) -> bool {
        is_reserved(name) || (!self.paths.is_empty() && self.hides(&join(dir, name)))
    }

    /// Whether an entry is hidden only for its reserved name: then it is the state or configuration of another stead.
    /// `dir` must not be masked itself.
    pub(super) fn is_other_steads_state(&self, dir: &[u8], name: &[u8]) -> bool {
        let path = join(dir, name);
        is_reserved(name) && !self.paths.iter().any(|masked| is_at_or_below(&path, masked))
    }

    /// The masked paths, without those that are hidden by a reserved name.
    pub(super) fn paths(&self) -> &[Vec<u8>] {
        &self.paths
    }

    /// Refuses to move, remove or replace `dir` if a masked or pinned path is `dir` or lies below it. Reserved names are
    /// not considered.
    pub(super) fn check_nothing_below(&self, dir: &[u8]) -> StoreResult<()> {
        let below = |paths: &[Vec<u8>]| {
            let path = paths.iter().find(|path| is_at_or_below(path, dir))?;
            let relative = &path[dir.len()..];
            Some(relative.strip_prefix(b"/").unwrap_or(relative).to_vec())
        };
        match (below(&self.paths), below(&self.pinned)) {
            (Some(masked), _) => Err(hidden_path_error(&masked)),
            (None, Some(pinned)) => Err(protected_error(&pinned)),
            (None, None) => Ok(()),
        }
    }
}

/// The error of a step that would touch a hidden path. It names a reserved name, which everyone knows, but not where else
/// Stead's own files are.
pub(super) fn hidden_path_error(path: &[u8]) -> StoreError {
    let names: Vec<_> = path.split(|&byte| byte == b'/').collect();
    match names.iter().position(|name| is_reserved(name)) {
        Some(reserved) => protected_error(&names[..=reserved].join(&b'/')),
        None => protected_error(b""),
    }
}

/// The error of a step that would touch a protected path; an empty path is that of the step.
pub(super) fn protected_error(path: &[u8]) -> StoreError {
    let path = if path.is_empty() { b"." } else { path };
    StoreError::Protected { path: escape_name(path).to_string() }
}

/// Returns those of the paths that lie below the root, relative to it. The root itself is left out.
fn relative_to_root(root: &Path, paths: impl IntoIterator<Item = PathBuf>) -> Vec<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    let below = |path: PathBuf| Some(path.strip_prefix(root).ok()?.as_os_str().as_bytes().to_vec());
    paths.into_iter().filter_map(below).filter(|path| !path.is_empty()).collect()
}

/// Whether `path` is `ancestor` or lies below it.
pub(super) fn is_at_or_below(path: &[u8], ancestor: &[u8]) -> bool {
    ancestor.is_empty()
        || path.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Joins a path with a name or another path.
pub(super) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(path.len() + name.len() + 1);
    joined.extend_from_slice(path);
    if !path.is_empty() && !name.is_empty() {
        joined.push(b'/');
    }
    joined.extend_from_slice(name);
    joined
}

/// Splits a path into its parent and its last name.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memrchr(b'/', path) {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_directories_and_given_paths_are_hidden() {
        let mask = Mask::new(Path::new("/r"), ["/r/db/stead.db".into(), "/elsewhere".into(), "/r".into()]);
        for hidden in [".stead", "a/.stead/b", "stead.toml", "a/stead.toml", "db/stead.db", "db/stead.db/x"] {
            assert!(mask.hides(hidden.as_bytes()), "{hidden}");
        }
        for shown in
            ["", "a.stead", ".steady", "stead.toml.md", "my-stead.toml", "db", "db/stead.db-old", "elsewhere"]
        {
            assert!(!mask.hides(shown.as_bytes()), "{shown}");
        }
        for spelling in [
            ".STEAD",
            "Stead.TOML",
            "a/.Stead/b",
            ".\u{17f}tead",
            ".\u{fb06}ead",
            ".st\u{200c}ead",
            ".ste\u{ad}ad",
        ] {
            assert!(mask.hides(spelling.as_bytes()), "{spelling}");
        }
        assert!(!mask.hides("caf\u{e9}/st\u{e9}ad.toml".as_bytes()));
        assert!(mask.hides_entry(b"db", b"stead.db"));
        let own_mask = Mask::new(Path::new("/r"), ["/r/.stead".into(), "/r/stead.toml".into()]);
        assert!(
            !own_mask.is_other_steads_state(b"", b".stead")
                && !own_mask.is_other_steads_state(b"", b"stead.toml")
        );
        assert!(
            own_mask.is_other_steads_state(b"a", b".stead")
                && own_mask.is_other_steads_state(b"a", b"Stead.toml")
        );
        assert!(!own_mask.is_other_steads_state(b"a", b"other"));
    }

    #[test]
    fn a_refusal_names_pinned_paths_and_reserved_names_but_no_other_hidden_path() {
        let mask = Mask::new(Path::new("/r"), ["/r/db/hidden.db".into(), "/r/own/sub/.stead/audit".into()])
            .with_pinned(Path::new("/r"), ["/r/stores/one".into(), "/r/db/two".into()]);
        for (dir, expected) in [
            ("db", Some(".")),
            ("db/hidden.db", Some(".")),
            ("own", Some("sub/.stead")),
            ("stores", Some("one")),
            ("stores/one", Some(".")),
            ("d", None),
            ("db/hidden.db-old", None),
        ] {
            let refusal = mask.check_nothing_below(dir.as_bytes()).err();
            let expected = expected.map(|path| StoreError::Protected { path: path.to_owned() }.to_string());
            assert_eq!(refusal.map(|error| error.to_string()), expected, "{dir}");
        }
    }
}
