//! Small writes into stored chunks, kept in memory until there are enough of them to write the chunks again.
//!
//! A chunk is always written again as a whole. Without these patches, a caller that writes a few bytes here and there
//! would write a new chunk for every write.

use std::collections::BTreeMap;

/// The largest write that is kept as a patch.
const MAX_PATCH_SIZE: usize = 32 << 10;
/// How many bytes of patches are kept in total.
const MAX_TOTAL_SIZE: usize = 8 << 20;

/// An offset in a chunk, and the bytes that belong there.
type ChunkPatch = (usize, Box<[u8]>);

#[derive(Debug, Default)]
pub(super) struct ChunkPatches {
    /// The patches of each chunk, oldest first.
    by_chunk: BTreeMap<usize, Vec<ChunkPatch>>,
    bytes: usize,
}

impl ChunkPatches {
    /// Whether a write is small enough to be a patch.
    pub(super) fn accepts(&self, bytes: &[u8]) -> bool {
        bytes.len() <= MAX_PATCH_SIZE
    }

    /// Adds a patch at an offset of a chunk.
    pub(super) fn add(&mut self, chunk: usize, offset: usize, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.by_chunk.entry(chunk).or_default().push((offset, bytes.into()));
    }

    /// Whether it is time to write the chunks again.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > MAX_TOTAL_SIZE
    }

    pub(super) fn contains(&self, chunk: usize) -> bool {
        self.by_chunk.contains_key(&chunk)
    }

    /// The first chunk that has patches.
    pub(super) fn first(&self) -> Option<usize> {
        self.by_chunk.keys().next().copied()
    }

    /// Applies a chunk's patches to its bytes, and removes them. Returns whether there were any.
    pub(super) fn apply(&mut self, chunk: usize, target: &mut [u8]) -> bool {
        let Some(patches) = self.by_chunk.remove(&chunk) else { return false };
        for (offset, bytes) in patches {
            self.bytes -= bytes.len();
            target[offset..offset + bytes.len()].copy_from_slice(&bytes);
        }
        true
    }

    /// Drops the patches of a chunk that is replaced.
    pub(super) fn forget(&mut self, chunk: usize) {
        let patches = self.by_chunk.remove(&chunk).unwrap_or_default();
        self.bytes -= patches.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    }

    /// Drops the patches of chunks from index `chunks` on.
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
    fn patches_are_full_at_their_total_size() {
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
