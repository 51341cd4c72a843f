//! A file of fixed size in memory: what is put there outlives the process without a system call.

#![allow(unsafe_code, reason = "the one place of this crate where a file is mapped")]

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;
use rustix::fs::{FallocateFlags, fallocate};

/// A file that is ours alone, as bytes.
#[derive(Debug)]
pub(super) struct MappedFile(MmapMut);

impl MappedFile {
    /// Maps a file of this instance's own, which nobody cuts, at this size. Where it is mapped twice, each map has bytes of its
    /// own to write. All of it is set aside on the disk: a full disk fails
    /// here, and not where it could no longer be told.
    pub(super) fn new(file: &File, size: usize) -> io::Result<Self> {
        match fallocate(file, FallocateFlags::empty(), 0, size as u64) {
            Ok(()) => {}
            // Where nothing can be set aside, zeros that were written have a place, too.
            Err(rustix::io::Errno::OPNOTSUPP) => {
                use std::os::unix::fs::FileExt;
                file.write_all_at(&vec![0; size], 0)?;
            }
            Err(error) => return Err(error.into()),
        }
        // SAFETY: the file lies in the log's own directory, which only its owner may enter, and its lock is held; no one
        // else maps, writes or truncates it while this map is there, and two maps of this instance are never used for the
        // same bytes. It has `size` bytes, set aside above.
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
