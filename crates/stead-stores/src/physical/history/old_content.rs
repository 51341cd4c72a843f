//! Opens content as it was: from a displaced file, or from a file that is still in the tree, with the bytes that later
//! patches replaced put back over it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

use stead_core::Timestamp;
use stead_core::monitor::{CallMonitor, check_not_stopped, report_step};
use stead_core::store::{
    Attr, Content, ContentId, ContentRef, NodeId, NodeKind, OpenContent, Precondition, PutOptions,
    SealedContent, Step, StoreError, StoreResult, VersionTag,
};

use super::super::PhysicalStore;
use super::super::draft::{DraftContent, read_full};
use super::super::host::{self, HostStat, OpenMode, errno_to_store_error, io_to_store_error};
use super::super::mask::{join, split};
use super::super::owner_access;
use super::super::root::{self, Root};
use super::super::staging_area::{StagingArea, TempFile};
use super::ledger_event::{Fingerprint, LedgerEvent, ReplacedBytes};
use super::ledger_rows::LedgerRows;
use super::{PhysicalHistory, displaced_name};
use crate::virtual_store::capture::ContentHasher;
use crate::virtual_store::history::VirtualContentRef;

/// How many ledger rows are searched for content that was displaced after a caller got its `ContentRef`.
const MAX_ROWS_SEARCHED: usize = 4_096;
const PIECE_SIZE: usize = 1 << 20;

/// On whose behalf content is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenedFor {
    /// A caller who wants to read it. Content that the host didn't let this user read stays unreadable.
    Caller,
    /// Stead itself, to restore or compare it. As the owner of the files it can lift their modes.
    Stead,
}

/// Where the content of a `ContentRef` is.
enum ContentLocation<'p> {
    /// On disk, in the tree or displaced.
    OnDisk(&'p PhysicalContentRef),
    /// In the database: what snapshots captured, or what a merge brings from a fork.
    InDatabase(VirtualContentRef),
}

/// What a `ContentRef` of a Physical Store holds.
pub(in super::super) struct PhysicalContentRef {
    root: Root,
    history: Arc<PhysicalHistory>,
    source: ContentSource,
    /// The content's hash, if it was computed before.
    hash: Option<[u8; 32]>,
}

/// Where content is found: in a base, with pieces of other files over it.
#[derive(Debug, Clone)]
pub(super) struct ContentSource {
    base: BaseContent,
    /// How many bytes of the base are visible.
    base_visible: u64,
    length: u64,
    /// The pieces over the base, by start: end, the row whose displaced file has the bytes, and the offset in that
    /// file.
    overlays: BTreeMap<u64, (u64, (i64, i64), u64)>,
    /// Whether the content is the base and nothing else.
    is_plain: bool,
}

/// A file, or a symlink's target.
#[derive(Debug, Clone)]
enum BaseContent {
    /// In the tree. If the file doesn't have this fingerprint any more, it was displaced.
    InTree { path: Vec<u8>, fingerprint: Fingerprint },
    /// What a row displaced, or the path `below` it.
    Displaced { row: (i64, i64), below: Vec<u8> },
}

/// An open base.
enum OpenBase {
    File(File),
    SymlinkTarget(Vec<u8>),
}

impl ContentSource {
    /// The content at a path now.
    pub(super) fn in_tree(path: Vec<u8>, fingerprint: Fingerprint) -> Self {
        ContentSource::new(BaseContent::InTree { path, fingerprint }, fingerprint.size)
    }

    /// What a row displaced, or the path `below` it.
    pub(super) fn displaced(row: (i64, i64), below: Vec<u8>, fingerprint: &Fingerprint) -> Self {
        ContentSource::new(BaseContent::Displaced { row, below }, fingerprint.size)
    }

    fn new(base: BaseContent, length: u64) -> Self {
        ContentSource { base, base_visible: length, length, overlays: BTreeMap::new(), is_plain: true }
    }

    /// The same content before a patch. The displaced file of `row` has the replaced bytes.
    pub(super) fn before_patch(mut self, row: (i64, i64), replaced: &ReplacedBytes) -> Self {
        self.is_plain = false;
        self.length = replaced.length;
        self.base_visible = self.base_visible.min(replaced.length);
        self.clear_overlays(replaced.length, u64::MAX);
        let mut filled = 0;
        for &(start, length) in &replaced.pieces {
            self.clear_overlays(start, start + length);
            self.overlays.insert(start, (start + length, row, filled));
            filled += length;
        }
        self
    }

    /// Removes a range from the overlays, cutting those that reach beyond it.
    fn clear_overlays(&mut self, start: u64, end: u64) {
        let touching: Vec<_> = self
            .overlays
            .range(..end)
            .rev()
            .take_while(|(_, (last, ..))| *last > start)
            .map(|(&first, &piece)| (first, piece))
            .collect();
        for (first, (last, row, offset)) in touching {
            self.overlays.remove(&first);
            if first < start {
                self.overlays.insert(first, (start, row, offset));
            }
            if last > end {
                self.overlays.insert(end, (last, row, offset + (end - first)));
            }
        }
    }

    /// The row whose displaced file is this very content, if there is one.
    fn displaced_row(&self) -> Option<(i64, i64)> {
        match &self.base {
            BaseContent::Displaced { row, below } if below.is_empty() && self.is_plain => Some(*row),
            BaseContent::Displaced { .. } | BaseContent::InTree { .. } => None,
        }
    }

    fn open(
        &self,
        root: &Root,
        history: &Arc<PhysicalHistory>,
        reader: OpenedFor,
    ) -> StoreResult<OpenContentSource> {
        let (base, kind, size) = self.base.open(root, history, reader)?;
        let (base_visible, length, overlays) =
            (self.base_visible.min(size), self.length, self.overlays.clone());
        Ok(OpenContentSource {
            history: Arc::clone(history),
            base,
            kind,
            base_visible,
            length,
            overlays,
            expected_hash: None,
        })
    }

    /// On whose behalf the content is opened to be compared. A file in the tree is read as the caller: reading it as
    /// Stead could mean lifting its mode, which sets its change time.
    fn opened_for_comparison(&self) -> OpenedFor {
        match self.base {
            BaseContent::Displaced { .. } => OpenedFor::Stead,
            BaseContent::InTree { .. } => OpenedFor::Caller,
        }
    }

    /// Identifies the content by where its bytes are, if it can't be hashed.
    fn location_hash(&self) -> [u8; 32] {
        let base = match &self.base {
            BaseContent::InTree { fingerprint, .. } => {
                format!("{} {} {}", fingerprint.ino, fingerprint.size, fingerprint.modified.0)
            }
            BaseContent::Displaced { row, below } => format!("{row:?} {}", below.escape_ascii()),
        };
        *blake3::hash(format!("{base} {} {} {:?}", self.base_visible, self.length, self.overlays).as_bytes())
            .as_bytes()
    }

    /// The attributes of the file in the tree that is the base, if it is still there.
    fn stat_in_tree(&self, root: &Root) -> Option<HostStat> {
        let BaseContent::InTree { path, .. } = &self.base else { return None };
        let (parent, name) = split(path);
        root::enter(&root.dir, parent, OpenMode::Traverse).ok()?.stat_at(name).ok()
    }

    /// The content's BLAKE3 hash.
    pub(super) fn hash(&self, root: &Root, history: &Arc<PhysicalHistory>) -> StoreResult<[u8; 32]> {
        let mut hasher = blake3::Hasher::new();
        self.open(root, history, self.opened_for_comparison())?.each_piece(|piece| {
            hasher.update(piece);
        })?;
        Ok(*hasher.finalize().as_bytes())
    }

    fn to_physical_ref(&self, store: &PhysicalStore, hash: Option<[u8; 32]>) -> PhysicalContentRef {
        PhysicalContentRef {
            root: store.root.clone(),
            history: Arc::clone(&store.history),
            source: self.clone(),
            hash,
        }
    }

    /// The content as a `ContentRef` that can be compared with a snapshot's: both have hashes of `ContentHasher`.
    pub(super) fn content_ref_beside_capture(&self, store: &PhysicalStore, size: u64) -> Option<ContentRef> {
        let physical_ref = || self.to_physical_ref(store, None);
        if size == 0 {
            return Some(ContentRef::new(ContentId::Empty, 0, physical_ref()));
        }
        let finder = physical_ref();
        Some(ContentRef::with_lazy_id(size, physical_ref(), move || {
            let mut hasher = ContentHasher::default();
            let reader = finder.source.opened_for_comparison();
            let open = finder.source.open(&finder.root, &finder.history, reader).ok()?;
            open.each_piece(|piece| hasher.update(piece)).ok()?;
            Some(ContentId::Hash(hasher.finish()))
        }))
    }

    /// The content as a `ContentRef`. If its `hash` is not known yet, it is computed when it is first needed.
    pub(super) fn content_ref(
        &self,
        store: &PhysicalStore,
        hash: Option<[u8; 32]>,
        size: u64,
    ) -> Option<ContentRef> {
        let physical_ref = || self.to_physical_ref(store, hash);
        if size == 0 {
            return Some(ContentRef::new(ContentId::Empty, 0, physical_ref()));
        }
        if let Some(hash) = hash {
            return Some(ContentRef::new(ContentId::Hash(hash), size, physical_ref()));
        }
        let finder = physical_ref();
        Some(ContentRef::with_lazy_id(size, physical_ref(), move || {
            let location = || ContentId::Location(finder.source.location_hash());
            Some(finder.hash().map_or_else(|_| location(), ContentId::Hash))
        }))
    }
}

impl PhysicalContentRef {
    fn open(&self, reader: OpenedFor) -> StoreResult<OpenContentSource> {
        let hash = self.hash.filter(|_| self.source.displaced_row().is_some());
        Ok(OpenContentSource { expected_hash: hash, ..self.source.open(&self.root, &self.history, reader)? })
    }

    fn hash(&self) -> StoreResult<[u8; 32]> {
        let hash = self.source.hash(&self.root, &self.history)?;
        if let Some((revision, seq)) = self.source.displaced_row()
            && let Some(ledger) = self.history.ledger()?
        {
            // For the next call, and for `stead verify`. If this fails, the hash is computed again.
            let _ = ledger.set_content_hash(revision, seq, hash);
        }
        Ok(hash)
    }
}

impl BaseContent {
    fn open(
        &self,
        root: &Root,
        history: &PhysicalHistory,
        reader: OpenedFor,
    ) -> StoreResult<(OpenBase, NodeKind, u64)> {
        // Keeps directories on the way, whose modes were lifted, accessible until the content is open.
        let mut access_guard = None;
        let (dir, name) = match self {
            BaseContent::InTree { path, fingerprint } => {
                let (parent, name) = split(path);
                let found = match reader {
                    OpenedFor::Caller => root::enter(&root.dir, parent, OpenMode::Traverse),
                    OpenedFor::Stead => {
                        owner_access::enter(&root.dir, parent).map_err(errno_to_store_error).map(|entered| {
                            let dir = entered.clone();
                            access_guard = Some(entered);
                            dir
                        })
                    }
                };
                let found = found.and_then(|dir| {
                    let stat = dir.stat_at(name).map_err(errno_to_store_error)?;
                    Ok((dir, stat))
                });
                match found {
                    Ok((dir, stat)) if Fingerprint::of(&stat).has_same_content(fingerprint) => {
                        (dir, name.to_vec())
                    }
                    // It was displaced since.
                    _ => {
                        let base = history.find_displaced(fingerprint)?.ok_or(StoreError::NotFound)?;
                        return base.open(root, history, reader);
                    }
                }
            }
            BaseContent::Displaced { row, below } => {
                let path = join(displaced_name(row.0, row.1).as_bytes(), below);
                let (parent, name) = split(&path);
                let displaced_dir = history.displaced_dir_of(*row)?;
                let dir = match reader {
                    OpenedFor::Caller => root::enter(displaced_dir, parent, OpenMode::Traverse)?,
                    OpenedFor::Stead => access_guard
                        .insert(owner_access::enter(displaced_dir, parent).map_err(errno_to_store_error)?)
                        .clone(),
                };
                (dir, name.to_vec())
            }
        };
        let stat = dir.stat_at(&name).map_err(errno_to_store_error)?;
        match stat.kind {
            NodeKind::Symlink => {
                let target = host::read_link(dir.as_fd(), &name).map_err(errno_to_store_error)?;
                let size = target.len() as u64;
                Ok((OpenBase::SymlinkTarget(target), stat.kind, size))
            }
            NodeKind::File => {
                let file = match reader {
                    OpenedFor::Caller => dir.open(&name, OpenMode::Read),
                    OpenedFor::Stead => owner_access::open(&dir, &name, OpenMode::Read).map(|(file, _)| file),
                };
                let file = File::from(file.map_err(errno_to_store_error)?);
                let size = host::stat(&file).map_err(errno_to_store_error)?.size;
                Ok((OpenBase::File(file), stat.kind, size))
            }
            NodeKind::Directory => Err(StoreError::IsADirectory),
            NodeKind::Special(_) => Err(StoreError::Special(stat.kind)),
        }
    }
}

impl PhysicalHistory {
    /// Finds displaced content that had this fingerprint, among the newest rows of the ledger.
    fn find_displaced(&self, fingerprint: &Fingerprint) -> StoreResult<Option<BaseContent>> {
        let Some(ledger) = self.ledger()? else { return Ok(None) };
        let mut rows = LedgerRows::new(&*ledger);
        for _ in 0..MAX_ROWS_SEARCHED {
            let Some(stored_row) = rows.next()? else { break };
            let event = LedgerEvent::from_row(&stored_row)?;
            let is_same = event.detail.before.is_some_and(|before| before.has_same_content(fingerprint));
            if is_same && stored_row.row.displaced_kept && event.detail.patch.is_none() {
                let row = (stored_row.revision, stored_row.row.seq);
                return Ok(Some(BaseContent::Displaced { row, below: Vec::new() }));
            }
        }
        Ok(None)
    }
}

/// An open `ContentSource`.
struct OpenContentSource {
    history: Arc<PhysicalHistory>,
    base: OpenBase,
    kind: NodeKind,
    base_visible: u64,
    length: u64,
    overlays: BTreeMap<u64, (u64, (i64, i64), u64)>,
    /// The hash that the content must have, if it is known.
    expected_hash: Option<[u8; 32]>,
}

impl OpenContentSource {
    /// Fails with `Corrupt` if the content's hash is known and isn't this one. `hash` is called only if it is known.
    fn check_hash(&self, hash: impl FnOnce() -> StoreResult<[u8; 32]>) -> StoreResult<()> {
        match self.expected_hash {
            Some(expected) if hash()? != expected => {
                Err(StoreError::Corrupt("the earlier content doesn't match its hash".into()))
            }
            _ => Ok(()),
        }
    }

    /// Opens the displaced file of a row for reading.
    fn open_displaced(&self, row: (i64, i64)) -> StoreResult<File> {
        let name = displaced_name(row.0, row.1);
        Ok(self
            .history
            .displaced_dir_of(row)?
            .open(name.as_bytes(), OpenMode::Read)
            .map_err(errno_to_store_error)?
            .into())
    }

    /// Passes all of the content to `visit`, piece by piece.
    fn each_piece(&self, mut visit: impl FnMut(&[u8])) -> StoreResult<()> {
        let mut buffer = vec![0; PIECE_SIZE.min(usize::try_from(self.length).unwrap_or(PIECE_SIZE).max(1))];
        let mut done = 0;
        loop {
            match self.read_at(done, &mut buffer)? {
                0 => return Ok(()),
                count => {
                    visit(&buffer[..count]);
                    done += count as u64;
                }
            }
        }
    }

    /// Copies the content into a file, inside the kernel if possible, and checks its hash.
    fn copy_to(&self, to: &File) -> StoreResult<()> {
        match &self.base {
            OpenBase::File(file) => {
                host::copy_range(file, 0, to, 0, self.base_visible).map_err(io_to_store_error)?;
            }
            OpenBase::SymlinkTarget(target) => {
                use std::os::unix::fs::FileExt;
                to.write_all_at(target, 0).map_err(io_to_store_error)?;
            }
        }
        to.set_len(self.length).map_err(io_to_store_error)?;
        for (&start, &(end, row, offset)) in &self.overlays {
            host::copy_range(&self.open_displaced(row)?, offset, to, start, end - start)
                .map_err(io_to_store_error)?;
        }
        self.check_hash(|| {
            let (mut hasher, mut piece, mut done) = (blake3::Hasher::new(), vec![0; PIECE_SIZE], 0);
            loop {
                match read_full(to, done, &mut piece)? {
                    0 => return Ok(*hasher.finalize().as_bytes()),
                    count => {
                        hasher.update(&piece[..count]);
                        done += count as u64;
                    }
                }
            }
        })
    }
}

impl OpenContent for OpenContentSource {
    fn attr(&self) -> Attr {
        Attr {
            node: NodeId(0),
            kind: self.kind,
            size: self.length,
            mode: 0o644,
            created: None,
            modified: Timestamp(0),
            changed: Timestamp(0),
            tag: VersionTag(0),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize> {
        let length = self.length.saturating_sub(offset).min(buffer.len() as u64);
        let end = offset + length;
        let mut at = offset;
        while at < end {
            let index = |at: u64| usize::try_from(at - offset).expect("within the buffer");
            let overlay = self.overlays.range(..=at).next_back().filter(|(_, (last, ..))| *last > at);
            let (piece_end, filled) = match overlay {
                Some((&first, &(last, row, start))) => {
                    let piece_end = last.min(end);
                    let piece = &mut buffer[index(at)..index(piece_end)];
                    (piece_end, read_full(&self.open_displaced(row)?, start + (at - first), piece)?)
                }
                None => {
                    let next = self.overlays.range(at..).next().map_or(end, |(&first, _)| first).min(end);
                    let piece_end = if at < self.base_visible { next.min(self.base_visible) } else { next };
                    let piece = &mut buffer[index(at)..index(piece_end)];
                    let filled = match &self.base {
                        _ if at >= self.base_visible => 0,
                        OpenBase::File(file) => read_full(file, at, piece)?,
                        OpenBase::SymlinkTarget(target) => {
                            let start = usize::try_from(at).unwrap_or(target.len()).min(target.len());
                            let count = piece.len().min(target.len() - start);
                            piece[..count].copy_from_slice(&target[start..start + count]);
                            count
                        }
                    };
                    (piece_end, filled)
                }
            };
            buffer[index(at) + filled..index(piece_end)].fill(0);
            at = piece_end;
        }
        let length = usize::try_from(length).expect("within the buffer");
        if offset == 0 && end == self.length {
            self.check_hash(|| Ok(*blake3::hash(&buffer[..length]).as_bytes()))?;
        }
        Ok(length)
    }
}

impl PhysicalStore {
    pub(in super::super) fn open_content_ref(
        &self,
        content_ref: &ContentRef,
    ) -> StoreResult<Box<dyn OpenContent>> {
        match self.locate_content(content_ref)? {
            ContentLocation::OnDisk(physical_ref) => Ok(Box::new(physical_ref.open(OpenedFor::Caller)?)),
            ContentLocation::InDatabase(stored) => stored.open(),
        }
    }

    /// Where the content is that this Store handed out as `content_ref`; `Invalid` if another Store did.
    fn locate_content<'p>(&self, content_ref: &'p ContentRef) -> StoreResult<ContentLocation<'p>> {
        let foreign_error = || StoreError::Invalid("the content belongs to another Store".into());
        match content_ref.inner::<PhysicalContentRef>() {
            Some(physical_ref) if Arc::ptr_eq(&physical_ref.history, &self.history) => {
                Ok(ContentLocation::OnDisk(physical_ref))
            }
            Some(_) => Err(foreign_error()),
            None => {
                let stored = VirtualContentRef::of(content_ref);
                let stored = stored.filter(|stored| stored.database.id == self.database);
                Ok(ContentLocation::InDatabase(stored.ok_or_else(foreign_error)?))
            }
        }
    }

    /// Replaces stored content in steps by staged copies of it, before the change displaces anything.
    pub(in super::super) fn stage_restored_content(
        &self,
        staging: &Arc<StagingArea>,
        mut steps: Vec<Step>,
        monitor: Option<&Arc<dyn CallMonitor>>,
    ) -> StoreResult<Vec<Step>> {
        // Old and new tags of files whose mode was lifted to read them: that set their change time.
        let mut new_tags = HashMap::new();
        let (step_count, mut staged_files) = (steps.len(), 0);
        for (index, step) in steps.iter_mut().enumerate() {
            check_not_stopped(monitor)?;
            if let Step::Write { content, .. } | Step::Append { content, .. } = step
                && let Content::Stored(content_ref) = &*content
            {
                report_step(monitor, index, step_count * 2);
                let temp: TempFile = staging.new_temp_file()?;
                match self.locate_content(content_ref)? {
                    ContentLocation::OnDisk(physical_ref) => {
                        let before = physical_ref.source.stat_in_tree(&physical_ref.root);
                        physical_ref.open(OpenedFor::Stead)?.copy_to(&temp.file)?;
                        if let (Some(before), Some(after)) =
                            (before, physical_ref.source.stat_in_tree(&physical_ref.root))
                            && before.has_same_content(&after)
                        {
                            new_tags.insert(before.tag(), after.tag());
                        }
                    }
                    ContentLocation::InDatabase(stored) => {
                        copy_content(&*stored.open()?, content_ref.size(), &temp.file)?;
                    }
                }
                let staged = DraftContent::staged(temp, staged_files);
                staged_files += 1;
                *content = Content::Sealed(SealedContent::new(content_ref.size(), staged));
            }
        }
        for precondition in steps.iter_mut().filter_map(precondition_of) {
            if let Precondition::Tag(tag) | Precondition::TagOrAbsent(tag) = precondition
                && let Some(current_tag) = new_tags.get(tag)
            {
                *tag = *current_tag;
            }
        }
        Ok(steps)
    }
}

/// The precondition of a step, if its kind can have one.
fn precondition_of(step: &mut Step) -> Option<&mut Precondition> {
    match step {
        Step::Write { options: PutOptions { expect, .. }, .. }
        | Step::Append { options: PutOptions { expect, .. }, .. }
        | Step::Edit { expect, .. }
        | Step::Symlink { expect, .. }
        | Step::Remove { expect, .. }
        | Step::Rename { expect, .. } => Some(expect),
        Step::Mkdir { .. } | Step::Copy { .. } | Step::SetAttr { .. } => None,
    }
}

/// Copies content of this size into a file.
fn copy_content(content: &dyn OpenContent, size: u64, to: &File) -> StoreResult<()> {
    use std::os::unix::fs::FileExt;
    let mut buffer = vec![0; usize::try_from(size).map_or(PIECE_SIZE, |size| size.clamp(1, PIECE_SIZE))];
    let mut done = 0;
    loop {
        match content.read_at(done, &mut buffer)? {
            0 => return Ok(()),
            count => {
                to.write_all_at(&buffer[..count], done).map_err(io_to_store_error)?;
                done += count as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlays_of(source: &ContentSource) -> Vec<(u64, u64, i64, u64)> {
        source.overlays.iter().map(|(&start, &(end, row, offset))| (start, end, row.0, offset)).collect()
    }

    #[test]
    fn patches_are_undone_one_after_the_other() {
        let source = ContentSource::new(BaseContent::Displaced { row: (9, 0), below: Vec::new() }, 100);
        // An append of 20 bytes, before which a write replaced 10..30.
        let source = source.before_patch((8, 0), &ReplacedBytes { length: 80, pieces: Vec::new() });
        assert_eq!((source.base_visible, source.length), (80, 80));
        let source = source.before_patch((7, 0), &ReplacedBytes { length: 80, pieces: vec![(10, 20)] });
        assert_eq!(overlays_of(&source), [(10, 30, 7, 0)]);
        // An older write replaced the middle of that, and two more bytes at the end, which was further out.
        let source =
            source.before_patch((6, 0), &ReplacedBytes { length: 90, pieces: vec![(15, 5), (80, 10)] });
        assert_eq!(overlays_of(&source), [(10, 15, 7, 0), (15, 20, 6, 0), (20, 30, 7, 10), (80, 90, 6, 5)]);
        assert_eq!((source.base_visible, source.length), (80, 90));
        let source = source.before_patch((5, 0), &ReplacedBytes { length: 12, pieces: Vec::new() });
        assert_eq!((overlays_of(&source), source.length), (vec![(10, 12, 7, 0)], 12));
    }
}
