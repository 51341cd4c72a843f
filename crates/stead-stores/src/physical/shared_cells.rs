//! Numbers that all processes share, in a file: a look at one, or a change, takes no system call where the file can be
//! mapped, and outlives the process that made it.

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

/// So many numbers, all zero at first.
#[derive(Debug)]
pub(super) struct SharedCells<const COUNT: usize>(CellStorage);

#[derive(Debug)]
enum CellStorage {
    Mapped(MmapRaw),
    /// The host can't map the file, or set all of it aside: a full disk would be a signal then, and no error.
    Unmapped(File),
}

impl<const COUNT: usize> SharedCells<COUNT> {
    /// The numbers in a file of Stead's own, which nobody cuts.
    pub(super) fn new(file: File) -> Self {
        let size = COUNT * CELL_SIZE;
        let map = fallocate(&file, FallocateFlags::empty(), 0, size as u64).ok();
        let map = map.and_then(|()| MmapOptions::new().len(size).map_raw(&file).ok());
        SharedCells(map.map_or(CellStorage::Unmapped(file), CellStorage::Mapped))
    }

    /// The numbers in a file that is not changed any more.
    pub(super) fn read_only(file: File) -> Self {
        SharedCells(CellStorage::Unmapped(file))
    }

    /// All of them.
    pub(super) fn all(&self) -> StoreResult<[u64; COUNT]> {
        let mut cells = [0; COUNT];
        match &self.0 {
            CellStorage::Mapped(map) => {
                for (index, cell) in cells.iter_mut().enumerate() {
                    *cell = u64::from_le(atomic(map, index).load(Ordering::SeqCst));
                }
            }
            CellStorage::Unmapped(file) => {
                // A file that is shorter ends in zeros.
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
    // SAFETY: the number lies inside the map, which is aligned to pages and lives as long as the reference; its room in the
    // file has been set aside, and nobody cuts the file. All processes use it as an atomic number.
    unsafe { AtomicU64::from_ptr(map.as_mut_ptr().add(index * CELL_SIZE).cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_sets_all_see_whether_the_file_is_mapped_or_read() {
        let file = tempfile::tempfile().unwrap();
        let copy = || file.try_clone().unwrap();
        let mapped = SharedCells::<4>::new(copy());
        assert!(matches!(mapped.0, CellStorage::Mapped(_)));
        let (other, read) = (SharedCells::<4>::new(copy()), SharedCells::<4>(CellStorage::Unmapped(copy())));
        mapped.set(1, 7).unwrap();
        read.set(3, u64::MAX).unwrap();
        for cells in [&mapped, &other, &read] {
            assert_eq!(cells.all().unwrap(), [0, 7, 0, u64::MAX]);
        }
    }
}
