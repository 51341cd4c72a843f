//! Writes into a file in place: the file keeps its inode, and a large file isn't rewritten.
//!
//! No system call writes many bytes atomically. So the old bytes are copied to the staging area first, and the intent
//! says what is written where; an append only needs the old length. After a crash, the bytes in the file tell how far
//! the write came (`patch_outcome`).

use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stead_core::store::StoreResult;
use stead_core::{Clock, SystemClock, Timestamp};

use super::fault_point::FaultPoint;
use super::foreign_writes::ForeignWrites;
use super::host::{
    self, Errno, GRANTABLE_MODE_BITS, HostStat, OpenMode, errno_to_store_error, io_to_store_error,
};
use super::patch_outcome::{PatchOutcome, WriteRecorder, WrittenBlocks, patch_outcome};
use super::staging_area::{StagingArea, TempFile};
use super::undo::{UndoContext, UndoTime};
use crate::Durability;
use crate::sync;

const PIECE_SIZE: u64 = 1 << 20;
/// How many seconds after the intent a modification time may still be that of the write itself. A later time is left
/// alone: earlier changes may then not be undoable, but another program's write is never hidden.
const OWN_MTIME_SECONDS: i64 = 2;

/// What is written into a file.
pub(super) struct WritePlan<'a> {
    /// How many bytes of the old content stay. The file is cut there first, so what follows reads as zeros unless it is
    /// written.
    pub(super) kept_length: u64,
    /// The ranges that are written.
    pub(super) extents: Vec<WriteExtent>,
    /// The length of the file afterwards.
    pub(super) length: u64,
    pub(super) source: WriteSource<'a>,
}

/// A range of the source, and the offset in the file that it is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WriteExtent {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) length: u64,
}

/// Where the bytes of a write come from.
#[derive(Clone, Copy)]
pub(super) enum WriteSource<'a> {
    Bytes(&'a [u8]),
    File(&'a File),
}

/// The mode and modification time of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ModeAndTime {
    pub(super) mode: u32,
    pub(super) modified: Timestamp,
}

/// The intent of a write into a file: everything that recovery needs to tell how far it came, and to undo it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FilePatch {
    pub(super) ino: u64,
    pub(super) old_length: u64,
    pub(super) new_length: u64,
    pub(super) before: ModeAndTime,
    pub(super) after: ModeAndTime,
    /// How many bytes of the old content stay. The file is cut there first, so what follows reads as zeros unless it is
    /// written.
    pub(super) kept_length: u64,
    pub(super) written: WrittenBlocks,
    /// The name of the copy of the old bytes in the staging directory. `replaced` holds the offset and length of each
    /// copied range, in the order in which they lie there.
    #[serde(rename = "stash")]
    pub(super) old_bytes_name: Option<String>,
    pub(super) replaced: Vec<(u64, u64)>,
    /// Whether the change has no other action. Then the change is done as soon as everything is written.
    pub(super) is_only_action: bool,
    /// When the intent was made.
    pub(super) at: Timestamp,
}

impl WritePlan<'_> {
    /// Copies the old bytes to the staging area, and returns the intent and that copy.
    pub(super) fn prepare(
        &self,
        file: &File,
        stat: &HostStat,
        after: ModeAndTime,
        staging: &Arc<StagingArea>,
        durability: Durability,
        is_only_action: bool,
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
        let old_bytes_file = if replaced.is_empty() { None } else { Some(staging.new_temp_file()?) };
        if let Some(old_bytes_file) = &old_bytes_file {
            let mut filled = 0;
            for &(start, length) in &replaced {
                host::copy_range(file, start, &old_bytes_file.file, filled, length)
                    .map_err(io_to_store_error)?;
                filled += length;
            }
            if durability == Durability::Full {
                sync::sync_all(sync::SyncPoint::ReplacedBytes, &old_bytes_file.file)
                    .map_err(errno_to_store_error)?;
                sync::sync_all(sync::SyncPoint::ReplacedBytesName, staging.staging_dir_fd())
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
            old_bytes_name: old_bytes_file.as_ref().map(|temp| temp.entry.name().to_owned()),
            replaced,
            is_only_action,
            at: SystemClock.now(),
        };
        Ok((patch, old_bytes_file))
    }

    /// Whether the old content stays and everything is written at the end of the file, wherever the end is by then.
    pub(super) fn is_append(&self, stat: &HostStat) -> bool {
        self.kept_length >= stat.size
            && matches!(&*self.extents, [only] if only.to == stat.size && self.length == only.to + only.length)
    }

    /// The last range, if it is written at the end of the file.
    fn append_extent(&self, stat: &HostStat) -> Option<WriteExtent> {
        let last = *self.extents.last()?;
        let is_at_the_end =
            self.kept_length >= stat.size && last.to == stat.size && self.length == last.to + last.length;
        Some(last).filter(|_| is_at_the_end)
    }

    /// Writes everything. The part at the end is appended (`O_APPEND`), so that it doesn't overwrite what another
    /// program appends at the same time. Tells `foreign_writes` of what other programs write meanwhile.
    pub(super) fn write(
        &self,
        file: &File,
        stat: &HostStat,
        after: ModeAndTime,
        fault_point: &FaultPoint,
        foreign_writes: &mut ForeignWrites,
    ) -> StoreResult<()> {
        if after.mode != stat.mode {
            fault_point.pass("mode")?;
            foreign_writes.before_action(file).map_err(errno_to_store_error)?;
            match host::set_mode(file, after.mode) {
                // The file is another user's: when it is written to, the kernel itself removes the set-user-id bit.
                Err(Errno::PERM) if after.mode == stat.mode & GRANTABLE_MODE_BITS => {}
                result => result.map_err(errno_to_store_error)?,
            }
            foreign_writes.after_mode(file).map_err(errno_to_store_error)?;
        }
        let mut length = stat.size;
        if self.kept_length < length {
            fault_point.pass("cut")?;
            foreign_writes.before_action(file).map_err(errno_to_store_error)?;
            file.set_len(self.kept_length).map_err(io_to_store_error)?;
            foreign_writes.after_write(file).map_err(errno_to_store_error)?;
            length = self.kept_length;
        }
        let append_offset = self.append_extent(stat).map(|extent| extent.to);
        self.each_piece(|offset, bytes| {
            fault_point.pass("patch")?;
            foreign_writes.before_action(file).map_err(errno_to_store_error)?;
            if append_offset.is_none_or(|append_offset| offset < append_offset) {
                file.write_all_at(bytes, offset).map_err(io_to_store_error)?;
            } else {
                if append_offset == Some(offset) {
                    host::set_appending(file).map_err(errno_to_store_error)?;
                }
                let (mut end, planned) = (file, offset + bytes.len() as u64);
                end.write_all(bytes).map_err(io_to_store_error)?;
                if end.stream_position().map_err(io_to_store_error)? != planned {
                    // Another program has appended first, so this append lies further on.
                    foreign_writes.notice();
                }
            }
            foreign_writes.after_write(file).map_err(errno_to_store_error)
        })?;
        let end = self.extents.iter().map(|extent| extent.to + extent.length).max().unwrap_or(0);
        if length.max(end) != self.length {
            fault_point.pass("length")?;
            foreign_writes.before_action(file).map_err(errno_to_store_error)?;
            file.set_len(self.length).map_err(io_to_store_error)?;
            foreign_writes.after_write(file).map_err(errno_to_store_error)?;
        }
        fault_point.pass("time")?;
        foreign_writes.before_action(file).map_err(errno_to_store_error)?;
        host::set_modified(file, after.modified).map_err(errno_to_store_error)?;
        foreign_writes.after_time(file, after.modified).map_err(errno_to_store_error)
    }

    fn each_piece(&self, mut visit: impl FnMut(u64, &[u8]) -> StoreResult<()>) -> StoreResult<()> {
        let mut buffer = Vec::new();
        for extent in &self.extents {
            let mut done = 0;
            while done < extent.length {
                // Each piece ends at a multiple of the piece size, and so at a block boundary: a process that is killed
                // between two pieces has written complete blocks. A small range is written in one piece.
                let limit = if extent.length <= PIECE_SIZE {
                    PIECE_SIZE
                } else {
                    PIECE_SIZE - (extent.to + done) % PIECE_SIZE
                };
                let count = usize::try_from((extent.length - done).min(limit)).expect("at most a piece");
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
                visit(extent.to + done, bytes)?;
                done += count as u64;
            }
        }
        Ok(())
    }
}

impl FilePatch {
    /// Finds out from the bytes in the file how far the write came.
    pub(super) fn outcome(
        &self,
        file: &File,
        stat: &HostStat,
        context: &UndoContext<'_>,
    ) -> StoreResult<PatchOutcome> {
        let old_bytes = match &self.old_bytes_name {
            Some(name) => match host::open_name(context.staging_dir, name.as_bytes(), OpenMode::Read) {
                Ok(fd) => Some(File::from(fd)),
                // The process died before anything was written, or the copy was already cleaned up.
                Err(Errno::NOENT) => {
                    return Ok(if context.is_performed {
                        PatchOutcome::ChangedSince
                    } else {
                        PatchOutcome::NotWritten
                    });
                }
                Err(error) => return Err(errno_to_store_error(error)),
            },
            None => None,
        };
        patch_outcome(file, stat, self, old_bytes.as_ref(), context.is_performed)
    }

    /// Whether the file's modification time comes from this change, as far as that can be known.
    fn has_own_time(&self, stat: &HostStat, when: UndoTime) -> bool {
        if when == UndoTime::DuringChange {
            return true;
        }
        [self.before.modified, self.after.modified].contains(&stat.modified)
            || stat.modified.as_secs() <= self.at.as_secs() + OWN_MTIME_SECONDS
    }

    /// Gives a completely written file the modification time that was planned.
    pub(super) fn complete(&self, file: &File, stat: &HostStat, when: UndoTime) -> StoreResult<()> {
        if stat.modified != self.after.modified && self.has_own_time(stat, when) {
            host::set_modified(file, self.after.modified).map_err(errno_to_store_error)?;
        }
        Ok(())
    }

    /// Restores the old bytes, the old length, and as far as they are still the change's own, the old mode and time.
    pub(super) fn revert(&self, file: &File, stat: &HostStat, context: &UndoContext<'_>) -> StoreResult<()> {
        if let Some(name) = &self.old_bytes_name {
            let old_bytes = host::open_name(context.staging_dir, name.as_bytes(), OpenMode::Read)
                .map_err(errno_to_store_error)?;
            let (old_bytes, mut filled) = (File::from(old_bytes), 0);
            for &(start, length) in &self.replaced {
                host::copy_range(&old_bytes, filled, file, start, length).map_err(io_to_store_error)?;
                filled += length;
            }
        }
        file.set_len(self.old_length).map_err(io_to_store_error)?;
        if stat.mode == self.after.mode {
            host::set_mode(file, self.before.mode).map_err(errno_to_store_error)?;
        }
        if self.has_own_time(stat, context.when) {
            host::set_modified(file, self.before.modified).map_err(errno_to_store_error)?;
        }
        sync::sync_all(sync::SyncPoint::RevertedFile, file).map_err(errno_to_store_error)
    }
}
