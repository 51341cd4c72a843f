//! What a Store says of a file, a directory or a symlink.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::name::Name;
use crate::store::StorePath;

/// Names a file, directory or symlink for as long as it exists, through renames and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The Store's root, whatever its id is.
    pub const ROOT: NodeId = NodeId(0);
}

/// A version of a Store: every change makes the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RevisionNumber(pub i64);

impl RevisionNumber {
    /// Whatever is there now, which other programs may have made what it is.
    pub const NOW: RevisionNumber = RevisionNumber(i64::MAX);
}

impl fmt::Display for RevisionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Tells one state of a file from every other. It changes with every write, also from A to B and back to A.
///
/// As text it has 32 hexadecimal digits. [`VersionTag::short`] is what answers for models have instead.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VersionTag(pub u128);

/// The text is no version tag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no version tag; pass one as a read returned it")]
pub struct InvalidVersionTag(String);

impl fmt::Display for VersionTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for VersionTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for VersionTag {
    type Err = InvalidVersionTag;
    fn from_str(text: &str) -> Result<Self, InvalidVersionTag> {
        parse_hex_digits(text, 32).map(VersionTag).ok_or_else(|| InvalidVersionTag::of(text))
    }
}

impl InvalidVersionTag {
    fn of(text: &str) -> Self {
        InvalidVersionTag(crate::name::escape_name(text.as_bytes()).to_string())
    }
}

/// The number that a text of exactly so many hexadecimal digits stands for.
fn parse_hex_digits(text: &str, count: usize) -> Option<u128> {
    let shaped = text.len() == count && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    shaped.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

impl TryFrom<String> for VersionTag {
    type Error = InvalidVersionTag;
    fn try_from(text: String) -> Result<Self, InvalidVersionTag> {
        text.parse()
    }
}

impl From<VersionTag> for String {
    fn from(tag: VersionTag) -> String {
        tag.to_string()
    }
}

/// The short form of a [`VersionTag`]: 12 hexadecimal digits of its hash, for readers who pay for every character.
///
/// Two states of one file have the same short form with a probability of 1 in 2^48.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShortTag(u64);

impl VersionTag {
    /// Its short form.
    pub fn short(self) -> ShortTag {
        // Tags of a Virtual Store are a node and a version, so the digits themselves are alike; those of the hash are not.
        let hash = blake3::hash(&self.0.to_le_bytes());
        let first = hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
        ShortTag(u64::from_be_bytes(*first) >> 16)
    }
}

impl fmt::Display for ShortTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

impl fmt::Debug for ShortTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A version tag as a caller gives it for a precondition: whole, or in its short form. Their lengths tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TagRef {
    /// The whole tag.
    Full(VersionTag),
    /// Its short form.
    Short(ShortTag),
}

impl TagRef {
    /// Whether this state is the one that is meant.
    pub fn matches(self, tag: VersionTag) -> bool {
        match self {
            TagRef::Full(whole) => whole == tag,
            TagRef::Short(short) => short == tag.short(),
        }
    }
}

impl From<VersionTag> for TagRef {
    fn from(tag: VersionTag) -> Self {
        TagRef::Full(tag)
    }
}

impl From<ShortTag> for TagRef {
    fn from(tag: ShortTag) -> Self {
        TagRef::Short(tag)
    }
}

impl FromStr for TagRef {
    type Err = InvalidVersionTag;
    fn from_str(text: &str) -> Result<Self, InvalidVersionTag> {
        match parse_hex_digits(text, 12) {
            Some(short) => Ok(TagRef::Short(ShortTag(short as u64))),
            None => text.parse().map(TagRef::Full),
        }
    }
}

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// Bytes.
    File,
    /// Names.
    Directory,
    /// A path to somewhere else.
    Symlink,
    /// Something of the host's that is no file: listed, never read or written.
    Special(SpecialKind),
}

/// The kinds of special files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpecialKind {
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character or block device.
    Device,
}

impl NodeKind {
    /// The kind in a word, as listings show it.
    pub fn as_str(self) -> &'static str {
        match self {
            NodeKind::File => "file",
            NodeKind::Directory => "directory",
            NodeKind::Symlink => "symlink",
            NodeKind::Special(SpecialKind::Fifo) => "fifo",
            NodeKind::Special(SpecialKind::Socket) => "socket",
            NodeKind::Special(SpecialKind::Device) => "device",
        }
    }
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// Which node it is.
    pub node: NodeId,
    /// What it is.
    pub kind: NodeKind,
    /// Bytes in a file; the target's length for a symlink; 0 for the rest.
    pub size: u64,
    /// Permission bits, as in `chmod`.
    pub mode: u32,
    /// When it came to be, where the Store knows.
    pub created: Option<Timestamp>,
    /// When its content last changed.
    pub modified: Timestamp,
    /// When anything of it last changed.
    pub changed: Timestamp,
    /// The state it is in.
    pub tag: VersionTag,
}

/// A file's content, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// Its attributes, of the same state as the bytes.
    pub attr: Attr,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: Name,
    /// What has it.
    pub attr: Attr,
}

/// Something that a walk came by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkEntry {
    /// Its path below the place where the walk began.
    pub path: StorePath,
    /// What it is.
    pub attr: Attr,
}

/// Which part of a listing is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Only names after this one.
    pub after: Option<Name>,
    /// At most so many.
    pub limit: usize,
}

impl Page {
    /// Everything at once.
    pub const ALL: Page = Page { after: None, limit: usize::MAX };
}

/// Part of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The entries of this page, sorted.
    pub entries: Vec<Entry>,
    /// How many entries the directory has.
    pub total: u64,
    /// Whether there are more after these.
    pub more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_survives_being_written_down() {
        for tag in [VersionTag(0), VersionTag(0x1f), VersionTag(u128::MAX)] {
            assert_eq!(tag.to_string().parse(), Ok(tag));
        }
        for text in ["", "+1", "xyz", "-1", "1", &"f".repeat(33), &format!("+{}", "f".repeat(31))] {
            assert!(text.parse::<VersionTag>().is_err(), "{text}");
            assert!(text.parse::<TagRef>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_short_tag_means_its_own_state_and_is_never_taken_for_a_whole_one() {
        // As a Virtual Store makes them: a node, and the version that it has had since.
        let tags: Vec<_> =
            (1..=64u128).flat_map(|node| (1..=64).map(move |since| VersionTag(node << 64 | since))).collect();
        let mut texts = std::collections::HashSet::new();
        for tag in &tags {
            let text = tag.short().to_string();
            assert_eq!(text.len(), 12);
            assert!(text.parse::<VersionTag>().is_err(), "{text}");
            assert!(text.parse::<TagRef>().unwrap().matches(*tag));
            assert!(tag.to_string().parse::<TagRef>().unwrap().matches(*tag));
            assert!(!text.parse::<TagRef>().unwrap().matches(VersionTag(tag.0 + 1)));
            assert!(texts.insert(text), "{tag} has the short form of another");
        }
    }
}
