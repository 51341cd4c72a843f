//! Files read through memory.

#![allow(unsafe_code, reason = "a mapping is as sound as the file under it is left alone")]

use std::fs::File;

/// The content of a file that nobody else changes.
pub(crate) fn read(file: &File) -> Vec<u8> {
    // SAFETY: only the caller has the file, and it changes nothing while this reads.
    let mapping = unsafe { memmap2::Mmap::map(file).unwrap() };
    mapping.to_vec()
}
