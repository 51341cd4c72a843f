//! Decides how far a write into a file came that may have been cut short, by the bytes that the file has now.
//!
//! The intent has a hash of each block that was to be written, and the bytes themselves if they are few. The old bytes
//! are in the staging directory. A killed process has written complete blocks, from the first up to some block, so each
//! block holds either old or new bytes. If it holds neither, another program has written there, and its bytes are never
//! overwritten.

use std::fs::File;

use serde::{Deserialize, Serialize};
use stead_core::store::StoreResult;

use super::draft::read_full;
use super::host::HostStat;
use super::patch::FilePatch;

/// The unit that a disk writes atomically, even in a power cut. The host's pages end at block boundaries.
const BLOCK_SIZE: u64 = 512;
/// Up to this many bytes, the intent holds the bytes themselves.
const MAX_INLINE_BYTES: usize = 2_048;

/// Which bytes a write puts into a file, in a form that recognises them later.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WrittenBlocks {
    /// The offset and length of each written range.
    #[serde(rename = "stretches")]
    ranges: Vec<(u64, u64)>,
    /// The hash of each block of the ranges.
    blocks: Vec<u64>,
    /// The bytes themselves in hexadecimal, one range after the other, if they are few.
    bytes: Option<String>,
    /// For an append: how to find it if another program has appended first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    appended: Option<AppendMark>,
}

/// Recognises the bytes of an append at any offset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct AppendMark {
    /// The first bytes, in hexadecimal.
    first: String,
    /// The hash of all bytes.
    hash: u64,
}

/// How many of its first bytes an [`AppendMark`] holds.
const FIRST_BYTES: usize = 16;

/// Builds [`WrittenBlocks`] from the pieces of a write.
#[derive(Debug, Default)]
pub(super) struct WriteRecorder {
    written: WrittenBlocks,
    /// The current block, while it is incomplete.
    block: Vec<u8>,
    /// The first bytes of the write: all of them while they are few.
    first_bytes: Vec<u8>,
    count: usize,
    /// The hash of all bytes, if the write is an append.
    append_hasher: Option<blake3::Hasher>,
    /// The length of the file before. A range that crosses it is split there.
    file_end: Option<u64>,
}

impl WriteRecorder {
    /// Records a write into a file that ends at `end`. An append may land further on, so it also gets an
    /// [`AppendMark`].
    pub(super) fn new(end: u64, is_append: bool) -> Self {
        WriteRecorder {
            append_hasher: is_append.then(blake3::Hasher::new),
            file_end: Some(end),
            ..WriteRecorder::default()
        }
    }

    /// Adds a piece. Pieces must come in the order in which they are written.
    pub(super) fn add(&mut self, offset: u64, mut bytes: &[u8]) {
        match self.written.ranges.last_mut() {
            Some((start, length)) if *start + *length == offset && self.file_end != Some(offset) => {
                *length += bytes.len() as u64;
            }
            _ => {
                self.end_block();
                self.written.ranges.push((offset, bytes.len() as u64));
            }
        }
        self.count += bytes.len();
        if self.count <= MAX_INLINE_BYTES {
            self.first_bytes.extend_from_slice(bytes);
        } else if self.first_bytes.len() < FIRST_BYTES {
            self.first_bytes
                .extend_from_slice(&bytes[..bytes.len().min(FIRST_BYTES - self.first_bytes.len())]);
        }
        if let Some(hasher) = &mut self.append_hasher {
            hasher.update(bytes);
        }
        let mut at = offset;
        while !bytes.is_empty() {
            let remaining = usize::try_from(BLOCK_SIZE - at % BLOCK_SIZE).expect("at most a block");
            let (piece, rest) = bytes.split_at(remaining.min(bytes.len()));
            at += piece.len() as u64;
            bytes = rest;
            if self.block.is_empty() && at.is_multiple_of(BLOCK_SIZE) {
                self.written.blocks.push(hash(piece));
                continue;
            }
            self.block.extend_from_slice(piece);
            if at.is_multiple_of(BLOCK_SIZE) {
                self.end_block();
            }
        }
    }

    fn end_block(&mut self) {
        if !self.block.is_empty() {
            self.written.blocks.push(hash(&self.block));
            self.block.clear();
        }
    }

    /// Returns the record of all pieces.
    pub(super) fn finish(mut self) -> WrittenBlocks {
        self.end_block();
        let bytes = (self.count <= MAX_INLINE_BYTES).then(|| hexadecimal(&self.first_bytes));
        let appended = self.append_hasher.map(|hasher| AppendMark {
            first: hexadecimal(&self.first_bytes[..self.first_bytes.len().min(FIRST_BYTES)]),
            hash: short_hash(&hasher.finalize()),
        });
        WrittenBlocks { bytes, appended, ..self.written }
    }
}

impl WrittenBlocks {
    /// A copy with the ranges only, which can't recognise any bytes.
    pub(super) fn without_hashes(&self) -> Self {
        WrittenBlocks { ranges: self.ranges.clone(), ..WrittenBlocks::default() }
    }

    /// The blocks of all ranges.
    fn blocks(&self) -> impl Iterator<Item = BlockSpan> + '_ {
        let mut before = 0;
        self.ranges.iter().flat_map(move |&(start, length)| {
            let first = before;
            before += length;
            split_at_blocks(start, start + length).map(move |(from, to)| BlockSpan {
                from,
                to,
                at: first + (from - start),
            })
        })
    }

    /// The new bytes of a block, if the intent holds them.
    fn bytes_of(&self, block: &BlockSpan) -> Option<Vec<u8>> {
        let text = self.bytes.as_deref()?;
        let start = usize::try_from(block.at).ok()? * 2;
        let end = start + usize::try_from(block.to - block.from).ok()? * 2;
        from_hexadecimal(text.as_bytes().get(start..end)?)
    }

    /// Searches for the append behind what another program has appended first.
    fn find_append(&self, file: &File, stat: &HostStat) -> StoreResult<FoundAppend> {
        let mark = self
            .appended
            .as_ref()
            .and_then(|mark| Some((from_hexadecimal(mark.first.as_bytes())?, mark.hash)));
        let (Some((first, hash)), [(start, length)]) = (mark, &*self.ranges) else {
            return Ok(FoundAppend::Nothing);
        };
        let mut window = vec![0; WINDOW];
        let mut from = *start;
        loop {
            let count = read_full(file, from, &mut window)?;
            let Some(found) = find_bytes(&window[..count], &first) else {
                if count < WINDOW {
                    return Ok(FoundAppend::Nothing);
                }
                from += (count + 1 - first.len()) as u64;
                continue;
            };
            from += found as u64;
            if from + length > stat.size {
                // The host cuts a write short only at a block boundary.
                let is_cut = stat.size.is_multiple_of(BLOCK_SIZE);
                return Ok(if is_cut { FoundAppend::Part } else { FoundAppend::Nothing });
            }
            if hash_of(file, from, *length)? == hash {
                return Ok(FoundAppend::Complete);
            }
            from += 1;
        }
    }
}

/// How much of an append was found behind what another program has appended first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FoundAppend {
    Nothing,
    /// Its first bytes, at the end of the file. They may also be another program's.
    Part,
    Complete,
}

/// How many bytes are searched or hashed at once.
const WINDOW: usize = 64 << 10;

/// Returns the offset of `needle` in `haystack`.
fn find_bytes(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len().max(1)).position(|window| window == needle)
}

/// Hashes a range of a file.
fn hash_of(file: &File, from: u64, length: u64) -> StoreResult<u64> {
    let (mut hasher, mut at, mut buffer) = (blake3::Hasher::new(), from, vec![0; WINDOW]);
    while at < from + length {
        let piece_length = usize::try_from(from + length - at).unwrap_or(WINDOW).min(WINDOW);
        let count = read_full(file, at, &mut buffer[..piece_length])?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        at += count as u64;
    }
    Ok(short_hash(&hasher.finalize()))
}

struct BlockSpan {
    from: u64,
    to: u64,
    at: u64,
}

/// Splits a range at block boundaries.
fn split_at_blocks(start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut from = start;
    std::iter::from_fn(move || {
        let to = end.min((from / BLOCK_SIZE + 1) * BLOCK_SIZE);
        (from < end).then(|| (std::mem::replace(&mut from, to), to))
    })
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn from_hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}

fn hash(bytes: &[u8]) -> u64 {
    short_hash(&blake3::hash(bytes))
}

fn short_hash(hash: &blake3::Hash) -> u64 {
    u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}

/// How far a write came that may have been cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchOutcome {
    /// No byte of the write is in the file.
    NotWritten,
    /// All bytes are in the file, and nothing shows that another program has changed it.
    Complete,
    /// The write was completed, and another program has changed the file since. The file stays as it is.
    ChangedSince,
    /// A part of the write is in the file, and no other program has changed it since, so the write can be undone.
    Torn,
    /// A part of the write may be in the file, and another program has changed it since. What the content should be
    /// can't be decided.
    Unclear,
}

/// How many blocks of a file hold old bytes, new bytes, or neither. A block whose old and new bytes are equal isn't
/// counted.
#[derive(Debug, Default)]
struct BlockSurvey {
    /// Blocks with the bytes from before the write.
    old: usize,
    /// Blocks with the bytes that were to be written.
    new: usize,
    /// Blocks with other bytes.
    foreign: usize,
    /// The file ends in the middle of a block that was to be written, with the first bytes of that block.
    is_cut_short: bool,
}

/// Decides how far a write came, by what the file has now. `is_performed` says that the write is known to have been
/// completed once.
pub(super) fn patch_outcome(
    file: &File,
    stat: &HostStat,
    patch: &FilePatch,
    old_bytes_file: Option<&File>,
    is_performed: bool,
) -> StoreResult<PatchOutcome> {
    let survey = BlockSurvey::of(file, stat, patch, old_bytes_file)?;
    let longest = patch.old_length.max(patch.new_length);
    let ends = patch.written.blocks().map(|block| block.to);
    // The sizes that the file can have while this write is made.
    let is_own_size = survey.is_cut_short
        || [patch.old_length, patch.new_length, patch.kept_length]
            .into_iter()
            .chain(ends)
            .any(|end| end == stat.size);
    // Whether the write can't have removed bytes: it cuts nothing off first, and the file isn't shorter than before.
    let nothing_removed = patch.old_bytes_name.is_none()
        || patch.kept_length >= patch.old_length && stat.size >= patch.old_length;
    let BlockSurvey { old, new, foreign, is_cut_short } = survey;
    if foreign > 0 {
        match patch.written.find_append(file, stat)? {
            FoundAppend::Complete => return Ok(PatchOutcome::ChangedSince),
            FoundAppend::Part if !is_performed => return Ok(PatchOutcome::Unclear),
            FoundAppend::Part | FoundAppend::Nothing => {}
        }
    }
    let has_new = new > 0 || is_cut_short;
    Ok(match (has_new, old > 0, foreign > 0) {
        // The old and new bytes are equal, so only the length matters.
        (false, false, false) if stat.size == patch.new_length => PatchOutcome::Complete,
        (false, _, false) if stat.size >= patch.old_length => PatchOutcome::NotWritten,
        (false, _, false) if is_own_size => PatchOutcome::Torn,
        (false, _, false) => PatchOutcome::NotWritten,
        (true, false, false) if stat.size == patch.new_length && !is_cut_short => PatchOutcome::Complete,
        (true, false, false) if stat.size > longest && !is_cut_short => PatchOutcome::ChangedSince,
        (true, _, false) if is_own_size && !(is_performed && stat.size > longest) => PatchOutcome::Torn,
        _ if is_performed => PatchOutcome::ChangedSince,
        (false, _, true) if nothing_removed => PatchOutcome::NotWritten,
        _ => PatchOutcome::Unclear,
    })
}

impl BlockSurvey {
    fn of(
        file: &File,
        stat: &HostStat,
        patch: &FilePatch,
        old_bytes_file: Option<&File>,
    ) -> StoreResult<Self> {
        let mut survey = BlockSurvey::default();
        for (block, &hash) in patch.written.blocks().zip(&patch.written.blocks) {
            let current = read_range(file, block.from, block.to.min(stat.size))?;
            let is_complete = stat.size >= block.to;
            let is_new = is_complete && self::hash(&current) == hash;
            let is_old = patch.is_old_block(old_bytes_file, &current, block.from, block.to, stat.size)?;
            let is_prefix = !is_complete
                && !current.is_empty()
                && patch.written.bytes_of(&block).is_some_and(|bytes| bytes.starts_with(&current));
            match (is_new, is_old) {
                (true, true) => {}
                (true, false) => survey.new += 1,
                (false, _) if is_prefix => survey.is_cut_short = true,
                (false, true) => survey.old += 1,
                (false, false) => survey.foreign += 1,
            }
        }
        // Ranges that are cut off and not written again.
        for (from, to) in patch.removed_ranges() {
            for (from, to) in split_at_blocks(from, to) {
                let current = read_range(file, from, to.min(stat.size))?;
                let is_new = current.iter().all(|&byte| byte == 0);
                let is_old = patch.old_bytes(old_bytes_file, from, to)? == current;
                match (is_new, is_old) {
                    (true, true) => {}
                    (true, false) => survey.new += 1,
                    (false, true) => survey.old += 1,
                    (false, false) => survey.foreign += 1,
                }
            }
        }
        Ok(survey)
    }
}

impl FilePatch {
    /// The ranges of the old content that are cut off and not written again.
    fn removed_ranges(&self) -> Vec<(u64, u64)> {
        let mut from = self.kept_length.min(self.new_length);
        let mut removed = Vec::new();
        for &(start, length) in &self.written.ranges {
            if start > from && from < self.old_length {
                removed.push((from, start.min(self.old_length)));
            }
            from = from.max(start + length);
        }
        if from < self.old_length {
            removed.push((from, self.old_length));
        }
        // Before the cut, the bytes between two written ranges have stayed.
        let kept_length = self.kept_length.min(self.new_length);
        removed.retain(|&(start, end)| start >= kept_length && start < end);
        removed
    }

    /// The old bytes in a range, as far as they were copied to `old_bytes_file`.
    fn old_bytes(&self, old_bytes_file: Option<&File>, from: u64, to: u64) -> StoreResult<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut filled = 0;
        for &(start, length) in &self.replaced {
            let (first, last) = (from.max(start), to.min(start + length));
            if let (Some(old_bytes_file), true) = (old_bytes_file, first < last) {
                bytes.extend(read_range(old_bytes_file, filled + (first - start), filled + (last - start))?);
            }
            filled += length;
        }
        Ok(bytes)
    }

    /// Whether a block that was to be written still has its old bytes, or was only cut off.
    fn is_old_block(
        &self,
        old_bytes_file: Option<&File>,
        current: &[u8],
        from: u64,
        to: u64,
        size: u64,
    ) -> StoreResult<bool> {
        let old = self.old_bytes(old_bytes_file, from, to)?;
        let ends_as_before = to <= self.old_length || size <= from.max(self.old_length);
        let is_truncated = size == self.kept_length && old.starts_with(current);
        let is_blank = from >= self.kept_length.min(self.old_length) && current.iter().all(|&byte| byte == 0);
        Ok(old == current && ends_as_before || is_truncated || is_blank)
    }
}

fn read_range(file: &File, from: u64, to: u64) -> StoreResult<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(to.saturating_sub(from)).expect("at most a block")];
    let count = read_full(file, from, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use stead_core::Timestamp;

    use super::super::host;
    use super::super::patch::ModeAndTime;
    use super::*;

    /// A write of `pieces` into a file that had `old` as its content.
    fn patch(old: &[u8], pieces: &[(u64, &[u8])], kept_length: u64, new_length: u64) -> (FilePatch, File) {
        let old_length = old.len() as u64;
        let is_append = matches!(pieces, [(offset, _), ..] if *offset == old_length);
        let mut recorder = WriteRecorder::new(old_length, is_append);
        pieces.iter().for_each(|(offset, bytes)| recorder.add(*offset, bytes));
        let old_bytes_file = tempfile::tempfile().unwrap();
        old_bytes_file.write_all_at(old, 0).unwrap();
        let attributes = ModeAndTime { mode: 0o644, modified: Timestamp(1) };
        let appends = kept_length >= old_length && pieces.iter().all(|(offset, _)| *offset >= old_length);
        let patch = FilePatch {
            ino: 1,
            old_length,
            new_length,
            before: attributes,
            after: attributes,
            kept_length,
            written: recorder.finish(),
            old_bytes_name: (!appends).then(|| "t1".to_owned()),
            replaced: if appends { Vec::new() } else { vec![(0, old_length)] },
            is_only_action: true,
            at: Timestamp(0),
        };
        (patch, old_bytes_file)
    }

    fn outcome_of(patch: &(FilePatch, File), content: &[u8], is_performed: bool) -> PatchOutcome {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(content, 0).unwrap();
        let old_bytes_file = patch.0.old_bytes_name.is_some().then_some(&patch.1);
        patch_outcome(&file, &host::stat(&file).unwrap(), &patch.0, old_bytes_file, is_performed).unwrap()
    }

    #[test]
    fn an_append_is_undone_only_if_the_file_ends_with_its_first_bytes() {
        let append = patch(b"old\n", &[(4, b"new line\n")], 4, 13);
        for (content, expected) in [
            ("old\n", PatchOutcome::NotWritten),
            ("old\nnew", PatchOutcome::Torn),
            ("old\nnew line\n", PatchOutcome::Complete),
            ("old\nnew line\nmore\n", PatchOutcome::ChangedSince),
            ("old\nother\n", PatchOutcome::NotWritten),
            ("old\nothers, and much more\n", PatchOutcome::NotWritten),
            ("old\nnewmore\n", PatchOutcome::NotWritten),
            ("ol", PatchOutcome::NotWritten),
        ] {
            assert_eq!(outcome_of(&append, content.as_bytes(), false), expected, "{content:?}");
        }
        assert_eq!(outcome_of(&append, b"old\nNEW LINE\nmore\n", true), PatchOutcome::ChangedSince);
        for with_foreign_start in ["old\nother\nnew line\n", "old\nother\nnew new line\nmore\n"] {
            assert_eq!(
                outcome_of(&append, with_foreign_start.as_bytes(), false),
                PatchOutcome::ChangedSince,
                "{with_foreign_start:?}"
            );
        }
        assert_eq!(outcome_of(&append, b"old\nnew", true), PatchOutcome::Torn, "a power cut");
    }

    #[test]
    fn a_long_append_is_recognised_block_by_block() {
        let (old, new) = ([b'o'; 100], [b'n'; 20_000]);
        let append = patch(&old, &[(100, &new[..10_000]), (10_100, &new[10_000..])], 100, 20_100);
        let content = [&old[..], &new[..]].concat();
        assert_eq!(outcome_of(&append, &content, false), PatchOutcome::Complete);
        assert_eq!(outcome_of(&append, &content[..8_192], false), PatchOutcome::Torn);
        assert_eq!(outcome_of(&append, &content[..100], false), PatchOutcome::NotWritten);
        let with_foreign_end = [&content[..8_192], b"line\n"].concat();
        assert_eq!(outcome_of(&append, &with_foreign_end, false), PatchOutcome::Unclear);
        assert_eq!(
            outcome_of(&append, &[&content[..], b"line\n"].concat(), false),
            PatchOutcome::ChangedSince
        );
        let with_foreign_start = [&old[..], &[b'x'; 70_000], &new[..]].concat();
        assert_eq!(outcome_of(&append, &with_foreign_start, false), PatchOutcome::ChangedSince);
        assert_eq!(
            outcome_of(&append, &with_foreign_start[..81_920], false),
            PatchOutcome::Unclear,
            "the host cut it there"
        );
        assert_eq!(outcome_of(&append, &with_foreign_start[..70_000], false), PatchOutcome::NotWritten);
    }

    #[test]
    fn a_write_in_the_middle_is_undone_unless_another_program_wrote_there() {
        let write = patch(b"one two three", &[(4, b"TWO"), (13, b"!")], 13, 14);
        for (content, expected) in [
            ("one two three", PatchOutcome::NotWritten),
            ("one TWO three", PatchOutcome::Torn),
            ("one TWO three!", PatchOutcome::Complete),
            ("one TWO three! and more", PatchOutcome::ChangedSince),
            ("one two three and more", PatchOutcome::NotWritten),
            ("one TWO three and more", PatchOutcome::Unclear),
            ("one zwo three", PatchOutcome::NotWritten),
        ] {
            assert_eq!(outcome_of(&write, content.as_bytes(), false), expected, "{content:?}");
        }
    }

    #[test]
    fn truncated_content_is_restored_unless_another_program_wrote_there() {
        let truncating = patch(b"one two three", &[(0, b"four")], 0, 4);
        for (content, expected) in [
            ("one two three", PatchOutcome::NotWritten),
            ("", PatchOutcome::Torn),
            ("four", PatchOutcome::Complete),
            ("four more", PatchOutcome::Unclear),
            ("other", PatchOutcome::Unclear),
        ] {
            assert_eq!(outcome_of(&truncating, content.as_bytes(), false), expected, "{content:?}");
        }
        assert_eq!(outcome_of(&truncating, b"four more", true), PatchOutcome::ChangedSince);
        let shorter = patch(b"one two three", &[], 3, 3);
        assert_eq!(outcome_of(&shorter, b"one", false), PatchOutcome::Complete);
        assert_eq!(outcome_of(&shorter, b"one two three", false), PatchOutcome::NotWritten);
    }
}
