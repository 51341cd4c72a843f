//! Takes names of the host directory over into the base layer: what they are now is the fork's base from then on.
//!
//! A file's content is copied, and its version tag is compared before and after, so that no mixture of two states is taken over.

use std::sync::Arc;

use stead_core::monitor::{CallMonitor, check_not_stopped};
use stead_core::store::{Attr, DraftBase, NodeKind, NodePath, OpenPurpose, Page, StorePath};
use stead_core::{Store, StoreError, StoreResult};

use crate::overlay::OverlayStore;
use crate::overlay::base_layer::{FoundNode, NewName, ParentOf, entry_kind};
use crate::overlay::place::{LiveDirectory, Place};
use crate::overlay::taken_index::TakenPart;
use crate::virtual_store::content::{CHUNK_SIZE, PreparedContent};
use crate::virtual_store::entry_row::EntryKind;

/// How often a file is read at most, if it is written to meanwhile.
const MAX_REREADS: usize = 8;
/// The most names, and about the most bytes of content, that are taken over in one transaction.
pub(super) const MAX_BATCH_NAMES: usize = 256;
pub(super) const MAX_BATCH_BYTES: usize = 1 << 20;

/// Names that are about to be taken over.
#[derive(Default)]
struct Batch {
    names: Vec<NewName>,
    bytes: usize,
}

impl OverlayStore {
    /// Takes over every name on a path, as far as the host directory has it, and the first name that it doesn't have.
    pub(super) fn take_over_path(
        &self,
        at: &NodePath,
        monitor: Option<&Arc<dyn CallMonitor>>,
    ) -> StoreResult<()> {
        let Place::Live(live) = self.place(at)? else { return Ok(()) };
        let part = self.layer.with_index(|index| index.taken_part(self.layer.root, &live.path));
        self.take_over_part(part, monitor)
    }

    /// Takes over a name in a directory of the base layer.
    pub(super) fn take_over_name(
        &self,
        directory: i64,
        name: Vec<u8>,
        monitor: Option<&Arc<dyn CallMonitor>>,
    ) -> StoreResult<()> {
        let Some(live) = self.live_directory(directory)? else { return Ok(()) };
        self.take_over_part(TakenPart { directory, path: live.path, rest: vec![name] }, monitor)
    }

    pub(super) fn take_over_part(
        &self,
        part: TakenPart,
        monitor: Option<&Arc<dyn CallMonitor>>,
    ) -> StoreResult<()> {
        let TakenPart { directory, mut path, rest } = part;
        let lower = self.lower.get()?;
        let (mut names, mut parent) = (Vec::new(), ParentOf::Node(directory));
        let last = rest.len().saturating_sub(1);
        for (index, name) in rest.into_iter().enumerate() {
            path = path.child(&name);
            let found = self.find_node(&*lower, &path, monitor, |kind| {
                // Nothing can be below a file, so it need not be copied to refuse the path.
                if index < last && kind == NodeKind::File { Err(StoreError::NotADirectory) } else { Ok(()) }
            })?;
            let is_directory = found.as_ref().is_some_and(|found| found.kind == EntryKind::Directory);
            names.push(NewName { parent, name, found });
            if !is_directory {
                break;
            }
            parent = ParentOf::Batch(index);
        }
        self.layer.insert_names(&self.upper, names)
    }

    /// What the host directory has at a path; `None` if there is nothing.
    pub(super) fn find_node(
        &self,
        lower: &dyn Store,
        path: &StorePath,
        monitor: Option<&Arc<dyn CallMonitor>>,
        check_kind: impl Fn(NodeKind) -> StoreResult<()>,
    ) -> StoreResult<Option<FoundNode>> {
        let at = NodePath::from_root(path.clone());
        for _ in 0..MAX_REREADS {
            check_not_stopped(monitor)?;
            let attr = match lower.stat(&at) {
                Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => {
                    return Ok(None);
                }
                attr => attr?,
            };
            check_kind(attr.kind)?;
            let kind = entry_kind(attr.kind).ok_or(StoreError::Special(attr.kind))?;
            let content = match kind {
                EntryKind::Directory => {
                    return Ok(Some(FoundNode { kind, attr, content: PreparedContent::Empty }));
                }
                EntryKind::Symlink => lower.read_link(&at).map(PreparedContent::single),
                EntryKind::File => self.copy_content(lower, &at, &attr, monitor),
            };
            let content = match content {
                // It was replaced meanwhile.
                Err(
                    StoreError::NotFound
                    | StoreError::Link(_)
                    | StoreError::NotADirectory
                    | StoreError::IsADirectory
                    | StoreError::Conflict,
                ) => continue,
                content => content?,
            };
            let is_same = lower.stat(&at).is_ok_and(|current| current.tag == attr.tag);
            if is_same && content.size() == attr.size.cast_signed() {
                return Ok(Some(FoundNode { kind, attr, content }));
            }
        }
        Err(StoreError::unavailable(
            "another program keeps writing to the file in the directory that the fork was made from; try again",
        ))
    }

    /// Copies a file's content. `Conflict` if the file isn't the one with these attributes any more.
    fn copy_content(
        &self,
        lower: &dyn Store,
        at: &NodePath,
        attr: &Attr,
        monitor: Option<&Arc<dyn CallMonitor>>,
    ) -> StoreResult<PreparedContent> {
        // Not for writing: that would set the mode of a file that its owner may not read for a moment, and a fork changes nothing on
        // the host.
        let file = lower.open(at, OpenPurpose::Read)?;
        if file.attr().tag != attr.tag {
            return Err(StoreError::Conflict);
        }
        let mut buffer = vec![0; CHUNK_SIZE.min(usize::try_from(attr.size).unwrap_or(CHUNK_SIZE))];
        if attr.size <= CHUNK_SIZE as u64 {
            let count = file.read_at(0, &mut buffer)?;
            buffer.truncate(count);
            return Ok(PreparedContent::single(buffer));
        }
        let mut draft = self.upper.draft(DraftBase::Empty)?;
        let mut done = 0;
        while done < attr.size {
            check_not_stopped(monitor)?;
            match file.read_at(done, &mut buffer)? {
                0 => break,
                count => {
                    draft.write_at(done, &buffer[..count])?;
                    done += count as u64;
                }
            }
        }
        self.upper.prepared_draft(draft.seal()?)
    }

    /// The part of the host directory that a directory of the fork still shows.
    pub(super) fn live_directory(&self, directory: i64) -> StoreResult<Option<LiveDirectory>> {
        let find = || -> crate::database::error::Result<_> {
            let reader = self.upper.database_inner().reader()?;
            let seq = self.layer.refresh(&reader)?;
            Ok(self.live_part((directory, seq)))
        };
        Ok(find()?)
    }

    /// Takes over everything below a directory of the fork. Special files can't be held by a fork, so they are left out.
    pub(super) fn take_over_below(
        &self,
        top: i64,
        monitor: Option<&Arc<dyn CallMonitor>>,
    ) -> StoreResult<()> {
        let mut waiting = vec![top];
        waiting.extend(self.upper.directories_below(top)?);
        while let Some(directory) = waiting.pop() {
            let Some(live) = self.live_directory(directory)? else { continue };
            let new_directories = self.take_over_entries(directory, &live, monitor)?;
            waiting.extend(new_directories);
        }
        Ok(())
    }

    /// Takes over all names of a directory. Returns the directories among them.
    fn take_over_entries(
        &self,
        directory: i64,
        live: &LiveDirectory,
        monitor: Option<&Arc<dyn CallMonitor>>,
    ) -> StoreResult<Vec<i64>> {
        let lower = self.lower.get()?;
        let listed = match lower.list(&NodePath::from_root(live.path.clone()), &Page::ALL) {
            Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => Vec::new(),
            listing => listing?.entries,
        };
        let (mut batch, mut subdirectories) = (Batch::default(), Vec::new());
        for entry in listed.into_iter().filter(|entry| !live.taken.contains(entry.name.as_bytes())) {
            let path = live.path.child(entry.name.as_bytes());
            let found = match self.find_node(&*lower, &path, monitor, |_| Ok(())) {
                Err(StoreError::Special(_)) => continue,
                found => found?,
            };
            if found.as_ref().is_some_and(|found| found.kind == EntryKind::Directory) {
                subdirectories.push(path);
            }
            batch.bytes += found.as_ref().map_or(0, |found| match &found.content {
                PreparedContent::Single { bytes, .. } => bytes.len(),
                _ => 0,
            });
            let name = entry.name.as_bytes().to_vec();
            batch.names.push(NewName { parent: ParentOf::Node(directory), name, found });
            if batch.names.len() >= MAX_BATCH_NAMES || batch.bytes >= MAX_BATCH_BYTES {
                self.layer.insert_names(&self.upper, std::mem::take(&mut batch).names)?;
            }
        }
        let whole = NewName { parent: ParentOf::Node(directory), name: Vec::new(), found: None };
        batch.names.push(whole);
        self.layer.insert_names(&self.upper, batch.names)?;
        // The index learns the nodes of the new directories.
        self.live_directory(directory)?;
        let root = self.layer.root;
        let node_at = |path: &StorePath| {
            let part = self.layer.with_index(|index| index.taken_part(root, path));
            part.rest.is_empty().then_some(part.directory)
        };
        Ok(subdirectories.iter().filter_map(node_at).collect())
    }
}
