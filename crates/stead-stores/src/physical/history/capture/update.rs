//! Brings the capture volume up to date with what is on disk.
//!
//! Both sides are listed side by side, directory by directory. A file whose tag (size, times, inode) is the same as at
//! the last capture is unchanged. Every other file is read, and again if it is written to meanwhile. Differences are
//! written in batches, so memory use stays flat and no transaction takes long.

use stead_core::Operation;
use stead_core::store::{
    Attr, CaptureScopes, Content, Coverage, DisplacedContent, Draft, DraftBase, IfMissing, NodeKind,
    NodePath, Page, Parents, Precondition, PutOptions, Step, Store, StoreError, StorePath, StoreResult,
    Subtree, VersionTag,
};

use super::super::super::PhysicalStore;
use super::super::super::draft::read_full;
use super::super::super::host::{self, errno_to_store_error};
use super::super::super::read::read_all;
use super::super::super::slot::LookupPurpose;
use super::pair_by_name;
use crate::virtual_store::capture::{
    CHUNK_SIZE, CaptureNote, CaptureTurn, CaptureVolume, CapturedEntry, ContentHasher,
};

/// How many notes, and how many bytes of content, are written at once.
const MAX_PENDING_NOTES: usize = 256;
const MAX_PENDING_BYTES: usize = 8 << 20;
/// How often a file is read at most, if it is written to meanwhile.
const MAX_REREADS: usize = 4;
/// How many names are handled between two progress reports.
const NAMES_PER_PROGRESS: u64 = 64;

pub(super) struct CaptureUpdate<'a> {
    store: &'a PhysicalStore,
    volume: &'a CaptureVolume,
    turn: CaptureTurn,
    operation: &'a Operation,
    scopes: &'a CaptureScopes,
    progress: &'a mut dyn FnMut(u64) -> StoreResult<()>,
    /// The content of larger files isn't captured.
    max_file_bytes: u64,
    pending_notes: Vec<CaptureNote>,
    /// How many bytes of content the notes hold.
    pending_bytes: usize,
    names_seen: u64,
    unread: Vec<StorePath>,
}

impl<'a> CaptureUpdate<'a> {
    pub(super) fn new(
        store: &'a PhysicalStore,
        volume: &'a CaptureVolume,
        turn: CaptureTurn,
        operation: &'a Operation,
        scopes: &'a CaptureScopes,
        progress: &'a mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> Self {
        let (pending_notes, unread) = (Vec::new(), Vec::new());
        CaptureUpdate {
            store,
            volume,
            turn,
            operation,
            scopes,
            progress,
            max_file_bytes: u64::MAX,
            pending_notes,
            pending_bytes: 0,
            names_seen: 0,
            unread,
        }
    }

    /// Captures everything except the content of files larger than `limit`. Returns the directories that could not be
    /// read.
    pub(super) fn run(&mut self, limit: u64) -> StoreResult<Vec<StorePath>> {
        self.max_file_bytes = limit;
        for top in self.scopes.roots() {
            self.capture_top(top)?;
        }
        self.flush()?;
        (self.progress)(self.names_seen)?;
        Ok(std::mem::take(&mut self.unread))
    }

    /// Captures the root of a scope, and the directories on the way to it.
    fn capture_top(&mut self, top: &StorePath) -> StoreResult<()> {
        if top.is_empty() {
            self.capture_children(top, Some(NodePath::root()), Coverage::Included)?;
            return Ok(());
        }
        let mut parent = StorePath::empty();
        for name in top.components() {
            let path = parent.child(name);
            let captured = self.volume.children(&NodePath::from_root(parent))?;
            let captured = captured.into_iter().find(|captured| captured.name == name);
            let present = match self.store.stat(&NodePath::from_root(path.clone())) {
                Ok(attr) => Some(attr),
                Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => None,
                Err(error) => return Err(error),
            };
            let on_the_way = path != *top;
            match present.filter(|attr| on_the_way && attr.kind == NodeKind::Directory) {
                Some(attr) => {
                    self.capture_directory(&path, &attr, captured.as_ref());
                    self.flush()?;
                }
                None => {
                    self.capture_entry(&path, present.filter(|_| !on_the_way), captured.as_ref())?;
                    return Ok(());
                }
            }
            parent = path;
        }
        Ok(())
    }

    /// Captures the entries of a directory, which the volume has at `at`. Returns whether names were added or
    /// removed.
    fn capture_children(
        &mut self,
        path: &StorePath,
        at: Option<NodePath>,
        covered: Coverage,
    ) -> StoreResult<bool> {
        let listed = match covered {
            Coverage::Included => self.store.list(&NodePath::from_root(path.clone()), &Page::ALL),
            Coverage::DirectoryOnly | Coverage::Excluded => Err(StoreError::NotFound),
        };
        let present = match listed {
            Ok(listing) => listing.entries,
            // It was removed meanwhile, or its entries are excluded.
            Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => Vec::new(),
            Err(error @ StoreError::Unavailable { .. }) => return Err(error),
            Err(_) => {
                self.unread.push(path.clone());
                Vec::new()
            }
        };
        let captured = match at {
            Some(at) => self.volume.children(&at)?,
            None => Vec::new(),
        };
        let mut touched = false;
        for (name, captured, present) in pair_by_name(captured, present) {
            self.names_seen += 1;
            if self.names_seen.is_multiple_of(NAMES_PER_PROGRESS) {
                (self.progress)(self.names_seen)?;
            }
            touched |= self.capture_entry(&path.child(&name), present, captured.as_ref())?;
        }
        Ok(touched)
    }

    /// Captures one name. Returns whether it was added or removed.
    fn capture_entry(
        &mut self,
        path: &StorePath,
        present: Option<Attr>,
        captured: Option<&CapturedEntry>,
    ) -> StoreResult<bool> {
        let with_coverage = present.map(|attr| (attr, self.scopes.coverage(path, attr.kind)));
        let included = with_coverage.filter(|(attr, covered)| {
            *covered != Coverage::Excluded
                && matches!(attr.kind, NodeKind::File | NodeKind::Directory | NodeKind::Symlink)
        });
        let Some((attr, covered)) = included else {
            return if captured.is_some() { self.note_removal(path).map(|()| true) } else { Ok(false) };
        };
        let same_kind = captured.filter(|captured| captured.kind == attr.kind);
        if captured.is_some() && same_kind.is_none() {
            self.note_removal(path)?;
        }
        let captured = same_kind;
        match attr.kind {
            NodeKind::Directory => {
                self.capture_directory(path, &attr, captured);
                let touched = self.capture_children(
                    path,
                    captured.map(|captured| NodePath::of_node(captured.node)),
                    covered,
                )?;
                if touched || captured.is_none_or(|captured| captured.modified != attr.modified) {
                    let (at, modified) = (NodePath::from_root(path.clone()), Some(attr.modified));
                    self.add_note(
                        CaptureNote::Changed(Box::new(Step::SetAttr { at, mode: None, modified }), None),
                        0,
                    )?;
                }
            }
            NodeKind::File => self.capture_file(path, &attr, captured)?,
            NodeKind::Symlink | NodeKind::Special(_) => self.capture_symlink(path, &attr, captured)?,
        }
        Ok(captured.is_none())
    }

    /// Captures a directory itself, without its entries.
    fn capture_directory(&mut self, path: &StorePath, attr: &Attr, captured: Option<&CapturedEntry>) {
        let (at, mode) = (NodePath::from_root(path.clone()), Some(attr.mode));
        let step = match captured {
            Some(captured) if captured.kind == NodeKind::Directory && captured.mode == attr.mode => return,
            Some(captured) if captured.kind == NodeKind::Directory => {
                Step::SetAttr { at, mode, modified: None }
            }
            Some(_) => {
                self.pending_notes.push(removal(path));
                Step::Mkdir { at, parents: Parents::Required, mode }
            }
            None => Step::Mkdir { at, parents: Parents::Required, mode },
        };
        self.pending_notes.push(CaptureNote::Changed(Box::new(step), None));
    }

    fn capture_file(
        &mut self,
        path: &StorePath,
        attr: &Attr,
        captured: Option<&CapturedEntry>,
    ) -> StoreResult<()> {
        if let Some(captured) = captured {
            let complete = captured.has_content() || attr.size > self.max_file_bytes;
            if complete && captured.host_tag == Some(attr.tag) {
                return Ok(());
            }
            if let Some(tag) = self.unchanged_tag(path, attr, captured)? {
                return self.add_note(CaptureNote::Unchanged(captured.node, tag), 0);
            }
        }
        let Some((content, attr)) = self.read_file(path, attr)? else {
            // It was removed meanwhile.
            return if captured.is_some() { self.note_removal(path) } else { Ok(()) };
        };
        let bytes = if let Content::Bytes(bytes) = &content { bytes.len() } else { 0 };
        let options = PutOptions {
            expect: Precondition::Any,
            parents: Parents::Required,
            mode: Some(attr.mode),
            modified: Some(attr.modified),
            displaced: DisplacedContent::Keep,
            max_size: None,
        };
        let step = Step::Write { at: NodePath::from_root(path.clone()), content, options };
        self.add_note(CaptureNote::Changed(Box::new(step), Some(attr.tag)), bytes)
    }

    fn capture_symlink(
        &mut self,
        path: &StorePath,
        attr: &Attr,
        captured: Option<&CapturedEntry>,
    ) -> StoreResult<()> {
        if captured.is_some_and(|captured| captured.host_tag == Some(attr.tag)) {
            return Ok(());
        }
        let at = NodePath::from_root(path.clone());
        let target = match self.store.link_target(&at) {
            Ok(target) => target,
            Err(error @ StoreError::Unavailable { .. }) => return Err(error),
            Err(_) => return if captured.is_some() { self.note_removal(path) } else { Ok(()) },
        };
        if let Some(captured) = captured
            && self.volume.hash(captured)? == Some(*blake3::hash(&target).as_bytes())
        {
            return self.add_note(CaptureNote::Unchanged(captured.node, attr.tag), 0);
        }
        let bytes = target.len();
        let step = Step::Symlink { at, target, parents: Parents::Required, expect: Precondition::Any };
        self.add_note(CaptureNote::Changed(Box::new(step), Some(attr.tag)), bytes)
    }

    /// The tag of a file whose content is unchanged, although its inode or change time isn't. The file is read to find
    /// out. `None` if it has to be captured again.
    fn unchanged_tag(
        &mut self,
        path: &StorePath,
        attr: &Attr,
        captured: &CapturedEntry,
    ) -> StoreResult<Option<VersionTag>> {
        let same_attributes =
            (captured.size, captured.mode, captured.modified) == (attr.size, attr.mode, attr.modified);
        if !same_attributes || !captured.has_content() || attr.size > self.max_file_bytes {
            return Ok(None);
        }
        let located = self.store.locate(&NodePath::from_root(path.clone()), LookupPurpose::Find)?;
        let Ok((file, stat)) = self.store.open_file(&located) else { return Ok(None) };
        let mut hasher = ContentHasher::default();
        let mut buffer = vec![0; CHUNK_SIZE];
        let mut done = 0;
        loop {
            match read_full(&file, done, &mut buffer)? {
                0 => break,
                count => {
                    hasher.update(&buffer[..count]);
                    done += count as u64;
                    (self.progress)(self.names_seen)?;
                }
            }
        }
        let is_unchanged = host::stat(&file).map_err(errno_to_store_error)? == stat && stat.tag() == attr.tag;
        let same_content = attr.size == 0 || self.volume.hash(captured)? == Some(hasher.finish());
        Ok((is_unchanged && same_content).then_some(attr.tag))
    }

    /// Reads a file: its content, and the attributes that it had then. Only the size, if the file is too large or the
    /// host denies access; `None` if it was removed.
    fn read_file(&mut self, path: &StorePath, attr: &Attr) -> StoreResult<Option<(Content, Attr)>> {
        let located = self.store.locate(&NodePath::from_root(path.clone()), LookupPurpose::Find)?;
        let mut last = None;
        for _ in 0..MAX_REREADS {
            let (file, stat) = match self.store.open_file(&located) {
                Ok(opened) => opened,
                Err(StoreError::HostDenied) => {
                    return Ok(Some((self.volume.size_only_content(attr.size), *attr)));
                }
                Err(error @ StoreError::Unavailable { .. }) => return Err(error),
                Err(_) => return Ok(None),
            };
            if stat.size > self.max_file_bytes {
                return Ok(Some((self.volume.size_only_content(stat.size), stat.attr())));
            }
            let content = if stat.size <= CHUNK_SIZE as u64 {
                Content::Bytes(read_all(&file, &stat, self.max_file_bytes)?)
            } else {
                self.stage_large_content(&file, stat.size)?
            };
            let current = host::stat(&file).map_err(errno_to_store_error)?;
            // The attributes from before reading: if the file was written to meanwhile, the next capture reads it
            // again.
            last = Some((content, stat.attr()));
            if current == stat {
                break;
            }
        }
        Ok(last)
    }

    /// Copies the content of a large file into the database piece by piece.
    fn stage_large_content(&mut self, file: &std::fs::File, size: u64) -> StoreResult<Content> {
        let mut draft: Box<dyn Draft> = self.volume.store().draft(DraftBase::Empty)?;
        let mut buffer = vec![0; CHUNK_SIZE];
        let mut done = 0;
        while done < size {
            let length = usize::try_from(size - done).unwrap_or(CHUNK_SIZE).min(CHUNK_SIZE);
            match read_full(file, done, &mut buffer[..length])? {
                0 => break,
                count => {
                    draft.write_at(done, &buffer[..count])?;
                    done += count as u64;
                    (self.progress)(self.names_seen)?;
                }
            }
        }
        Ok(Content::Sealed(draft.seal()?))
    }

    fn note_removal(&mut self, path: &StorePath) -> StoreResult<()> {
        self.add_note(removal(path), 0)
    }

    fn add_note(&mut self, note: CaptureNote, bytes: usize) -> StoreResult<()> {
        self.pending_notes.push(note);
        self.pending_bytes += bytes;
        if self.pending_notes.len() >= MAX_PENDING_NOTES || self.pending_bytes >= MAX_PENDING_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> StoreResult<()> {
        self.pending_bytes = 0;
        match std::mem::take(&mut self.pending_notes) {
            notes if notes.is_empty() => Ok(()),
            notes => self.volume.write_batch(self.turn, self.operation, notes),
        }
    }
}

fn removal(path: &StorePath) -> CaptureNote {
    let step = Step::Remove {
        at: NodePath::from_root(path.clone()),
        subtree: Subtree::Any,
        expect: Precondition::Any,
        if_missing: IfMissing::Ignore,
        protected: None,
        displaced: DisplacedContent::Keep,
    };
    CaptureNote::Changed(Box::new(step), None)
}
