//! Files that stay open: read and written piece by piece, as a program does on a mounted file system.
//!
//! What is written through an open file is a draft. It becomes one change at [`OpenFile::sync`] and at the last close,
//! not at every write. All who have a node open through one door share its draft and see each other's writes at once;
//! callers by path see them with the change.

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
    Attr, Content, Draft, DraftBase, NodeId, NodeKind, NodePath, OpenContent, Precondition, PutOptions, Step,
    Store, StoreError, SyncPolicy, VersionTag,
};
use crate::vfs::call::{Call, ChangeStage, OpenAudit, OpenRecording};
use crate::vfs::cut_off::CutOff;
use crate::vfs::draft_edits::DraftEdits;
use crate::vfs::draft_reservations::Reservation;
use crate::vfs::own_files::PriorContent;
use crate::vfs::quota::{DraftCounting, without_usage};
use crate::vfs::resolve::{ResolvedCallError, ResolvedPath};
use crate::vfs::{IntoPath, Vfs, VfsShared};

/// How often whoever has written into what others write into as well tries to be the last.
const MAX_COMMIT_ATTEMPTS: usize = 200;
/// The most that is written again over what another has made of a file.
const MAX_MERGE_BYTES: u64 = 256 << 20;
/// The most that is written again so that a reader sees what another has made of a file before this becomes a change.
const MAX_REBASE_BYTES: u64 = 8 << 20;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Making it if it is not there.
    pub create: bool,
    /// Cutting it to nothing.
    pub truncate: bool,
}

impl OpenOptions {
    /// For reading.
    pub fn read() -> Self {
        OpenOptions { read: true, ..OpenOptions::default() }
    }

    /// For reading and writing.
    pub fn read_write() -> Self {
        OpenOptions { read: true, write: true, ..OpenOptions::default() }
    }

    /// For writing.
    pub fn write() -> Self {
        OpenOptions { write: true, ..OpenOptions::default() }
    }

    /// Making it if it is not there.
    pub fn create(self) -> Self {
        OpenOptions { create: true, ..self }
    }

    /// Cutting it to nothing.
    pub fn truncate(self) -> Self {
        OpenOptions { truncate: true, ..self }
    }
}

/// What the host has to allow the program that opens a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostRights {
    /// To read it.
    Read,
    /// No more than to write it, or it was made by this very call.
    Write,
}

/// The nodes that are open through one door.
#[derive(Debug, Default)]
pub(super) struct OpenNodes {
    nodes: Mutex<HashMap<(usize, NodeId), Weak<OpenNode>>>,
    /// How often it was told that others have changed something.
    invalidations: AtomicU64,
    commits: Mutex<RecentCommits>,
    /// Files that were made through this door, are open since, and have not been written yet, with the operation that
    /// made them. What is done to one until then belongs to the same operation, so that an undo removes the file.
    created: Mutex<HashMap<(usize, NodeId), OperationId>>,
}

/// A moment, told from others by what had become a change by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CommitMark(u64);

/// Which nodes have become a change last.
#[derive(Debug, Default)]
struct RecentCommits {
    count: u64,
    /// The last ones, in order.
    last: VecDeque<(usize, NodeId)>,
}

impl RecentCommits {
    /// As many as happen while something is read.
    const REMEMBERED: usize = 1024;

    fn add(&mut self, key: (usize, NodeId)) {
        self.count += 1;
        if self.last.len() == Self::REMEMBERED {
            self.last.pop_front();
        }
        self.last.push_back(key);
    }

    /// Whether a node may have become a change since a moment.
    fn may_include(&self, key: (usize, NodeId), since: CommitMark) -> bool {
        let count = usize::try_from(self.count - since.0).unwrap_or(usize::MAX);
        count > self.last.len() || self.last.iter().rev().take(count).any(|last| *last == key)
    }
}

/// One node that someone has open.
pub(super) struct OpenNode {
    store: Arc<dyn Store>,
    node: NodeId,
    /// How many [`OpenFile`]s there are of it. References from elsewhere come and go, and say nothing about that.
    open_count: AtomicUsize,
    state: RwLock<OpenNodeState>,
}

struct OpenNodeState {
    content: Box<dyn OpenContent>,
    draft: Option<Box<dyn Draft>>,
    /// What was done to the draft.
    edits: DraftEdits,
    /// When the draft was last written to, or is said to have been.
    modified: Timestamp,
    /// What the draft has reserved of quotas.
    reservation: Reservation,
    unlinked: UnlinkedAttributes,
    /// What was cut off, for as long as a reader may not have heard of that.
    cut_off: Option<CutOff>,
}

/// Attributes that were given to a file after its name was removed.
#[derive(Debug, Default, Clone, Copy)]
struct UnlinkedAttributes {
    mode: Option<u32>,
    modified: Option<Timestamp>,
}

/// What an open file has become a change of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommittedDraft {
    /// The state that was written into, where it is known: with what was written since, a reader of it has all of the new
    /// state.
    pub base: Option<VersionTag>,
    /// The new state.
    pub tag: VersionTag,
}

impl OpenNodeState {
    /// Puts what was written into the newest state of the file, which another has made. Where that fails, what was
    /// written stays as it is.
    fn rebase(&mut self, mut theirs: Box<dyn Draft>, now: VersionTag, limit: u64) -> Result<(), StoreError> {
        let Some(ours) = &mut self.draft else { return Ok(()) };
        let mut edits = self.edits.clone();
        edits.replay_from(&mut **ours, &mut *theirs)?;
        check_size_limit(theirs.size(), limit)?;
        edits.base = Some(now);
        (self.draft, self.edits) = (Some(theirs), edits);
        Ok(())
    }

    /// Shows another state from now on.
    fn show(&mut self, content: Box<dyn OpenContent>) {
        let before = std::mem::replace(&mut self.content, content);
        if let Some(cut_off) = &mut self.cut_off {
            cut_off.keep(before);
        }
    }

    /// Whether what another has made of the file stays, with what was written in it.
    fn can_rebase(&self, most: u64) -> bool {
        let size = self.draft.as_ref().map_or(0, |draft| draft.size());
        !self.edits.replaces_everything() && self.edits.bytes(size) <= most
    }

    /// Attributes of the node, as they are with what was written.
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

/// An open file. It stays what it is when its name is removed, replaced or given to another file.
#[derive(Debug)]
pub struct OpenFile {
    vfs: Vfs,
    path: VfsPath,
    /// Where that is in the Store.
    node_path: NodePath,
    /// The path as the caller may know it.
    reported_path: VfsPath,
    /// Whether it lies where the caller may not look.
    is_hidden: bool,
    options: OpenOptions,
    put_options: PutOptions,
    node: Arc<OpenNode>,
    audit: OpenAudit,
}

impl Vfs {
    /// Opens a file.
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
            return Err(Error::Invalid("a file is opened for reading, for writing or for both".into()));
        }
        if options.read {
            self.authorize(path, Access::Read)?;
        }
        let access = if options.write { Access::Write } else { Access::Read };
        let made = Cell::new(false);
        let (node, spot) = self.resolve_and_call(path, access, |spot| -> Result<_, ResolvedCallError> {
            if options.read {
                // A symlink may have led into a Workspace of another scope.
                self.authorize(&spot.path, Access::Read)?;
            }
            if spot.visibility() == Visibility::Hidden && !options.create {
                // Whether something is there to be opened is not told.
                self.check_own_file(spot)?;
            }
            let rights = if options.read { HostRights::Read } else { HostRights::Write };
            if options.create {
                self.note_prior_content(
                    spot,
                    if options.truncate { PriorContent::Replaced } else { PriorContent::MayRemain },
                );
            }
            let write = |put| Step::Write {
                at: spot.node_path.clone(),
                content: Content::Bytes(Vec::new()),
                options: put,
            };
            let put = PutOptions { displaced: spot.displaced_content(), ..PutOptions::default() };
            match self.open_node(spot, rights) {
                Ok(node) if spot.visibility() == Visibility::Hidden && options.create => {
                    // Opening a file that is there makes as many versions as making one does, in the same operation.
                    if options.truncate {
                        self.apply_step(spot, write(put))?;
                    } else {
                        self.apply_nothing(SyncPolicy::Now)?;
                    }
                    made.set(true);
                    Ok(node)
                }
                Err(StoreError::NotFound) if options.write && options.create => {
                    spot.check_not_protected_ancestor()?;
                    match self.apply_step(spot, write(PutOptions { expect: Precondition::Absent, ..put })) {
                        Ok(_) => {
                            made.set(true);
                            Ok(self.open_node(spot, HostRights::Write)?)
                        }
                        // Someone else made it in between: it is there, which is what was wanted.
                        Err(StoreError::AlreadyExists) => Ok(self.open_node(spot, rights)?),
                        Err(cause) => Err(cause.into()),
                    }
                }
                answer => Ok(answer?),
            }
        })?;
        let file = self.open_file(node, &spot, options)?;
        if made.get() {
            file.mark_created_by(self);
        }
        Ok(file)
    }

    /// What the caller gets who has opened a node.
    pub(super) fn open_file(
        &self,
        node: Arc<OpenNode>,
        spot: &ResolvedPath<'_>,
        options: OpenOptions,
    ) -> Result<OpenFile> {
        let put = PutOptions { displaced: spot.displaced_content(), ..PutOptions::default() };
        let begins = if options.read { OpenRecording::Recorded } else { OpenRecording::Silent };
        let lasting = self.open_audit(begins)?;
        node.open_count.fetch_add(1, Ordering::Relaxed);
        let is_blind = spot.visibility() == Visibility::Hidden;
        let (vfs, path, place) = (self.vfs.clone(), spot.path.clone(), spot.node_path.clone());
        Ok(OpenFile {
            vfs,
            path,
            node_path: place,
            reported_path: spot.reported_path.clone(),
            is_hidden: is_blind,
            options,
            put_options: put,
            node,
            audit: lasting,
        })
    }

    pub(super) fn open_node(
        &self,
        spot: &ResolvedPath<'_>,
        rights: HostRights,
    ) -> Result<Arc<OpenNode>, StoreError> {
        let (told, since) = (
            self.shared().open_nodes.invalidations.load(Ordering::Acquire),
            self.shared().open_nodes.commit_mark(),
        );
        let content = match spot.store().open(&spot.node_path) {
            Err(StoreError::HostDenied) if rights == HostRights::Write => {
                spot.store().open_to_write(&spot.node_path)?
            }
            content => content?,
        };
        debug_assert_eq!(content.attr().kind, NodeKind::File);
        let node = content.attr().node;
        let store = spot.workspace.mount().store();
        let key = node_key(store, node);
        let mut open = self.shared().open_nodes.nodes.lock();
        if let Some(shared) = open.get(&key).and_then(Weak::upgrade) {
            drop(open);
            shared.refresh(self.shared().limits.max_file_size);
            return Ok(shared);
        }
        open.retain(|_, node| node.strong_count() > 0);
        let state = RwLock::new(OpenNodeState {
            content,
            draft: None,
            edits: DraftEdits::default(),
            modified: Timestamp(0),
            reservation: Reservation::new(self.shared(), &**store, &spot.node_path.path),
            unlinked: UnlinkedAttributes::default(),
            cut_off: None,
        });
        let shared =
            Arc::new(OpenNode { store: Arc::clone(store), node, open_count: AtomicUsize::new(0), state });
        open.insert(key, Arc::downgrade(&shared));
        drop(open);
        let is_told = self.shared().open_nodes.invalidations.load(Ordering::Acquire) != told;
        if is_told || self.shared().open_nodes.commits.lock().may_include(key, since) {
            // What was told meanwhile may have been about this one, which was not yet here to be told; or what others had
            // written became a change, and they closed it.
            shared.refresh(self.shared().limits.max_file_size);
        }
        Ok(shared)
    }
}

/// Tells a node of a Store from all others that are open.
fn node_key(store: &Arc<dyn Store>, node: NodeId) -> (usize, NodeId) {
    (Arc::as_ptr(store).cast::<()>() as usize, node)
}

impl Call<'_> {
    /// What this call changes belongs to the operation that made a file, as long as that file has not been written.
    pub(super) fn join_creating_operation(&self, store: &Arc<dyn Store>, node: NodeId) {
        if let Some(operation) = self.shared().open_nodes.created.lock().get(&node_key(store, node)) {
            self.join_operation(*operation);
        }
    }

    /// [`Call::joins_creation`] for the file at a spot.
    pub(super) fn join_creating_operation_at(&self, spot: &ResolvedPath<'_>) {
        if self.shared().open_nodes.created.lock().is_empty() {
            return;
        }
        if let Ok(attr) = spot.store().stat(&spot.node_path) {
            self.join_creating_operation(spot.workspace.mount().store(), attr.node);
        }
    }
}

impl OpenNodes {
    /// Now, for [`OpenNodes::over`].
    pub(super) fn commit_mark(&self) -> CommitMark {
        CommitMark(self.commits.lock().count)
    }

    /// Attributes of a node, as they are with what was written through this door and is no change yet. They were read
    /// after that moment; what was written may have become a change in between, and is in them or not.
    pub(super) fn overlay_attr(&self, store: &Arc<dyn Store>, mut attr: Attr, mut since: CommitMark) -> Attr {
        let key = node_key(store, attr.node);
        loop {
            let open = self.nodes.lock().get(&key).and_then(Weak::upgrade);
            let over = open.map_or(attr, |open| open.state.read().overlay_attr(attr));
            if !self.commits.lock().may_include(key, since) {
                return over;
            }
            since = self.commit_mark();
            match store.stat(&NodePath::of_node(attr.node)) {
                Ok(newer) => attr = newer,
                // It is gone meanwhile; whoever comes back for it will find out.
                Err(_) => return over,
            }
        }
    }

    /// What was written into a node belongs to another state now: only its attributes have changed.
    pub(super) fn move_edit_base(
        &self,
        store: &Arc<dyn Store>,
        node: NodeId,
        from: VersionTag,
        to: VersionTag,
    ) {
        let open = self.nodes.lock().get(&node_key(store, node)).and_then(Weak::upgrade);
        if let Some(open) = open {
            let mut state = open.state.write();
            if state.edits.base == Some(from) {
                state.edits.base = Some(to);
            }
        }
    }

    /// Has whoever reads a node see what another has changed.
    pub(super) fn refresh(&self, store: &Arc<dyn Store>, node: NodeId, limit: u64) {
        self.invalidations.fetch_add(1, Ordering::Release);
        let open = self.nodes.lock().get(&node_key(store, node)).and_then(Weak::upgrade);
        if let Some(open) = open {
            open.refresh(limit);
        }
    }
}

impl OpenNode {
    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    /// Any number of readers at once, as long as nothing is written.
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

    /// [`OpenNode::read_at`] for a reader that may not have heard yet that the file was cut.
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

    /// Shows what is there now, with what was written; what is gone stays as it was.
    fn refresh(&self, limit: u64) {
        // Nobody makes a change of it meanwhile: what is opened here is the newest.
        let mut state = self.state.write();
        let Ok(content) = self.open_again(&*state.content) else { return };
        let now = content.attr().tag;
        if state.draft.is_some()
            && state.edits.base.is_some_and(|base| base != now)
            && state.can_rebase(MAX_REBASE_BYTES)
        {
            // Where that fails, the change finds out.
            let theirs = self.draft(&*state.content);
            let _ = theirs.and_then(|theirs| state.rebase(theirs, now, limit));
        }
        state.show(content);
        state.unlinked = UnlinkedAttributes::default();
    }

    /// Opens what is there now. A mode that was set since it was opened does not bind those who have it open.
    fn open_again(&self, content: &dyn OpenContent) -> Result<Box<dyn OpenContent>, StoreError> {
        match self.store.open(&NodePath::of_node(self.node)) {
            Err(StoreError::HostDenied) => content.reopen()?.ok_or(StoreError::HostDenied),
            content => content,
        }
    }

    /// A draft of what is there now, by the same rule.
    fn draft(&self, content: &dyn OpenContent) -> Result<Box<dyn Draft>, StoreError> {
        match self.store.draft(DraftBase::File(&NodePath::of_node(self.node))) {
            Err(StoreError::HostDenied) => content.draft()?.ok_or(StoreError::HostDenied),
            draft => draft,
        }
    }
}

impl OpenFile {
    /// The call that has opened this file has made it, too.
    pub(super) fn mark_created_by(&self, call: &Call<'_>) {
        self.vfs.shared.open_nodes.created.lock().insert(self.key(), call.operation());
    }

    fn key(&self) -> (usize, NodeId) {
        node_key(&self.node.store, self.node.node)
    }

    /// What all who have the file open share.
    pub(super) fn open_node(&self) -> Arc<OpenNode> {
        Arc::clone(&self.node)
    }

    /// Sets permission bits and the time of the last modification of a file that has no name any more: whoever has it
    /// open sees them.
    pub fn set_unlinked_attributes(&self, mode: Option<u32>, modified: Option<Timestamp>) {
        let mut state = self.node.state.write();
        state.unlinked.mode = mode.or(state.unlinked.mode);
        if let Some(modified) = modified {
            state.modified = modified;
            state.unlinked.modified = Some(modified);
        }
    }

    /// That it was opened is told by the record of the change that made it.
    pub(super) fn mark_recorded(&self) {
        self.audit.mark_change_recorded();
    }

    /// The path it was opened by, symlinks resolved.
    pub fn path(&self) -> &VfsPath {
        &self.path
    }

    /// Which node it is in its Store.
    pub fn node(&self) -> NodeId {
        self.node.node
    }

    /// How many bytes it has, what was written included.
    pub fn size(&self) -> u64 {
        self.attr().size
    }

    /// Its attributes when it was opened or last became a change, with what was written since.
    pub fn attr(&self) -> Attr {
        let state = self.node.state.read();
        state.overlay_attr(state.content.attr())
    }

    /// The last state that a change made.
    pub fn tag(&self) -> VersionTag {
        self.node.state.read().content.attr().tag
    }

    /// Reads at an offset; fewer bytes than asked for only at the end.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if !self.options.read {
            return Err(Error::Invalid(format!("`{}` was not opened for reading", self.path)));
        }
        let count = self.node.read_at(offset, buffer);
        self.audit.add_read(&count, StoreError::kind);
        count.map_err(|cause| self.store_error(cause))
    }

    /// [`OpenFile::read_at`] for a kernel that may not have heard yet of [`OpenFile::cut_under_readers`]: what was cut off
    /// is read as it was.
    pub fn read_with_cut_off(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if !self.options.read {
            return Err(Error::Invalid(format!("`{}` was not opened for reading", self.path)));
        }
        let count = self.node.read_with_cut_off(offset, buffer);
        self.audit.add_read(&count, StoreError::kind);
        count.map_err(|cause| self.store_error(cause))
    }

    /// [`OpenFile::set_size`], where a kernel hears of it later: until [`OpenFile::forget_cut_off`],
    /// [`OpenFile::read_with_cut_off`] finds what was cut off.
    pub fn cut_under_readers(&self, size: u64) -> Result<()> {
        {
            let state = &mut *self.node.state.write();
            let cut_off = CutOff::of(state.draft.as_deref_mut(), &*state.content, size);
            state.cut_off = cut_off.map_err(|cause| self.store_error(cause))?;
        }
        let cut = self.set_size(size);
        if cut.is_err() {
            self.forget_cut_off();
        }
        cut
    }

    /// Forgets what was cut off. Where some of it was read since, says where the file was cut: what was read may have come
    /// after the reader heard of the cut, and must not stay.
    pub fn forget_cut_off(&self) -> Option<u64> {
        self.node.state.read().cut_off.as_ref()?;
        self.node.state.write().cut_off.take()?.read_from()
    }

    /// Writes at an offset; a gap before it reads as zeros.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.with_draft(|draft, edits, room| {
            room.grow(offset.saturating_add(bytes.len() as u64))?;
            edits.write(offset, bytes.len());
            draft.write_at(offset, bytes)
        })
    }

    /// Writes at an offset as much as a quota has room for, and returns how many bytes that is; an error if it is none.
    pub fn write_some_at(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        self.with_draft(|draft, edits, room| {
            let bytes = room.fit(offset, bytes)?;
            edits.write(offset, bytes.len());
            draft.write_at(offset, bytes)?;
            Ok(bytes.len())
        })
    }

    /// Writes at the end, wherever that is by now, and says where.
    pub fn append(&self, bytes: &[u8]) -> Result<u64> {
        self.with_draft(|draft, edits, room| {
            let end = draft.size();
            room.grow(end.saturating_add(bytes.len() as u64))?;
            edits.append(end);
            draft.write_at(end, bytes)?;
            Ok(end)
        })
    }

    /// Cuts it, or lengthens it with zeros.
    pub fn set_size(&self, size: u64) -> Result<()> {
        self.with_draft(|draft, edits, room| {
            room.grow(size)?;
            edits.resize(draft.size(), size);
            if draft.size() == size { Ok(()) } else { draft.set_size(size) }
        })
    }

    /// Whether something was written that is no change yet.
    pub fn has_uncommitted_writes(&self) -> bool {
        self.node.state.read().draft.is_some()
    }

    /// Says when it was last modified, where something was written that is no change yet; otherwise says so.
    pub fn set_modified(&self, modified: Timestamp) -> bool {
        let mut state = self.node.state.write();
        if state.draft.is_some() {
            state.modified = modified;
        }
        state.draft.is_some()
    }

    fn with_draft<T>(
        &self,
        write: impl FnOnce(&mut dyn Draft, &mut DraftEdits, &mut DraftRoom<'_>) -> Result<T, StoreError>,
    ) -> Result<T> {
        if !self.options.write {
            return Err(Error::Invalid(format!("`{}` was not opened for writing", self.path)));
        }
        let shared = &*self.vfs.shared;
        let mut state = self.node.state.write();
        let state = &mut *state;
        let begin = || -> Result<T, StoreError> {
            let draft = match state.draft.take() {
                Some(draft) => draft,
                None => {
                    // From before the draft: a state that is newer than this only counts as another's.
                    let before = match self.node.store.stat(&NodePath::of_node(self.node.node)) {
                        Err(StoreError::NotFound) => None,
                        stat => Some(stat?.tag),
                    };
                    state.edits = DraftEdits::from_base(before);
                    let draft = self.begin_draft(&*state.content)?;
                    // What is removed counts for nothing in its Store.
                    state.reservation.begin(before.map_or(0, |_| draft.size()));
                    draft
                }
            };
            let draft = state.draft.insert(draft);
            let mut room = DraftRoom { shared, reservation: &mut state.reservation };
            let written = write(&mut **draft, &mut state.edits, &mut room);
            state.reservation.shrink_to(draft.size());
            let written = written?;
            state.modified = shared.clock.now();
            Ok(written)
        };
        begin().map_err(|cause| {
            let cause = self.without_usage(cause);
            self.audit.set_failed(cause.kind());
            self.store_error(cause)
        })
    }

    /// A refusal by a quota, without how much is in use where that is not for the caller to know.
    fn without_usage(&self, cause: StoreError) -> StoreError {
        let StoreError::OverQuota { on, allowed, .. } = cause else { return cause };
        let store = &*self.node.store;
        let withheld = self.vfs.unaudited_call("open", [Ok(self.path.clone())], |call, _| {
            let quotas =
                call.quotas_for(store, DraftCounting::Ignored).map_err(|cause| self.store_error(cause))?;
            Ok(call.undisclosed_limits(store, &quotas))
        });
        match withheld {
            Ok(withheld) => without_usage(cause, &withheld),
            // If the limits that the caller may see can't be found out, the refusal names the limit alone.
            Err(_) => StoreError::OverQuotaUndisclosed { on, allowed },
        }
    }

    /// A draft of what is there now; of what was there, if the file has been removed meanwhile.
    fn begin_draft(&self, content: &dyn OpenContent) -> Result<Box<dyn Draft>, StoreError> {
        match self.node.draft(content) {
            Err(StoreError::NotFound) => {
                let mut draft = self.node.store.draft(DraftBase::Empty)?;
                let mut buffer = vec![0; 256 << 10];
                let mut at = 0;
                loop {
                    let count = content.read_at(at, &mut buffer)?;
                    if count == 0 {
                        return Ok(draft);
                    }
                    draft.write_at(at, &buffer[..count])?;
                    at += count as u64;
                }
            }
            draft => draft,
        }
    }

    /// Makes what was written a change. A file that has been removed stays removed, and readable here.
    pub fn sync(&self) -> Result<()> {
        self.commit_draft(SyncPolicy::Now, |_| ())
    }

    /// Makes what was written a change that need not be on the disk yet.
    pub fn flush(&self) -> Result<()> {
        self.commit_draft(SyncPolicy::Deferred, |_| ())
    }

    /// Puts on the disk what could wait.
    pub fn sync_store(&self) -> Result<()> {
        self.node.store.sync().map_err(|cause| self.store_error(cause))
    }

    /// Makes what was written a change, and tells what it made before anybody can learn of it through this door. Where it
    /// fails, what was written stays, for another attempt.
    pub fn commit_draft(&self, lasts: SyncPolicy, tell: impl FnOnce(CommittedDraft)) -> Result<()> {
        let mut state = self.node.state.write();
        if state.draft.is_none() {
            return Ok(());
        }
        let turn = self.vfs.shared.draft_reservations.commit_guard();
        let put = self.vfs.subcall("open", [Ok(self.path.clone())], |call, _| {
            call.commits_draft.set(true);
            call.join_creating_operation(&self.node.store, self.node.node);
            let made = self.commit(call, &mut state, lasts).map_err(|cause| self.store_error(cause))?;
            if let Some(made) = made {
                tell(made);
            }
            Ok(())
        });
        if state.draft.is_none() {
            state.reservation.release();
        }
        drop(turn);
        let ((), changed) = put?;
        if changed {
            self.audit.mark_change_recorded();
        }
        Ok(())
    }

    fn is_where_it_was_opened(&self) -> bool {
        self.node.store.stat(&self.node_path).is_ok_and(|attr| attr.node == self.node.node)
    }

    fn commit(
        &self,
        call: &Call<'_>,
        state: &mut RwLockWriteGuard<'_, OpenNodeState>,
        lasts: SyncPolicy,
    ) -> Result<Option<CommittedDraft>, StoreError> {
        let (store, at) = (&*self.node.store, NodePath::of_node(self.node.node));
        let limit = self.vfs.shared.limits.max_file_size;
        for attempt in 0.. {
            let now = match store.stat(&at) {
                Err(StoreError::NotFound) if state.content.is_removed() => return Ok(None),
                // The Store has lost sight of it, and finds it again where it was opened.
                Err(StoreError::NotFound)
                    if attempt < MAX_COMMIT_ATTEMPTS && self.is_where_it_was_opened() =>
                {
                    continue;
                }
                // Another has moved it to where the Store can't follow.
                Err(StoreError::NotFound) => return Err(StoreError::Conflict),
                stat => stat?.tag,
            };
            let gives_way = state.can_rebase(MAX_MERGE_BYTES);
            if gives_way && state.edits.base.is_some_and(|base| base != now) {
                let theirs = self.node.draft(&*state.content)?;
                state.rebase(theirs, now, limit)?;
            }
            let base = state.edits.base.filter(|_| gives_way && attempt < MAX_COMMIT_ATTEMPTS);
            let expect = base.map_or(Precondition::Any, Precondition::Tag);
            let put = PutOptions { modified: Some(state.modified), expect, ..self.put_options.clone() };
            if self.is_hidden {
                let leaves = if state.edits.replaces_everything() {
                    PriorContent::Replaced
                } else {
                    PriorContent::MayRemain
                };
                call.name_by_prior_content(leaves);
                call.blind_at.replace(Some((Arc::clone(&self.node.store), self.node_path.path.clone())));
            }
            let OpenNodeState { draft: Some(ours), edits, .. } = &mut **state else { return Ok(None) };
            // How large the file is, is not told where the caller may not look.
            let written = if self.is_hidden { edits.bytes(ours.size()) } else { ours.size() };
            let applied = ours.seal().and_then(|sealed| {
                let content = Content::Sealed(sealed);
                call.set_bytes(written);
                let step = Step::Write { at: at.clone(), content, options: put };
                call.apply_with(store, vec![step], ChangeStage::Final, |change| change.sync = lasts)
            });
            self.vfs.shared.open_nodes.commits.lock().add(node_key(&self.node.store, self.node.node));
            match applied {
                Ok(applied) => {
                    state.draft = None;
                    self.vfs.shared.open_nodes.created.lock().remove(&self.key());
                    let content = self.node.open_again(&*state.content)?;
                    state.show(content);
                    self.vfs.shared.read_set.forget(&self.path);
                    // Not the state that is opened: that may be another's by now.
                    let made = applied.outcomes.first().and_then(|outcome| outcome.attr);
                    let tag = made.unwrap_or_else(|| state.content.attr()).tag;
                    return Ok(Some(CommittedDraft { base: state.edits.base, tag }));
                }
                // Another was faster: what was written goes into what that one has made.
                Err(StoreError::Conflict) if base.is_some() => {}
                // It was removed or moved meanwhile, which the next look tells.
                Err(StoreError::NotFound) if attempt < MAX_COMMIT_ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("the last attempt takes nobody else into account")
    }

    /// Closes it; the last one to close a node makes what was written a change.
    pub fn close(self) -> Result<()> {
        self.sync()
    }

    fn store_error(&self, cause: StoreError) -> Error {
        let sight = if self.is_hidden { Visibility::Hidden } else { Visibility::Visible };
        Error::Store { path: self.reported_path.clone(), visibility: sight, cause }
    }
}

/// How large a draft may become.
struct DraftRoom<'a> {
    shared: &'a VfsShared,
    reservation: &'a mut Reservation,
}

impl DraftRoom<'_> {
    /// Makes sure that there is room for a draft of that size.
    fn grow(&mut self, size: u64) -> Result<(), StoreError> {
        check_size_limit(size, self.shared.limits.max_file_size)?;
        self.reservation.grow(self.shared, size)
    }

    /// As many of these bytes as there is room for at an offset: at least one, where there are any.
    fn fit<'b>(&mut self, offset: u64, bytes: &'b [u8]) -> Result<&'b [u8], StoreError> {
        let end = offset.saturating_add(bytes.len() as u64);
        check_size_limit(end, self.shared.limits.max_file_size)?;
        let most = self.reservation.grow_up_to(self.shared, offset + u64::from(!bytes.is_empty()), end)?;
        let count = usize::try_from(most.saturating_sub(offset)).unwrap_or(usize::MAX);
        Ok(&bytes[..count.min(bytes.len())])
    }
}

/// A file may not grow beyond what is allowed.
fn check_size_limit(size: u64, limit: u64) -> Result<(), StoreError> {
    if size > limit { Err(StoreError::TooLarge { size, limit }) } else { Ok(()) }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // Of files that are dropped at once, exactly one is the last. It sees what was written through the others.
        let is_last = self.node.open_count.fetch_sub(1, Ordering::AcqRel) == 1;
        // Nobody is left to be told of a failure; `close` tells.
        if is_last && !std::thread::panicking() {
            let _ = self.sync();
        }
        if is_last {
            self.vfs.shared.open_nodes.created.lock().remove(&self.key());
        }
    }
}
