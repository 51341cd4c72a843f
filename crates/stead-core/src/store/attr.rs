//! The values that describe a node: its id, kind, attributes and version tag, and the entries of listings and walks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::hide::HiddenNames;
use crate::name::Name;
use crate::store::StorePath;

/// Identifies a file, directory or symlink for as long as it exists, through renames and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u64);

impl NodeId {
    /// Stands for the Store's root, whatever the root's own id is.
    pub const ROOT: NodeId = NodeId(0);
}

/// The number of a revision of a Store. Each change makes the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RevisionNumber(pub i64);

impl RevisionNumber {
    /// The current state, including changes by other programs that no revision records.
    pub const NOW: RevisionNumber = RevisionNumber(i64::MAX);
}

impl fmt::Display for RevisionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Identifies one state of a file. It changes with every write, even if a later write restores the same bytes.
///
/// As text it has 32 hexadecimal digits. Answers for models show [`VersionTag::short`] instead.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VersionTag(pub u128);

/// The text isn't a valid version tag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` isn't a valid version tag; pass one exactly as a read returned it")]
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

/// Parses exactly `count` hexadecimal digits; `None` for any other text.
fn parse_hex_digits(text: &str, count: usize) -> Option<u128> {
    let is_valid = text.len() == count && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_valid.then(|| u128::from_str_radix(text, 16).ok()).flatten()
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

/// The short form of a [`VersionTag`]: 12 hexadecimal digits of its hash, for models, which pay for every character.
///
/// Two states of one file have the same short form with a probability of 1 in 2^48.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShortTag(u64);

impl VersionTag {
    /// The short form of this tag.
    pub fn short(self) -> ShortTag {
        // A Virtual Store builds its tags from a node and a revision, so the digits of two tags are alike. The digits
        // of their hashes aren't.
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

/// A version tag as a caller passes it for a precondition: full or short. The length tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TagRef {
    /// The full tag.
    Full(VersionTag),
    /// The short form.
    Short(ShortTag),
}

impl TagRef {
    /// Whether `tag` is the tag that this refers to.
    pub fn matches(self, tag: VersionTag) -> bool {
        match self {
            TagRef::Full(full) => full == tag,
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

/// What kind of node this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink.
    Symlink,
    /// A special file of the host: listed, never read or written.
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
    /// The kind as one word, as listings show it.
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

/// The attributes of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// The node's id.
    pub node: NodeId,
    /// The node's kind.
    pub kind: NodeKind,
    /// Bytes of a file, length of a symlink's target, 0 for every other kind.
    pub size: u64,
    /// Permission bits, as in `chmod`.
    pub mode: u32,
    /// When the node was created, if the Store knows.
    pub created: Option<Timestamp>,
    /// When the content was last modified.
    pub modified: Timestamp,
    /// When anything about the node last changed, as `ctime`.
    pub changed: Timestamp,
    /// The tag of the current state.
    pub tag: VersionTag,
}

/// The whole content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// The file's attributes, of the same state as the bytes.
    pub attr: Attr,
    /// The file's bytes.
    pub bytes: Vec<u8>,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The entry's name.
    pub name: Name,
    /// The attributes of the node with that name.
    pub attr: Attr,
}

/// One node that a walk visits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkEntry {
    /// The path, relative to where the walk began.
    pub path: StorePath,
    /// The node's attributes.
    pub attr: Attr,
}

/// Which part of a listing to return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Only names after this one; `None` starts at the first name.
    pub after: Option<Name>,
    /// The maximum number of entries.
    pub limit: usize,
    /// Names that the listing leaves out and doesn't count, as if they didn't exist.
    pub hide: Option<HiddenNames>,
}

impl Page {
    /// All entries at once.
    pub const ALL: Page = Page { after: None, limit: usize::MAX, hide: None };

    /// Whether the listing leaves out this name.
    pub fn hides(&self, name: &[u8]) -> bool {
        self.hide.as_ref().is_some_and(|hidden| hidden.hides_entry(name))
    }
}

/// One page of a directory's entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The entries of this page, sorted by name.
    pub entries: Vec<Entry>,
    /// How many entries the whole directory has, without those that [`Page::hide`] leaves out.
    pub total: u64,
    /// Whether more entries follow this page.
    pub more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_survives_being_formatted_and_parsed() {
        for tag in [VersionTag(0), VersionTag(0x1f), VersionTag(u128::MAX)] {
            assert_eq!(tag.to_string().parse(), Ok(tag));
        }
        for text in ["", "+1", "xyz", "-1", "1", &"f".repeat(33), &format!("+{}", "f".repeat(31))] {
            assert!(text.parse::<VersionTag>().is_err(), "{text}");
            assert!(text.parse::<TagRef>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_short_tag_matches_only_its_own_state_and_is_never_parsed_as_a_full_tag() {
        // As a Virtual Store builds them: a node, and the revision since which the node has this state.
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
