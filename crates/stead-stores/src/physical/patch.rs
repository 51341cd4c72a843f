//! Writing into a file where it is: it keeps its inode, and a large one is not rewritten.
//!
//! No system call writes many bytes whole or not at all, so the old bytes are set aside first, and the journal says
//! which content the file will have when all is written: an append only needs the old length.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stead_core::Timestamp;
use stead_core::store::StoreResult;

use super::host::{self, Errno, How, Stat, failed, refused};
use super::life::Life;
use super::undo::Moment;
use super::workshop::{Temp, Workshop};
use crate::Durability;
use crate::sync;

const PIECE: usize = 1 << 20;
/// Long after the last record, a change of the file is someone else's: it is left alone.
const OURS_FOR_SECONDS: i64 = 300;

/// How a file is written into.
pub(super) struct Plan<'a> {
    /// How much of what it has may stay; what lies behind it reads as zeros from then on.
    pub(super) cut: u64,
    /// What is written where.
    pub(super) extents: Vec<Extent>,
    /// How long it is afterwards.
    pub(super) length: u64,
    pub(super) source: Source<'a>,
}

/// A stretch of content, and where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) length: u64,
}

/// Where the content comes from.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    Bytes(&'a [u8]),
    File(&'a File),
}

/// A file's mode and the time of its last modification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Looks {
    pub(super) mode: u32,
    pub(super) modified: Timestamp,
}

/// What a journal knows of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Patch {
    pub(super) ino: u64,
    pub(super) old_length: u64,
    pub(super) new_length: u64,
    pub(super) before: Looks,
    pub(super) after: Looks,
    /// Offset and length of everything that is written.
    written: Vec<(u64, u64)>,
    /// Of what is written there.
    digest: [u8; 32],
    /// Where the old bytes are, one after the other, and where they belong.
    pub(super) stash: Option<String>,
    pub(super) replaced: Vec<(u64, u64)>,
    /// Whether the change has no other action: if all was written, the change was done.
    pub(super) alone: bool,
}

impl Plan<'_> {
    /// Sets the old bytes aside and says how to undo it.
    pub(super) fn prepare(
        &self,
        file: &File,
        stat: &Stat,
        after: Looks,
        shop: &Arc<Workshop>,
        durability: Durability,
        alone: bool,
    ) -> StoreResult<(Patch, Option<Temp>)> {
        let mut replaced: Vec<(u64, u64)> = self
            .extents
            .iter()
            .map(|extent| (extent.to, (extent.to + extent.length).min(stat.size)))
            .chain([(self.cut.min(self.length), stat.size)])
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
        let stash = if replaced.is_empty() { None } else { Some(shop.temp()?) };
        if let Some(stash) = &stash {
            let mut filled = 0;
            for &(start, length) in &replaced {
                host::copy(file, start, &stash.file, filled, length).map_err(failed)?;
                filled += length;
            }
            if durability == Durability::Full {
                sync::all(sync::Site::ReplacedBytes, &stash.file).map_err(refused)?;
                sync::all(sync::Site::ReplacedBytesName, shop.room()).map_err(refused)?;
            }
        }
        let mut hasher = blake3::Hasher::new();
        self.pieces(|_, bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        let patch = Patch {
            ino: stat.ino,
            old_length: stat.size,
            new_length: self.length,
            before: Looks { mode: stat.mode, modified: stat.modified },
            after,
            written: self.extents.iter().map(|extent| (extent.to, extent.length)).collect(),
            digest: *hasher.finalize().as_bytes(),
            stash: stash.as_ref().map(|stash| stash.spot.name().to_owned()),
            replaced,
            alone,
        };
        Ok((patch, stash))
    }

    /// Writes it.
    pub(super) fn carry_out(&self, file: &File, stat: &Stat, after: Looks, life: &Life) -> StoreResult<()> {
        if after.mode != stat.mode {
            life.pass("mode")?;
            host::set_mode(file, after.mode).map_err(refused)?;
        }
        let mut length = stat.size;
        if self.cut < length {
            life.pass("cut")?;
            file.set_len(self.cut).map_err(failed)?;
            length = self.cut;
        }
        self.pieces(|offset, bytes| {
            life.pass("patch")?;
            file.write_all_at(bytes, offset).map_err(failed)
        })?;
        let end = self.extents.iter().map(|extent| extent.to + extent.length).max().unwrap_or(0);
        if length.max(end) != self.length {
            life.pass("length")?;
            file.set_len(self.length).map_err(failed)?;
        }
        life.pass("time")?;
        host::set_modified(file, after.modified).map_err(refused)
    }

    fn pieces(&self, mut each: impl FnMut(u64, &[u8]) -> StoreResult<()>) -> StoreResult<()> {
        let mut buffer = Vec::new();
        for extent in &self.extents {
            let mut done = 0;
            while done < extent.length {
                let count = usize::try_from(extent.length - done).unwrap_or(PIECE).min(PIECE);
                let from = extent.from + done;
                let bytes = match self.source {
                    Source::Bytes(bytes) => {
                        let start = usize::try_from(from).expect("an offset into memory");
                        &bytes[start..start + count]
                    }
                    Source::File(file) => {
                        buffer.resize(count.max(buffer.len()), 0);
                        file.read_exact_at(&mut buffer[..count], from).map_err(failed)?;
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

/// What has become of a patch that may have been cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// All of it is there, and it was all that the change had to do.
    Complete,
    /// Others have changed the file since: it stays as it is.
    Overtaken,
    /// It has to be taken back.
    Open,
}

pub(super) fn fate(file: &File, stat: &Stat, patch: &Patch, moment: Moment) -> StoreResult<Fate> {
    if stat.size > patch.old_length.max(patch.new_length) {
        // Others have appended since, and were told that it is there.
        return Ok(Fate::Overtaken);
    }
    let Moment::Later { written } = moment else { return Ok(Fate::Open) };
    let length = patch.old_length.min(patch.new_length)..=patch.old_length.max(patch.new_length);
    let ours = stat.modified.as_secs() <= written.as_secs() + OURS_FOR_SECONDS
        && (length.contains(&stat.size) || !patch.replaced.is_empty());
    if !ours {
        return Ok(Fate::Overtaken);
    }
    let complete = patch.alone && is_complete(file, stat, patch).map_err(failed)?;
    Ok(if complete { Fate::Complete } else { Fate::Open })
}

/// Gives a file its old bytes and its old length back.
pub(super) fn revert(file: &File, patch: &Patch, room: BorrowedFd<'_>, moment: Moment) -> StoreResult<()> {
    let stat = host::stat(file).map_err(refused)?;
    match fate(file, &stat, patch, moment)? {
        Fate::Complete => return host::set_modified(file, patch.after.modified).map_err(refused),
        Fate::Overtaken => return Ok(()),
        Fate::Open => {}
    }
    if let Some(stash) = &patch.stash {
        let stash = match host::open_name(room, stash.as_bytes(), How::Read) {
            Ok(fd) => File::from(fd),
            // It was undone before, or never begun.
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(refused(error)),
        };
        let mut filled = 0;
        for &(start, length) in &patch.replaced {
            host::copy(&stash, filled, file, start, length).map_err(failed)?;
            filled += length;
        }
    }
    file.set_len(patch.old_length).map_err(failed)?;
    host::set_mode(file, patch.before.mode).map_err(refused)?;
    host::set_modified(file, patch.before.modified).map_err(refused)?;
    sync::all(sync::Site::Reverted, file).map_err(refused)
}

/// Whether the file has all that was to be written.
fn is_complete(file: &File, stat: &Stat, patch: &Patch) -> io::Result<bool> {
    if stat.size != patch.new_length {
        return Ok(false);
    }
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; PIECE];
    for &(start, length) in &patch.written {
        let mut done = 0;
        while done < length {
            let count = usize::try_from(length - done).unwrap_or(PIECE).min(PIECE);
            file.read_exact_at(&mut buffer[..count], start + done)?;
            hasher.update(&buffer[..count]);
            done += count as u64;
        }
    }
    Ok(*hasher.finalize().as_bytes() == patch.digest)
}
