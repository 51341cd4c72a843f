//! Logical paths: the text that an agent writes, made canonical before any other code sees it.
//!
//! Nothing here touches a Store. `..` is resolved on the text. A look-alike of `..` (percent-encoded, full-width) is an
//! ordinary name.
//!
//! ```
//! use stead_core::VfsPath;
//!
//! let path = VfsPath::parse("notes/./drafts/../plan.md")?;
//! assert_eq!(path.as_str(), "/notes/plan.md");
//! assert!(VfsPath::parse("/notes/../../etc/passwd").is_err());
//! # Ok::<(), stead_core::PathError>(())
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::name::{escape_hint, escape_name, escape_text};

/// The longest component, in bytes.
pub const MAX_COMPONENT: usize = 255;
/// The longest path, in bytes.
pub const MAX_PATH: usize = 4096;
/// The deepest path, in components.
pub const MAX_DEPTH: usize = 64;
/// What the name of something in a State begins with. A file's path begins with `/`.
const STATE_PREFIX: &str = "state:";

/// An absolute, canonical logical path: `/`, or `/` and components joined by `/`.
///
/// It holds no `.`, no `..`, no empty component, no control character and no backslash.
///
/// The history and the audit also name keys of a State: `state:NAMESPACE/KEY` ([`VfsPath::is_state`]). No text parses to
/// such a name, and no Workspace contains it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VfsPath(Box<str>);

/// Why a text isn't a valid path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A `..` leads above `/`.
    #[error("`{0}` goes above `/`; paths start at `/` and can't leave it")]
    ClimbsAboveRoot(String),
    /// The path contains NUL, a newline, an escape or another control character.
    #[error("`{path}` contains the control character {character}; use a name without it")]
    ControlCharacter {
        /// The path, shown escaped.
        path: String,
        /// The character, as `U+XXXX`.
        character: String,
    },
    /// The name comes from the host and isn't valid UTF-8.
    #[error("`{0}` isn't valid UTF-8; paths have to be UTF-8")]
    NotUtf8(String),
    /// The path contains a backslash; paths are `/`-separated on every host.
    #[error("`{0}` contains a backslash; separate components with `/`{hint}", hint = escape_hint(.0).unwrap_or_default())]
    Backslash(String),
    /// One component is too long.
    #[error("a component of the path has {length} bytes; at most {MAX_COMPONENT} are allowed")]
    ComponentTooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The path as a whole is too long.
    #[error("the path has {length} bytes; at most {MAX_PATH} are allowed")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The path has too many components.
    #[error("the path has {depth} components; at most {MAX_DEPTH} are allowed")]
    TooDeep {
        /// The number of components.
        depth: usize,
    },
}

impl VfsPath {
    /// The root of every stead: `/`.
    pub fn root() -> Self {
        VfsPath("/".into())
    }

    /// Parses a path as an agent writes it; `docs/a.md` and `/docs/a.md` are the same path.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.len() > MAX_PATH {
            return Err(PathError::TooLong { length: text.len() });
        }
        if let Some(character) = text.chars().find(|c| c.is_control()) {
            let character = format!("U+{:04X}", u32::from(character));
            return Err(PathError::ControlCharacter {
                path: escape_name(text.as_bytes()).to_string(),
                character,
            });
        }
        if text.contains('\\') {
            return Err(PathError::Backslash(escape_text(text).to_string()));
        }
        VfsPath::root().join_components(text)
    }

    /// The name of a State as a whole: `state:`.
    pub(crate) fn state_root() -> Self {
        VfsPath(STATE_PREFIX.into())
    }

    /// The name of a State's namespace: `state:NAMESPACE`. The text was checked.
    pub(crate) fn of_state_namespace(namespace: &str) -> Self {
        VfsPath(format!("{STATE_PREFIX}{namespace}").into())
    }

    /// The name of a State's key: `state:NAMESPACE/KEY`. Both texts were checked.
    pub(crate) fn of_state_key(namespace: &str, key: &str) -> Self {
        VfsPath(format!("{STATE_PREFIX}{namespace}/{key}").into())
    }

    /// What the history and the audit call something in a State, from its text: `state:NAMESPACE` or `state:NAMESPACE/KEY`. `None` for
    /// any other text.
    pub fn parse_state(text: &str) -> Option<Self> {
        let name = text.strip_prefix(STATE_PREFIX)?;
        (!name.is_empty() && !name.contains(char::is_control)).then(|| VfsPath(text.into()))
    }

    /// Whether this names something in a State rather than a file.
    pub fn is_state(&self) -> bool {
        self.0.starts_with(STATE_PREFIX)
    }

    /// The path that a record of the history or the audit has: a file's path, or the name of something in a State.
    pub fn from_record(text: &str) -> Result<Self, PathError> {
        if text.starts_with(STATE_PREFIX) && text.len() <= MAX_PATH && !text.contains(char::is_control) {
            return Ok(VfsPath(text.into()));
        }
        VfsPath::parse(text)
    }

    /// Resolves the target of a symlink that is in the directory `self`. An absolute target starts at `/`.
    pub fn resolve_symlink_target(&self, target: &str) -> Result<Self, PathError> {
        // The target needs the checks of a new path. Whether its `..` lead above the root depends on `self`, and is
        // checked below.
        match VfsPath::parse(target) {
            Ok(_) | Err(PathError::ClimbsAboveRoot(_)) => {}
            Err(other) => return Err(other),
        }
        if target.starts_with('/') {
            VfsPath::root().join_components(target)
        } else {
            self.join_components(target)
        }
    }

    /// Appends `text` to this path component by component, resolving `.` and `..`.
    fn join_components(&self, text: &str) -> Result<Self, PathError> {
        let mut canonical = String::with_capacity(self.0.len() + text.len() + 1);
        if !self.is_root() {
            canonical.push_str(&self.0);
        }
        for component in text.split('/') {
            match component {
                "" | "." => {}
                ".." => match canonical.rfind('/') {
                    Some(slash) => canonical.truncate(slash),
                    None => return Err(PathError::ClimbsAboveRoot(escape_name(text.as_bytes()).to_string())),
                },
                name if name.len() > MAX_COMPONENT => {
                    return Err(PathError::ComponentTooLong { length: name.len() });
                }
                name => {
                    canonical.push('/');
                    canonical.push_str(name);
                }
            }
        }
        let depth = memchr::memchr_iter(b'/', canonical.as_bytes()).count();
        if depth > MAX_DEPTH {
            return Err(PathError::TooDeep { depth });
        }
        if canonical.len() > MAX_PATH {
            return Err(PathError::TooLong { length: canonical.len() });
        }
        if canonical.is_empty() {
            canonical.push('/');
        }
        Ok(VfsPath(canonical.into()))
    }

    /// The path as text, starting with `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is `/`.
    pub fn is_root(&self) -> bool {
        &*self.0 == "/"
    }

    /// The components, outermost first; none for `/`.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|component| !component.is_empty())
    }

    /// The number of components.
    pub fn depth(&self) -> usize {
        if self.is_root() { 0 } else { memchr::memchr_iter(b'/', self.0.as_bytes()).count() }
    }

    /// The last component; `None` for `/`.
    pub fn name(&self) -> Option<&str> {
        self.components().next_back()
    }

    /// The directory that holds this path; `None` for `/`, and for a State as a whole.
    pub fn parent(&self) -> Option<VfsPath> {
        if self.is_root() {
            return None;
        }
        match self.0.rfind('/') {
            None if self.is_state() => (&*self.0 != STATE_PREFIX).then(VfsPath::state_root),
            Some(0) | None => Some(VfsPath::root()),
            Some(slash) => Some(VfsPath(self.0[..slash].into())),
        }
    }

    /// This path and the directories that contain it, from this path up to `/`.
    pub fn ancestors(&self) -> impl Iterator<Item = VfsPath> {
        std::iter::successors(Some(self.clone()), VfsPath::parent)
    }

    /// This path with `name` appended, which is parsed like any path.
    pub fn join(&self, name: &str) -> Result<VfsPath, PathError> {
        let relative = VfsPath::parse(name)?;
        self.join_components(relative.as_str())
    }

    /// The path of the first `depth` components; the whole path if it has no more.
    pub fn ancestor(&self, depth: usize) -> VfsPath {
        match memchr::memchr_iter(b'/', self.0.as_bytes()).nth(depth) {
            Some(0) => VfsPath::root(),
            Some(slash) => VfsPath(self.0[..slash].into()),
            None => self.clone(),
        }
    }

    /// The rest of this path below `prefix`, without a leading `/`; `None` if the path isn't at or below `prefix`.
    pub fn strip_prefix(&self, prefix: &VfsPath) -> Option<&str> {
        if prefix.is_root() {
            return self.0.strip_prefix('/');
        }
        if &*prefix.0 == STATE_PREFIX {
            return self.0.strip_prefix(STATE_PREFIX);
        }
        let rest = self.0.strip_prefix(&*prefix.0)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
    }
}

impl fmt::Display for VfsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape_name(self.0.as_bytes()).fmt(f)
    }
}

impl fmt::Debug for VfsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for VfsPath {
    type Error = PathError;
    fn try_from(text: String) -> Result<Self, PathError> {
        VfsPath::parse(&text)
    }
}

impl TryFrom<&str> for VfsPath {
    type Error = PathError;
    fn try_from(text: &str) -> Result<Self, PathError> {
        VfsPath::parse(text)
    }
}

impl TryFrom<&String> for VfsPath {
    type Error = PathError;
    fn try_from(text: &String) -> Result<Self, PathError> {
        VfsPath::parse(text)
    }
}

impl TryFrom<&VfsPath> for VfsPath {
    type Error = PathError;
    fn try_from(path: &VfsPath) -> Result<Self, PathError> {
        Ok(path.clone())
    }
}

impl From<VfsPath> for String {
    fn from(path: VfsPath) -> String {
        path.0.into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> String {
        VfsPath::parse(text).unwrap().as_str().to_owned()
    }

    #[test]
    fn a_relative_path_starts_at_the_root() {
        assert_eq!(parsed("docs/a.md"), "/docs/a.md");
        assert_eq!(parsed("/docs/a.md"), "/docs/a.md");
        assert_eq!(parsed(""), "/");
        assert_eq!(parsed("/"), "/");
    }

    #[test]
    fn dots_and_repeated_slashes_are_resolved_on_the_text() {
        assert_eq!(parsed("/a/./b//c/../d/"), "/a/b/d");
        assert_eq!(parsed("/ro/../rw/x"), "/rw/x");
    }

    #[test]
    fn climbing_above_the_root_is_an_error_that_says_so() {
        for text in ["..", "/..", "/a/../..", "a/../../b"] {
            let error = VfsPath::parse(text).unwrap_err();
            assert!(matches!(error, PathError::ClimbsAboveRoot(_)), "{text}");
            assert!(error.to_string().contains("goes above `/`"));
        }
    }

    #[test]
    fn control_characters_and_backslashes_are_refused() {
        for text in ["/a\0b", "/a\nb", "/a\x1b[31mb", "/a\u{7f}", "/a\u{85}b"] {
            let error = VfsPath::parse(text).unwrap_err();
            assert!(matches!(error, PathError::ControlCharacter { .. }), "{text:?}");
            assert!(!error.to_string().chars().any(char::is_control));
        }
        assert!(matches!(VfsPath::parse("a\\b"), Err(PathError::Backslash(_))));
        for text in ["a\\\u{202e}b", "../\u{202e}b"] {
            assert!(!VfsPath::parse(text).unwrap_err().to_string().contains('\u{202e}'));
        }
    }

    #[test]
    fn look_alikes_of_a_traversal_are_ordinary_names() {
        for text in ["/%2e%2e", "/..%2f", "/\u{ff0e}\u{ff0e}", "/a..b.txt", "/[...slug].tsx", "/.env", "/..."]
        {
            assert_eq!(parsed(text), text);
        }
    }

    #[test]
    fn limits_are_named_in_the_error() {
        let long = "x".repeat(MAX_COMPONENT + 1);
        assert!(VfsPath::parse(&long).unwrap_err().to_string().contains("255"));
        assert!(VfsPath::parse(&"x".repeat(MAX_COMPONENT)).is_ok());
        let deep = "/x".repeat(MAX_DEPTH + 1);
        assert!(VfsPath::parse(&deep).unwrap_err().to_string().contains("64"));
        assert!(VfsPath::parse(&"/x".repeat(MAX_DEPTH)).is_ok());
        let wide = format!("/{}", "y".repeat(200)).repeat(21);
        assert!(VfsPath::parse(&wide).unwrap_err().to_string().contains("4096"));
    }

    #[test]
    fn a_symlink_target_is_resolved_from_its_directory() {
        let directory = VfsPath::parse("/home/src").unwrap();
        assert_eq!(directory.resolve_symlink_target("../b").unwrap().as_str(), "/home/b");
        assert_eq!(directory.resolve_symlink_target("/rw/x").unwrap().as_str(), "/rw/x");
        assert!(directory.resolve_symlink_target("../../../x").is_err());
        assert!(directory.resolve_symlink_target("/../x").is_err());
    }

    #[test]
    fn parts_of_a_path() {
        let path = VfsPath::parse("/a/b/c").unwrap();
        assert_eq!(path.ancestor(0).as_str(), "/");
        assert_eq!(path.ancestor(2).as_str(), "/a/b");
        assert_eq!(path.ancestor(3).as_str(), "/a/b/c");
        assert_eq!(path.parent().unwrap().as_str(), "/a/b");
        assert_eq!(path.strip_prefix(&path.ancestor(1)), Some("b/c"));
        assert_eq!(path.strip_prefix(&VfsPath::parse("/a/b/cd").unwrap()), None);
        assert_eq!(
            VfsPath::parse("/homework").unwrap().strip_prefix(&VfsPath::parse("/home").unwrap()),
            None
        );
        assert_eq!(path.depth(), 3);
        assert_eq!(VfsPath::root().depth(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn any_text_is_refused_or_becomes_canonical(text in any::<String>()) {
            if let Ok(path) = VfsPath::parse(&text) {
                prop_assert_eq!(&VfsPath::parse(path.as_str()).unwrap(), &path);
            }
        }

        #[test]
        fn path_like_text_becomes_canonical(text in "[/.a-c\u{e9}\\\\\n]{0,24}") {
            if let Ok(path) = VfsPath::parse(&text) {
                prop_assert!(path.as_str().starts_with('/'));
                prop_assert!(path.components().all(|c| !c.is_empty() && c != "." && c != ".."));
                prop_assert!(!path.as_str().chars().any(|c| c.is_control() || c == '\\'));
                prop_assert_eq!(&VfsPath::parse(path.as_str()).unwrap(), &path);
                prop_assert_eq!(path.depth(), path.components().count());
            }
        }

        #[test]
        fn joining_and_splitting_are_inverse(names in proptest::collection::vec("[a-z.]{1,8}x", 1..8)) {
            let mut path = VfsPath::root();
            for name in &names {
                path = path.join(name).unwrap();
            }
            prop_assert_eq!(path.components().collect::<Vec<_>>(), names.iter().map(String::as_str).collect::<Vec<_>>());
            prop_assert_eq!(path.parent().unwrap().join(path.name().unwrap()).unwrap(), path);
        }
    }
}
