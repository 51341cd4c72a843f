//! Changing files and directories with single calls. Batches, copies and open files have modules of their own.

use std::io::{ErrorKind, Read};
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::error::{Error, Result, Visibility};
use crate::identity::OperationId;
use crate::managed::Category;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{
    Content, DisplacedContent, DraftBase, HiddenRule, IfMissing, Parents, Precondition, ProtectedNames,
    PutOptions, RevisionId, SealedContent, Side, Step, StepOutcome, Store, StoreError, Subtree, SyncPolicy,
    TagRef, VersionTag,
};
use crate::vfs::call::{Call, ChangeStage};
use crate::vfs::hiding::hidden_stay_untouched;
use crate::vfs::own_files::{PriorContent, not_own_file};
use crate::vfs::resolve::{ResolvedCallError, ResolvedPath};
use crate::vfs::{IntoPath, LostUpdates, Vfs, VfsShared};
use crate::workspace::RootMode;

/// Content up to this size, in bytes, is cloned for each symlink that is followed. For larger content the path is
/// resolved first: for small content a clone is cheaper than that lookup.
const MAX_CLONED_CONTENT: usize = 64 << 10;

/// How a file is written.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    pub(super) expect: Precondition,
    mode: Option<u32>,
    modified: Option<Timestamp>,
    parents: Parents,
    pub(super) category: Option<Category>,
}

impl WriteOptions {
    /// Creates the file or replaces it, and makes missing parents.
    pub fn new() -> Self {
        WriteOptions::default()
    }

    /// Writes only if nothing is there.
    pub fn create_only(self) -> Self {
        WriteOptions { expect: Precondition::Absent, ..self }
    }

    /// Writes only if the file has this version tag.
    pub fn if_match(self, tag: impl Into<TagRef>) -> Self {
        WriteOptions { expect: tag.into().into(), ..self }
    }

    /// Sets these permission bits.
    pub fn mode(self, mode: u32) -> Self {
        WriteOptions { mode: Some(mode & 0o7777), ..self }
    }

    /// Sets this time of the last modification.
    pub fn modified(self, at: Timestamp) -> Self {
        WriteOptions { modified: Some(at), ..self }
    }

    /// Writes only if the parent directory exists.
    pub fn existing_parent(self) -> Self {
        WriteOptions { parents: Parents::Required, ..self }
    }

    /// Puts a file whose path is directly below a managed Workspace into this category, whatever its name says. Fails for any
    /// other path.
    pub fn category(self, category: Category) -> Self {
        WriteOptions { category: Some(category), ..self }
    }

    /// The Store's options for a write at this path.
    pub(super) fn put_options(&self, resolved: &ResolvedPath<'_>) -> PutOptions {
        let WriteOptions { expect, mode, modified, parents, category: _ } = *self;
        // An error about a missing parent would disclose what is there.
        let parents = if resolved.visibility() == Visibility::Hidden { Parents::Create } else { parents };
        PutOptions {
            expect,
            parents,
            mode,
            modified,
            displaced: resolved.displaced_content(),
            max_size: None,
        }
    }
}

/// What a write did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteResult {
    /// The path, with symlinks resolved.
    pub path: VfsPath,
    /// Whether the file is new; `None` in a WRITE_ONLY Workspace, where that is not disclosed.
    pub created: Option<bool>,
    /// The version tag after the write; `None` in a WRITE_ONLY Workspace.
    pub tag: Option<VersionTag>,
    /// The revision that the change made, on a Store with history; `None` in a WRITE_ONLY Workspace.
    pub revision: Option<RevisionId>,
    /// The operation that the change belongs to.
    pub operation: OperationId,
    /// The category of the file, if it is one of a managed Workspace.
    pub category: Option<Category>,
    /// How many files were replaced or removed whose content is too large to be kept, so that this can't be undone for them; 0 in a
    /// WRITE_ONLY Workspace.
    pub not_kept: u64,
}

/// How something is removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemoveOptions {
    /// Removes a directory with everything in it.
    pub recursive: bool,
    /// Succeeds if nothing is there.
    pub force: bool,
    /// Removes it only if it has this version tag.
    pub if_match: Option<TagRef>,
}

/// What a removal did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoveResult {
    /// The path.
    pub path: VfsPath,
    /// Whether the caller may know that something was removed. `false` in a WRITE_ONLY Workspace: there the answer is
    /// the same whatever was there, even if it could not be removed.
    pub is_disclosed: bool,
    /// The revision that the change made, on a Store with history; `None` in a WRITE_ONLY Workspace.
    pub revision: Option<RevisionId>,
    /// The operation that the change belongs to.
    pub operation: OperationId,
    /// How many files were replaced or removed whose content is too large to be kept, so that this can't be undone for them; 0 in a
    /// WRITE_ONLY Workspace.
    pub not_kept: u64,
}

impl ResolvedPath<'_> {
    pub(super) fn displaced_content(&self) -> DisplacedContent {
        if self.workspace.scratch().matches(self.relative_path()) {
            DisplacedContent::Discard
        } else {
            DisplacedContent::Keep
        }
    }

    /// The names that a step on a whole subtree here must not touch.
    pub(super) fn protected_names(&self, side: Side, hidden: Option<HiddenRule>) -> Option<ProtectedNames> {
        let globs = Arc::clone(self.workspace.protect());
        let (mut roots, hidden) = (vec![self.relative_path().to_owned()], hidden.map(Box::new));
        roots.extend(self.path_in_store().map(str::to_owned));
        Some(ProtectedNames { globs, roots, side, hidden }).filter(|protected| !protected.is_empty())
    }

    /// Refuses a file or a symlink at a directory that leads to something protected: it would take the place of what is
    /// protected.
    pub(super) fn check_not_protected_ancestor(&self) -> Result<()> {
        let protect = self.workspace.protect();
        if protect.is_ancestor_of_match(self.relative_path())
            || self.path_in_store().is_some_and(|path| protect.is_ancestor_of_match(path))
        {
            let workspace = self.workspace.prefix().clone();
            return Err(self.refusal(Error::Protected { path: self.path.clone(), workspace }));
        }
        Ok(())
    }

    /// Refuses other permission bits for the root directory of a Workspace where they are fixed.
    pub(super) fn check_mode_change(&self, mode: Option<u32>) -> Result<()> {
        let is_root = self.relative_path().is_empty();
        match mode.is_some() && is_root && self.workspace.root_mode() == RootMode::Fixed {
            true => Err(self.refusal(Error::FixedRootMode { path: self.path.clone() })),
            false => Ok(()),
        }
    }
}

impl Vfs {
    /// Writes a whole file: creates or replaces it, and makes missing parents.
    pub fn write(&self, path: impl IntoPath, content: impl Into<Vec<u8>>) -> Result<WriteResult> {
        self.write_with(path, content, &WriteOptions::new())
    }

    /// Writes a whole file, with options.
    pub fn write_with(
        &self,
        path: impl IntoPath,
        content: impl Into<Vec<u8>>,
        options: &WriteOptions,
    ) -> Result<WriteResult> {
        self.call("write", [path.into_path()], |call, [path]| {
            let bytes = content.into();
            call.set_bytes(bytes.len() as u64);
            call.begin_put(path, options)?;
            if bytes.len() > MAX_CLONED_CONTENT {
                let resolved = call.resolve_to_put(path)?;
                return call.put_resolved(&resolved, Content::Bytes(bytes), options);
            }
            let (written, _) =
                call.resolve_and_call(path, Access::Write, |resolved| -> Result<_, ResolvedCallError> {
                    call.put_at(resolved, Content::Bytes(bytes.clone()), options)
                })?;
            Ok(written)
        })
    }

    /// Writes a whole file from a stream of any length, in constant memory.
    pub fn write_from(
        &self,
        path: impl IntoPath,
        reader: &mut dyn Read,
        options: &WriteOptions,
    ) -> Result<WriteResult> {
        self.call("write", [path.into_path()], |call, [path]| {
            call.begin_put(path, options)?;
            let resolved = call.resolve_to_put(path)?;
            let sealed = call.draft_from_reader(&resolved, reader)?;
            call.set_bytes(sealed.size());
            call.put_resolved(&resolved, Content::Sealed(sealed), options)
        })
    }

    /// Makes a directory. `parents` says whether missing parents are made, too.
    pub fn mkdir(&self, path: impl IntoPath, parents: Parents) -> Result<WriteResult> {
        self.call("mkdir", [path.into_path()], |call, [path]| {
            let result = call.resolve_and_call(path, Access::Write, |resolved| {
                // An error about a missing parent would disclose what is there, and one about a synthetic directory would
                // contradict its listing.
                let creates_parents =
                    resolved.visibility() == Visibility::Hidden || call.is_in_synthetic_directory(resolved);
                let parents = if creates_parents { Parents::Create } else { parents };
                let step = Step::Mkdir { at: resolved.node_path.clone(), parents, mode: None };
                call.apply_step(resolved, step).map(|(_, written)| written)
            });
            match result {
                Err(error) if error.reveals_existence() => call.undisclosed_result(path),
                result => result.map(|(written, _)| written),
            }
        })
    }

    /// Makes a symlink; fails if something is there. Its target is authorized whenever the symlink is followed.
    pub fn symlink(&self, path: impl IntoPath, target: &str) -> Result<WriteResult> {
        self.call("symlink", [path.into_path()], |call, [path]| {
            if target.is_empty() || target.contains('\0') || target.len() > crate::path::MAX_PATH {
                return Err(Error::Invalid(
                    "a symlink's target has to be a path of 1 to 4096 bytes without NUL".into(),
                ));
            }
            let (written, _) =
                call.resolve_and_call(path, Access::Write, |resolved| -> Result<_, ResolvedCallError> {
                    resolved.check_not_protected_ancestor()?;
                    let step = Step::Symlink {
                        at: resolved.node_path.clone(),
                        target: target.as_bytes().to_vec(),
                        parents: Parents::Create,
                        expect: Precondition::Absent,
                    };
                    Ok(call.apply_step(resolved, step)?.1)
                })?;
            Ok(written)
        })
    }

    /// Sets permission bits and the time of the last modification.
    pub fn set_attributes(
        &self,
        path: impl IntoPath,
        mode: Option<u32>,
        modified: Option<Timestamp>,
    ) -> Result<WriteResult> {
        self.call("set_attributes", [path.into_path()], |call, [path]| {
            let (written, _) =
                call.resolve_and_call(path, Access::Write, |resolved| -> Result<_, ResolvedCallError> {
                    resolved.check_mode_change(mode)?;
                    if resolved.visibility() == Visibility::Hidden {
                        call.check_own_file(resolved)?;
                    }
                    call.name_as_set_attributes(resolved);
                    let step = Step::SetAttr { at: resolved.node_path.clone(), mode, modified };
                    let (outcome, written) = call.apply_step(resolved, step)?;
                    call.advance_read_set(resolved, &outcome);
                    Ok(written)
                })?;
            Ok(written)
        })
    }

    /// Removes a file or a symlink.
    pub fn remove_file(&self, path: impl IntoPath, options: RemoveOptions) -> Result<RemoveResult> {
        self.call("remove", [path.into_path()], |call, [path]| call.remove(path, Subtree::File, options))
    }

    /// Removes a directory: an empty one, or, with `recursive`, with everything in it.
    pub fn remove_directory(&self, path: impl IntoPath, options: RemoveOptions) -> Result<RemoveResult> {
        let subtree = if options.recursive { Subtree::Directory } else { Subtree::EmptyDirectory };
        self.call("remove", [path.into_path()], |call, [path]| call.remove(path, subtree, options))
    }
}

impl Call<'_> {
    /// Writes a stream into a draft of the Store at this path.
    pub(super) fn draft_from_reader(
        &self,
        resolved: &ResolvedPath<'_>,
        reader: &mut dyn Read,
    ) -> Result<SealedContent> {
        let failed = |cause| resolved.store_error(cause);
        let mut draft = resolved.store().draft(DraftBase::Empty).map_err(failed)?;
        let mut buffer = vec![0; 256 << 10];
        let mut size = 0;
        loop {
            let count = match reader.read(&mut buffer) {
                Ok(0) => return draft.seal().map_err(failed),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(Error::Invalid(format!(
                        "the content to write can't be read: {}",
                        error.kind()
                    )));
                }
            };
            self.check_size(size + count as u64).map_err(failed)?;
            draft.write_at(size, &buffer[..count]).map_err(failed)?;
            size += count as u64;
        }
    }

    /// Writes content to a path whose symlinks have been followed.
    fn put_resolved(
        &self,
        resolved: &ResolvedPath<'_>,
        content: Content,
        options: &WriteOptions,
    ) -> Result<WriteResult> {
        self.put_at(resolved, content, options).map_err(|error| match error {
            // The path was not a symlink when it was resolved.
            ResolvedCallError::Store(StoreError::Link(_)) => resolved.store_error(StoreError::Conflict),
            error => error.into_error(resolved),
        })
    }

    fn put_at(
        &self,
        resolved: &ResolvedPath<'_>,
        content: Content,
        options: &WriteOptions,
    ) -> Result<WriteResult, ResolvedCallError> {
        resolved.check_not_protected_ancestor()?;
        self.check_size(content.size())?;
        let VfsShared { read_set, lost_updates, .. } = self.shared();
        let guard = match (options.expect, lost_updates) {
            // A WRITE_ONLY caller can't re-read, so the lost-update guard is off for it.
            (Precondition::Any, LostUpdates::Refuse) if resolved.visibility() == Visibility::Visible => {
                read_set.last_read_tag(&resolved.path)
            }
            _ => None,
        };
        let expect = guard.map_or(options.expect, Precondition::TagOrAbsent);
        let put_options = PutOptions { expect, ..options.put_options(resolved) };
        let step = Step::Write { at: resolved.node_path.clone(), content, options: put_options };
        self.check_own_precondition(resolved, options.expect)?;
        self.note_prior_content(resolved, PriorContent::Replaced);
        let (outcome, written) = match self.apply_step(resolved, step) {
            Err(StoreError::Conflict) if guard.is_some() => {
                return Err(Error::LostUpdate { path: resolved.path.clone() }.into());
            }
            answer => answer.map_err(|cause| precondition_error(resolved, options.expect, cause))?,
        };
        if let Some(attr) = outcome.attr {
            read_set.record(&resolved.path, attr.tag);
        }
        Ok(written)
    }

    pub(super) fn check_size(&self, size: u64) -> Result<(), StoreError> {
        let limit = self.shared().limits.max_file_size;
        if size > limit { Err(StoreError::TooLarge { size, limit }) } else { Ok(()) }
    }

    pub(super) fn advance_read_set(&self, resolved: &ResolvedPath<'_>, outcome: &StepOutcome) {
        if let Some(attr) = outcome.attr {
            self.shared().read_set.advance(&resolved.path, outcome.before, attr.tag);
        }
    }

    fn remove(&self, path: &VfsPath, subtree: Subtree, options: RemoveOptions) -> Result<RemoveResult> {
        let expect = options.if_match.map_or(Precondition::Any, Precondition::from);
        let removed =
            self.resolve_and_call(path, Access::Write, |resolved| -> Result<_, ResolvedCallError> {
                self.check_movable(resolved)?;
                self.check_own_precondition(resolved, expect)?;
                let step = Step::Remove {
                    at: resolved.node_path.clone(),
                    subtree,
                    expect,
                    if_missing: if options.force { IfMissing::Ignore } else { IfMissing::Fail },
                    protected: resolved.protected_names(Side::From, hidden_stay_untouched([resolved])),
                    displaced: resolved.displaced_content(),
                };
                Ok(self
                    .apply_step(resolved, step)
                    .map_err(|cause| precondition_error(resolved, expect, cause))?
                    .1)
            });
        let (written, is_disclosed) = match removed {
            Err(error) if expect == Precondition::Any && error.reveals_existence() => {
                (self.undisclosed_result(path)?, false)
            }
            removed => {
                removed.map(|(written, resolved)| (written, resolved.visibility() == Visibility::Visible))?
            }
        };
        let WriteResult { path, revision, operation, not_kept, .. } = written;
        Ok(RemoveResult { path, is_disclosed, revision, operation, not_kept })
    }

    /// The result where the caller may know neither what was there nor whether anything changed. Applies an empty
    /// change, so that a revision is made as for a change that succeeds.
    fn undisclosed_result(&self, path: &VfsPath) -> Result<WriteResult> {
        let failed = |cause| Error::Store { path: path.clone(), visibility: Visibility::Hidden, cause };
        self.apply_empty_change(SyncPolicy::Now).map_err(failed)?;
        let operation = self.operation();
        Ok(undisclosed_write(path.clone(), operation))
    }

    /// Refuses to move, replace or remove a Workspace, or a directory that contains one.
    pub(super) fn check_movable(&self, resolved: &ResolvedPath<'_>) -> Result<()> {
        if resolved.is_workspace() {
            return Err(Error::IsWorkspace { path: resolved.path.clone() });
        }
        self.check_contains_no_workspace(resolved)
    }

    pub(super) fn check_contains_no_workspace(&self, resolved: &ResolvedPath<'_>) -> Result<()> {
        let mut nested = self.shared().router.nested(&resolved.path).peekable();
        if nested.peek().is_none() {
            return Ok(());
        }
        let path = resolved.path.clone();
        Err(match nested.find(|nested| !nested.is_absent()) {
            Some(nested) => Error::ContainsWorkspace { path, nested: nested.prefix().clone() },
            None => Error::ContainsExcluded { path },
        })
    }

    /// Applies a change of one step, which completes the call.
    pub(super) fn apply_step(
        &self,
        resolved: &ResolvedPath<'_>,
        step: Step,
    ) -> Result<(StepOutcome, WriteResult), StoreError> {
        let applied = self.apply(resolved.store(), vec![step], ChangeStage::Final)?;
        let outcome = applied.outcomes.first().copied().unwrap_or_default();
        let written = write_result(
            resolved.reported_path().clone(),
            resolved.visibility(),
            &outcome,
            applied.revision.map(|number| resolved.store().revision(number)),
            self.operation(),
        );
        let category = resolved.hidden.is_none().then(|| resolved.managed_category()).flatten();
        let not_kept = self.disclosed_not_kept(resolved.visibility());
        Ok((outcome, WriteResult { category, not_kept, ..written }))
    }
}

pub(super) fn write_result(
    path: VfsPath,
    visibility: Visibility,
    outcome: &StepOutcome,
    revision: Option<RevisionId>,
    operation: OperationId,
) -> WriteResult {
    match visibility {
        Visibility::Visible => {
            let tag = outcome.attr.map(|attr| attr.tag);
            let created = Some(outcome.created);
            WriteResult { path, created, tag, revision, operation, category: None, not_kept: 0 }
        }
        Visibility::Hidden => undisclosed_write(path, operation),
    }
}

/// The result without a version tag or a revision, which would disclose whether the file existed before.
fn undisclosed_write(path: VfsPath, operation: OperationId) -> WriteResult {
    let (created, tag, revision, category) = (None, None, None, None);
    WriteResult { path, created, tag, revision, operation, category, not_kept: 0 }
}

/// The error of a change with a version tag precondition. Where the caller may not read, a mismatch now means that
/// another writer has changed or removed the file since its tag was checked, so it is no longer the caller's own.
pub(super) fn precondition_error(
    resolved: &ResolvedPath<'_>,
    expect: Precondition,
    cause: StoreError,
) -> ResolvedCallError {
    match expect {
        Precondition::Tag(_) | Precondition::ShortTag(_)
            if resolved.visibility() == Visibility::Hidden && is_changed_meanwhile(&cause) =>
        {
            not_own_file(resolved).into()
        }
        _ => cause.into(),
    }
}

/// Whether a step failed because what is at the path has changed since it was checked.
fn is_changed_meanwhile(cause: &StoreError) -> bool {
    matches!(
        cause,
        StoreError::Conflict
            | StoreError::NotFound
            | StoreError::NotADirectory
            | StoreError::IsADirectory
            | StoreError::Link(_)
            | StoreError::Special(_)
    )
}

/// Tells one Store from another, as long as both are open.
pub(super) type StoreKey = usize;

pub(super) fn store_key(store: &dyn Store) -> StoreKey {
    std::ptr::from_ref(store).cast::<()>().addr()
}

/// Whether two references are to the same Store.
pub(super) fn same_store(one: &dyn Store, other: &dyn Store) -> bool {
    one.id() == other.id()
}
