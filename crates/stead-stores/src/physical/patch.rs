//! Writing into a file where it is: it keeps its inode, and a large one is not rewritten.
//!
//! No system call writes many bytes whole or not at all, so the old bytes are set aside first, and the intent says
//! what is written where: an append only needs the old length. What became of it is told by the bytes that are there
//! (`survey`).

use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stead_core::store::StoreResult;
use stead_core::{Clock, SystemClock, Timestamp};

use super::fault_point::FaultPoint;
use super::host::{
    self, Errno, GRANTABLE_MODE_BITS, HostStat, OpenMode, errno_to_store_error, io_to_store_error,
};
use super::patch_outcome::{PatchOutcome, WriteRecorder, WrittenBlocks, patch_outcome};
use super::staging_area::{StagingArea, TempFile};
use super::undo::{UndoContext, UndoTime};
use crate::Durability;
use crate::sync;

const PIECE_SIZE: u64 = 1 << 20;
/// So long after the intent, the time of modification may still be the one of the write itself. Later it is left alone,
/// which costs an undo of earlier changes, but never hides another program's.
const OWN_MTIME_SECONDS: i64 = 2;

/// How a file is written into.
pub(super) struct WritePlan<'a> {
    /// How much of what it has may stay; what lies behind it reads as zeros from then on.
    pub(super) kept_length: u64,
    /// What is written where.
    pub(super) extents: Vec<WriteExtent>,
    /// How long it is afterwards.
    pub(super) length: u64,
    pub(super) source: WriteSource<'a>,
}

/// What became of a write into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteLanding {
    /// Everything is where it was planned.
    AsPlanned,
    /// Another program has appended first: the end is further on.
    AfterForeignAppend,
}

/// A stretch of content, and where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WriteExtent {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) length: u64,
}

/// Where the content comes from.
#[derive(Clone, Copy)]
pub(super) enum WriteSource<'a> {
    Bytes(&'a [u8]),
    File(&'a File),
}

/// A file's mode and the time of its last modification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ModeAndTime {
    pub(super) mode: u32,
    pub(super) modified: Timestamp,
}

/// What is written down of it first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FilePatch {
    pub(super) ino: u64,
    pub(super) old_length: u64,
    pub(super) new_length: u64,
    pub(super) before: ModeAndTime,
    pub(super) after: ModeAndTime,
    /// How much of what it has may stay; what lies behind it reads as zeros from then on.
    pub(super) kept_length: u64,
    pub(super) written: WrittenBlocks,
    /// Where the old bytes are, one after the other, and where they belong.
    pub(super) stash: Option<String>,
    pub(super) replaced: Vec<(u64, u64)>,
    /// Whether the change has no other action: if all was written, the change was done.
    pub(super) is_only_action: bool,
    /// When it was about to be written.
    pub(super) at: Timestamp,
}

impl WritePlan<'_> {
    /// Sets the old bytes aside and says how to undo it.
    pub(super) fn prepare(
        &self,
        file: &File,
        stat: &HostStat,
        after: ModeAndTime,
        shop: &Arc<StagingArea>,
        durability: Durability,
        alone: bool,
    ) -> StoreResult<(FilePatch, Option<TempFile>)> {
        let mut replaced: Vec<(u64, u64)> = self
            .extents
            .iter()
            .map(|extent| (extent.to, (extent.to + extent.length).min(stat.size)))
            .chain([(self.kept_length.min(self.length), stat.size)])
            .filter(|(start, end)| start < end)
            .collect();
        replaced.sort_unstable();
        replaced.dedup_by(|next, last| {
            let touches = next.0 <= last.1;
            if touches {
                last.1 = last.1.max(next.1);
            }
            touches
        });
        let replaced: Vec<_> = replaced.into_iter().map(|(start, end)| (start, end - start)).collect();
        let stash = if replaced.is_empty() { None } else { Some(shop.new_temp_file()?) };
        if let Some(stash) = &stash {
            let mut filled = 0;
            for &(start, length) in &replaced {
                host::copy_range(file, start, &stash.file, filled, length).map_err(io_to_store_error)?;
                filled += length;
            }
            if durability == Durability::Full {
                sync::sync_all(sync::SyncPoint::ReplacedBytes, &stash.file).map_err(errno_to_store_error)?;
                sync::sync_all(sync::SyncPoint::ReplacedBytesName, shop.staging_dir_fd())
                    .map_err(errno_to_store_error)?;
            }
        }
        let mut recorder = WriteRecorder::new(stat.size, self.is_append(stat));
        self.each_piece(|offset, bytes| {
            recorder.add(offset, bytes);
            Ok(())
        })?;
        let patch = FilePatch {
            ino: stat.ino,
            old_length: stat.size,
            new_length: self.length,
            before: ModeAndTime { mode: stat.mode, modified: stat.modified },
            after,
            kept_length: self.kept_length,
            written: recorder.finish(),
            stash: stash.as_ref().map(|stash| stash.entry.name().to_owned()),
            replaced,
            is_only_action: alone,
            at: SystemClock.now(),
        };
        Ok((patch, stash))
    }

    /// Whether nothing is done to what the file has: all is written at its end, wherever that is by then.
    pub(super) fn is_append(&self, stat: &HostStat) -> bool {
        self.kept_length >= stat.size
            && matches!(&*self.extents, [only] if only.to == stat.size && self.length == only.to + only.length)
    }

    /// The last stretch, if it is written at the end of the file.
    fn append_extent(&self, stat: &HostStat) -> Option<WriteExtent> {
        let last = *self.extents.last()?;
        let is_at_the_end =
            self.kept_length >= stat.size && last.to == stat.size && self.length == last.to + last.length;
        Some(last).filter(|_| is_at_the_end)
    }

    /// Writes it. What belongs at the end goes there in one go, also where another program appends at the same time.
    pub(super) fn write(
        &self,
        file: &File,
        stat: &HostStat,
        after: ModeAndTime,
        life: &FaultPoint,
    ) -> StoreResult<WriteLanding> {
        if after.mode != stat.mode {
            life.pass("mode")?;
            match host::set_mode(file, after.mode) {
                // Another user's: the kernel itself takes the set-user-id bit away when it is written to.
                Err(Errno::PERM) if after.mode == stat.mode & GRANTABLE_MODE_BITS => {}
                result => result.map_err(errno_to_store_error)?,
            }
        }
        let mut length = stat.size;
        if self.kept_length < length {
            life.pass("cut")?;
            file.set_len(self.kept_length).map_err(io_to_store_error)?;
            length = self.kept_length;
        }
        let tail = self.append_extent(stat).map(|tail| tail.to);
        let mut landed = WriteLanding::AsPlanned;
        self.each_piece(|offset, bytes| {
            life.pass("patch")?;
            if tail.is_none_or(|tail| offset < tail) {
                return file.write_all_at(bytes, offset).map_err(io_to_store_error);
            }
            if tail == Some(offset) {
                host::set_appending(file).map_err(errno_to_store_error)?;
            }
            let (mut end, planned) = (file, offset + bytes.len() as u64);
            end.write_all(bytes).map_err(io_to_store_error)?;
            if end.stream_position().map_err(io_to_store_error)? != planned {
                landed = WriteLanding::AfterForeignAppend;
            }
            Ok(())
        })?;
        let end = self.extents.iter().map(|extent| extent.to + extent.length).max().unwrap_or(0);
        if length.max(end) != self.length {
            life.pass("length")?;
            file.set_len(self.length).map_err(io_to_store_error)?;
        }
        life.pass("time")?;
        host::set_modified(file, after.modified).map_err(errno_to_store_error)?;
        Ok(landed)
    }

    fn each_piece(&self, mut each: impl FnMut(u64, &[u8]) -> StoreResult<()>) -> StoreResult<()> {
        let mut buffer = Vec::new();
        for extent in &self.extents {
            let mut done = 0;
            while done < extent.length {
                // Each ends where a block does, so that a process killed between two has written whole blocks. What is
                // little is written in one go.
                let room = if extent.length <= PIECE_SIZE {
                    PIECE_SIZE
                } else {
                    PIECE_SIZE - (extent.to + done) % PIECE_SIZE
                };
                let count = usize::try_from((extent.length - done).min(room)).expect("at most a piece");
                let from = extent.from + done;
                let bytes = match self.source {
                    WriteSource::Bytes(bytes) => {
                        let start = usize::try_from(from).expect("an offset into memory");
                        &bytes[start..start + count]
                    }
                    WriteSource::File(file) => {
                        buffer.resize(count.max(buffer.len()), 0);
                        file.read_exact_at(&mut buffer[..count], from).map_err(io_to_store_error)?;
                        &buffer[..count]
                    }
                };
                each(extent.to + done, bytes)?;
                done += count as u64;
            }
        }
        Ok(())
    }
}

impl FilePatch {
    /// What has become of it, by the bytes that the file has now.
    pub(super) fn outcome(
        &self,
        file: &File,
        stat: &HostStat,
        site: &UndoContext<'_>,
    ) -> StoreResult<PatchOutcome> {
        let stash = match &self.stash {
            Some(stash) => match host::open_name(site.staging_dir, stash.as_bytes(), OpenMode::Read) {
                Ok(fd) => Some(File::from(fd)),
                // It never got so far that anything was written, or it is all over.
                Err(Errno::NOENT) => {
                    return Ok(if site.is_performed {
                        PatchOutcome::ChangedSince
                    } else {
                        PatchOutcome::NotWritten
                    });
                }
                Err(error) => return Err(errno_to_store_error(error)),
            },
            None => None,
        };
        patch_outcome(file, stat, self, stash.as_ref(), site.is_performed)
    }

    /// Whether the file's time of modification is the change's own, so far as anyone can know.
    fn has_own_time(&self, stat: &HostStat, moment: UndoTime) -> bool {
        if moment == UndoTime::DuringChange {
            return true;
        }
        [self.before.modified, self.after.modified].contains(&stat.modified)
            || stat.modified.as_secs() <= self.at.as_secs() + OWN_MTIME_SECONDS
    }

    /// Gives a file that has all that was to be written the time that it was to have.
    pub(super) fn complete(&self, file: &File, stat: &HostStat, moment: UndoTime) -> StoreResult<()> {
        if stat.modified != self.after.modified && self.has_own_time(stat, moment) {
            host::set_modified(file, self.after.modified).map_err(errno_to_store_error)?;
        }
        Ok(())
    }

    /// Gives a file its old bytes and its old length back.
    pub(super) fn revert(&self, file: &File, stat: &HostStat, site: &UndoContext<'_>) -> StoreResult<()> {
        if let Some(stash) = &self.stash {
            let stash = host::open_name(site.staging_dir, stash.as_bytes(), OpenMode::Read)
                .map_err(errno_to_store_error)?;
            let (stash, mut filled) = (File::from(stash), 0);
            for &(start, length) in &self.replaced {
                host::copy_range(&stash, filled, file, start, length).map_err(io_to_store_error)?;
                filled += length;
            }
        }
        file.set_len(self.old_length).map_err(io_to_store_error)?;
        if stat.mode == self.after.mode {
            host::set_mode(file, self.before.mode).map_err(errno_to_store_error)?;
        }
        if self.has_own_time(stat, site.when) {
            host::set_modified(file, self.before.modified).map_err(errno_to_store_error)?;
        }
        sync::sync_all(sync::SyncPoint::RevertedFile, file).map_err(errno_to_store_error)
    }
}
