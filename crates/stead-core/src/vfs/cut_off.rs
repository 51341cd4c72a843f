//! What an open file had behind the place where it was cut, for a kernel that has not heard of the cut yet.
//!
//! A kernel that reads a mounted file into its pages asks for all that it takes the file to have. It hears of a cut only
//! after the file was cut, and shows zeros for what it asked for in between and did not get. So what was cut off can be read
//! until the kernel is known to have heard: from then on it has dropped those pages, and asks for them no more. The page that
//! the file ends in is one that a kernel which has heard asks for, too: behind the end it is zeros.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::{Draft, OpenContent, StoreResult};

/// The kernel's pages, as large as they are at the least.
const PAGE: u64 = 4096;
/// The most that is copied of content that is in a draft alone.
const MOST: u64 = 1 << 20;

/// What was cut off.
pub(super) struct CutOff {
    /// Where the file was cut.
    from: u64,
    held: Held,
    was_read: AtomicBool,
}

/// Where it is.
enum Held {
    /// In the state that the node's content shows.
    Content,
    /// In a state from before.
    Earlier(Box<dyn OpenContent>),
    /// Here: it has never been a change.
    Bytes(Vec<u8>),
}

impl CutOff {
    /// What a file has behind a place, before it is cut there.
    pub(super) fn of(
        draft: Option<&mut (dyn Draft + 'static)>,
        content: &dyn OpenContent,
        from: u64,
    ) -> StoreResult<Option<Self>> {
        let size = draft.as_ref().map_or(content.attr().size, |draft| draft.size());
        if from >= size {
            return Ok(None);
        }
        let held = match draft {
            Some(draft) => {
                let mut bytes = vec![0; usize::try_from((size - from).min(MOST)).unwrap_or_default()];
                let count = draft.read_at(from, &mut bytes)?;
                bytes.truncate(count);
                Held::Bytes(bytes)
            }
            None => Held::Content,
        };
        Ok(Some(CutOff { from, held, was_read: AtomicBool::new(false) }))
    }

    /// The node's content shows another state from now on.
    pub(super) fn keep(&mut self, before: Box<dyn OpenContent>) {
        if let Held::Content = self.held {
            self.held = Held::Earlier(before);
        }
    }

    /// Reads what was cut off from an offset on, where the file ends now: nothing, unless a page behind its last is asked for.
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
        let count = match &self.held {
            Held::Content => content.read_at(offset, buffer)?,
            Held::Earlier(content) => content.read_at(offset, buffer)?,
            Held::Bytes(bytes) => {
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

    /// Where the file was cut, if anything behind that was read since.
    pub(super) fn read_from(&self) -> Option<u64> {
        self.was_read.load(Ordering::Relaxed).then_some(self.from)
    }
}
