//! Copying and moving, within a Workspace and across Workspaces.
//!
//! Both ends are authorized before either Store is changed. Within one Store, a copy or move is one step. Across
//! Stores, and where hidden names have to be left out, a copy is one change of the destination with a step for each
//! entry; a move across Stores is a copy, a verification, and then the removal of the source.

use std::io::Read;
use std::ops::ControlFlow;

use crate::error::{Error, Result, Visibility};
use crate::identity::OperationId;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::search::WalkOptions;
use crate::store::{
    Attr, Content, IfMissing, NodeKind, NodePath, OpenContent, OpenPurpose, Parents, Precondition,
    PutOptions, Replace, RevisionId, RevisionNumber, Side, Step, StoreError, StorePath, Subtree, TagRef,
    Usage, VersionTag,
};
use crate::vfs::call::{Call, ChangeStage, ParsedPath};
use crate::vfs::hiding::{HiddenTops, hidden_stay_untouched};
use crate::vfs::own_files::PriorContent;
use crate::vfs::resolve::ResolvedPath;
use crate::vfs::write::same_store;
use crate::vfs::{IntoPath, Vfs, git_repository};

/// What happens to an existing file at the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// The file stays and the call fails.
    #[default]
    Refuse,
    /// Its content is replaced; its mode stays.
    Replace,
}

/// What a copy or a move did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyResult {
    /// The source, with symlinks on the way resolved.
    pub from: VfsPath,
    /// The destination, with symlinks on the way resolved.
    pub to: VfsPath,
    /// How many files, directories and symlinks were copied or moved, if known.
    pub entries: Option<u64>,
    /// How many names a copy left out because they are hidden from the caller, at the source or at the destination.
    pub hidden: u64,
    /// The version tag of the destination, if it is one file and the caller may read it.
    pub tag: Option<VersionTag>,
    /// The revision that the change made at the destination, if the caller may read it.
    pub revision: Option<RevisionId>,
    /// The operation that all changes of the copy or move belong to.
    pub operation: OperationId,
    /// How many files were replaced or removed whose content is too large to be kept, so that this can't be undone for them; 0 in a
    /// WRITE_ONLY Workspace.
    pub not_kept: u64,
}

/// The two ends of a copy or a move, both authorized.
struct TransferEnds<'a> {
    from: &'a ResolvedPath<'a>,
    to: &'a ResolvedPath<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TransferKind {
    Copy,
    Move,
}

impl Vfs {
    /// Copies a file, a symlink or a whole directory.
    pub fn copy(&self, from: impl IntoPath, to: impl IntoPath, overwrite: Overwrite) -> Result<CopyResult> {
        self.transfer(TransferKind::Copy, from.into_path(), to.into_path(), overwrite, None)
    }

    /// Moves a file, a symlink or a whole directory. Across Stores it is a copy, a verification, and then the removal
    /// of the source.
    pub fn rename(&self, from: impl IntoPath, to: impl IntoPath, overwrite: Overwrite) -> Result<CopyResult> {
        self.transfer(TransferKind::Move, from.into_path(), to.into_path(), overwrite, None)
    }

    /// Moves something if it has the given version tag; otherwise fails with a Conflict.
    pub fn rename_if(
        &self,
        from: impl IntoPath,
        to: impl IntoPath,
        overwrite: Overwrite,
        if_match: impl Into<TagRef>,
    ) -> Result<CopyResult> {
        self.transfer(TransferKind::Move, from.into_path(), to.into_path(), overwrite, Some(if_match.into()))
    }

    fn transfer(
        &self,
        kind: TransferKind,
        from: ParsedPath,
        to: ParsedPath,
        overwrite: Overwrite,
        tag: Option<TagRef>,
    ) -> Result<CopyResult> {
        let name = if kind == TransferKind::Copy { "copy" } else { "move" };
        self.call(name, [from, to], |call, [from, to]| call.transfer(kind, from, to, overwrite, tag))
    }
}

impl<'v> Call<'v> {
    fn transfer(
        &self,
        kind: TransferKind,
        from: &VfsPath,
        to: &VfsPath,
        overwrite: Overwrite,
        tag: Option<TagRef>,
    ) -> Result<CopyResult> {
        let (result, _) = self.follow_redirects(
            [from, to],
            |[from, to]| self.authorize_ends(kind, from, to),
            |[from, to]| match self.transfer_resolved(kind, &TransferEnds { from, to }, overwrite, tag) {
                Err(Error::Store { cause: cause @ StoreError::Link(_), .. }) => Err(cause.into()),
                result => {
                    self.shared().read_set.forget(&to.path);
                    Ok(result?)
                }
            },
        )?;
        Ok(result)
    }

    /// Authorizes both ends, before anything is copied.
    fn authorize_ends(
        &self,
        kind: TransferKind,
        from: &VfsPath,
        to: &VfsPath,
    ) -> [Result<ResolvedPath<'v>>; 2] {
        let prefix = |path| self.shared().router.route(path).map(|route| route.workspace.prefix());
        let is_within_workspace = prefix(from).is_some() && prefix(from) == prefix(to);
        let access = match kind {
            TransferKind::Copy => Access::Read,
            TransferKind::Move if is_within_workspace => Access::Write,
            TransferKind::Move => Access::MoveOut,
        };
        let source = self.authorize(from, access).and_then(|source| {
            match kind {
                TransferKind::Copy => self.check_contains_no_workspace(&source)?,
                TransferKind::Move => self.check_movable(&source)?,
            }
            Ok(source)
        });
        let target = self.authorize(to, Access::Write).and_then(|target| {
            self.check_movable(&target)?;
            Ok(target)
        });
        [source, target]
    }

    fn transfer_resolved(
        &self,
        kind: TransferKind,
        ends: &TransferEnds<'_>,
        overwrite: Overwrite,
        mut tag: Option<TagRef>,
    ) -> Result<CopyResult> {
        let TransferEnds { from, to } = ends;
        if kind == TransferKind::Move && from.visibility() == Visibility::Hidden {
            let own_tag = self.check_own_file(from)?;
            if tag.is_some_and(|tag| !tag.matches(own_tag)) {
                return Err(from.store_error(StoreError::Conflict));
            }
            tag = Some(own_tag.into());
        }
        self.check_path_limits(from, to)?;
        let is_directory =
            || from.store().stat(&from.node_path).is_ok_and(|attr| attr.kind == NodeKind::Directory);
        if from.workspace.protect().is_empty() && !to.workspace.protect().is_empty() && is_directory() {
            git_repository::check_no_repository(from).map_err(|cause| from.store_error(cause))?;
        }
        if kind == TransferKind::Copy
            && from.is_workspace()
            && matches!(from.store().stat(&from.node_path), Err(StoreError::NotFound))
        {
            return self.copy_synthetic_directory(ends, overwrite);
        }
        if same_store(from.store(), to.store()) {
            if kind == TransferKind::Move && from.node_path == to.node_path {
                return Err(self.same_file_error(ends));
            }
            self.transfer_within_store(kind, ends, overwrite, tag)
        } else {
            self.transfer_entries(kind, ends, overwrite, tag)
        }
    }

    /// Copies a Workspace whose Store has nothing at its path yet: it is listed as an empty directory, so the copy is one.
    fn copy_synthetic_directory(&self, ends: &TransferEnds<'_>, overwrite: Overwrite) -> Result<CopyResult> {
        let to = ends.to;
        match to.store().stat(&to.node_path) {
            Err(StoreError::NotFound) => {}
            Err(cause) => return Err(to.store_error(cause.in_step(0, Side::To))),
            Ok(_) => return Err(to.store_error(hide_existing(to, overwrite, StoreError::AlreadyExists))),
        }
        let step = Step::Mkdir { at: to.node_path.clone(), parents: Parents::Create, mode: None };
        let applied = self.apply(to.store(), vec![step], ChangeStage::Final);
        let applied = applied.map_err(|cause| to.store_error(cause.in_step(0, Side::To)))?;
        Ok(self.copy_result(ends, (Some(1), 0), None, applied.revision))
    }

    /// The error of a move to its own place, by the same path or by that of another Workspace on the same files. What
    /// doesn't exist is reported as missing, unless the caller may not know.
    fn same_file_error(&self, ends: &TransferEnds<'_>) -> Error {
        let TransferEnds { from, to } = ends;
        match from.store().stat(&from.node_path) {
            Err(cause) if from.visibility() == Visibility::Visible => from.store_error(cause),
            _ => Error::Invalid(format!(
                "`{}` and `{}` are the same file, so nothing was moved",
                from.reported_path(),
                to.reported_path()
            )),
        }
    }

    fn transfer_within_store(
        &self,
        kind: TransferKind,
        ends: &TransferEnds<'_>,
        overwrite: Overwrite,
        tag: Option<TagRef>,
    ) -> Result<CopyResult> {
        let TransferEnds { from, to } = ends;
        let mut expect = tag.map_or(Precondition::Any, Precondition::from);
        if to.check_not_protected_ancestor().is_err() {
            let attr = from.store().stat(&from.node_path).map_err(|cause| from.store_error(cause))?;
            if attr.kind != NodeKind::Directory {
                to.check_not_protected_ancestor()?;
            }
            if expect == Precondition::Any {
                expect = Precondition::Tag(attr.tag);
            }
        }
        let replace = match overwrite {
            Overwrite::Refuse => Replace::Refuse,
            Overwrite::Replace => Replace::Overwrite,
        };
        let step = match kind {
            TransferKind::Move => Step::Rename {
                from: from.node_path.clone(),
                to: to.node_path.clone(),
                replace,
                parents: Parents::Create,
                expect,
                protected: [
                    from.protected_names(Side::From, hidden_stay_untouched([from])),
                    to.protected_names(Side::To, hidden_stay_untouched([to])),
                ],
            },
            TransferKind::Copy => Step::Copy {
                from: from.node_path.clone(),
                to: to.node_path.clone(),
                replace,
                parents: Parents::Create,
                protected: to.protected_names(Side::To, hidden_stay_untouched([from, to])),
                displaced: to.displaced_content(),
            },
        };
        let mut steps = vec![step];
        if let (TransferKind::Move, Overwrite::Replace) = (kind, overwrite)
            && let Ok(existing) = to.store().stat(&to.node_path)
            && existing.kind == NodeKind::File
            && from.path != to.path
        {
            // The destination keeps its mode, so that a script stays executable when another file is moved over it.
            steps.push(Step::SetAttr { at: to.node_path.clone(), mode: Some(existing.mode), modified: None });
        }
        self.note_prior_content(to, PriorContent::Replaced);
        let applied = match self.apply(from.store(), steps, ChangeStage::Final) {
            // A Store copies a directory whole or not at all, so what isn't hidden is copied entry by entry.
            Err(StoreError::ContainsHidden) if kind == TransferKind::Copy => {
                return self.transfer_entries(kind, ends, overwrite, tag);
            }
            applied => applied,
        };
        let applied = applied.map_err(|cause| {
            let cause = hide_existing(to, overwrite, cause);
            let about_target = matches!(
                cause,
                StoreError::AlreadyExists
                    | StoreError::NotEmpty
                    | StoreError::InvalidName(_)
                    | StoreError::OverQuota { .. }
            ) || (matches!(cause, StoreError::IsADirectory | StoreError::NotADirectory)
                && overwrite == Overwrite::Replace);
            // If the caller may not read the destination, the error has to be about the destination: about the source,
            // it would disclose what is there.
            let is_hidden_target =
                || to.visibility() == Visibility::Hidden && from.store().stat(&from.node_path).is_ok();
            let is_link = matches!(cause, StoreError::Link(_));
            if about_target || (!is_link && is_hidden_target()) {
                to.store_error(cause)
            } else {
                from.store_error(cause)
            }
        })?;
        let tag = applied.outcomes.last().and_then(|outcome| outcome.attr).map(|attr| attr.tag);
        Ok(self.copy_result(ends, (None, 0), tag, applied.revision))
    }

    /// The result of a copy or a move, without what the caller may not know.
    fn copy_result(
        &self,
        ends: &TransferEnds<'_>,
        (entries, hidden): (Option<u64>, u64),
        tag: Option<VersionTag>,
        revision: Option<RevisionNumber>,
    ) -> CopyResult {
        let is_visible = ends.to.visibility() == Visibility::Visible;
        let (from, to) = (ends.from.reported_path().clone(), ends.to.reported_path().clone());
        let revision = revision.filter(|_| is_visible).map(|number| ends.to.store().revision(number));
        let tag = tag.filter(|_| is_visible);
        let not_kept = self.disclosed_not_kept(ends.to.visibility());
        CopyResult { from, to, entries, hidden, tag, revision, operation: self.operation(), not_kept }
    }

    /// Copies or moves entry by entry, as one change of the destination.
    fn transfer_entries(
        &self,
        kind: TransferKind,
        ends: &TransferEnds<'_>,
        overwrite: Overwrite,
        tag: Option<TagRef>,
    ) -> Result<CopyResult> {
        let TransferEnds { from, to } = ends;
        let attr = from.store().stat(&from.node_path).map_err(|cause| from.store_error(cause))?;
        if tag.is_some_and(|tag| !tag.matches(attr.tag)) {
            return Err(from.store_error(StoreError::Conflict));
        }
        let mut plan = TransferPlan {
            call: self,
            from,
            to,
            steps: Vec::new(),
            entries: Vec::new(),
            hidden: 0,
            bytes: 0,
        };
        match to.store().stat(&to.node_path) {
            Err(StoreError::NotFound) => {}
            Err(cause) => return Err(to.store_error(cause.in_step(0, Side::To))),
            Ok(_) if overwrite == Overwrite::Refuse || attr.kind == NodeKind::Directory => {
                return Err(to.store_error(hide_existing(to, overwrite, StoreError::AlreadyExists)));
            }
            Ok(existing) if existing.kind == NodeKind::Directory => {
                return Err(to.store_error(StoreError::IsADirectory));
            }
            // If either end is a symlink, what is at the destination is removed first: a write would follow a symlink
            // there.
            Ok(existing) if existing.kind == NodeKind::Symlink || attr.kind == NodeKind::Symlink => {
                plan.clear_destination()
            }
            Ok(_) => {}
        }
        if attr.kind == NodeKind::Directory {
            plan.add_directory(kind, &attr)?;
        } else {
            to.check_not_protected_ancestor()?;
            plan.add_entry(&StorePath::empty(), &attr, overwrite)?;
        }
        let TransferPlan { steps, entries: transferred, hidden, bytes, .. } = plan;
        self.set_bytes(bytes);
        let stage = if kind == TransferKind::Copy { ChangeStage::Final } else { ChangeStage::Intermediate };
        self.note_prior_content(to, PriorContent::Replaced);
        let files = transferred.iter().filter(|entry| entry.kind != NodeKind::Directory).count() as u64;
        let applied = self.apply_with(to.store(), steps, stage, |change| {
            if kind == TransferKind::Move {
                // What the move is about to remove at the source must not count twice.
                let moved = Usage { bytes, files };
                change
                    .quotas
                    .iter_mut()
                    .for_each(|quota| quota.usage_elsewhere = quota.usage_elsewhere.minus(moved));
            }
        });
        let applied = applied.map_err(|cause| to.store_error(cause))?;
        if kind == TransferKind::Move {
            // The move can be stopped as long as the copy can be removed again, that is, if it has replaced nothing.
            let can_stop = overwrite == Overwrite::Refuse;
            let removed = self
                .verify_transferred(to, &transferred, can_stop)
                .and_then(|()| self.remove_source(from, &attr, &transferred, can_stop));
            if let Err(error) = removed {
                // Remove the copy, unless it may be all that is left: the answer to a successful removal of the source
                // can be lost. A copy that replaced something stays, since removing it would not bring that back. A
                // removal that was stopped has been rolled back whole, even if its Store now shows other version tags
                // for the files.
                let is_source_intact =
                    || is_stopped(&error) || transferred.iter().all(|entry| entry.is_unchanged_at(from));
                if overwrite == Overwrite::Refuse && is_source_intact() {
                    self.remove_copy(to);
                }
                return Err(error);
            }
        }
        let entries = transferred.len() as u64;
        let tag = applied
            .outcomes
            .last()
            .filter(|_| entries == 1)
            .and_then(|outcome| outcome.attr)
            .map(|attr| attr.tag);
        Ok(self.copy_result(ends, (Some(entries), hidden), tag, applied.revision))
    }

    /// Checks that every copied file has the same content at the destination.
    fn verify_transferred(
        &self,
        to: &ResolvedPath<'_>,
        transferred: &[TransferredEntry],
        can_stop: bool,
    ) -> Result<()> {
        for entry in transferred {
            if can_stop {
                self.check_not_stopped()?;
            }
            if !entry.arrived_intact(to) {
                return Err(Error::CopyMismatch { path: to.reported_path().clone() });
            }
        }
        Ok(())
    }

    /// Removes exactly the entries that were copied. One that was added or changed since is a Conflict.
    fn remove_source(
        &self,
        from: &ResolvedPath<'_>,
        attr: &Attr,
        transferred: &[TransferredEntry],
        can_stop: bool,
    ) -> Result<()> {
        let (if_missing, displaced) = (IfMissing::Fail, from.displaced_content());
        let remove = |entry: &TransferredEntry| {
            let at = NodePath { base: from.node_path.base, path: from.node_path.path.join(&entry.path) };
            let (subtree, expect) = match entry.kind {
                NodeKind::Directory => (Subtree::EmptyDirectory, Precondition::Any),
                _ => (Subtree::File, Precondition::Tag(entry.tag)),
            };
            Step::Remove { at, subtree, expect, if_missing, protected: None, displaced }
        };
        if attr.kind == NodeKind::Directory
            && let Some(protected) = from.protected_names(Side::From, None)
        {
            let check = |entry: &TransferredEntry| protected.check(entry.path.as_bytes(), entry.kind);
            transferred.iter().try_for_each(check).map_err(|cause| from.store_error(cause))?;
        }
        // Deepest first: `transferred` lists a directory before its entries.
        let steps = transferred.iter().rev().map(remove).collect();
        let removed = self.apply_with(from.store(), steps, ChangeStage::Final, |change| {
            change.monitor = self.vfs.monitor.clone().filter(|_| can_stop);
        });
        match removed {
            Ok(_) => Ok(()),
            Err(StoreError::NotEmpty | StoreError::NotFound) => Err(from.store_error(StoreError::Conflict)),
            Err(cause) => Err(from.store_error(cause)),
        }
    }

    /// Removes the copy after a failed move. Nothing was there before, so this removes nothing else. If it fails, the
    /// copy stays.
    fn remove_copy(&self, to: &ResolvedPath<'_>) {
        let (at, displaced) = (to.node_path.clone(), to.displaced_content());
        let step = Step::Remove {
            at,
            subtree: Subtree::Any,
            expect: Precondition::Any,
            if_missing: IfMissing::Ignore,
            protected: None,
            displaced,
        };
        let _ = self.apply(to.store(), vec![step], ChangeStage::Intermediate);
    }
}

fn is_stopped(error: &Error) -> bool {
    matches!(error, Error::Stopped(_) | Error::Store { cause: StoreError::Stopped(_), .. })
}

/// Hides that a name is taken where the caller may not read. Only a call that asked not to overwrite learns it.
fn hide_existing(to: &ResolvedPath<'_>, overwrite: Overwrite, cause: StoreError) -> StoreError {
    match cause {
        StoreError::AlreadyExists
            if to.visibility() == Visibility::Hidden && overwrite == Overwrite::Replace =>
        {
            StoreError::HostDenied
        }
        cause => cause,
    }
}

/// The steps of a copy across Stores, and what they copy.
struct TransferPlan<'a> {
    call: &'a Call<'a>,
    from: &'a ResolvedPath<'a>,
    to: &'a ResolvedPath<'a>,
    steps: Vec<Step>,
    entries: Vec<TransferredEntry>,
    /// How many hidden names are left out.
    hidden: u64,
    /// The bytes of all copied files.
    bytes: u64,
}

/// A file, directory or symlink that was copied.
struct TransferredEntry {
    /// The path relative to the top of the copy.
    path: StorePath,
    kind: NodeKind,
    tag: VersionTag,
    /// The hash of the bytes read from the source, for a file.
    hash: Option<blake3::Hash>,
}

impl TransferredEntry {
    fn is_unchanged_at(&self, from: &ResolvedPath<'_>) -> bool {
        let node_path = NodePath { base: from.node_path.base, path: from.node_path.path.join(&self.path) };
        from.store()
            .stat(&node_path)
            .is_ok_and(|attr| attr.kind == NodeKind::Directory || attr.tag == self.tag)
    }

    fn arrived_intact(&self, to: &ResolvedPath<'_>) -> bool {
        self.hash.is_none_or(|hash| hash_at_destination(to, &self.path).is_ok_and(|copied| copied == hash))
    }
}

impl TransferPlan<'_> {
    /// Adds a step that removes what is at the destination.
    fn clear_destination(&mut self) {
        let (at, displaced) = (self.to.node_path.clone(), self.to.displaced_content());
        let (subtree, if_missing) = (Subtree::File, IfMissing::Ignore);
        self.steps.push(Step::Remove {
            at,
            subtree,
            expect: Precondition::Any,
            if_missing,
            protected: None,
            displaced,
        });
    }

    fn add_directory(&mut self, kind: TransferKind, attr: &Attr) -> Result<()> {
        let mut found = Vec::new();
        let walk = WalkOptions { report_hidden: true, ..WalkOptions::default() };
        let walked = self.from.store().walk(&self.from.node_path, &walk, &mut |entry| {
            found.push(entry);
            if self.call.check_not_stopped().is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        walked.map_err(|cause| self.from.store_error(cause))?;
        self.call.check_not_stopped()?;
        // A partial tree is not a copy.
        if let Some((_, cause)) = walk.unreadable.take().into_iter().next() {
            return Err(self.from.store_error(cause));
        }
        let mut hidden =
            HiddenTops::new([self.from, self.to].into_iter().filter_map(ResolvedPath::hidden_names));
        found.retain(|entry| !hidden.covers(&entry.path));
        self.hidden = hidden.count;
        if kind == TransferKind::Move && self.hidden > 0 {
            return Err(self.from.store_error(StoreError::ContainsHidden));
        }
        let at = self.to.node_path.clone();
        if let Some((parent, _)) = at.path.parent_and_name()
            && !parent.is_empty()
        {
            let parent = NodePath::from_root(StorePath::from_checked(parent));
            self.steps.push(Step::Mkdir { at: parent, parents: Parents::Create, mode: None });
        }
        self.steps.push(Step::Mkdir { at, parents: Parents::Required, mode: Some(attr.mode) });
        self.entries.push(TransferredEntry {
            path: StorePath::empty(),
            kind: attr.kind,
            tag: attr.tag,
            hash: None,
        });
        let total = found.len() as u64;
        for (done, entry) in found.into_iter().enumerate() {
            self.call.report_progress(done as u64, Some(total))?;
            self.add_entry(&entry.path, &entry.attr, Overwrite::Refuse)?;
        }
        // The last report before the steps are applied, as one change.
        self.call.report_progress(total, Some(total))?;
        Ok(())
    }

    fn add_entry(&mut self, relative_path: &StorePath, attr: &Attr, overwrite: Overwrite) -> Result<()> {
        let at = NodePath::from_root(self.to.node_path.path.join(relative_path));
        let source =
            NodePath { base: self.from.node_path.base, path: self.from.node_path.path.join(relative_path) };
        if let Some(protected) = self.to.protected_names(Side::To, None) {
            let checked = protected.check(relative_path.as_bytes(), attr.kind);
            checked.map_err(|cause| self.to.store_error(cause))?;
        }
        let failed = |cause| self.from.store_error(cause);
        let parents = Parents::Create;
        let expect = if overwrite == Overwrite::Refuse { Precondition::Absent } else { Precondition::Any };
        let mut entry =
            TransferredEntry { path: relative_path.clone(), kind: attr.kind, tag: attr.tag, hash: None };
        match attr.kind {
            NodeKind::Directory => self.steps.push(Step::Mkdir { at, parents, mode: Some(attr.mode) }),
            NodeKind::Symlink => {
                let target = self.from.store().read_link(&source).map_err(failed)?;
                self.steps.push(Step::Symlink { at, target, parents, expect });
            }
            NodeKind::File => {
                let content = self.from.store().open(&source, OpenPurpose::Read).map_err(failed)?;
                entry.tag = content.attr().tag;
                let mut reader = HashingReader {
                    call: self.call,
                    content: &*content,
                    offset: 0,
                    hasher: blake3::Hasher::new(),
                    failed: None,
                };
                let sealed = self.call.draft_from_reader(self.to, &mut reader);
                if let Some(cause) = reader.failed {
                    return Err(failed(cause));
                }
                self.call.check_not_stopped()?;
                let sealed = sealed?;
                self.bytes += sealed.size();
                entry.hash = Some(reader.hasher.finalize());
                // A replaced file keeps its mode.
                let mode = (overwrite == Overwrite::Refuse).then_some(attr.mode);
                let (modified, displaced) = (Some(attr.modified), self.to.displaced_content());
                let options = PutOptions { expect, parents, mode, modified, displaced, max_size: None };
                self.steps.push(Step::Write { at, content: Content::Sealed(sealed), options });
            }
            NodeKind::Special(_) => return Err(failed(StoreError::Special(attr.kind))),
        }
        self.entries.push(entry);
        Ok(())
    }
}

/// Reads a content as a stream and hashes it on the way.
struct HashingReader<'a> {
    call: &'a Call<'a>,
    content: &'a dyn OpenContent,
    offset: u64,
    hasher: blake3::Hasher,
    failed: Option<StoreError>,
}

impl Read for HashingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.call.check_not_stopped().is_err() {
            return Err(std::io::ErrorKind::Other.into());
        }
        match self.content.read_at(self.offset, buffer) {
            Ok(count) => {
                self.offset += count as u64;
                self.hasher.update(&buffer[..count]);
                Ok(count)
            }
            Err(cause) => {
                self.failed = Some(cause);
                Err(std::io::ErrorKind::Other.into())
            }
        }
    }
}

/// The hash of the content at the destination.
fn hash_at_destination(to: &ResolvedPath<'_>, relative_path: &StorePath) -> Result<blake3::Hash, StoreError> {
    let node_path = NodePath { base: to.node_path.base, path: to.node_path.path.join(relative_path) };
    let content = to.store().open(&node_path, OpenPurpose::Read)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    let mut offset = 0;
    loop {
        match content.read_at(offset, &mut buffer)? {
            0 => return Ok(hasher.finalize()),
            count => {
                hasher.update(&buffer[..count]);
                offset += count as u64;
            }
        }
    }
}
