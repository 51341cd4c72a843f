//! The one way a Store changes: a list of steps with preconditions, applied whole or not at all.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::edit::Edit;
use crate::glob::PathGlobs;
use crate::hide::HiddenNames;
use crate::identity::Operation;
use crate::monitor::CallMonitor;
use crate::name::escape_name;
use crate::store::{
    Attr, CompanionRecord, ContentRef, NodeId, NodeKind, NodePath, QuotaRoot, RevisionNumber, SealedContent,
    ShortTag, Side, StorePath, TagRef, Usage, VersionTag,
};

/// Steps that are applied together, with their preconditions and companion records.
#[derive(Debug)]
pub struct Change {
    /// The operation that this change belongs to.
    pub operation: Operation,
    /// The steps, in order. Each step sees the effects of the steps before it.
    pub steps: Vec<Step>,
    /// The quotas that the change counts against. If it would exceed one of them, nothing is applied.
    pub quotas: Vec<QuotaRoot>,
    /// Records that are committed together with the change. If they can't be, nothing is applied.
    pub records: Vec<CompanionRecord>,
    /// Which step, by its index, brings which removed node back. A Store that tracks nodes gives what the step makes
    /// this id, if the node existed once and is gone. In a fork, and in a Store that has forks, this may also be a node of
    /// the other one that never existed here, so that a merged file is the same node on both sides.
    pub revive: BTreeMap<usize, NodeId>,
    /// Paths of directories that must still be these nodes: the caller refers to a node, but was authorized by the path
    /// that the node had. If another node is there, nothing is applied, and the Store returns
    /// [`crate::StoreError::Conflict`].
    pub expect_nodes: Vec<(StorePath, NodeId)>,
    /// Paths that must still be free when the change is applied, because the caller's authorization relied on that. If
    /// one is taken, nothing is applied, and the Store returns [`crate::StoreError::NameTaken`].
    pub expect_free: Vec<StorePath>,
    /// The path in the Store that the change is about, if the caller must not learn whether it changes anything: in a
    /// WRITE_ONLY Workspace. A Store with history then makes a revision even if no step changes anything, and no
    /// revision number or node id that the caller can see depends on what the steps found.
    pub blind_at: Option<StorePath>,
    /// Whether the change must be synced before it is acknowledged.
    pub sync: SyncPolicy,
    /// Lets a waiting caller follow the change and stop it. The Store reports how many of its steps are done, and asks whether to
    /// stop before each step, now and then during a long one, and before it commits. If the change is to stop, nothing is
    /// applied.
    pub monitor: Option<Arc<dyn CallMonitor>>,
}

/// When a change reaches stable storage. Under either policy it survives the end of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncPolicy {
    /// Before it is acknowledged, as far as the Store was opened to be durable.
    #[default]
    Now,
    /// With the next change that is synced, or with [`crate::Store::sync`]. Programs expect that of a file system.
    Deferred,
}

impl Change {
    /// A change without quotas, preconditions or companion records.
    pub fn new(operation: Operation, steps: Vec<Step>) -> Self {
        Change {
            operation,
            steps,
            quotas: Vec::new(),
            records: Vec::new(),
            revive: BTreeMap::new(),
            expect_nodes: Vec::new(),
            expect_free: Vec::new(),
            blind_at: None,
            sync: SyncPolicy::Now,
            monitor: None,
        }
    }
}

/// Hardly any edit makes a file larger by more bytes than this.
const LARGE_EDIT: u64 = 1 << 20;

/// One step of a change.
///
/// A step that would have to follow a symlink fails with [`crate::StoreError::Link`].
#[derive(Debug)]
pub enum Step {
    /// Writes a whole file. An existing file is replaced and keeps its mode, unless the options set one.
    Write {
        /// The file's path; the last component is followed if it is a symlink.
        at: NodePath,
        /// The new content.
        content: Content,
        /// Precondition, parents, attributes and what becomes of displaced content.
        options: PutOptions,
    },
    /// Replaces text in a file.
    Edit {
        /// The file's path.
        at: NodePath,
        /// The text to replace, and its replacement.
        edit: Edit,
        /// The precondition on the file's state.
        expect: Precondition,
        /// Whether the displaced content is kept.
        displaced: DisplacedContent,
    },
    /// Appends to a file, or creates it.
    Append {
        /// The file's path.
        at: NodePath,
        /// The content to append.
        content: Content,
        /// Precondition, parents, attributes and the largest size of the result.
        options: PutOptions,
    },
    /// Creates a directory.
    Mkdir {
        /// The directory's path. If something is there already, this is [`crate::StoreError::AlreadyExists`]. With
        /// [`Parents::Create`], an existing directory stays, and the last component is followed if it is a symlink.
        at: NodePath,
        /// Whether missing parents are created.
        parents: Parents,
        /// Permission bits; `None` uses the Store's default.
        mode: Option<u32>,
    },
    /// Creates a symlink.
    Symlink {
        /// The symlink's own path.
        at: NodePath,
        /// The target, stored as written.
        target: Vec<u8>,
        /// Whether missing parents are created.
        parents: Parents,
        /// The precondition on the path. An existing symlink is replaced.
        expect: Precondition,
    },
    /// Removes a file, a symlink or a directory.
    Remove {
        /// What to remove; a symlink itself, not its target.
        at: NodePath,
        /// Which kinds of node may be removed, and whether a directory may hold something.
        subtree: Subtree,
        /// The precondition on the node's state.
        expect: Precondition,
        /// What happens if nothing is there.
        if_missing: IfMissing,
        /// Names that must not be removed along with it.
        protected: Option<ProtectedNames>,
        /// Whether the displaced content is kept.
        displaced: DisplacedContent,
    },
    /// Renames a node.
    Rename {
        /// What to rename; a symlink itself, not its target.
        from: NodePath,
        /// The new path.
        to: NodePath,
        /// What happens to a node that is at `to`.
        replace: Replace,
        /// Whether missing parents of `to` are created.
        parents: Parents,
        /// The precondition on the state of `from`.
        expect: Precondition,
        /// Names that must not leave `from` with the node, and names that must not arrive at `to` with it.
        protected: [Option<ProtectedNames>; 2],
    },
    /// Copies a file, a symlink or a directory with all that it holds, within the Store.
    Copy {
        /// What to copy; a symlink itself, not its target.
        from: NodePath,
        /// The path of the copy.
        to: NodePath,
        /// What happens to a file that is at `to`. A directory is never copied over something.
        replace: Replace,
        /// Whether missing parents of `to` are created.
        parents: Parents,
        /// Names that must not arrive at `to` with it.
        protected: Option<ProtectedNames>,
        /// Whether the displaced content is kept.
        displaced: DisplacedContent,
    },
    /// Sets attributes. `None` leaves an attribute as it is.
    SetAttr {
        /// The node; a symlink itself, not its target.
        at: NodePath,
        /// Permission bits.
        mode: Option<u32>,
        /// The time of the last modification.
        modified: Option<Timestamp>,
    },
}

impl Step {
    /// How much the step can add to what one agent uses, at most; `None` if that depends on what is there. Of an edit, it is an
    /// estimate.
    pub(crate) fn largest_addition(&self) -> Option<Usage> {
        match self {
            Step::Write { content, .. } | Step::Append { content, .. } => {
                Some(Usage { bytes: content.size(), files: 1 })
            }
            Step::Symlink { .. } => Some(Usage { bytes: 0, files: 1 }),
            Step::Edit { .. } => Some(Usage { bytes: LARGE_EDIT, files: 0 }),
            Step::Mkdir { .. } | Step::Remove { .. } | Step::Rename { .. } | Step::SetAttr { .. } => {
                Some(Usage::default())
            }
            Step::Copy { .. } => None,
        }
    }

    /// The path that the step leaves something at or removes it from: for a rename or a copy the new path.
    pub fn path(&self) -> &NodePath {
        match self {
            Step::Write { at, .. }
            | Step::Edit { at, .. }
            | Step::Append { at, .. }
            | Step::Mkdir { at, .. }
            | Step::Symlink { at, .. }
            | Step::Remove { at, .. }
            | Step::SetAttr { at, .. } => at,
            Step::Rename { to, .. } | Step::Copy { to, .. } => to,
        }
    }
}

/// How a step writes content.
#[derive(Debug, Clone, Default)]
pub struct PutOptions {
    /// The precondition on the path.
    pub expect: Precondition,
    /// Whether missing parents are created.
    pub parents: Parents,
    /// Permission bits. With `None`, an existing file keeps its own, and a new file gets the Store's default.
    pub mode: Option<u32>,
    /// The time of the last modification; `None` means now.
    pub modified: Option<Timestamp>,
    /// Whether the displaced content is kept.
    pub displaced: DisplacedContent,
    /// The largest size that an append may give the file. A larger one is [`crate::StoreError::TooLarge`], and nothing
    /// is applied.
    pub max_size: Option<u64>,
}

impl PutOptions {
    /// Checks an append of `added` bytes to a file of `size` bytes against `max_size`. An append of no bytes always
    /// passes.
    pub fn check_append(&self, size: u64, added: u64) -> Result<(), crate::StoreError> {
        let size = size.saturating_add(added);
        match self.max_size {
            Some(limit) if added > 0 && size > limit => Err(crate::StoreError::TooLarge { size, limit }),
            _ => Ok(()),
        }
    }
}

/// What must be at a path for a step to be applied. If it isn't, nothing is applied, and the Store returns
/// [`crate::StoreError::Conflict`], unless the variant names another error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precondition {
    /// Anything, or nothing.
    #[default]
    Any,
    /// Nothing; something there is [`crate::StoreError::AlreadyExists`].
    Absent,
    /// A node with exactly this tag.
    Tag(VersionTag),
    /// A node whose tag has this short form.
    ShortTag(ShortTag),
    /// Nothing, or a node with exactly this tag.
    TagOrAbsent(VersionTag),
}

impl From<TagRef> for Precondition {
    fn from(tag: TagRef) -> Self {
        match tag {
            TagRef::Full(tag) => Precondition::Tag(tag),
            TagRef::Short(tag) => Precondition::ShortTag(tag),
        }
    }
}

impl Precondition {
    /// Checks the precondition against the tag of the node that is there, or `None` if nothing is.
    pub fn check(self, current: Option<VersionTag>) -> Result<(), crate::StoreError> {
        match (self, current) {
            (Precondition::Any, _) | (Precondition::Absent | Precondition::TagOrAbsent(_), None) => Ok(()),
            (Precondition::Absent, Some(_)) => Err(crate::StoreError::AlreadyExists),
            (Precondition::Tag(expected) | Precondition::TagOrAbsent(expected), Some(tag))
                if tag == expected =>
            {
                Ok(())
            }
            (Precondition::ShortTag(expected), Some(tag)) if tag.short() == expected => Ok(()),
            (Precondition::Tag(_) | Precondition::ShortTag(_) | Precondition::TagOrAbsent(_), _) => {
                Err(crate::StoreError::Conflict)
            }
        }
    }
}

/// Whether missing parent directories are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Parents {
    /// They are created.
    #[default]
    Create,
    /// They aren't: a missing parent is [`crate::StoreError::NotFound`].
    Required,
}

/// Whether the content that a step displaces is kept in history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DisplacedContent {
    /// It is kept.
    #[default]
    Keep,
    /// It isn't: a `scratch` glob covers the path.
    Discard,
}

/// What a removal may remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subtree {
    /// A file or a symlink, not a directory.
    File,
    /// An empty directory, nothing else.
    EmptyDirectory,
    /// A directory with all that it holds, nothing else.
    Directory,
    /// A file, a symlink, or a directory with all that it holds.
    Any,
}

/// What a removal does if nothing is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    /// It fails with [`crate::StoreError::NotFound`].
    Fail,
    /// It succeeds and changes nothing.
    Ignore,
}

/// What happens to a node at the destination of a rename or a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// It stays, and the step fails.
    Refuse,
    /// It is replaced: a file or symlink by a file or symlink, an empty directory by a directory.
    Overwrite,
    /// The two nodes swap places. Renames only.
    Exchange,
}

/// Names that a step on a whole subtree must not touch.
#[derive(Debug, Clone)]
pub struct ProtectedNames {
    /// The protected names, as globs relative to a Workspace's prefix.
    pub globs: Arc<PathGlobs>,
    /// The paths that the top of the subtree has or will have, in both forms: relative to the Workspace's prefix, and
    /// in the Store.
    pub roots: Vec<String>,
    /// Whether the subtree leaves those paths (`From`) or arrives at them (`To`).
    pub side: Side,
    /// The hidden names that the step must not touch.
    pub hidden: Option<Box<HiddenRule>>,
}

/// Which hidden names a step on a whole subtree must not touch. Each [`HiddenNames`] is relative to a path that the top of
/// the subtree has or will have.
#[derive(Debug, Clone)]
pub enum HiddenRule {
    /// Every name that is hidden at one of these paths.
    Untouched(Vec<HiddenNames>),
    /// Every name that is hidden before the step and would be visible after it.
    NotRevealed {
        /// At the present path.
        before: HiddenNames,
        /// At the path after the step.
        after: HiddenNames,
    },
    /// Every name that is hidden at only one of two paths, for an exchange of two subtrees.
    SameAtBoth([HiddenNames; 2]),
}

impl HiddenRule {
    fn covers(&self, relative_path: &[u8]) -> bool {
        match self {
            HiddenRule::Untouched(places) => places.iter().any(|hidden| hidden.hides(relative_path)),
            HiddenRule::NotRevealed { before, after } => {
                before.hides(relative_path) && !after.hides(relative_path)
            }
            HiddenRule::SameAtBoth([one, other]) => one.hides(relative_path) != other.hides(relative_path),
        }
    }
}

impl ProtectedNames {
    /// Whether there are no such names.
    pub fn is_empty(&self) -> bool {
        self.globs.is_empty() && self.hidden.is_none()
    }

    /// Fails if the step must not touch the entry at `relative_path`, a path relative to the top of the subtree.
    pub fn check(&self, relative_path: &[u8], kind: NodeKind) -> Result<(), crate::StoreError> {
        if self.hidden.as_ref().is_some_and(|rule| rule.covers(relative_path)) {
            return Err(crate::StoreError::ContainsHidden);
        }
        if self.protects(relative_path, kind) {
            return Err(crate::StoreError::Protected { path: escape_name(relative_path).to_string() });
        }
        Ok(())
    }

    /// Whether a glob matches the entry, or the entry isn't a directory and would arrive where only a directory can hold
    /// a protected name.
    fn protects(&self, relative_path: &[u8], kind: NodeKind) -> bool {
        if self.globs.is_empty() {
            return false;
        }
        let relative_path = String::from_utf8_lossy(relative_path);
        self.roots.iter().any(|root| {
            let path = if root.is_empty() || relative_path.is_empty() {
                format!("{root}{relative_path}")
            } else {
                format!("{root}/{relative_path}")
            };
            self.globs.matches(&path)
                || (self.side == Side::To
                    && kind != NodeKind::Directory
                    && self.globs.is_ancestor_of_match(&path))
        })
    }
}

/// Content to be written into a Store.
pub enum Content {
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// A complete draft of this Store.
    Sealed(SealedContent),
    /// Content that this Store holds already.
    Stored(ContentRef),
}

impl Content {
    /// The content's size in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Sealed(sealed) => sealed.size(),
            Content::Stored(content) => content.size(),
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({} bytes)", self.size())
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Content::Bytes(bytes)
    }
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The revision that the change made, on a Store with history.
    pub revision: Option<RevisionNumber>,
    /// The result of each step, in order.
    pub outcomes: Vec<StepOutcome>,
    /// How many files the change replaced or removed whose content is too large for the history to keep.
    pub not_kept: u64,
}

/// The result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepOutcome {
    /// The attributes of what is there now; `None` if nothing is.
    pub attr: Option<Attr>,
    /// The tag that a file had before the step wrote, appended to or edited it, or set its attributes.
    pub before: Option<VersionTag>,
    /// Whether the step created a node.
    pub created: bool,
    /// How many replacements an edit made.
    pub replaced: usize,
}
