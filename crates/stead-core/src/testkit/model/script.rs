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
pub(super) enum PlaceSpec {
    Path(StorePath),
    Child(StorePath, Name),
    Node(StorePath),
}

impl PlaceSpec {
    /// The location in the Store or the model that `look` asks. Node ids differ between the two.
    pub(super) fn resolve(&self, look: StatFn<'_>) -> NodePath {
        let node = |path: &StorePath| look(&NodePath::from_root(path.clone())).map(|attr| attr.node);
        match self {
            PlaceSpec::Path(path) => NodePath::from_root(path.clone()),
            PlaceSpec::Child(parent, name) => match node(parent) {
                Some(parent) => NodePath::child(parent, name),
                None => NodePath::from_root(parent.child(name.as_bytes())),
            },
            PlaceSpec::Node(path) => {
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
    fn precondition(self, at: &NodePath, look: StatFn<'_>) -> Precondition {
        let now = || look(at).map_or(UNKNOWN_TAG, |attr| attr.tag);
        match self {
            ExpectedState::Any => Precondition::Any,
            ExpectedState::Absent => Precondition::Absent,
            ExpectedState::Current => Precondition::Tag(now()),
            ExpectedState::CurrentOrAbsent => Precondition::TagOrAbsent(now()),
            ExpectedState::Unknown => Precondition::Tag(UNKNOWN_TAG),
        }
    }
}

/// A step that means the same to a Store and to the model.
#[derive(Debug, Clone)]
pub(super) enum RandomStep {
    Write { at: PlaceSpec, fill: RandomBytes, parents: Parents, mode: Option<u32>, wanted: ExpectedState },
    Append { at: PlaceSpec, fill: RandomBytes, parents: Parents, mode: Option<u32>, wanted: ExpectedState },
    Edit { at: PlaceSpec, edit: Edit, wanted: ExpectedState },
    Mkdir { at: PlaceSpec, parents: Parents, mode: Option<u32> },
    Symlink { at: PlaceSpec, target: &'static str, parents: Parents, wanted: ExpectedState },
    Remove { at: PlaceSpec, subtree: Subtree, missing: IfMissing, wanted: ExpectedState },
    Rename { from: PlaceSpec, to: PlaceSpec, replace: Replace, parents: Parents, wanted: ExpectedState },
    Copy { from: PlaceSpec, to: PlaceSpec, replace: Replace, parents: Parents },
    SetAttr { at: PlaceSpec, mode: Option<u32>, modified: Option<Timestamp> },
}

impl RandomStep {
    /// The step for the Store or the model that `look` asks.
    pub(super) fn step(&self, look: StatFn<'_>) -> Step {
        let put = |at: &NodePath, parents: &Parents, mode: &Option<u32>, wanted: &ExpectedState| PutOptions {
            expect: wanted.precondition(at, look),
            parents: *parents,
            mode: *mode,
            modified: None,
            displaced: DisplacedContent::Keep,
            max_size: None,
        };
        let keep = DisplacedContent::Keep;
        match self {
            RandomStep::Write { at, fill, parents, mode, wanted } => {
                let at = at.resolve(look);
                let put = put(&at, parents, mode, wanted);
                Step::Write { at, content: Content::Bytes(fill.0.to_vec()), options: put }
            }
            RandomStep::Append { at, fill, parents, mode, wanted } => {
                let at = at.resolve(look);
                let put = put(&at, parents, mode, wanted);
                Step::Append { at, content: Content::Bytes(fill.0.to_vec()), options: put }
            }
            RandomStep::Edit { at, edit, wanted } => {
                let at = at.resolve(look);
                let expect = wanted.precondition(&at, look);
                Step::Edit { at, edit: edit.clone(), expect, displaced: keep }
            }
            &RandomStep::Mkdir { ref at, parents, mode } => {
                Step::Mkdir { at: at.resolve(look), parents, mode }
            }
            &RandomStep::Symlink { ref at, target, parents, wanted } => {
                let at = at.resolve(look);
                let expect = wanted.precondition(&at, look);
                Step::Symlink { at, target: target.into(), parents, expect }
            }
            &RandomStep::Remove { ref at, subtree, missing, wanted } => {
                let at = at.resolve(look);
                let expect = wanted.precondition(&at, look);
                Step::Remove { at, subtree, expect, if_missing: missing, protected: None, displaced: keep }
            }
            &RandomStep::Rename { ref from, ref to, replace, parents, wanted } => {
                let (from, to) = (from.resolve(look), to.resolve(look));
                let expect = wanted.precondition(&from, look);
                Step::Rename { from, to, replace, parents, expect, protected: [None, None] }
            }
            &RandomStep::Copy { ref from, ref to, replace, parents } => {
                let (from, to) = (from.resolve(look), to.resolve(look));
                Step::Copy { from, to, replace, parents, protected: None, displaced: keep }
            }
            &RandomStep::SetAttr { ref at, mode, modified } => {
                Step::SetAttr { at: at.resolve(look), mode, modified }
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
            RandomStep::Write { wanted, .. }
            | RandomStep::Append { wanted, .. }
            | RandomStep::Edit { wanted, .. }
            | RandomStep::Symlink { wanted, .. }
            | RandomStep::Remove { wanted, .. }
            | RandomStep::Rename { wanted, .. } => Some(wanted),
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
            let wanted = *self.pick(&[
                ExpectedState::Current,
                ExpectedState::CurrentOrAbsent,
                ExpectedState::Absent,
                ExpectedState::Unknown,
            ]);
            let makes_sense = match wanted {
                ExpectedState::Any | ExpectedState::Unknown => true,
                ExpectedState::Absent => matches!(
                    op,
                    RandomStep::Write { .. } | RandomStep::Append { .. } | RandomStep::Symlink { .. }
                ),
                ExpectedState::Current | ExpectedState::CurrentOrAbsent => self.timing == StepTiming::Now,
            };
            if self.rng.u8(..4) == 0 && makes_sense && self.would_succeed(&op) {
                op.expected_mut().into_iter().for_each(|place| *place = wanted);
            }
            return op;
        }
    }

    fn any_step(&mut self) -> RandomStep {
        let wanted = ExpectedState::Any;
        let parents = if self.rng.bool() { Parents::Create } else { Parents::Required };
        let mode = *self.pick(&[None, None, None, Some(0o600), Some(0o755), Some(0o644)]);
        match self.rng.u8(..100) {
            0..=21 => RandomStep::Write {
                at: self.random_file_place(),
                fill: self.random_bytes(),
                parents,
                mode,
                wanted,
            },
            22..=33 => RandomStep::Append {
                at: self.random_file_place(),
                fill: self.random_bytes(),
                parents,
                mode,
                wanted,
            },
            34..=41 => self.edit(),
            42..=51 => {
                RandomStep::Mkdir { at: self.random_place(), parents, mode: mode.map(|mode| mode | 0o100) }
            }
            52..=58 => {
                let target = self.pick(&["a", "b/c", "../d", "/e", "nowhere at all"]);
                RandomStep::Symlink { at: self.random_place(), target, parents, wanted }
            }
            59..=69 => {
                let subtrees = [Subtree::File, Subtree::EmptyDirectory, Subtree::Directory, Subtree::Any];
                let subtree = *self.pick(&subtrees);
                let missing = *self.pick(&[IfMissing::Fail, IfMissing::Ignore]);
                RandomStep::Remove { at: self.random_place(), subtree, missing, wanted }
            }
            70..=84 => {
                let replace =
                    *self.pick(&[Replace::Refuse, Replace::Overwrite, Replace::Overwrite, Replace::Exchange]);
                RandomStep::Rename {
                    from: self.random_place(),
                    to: self.random_place(),
                    replace,
                    parents,
                    wanted,
                }
            }
            85..=92 => {
                let replace = *self.pick(&[Replace::Refuse, Replace::Overwrite]);
                RandomStep::Copy { from: self.random_place(), to: self.random_place(), replace, parents }
            }
            _ => {
                let modified = self.rng.bool().then(|| Timestamp::from_secs(self.rng.i64(1..1_000_000_000)));
                RandomStep::SetAttr { at: self.random_place(), mode: mode.map(|mode| mode | 0o100), modified }
            }
        }
    }

    fn edit(&mut self) -> RandomStep {
        let at = self.random_file_place();
        let occurrences = *self.pick(&[Occurrences::One, Occurrences::All]);
        let place = at.resolve(&|place| self.stat(place));
        let old = match self.tree.file(&place) {
            Ok((_, bytes)) if !bytes.is_empty() && self.rng.u8(..8) > 0 => {
                let start = self.rng.usize(..bytes.len());
                let end = bytes.len().min(start + self.rng.usize(4..30));
                bytes[start..end].to_vec()
            }
            _ => b"no such text".to_vec(),
        };
        let new = format!("<{}>", self.rng.u16(..));
        let edit = Edit::new(old, &new, occurrences).or_else(|_| Edit::new("other", &new, occurrences));
        let edit = edit.expect("a text and another text");
        RandomStep::Edit { at, edit, wanted: ExpectedState::Any }
    }

    /// A path of one to three names; half of the time one that exists.
    pub(super) fn random_path(&mut self) -> StorePath {
        self.random_path_of(&[NodeKind::File, NodeKind::Directory, NodeKind::Symlink])
    }

    /// A path of one to three names; half of the time one that exists and has one of these kinds.
    fn random_path_of(&mut self, kinds: &[NodeKind]) -> StorePath {
        let mut there = self.tree.below(super::ROOT);
        there.retain(|(_, id)| kinds.contains(&self.tree.attr(*id).kind));
        if self.rng.bool() && !there.is_empty() {
            return there.swap_remove(self.rng.usize(..there.len())).0;
        }
        (0..self.rng.usize(1..=3))
            .fold(StorePath::empty(), |path, _| path.child(self.pick(&NAMES).as_bytes()))
    }

    /// A random location, by path or by node.
    pub(super) fn random_place(&mut self) -> PlaceSpec {
        let path = self.random_path();
        self.place_of(path)
    }

    /// A random location, often of a file.
    fn random_file_place(&mut self) -> PlaceSpec {
        let path = self.random_path_of(&[NodeKind::File]);
        self.place_of(path)
    }

    fn place_of(&mut self, path: StorePath) -> PlaceSpec {
        let (parent, name) = path.parent_and_name().expect("no path here is empty");
        let parent = StorePath::from_checked(parent);
        let kind = |path: &StorePath| self.stat(&NodePath::from_root(path.clone())).map(|attr| attr.kind);
        // A kernel never asks a mounted file system for a name below a symlink.
        let can_hold = kind(&parent).is_some_and(|kind| kind != NodeKind::Symlink);
        let is_there = kind(&path).is_some();
        match self.rng.u8(..4) {
            0 if self.timing == StepTiming::Now && can_hold => {
                PlaceSpec::Child(parent, Name::new(name).expect("a component is a name"))
            }
            1 if self.timing == StepTiming::Now && is_there => PlaceSpec::Node(path),
            _ => PlaceSpec::Path(path),
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
            (0..size).map(|at| b'a' + ((seed + at / step + at * step) % 26) as u8).collect(),
        ))
    }

    fn pick<'b, T>(&mut self, from: &'b [T]) -> &'b T {
        &from[self.rng.usize(..from.len())]
    }

    fn stat(&self, place: &NodePath) -> Option<Attr> {
        self.tree.find(place).ok().map(|id| self.tree.attr(id))
    }

    fn would_succeed(&self, op: &RandomStep) -> bool {
        let step = op.step(&|place| self.stat(place));
        self.tree.clone().apply(vec![step], Timestamp::default(), RevisionNumber(0)).is_ok()
    }

    /// Whether the Store contract leaves the result of this step open.
    fn is_ambiguous(&self, op: &RandomStep) -> bool {
        let look: StatFn<'_> = &|place| self.stat(place);
        let kind = |at: &PlaceSpec| look(&at.resolve(look)).map(|attr| attr.kind);
        match op {
            // A symlink's own mode has no effect.
            RandomStep::SetAttr { at, .. } => kind(at) == Some(NodeKind::Symlink),
            RandomStep::Rename { from, to, replace, parents, .. } => {
                self.is_ambiguous_move(&from.resolve(look), &to.resolve(look), *replace, *parents)
            }
            RandomStep::Copy { from, to, replace, parents } => {
                // The contract doesn't say which mode a file gets that replaces a symlink.
                kind(from) == Some(NodeKind::File) && kind(to) == Some(NodeKind::Symlink)
                    || self.is_ambiguous_move(&from.resolve(look), &to.resolve(look), *replace, *parents)
            }
            RandomStep::Write { .. } | RandomStep::Append { .. } | RandomStep::Edit { .. } => false,
            RandomStep::Mkdir { .. } | RandomStep::Symlink { .. } | RandomStep::Remove { .. } => false,
        }
    }

    fn is_ambiguous_move(&self, from: &NodePath, to: &NodePath, replace: Replace, parents: Parents) -> bool {
        let (lacks_parent, there) = match self.tree.slot(to) {
            Err(_) => return self.tree.find(from).is_err(),
            Ok(ModelSlot::Missing { below, names }) => {
                (names.len() > 1 && parents == Parents::Required, Err(below))
            }
            Ok(ModelSlot::Occupied(other)) => (false, Ok(other)),
        };
        let Ok(id) = self.tree.find(from) else { return lacks_parent };
        if !matches!(self.tree.body(id), Some(ModelBody::Directory(_))) {
            return there == Ok(id);
        }
        match there {
            Ok(other) => replace != Replace::Exchange && self.tree.is_at_or_below(other, id),
            Err(below) => {
                let into_itself = self.tree.is_at_or_below(below, id);
                into_itself && (lacks_parent || replace == Replace::Exchange)
            }
        }
    }
}
