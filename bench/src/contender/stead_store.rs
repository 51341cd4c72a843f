//! Stead's Stores.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stead_core::identity::{Identity, Operation, OperationId};
use stead_core::store::{
    Change, Content, DraftBase, NodePath, OpenPurpose, Page, Parents, Precondition, PutOptions, Replace,
    Step, StorePath,
};
use stead_core::{Clock, Store, SystemClock};
use stead_stores::{Database, DatabaseOptions, DisplacedRetention, PhysicalOptions, PhysicalStore};

use super::{Contender, Durability, PIECE, disk};
use crate::Result;

/// How many files one change writes while a Store is filled.
const BATCH: usize = 1_000;

/// A Store, called in the way that a `Vfs` calls it.
#[derive(Debug, Clone)]
pub struct SteadStore {
    store: Arc<dyn Store>,
    /// The directory of a Physical Store, which is filled directly because filling is not measured.
    root: Option<PathBuf>,
    identity: Arc<Identity>,
}

impl SteadStore {
    /// A Virtual Store, in a database in this directory.
    pub fn in_database(directory: &Path, durability: Durability) -> Result<Self> {
        let options = DatabaseOptions { durability: durability.into(), ..DatabaseOptions::default() };
        let database = Database::open(directory.join("stead.db"), options)?;
        Ok(SteadStore::new(Arc::new(database.store(["bench"])?), None))
    }

    /// A Physical Store that retains no displaced content, on a directory in this one.
    pub fn on_disk(directory: &Path, durability: Durability) -> Result<Self> {
        SteadStore::physical(directory, durability, None)
    }

    /// A Physical Store that retains displaced content, on a directory in this one.
    pub fn retaining(directory: &Path, durability: Durability) -> Result<Self> {
        SteadStore::physical(directory, durability, Some(DisplacedRetention::default()))
    }

    fn physical(
        directory: &Path,
        durability: Durability,
        displaced_retention: Option<DisplacedRetention>,
    ) -> Result<Self> {
        let (root, state) = (directory.join("root"), directory.join("state"));
        std::fs::create_dir(&root)?;
        std::fs::create_dir(&state)?;
        let options = PhysicalOptions {
            durability: durability.into(),
            displaced_retention,
            ..PhysicalOptions::new(state)
        };
        Ok(SteadStore::new(Arc::new(PhysicalStore::open(&root, options)?), Some(root)))
    }

    fn new(store: Arc<dyn Store>, root: Option<PathBuf>) -> Self {
        SteadStore { store, root, identity: Arc::new(Identity::agent("bench")) }
    }

    /// The Store itself.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn apply(&self, steps: Vec<Step>) -> Result {
        let at = SystemClock.now();
        let identity = self.identity.clone();
        let operation = Operation { id: OperationId::fresh(at), identity, tool: "bench".into(), at };
        self.store.apply(Change::new(operation, steps))?;
        Ok(())
    }

    fn write(&self, path: &str, content: Content, expect: Precondition) -> Result {
        let options = PutOptions { expect, parents: Parents::Required, ..PutOptions::default() };
        self.apply(vec![Step::Write { at: node_path(path), content, options }])
    }
}

impl From<Durability> for stead_stores::Durability {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Full => stead_stores::Durability::Full,
            Durability::Fast => stead_stores::Durability::Fast,
        }
    }
}

fn node_path(path: &str) -> NodePath {
    NodePath::from_root(StorePath::from_checked(path))
}

impl Contender for SteadStore {
    fn fill(&self, files: &mut dyn Iterator<Item = (String, Vec<u8>)>) -> Result {
        if let Some(root) = &self.root {
            return disk::fill(root, files);
        }
        loop {
            let mut steps = Vec::new();
            for (path, content) in (&mut *files).take(BATCH) {
                steps.push(Step::Write {
                    at: node_path(&path),
                    content: content.into(),
                    options: PutOptions::default(),
                });
            }
            if steps.is_empty() {
                return Ok(());
            }
            self.apply(steps)?;
        }
    }

    fn make_directory(&self, path: &str) -> Result {
        self.apply(vec![Step::Mkdir { at: node_path(path), parents: Parents::Required, mode: None }])
    }

    fn create(&self, path: &str, content: &[u8]) -> Result {
        self.write(path, content.to_vec().into(), Precondition::Absent)
    }

    fn overwrite(&self, path: &str, content: &[u8]) -> Result {
        self.write(path, content.to_vec().into(), Precondition::Any)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>> {
        Ok(self.store.read(&node_path(path), u64::MAX)?.bytes)
    }

    fn size(&self, path: &str) -> Result<u64> {
        Ok(self.store.stat(&node_path(path))?.size)
    }

    fn list(&self, path: &str) -> Result<usize> {
        Ok(self.store.list(&node_path(path), &Page::ALL)?.entries.len())
    }

    fn rename(&self, from: &str, to: &str) -> Result {
        self.apply(vec![Step::Rename {
            from: node_path(from),
            to: node_path(to),
            replace: Replace::Refuse,
            parents: Parents::Required,
            expect: Precondition::Any,
            protected: [None, None],
        }])
    }

    fn write_large(&self, path: &str, content: &[u8]) -> Result {
        let mut draft = self.store.draft(DraftBase::Empty)?;
        for (index, piece) in content.chunks(PIECE).enumerate() {
            draft.write_at((index * PIECE) as u64, piece)?;
        }
        self.write(path, Content::Sealed(draft.seal()?), Precondition::Any)
    }

    fn read_large(&self, path: &str) -> Result<u64> {
        let content = self.store.open(&node_path(path), OpenPurpose::Read)?;
        let mut piece = vec![0; PIECE];
        let mut size = 0;
        loop {
            match content.read_at(size, &mut piece)? {
                0 => return Ok(size),
                count => size += count as u64,
            }
        }
    }

    fn for_thread(&self) -> Result<Box<dyn Contender>> {
        Ok(Box::new(self.clone()))
    }
}
