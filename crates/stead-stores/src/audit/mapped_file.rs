//! A file of fixed size, mapped into memory: what is written there survives the process without a system call.

#![allow(unsafe_code, reason = "the one place of this crate where a file is mapped")]

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;
use rustix::fs::{FallocateFlags, fallocate};

/// A mapped file that only this instance uses, as bytes.
#[derive(Debug)]
pub(crate) struct MappedFile(MmapMut);

impl MappedFile {
    /// Maps a file with this size. Only this instance may use the file, and nothing may truncate it. If it is mapped
    /// twice, each mapping must write its own bytes.
    ///
    /// All blocks are allocated now, so that a full disk is an error here, and not a fatal signal at a later write.
    pub(crate) fn new(file: &File, size: usize) -> io::Result<Self> {
        match fallocate(file, FallocateFlags::empty(), 0, size as u64) {
            Ok(()) => {}
            // On a file system without `fallocate`, writing zeros allocates the blocks.
            Err(rustix::io::Errno::OPNOTSUPP) => {
                use std::os::unix::fs::FileExt;
                file.write_all_at(&vec![0; size], 0)?;
            }
            Err(error) => return Err(error.into()),
        }
        // SAFETY: the file lies in the audit's own directory, which only its owner may enter, and the instance's lock
        // is held. No one else maps, writes or truncates it while this mapping exists, and two mappings of this
        // instance never use the same bytes. The file has `size` bytes, allocated above.
        let map = unsafe { memmap2::MmapOptions::new().len(size).map_mut(file) }?;
        Ok(MappedFile(map))
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for MappedFile {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
