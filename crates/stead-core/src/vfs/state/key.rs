//! Namespaces and keys, and the names of the nodes that hold them.
//!
//! A namespace is a directory, and a key a file in it. The file's name is the key with `.` written as `.0` and `/` as
//! `.1`, so the names sort as the keys do, and no key is `.` or `..`. A name of more than [`CHUNK`] bytes is split: its
//! first [`CHUNK`] bytes and `.2` name a directory, which holds the rest. No key has `.2` in its name, so a directory
//! never takes the name of a key.

use std::fmt;

use crate::path::VfsPath;
use crate::store::{NodePath, StorePath};
use crate::workspace::Workspace;

/// The namespace of keys for which none is given.
pub const DEFAULT_NAMESPACE: &str = "default";
/// The longest namespace, in bytes.
pub const MAX_NAMESPACE: usize = 64;
/// The longest key, in bytes.
pub const MAX_KEY: usize = 512;

/// The longest part of a key's name that one component holds, in bytes. With the mark it stays within what a Store takes.
const CHUNK: usize = 240;
/// The end of a directory's name that holds the rest of longer keys.
const DIRECTORY_MARK: &[u8] = b".2";

/// A text isn't a valid namespace or key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidStateName {
    /// It isn't a namespace.
    #[error("a namespace has 1 to {MAX_NAMESPACE} letters (a to z, A to Z), digits, `_` and `-`")]
    Namespace,
    /// The key is empty.
    #[error("a key can't be empty; it has 1 to {MAX_KEY} bytes")]
    EmptyKey,
    /// The key is too long.
    #[error("the key has {length} bytes; at most {MAX_KEY} are allowed")]
    KeyTooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The key contains a control character.
    #[error("the key contains the control character U+{:04X}; use a key without it", *character as u32)]
    ControlCharacter {
        /// The character.
        character: char,
    },
}

impl From<InvalidStateName> for crate::error::Error {
    fn from(error: InvalidStateName) -> Self {
        crate::error::Error::Invalid(error.to_string())
    }
}

/// A namespace that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Namespace(Box<str>);

impl Namespace {
    pub(super) fn parse(text: &str) -> Result<Self, InvalidStateName> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let is_valid = (1..=MAX_NAMESPACE).contains(&text.len()) && text.bytes().all(is_plain);
        is_valid.then(|| Namespace(text.into())).ok_or(InvalidStateName::Namespace)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The name in the history and the audit.
    pub(super) fn path(&self) -> VfsPath {
        VfsPath::of_state_namespace(&self.0)
    }

    /// The directory of the namespace in the State's Store.
    pub(super) fn node_path(&self, state: &Workspace) -> NodePath {
        state.mount().node_path(&self.0)
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Namespace(DEFAULT_NAMESPACE.into())
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A key that was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key<'k>(&'k str);

impl<'k> Key<'k> {
    pub(super) fn parse(text: &'k str) -> Result<Self, InvalidStateName> {
        match text.len() {
            0 => Err(InvalidStateName::EmptyKey),
            _ => Key::parse_prefix(text),
        }
    }

    /// The beginning of keys, which may be empty.
    pub(super) fn parse_prefix(text: &'k str) -> Result<Self, InvalidStateName> {
        if text.len() > MAX_KEY {
            return Err(InvalidStateName::KeyTooLong { length: text.len() });
        }
        match text.chars().find(|character| character.is_control()) {
            Some(character) => Err(InvalidStateName::ControlCharacter { character }),
            None => Ok(Key(text)),
        }
    }

    /// The name in the history and the audit.
    pub(super) fn path(self, namespace: &Namespace) -> VfsPath {
        VfsPath::of_state_key(namespace.as_str(), self.0)
    }

    /// The file of the key in the State's Store.
    pub(super) fn node_path(self, namespace: &Namespace, state: &Workspace) -> NodePath {
        let mut path = namespace.node_path(state);
        let name = self.encode();
        let (chunks, last) = split_chunks(&name);
        for chunk in chunks {
            path = path.join(&directory_name(chunk));
        }
        path.join(last)
    }

    /// The key as the names of its nodes have it. Keys and their encoded forms have the same order.
    pub(super) fn encode(self) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(self.0.len() + 8);
        for byte in self.0.bytes() {
            match byte {
                b'.' => encoded.extend_from_slice(b".0"),
                b'/' => encoded.extend_from_slice(b".1"),
                byte => encoded.push(byte),
            }
        }
        encoded
    }
}

/// The key with this encoded form; `None` if there is none.
pub(super) fn decode(encoded: &[u8]) -> Option<String> {
    let mut key = Vec::with_capacity(encoded.len());
    let mut bytes = encoded.iter();
    while let Some(&byte) = bytes.next() {
        key.push(match (byte, byte == b'.') {
            (byte, false) => byte,
            (_, true) => match bytes.next() {
                Some(b'0') => b'.',
                Some(b'1') => b'/',
                _ => return None,
            },
        });
    }
    String::from_utf8(key).ok().filter(|key| !key.is_empty())
}

/// The chunks of an encoded key that name directories, and the rest, which names the file.
fn split_chunks(encoded: &[u8]) -> (impl Iterator<Item = &[u8]>, &[u8]) {
    let directories = encoded.len().saturating_sub(1) / CHUNK;
    let (chunks, last) = encoded.split_at(directories * CHUNK);
    (chunks.chunks(CHUNK), last)
}

/// The first chunk of an encoded key and the rest, if the key is too long for one name.
pub(super) fn first_chunk(encoded: &[u8]) -> Option<(&[u8], &[u8])> {
    encoded.split_at_checked(CHUNK).filter(|(_, rest)| !rest.is_empty())
}

/// The name of the directory that holds the keys that begin with this chunk and go on.
pub(super) fn directory_name(chunk: &[u8]) -> Vec<u8> {
    [chunk, DIRECTORY_MARK].concat()
}

/// The chunk that a directory with this name stands for; `None` for the name of a key.
pub(super) fn chunk_of(name: &[u8]) -> Option<&[u8]> {
    name.strip_suffix(DIRECTORY_MARK)
}

/// The name in the history and the audit of a path in the State's Store: of a key or, for a directory, of its namespace.
pub(in crate::vfs) fn logged_path(state: &Workspace, path: &StorePath) -> Option<VfsPath> {
    let relative_path = StorePath::from_checked(path.strip_prefix(state.mount().path())?);
    let mut components = relative_path.components();
    let Some(namespace) = components.next() else { return Some(VfsPath::state_root()) };
    let namespace = Namespace::parse(std::str::from_utf8(namespace).ok()?).ok()?;
    let mut encoded = Vec::new();
    for component in components {
        match chunk_of(component) {
            Some(chunk) => encoded.extend_from_slice(chunk),
            None => {
                encoded.extend_from_slice(component);
                let key = decode(&encoded)?;
                return Some(Key::parse(&key).ok()?.path(&namespace));
            }
        }
    }
    Some(namespace.path())
}

/// Whether this names the State or a namespace of it, which are directories in its Store, rather than a key.
pub(in crate::vfs) fn is_state_directory(path: &VfsPath) -> bool {
    path.is_state() && !path.as_str().contains('/')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testkit::PanickingStore;
    use crate::vfs::state::workspace;
    use crate::workspace::Mount;

    fn state() -> Workspace {
        workspace(Mount::new(std::sync::Arc::new(PanickingStore)))
    }

    fn store_path(key: &str) -> StorePath {
        Key::parse(key).unwrap().node_path(&Namespace::default(), &state()).path
    }

    #[test]
    fn s17_a_key_has_1_to_512_bytes_without_control_characters() {
        for key in ["", "a\nb", "a\0", "\u{85}", &"x".repeat(513), &"é".repeat(257)] {
            let error = Key::parse(key).unwrap_err().to_string();
            assert!(error.contains("key"), "{error}");
        }
        for key in
            ["a", " ", ".", "..", "/", "//a/", "../../etc", "\\", "%2F", &"x".repeat(512), &"é".repeat(256)]
        {
            assert!(Key::parse(key).is_ok(), "{key}");
        }
        assert!(Key::parse_prefix("").is_ok());
    }

    #[test]
    fn s17_a_namespace_is_a_plain_identifier() {
        for name in ["", ".", "..", "a/b", "a b", "é", "a.b", &"x".repeat(65)] {
            assert_eq!(Namespace::parse(name), Err(InvalidStateName::Namespace), "{name}");
        }
        for name in ["a", "default", "Jobs_2-x", &"x".repeat(64)] {
            assert!(Namespace::parse(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn s18_every_key_has_a_node_of_its_own() {
        assert_eq!(store_path("jobs/next.id").as_str(), Some("default/jobs.1next.0id"));
        assert_eq!(store_path("..").as_str(), Some("default/.0.0"));
        let (short, long) = (store_path(&"x".repeat(CHUNK)), store_path(&"x".repeat(CHUNK + 1)));
        assert_eq!((short.depth(), long.depth()), (2, 3));
        assert_eq!(store_path(&".".repeat(512)).depth(), 6);
        for component in store_path(&".".repeat(512)).components() {
            assert!(component.len() <= crate::path::MAX_COMPONENT);
        }
    }

    #[test]
    fn s18_directories_are_logged_as_their_namespace() {
        let logged = |path: &str| logged_path(&state(), &StorePath::from_checked(path)).unwrap().to_string();
        assert_eq!((logged(""), logged("jobs")), ("state:".into(), "state:jobs".into()));
        assert_eq!(logged(&format!("jobs/{}.2", "x".repeat(CHUNK))), "state:jobs");
        assert_eq!(logged("jobs/a.1b"), "state:jobs/a/b");
        assert!(is_state_directory(&VfsPath::of_state_namespace("jobs")));
        assert!(!is_state_directory(&VfsPath::of_state_key("jobs", "a")));
    }

    proptest! {
        #[test]
        fn s18_names_of_keys_are_reversible_and_sorted_as_the_keys(
            one in "[a./-z0é~]{1,250}",
            other in "[a./-z0é~]{1,250}",
        ) {
            let (first, second) = (Key(&one).encode(), Key(&other).encode());
            prop_assert_eq!(one.cmp(&other), first.cmp(&second));
            prop_assert_eq!(decode(&first), Some(one.clone()));
            let logged = logged_path(&state(), &store_path(&one));
            prop_assert_eq!(logged, Some(VfsPath::of_state_key("default", &one)));
            let is_prefix = first.starts_with(&second);
            prop_assert_eq!(is_prefix, one.starts_with(&other));
        }
    }
}
