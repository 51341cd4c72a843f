//! Drafts: a new draft is a file in the staging area; a draft of an existing file is an overlay over that file.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use stead_core::store::{Draft, SealedContent, StoreError, StoreResult};

use super::host::{self, HostStat, errno_to_store_error, io_to_store_error};
use super::patch::{WriteExtent, WritePlan, WriteSource};
use super::staging_area::{StagingArea, TempEntry, TempFile};

/// The content of a sealed draft.
#[derive(Debug)]
pub(super) enum DraftContent {
    /// All of the content.
    Complete(TempFile),
    /// All of the content, in a file that isn't open: a change may have more of them than a process may have open files.
    Closed(TempEntry),
    /// The differences to a file.
    Overlay(Arc<Overlay>),
}

/// How many staged files of one change stay open until they are put in place.
const MAX_OPEN_FILES: usize = 64;

impl DraftContent {
    /// A staged file, which is one of many if its index is large.
    pub(super) fn staged(temp: TempFile, index: usize) -> Self {
        if index < MAX_OPEN_FILES { DraftContent::Complete(temp) } else { DraftContent::Closed(temp.entry) }
    }
}

/// A draft of a new file.
#[derive(Debug)]
pub(super) struct NewDraft {
    staging: Arc<StagingArea>,
    content: NewContent,
    size: u64,
}

/// Where the content of a new draft lies.
#[derive(Debug)]
enum NewContent {
    /// In a temporary file that a change can rename into place.
    Unsealed(TempFile),
    /// In a file that was handed to a change. The file may have no name any more, so it must not be written to.
    Sealed(File),
}

impl NewDraft {
    pub(super) fn new(staging: &Arc<StagingArea>) -> StoreResult<Self> {
        let content = NewContent::Unsealed(staging.new_temp_file()?);
        Ok(NewDraft { staging: Arc::clone(staging), content, size: 0 })
    }

    /// Returns a file that can be written to. If `seal` has handed the file to a change, the content is copied to a new
    /// one first.
    fn unsealed(&mut self) -> StoreResult<&mut TempFile> {
        if let NewContent::Sealed(content) = &self.content {
            let temp = self.staging.new_temp_file()?;
            host::copy_range(content, 0, &temp.file, 0, self.size).map_err(io_to_store_error)?;
            self.content = NewContent::Unsealed(temp);
        }
        match &mut self.content {
            NewContent::Unsealed(temp) => Ok(temp),
            NewContent::Sealed(_) => unreachable!("made above"),
        }
    }
}

impl Draft for NewDraft {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize> {
        let (NewContent::Unsealed(TempFile { file, .. }) | NewContent::Sealed(file)) = &self.content;
        read_full(file, offset, buffer)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> StoreResult<()> {
        self.unsealed()?.file.write_all_at(bytes, offset).map_err(io_to_store_error)?;
        if !bytes.is_empty() {
            self.size = self.size.max(offset + bytes.len() as u64);
        }
        Ok(())
    }

    fn set_size(&mut self, size: u64) -> StoreResult<()> {
        self.unsealed()?.file.set_len(size).map_err(io_to_store_error)?;
        self.size = size;
        Ok(())
    }

    fn seal(&mut self) -> StoreResult<SealedContent> {
        let handle = self.unsealed()?.file.try_clone().map_err(io_to_store_error)?;
        match std::mem::replace(&mut self.content, NewContent::Sealed(handle)) {
            NewContent::Unsealed(temp) => Ok(SealedContent::new(self.size, DraftContent::Complete(temp))),
            NewContent::Sealed(_) => unreachable!("unsealed above"),
        }
    }
}

/// A draft of an existing file: what was written lies over the file as it is now.
#[derive(Debug)]
pub(super) struct OverlayDraft(Arc<Overlay>);

/// The differences to a file. Written bytes lie in a sparse file at the same offsets; the rest is read from `base`, the
/// live file. A change of it by another program shows, and makes the commit fail with a conflict.
#[derive(Debug)]
pub(super) struct Overlay {
    staging: Arc<StagingArea>,
    base: File,
    pub(super) stat: HostStat,
    /// How many bytes of the base are visible: the smallest size that the draft has had.
    base_visible: u64,
    size: u64,
    /// Whether `set_size` has changed the size, as opposed to a write past the end.
    resized: bool,
    /// The written ranges: start to end.
    written: BTreeMap<u64, u64>,
    overlay: Option<TempFile>,
}

impl OverlayDraft {
    pub(super) fn new(staging: &Arc<StagingArea>, base: File, stat: HostStat) -> Self {
        OverlayDraft(Arc::new(Overlay {
            staging: staging.clone(),
            base,
            stat,
            base_visible: stat.size,
            size: stat.size,
            resized: false,
            written: BTreeMap::new(),
            overlay: None,
        }))
    }

    /// Returns the changes for writing. Fails while sealed content of this draft exists.
    fn unsealed(&mut self) -> StoreResult<&mut Overlay> {
        let in_use_error = || {
            StoreError::Invalid(
                "the draft is in use by a change; wait until the change is applied".to_owned(),
            )
        };
        Arc::get_mut(&mut self.0).ok_or_else(in_use_error)
    }
}

impl Overlay {
    /// Plans how to write the changes into the file itself, which may have grown since the draft was opened. `None` if
    /// nothing changes.
    pub(super) fn write_plan(&self, current: &HostStat) -> Option<WritePlan<'_>> {
        // A range that crosses the end of the file is split there: the part past the end is written as an append.
        let parts = |(&start, &end): (&u64, &u64)| {
            let middle = current.size.clamp(start, end);
            [(start, middle), (middle, end)].into_iter().filter(|(from, to)| from < to)
        };
        let extents: Vec<_> = self
            .written
            .iter()
            .flat_map(parts)
            .map(|(start, end)| WriteExtent { from: start, to: start, length: end - start })
            .collect();
        let end = extents.last().map_or(0, |last| last.to + last.length);
        let length = if self.resized { self.size } else { current.size.max(end) };
        let kept_length = if self.base_visible < self.stat.size {
            self.base_visible.min(current.size)
        } else {
            current.size
        };
        if extents.is_empty() && kept_length == current.size && length == current.size {
            return None;
        }
        let source =
            self.overlay.as_ref().map_or(WriteSource::Bytes(&[]), |overlay| WriteSource::File(&overlay.file));
        Some(WritePlan { kept_length, extents, length, source })
    }

    /// Copies the complete content to a temporary file. `Conflict` if the base was written to since the draft was
    /// opened, because the base's content at that time is lost.
    pub(super) fn to_temp_file(&self) -> StoreResult<TempFile> {
        if !host::stat(&self.base).map_err(errno_to_store_error)?.has_same_content(&self.stat) {
            return Err(StoreError::Conflict);
        }
        let temp = self.staging.new_temp_file()?;
        host::copy_range(&self.base, 0, &temp.file, 0, self.base_visible.min(self.size))
            .map_err(io_to_store_error)?;
        temp.file.set_len(self.size).map_err(io_to_store_error)?;
        if let Some(overlay) = &self.overlay {
            for (&start, &end) in &self.written {
                host::copy_range(&overlay.file, start, &temp.file, start, end - start)
                    .map_err(io_to_store_error)?;
            }
        }
        Ok(temp)
    }

    fn note_written(&mut self, mut start: u64, mut end: u64) {
        let touching: Vec<_> = self
            .written
            .range(..=end)
            .rev()
            .take_while(|&(_, &last)| last >= start)
            .map(|(&first, _)| first)
            .collect();
        for first in touching {
            let last = self.written.remove(&first).expect("found above");
            (start, end) = (start.min(first), end.max(last));
        }
        self.written.insert(start, end);
    }
}

impl Draft for OverlayDraft {
    fn size(&self) -> u64 {
        self.0.size
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> StoreResult<()> {
        self.unsealed()?.write_at(offset, bytes)
    }

    fn set_size(&mut self, size: u64) -> StoreResult<()> {
        self.unsealed()?.set_size(size);
        Ok(())
    }

    fn seal(&mut self) -> StoreResult<SealedContent> {
        Ok(SealedContent::new(self.0.size, DraftContent::Overlay(Arc::clone(&self.0))))
    }
}

impl Overlay {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize> {
        let length = self.size.saturating_sub(offset).min(buffer.len() as u64);
        let end = offset + length;
        let mut at = offset;
        while at < end {
            let overlay_range = self.written.range(..=at).next_back().filter(|&(_, &last)| last > at);
            let (piece_end, source) = match (overlay_range, &self.overlay) {
                (Some((_, &last)), Some(overlay)) => (last, Some(&overlay.file)),
                _ => {
                    let next = self.written.range(at..).next().map_or(end, |(&first, _)| first);
                    if at < self.base_visible {
                        (next.min(self.base_visible), Some(&self.base))
                    } else {
                        (next, None)
                    }
                }
            };
            let piece_end = piece_end.min(end);
            let piece = |at: u64| usize::try_from(at - offset).expect("within the buffer");
            let piece = &mut buffer[piece(at)..piece(piece_end)];
            let filled = source.map_or(Ok(0), |file| read_full(file, at, piece))?;
            piece[filled..].fill(0);
            at = piece_end;
        }
        Ok(usize::try_from(length).expect("within the buffer"))
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> StoreResult<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.overlay.is_none() {
            self.overlay = Some(self.staging.new_temp_file()?);
        }
        let overlay = self.overlay.as_ref().expect("made above");
        overlay.file.write_all_at(bytes, offset).map_err(io_to_store_error)?;
        let end = offset + bytes.len() as u64;
        self.note_written(offset, end);
        self.size = self.size.max(end);
        Ok(())
    }

    fn set_size(&mut self, size: u64) {
        if size < self.size {
            self.base_visible = self.base_visible.min(size);
            self.written.retain(|&start, _| start < size);
            if let Some((_, end)) = self.written.iter_mut().next_back() {
                *end = (*end).min(size);
            }
        }
        self.resized |= size != self.size;
        self.size = size;
    }
}

/// Reads until the buffer is full or the file ends, and returns how many bytes were read.
pub(super) fn read_full(file: &File, offset: u64, buffer: &mut [u8]) -> StoreResult<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(io_to_store_error(error)),
        }
    }
    Ok(filled)
}
