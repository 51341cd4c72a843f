//! Batches: one change of many steps in one Store.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::error::{Error, Result, Visibility};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{
    Content, IfMissing, LinkHit, Parents, Precondition, Side, Step, Store, StoreError, StorePath, Subtree,
};
use crate::vfs::call::{Call, ChangeStage, ParsedPath};
use crate::vfs::own_files::PriorContent;
use crate::vfs::resolve::{ResolvedPath, stat_or_symlink_hit};
use crate::vfs::write::{same_store, write_result};
use crate::vfs::{IntoPath, Vfs, WriteOptions, WriteResult};

impl Vfs {
    /// Starts a batch: many steps in one Store, applied whole or not at all.
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            vfs: self,
            steps: Vec::new(),
            paths: Vec::new(),
            reported_paths: Vec::new(),
            store: None,
            parent_symlinks: HashMap::new(),
            expect_free: Vec::new(),
            created_git_names: HashSet::new(),
            blind_at: None,
        }
    }
}

/// Many steps of one change. Each is authorized when it is added; nothing is applied before [`Batch::apply`].
#[derive(Debug)]
pub struct Batch<'a> {
    vfs: &'a Vfs,
    steps: Vec<Step>,
    paths: Vec<VfsPath>,
    /// The same paths as the caller may know them, and whether it may read there.
    reported_paths: Vec<(VfsPath, Visibility)>,
    store: Option<Arc<dyn Store>>,
    /// The first symlink on the way to each parent directory, if there is one.
    parent_symlinks: HashMap<VfsPath, Option<LinkHit>>,
    /// Names that must still be free when the batch is applied ([`crate::store::Change::expect_free`]).
    expect_free: Vec<(Arc<dyn Store>, StorePath)>,
    /// Names that git looks for in a repository and that the batch creates.
    created_git_names: HashSet<StorePath>,
    /// The first path in a WRITE_ONLY Workspace ([`crate::store::Change::blind_at`]).
    blind_at: Option<(Arc<dyn Store>, StorePath)>,
}

impl<'a> Batch<'a> {
    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are no steps.
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
        self.add(path.into_path(), |call, resolved| {
            write_step(call, resolved, Content::Bytes(content.into()), options)
        })
    }

    /// Writes a whole file from a stream of any length, in constant memory.
    pub fn write_from(
        &mut self,
        path: impl IntoPath,
        reader: &mut dyn Read,
        options: &WriteOptions,
    ) -> Result<()> {
        self.add(path.into_path(), |call, resolved| {
            let sealed = call.draft_from_reader(resolved, reader)?;
            write_step(call, resolved, Content::Sealed(sealed), options)
        })
    }

    /// Makes a directory and its missing parents. An existing directory stays as it is.
    pub fn mkdir(&mut self, path: impl IntoPath, mode: Option<u32>) -> Result<()> {
        self.add(path.into_path(), |_, resolved| {
            Ok(Step::Mkdir { at: resolved.node_path.clone(), parents: Parents::Create, mode })
        })
    }

    /// Makes a symlink, or changes the target of an existing one.
    pub fn symlink(&mut self, path: impl IntoPath, target: &[u8]) -> Result<()> {
        self.add(path.into_path(), |_, resolved| {
            resolved.check_not_protected_ancestor()?;
            let (at, target) = (resolved.node_path.clone(), target.to_vec());
            Ok(Step::Symlink { at, target, parents: Parents::Create, expect: Precondition::Any })
        })
    }

    /// Removes a file or a symlink.
    pub fn remove_file(&mut self, path: impl IntoPath) -> Result<()> {
        self.add(path.into_path(), |_, resolved| {
            Ok(Step::Remove {
                at: resolved.node_path.clone(),
                subtree: Subtree::File,
                expect: Precondition::Any,
                if_missing: IfMissing::Ignore,
                protected: resolved.protected_names(Side::From, None),
                displaced: resolved.displaced_content(),
            })
        })
    }

    /// Sets permission bits and the time of the last modification.
    pub fn set_attributes(
        &mut self,
        path: impl IntoPath,
        mode: Option<u32>,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        self.add(path.into_path(), |_, resolved| {
            resolved.check_mode_change(mode)?;
            Ok(Step::SetAttr { at: resolved.node_path.clone(), mode, modified })
        })
    }

    /// Applies all steps, whole or not at all. Returns one result per step, in order.
    pub fn apply(self) -> Result<Vec<WriteResult>> {
        let Some(store) = self.store else { return Ok(Vec::new()) };
        let (vfs, steps, paths, reported_paths) = (self.vfs, self.steps, self.paths, self.reported_paths);
        vfs.call("batch", [Ok(common_directory(&paths))], |call, [directory]| {
            call.expect_free.replace(self.expect_free);
            call.blind_at.replace(self.blind_at);
            call.set_bytes(steps.iter().map(content_size).sum());
            if reported_paths.iter().any(|(_, visibility)| *visibility == Visibility::Hidden) {
                // A write replaces all of the content; setting attributes leaves the content as it is.
                let keeps_content = steps.iter().any(|step| matches!(step, Step::SetAttr { .. }));
                call.name_by_prior_content(if keeps_content {
                    PriorContent::MayRemain
                } else {
                    PriorContent::Replaced
                });
            }
            let applied = call.apply(&*store, steps, ChangeStage::Final).map_err(|cause| {
                // A Store names the step only for a symlink; every other failure is about the batch.
                let path = match &cause {
                    StoreError::Link(hit) => &reported_paths.get(hit.step).unwrap_or(&reported_paths[0]).0,
                    _ if reported_paths.len() == 1 => &reported_paths[0].0,
                    _ => directory,
                };
                let is_hidden =
                    reported_paths.iter().any(|(_, visibility)| *visibility == Visibility::Hidden);
                let visibility = if is_hidden { Visibility::Hidden } else { Visibility::Visible };
                Error::Store { path: path.clone(), visibility, cause }
            })?;
            for path in &paths {
                vfs.shared.read_set.forget(path);
            }
            let results = reported_paths.into_iter().zip(&applied.outcomes);
            let revision = applied.revision.map(|number| store.revision(number));
            let results = results.map(|((path, visibility), outcome)| {
                write_result(path, visibility, outcome, revision, call.operation())
            });
            Ok(results.collect())
        })
    }

    /// Authorizes a step and adds it. A refusal is recorded at once; an added step is recorded with the batch.
    fn add(
        &mut self,
        path: ParsedPath,
        step: impl FnOnce(&Call<'_>, &ResolvedPath<'_>) -> Result<Step>,
    ) -> Result<()> {
        let vfs = self.vfs;
        let added = vfs.subcall("batch", [path], |call, [path]| {
            call.created_git_names.replace(std::mem::take(&mut self.created_git_names));
            let resolved = self.resolve(call, path);
            self.created_git_names = call.created_git_names.take();
            let resolved = resolved?;
            self.steps.push(step(call, &resolved)?);
            self.reported_paths.push((resolved.reported_path().clone(), resolved.visibility()));
            self.paths.push(resolved.path);
            self.expect_free.append(&mut call.expect_free.borrow_mut());
            self.blind_at = self.blind_at.take().or_else(|| call.blind_at.take());
            Ok(())
        });
        added.map(drop)
    }

    /// Routes and authorizes a path. Follows redirects, except for a symlink in the last component. Asks the Store once
    /// per directory for the symlinks on the way.
    fn resolve<'v>(&mut self, call: &Call<'v>, path: &VfsPath) -> Result<ResolvedPath<'v>> {
        let (_, resolved) = call.resolve_and_call(path, Access::Write, |resolved| {
            let Some(parent) = resolved.path.parent().filter(|_| !resolved.is_workspace()) else {
                return Ok(());
            };
            let hit = match self.parent_symlinks.entry(parent) {
                Entry::Occupied(occupied) => occupied.into_mut(),
                Entry::Vacant(vacant) => {
                    let relative_path =
                        vacant.key().strip_prefix(resolved.workspace.prefix()).unwrap_or_default();
                    let node_path = resolved.workspace.mount().node_path(relative_path);
                    let hit = match stat_or_symlink_hit(resolved.store(), &node_path) {
                        Err(StoreError::Link(hit)) => Some(hit),
                        answer => answer.map(|_| None)?,
                    };
                    vacant.insert(hit)
                }
            };
            hit.clone().map_or(Ok(()), |hit| Err(StoreError::Link(hit)))
        })?;
        let store = resolved.workspace.mount().store();
        if !same_store(&**self.store.get_or_insert_with(|| Arc::clone(store)), &**store) {
            return Err(resolved.refusal(Error::Invalid(format!(
                "`{path}` is in another Store than the other paths; a batch can change only one Store"
            ))));
        }
        Ok(resolved)
    }
}

fn write_step(
    call: &Call<'_>,
    resolved: &ResolvedPath<'_>,
    content: Content,
    options: &WriteOptions,
) -> Result<Step> {
    resolved.check_not_protected_ancestor()?;
    call.check_size(content.size()).map_err(|cause| resolved.store_error(cause))?;
    call.check_own_precondition(resolved, options.expect).map_err(|error| error.into_error(resolved))?;
    Ok(Step::Write { at: resolved.node_path.clone(), content, options: options.put_options(resolved) })
}

/// How many bytes of content a step carries.
fn content_size(step: &Step) -> u64 {
    match step {
        Step::Write { content, .. } | Step::Append { content, .. } => content.size(),
        _ => 0,
    }
}

/// The deepest directory that contains all of these paths. `paths` must not be empty.
pub(super) fn common_directory(paths: &[VfsPath]) -> VfsPath {
    let mut common = paths[0].parent().unwrap_or_else(VfsPath::root);
    // `/` stands for paths of files and names in a State together.
    while !common.is_root() && !paths.iter().all(|path| path.strip_prefix(&common).is_some()) {
        common = common.parent().unwrap_or_else(VfsPath::root);
    }
    common
}
