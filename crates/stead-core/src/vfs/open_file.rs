//! Open files: read and written piece by piece, as a program does on a mounted file system.
//!
//! Writes to an open file go into a draft. The draft is committed as one change at [`OpenFile::sync`] and at the last
//! close, not at every write. All open files of a node in one `Vfs` share its draft, so they see each other's writes at
//! once; callers by path see them after the commit.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock, RwLockWriteGuard};

use crate::clock::Timestamp;
use crate::error::{Error, Result, Visibility};
use crate::identity::OperationId;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{
    Attr, Content, Draft, DraftBase, NodeId, NodeKind, NodePath, OpenContent, OpenPurpose, Precondition,
    PutOptions, Step, Store, StoreError, SyncPolicy, VersionTag,
};
use crate::vfs::call::{Call, ChangeStage, OpenAudit, OpenRecording};
use crate::vfs::cut_off::CutOff;
use crate::vfs::draft_edits::DraftEdits;
use crate::vfs::draft_reservations::Reservation;
use crate::vfs::own_files::PriorContent;
use crate::vfs::quota::without_usage;
use crate::vfs::resolve::{ResolvedCallError, ResolvedPath};
use crate::vfs::{IntoPath, Vfs, VfsShared};

/// How often a commit is retried on top of other writers' changes. After that, it overwrites them.
const MAX_COMMIT_ATTEMPTS: usize = 200;
/// How many written bytes a commit replays at most on what another writer has made of the file. With more, it
/// overwrites.
const MAX_MERGE_BYTES: u64 = 256 << 20;
/// How many written bytes are replayed at most so that a reader sees another writer's change before the draft is
/// committed.
const MAX_REBASE_BYTES: u64 = 8 << 20;

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// Opens it for reading.
    pub read: bool,
    /// Opens it for writing.
    pub write: bool,
    /// Creates the file if it is missing. Ignored without `write`.
    pub create: bool,
    /// Truncates the file to size 0. Ignored without `write`.
    pub truncate: bool,
}

impl OpenOptions {
    /// Opens for reading.
    pub fn read() -> Self {
        OpenOptions { read: true, ..OpenOptions::default() }
    }

    /// Opens for reading and writing.
    pub fn read_write() -> Self {
        OpenOptions { read: true, write: true, ..OpenOptions::default() }
    }

    /// Opens for writing.
    pub fn write() -> Self {
        OpenOptions { write: true, ..OpenOptions::default() }
    }

    /// Also creates the file if it is missing.
    pub fn create(self) -> Self {
        OpenOptions { create: true, ..self }
    }

    /// Also truncates the file to size 0.
    pub fn truncate(self) -> Self {
        OpenOptions { truncate: true, ..self }
    }
}

/// Which permission on the host a program needs to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostRights {
    /// To read it.
    Read,
    /// To write it; or none, because this call has just created the file.
    Write,
}

/// The nodes that are open through one `Vfs`.
#[derive(Debug, Default)]
pub(super) struct OpenNodes {
    nodes: Mutex<HashMap<(usize, NodeId), Weak<OpenNode>>>,
    /// How often `refresh` has reported a change by another writer.
    invalidations: AtomicU64,
    commits: Mutex<RecentCommits>,
    /// Files that were created through this `Vfs`, are still open, and have not been written yet, with the operation
    /// that created them. A change to such a file belongs to the same operation, so that an undo of it removes the
    /// file.
    created: Mutex<HashMap<(usize, NodeId), OperationId>>,
}

/// A point in time: how many drafts had been committed by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CommitMark(u64);

/// The nodes whose drafts were committed last.
#[derive(Debug, Default)]
struct RecentCommits {
    count: u64,
    /// The last ones, oldest first.
    last: VecDeque<(usize, NodeId)>,
}

impl RecentCommits {
    /// More than are likely to be committed while something is read.
    const CAPACITY: usize = 1024;

    fn add(&mut self, key: (usize, NodeId)) {
        self.count += 1;
        if self.last.len() == Self::CAPACITY {
            self.last.pop_front();
        }
        self.last.push_back(key);
    }

    /// Whether a node's draft may have been committed since a mark.
    fn may_include(&self, key: (usize, NodeId), since: CommitMark) -> bool {
        let count = usize::try_from(self.count - since.0).unwrap_or(usize::MAX);
        count > self.last.len() || self.last.iter().rev().take(count).any(|last| *last == key)
    }
}

/// A node with at least one open file.
pub(super) struct OpenNode {
    store: Arc<dyn Store>,
    node: NodeId,
    /// The number of [`OpenFile`]s of this node. The reference count doesn't show it, since it has other holders,
    /// too.
    open_count: AtomicUsize,
    state: RwLock<OpenNodeState>,
}

struct OpenNodeState {
    content: Box<dyn OpenContent>,
    draft: Option<Box<dyn Draft>>,
    /// The edits made to the draft.
    edits: DraftEdits,
    /// When the draft was last written to, or the time that was set since.
    modified: Timestamp,
    /// What the draft has reserved of quotas.
    reservation: Reservation,
    unlinked: UnlinkedAttributes,
    /// The bytes that were cut off, as long as a kernel may not know of the truncation.
    cut_off: Option<CutOff>,
}

/// Attributes that were set after the file's name was removed.
#[derive(Debug, Default, Clone, Copy)]
struct UnlinkedAttributes {
    mode: Option<u32>,
    modified: Option<Timestamp>,
}

/// What the commit of a draft has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommittedDraft {
    /// The version that the writes were made to, if known. A reader that has this version and the writes has all of the
    /// new version.
    pub base: Option<VersionTag>,
    /// The new version.
    pub tag: VersionTag,
}

impl OpenNodeState {
    /// Replays the edits on `theirs`, a draft of the newest version, which another writer made. If that fails, the
    /// draft stays as it is.
    fn rebase(
        &mut self,
        mut theirs: Box<dyn Draft>,
        newest_tag: VersionTag,
        limit: u64,
    ) -> Result<(), StoreError> {
        let Some(ours) = &mut self.draft else { return Ok(()) };
        let mut edits = self.edits.clone();
        edits.replay_from(&mut **ours, &mut *theirs)?;
        check_size_limit(theirs.size(), limit)?;
        edits.base = Some(newest_tag);
        (self.draft, self.edits) = (Some(theirs), edits);
        Ok(())
    }

    /// Shows this content from now on.
    fn set_content(&mut self, content: Box<dyn OpenContent>) {
        let before = std::mem::replace(&mut self.content, content);
        if let Some(cut_off) = &mut self.cut_off {
            cut_off.content_replaced(before);
        }
    }

    /// Whether the edits can be replayed on another writer's version: they keep some of the content, and are at most
    /// `max_bytes` bytes.
    fn can_rebase(&self, max_bytes: u64) -> bool {
        let size = self.draft.as_ref().map_or(0, |draft| draft.size());
        !self.edits.replaces_everything() && self.edits.bytes(size) <= max_bytes
    }

    /// The node's attributes, with the effect of the uncommitted writes.
    fn overlay_attr(&self, attr: Attr) -> Attr {
        let UnlinkedAttributes { mode, modified } = self.unlinked;
        let modified = modified.unwrap_or(attr.modified);
        let attr = Attr { mode: mode.unwrap_or(attr.mode), modified, ..attr };
        match &self.draft {
            Some(draft) => {
                let modified = self.modified;
                Attr { size: draft.size(), modified, changed: attr.changed.max(modified), ..attr }
            }
            None => attr,
        }
    }
}

impl fmt::Debug for OpenNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenNode").field("node", &self.node).finish_non_exhaustive()
    }
}

/// An open file. It stays the same node when its name is removed, replaced or given to another file.
#[derive(Debug)]
pub struct OpenFile {
    vfs: Vfs,
    resolved_path: VfsPath,
    /// The same path in the Store.
    node_path: NodePath,
    /// The path as the caller may know it.
    reported_path: VfsPath,
    /// Whether the caller may not read there.
    is_hidden: bool,
    options: OpenOptions,
    put_options: PutOptions,
    node: Arc<OpenNode>,
    audit: OpenAudit,
}

impl Vfs {
    /// Opens a file. What is written through it is committed at [`OpenFile::sync`] and at the last close.
    pub fn open(&self, path: impl IntoPath, options: OpenOptions) -> Result<OpenFile> {
        let (file, changed) =
            self.subcall("open", [path.into_path()], |call, [path]| call.open(path, options))?;
        if changed {
            file.audit.mark_change_recorded();
        }
        if options.write && options.truncate {
            file.set_size(0)?;
        }
        Ok(file)
    }
}

impl Call<'_> {
    fn open(&self, path: &VfsPath, options: OpenOptions) -> Result<OpenFile> {
        if !options.read && !options.write {
            return Err(Error::Invalid(
                "a file has to be opened for reading, for writing or for both".into(),
            ));
        }
        if options.read {
            self.authorize(path, Access::Read)?;
        }
        let access = if options.write { Access::Write } else { Access::Read };
        let created = Cell::new(false);
        let (node, resolved) =
            self.resolve_and_call(path, access, |resolved| -> Result<_, ResolvedCallError> {
                if options.read {
                    // A symlink may have led into a Workspace with another scope.
                    self.authorize(&resolved.path, Access::Read)?;
                }
                if resolved.visibility() == Visibility::Hidden && !options.create {
                    // Whether something is there to be opened is not disclosed.
                    self.check_own_file(resolved)?;
                }
                let rights = if options.read { HostRights::Read } else { HostRights::Write };
                if options.create {
                    self.note_prior_content(
                        resolved,
                        if options.truncate { PriorContent::Replaced } else { PriorContent::MayRemain },
                    );
                }
                let write_step = |put_options| Step::Write {
                    at: resolved.node_path.clone(),
                    content: Content::Bytes(Vec::new()),
                    options: put_options,
                };
                let put_options =
                    PutOptions { displaced: resolved.displaced_content(), ..PutOptions::default() };
                match self.open_node(resolved, rights) {
                    Ok(node) if resolved.visibility() == Visibility::Hidden && options.create => {
                        // Opening an existing file makes as many revisions as creating one, in the same operation.
                        if options.truncate {
                            self.apply_step(resolved, write_step(put_options))?;
                        } else {
                            self.apply_empty_change(SyncPolicy::Now)?;
                        }
                        created.set(true);
                        Ok(node)
                    }
                    Err(StoreError::NotFound) if options.write && options.create => {
                        resolved.check_not_protected_ancestor()?;
                        match self.apply_step(
                            resolved,
                            write_step(PutOptions { expect: Precondition::Absent, ..put_options }),
                        ) {
                            Ok(_) => {
                                created.set(true);
                                Ok(self.open_node(resolved, HostRights::Write)?)
                            }
                            // Another writer created it in between. It exists, as requested.
                            Err(StoreError::AlreadyExists) => Ok(self.open_node(resolved, rights)?),
                            Err(cause) => Err(cause.into()),
                        }
                    }
                    answer => Ok(answer?),
                }
            })?;
        let file = self.open_file(node, &resolved, options)?;
        if created.get() {
            file.mark_created_by(self);
        }
        Ok(file)
    }

    /// The open file for a node that was opened at this path.
    pub(super) fn open_file(
        &self,
        node: Arc<OpenNode>,
        resolved: &ResolvedPath<'_>,
        options: OpenOptions,
    ) -> Result<OpenFile> {
        let put_options = PutOptions { displaced: resolved.displaced_content(), ..PutOptions::default() };
        let recording = if options.read { OpenRecording::Recorded } else { OpenRecording::Silent };
        let audit = self.open_audit(recording)?;
        if options.read {
            self.touch(resolved);
        }
        node.open_count.fetch_add(1, Ordering::Relaxed);
        let is_hidden = resolved.visibility() == Visibility::Hidden;
        let (vfs, resolved_path, node_path) =
            (self.vfs.clone(), resolved.path.clone(), resolved.node_path.clone());
        Ok(OpenFile {
            vfs,
            resolved_path,
            node_path,
            reported_path: resolved.reported_path().clone(),
            is_hidden,
            options,
            put_options,
            node,
            audit,
        })
    }

    pub(super) fn open_node(
        &self,
        resolved: &ResolvedPath<'_>,
        rights: HostRights,
    ) -> Result<Arc<OpenNode>, StoreError> {
        let (invalidations_before, since) = (
            self.shared().open_nodes.invalidations.load(Ordering::Acquire),
            self.shared().open_nodes.commit_mark(),
        );
        let content = match resolved.store().open(&resolved.node_path, OpenPurpose::Read) {
            Err(StoreError::HostDenied) if rights == HostRights::Write => {
                resolved.store().open(&resolved.node_path, OpenPurpose::Write)?
            }
            content => content?,
        };
        debug_assert_eq!(content.attr().kind, NodeKind::File);
        let node = content.attr().node;
        let store = resolved.workspace.mount().store();
        let key = node_key(store, node);
        let mut open_nodes = self.shared().open_nodes.nodes.lock();
        if let Some(shared) = open_nodes.get(&key).and_then(Weak::upgrade) {
            drop(open_nodes);
            shared.refresh(self.shared().limits.max_file_size);
            return Ok(shared);
        }
        open_nodes.retain(|_, node| node.strong_count() > 0);
        let state = RwLock::new(OpenNodeState {
            content,
            draft: None,
            edits: DraftEdits::default(),
            modified: Timestamp(0),
            reservation: Reservation::new(self.shared(), &**store, &resolved.node_path.path),
            unlinked: UnlinkedAttributes::default(),
            cut_off: None,
        });
        let shared =
            Arc::new(OpenNode { store: Arc::clone(store), node, open_count: AtomicUsize::new(0), state });
        open_nodes.insert(key, Arc::downgrade(&shared));
        drop(open_nodes);
        let was_invalidated =
            self.shared().open_nodes.invalidations.load(Ordering::Acquire) != invalidations_before;
        if was_invalidated || self.shared().open_nodes.commits.lock().may_include(key, since) {
            // Between the open above and the insert into `nodes`, another writer's change may have been reported, or a
            // draft of this node may have been committed by open files that are closed by now.
            shared.refresh(self.shared().limits.max_file_size);
        }
        Ok(shared)
    }
}

/// A key that identifies a node among all Stores.
fn node_key(store: &Arc<dyn Store>, node: NodeId) -> (usize, NodeId) {
    (Arc::as_ptr(store).cast::<()>() as usize, node)
}

impl Call<'_> {
    /// Makes this call's changes part of the operation that created a file, as long as that file has not been written.
    pub(super) fn join_creating_operation(&self, store: &Arc<dyn Store>, node: NodeId) {
        if let Some(operation) = self.shared().open_nodes.created.lock().get(&node_key(store, node)) {
            self.join_operation(*operation);
        }
    }

    /// Like [`Call::join_creating_operation`], for the file at a path.
    pub(super) fn join_creating_operation_at(&self, resolved: &ResolvedPath<'_>) {
        if self.shared().open_nodes.created.lock().is_empty() {
            return;
        }
        if let Ok(attr) = resolved.store().stat(&resolved.node_path) {
            self.join_creating_operation(resolved.workspace.mount().store(), attr.node);
        }
    }
}

impl OpenNodes {
    /// Whether a program has the node open through this `Vfs`.
    pub(super) fn is_open(&self, store: &Arc<dyn Store>, node: NodeId) -> bool {
        self.nodes.lock().get(&node_key(store, node)).is_some_and(|open| open.strong_count() > 0)
    }

    /// The current mark, for `overlay_attr`.
    pub(super) fn commit_mark(&self) -> CommitMark {
        CommitMark(self.commits.lock().count)
    }

    /// A node's attributes with the effect of uncommitted writes through this `Vfs`. `attr` was read after the mark
    /// `since`. If a draft may have been committed in between, the attributes are read again.
    pub(super) fn overlay_attr(&self, store: &Arc<dyn Store>, mut attr: Attr, mut since: CommitMark) -> Attr {
        let key = node_key(store, attr.node);
        loop {
            let open_node = self.nodes.lock().get(&key).and_then(Weak::upgrade);
            let overlaid = open_node.map_or(attr, |open_node| open_node.state.read().overlay_attr(attr));
            if !self.commits.lock().may_include(key, since) {
                return overlaid;
            }
            since = self.commit_mark();
            match store.stat(&NodePath::of_node(attr.node)) {
                Ok(newer) => attr = newer,
                // The node was removed meanwhile. The next access to it reports that.
                Err(_) => return overlaid,
            }
        }
    }

    /// Changes the version that a node's edits belong to: only its attributes have changed.
    pub(super) fn move_edit_base(
        &self,
        store: &Arc<dyn Store>,
        node: NodeId,
        from: VersionTag,
        to: VersionTag,
    ) {
        let open_node = self.nodes.lock().get(&node_key(store, node)).and_then(Weak::upgrade);
        if let Some(open_node) = open_node {
            let mut state = open_node.state.write();
            if state.edits.base == Some(from) {
                state.edits.base = Some(to);
            }
        }
    }

    /// Makes the readers of a node see another writer's change.
    pub(super) fn refresh(&self, store: &Arc<dyn Store>, node: NodeId, limit: u64) {
        self.invalidations.fetch_add(1, Ordering::Release);
        let open_node = self.nodes.lock().get(&node_key(store, node)).and_then(Weak::upgrade);
        if let Some(open_node) = open_node {
            open_node.refresh(limit);
        }
    }
}

impl OpenNode {
    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    /// Readers share the lock as long as there is no draft; reading a draft needs it exclusively.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        let state = self.state.read();
        if state.draft.is_none() {
            return state.content.read_at(offset, buffer);
        }
        drop(state);
        let mut state = self.state.write();
        match &mut state.draft {
            Some(draft) => draft.read_at(offset, buffer),
            None => state.content.read_at(offset, buffer),
        }
    }

    /// Like `read_at`, for a kernel that may not know yet that the file was truncated.
    fn read_with_cut_off(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        let count = self.read_at(offset, buffer)?;
        let state = self.state.read();
        match &state.cut_off {
            Some(cut_off) if count < buffer.len() => {
                let rest = cut_off.read_at(&*state.content, offset + count as u64, &mut buffer[count..])?;
                Ok(count + rest)
            }
            _ => Ok(count),
        }
    }

    /// Shows the current content, with the uncommitted writes. If the file was removed, keeps showing what it showed.
    fn refresh(&self, limit: u64) {
        // The lock keeps commits out, so what is opened here is the newest version.
        let mut state = self.state.write();
        let Ok(content) = self.reopen(&*state.content) else { return };
        let newest_tag = content.attr().tag;
        if state.draft.is_some()
            && state.edits.base.is_some_and(|base| base != newest_tag)
            && state.can_rebase(MAX_REBASE_BYTES)
        {
            // If it fails, the commit tries again and reports the error.
            let theirs = self.draft(&*state.content);
            let _ = theirs.and_then(|theirs| state.rebase(theirs, newest_tag, limit));
        }
        state.set_content(content);
        state.unlinked = UnlinkedAttributes::default();
    }

    /// Opens the current content. If the host denies that because of a mode that was set since, reopens it from
    /// `content`: a new mode doesn't bind those who have the file open.
    fn reopen(&self, content: &dyn OpenContent) -> Result<Box<dyn OpenContent>, StoreError> {
        match self.store.open(&NodePath::of_node(self.node), OpenPurpose::Read) {
            Err(StoreError::HostDenied) => content.reopen()?.ok_or(StoreError::HostDenied),
            content => content,
        }
    }

    /// Makes a draft of the current content, by the same rule.
    fn draft(&self, content: &dyn OpenContent) -> Result<Box<dyn Draft>, StoreError> {
        match self.store.draft(DraftBase::File(&NodePath::of_node(self.node))) {
            Err(StoreError::HostDenied) => content.draft()?.ok_or(StoreError::HostDenied),
            draft => draft,
        }
    }
}

impl OpenFile {
    /// Notes that the call that opened this file also created it.
    pub(super) fn mark_created_by(&self, call: &Call<'_>) {
        self.vfs.shared.open_nodes.created.lock().insert(self.key(), call.operation());
    }

    fn key(&self) -> (usize, NodeId) {
        node_key(&self.node.store, self.node.node)
    }

    /// The node that all open files of it share.
    pub(super) fn open_node(&self) -> Arc<OpenNode> {
        Arc::clone(&self.node)
    }

    /// Sets permission bits and the time of the last modification of a file whose name was removed. All open files of
    /// the node show them.
    pub fn set_unlinked_attributes(&self, mode: Option<u32>, modified: Option<Timestamp>) {
        let mut state = self.node.state.write();
        state.unlinked.mode = mode.or(state.unlinked.mode);
        if let Some(modified) = modified {
            state.modified = modified;
            state.unlinked.modified = Some(modified);
        }
    }

    /// Notes that the record of the change that created the file also covers that it was opened.
    pub(super) fn mark_change_recorded(&self) {
        self.audit.mark_change_recorded();
    }

    /// The path that the file was opened by, with symlinks resolved. The target of a symlink that the caller may not
    /// read is not disclosed.
    pub fn path(&self) -> &VfsPath {
        &self.reported_path
    }

    /// The node's id in its Store.
    pub fn node(&self) -> NodeId {
        self.node.node
    }

    /// The size in bytes, including uncommitted writes.
    pub fn size(&self) -> u64 {
        self.attr().size
    }

    /// The attributes as of the open, the last commit or the last refresh, with the effect of uncommitted writes.
    pub fn attr(&self) -> Attr {
        let state = self.node.state.read();
        state.overlay_attr(state.content.attr())
    }

    /// The version tag of the committed content.
    pub fn tag(&self) -> VersionTag {
        self.node.state.read().content.attr().tag
    }

    /// Fails if the caller has lost the right that it opened the file with.
    pub fn check_still_allowed(&self) -> Result<()> {
        self.check_rights(if self.options.read { Access::Read } else { Access::Write })
    }

    /// Fails if the caller has lost the right to do this in the Workspace that the file was opened in.
    fn check_rights(&self, access: Access) -> Result<()> {
        match self.vfs.shared.router.route(&self.resolved_path) {
            Some(route) if !self.vfs.shared.is_current(route.workspace, access) => {
                let is_readable = self.vfs.shared.is_still_readable(route.workspace);
                Err(Error::AccessWithdrawn { path: self.reported_path.clone(), is_readable })
            }
            _ => Ok(()),
        }
    }

    /// Reads at an offset. Returns fewer bytes than requested only at the end of the file.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if !self.options.read {
            return Err(Error::Invalid(format!("`{}` was not opened for reading", self.reported_path)));
        }
        self.check_rights(Access::Read)?;
        let count = self.node.read_at(offset, buffer);
        self.audit.add_read(&count, StoreError::kind);
        count.map_err(|cause| self.store_error(cause))
    }

    /// Like [`OpenFile::read_at`], for a kernel that may not know yet of [`OpenFile::cut_under_readers`]: also returns
    /// the bytes that were cut off.
    pub fn read_with_cut_off(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if !self.options.read {
            return Err(Error::Invalid(format!("`{}` was not opened for reading", self.reported_path)));
        }
        self.check_rights(Access::Read)?;
        let count = self.node.read_with_cut_off(offset, buffer);
        self.audit.add_read(&count, StoreError::kind);
        count.map_err(|cause| self.store_error(cause))
    }

    /// Like [`OpenFile::set_size`], where a kernel learns of it later: until [`OpenFile::forget_cut_off`],
    /// [`OpenFile::read_with_cut_off`] returns the bytes that were cut off.
    pub fn cut_under_readers(&self, size: u64) -> Result<()> {
        {
            let state = &mut *self.node.state.write();
            let cut_off = CutOff::before_truncate(state.draft.as_deref_mut(), &*state.content, size);
            state.cut_off = cut_off.map_err(|cause| self.store_error(cause))?;
        }
        let result = self.set_size(size);
        if result.is_err() {
            self.forget_cut_off();
        }
        result
    }

    /// Forgets the bytes that were cut off. If some of them were read since, returns the size that the file was
    /// truncated to: the kernel may have read them after it learned of the truncation, so its pages from there on must
    /// be dropped.
    pub fn forget_cut_off(&self) -> Option<u64> {
        self.node.state.read().cut_off.as_ref()?;
        self.node.state.write().cut_off.take()?.truncated_size_if_read()
    }

    /// Writes at an offset. A gap before it reads as zeros.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.with_draft(|draft, edits, space| {
            space.grow(space.end(offset, bytes)?)?;
            edits.write(offset, bytes.len());
            draft.write_at(offset, bytes)
        })
    }

    /// Writes at an offset as many of the bytes as the quotas have room for, and returns how many. Fails if there is
    /// room for none.
    pub fn write_some_at(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        self.with_draft(|draft, edits, space| {
            let bytes = space.reserve_as_much_as_fits(offset, bytes)?;
            edits.write(offset, bytes.len());
            draft.write_at(offset, bytes)?;
            Ok(bytes.len())
        })
    }

    /// Appends to the file as it is now, and returns the offset.
    pub fn append(&self, bytes: &[u8]) -> Result<u64> {
        self.with_draft(|draft, edits, space| {
            let end = draft.size();
            space.grow(space.end(end, bytes)?)?;
            edits.append(end);
            draft.write_at(end, bytes)?;
            Ok(end)
        })
    }

    /// Truncates the file, or extends it with zeros.
    pub fn set_size(&self, size: u64) -> Result<()> {
        self.with_draft(|draft, edits, space| {
            space.grow(size)?;
            edits.resize(draft.size(), size);
            if draft.size() == size { Ok(()) } else { draft.set_size(size) }
        })
    }

    /// Whether there are uncommitted writes.
    pub fn has_uncommitted_writes(&self) -> bool {
        self.node.state.read().draft.is_some()
    }

    /// Sets the modification time of uncommitted writes. Returns `false`, and does nothing, if there are none.
    pub fn set_modified(&self, modified: Timestamp) -> bool {
        let mut state = self.node.state.write();
        if state.draft.is_some() {
            state.modified = modified;
        }
        state.draft.is_some()
    }

    fn with_draft<T>(
        &self,
        write: impl FnOnce(&mut dyn Draft, &mut DraftEdits, &mut DraftSpace<'_>) -> Result<T, StoreError>,
    ) -> Result<T> {
        self.check_rights(Access::Write)?;
        if !self.options.write {
            return Err(Error::Invalid(format!("`{}` was not opened for writing", self.reported_path)));
        }
        let shared = &*self.vfs.shared;
        let mut state = self.node.state.write();
        let state = &mut *state;
        let write_to_draft = || -> Result<T, StoreError> {
            let draft = match state.draft.take() {
                Some(draft) => draft,
                None => {
                    // Read before the draft is begun: if the file changes in between, that counts as another writer's
                    // change, and nothing is lost.
                    let base_tag = match self.node.store.stat(&NodePath::of_node(self.node.node)) {
                        Err(StoreError::NotFound) => None,
                        stat => Some(stat?.tag),
                    };
                    state.edits = DraftEdits::from_base(base_tag);
                    let draft = self.begin_draft(&*state.content)?;
                    // A removed file doesn't count in its Store any more.
                    state.reservation.begin(base_tag.map_or(0, |_| draft.size()));
                    draft
                }
            };
            let draft = state.draft.insert(draft);
            let mut space = DraftSpace { shared, reservation: &mut state.reservation };
            let written = write(&mut **draft, &mut state.edits, &mut space);
            state.reservation.shrink_to(draft.size());
            let written = written?;
            state.modified = shared.clock.now();
            Ok(written)
        };
        write_to_draft().map_err(|cause| {
            let cause = self.without_usage(cause);
            self.audit.set_failed(cause.kind());
            self.store_error(cause)
        })
    }

    /// Leaves the usage out of a quota refusal, where the caller may not know it.
    fn without_usage(&self, cause: StoreError) -> StoreError {
        without_usage(cause, self.vfs.shared.quotas.undisclosed_limits(&*self.node.store))
    }

    /// Makes a draft of the current content, or of the content last shown if the file has been removed.
    fn begin_draft(&self, content: &dyn OpenContent) -> Result<Box<dyn Draft>, StoreError> {
        match self.node.draft(content) {
            Err(StoreError::NotFound) => {
                let mut draft = self.node.store.draft(DraftBase::Empty)?;
                let mut buffer = vec![0; 256 << 10];
                let mut offset = 0;
                loop {
                    let count = content.read_at(offset, &mut buffer)?;
                    if count == 0 {
                        return Ok(draft);
                    }
                    draft.write_at(offset, &buffer[..count])?;
                    offset += count as u64;
                }
            }
            draft => draft,
        }
    }

    /// Commits what was written and syncs it. A file whose name was removed stays removed, and can still be read here.
    pub fn sync(&self) -> Result<()> {
        self.commit_draft(SyncPolicy::Now, |_| ())
    }

    /// Commits what was written without waiting for it to be synced.
    pub fn flush(&self) -> Result<()> {
        self.commit_draft(SyncPolicy::Deferred, |_| ())
    }

    /// Syncs the Store, including changes that were committed with `flush`.
    pub fn sync_store(&self) -> Result<()> {
        self.node.store.sync().map_err(|cause| self.store_error(cause))
    }

    /// Commits what was written as one change. Calls `on_commit` with the result before anybody can see it through this
    /// `Vfs`. If it fails, the draft stays, for another attempt.
    pub fn commit_draft(&self, sync: SyncPolicy, on_commit: impl FnOnce(CommittedDraft)) -> Result<()> {
        if self.has_uncommitted_writes() {
            self.check_rights(Access::Write)?;
        }
        let mut state = self.node.state.write();
        if state.draft.is_none() {
            return Ok(());
        }
        let guard = self.vfs.shared.draft_reservations.commit_guard();
        let result = self.vfs.subcall("open", [Ok(self.resolved_path.clone())], |call, _| {
            call.commits_draft.set(true);
            call.join_creating_operation(&self.node.store, self.node.node);
            let committed = self.commit(call, &mut state, sync).map_err(|cause| self.store_error(cause))?;
            if let Some(committed) = committed {
                on_commit(committed);
            }
            Ok(())
        });
        if state.draft.is_none() {
            state.reservation.release();
        }
        drop(guard);
        let ((), changed) = result?;
        if changed {
            self.audit.mark_change_recorded();
        }
        Ok(())
    }

    fn is_at_opened_path(&self) -> bool {
        self.node.store.stat(&self.node_path).is_ok_and(|attr| attr.node == self.node.node)
    }

    fn commit(
        &self,
        call: &Call<'_>,
        state: &mut RwLockWriteGuard<'_, OpenNodeState>,
        sync: SyncPolicy,
    ) -> Result<Option<CommittedDraft>, StoreError> {
        let (store, node_path) = (&*self.node.store, NodePath::of_node(self.node.node));
        let limit = self.vfs.shared.limits.max_file_size;
        for attempt in 0.. {
            let current_tag = match store.stat(&node_path) {
                Err(StoreError::NotFound) if state.content.is_removed() => return Ok(None),
                // The Store has lost track of the node, and finds it again at the path where it was opened.
                Err(StoreError::NotFound) if attempt < MAX_COMMIT_ATTEMPTS && self.is_at_opened_path() => {
                    continue;
                }
                // Another program has moved it to where the Store can't follow.
                Err(StoreError::NotFound) => return Err(StoreError::Conflict),
                stat => stat?.tag,
            };
            let can_rebase = state.can_rebase(MAX_MERGE_BYTES);
            if can_rebase && state.edits.base.is_some_and(|base| base != current_tag) {
                let theirs = self.node.draft(&*state.content)?;
                state.rebase(theirs, current_tag, limit)?;
            }
            let base = state.edits.base.filter(|_| can_rebase && attempt < MAX_COMMIT_ATTEMPTS);
            let expect = base.map_or(Precondition::Any, Precondition::Tag);
            let put_options =
                PutOptions { modified: Some(state.modified), expect, ..self.put_options.clone() };
            if self.is_hidden {
                let prior_content = if state.edits.replaces_everything() {
                    PriorContent::Replaced
                } else {
                    PriorContent::MayRemain
                };
                call.name_by_prior_content(prior_content);
                call.blind_at.replace(Some((Arc::clone(&self.node.store), self.node_path.path.clone())));
            }
            let OpenNodeState { draft: Some(draft), edits, .. } = &mut **state else { return Ok(None) };
            // The size of a file that the caller may not read is not disclosed.
            let byte_count = if self.is_hidden { edits.bytes(draft.size()) } else { draft.size() };
            let applied = draft.seal().and_then(|sealed| {
                let content = Content::Sealed(sealed);
                call.set_bytes(byte_count);
                let step = Step::Write { at: node_path.clone(), content, options: put_options };
                call.apply_with(store, vec![step], ChangeStage::Final, |change| change.sync = sync)
            });
            self.vfs.shared.open_nodes.commits.lock().add(node_key(&self.node.store, self.node.node));
            match applied {
                Ok(applied) => {
                    state.draft = None;
                    self.vfs.shared.open_nodes.created.lock().remove(&self.key());
                    let content = self.node.reopen(&*state.content)?;
                    state.set_content(content);
                    self.vfs.shared.read_set.forget(&self.resolved_path);
                    // Not the tag of the reopened content: that may be another writer's by now.
                    let attr = applied.outcomes.first().and_then(|outcome| outcome.attr);
                    let tag = attr.unwrap_or_else(|| state.content.attr()).tag;
                    return Ok(Some(CommittedDraft { base: state.edits.base, tag }));
                }
                // Another writer was faster: the next attempt replays the edits on that version.
                Err(StoreError::Conflict) if base.is_some() => {}
                // The file was removed or moved meanwhile. The next attempt finds out which.
                Err(StoreError::NotFound) if attempt < MAX_COMMIT_ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("the last attempt always returns")
    }

    /// Commits what was written, syncs it and closes the file. Unlike a drop, it reports a failure.
    pub fn close(mut self) -> Result<()> {
        self.sync()?;
        self.audit.finish()
    }

    fn store_error(&self, cause: StoreError) -> Error {
        let visibility = if self.is_hidden { Visibility::Hidden } else { Visibility::Visible };
        Error::Store { path: self.reported_path.clone(), visibility, cause }
    }
}

/// How large a draft may become.
struct DraftSpace<'a> {
    shared: &'a VfsShared,
    reservation: &'a mut Reservation,
}

impl DraftSpace<'_> {
    /// Where a write ends.
    fn end(&self, offset: u64, bytes: &[u8]) -> Result<u64, StoreError> {
        let limit = self.shared.limits.max_file_size;
        offset.checked_add(bytes.len() as u64).ok_or(StoreError::TooLarge { size: u64::MAX, limit })
    }

    /// Checks the file size limit, and reserves room for a draft of that size.
    fn grow(&mut self, size: u64) -> Result<(), StoreError> {
        check_size_limit(size, self.shared.limits.max_file_size)?;
        self.reservation.grow(self.shared, size)
    }

    /// As many of these bytes as there is room for at an offset: at least one, if there are any.
    fn reserve_as_much_as_fits<'b>(&mut self, offset: u64, bytes: &'b [u8]) -> Result<&'b [u8], StoreError> {
        let end = self.end(offset, bytes)?;
        check_size_limit(end, self.shared.limits.max_file_size)?;
        let min_size = end.min(offset.saturating_add(1));
        let reserved_size = self.reservation.grow_up_to(self.shared, min_size, end)?;
        let count = usize::try_from(reserved_size.saturating_sub(offset)).unwrap_or(usize::MAX);
        Ok(&bytes[..count.min(bytes.len())])
    }
}

/// Fails if a size is over the limit.
fn check_size_limit(size: u64, limit: u64) -> Result<(), StoreError> {
    if size > limit { Err(StoreError::TooLarge { size, limit }) } else { Ok(()) }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // Of files that are dropped at the same time, exactly one is the last. It sees what was written through the
        // others.
        let is_last = self.node.open_count.fetch_sub(1, Ordering::AcqRel) == 1;
        // A drop can't report a failure; `close` can.
        if is_last && !std::thread::panicking() {
            let _ = self.sync();
        }
        if is_last {
            self.vfs.shared.open_nodes.created.lock().remove(&self.key());
        }
    }
}
