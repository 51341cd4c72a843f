//! Many changes at once.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::error::{Error, Result, Sight};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{Content, Expect, Missing, Parents, Side, Step, Store, StoreError, Subtree};
use crate::vfs::resolve::Spot;
use crate::vfs::write::{same_store, written};
use crate::vfs::{IntoPath, Vfs, WriteOptions, Written};

impl Vfs {
    /// Starts a change of many steps in one Workspace's Store, done whole or not at all.
    pub fn batch(&self) -> Batch<'_> {
        Batch { vfs: self, steps: Vec::new(), paths: Vec::new(), store: None, parents: HashMap::new() }
    }
}

/// Many steps that happen together. Each is judged as it is added; nothing happens before [`Batch::apply`].
#[derive(Debug)]
pub struct Batch<'a> {
    vfs: &'a Vfs,
    steps: Vec<Step>,
    paths: Vec<VfsPath>,
    store: Option<Arc<dyn Store>>,
    /// Directories whose symlinks have been resolved, by the path as it was written.
    parents: HashMap<VfsPath, VfsPath>,
}

impl<'a> Batch<'a> {
    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Writes a whole file.
    pub fn write(
        &mut self,
        path: impl IntoPath,
        content: impl Into<Vec<u8>>,
        options: &WriteOptions,
    ) -> Result<()> {
        let content = Content::Bytes(content.into());
        self.put(path, content, options)
    }

    /// Writes a whole file from a stream of any length, in constant memory.
    pub fn write_from(
        &mut self,
        path: impl IntoPath,
        from: &mut dyn Read,
        options: &WriteOptions,
    ) -> Result<()> {
        let path = path.into_path()?;
        let spot = self.spot(&path)?;
        let sealed = self.vfs.drafted(&spot, from)?;
        self.put(&path, Content::Sealed(sealed), options)
    }

    fn put(&mut self, path: impl IntoPath, content: Content, options: &WriteOptions) -> Result<()> {
        let path = path.into_path()?;
        let spot = self.spot(&path)?;
        spot.check_not_leading()?;
        self.vfs.check_size(content.size()).map_err(|cause| spot.failed(cause))?;
        let step = Step::Write { at: spot.place.clone(), content, put: options.put(&spot) };
        self.push(&spot.path.clone(), step);
        Ok(())
    }

    /// Makes a directory and missing parents; one that is there already stays as it is.
    pub fn mkdir(&mut self, path: impl IntoPath, mode: Option<u32>) -> Result<()> {
        let path = path.into_path()?;
        let spot = self.spot(&path)?;
        let step = Step::Mkdir { at: spot.place.clone(), parents: Parents::Create, mode };
        self.push(&spot.path.clone(), step);
        Ok(())
    }

    /// Makes a symlink, or makes one that is there lead somewhere else.
    pub fn symlink(&mut self, path: impl IntoPath, target: &[u8]) -> Result<()> {
        let path = path.into_path()?;
        let spot = self.spot(&path)?;
        spot.check_not_leading()?;
        let target = target.to_vec();
        let step =
            Step::Symlink { at: spot.place.clone(), target, parents: Parents::Create, expect: Expect::Any };
        self.push(&spot.path.clone(), step);
        Ok(())
    }

    /// Removes a file or a symlink.
    pub fn remove_file(&mut self, path: impl IntoPath) -> Result<()> {
        let path = path.into_path()?;
        let spot = self.spot(&path)?;
        let step = Step::Remove {
            at: spot.place.clone(),
            subtree: Subtree::File,
            expect: Expect::Any,
            missing: Missing::Fine,
            spare: spot.spare(Side::From),
            keep: spot.keep(),
        };
        self.push(&spot.path.clone(), step);
        Ok(())
    }

    /// Sets permission bits and the time of the last modification.
    pub fn set_attributes(
        &mut self,
        path: impl IntoPath,
        mode: Option<u32>,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        let path = path.into_path()?;
        let spot = self.spot(&path)?;
        let step = Step::SetAttr { at: spot.place.clone(), mode, modified };
        self.push(&spot.path.clone(), step);
        Ok(())
    }

    /// Does it all.
    pub fn apply(self) -> Result<Vec<Written>> {
        let Some(store) = self.store else { return Ok(Vec::new()) };
        let operation = self.vfs.act("batch");
        let id = operation.id;
        let first = self.paths[0].clone();
        let change = self.vfs.change_of(&*store, operation, self.steps);
        let applied = change.and_then(|change| store.apply(change)).map_err(|cause| {
            // A Store tells the step only of a symlink; other failures are about the batch.
            let path = match &cause {
                StoreError::Link(hit) => self.paths.get(hit.step).cloned().unwrap_or(first),
                _ if self.paths.len() == 1 => first,
                _ => common(&self.paths),
            };
            let route = self.vfs.shared.router.route(&path);
            let sight = route.map_or(Sight::Sees, |route| Sight::of(route.workspace.scope()));
            Error::Store { path, sight, cause }
        })?;
        for path in &self.paths {
            self.vfs.shared.seen.forget(path);
        }
        let done = self.paths.into_iter().zip(&applied.outcomes);
        Ok(done.map(|(path, outcome)| written(path, outcome, &applied, id)).collect())
    }

    fn push(&mut self, path: &VfsPath, step: Step) {
        self.paths.push(path.clone());
        self.steps.push(step);
    }

    /// Routes and judges a path; symlinks on the way to it are resolved once per directory.
    fn spot(&mut self, path: &VfsPath) -> Result<Spot<'a>> {
        let asked = self.vfs.enter(path, Access::Write)?;
        let spot = match (path.parent(), path.name()) {
            (Some(parent), Some(name)) if !asked.is_workspace() => {
                let parent = match self.parents.get(&parent) {
                    Some(resolved) => resolved.clone(),
                    None => {
                        let resolved = self.vfs.resolve(&parent, Access::Write)?.1.path;
                        self.parents.insert(parent, resolved.clone());
                        resolved
                    }
                };
                self.vfs.enter(&parent.join(name)?, Access::Write)?
            }
            _ => asked,
        };
        let store = spot.workspace.mount().store();
        if !same_store(&**self.store.get_or_insert_with(|| Arc::clone(store)), &**store) {
            return Err(Error::Invalid(format!(
                "`{path}` is in another Store than the rest; one batch changes one Store"
            )));
        }
        Ok(spot)
    }
}

/// The deepest directory that holds all of these paths.
fn common(paths: &[VfsPath]) -> VfsPath {
    let mut common = paths[0].parent().unwrap_or_else(VfsPath::root);
    while !paths.iter().all(|path| path.below(&common).is_some()) {
        common = common.parent().unwrap_or_else(VfsPath::root);
    }
    common
}
