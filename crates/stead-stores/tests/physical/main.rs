//! The Physical Store over real directories.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::new_without_default, missing_docs)]

/// Makes two tests of each function: with confinement by the kernel, and by walking.
macro_rules! both_ways {
    ($($name:ident,)*) => {
        mod by_the_kernel {
            $(#[test]
            fn $name() {
                super::$name(stead_stores::Confinement::Automatic);
            })*
        }

        mod by_walking {
            $(#[test]
            fn $name() {
                super::$name(stead_stores::Confinement::Walk);
            })*
        }
    };
}

mod audit_after_crash;
mod faults;
mod history;
mod host_directory;
mod lock_timeouts;
mod modes;
mod races;
mod recovery;
mod replaced_directory;
mod replaced_files;
mod snapshots;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stead_core::search::WalkOptions;
use stead_core::store::{
    Applied, Attr, Change, Content, DisplacedContent, IfMissing, NodeKind, NodePath, Parents, Precondition,
    PutOptions, Replace, Step, StepOutcome, StorePath, StoreResult, Subtree,
};
use stead_core::{Identity, Operation, OperationId, Store, Timestamp};
use stead_stores::{Confinement, Database, DatabaseOptions, Durability, PhysicalOptions, PhysicalStore};
use tempfile::TempDir;

/// A directory with a Store on it, and a state directory next to it.
pub struct Bench {
    pub temp: TempDir,
    pub root: PathBuf,
    pub store: PhysicalStore,
}

impl Bench {
    pub fn new() -> Self {
        Bench::with(|_| ())
    }

    pub fn confined_by(confinement: Confinement) -> Self {
        Bench::with(|options| options.confinement = confinement)
    }

    /// Another Store on the same directory.
    pub fn second(&self, confinement: Confinement) -> PhysicalStore {
        open(self.temp.path(), |options| options.confinement = confinement)
    }

    pub fn with(change: impl FnOnce(&mut PhysicalOptions)) -> Self {
        Bench::build(|_, options| change(options))
    }

    /// A bench whose Store retains displaced content.
    pub fn retaining(change: impl FnOnce(&mut PhysicalOptions)) -> Self {
        Bench::build(|temp, options| {
            with_ledger(temp, options);
            change(options);
        })
    }

    fn build(change: impl FnOnce(&Path, &mut PhysicalOptions)) -> Self {
        let temp = TempDir::new().unwrap();
        let root = temp.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let store = open(temp.path(), |options| change(temp.path(), options));
        Bench { temp, root, store }
    }

    pub fn host_path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// Gives a Store the ledger in a bench's directory.
pub fn with_ledger(temp: &Path, options: &mut PhysicalOptions) {
    let fast = DatabaseOptions { durability: Durability::Fast, ..DatabaseOptions::default() };
    options.ledger = Database::open(temp.join("stead.db"), fast).unwrap().into();
}

/// Opens a Store on `root` in a bench's directory.
pub fn open(temp: &Path, change: impl FnOnce(&mut PhysicalOptions)) -> PhysicalStore {
    let mut options =
        PhysicalOptions { durability: Durability::Fast, ..PhysicalOptions::new(temp.join("state")) };
    change(&mut options);
    PhysicalStore::open(temp.join("root"), options).unwrap()
}

pub fn at(path: &str) -> NodePath {
    NodePath::from_root(StorePath::from_checked(path))
}

pub fn change(steps: Vec<Step>) -> Change {
    let operation = Operation {
        id: OperationId::fresh(Timestamp::from_secs(1)),
        identity: Arc::new(Identity::agent("tester")),
        tool: "test".into(),
        at: Timestamp::from_secs(1),
    };
    Change::new(operation, steps)
}

pub fn apply(store: &dyn Store, step: Step) -> StoreResult<StepOutcome> {
    store.apply(change(vec![step])).map(|Applied { outcomes, .. }| outcomes[0])
}

pub fn write_step(path: &str, content: &str) -> Step {
    Step::Write { at: at(path), content: Content::Bytes(content.into()), options: PutOptions::default() }
}

pub fn append_step(path: &str, content: &[u8]) -> Step {
    Step::Append { at: at(path), content: Content::Bytes(content.into()), options: PutOptions::default() }
}

pub fn remove_step(path: &str, subtree: Subtree) -> Step {
    Step::Remove {
        at: at(path),
        subtree,
        expect: Precondition::Any,
        if_missing: IfMissing::Fail,
        protected: None,
        displaced: DisplacedContent::Keep,
    }
}

pub fn rename_step(from: &str, to: &str, replace: Replace) -> Step {
    Step::Rename {
        from: at(from),
        to: at(to),
        replace,
        parents: Parents::Create,
        expect: Precondition::Any,
        protected: [None, None],
    }
}

pub fn copy_step(from: &str, to: &str, replace: Replace) -> Step {
    Step::Copy {
        from: at(from),
        to: at(to),
        replace,
        parents: Parents::Create,
        protected: None,
        displaced: DisplacedContent::Keep,
    }
}

pub fn write(store: &dyn Store, path: &str, content: &str) -> Attr {
    apply(store, write_step(path, content)).unwrap().attr.unwrap()
}

pub fn read(store: &dyn Store, path: &str) -> String {
    String::from_utf8(store.read(&at(path), 1 << 30).unwrap().bytes).unwrap()
}

/// Everything in a Store: kind, mode, and content or target.
pub type Tree = BTreeMap<String, (NodeKind, u32, Vec<u8>)>;

pub fn tree(store: &dyn Store) -> Tree {
    let mut tree = Tree::new();
    let mut entries = Vec::new();
    store
        .walk(&NodePath::root(), &WalkOptions::default(), &mut |entry| {
            entries.push(entry);
            ControlFlow::Continue(())
        })
        .unwrap();
    for entry in entries {
        let node_path = NodePath::from_root(entry.path.clone());
        let content = match entry.attr.kind {
            NodeKind::File => store.read(&node_path, 1 << 30).unwrap().bytes,
            NodeKind::Symlink => store.read_link(&node_path).unwrap(),
            NodeKind::Directory | NodeKind::Special(_) => Vec::new(),
        };
        tree.insert(entry.path.to_string(), (entry.attr.kind, entry.attr.mode, content));
    }
    tree
}

/// The number of entries in `staging` and in `recovered` of the state directory.
pub fn staging_counts(temp: &Path) -> (usize, usize) {
    let physical = temp.join("state/physical");
    let store_state = std::fs::read_dir(physical).unwrap().next().unwrap().unwrap().path();
    let count = |name: &str| std::fs::read_dir(store_state.join(name)).unwrap().count();
    (count("staging"), count("recovered"))
}
