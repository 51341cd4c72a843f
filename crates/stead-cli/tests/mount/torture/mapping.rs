//! Files read and written through memory.

#![allow(unsafe_code, reason = "a mapping is as sound as the file under it is left alone")]

use std::fs::File;

/// The content of a file that nobody else changes.
pub(crate) fn read(file: &File) -> Vec<u8> {
    // SAFETY: only the caller has the file, and it changes nothing while this reads.
    let mapping = unsafe { memmap2::Mmap::map(file).unwrap() };
    mapping.to_vec()
}

/// The first bytes of a file that others only append to.
pub(crate) fn read_first(file: &File, length: usize) -> Vec<u8> {
    // SAFETY: nobody cuts the file, and nobody changes what it has; a copy is made at once.
    let mapping = unsafe { memmap2::MmapOptions::new().len(length).map(file).unwrap() };
    mapping.to_vec()
}

/// A file that is closed, and stays mapped until the value is dropped.
pub(crate) fn kept(file: File) -> impl Drop {
    struct Kept(memmap2::Mmap);
    impl Drop for Kept {
        fn drop(&mut self) {
            assert!(!self.0.is_empty());
        }
    }
    // SAFETY: nothing is read through it.
    Kept(unsafe { memmap2::Mmap::map(&file).unwrap() })
}

/// Writes into a file through memory, which others may do as well, and has it written back.
pub(crate) fn write(file: &File, offset: usize, bytes: &[u8]) {
    // SAFETY: nobody cuts the file, and of what is mapped no reference is kept but to the bytes that this caller alone
    // writes.
    let mut mapping = unsafe { memmap2::MmapMut::map_mut(file).unwrap() };
    mapping[offset..offset + bytes.len()].copy_from_slice(bytes);
    mapping.flush_range(offset, bytes.len()).unwrap();
}
