//! Small writes into chunks that are stored: kept as they came, until so many have come that the chunks are worth making
//! anew.
//!
//! A chunk is made anew whole. Whoever writes a little here and a little there would make one for every write.

use std::collections::BTreeMap;

/// The largest write that is kept as it came.
const MAX_PATCH_SIZE: usize = 32 << 10;
/// How many bytes are kept.
const MAX_TOTAL_SIZE: usize = 8 << 20;

/// Bytes, and where in a chunk they belong.
type ChunkPatch = (usize, Box<[u8]>);

#[derive(Debug, Default)]
pub(super) struct ChunkPatches {
    /// For every chunk what was written into it, in order.
    by_chunk: BTreeMap<usize, Vec<ChunkPatch>>,
    bytes: usize,
}

impl ChunkPatches {
    /// Whether a write is small enough.
    pub(super) fn accepts(&self, bytes: &[u8]) -> bool {
        bytes.len() <= MAX_PATCH_SIZE
    }

    /// Keeps what was written into a chunk.
    pub(super) fn add(&mut self, chunk: usize, at: usize, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.by_chunk.entry(chunk).or_default().push((at, bytes.into()));
    }

    /// Whether it is time to make the chunks anew.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > MAX_TOTAL_SIZE
    }

    pub(super) fn contains(&self, chunk: usize) -> bool {
        self.by_chunk.contains_key(&chunk)
    }

    /// The first chunk that something was written into.
    pub(super) fn first(&self) -> Option<usize> {
        self.by_chunk.keys().next().copied()
    }

    /// Puts what was written into a chunk where it belongs. Whether there was anything.
    pub(super) fn apply(&mut self, chunk: usize, to: &mut [u8]) -> bool {
        let Some(patches) = self.by_chunk.remove(&chunk) else { return false };
        for (at, bytes) in patches {
            self.bytes -= bytes.len();
            to[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        true
    }

    /// Forgets what was written into a chunk that is replaced.
    pub(super) fn forget(&mut self, chunk: usize) {
        let patches = self.by_chunk.remove(&chunk).unwrap_or_default();
        self.bytes -= patches.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    }

    /// Forgets what was written into chunks that are no longer there.
    pub(super) fn truncate(&mut self, chunks: usize) {
        for (_, patches) in self.by_chunk.split_off(&chunks) {
            self.bytes -= patches.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_write_wins() {
        let mut patches = ChunkPatches::default();
        patches.add(3, 1, b"abc");
        patches.add(3, 2, b"X");
        patches.add(5, 0, b"gone");
        patches.truncate(5);
        assert!(patches.contains(3) && !patches.contains(5));
        assert_eq!((patches.first(), patches.bytes), (Some(3), 4));
        let mut chunk = *b"......";
        assert!(patches.apply(3, &mut chunk));
        assert_eq!(&chunk, b".aXc..");
        assert!(!patches.apply(3, &mut chunk));
        assert_eq!((patches.first(), patches.bytes), (None, 0));
    }

    #[test]
    fn there_is_an_end_to_what_is_kept() {
        let mut patches = ChunkPatches::default();
        let piece = vec![0; MAX_PATCH_SIZE];
        assert!(patches.accepts(&piece) && !patches.accepts(&vec![0; MAX_PATCH_SIZE + 1]));
        let count = (0..).take_while(|chunk| {
            patches.add(*chunk, 0, &piece);
            !patches.is_full()
        });
        assert_eq!(count.count(), MAX_TOTAL_SIZE / MAX_PATCH_SIZE);
    }
}
