//! Numbers in a file that all processes share. If the file can be mapped, reading or setting one takes no system call.
//! A value outlives the process that set it.

#![allow(
    unsafe_code,
    reason = "the one place of the Physical Store where memory is shared between processes"
)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, fallocate};
use stead_core::store::StoreResult;

use super::draft::read_full;
use super::host::io_to_store_error;

const CELL_SIZE: usize = size_of::<u64>();

/// A fixed number of shared 64-bit numbers, all zero at first.
#[derive(Debug)]
pub(super) struct SharedCells<const COUNT: usize>(CellStorage);

#[derive(Debug)]
enum CellStorage {
    Mapped(MmapRaw),
    /// The host can't map the file, or can't allocate its blocks. Without blocks, a write to the map on a full disk
    /// would raise a signal instead of an error.
    Unmapped(File),
}

impl<const COUNT: usize> SharedCells<COUNT> {
    /// The numbers in one of Stead's own files, which must never be truncated.
    pub(super) fn new(file: File) -> Self {
        let size = COUNT * CELL_SIZE;
        let map = fallocate(&file, FallocateFlags::empty(), 0, size as u64).ok();
        let map = map.and_then(|()| MmapOptions::new().len(size).map_raw(&file).ok());
        SharedCells(map.map_or(CellStorage::Unmapped(file), CellStorage::Mapped))
    }

    /// The numbers in a file that no process changes any more.
    pub(super) fn read_only(file: File) -> Self {
        SharedCells(CellStorage::Unmapped(file))
    }

    /// Reads all numbers.
    pub(super) fn all(&self) -> StoreResult<[u64; COUNT]> {
        let mut cells = [0; COUNT];
        match &self.0 {
            CellStorage::Mapped(map) => {
                for (index, cell) in cells.iter_mut().enumerate() {
                    *cell = u64::from_le(atomic(map, index).load(Ordering::SeqCst));
                }
            }
            CellStorage::Unmapped(file) => {
                // If the file is shorter, the rest are zeros.
                let mut bytes = vec![0; COUNT * CELL_SIZE];
                read_full(file, 0, &mut bytes)?;
                for (cell, bytes) in cells.iter_mut().zip(bytes.as_chunks().0) {
                    *cell = u64::from_le_bytes(*bytes);
                }
            }
        }
        Ok(cells)
    }

    pub(super) fn set(&self, index: usize, value: u64) -> StoreResult<()> {
        assert!(index < COUNT);
        match &self.0 {
            CellStorage::Mapped(map) => {
                atomic(map, index).store(value.to_le(), Ordering::SeqCst);
                Ok(())
            }
            CellStorage::Unmapped(file) => {
                file.write_all_at(&value.to_le_bytes(), (index * CELL_SIZE) as u64).map_err(io_to_store_error)
            }
        }
    }
}

fn atomic(map: &MmapRaw, index: usize) -> &AtomicU64 {
    assert!((index + 1) * CELL_SIZE <= map.len());
    // SAFETY: the number lies inside the map, which is aligned to pages and lives as long as the reference; its blocks
    // in the file are allocated, and no process truncates the file. All processes access it as an atomic number.
    unsafe { AtomicU64::from_ptr(map.as_mut_ptr().add(index * CELL_SIZE).cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_set_through_one_handle_is_seen_through_all_whether_mapped_or_read() {
        let file = tempfile::tempfile().unwrap();
        let copy = || file.try_clone().unwrap();
        let mapped = SharedCells::<4>::new(copy());
        assert!(matches!(mapped.0, CellStorage::Mapped(_)));
        let (mapped_again, unmapped) =
            (SharedCells::<4>::new(copy()), SharedCells::<4>(CellStorage::Unmapped(copy())));
        mapped.set(1, 7).unwrap();
        unmapped.set(3, u64::MAX).unwrap();
        for cells in [&mapped, &mapped_again, &unmapped] {
            assert_eq!(cells.all().unwrap(), [0, 7, 0, u64::MAX]);
        }
    }
}
