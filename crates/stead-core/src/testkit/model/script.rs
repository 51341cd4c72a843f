//! The random steps of a model run, which mean the same to a Store and to the model.
//!
//! There are few names, so that steps often hit the same paths. A step that would fail for two reasons at once isn't
//! generated: the Store may report either.

use std::fmt;
use std::sync::Arc;

use fastrand::Rng;

use super::{ModelBody, ModelSlot, ModelTree};
use crate::clock::Timestamp;
use crate::edit::{Edit, Occurrences};
use crate::name::Name;
use crate::store::{
    Attr, Content, DisplacedContent, IfMissing, NodeKind, NodePath, Parents, Precondition, PutOptions,
    Replace, RevisionNumber, Step, StorePath, Subtree, VersionTag,
};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A tag that no node has.
const UNKNOWN_TAG: VersionTag = VersionTag(0x5eed_5eed_5eed_5eed_5eed_5eed_5eed_5eed);

/// Returns the attributes at a path, in the Store or in the model.
pub(super) type StatFn<'a> = &'a dyn Fn(&NodePath) -> Option<Attr>;

/// A location, given as a tool (by path) or as a mounted file system (by node) gives it.
#[derive(Debug, Clone)]
pub(super) enum NodePathSpec {
    Path(StorePath),
    Child(StorePath, Name),
    Node(StorePath),
}

impl NodePathSpec {
    /// The location in the Store or the model that `stat` asks. Node ids differ between the two.
    pub(super) fn resolve(&self, stat: StatFn<'_>) -> NodePath {
        let node = |path: &StorePath| stat(&NodePath::from_root(path.clone())).map(|attr| attr.node);
        match self {
            NodePathSpec::Path(path) => NodePath::from_root(path.clone()),
            NodePathSpec::Child(parent, name) => match node(parent) {
                Some(parent) => NodePath::child(parent, name),
                None => NodePath::from_root(parent.child(name.as_bytes())),
            },
            NodePathSpec::Node(path) => {
                node(path).map_or_else(|| NodePath::from_root(path.clone()), NodePath::of_node)
            }
        }
    }
}

/// Bytes whose `Debug` output is only their length.
#[derive(Clone)]
pub(super) struct RandomBytes(pub(super) Arc<Vec<u8>>);

impl fmt::Debug for RandomBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// The state that a step expects, independent of the tags in the Store and the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ExpectedState {
    Any,
    Absent,
    Current,
    CurrentOrAbsent,
    Unknown,
}

impl ExpectedState {
    fn precondition(self, at: &NodePath, stat: StatFn<'_>) -> Precondition {
        let current_tag = || stat(at).map_or(UNKNOWN_TAG, |attr| attr.tag);
        match self {
            ExpectedState::Any => Precondition::Any,
            ExpectedState::Absent => Precondition::Absent,
            ExpectedState::Current => Precondition::Tag(current_tag()),
            ExpectedState::CurrentOrAbsent => Precondition::TagOrAbsent(current_tag()),
            ExpectedState::Unknown => Precondition::Tag(UNKNOWN_TAG),
        }
    }
}

/// A step that means the same to a Store and to the model.
#[derive(Debug, Clone)]
pub(super) enum RandomStep {
    Write {
        at: NodePathSpec,
        bytes: RandomBytes,
        parents: Parents,
        mode: Option<u32>,
        expected: ExpectedState,
    },
    Append {
        at: NodePathSpec,
        bytes: RandomBytes,
        parents: Parents,
        mode: Option<u32>,
        expected: ExpectedState,
    },
    Edit {
        at: NodePathSpec,
        edit: Edit,
        expected: ExpectedState,
    },
    Mkdir {
        at: NodePathSpec,
        parents: Parents,
        mode: Option<u32>,
    },
    Symlink {
        at: NodePathSpec,
        target: &'static str,
        parents: Parents,
        expected: ExpectedState,
    },
    Remove {
        at: NodePathSpec,
        subtree: Subtree,
        if_missing: IfMissing,
        expected: ExpectedState,
    },
    Rename {
        from: NodePathSpec,
        to: NodePathSpec,
        replace: Replace,
        parents: Parents,
        expected: ExpectedState,
    },
    Copy {
        from: NodePathSpec,
        to: NodePathSpec,
        replace: Replace,
        parents: Parents,
    },
    SetAttr {
        at: NodePathSpec,
        mode: Option<u32>,
        modified: Option<Timestamp>,
    },
}

impl RandomStep {
    /// The step for the Store or the model that `stat` asks.
    pub(super) fn step(&self, stat: StatFn<'_>) -> Step {
        let options =
            |at: &NodePath, parents: &Parents, mode: &Option<u32>, expected: &ExpectedState| PutOptions {
                expect: expected.precondition(at, stat),
                parents: *parents,
                mode: *mode,
                modified: None,
                displaced: DisplacedContent::Keep,
                max_size: None,
            };
        let displaced = DisplacedContent::Keep;
        match self {
            RandomStep::Write { at, bytes, parents, mode, expected } => {
                let at = at.resolve(stat);
                let options = options(&at, parents, mode, expected);
                Step::Write { at, content: Content::Bytes(bytes.0.to_vec()), options }
            }
            RandomStep::Append { at, bytes, parents, mode, expected } => {
                let at = at.resolve(stat);
                let options = options(&at, parents, mode, expected);
                Step::Append { at, content: Content::Bytes(bytes.0.to_vec()), options }
            }
            RandomStep::Edit { at, edit, expected } => {
                let at = at.resolve(stat);
                let expect = expected.precondition(&at, stat);
                Step::Edit { at, edit: edit.clone(), expect, displaced }
            }
            &RandomStep::Mkdir { ref at, parents, mode } => {
                Step::Mkdir { at: at.resolve(stat), parents, mode }
            }
            &RandomStep::Symlink { ref at, target, parents, expected } => {
                let at = at.resolve(stat);
                let expect = expected.precondition(&at, stat);
                Step::Symlink { at, target: target.into(), parents, expect }
            }
            &RandomStep::Remove { ref at, subtree, if_missing, expected } => {
                let at = at.resolve(stat);
                let expect = expected.precondition(&at, stat);
                Step::Remove { at, subtree, expect, if_missing, protected: None, displaced }
            }
            &RandomStep::Rename { ref from, ref to, replace, parents, expected } => {
                let (from, to) = (from.resolve(stat), to.resolve(stat));
                let expect = expected.precondition(&from, stat);
                Step::Rename { from, to, replace, parents, expect, protected: [None, None] }
            }
            &RandomStep::Copy { ref from, ref to, replace, parents } => {
                let (from, to) = (from.resolve(stat), to.resolve(stat));
                Step::Copy { from, to, replace, parents, protected: None, displaced }
            }
            &RandomStep::SetAttr { ref at, mode, modified } => {
                Step::SetAttr { at: at.resolve(stat), mode, modified }
            }
        }
    }

    /// Whether all Stores agree on what `created` means in this step's outcome.
    pub(super) fn can_create(&self) -> bool {
        matches!(
            self,
            RandomStep::Write { .. }
                | RandomStep::Append { .. }
                | RandomStep::Mkdir { .. }
                | RandomStep::Symlink { .. }
        )
    }

    fn expected_mut(&mut self) -> Option<&mut ExpectedState> {
        match self {
            RandomStep::Write { expected, .. }
            | RandomStep::Append { expected, .. }
            | RandomStep::Edit { expected, .. }
            | RandomStep::Symlink { expected, .. }
            | RandomStep::Remove { expected, .. }
            | RandomStep::Rename { expected, .. } => Some(expected),
            RandomStep::Mkdir { .. } | RandomStep::Copy { .. } | RandomStep::SetAttr { .. } => None,
        }
    }
}

/// When a generated step will be applied.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum StepTiming {
    /// Next: node ids and tags can be looked up.
    Now,
    /// Later, within a change of several steps: node ids and tags will have changed by then.
    Later,
}

/// Generates random steps that fit a tree.
pub(super) struct StepGenerator<'a> {
    pub(super) rng: &'a mut Rng,
    pub(super) tree: &'a ModelTree,
    /// When the step will be applied.
    pub(super) timing: StepTiming,
}

impl StepGenerator<'_> {
    /// A random step that fails for at most one reason.
    pub(super) fn next_step(&mut self) -> RandomStep {
        loop {
            let mut op = self.any_step();
            if self.is_ambiguous(&op) {
                continue;
            }
            let expected = *self.pick(&[
                ExpectedState::Current,
                ExpectedState::CurrentOrAbsent,
                ExpectedState::Absent,
                ExpectedState::Unknown,
            ]);
            let makes_sense = match expected {
                ExpectedState::Any | ExpectedState::Unknown => true,
                ExpectedState::Absent => matches!(
                    op,
                    RandomStep::Write { .. } | RandomStep::Append { .. } | RandomStep::Symlink { .. }
                ),
                ExpectedState::Current | ExpectedState::CurrentOrAbsent => self.timing == StepTiming::Now,
            };
            if self.rng.u8(..4) == 0 && makes_sense && self.would_succeed(&op) {
                op.expected_mut().into_iter().for_each(|state| *state = expected);
            }
            return op;
        }
    }

    fn any_step(&mut self) -> RandomStep {
        let expected = ExpectedState::Any;
        let parents = if self.rng.bool() { Parents::Create } else { Parents::Required };
        let mode = *self.pick(&[None, None, None, Some(0o600), Some(0o755), Some(0o644)]);
        match self.rng.u8(..100) {
            0..=21 => RandomStep::Write {
                at: self.random_file_spec(),
                bytes: self.random_bytes(),
                parents,
                mode,
                expected,
            },
            22..=33 => RandomStep::Append {
                at: self.random_file_spec(),
                bytes: self.random_bytes(),
                parents,
                mode,
                expected,
            },
            34..=41 => self.edit(),
            42..=51 => {
                RandomStep::Mkdir { at: self.random_spec(), parents, mode: mode.map(|mode| mode | 0o100) }
            }
            52..=58 => {
                let target = self.pick(&["a", "b/c", "../d", "/e", "nowhere at all"]);
                RandomStep::Symlink { at: self.random_spec(), target, parents, expected }
            }
            59..=69 => {
                let subtrees = [Subtree::File, Subtree::EmptyDirectory, Subtree::Directory, Subtree::Any];
                let subtree = *self.pick(&subtrees);
                let if_missing = *self.pick(&[IfMissing::Fail, IfMissing::Ignore]);
                RandomStep::Remove { at: self.random_spec(), subtree, if_missing, expected }
            }
            70..=84 => {
                let replace =
                    *self.pick(&[Replace::Refuse, Replace::Overwrite, Replace::Overwrite, Replace::Exchange]);
                RandomStep::Rename {
                    from: self.random_spec(),
                    to: self.random_spec(),
                    replace,
                    parents,
                    expected,
                }
            }
            85..=92 => {
                let replace = *self.pick(&[Replace::Refuse, Replace::Overwrite]);
                RandomStep::Copy { from: self.random_spec(), to: self.random_spec(), replace, parents }
            }
            _ => {
                let modified = self.rng.bool().then(|| Timestamp::from_secs(self.rng.i64(1..1_000_000_000)));
                RandomStep::SetAttr { at: self.random_spec(), mode: mode.map(|mode| mode | 0o100), modified }
            }
        }
    }

    fn edit(&mut self) -> RandomStep {
        let spec = self.random_file_spec();
        let occurrences = *self.pick(&[Occurrences::One, Occurrences::All]);
        let path = spec.resolve(&|path| self.stat(path));
        let old = match self.tree.file(&path) {
            Ok((_, bytes)) if !bytes.is_empty() && self.rng.u8(..8) > 0 => {
                let start = self.rng.usize(..bytes.len());
                let end = bytes.len().min(start + self.rng.usize(4..30));
                bytes[start..end].to_vec()
            }
            _ => b"no such text".to_vec(),
        };
        let new = format!("<{}>", self.rng.u16(..));
        let edit = Edit::new(old, &new, occurrences).or_else(|_| Edit::new("other", &new, occurrences));
        let edit = edit.expect("`other` is a valid old text");
        RandomStep::Edit { at: spec, edit, expected: ExpectedState::Any }
    }

    /// A path of one to three names; half of the time one that exists.
    pub(super) fn random_path(&mut self) -> StorePath {
        self.random_path_of(&[NodeKind::File, NodeKind::Directory, NodeKind::Symlink])
    }

    /// A path of one to three names; half of the time one that exists and has one of these kinds.
    fn random_path_of(&mut self, kinds: &[NodeKind]) -> StorePath {
        let mut existing = self.tree.descendants(super::ROOT);
        existing.retain(|(_, id)| kinds.contains(&self.tree.attr(*id).kind));
        if self.rng.bool() && !existing.is_empty() {
            return existing.swap_remove(self.rng.usize(..existing.len())).0;
        }
        (0..self.rng.usize(1..=3))
            .fold(StorePath::empty(), |path, _| path.child(self.pick(&NAMES).as_bytes()))
    }

    /// A random location, by path or by node.
    pub(super) fn random_spec(&mut self) -> NodePathSpec {
        let path = self.random_path();
        self.spec_for(path)
    }

    /// A random location, often of a file.
    fn random_file_spec(&mut self) -> NodePathSpec {
        let path = self.random_path_of(&[NodeKind::File]);
        self.spec_for(path)
    }

    fn spec_for(&mut self, path: StorePath) -> NodePathSpec {
        let (parent, name) = path.parent_and_name().expect("no path in a script is empty");
        let parent = StorePath::from_checked(parent);
        let kind = |path: &StorePath| self.stat(&NodePath::from_root(path.clone())).map(|attr| attr.kind);
        // A kernel never asks a mounted file system for a name below a symlink.
        let has_real_parent = kind(&parent).is_some_and(|kind| kind != NodeKind::Symlink);
        let exists = kind(&path).is_some();
        match self.rng.u8(..4) {
            0 if self.timing == StepTiming::Now && has_real_parent => {
                NodePathSpec::Child(parent, Name::new(name).expect("a path component is a valid name"))
            }
            1 if self.timing == StepTiming::Now && exists => NodePathSpec::Node(path),
            _ => NodePathSpec::Path(path),
        }
    }

    /// Mostly small content, sometimes content of several chunks.
    pub(super) fn random_bytes(&mut self) -> RandomBytes {
        let size = match self.rng.u8(..50) {
            0 => 300 << 10,
            1 => 700 << 10,
            2 => 0,
            _ => self.rng.usize(..2_000),
        };
        let (seed, step) = (self.rng.usize(..1_000), self.rng.usize(1..64));
        RandomBytes(Arc::new(
            (0..size).map(|index| b'a' + ((seed + index / step + index * step) % 26) as u8).collect(),
        ))
    }

    fn pick<'b, T>(&mut self, from: &'b [T]) -> &'b T {
        &from[self.rng.usize(..from.len())]
    }

    fn stat(&self, path: &NodePath) -> Option<Attr> {
        self.tree.find(path).ok().map(|id| self.tree.attr(id))
    }

    fn would_succeed(&self, op: &RandomStep) -> bool {
        let step = op.step(&|path| self.stat(path));
        self.tree.clone().apply(vec![step], Timestamp::default(), RevisionNumber(0)).is_ok()
    }

    /// Whether the Store contract leaves the result of this step open.
    fn is_ambiguous(&self, op: &RandomStep) -> bool {
        let stat: StatFn<'_> = &|path| self.stat(path);
        let kind = |at: &NodePathSpec| stat(&at.resolve(stat)).map(|attr| attr.kind);
        match op {
            // A symlink's own mode has no effect.
            RandomStep::SetAttr { at, .. } => kind(at) == Some(NodeKind::Symlink),
            RandomStep::Rename { from, to, replace, parents, .. } => {
                self.is_ambiguous_move(&from.resolve(stat), &to.resolve(stat), *replace, *parents)
            }
            RandomStep::Copy { from, to, replace, parents } => {
                // The contract doesn't say which mode a file gets that replaces a symlink.
                kind(from) == Some(NodeKind::File) && kind(to) == Some(NodeKind::Symlink)
                    || self.is_ambiguous_move(&from.resolve(stat), &to.resolve(stat), *replace, *parents)
            }
            RandomStep::Write { .. } | RandomStep::Append { .. } | RandomStep::Edit { .. } => false,
            RandomStep::Mkdir { .. } | RandomStep::Symlink { .. } | RandomStep::Remove { .. } => false,
        }
    }

    fn is_ambiguous_move(&self, from: &NodePath, to: &NodePath, replace: Replace, parents: Parents) -> bool {
        let (lacks_parent, existing) = match self.tree.slot(to) {
            Err(_) => return self.tree.find(from).is_err(),
            Ok(ModelSlot::Missing { ancestor, names }) => {
                (names.len() > 1 && parents == Parents::Required, Err(ancestor))
            }
            Ok(ModelSlot::Occupied(other)) => (false, Ok(other)),
        };
        let Ok(id) = self.tree.find(from) else { return lacks_parent };
        if !matches!(self.tree.body(id), Some(ModelBody::Directory(_))) {
            return existing == Ok(id);
        }
        match existing {
            Ok(other) => replace != Replace::Exchange && self.tree.is_at_or_below(other, id),
            Err(ancestor) => {
                let into_itself = self.tree.is_at_or_below(ancestor, id);
                into_itself && (lacks_parent || replace == Replace::Exchange)
            }
        }
    }
}
