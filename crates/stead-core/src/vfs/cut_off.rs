//! What an open file had behind the offset that it was truncated to, for a kernel that doesn't know of that yet.
//!
//! When a kernel reads a mounted file into its pages, it requests as many bytes as it believes the file has. It learns
//! of a truncation only afterwards, and shows zeros for bytes that it requested in between and did not get. So the
//! bytes that were cut off can be read until the kernel is known to have learned of the truncation: then it has dropped
//! those pages and no longer requests them. It still requests the page in which the file now ends, so in that page the
//! bytes behind the end are zeros.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::{Draft, OpenContent, StoreResult};

/// The smallest page size of a kernel, in bytes.
const PAGE: u64 = 4096;
/// How many bytes are copied at most if the content is only in a draft.
const MAX_COPIED_BYTES: u64 = 1 << 20;

/// The bytes that a truncation cut off.
pub(super) struct CutOff {
    /// The size that the file was truncated to.
    from: u64,
    location: CutOffLocation,
    was_read: AtomicBool,
}

/// Where the bytes are.
enum CutOffLocation {
    /// In the content that the open node currently shows.
    Content,
    /// In content that the open node showed before.
    Earlier(Box<dyn OpenContent>),
    /// In memory: a draft held them and they were never committed.
    Bytes(Vec<u8>),
}

impl CutOff {
    /// Keeps what a file has from offset `from` on, before it is truncated to that size; `None` if it has nothing
    /// there.
    pub(super) fn before_truncate(
        draft: Option<&mut (dyn Draft + 'static)>,
        content: &dyn OpenContent,
        from: u64,
    ) -> StoreResult<Option<Self>> {
        let size = draft.as_ref().map_or(content.attr().size, |draft| draft.size());
        if from >= size {
            return Ok(None);
        }
        let location = match draft {
            Some(draft) => {
                let mut bytes =
                    vec![0; usize::try_from((size - from).min(MAX_COPIED_BYTES)).unwrap_or_default()];
                let count = draft.read_at(from, &mut bytes)?;
                bytes.truncate(count);
                CutOffLocation::Bytes(bytes)
            }
            None => CutOffLocation::Content,
        };
        Ok(Some(CutOff { from, location, was_read: AtomicBool::new(false) }))
    }

    /// Says that the open node now shows other content, and hands over the content from before.
    pub(super) fn content_replaced(&mut self, previous: Box<dyn OpenContent>) {
        if let CutOffLocation::Content = self.location {
            self.location = CutOffLocation::Earlier(previous);
        }
    }

    /// Reads cut-off bytes from an offset at or behind the new end. Returns zeros up to the end of the file's last
    /// page, and nothing unless the read goes beyond that page.
    pub(super) fn read_at(
        &self,
        content: &dyn OpenContent,
        offset: u64,
        buffer: &mut [u8],
    ) -> StoreResult<usize> {
        let gap = self.from.next_multiple_of(PAGE).saturating_sub(offset);
        let gap = usize::try_from(gap).unwrap_or(usize::MAX);
        if offset < self.from || gap >= buffer.len() {
            return Ok(0);
        }
        let (zeros, buffer) = buffer.split_at_mut(gap);
        let offset = offset + gap as u64;
        let count = match &self.location {
            CutOffLocation::Content => content.read_at(offset, buffer)?,
            CutOffLocation::Earlier(content) => content.read_at(offset, buffer)?,
            CutOffLocation::Bytes(bytes) => {
                let start = usize::try_from(offset - self.from).unwrap_or(usize::MAX).min(bytes.len());
                let count = buffer.len().min(bytes.len() - start);
                buffer[..count].copy_from_slice(&bytes[start..start + count]);
                count
            }
        };
        if count == 0 {
            return Ok(0);
        }
        self.was_read.store(true, Ordering::Relaxed);
        zeros.fill(0);
        Ok(gap + count)
    }

    /// The size that the file was truncated to, if cut-off bytes were read since.
    pub(super) fn truncated_size_if_read(&self) -> Option<u64> {
        self.was_read.load(Ordering::Relaxed).then_some(self.from)
    }
}
