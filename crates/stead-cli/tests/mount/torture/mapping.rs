//! Files read and written through memory mappings.

#![allow(unsafe_code, reason = "a mapping is as sound as the file under it is left alone")]

use std::fs::File;

/// The content of a file that no other process changes.
pub(crate) fn read(file: &File) -> Vec<u8> {
    // SAFETY: only the caller has the file, and doesn't change it during the read.
    let mapping = unsafe { memmap2::Mmap::map(file).unwrap() };
    mapping.to_vec()
}

/// The first bytes of a file that other writers only append to.
pub(crate) fn read_first(file: &File, length: usize) -> Vec<u8> {
    // SAFETY: no writer truncates the file or changes the bytes that it has, and they are copied at once.
    let mapping = unsafe { memmap2::MmapOptions::new().len(length).map(file).unwrap() };
    mapping.to_vec()
}

/// Closes a file and keeps it mapped until the value is dropped.
pub(crate) fn keep_mapped(file: File) -> impl Drop {
    struct Kept(memmap2::Mmap);
    impl Drop for Kept {
        fn drop(&mut self) {
            assert!(!self.0.is_empty());
        }
    }
    // SAFETY: nothing is read through the mapping.
    Kept(unsafe { memmap2::Mmap::map(&file).unwrap() })
}

/// Writes into a file through a mapping and syncs it. Other writers may do the same at other offsets.
pub(crate) fn write(file: &File, offset: usize, bytes: &[u8]) {
    // SAFETY: no writer truncates the file, and the only reference into the mapping is to the bytes that this caller
    // alone writes.
    let mut mapping = unsafe { memmap2::MmapMut::map_mut(file).unwrap() };
    mapping[offset..offset + bytes.len()].copy_from_slice(bytes);
    mapping.flush_range(offset, bytes.len()).unwrap();
}
