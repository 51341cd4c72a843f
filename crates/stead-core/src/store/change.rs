//! The one way a Store changes: a list of steps, done whole or not at all.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use crate::audit::AuditRecord;
use crate::clock::Timestamp;
use crate::edit::Edit;
use crate::glob::PathGlobs;
use crate::identity::{Operation, OperationId};
use crate::monitor::CallMonitor;
use crate::store::{
    Attr, ContentRef, NodeId, NodeKind, NodePath, QuotaRoot, RevisionNumber, SealedContent, ShortTag, Side,
    StorePath, TagRef, VersionTag,
};

/// Steps that happen together.
#[derive(Debug)]
pub struct Change {
    /// The act that this change belongs to.
    pub operation: Operation,
    /// What to do, in order. Each step sees what the ones before it did.
    pub steps: Vec<Step>,
    /// What it counts against. Over one of them, nothing happens.
    pub quotas: Vec<QuotaRoot>,
    /// What is written down along with it. Where that can't be done, nothing happens.
    pub records: Vec<CompanionRecord>,
    /// What comes back: which step makes which node again. A Store that follows nodes lets what the step makes be that
    /// node, if it was there once and is gone.
    pub revive: BTreeMap<usize, NodeId>,
    /// Directories that still have to be these nodes: whoever means a node has judged it by the path that it had. Where
    /// something else is there by now, nothing happens, and the answer is Conflict.
    pub expect_nodes: Vec<(StorePath, NodeId)>,
    /// Names that still have to be free when the change is made: the caller has judged it by that. Where one is taken by
    /// now, nothing happens, and the answer is [`crate::StoreError::NotFree`].
    pub expect_free: Vec<StorePath>,
    /// The path in the Store that it is about, where the caller must not learn whether it changes anything: in a WRITE_ONLY
    /// Workspace. A Store with history makes a version then even if no step changes anything, and no number that a caller
    /// can see, of a version or of a node, depends on what the steps found.
    pub blind_at: Option<StorePath>,
    /// Whether it has to be on the disk when it is acknowledged.
    pub sync: SyncPolicy,
    /// Who waits for it, if it may still be stopped. A Store asks before each step, and now and then within a long one;
    /// where the change is to stop, nothing of it happens.
    pub monitor: Option<Arc<dyn CallMonitor>>,
}

/// When a change is on the disk. The end of the process loses it in neither case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncPolicy {
    /// When it is acknowledged, as far as the Store was opened for that.
    #[default]
    Now,
    /// With the next change that has to be, or after [`crate::Store::settle`]: so programs expect it of a file system.
    Deferred,
}

impl Change {
    /// A change that counts against nothing and leaves no record beside its own.
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

/// What is written down along with a change.
#[derive(Debug, Clone)]
pub enum CompanionRecord {
    /// A line of the audit.
    Audit {
        /// The line, but for what is known only when the change is made.
        record: Box<AuditRecord>,
        /// When the call began.
        began: Instant,
    },
    /// The operations that the change takes back.
    Undoes(Vec<OperationId>),
}

impl CompanionRecord {
    /// The line of the audit, if it is one, for a change that makes this version and ends now.
    pub fn into_audit_record(self, version: Option<RevisionNumber>) -> Option<AuditRecord> {
        match self {
            CompanionRecord::Audit { record, began } => {
                Some(AuditRecord { revision: version, duration: began.elapsed(), ..*record })
            }
            CompanionRecord::Undoes(_) => None,
        }
    }
}

/// One step of a change.
///
/// A step that meets a symlink where it would have to follow one fails with [`crate::StoreError::Link`].
#[derive(Debug)]
pub enum Step {
    /// Puts content at a place: a new file, or in place of the file there, which keeps its mode.
    Write {
        /// Where; the last component is followed if it is a symlink.
        at: NodePath,
        /// What.
        content: Content,
        /// How.
        options: PutOptions,
    },
    /// Replaces text inside a file.
    Edit {
        /// Where.
        at: NodePath,
        /// What by what.
        edit: Edit,
        /// The state the file has to be in.
        expect: Precondition,
        /// Whether what was there is kept.
        displaced: DisplacedContent,
    },
    /// Adds to the end of a file, or makes it.
    Append {
        /// Where.
        at: NodePath,
        /// What.
        content: Content,
        /// How.
        options: PutOptions,
    },
    /// Makes a directory.
    Mkdir {
        /// Where. One that is there already is [`crate::StoreError::AlreadyExists`], unless parents are created too.
        at: NodePath,
        /// Whether missing parents are made.
        parents: Parents,
        /// Permission bits; a default where `None`.
        mode: Option<u32>,
    },
    /// Makes a symlink.
    Symlink {
        /// Where.
        at: NodePath,
        /// Where it leads, as written.
        target: Vec<u8>,
        /// Whether missing parents are made.
        parents: Parents,
        /// What has to be there before; a symlink that is there is replaced.
        expect: Precondition,
    },
    /// Removes a file, a symlink or a directory.
    Remove {
        /// What; a symlink is removed itself.
        at: NodePath,
        /// Whether a directory may hold something, or there may be one at all.
        subtree: Subtree,
        /// The state it has to be in.
        expect: Precondition,
        /// Whether it is fine if nothing is there.
        if_missing: IfMissing,
        /// What must not be removed along with it.
        protected: Option<ProtectedNames>,
        /// Whether what was there is kept.
        displaced: DisplacedContent,
    },
    /// Gives something another name.
    Rename {
        /// What; a symlink is moved itself.
        from: NodePath,
        /// Where to.
        to: NodePath,
        /// What happens to something that is there.
        replace: Replace,
        /// Whether missing parents of `to` are made.
        parents: Parents,
        /// The state `from` has to be in.
        expect: Precondition,
        /// What must not leave with it, and what must not arrive with it.
        protected: [Option<ProtectedNames>; 2],
    },
    /// Copies a file, a symlink or a whole directory within the Store.
    Copy {
        /// What; a symlink is copied itself.
        from: NodePath,
        /// Where to.
        to: NodePath,
        /// What happens to a file that is there. A directory is never copied over something.
        replace: Replace,
        /// Whether missing parents of `to` are made.
        parents: Parents,
        /// What must not arrive with it.
        protected: Option<ProtectedNames>,
        /// Whether what was there is kept.
        displaced: DisplacedContent,
    },
    /// Sets attributes.
    SetAttr {
        /// Of what; a symlink's own.
        at: NodePath,
        /// Permission bits.
        mode: Option<u32>,
        /// When it was last modified.
        modified: Option<Timestamp>,
    },
}

/// How content is put somewhere.
#[derive(Debug, Clone, Default)]
pub struct PutOptions {
    /// What has to be there before.
    pub expect: Precondition,
    /// Whether missing parents are made.
    pub parents: Parents,
    /// Permission bits; what the file had, or a default for a new one, where `None`.
    pub mode: Option<u32>,
    /// When it was last modified; now, where `None`.
    pub modified: Option<Timestamp>,
    /// Whether what was there is kept.
    pub displaced: DisplacedContent,
    /// How large an append may make the file; otherwise nothing happens, and it is [`crate::StoreError::TooLarge`].
    pub max_size: Option<u64>,
}

impl PutOptions {
    /// Judges an append of `more` bytes to a file that has `size`. One of no bytes makes no file too large.
    pub fn check_append(&self, size: u64, more: u64) -> Result<(), crate::StoreError> {
        let size = size.saturating_add(more);
        match self.max_size {
            Some(limit) if more > 0 && size > limit => Err(crate::StoreError::TooLarge { size, limit }),
            _ => Ok(()),
        }
    }
}

/// What has to be at a place for a step to happen; otherwise nothing does, and the answer is Conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precondition {
    /// Anything, or nothing.
    #[default]
    Any,
    /// Nothing; otherwise [`crate::StoreError::AlreadyExists`].
    Absent,
    /// Something in exactly this state.
    Tag(VersionTag),
    /// Something in the state with this short form.
    ShortTag(ShortTag),
    /// Nothing, or something in exactly this state.
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
    /// Judges what is there.
    pub fn check(self, there: Option<VersionTag>) -> Result<(), crate::StoreError> {
        match (self, there) {
            (Precondition::Any, _) | (Precondition::Absent | Precondition::TagOrAbsent(_), None) => Ok(()),
            (Precondition::Absent, Some(_)) => Err(crate::StoreError::AlreadyExists),
            (Precondition::Tag(wanted) | Precondition::TagOrAbsent(wanted), Some(tag)) if tag == wanted => {
                Ok(())
            }
            (Precondition::ShortTag(wanted), Some(tag)) if tag.short() == wanted => Ok(()),
            (Precondition::Tag(_) | Precondition::ShortTag(_) | Precondition::TagOrAbsent(_), _) => {
                Err(crate::StoreError::Conflict)
            }
        }
    }
}

/// Whether missing parents are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Parents {
    /// Yes.
    #[default]
    Create,
    /// No: a missing parent is not found.
    Required,
}

/// Whether what a step displaces is kept in history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DisplacedContent {
    /// Yes.
    #[default]
    Keep,
    /// No: a `scratch` glob covers it.
    Discard,
}

/// How much may be removed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subtree {
    /// A file or a symlink, no directory.
    File,
    /// An empty directory, nothing else.
    EmptyDirectory,
    /// A directory with all that it holds, nothing else.
    Directory,
    /// Whatever is there.
    Any,
}

/// What it means that nothing is there to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    /// An error: not found.
    Fail,
    /// Nothing to do.
    Ignore,
}

/// What happens to something that a rename or a copy would put something else over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// It stays; the step fails.
    Refuse,
    /// A file or symlink gives way to a file or symlink, an empty directory to a directory.
    Overwrite,
    /// The two change places. Renames only.
    Exchange,
}

/// Names that a step on a whole subtree must leave alone.
#[derive(Debug, Clone)]
pub struct ProtectedNames {
    /// The names, as globs below a Workspace's prefix.
    pub globs: Arc<PathGlobs>,
    /// The paths that the subtree's top has, or will have: below the Workspace's prefix, and in the Store.
    pub roots: Vec<String>,
    /// Whether it leaves those paths, or arrives at them.
    pub side: Side,
}

impl ProtectedNames {
    /// Whether the entry at `below`, counted from the subtree's top, must be left alone: a glob covers it, or it would
    /// arrive where it stands in for a directory that leads to what one covers.
    pub fn covers(&self, below: &[u8], kind: NodeKind) -> bool {
        let below = String::from_utf8_lossy(below);
        self.roots.iter().any(|at| {
            let path = if at.is_empty() || below.is_empty() {
                format!("{at}{below}")
            } else {
                format!("{at}/{below}")
            };
            self.globs.matches(&path)
                || (self.side == Side::To
                    && kind != NodeKind::Directory
                    && self.globs.is_ancestor_of_match(&path))
        })
    }
}

/// Content on its way into a Store.
pub enum Content {
    /// Bytes at hand.
    Bytes(Vec<u8>),
    /// A draft that this Store made and that is complete.
    Sealed(SealedContent),
    /// What this Store has kept.
    Stored(ContentRef),
}

impl Content {
    /// How many bytes it has.
    pub fn size(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Sealed(sealed) => sealed.size(),
            Content::Stored(past) => past.size(),
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

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The version it made, on a Store with history.
    pub revision: Option<RevisionNumber>,
    /// What each step did.
    pub outcomes: Vec<StepOutcome>,
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepOutcome {
    /// What is there now; `None` where nothing is.
    pub attr: Option<Attr>,
    /// The state a file was in before it was written, appended to, edited or given other attributes.
    pub before: Option<VersionTag>,
    /// Whether something new came to be.
    pub created: bool,
    /// How many replacements an edit made.
    pub replaced: usize,
}
