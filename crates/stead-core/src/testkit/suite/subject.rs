//! The Store under test, and helpers that the suite uses often.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::clock::{Clock, SystemClock};
use crate::edit::{Edit, Occurrences};
use crate::hide::{HiddenNames, HideGlobs};
use crate::identity::{Identity, Operation, OperationId};
use crate::search::WalkOptions;
use crate::store::{
    Applied, Attr, Change, ChangeFeed, Content, DisplacedContent, Draft, DraftBase, History, IfMissing,
    NodeId, NodePath, OpenContent, OpenPurpose, Page, Parents, Precondition, PutOptions, Replace,
    RevisionNumber, Step, StepOutcome, Store, StorePath, StoreResult, Subtree,
};
use crate::testkit::model::{TreeSnapshot, snapshot_of};

/// Provides a Store for the duration of a test.
pub trait Fixture {
    /// The Store.
    fn store(&self) -> Arc<dyn Store>;
}

impl<S: Store + 'static> Fixture for Arc<S> {
    fn store(&self) -> Arc<dyn Store> {
        self.clone()
    }
}

/// A Store, and a value that has to live as long as it, such as a temporary directory.
impl<S: Store + 'static, T> Fixture for (Arc<S>, T) {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }
}

/// Runs one test of the suite on a fresh Store, then lets the Store verify itself.
pub fn run<F: Fixture>(make_fixture: impl FnOnce() -> F, test: fn(&Subject)) {
    let fixture = make_fixture();
    let store = fixture.store();
    let start_revision =
        store.history().map_or(RevisionNumber(0), |history| history.latest_revision().unwrap());
    let subject = Subject { store, start_revision };
    test(&subject);
    if let Some(maintenance) = subject.store.maintenance() {
        let verified = maintenance.verify(&mut |_| ()).expect("the Store can be verified");
        assert_eq!(verified.problems, Vec::<String>::new());
    }
}

/// The Store under test. Paths are given as text. Helpers panic if the Store refuses the call, except those that test
/// refusals.
#[derive(Debug)]
pub struct Subject {
    pub(crate) store: Arc<dyn Store>,
    /// The revision before the test started. Earlier ones belong to the fixture, and tests ignore them.
    pub(crate) start_revision: RevisionNumber,
}

impl Subject {
    /// The Store's history. The test has checked that there is one.
    #[track_caller]
    pub(crate) fn history(&self) -> &dyn History {
        self.store.history().expect("the Store has a history")
    }

    /// The Store's feed. The test has checked that there is one.
    #[track_caller]
    pub(crate) fn feed(&self) -> &dyn ChangeFeed {
        self.store.feed().expect("the Store has a feed")
    }

    pub(crate) fn apply(&self, steps: Vec<Step>) -> StoreResult<Applied> {
        self.store.apply(change(steps))
    }

    /// Applies a single step and returns its outcome, or the Store's error.
    pub(crate) fn try_apply_one(&self, step: Step) -> StoreResult<StepOutcome> {
        let applied = self.apply(vec![step])?;
        assert_eq!(applied.outcomes.len(), 1, "one step has one outcome");
        Ok(applied.outcomes[0])
    }

    #[track_caller]
    pub(crate) fn apply_one(&self, step: Step) -> StepOutcome {
        let description = format!("{step:?}");
        self.try_apply_one(step).unwrap_or_else(|error| panic!("{description}: {error:?}"))
    }

    #[track_caller]
    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> Attr {
        self.apply_one(write(path, bytes)).attr.expect("a write returns the attributes")
    }

    #[track_caller]
    pub(crate) fn mkdir(&self, path: &str) -> Attr {
        self.apply_one(mkdir(path)).attr.expect("mkdir returns the attributes")
    }

    #[track_caller]
    pub(crate) fn link(&self, path: &str, target: &str) -> Attr {
        self.apply_one(symlink(path, target)).attr.expect("symlink returns the attributes")
    }

    #[track_caller]
    pub(crate) fn rename(&self, from: &str, to: &str, replace: Replace) {
        self.apply_one(rename(from, to, replace));
    }

    #[track_caller]
    pub(crate) fn remove(&self, path: &str) {
        self.apply_one(remove(path, Subtree::Any));
    }

    #[track_caller]
    pub(crate) fn stat(&self, path: &str) -> Attr {
        self.store.stat(&at(path)).unwrap_or_else(|error| panic!("stat {path}: {error:?}"))
    }

    #[track_caller]
    pub(crate) fn node(&self, path: &str) -> NodeId {
        self.stat(path).node
    }

    #[track_caller]
    pub(crate) fn read(&self, path: &str) -> Vec<u8> {
        self.read_at(&at(path))
    }

    #[track_caller]
    pub(crate) fn read_at(&self, path: &NodePath) -> Vec<u8> {
        let file = self.store.read(path, u64::MAX).unwrap_or_else(|error| panic!("read {path:?}: {error:?}"));
        assert_eq!(file.attr.size, file.bytes.len() as u64, "attributes and bytes are of the same version");
        file.bytes
    }

    #[track_caller]
    pub(crate) fn open(&self, path: &str) -> Box<dyn OpenContent> {
        self.store.open(&at(path), OpenPurpose::Read).unwrap_or_else(|error| panic!("open {path}: {error:?}"))
    }

    #[track_caller]
    pub(crate) fn draft_of(&self, path: &NodePath) -> Box<dyn Draft> {
        self.store.draft(DraftBase::File(path)).unwrap_or_else(|error| panic!("draft of {path:?}: {error:?}"))
    }

    #[track_caller]
    pub(crate) fn draft(&self) -> Box<dyn Draft> {
        self.store.draft(DraftBase::Empty).unwrap_or_else(|error| panic!("draft: {error:?}"))
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.store.stat(&at(path)).is_ok()
    }

    /// The names in a directory, in the Store's order.
    #[track_caller]
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let listing =
            self.store.list(&at(path), &Page::ALL).unwrap_or_else(|error| panic!("list {path}: {error:?}"));
        assert_eq!(listing.total, listing.entries.len() as u64);
        assert!(!listing.more);
        listing.entries.iter().map(|entry| entry.name.to_string()).collect()
    }

    /// The paths that a walk visits, in the Store's order.
    #[track_caller]
    pub(crate) fn walk_paths(&self, path: &NodePath, options: &WalkOptions) -> Vec<String> {
        let mut paths = Vec::new();
        let visit = &mut |entry: crate::store::WalkEntry| {
            paths.push(entry.path.to_string());
            ControlFlow::Continue(())
        };
        self.store.walk(path, options, visit).unwrap_or_else(|error| panic!("walk {path:?}: {error:?}"));
        paths
    }

    pub(crate) fn snapshot(&self) -> TreeSnapshot {
        snapshot_of(&*self.store)
    }

    /// Runs a call that has to be refused, and checks that it changed nothing.
    #[track_caller]
    pub(crate) fn assert_unchanged<T>(&self, act: impl FnOnce() -> StoreResult<T>) -> StoreResult<T> {
        let before = self.snapshot();
        let result = act();
        assert!(result.is_err(), "the change has to be refused");
        assert_eq!(self.snapshot(), before, "a refused change changes nothing");
        result
    }

    /// Applies a step that has to be refused and to change nothing; returns the error.
    #[track_caller]
    pub(crate) fn assert_step_refused(&self, step: Step) -> crate::StoreError {
        self.assert_unchanged(|| self.try_apply_one(step)).expect_err("the step has to be refused")
    }
}

/// Reads all of an open content.
pub(crate) fn read_all(content: &dyn OpenContent) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 70_000];
    loop {
        let count = content.read_at(bytes.len() as u64, &mut buffer).expect("open content can be read");
        bytes.extend_from_slice(&buffer[..count]);
        if count < buffer.len() {
            return bytes;
        }
    }
}

/// Bytes without a period near the length of a chunk or a page.
pub(crate) fn aperiodic_bytes(size: usize) -> Vec<u8> {
    (0..size).map(|index| (index.wrapping_mul(31) ^ (index >> 8) ^ (index >> 13)) as u8).collect()
}

pub(crate) fn change(steps: Vec<Step>) -> Change {
    let now = SystemClock.now();
    let identity = Arc::new(Identity::agent("suite"));
    let operation =
        Operation { id: OperationId::fresh(now), identity, tool: Cow::Borrowed("suite"), at: now };
    Change::new(operation, steps)
}

/// What these globs hide below a directory of a Workspace.
pub(crate) fn hidden(globs: &[&str], directory: &str) -> Option<HiddenNames> {
    HiddenNames::below(&Arc::new(HideGlobs::new(globs).unwrap()), directory)
}

/// The path from the root that this text names.
pub(crate) fn at(path: &str) -> NodePath {
    NodePath::from_root(StorePath::from_checked(path))
}

pub(crate) fn write(path: &str, bytes: impl AsRef<[u8]>) -> Step {
    write_with(at(path), bytes.as_ref().to_vec(), PutOptions::default())
}

pub(crate) fn write_with(at: NodePath, content: impl Into<Content>, options: PutOptions) -> Step {
    Step::Write { at, content: content.into(), options }
}

pub(crate) fn append(path: &str, bytes: impl AsRef<[u8]>) -> Step {
    append_with(at(path), bytes.as_ref().to_vec(), PutOptions::default())
}

pub(crate) fn append_with(at: NodePath, content: impl Into<Content>, options: PutOptions) -> Step {
    Step::Append { at, content: content.into(), options }
}

pub(crate) fn edit(path: &str, old: &str, new: &str) -> Step {
    edit_with(at(path), old, new, Occurrences::One, Precondition::Any)
}

pub(crate) fn edit_with(
    at: NodePath,
    old: &str,
    new: &str,
    occurrences: Occurrences,
    expect: Precondition,
) -> Step {
    let edit = Edit::new(old, new, occurrences).expect("the suite's edits are valid");
    Step::Edit { at, edit, expect, displaced: DisplacedContent::Keep }
}

pub(crate) fn mkdir(path: &str) -> Step {
    mkdir_with(at(path), Parents::Create)
}

pub(crate) fn mkdir_with(at: NodePath, parents: Parents) -> Step {
    Step::Mkdir { at, parents, mode: None }
}

pub(crate) fn symlink(path: &str, target: &str) -> Step {
    symlink_with(at(path), target, Parents::Create, Precondition::Any)
}

pub(crate) fn symlink_with(at: NodePath, target: &str, parents: Parents, expect: Precondition) -> Step {
    Step::Symlink { at, target: target.into(), parents, expect }
}

pub(crate) fn remove(path: &str, subtree: Subtree) -> Step {
    remove_with(at(path), subtree, Precondition::Any, IfMissing::Fail)
}

pub(crate) fn remove_with(
    at: NodePath,
    subtree: Subtree,
    expect: Precondition,
    if_missing: IfMissing,
) -> Step {
    Step::Remove { at, subtree, expect, if_missing, protected: None, displaced: DisplacedContent::Keep }
}

pub(crate) fn rename(from: &str, to: &str, replace: Replace) -> Step {
    rename_with(at(from), at(to), replace, Parents::Create, Precondition::Any)
}

pub(crate) fn rename_with(
    from: NodePath,
    to: NodePath,
    replace: Replace,
    parents: Parents,
    expect: Precondition,
) -> Step {
    Step::Rename { from, to, replace, parents, expect, protected: [None, None] }
}

pub(crate) fn copy(from: &str, to: &str, replace: Replace) -> Step {
    copy_with(at(from), at(to), replace, Parents::Create)
}

pub(crate) fn copy_with(from: NodePath, to: NodePath, replace: Replace, parents: Parents) -> Step {
    Step::Copy { from, to, replace, parents, protected: None, displaced: DisplacedContent::Keep }
}

pub(crate) fn chmod(at: NodePath, mode: u32) -> Step {
    Step::SetAttr { at, mode: Some(mode), modified: None }
}

/// Asserts that a call was refused with an error that matches the pattern.
macro_rules! assert_refused {
    ($result:expr, $expected:pat) => {
        match &$result {
            Err($expected) => {}
            Err(error) => panic!("{}: {error:?} instead of {}", stringify!($result), stringify!($expected)),
            Ok(_) => panic!("{} succeeded instead of {}", stringify!($result), stringify!($expected)),
        }
    };
}
pub(crate) use assert_refused;
