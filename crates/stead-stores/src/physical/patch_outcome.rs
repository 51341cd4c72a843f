//! What has become of a write into a file that may have been cut short: told by the bytes that the file has now.
//!
//! The intent has a hash of each block of what was to be written, and all of it if it is little; the old bytes are in
//! the room. A killed process has written whole blocks, from the first to some block, so each block is one of both, or
//! neither: then another program has written there, and nothing is decided against it.

use std::fs::File;

use serde::{Deserialize, Serialize};
use stead_core::store::StoreResult;

use super::draft::read_full;
use super::host::HostStat;
use super::patch::FilePatch;

/// What a disk writes whole, also where the power is cut. The host's pages end where such blocks do.
const BLOCK_SIZE: u64 = 512;
/// So few bytes are written down themselves.
const MAX_INLINE_BYTES: usize = 2_048;

/// What is written into a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WrittenBlocks {
    /// Offset and length of each stretch.
    stretches: Vec<(u64, u64)>,
    /// The hash of each block of them.
    blocks: Vec<u64>,
    /// The bytes themselves in hexadecimal, one stretch after the other, if they are few.
    bytes: Option<String>,
    /// What it takes to find an append that another program came before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    appended: Option<AppendMark>,
}

/// An append, wherever it went.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct AppendMark {
    /// The first bytes, in hexadecimal.
    first: String,
    /// The hash of all of them.
    hash: u64,
}

/// How many of its first bytes are known of an append.
const FIRST_BYTES: usize = 16;

/// Takes down what is written, as it is written.
#[derive(Debug, Default)]
pub(super) struct WriteRecorder {
    written: WrittenBlocks,
    /// The block that is not at its end yet.
    block: Vec<u8>,
    /// The first bytes of all.
    first_bytes: Vec<u8>,
    count: usize,
    /// The hash of all, if it is an append.
    append_hasher: Option<blake3::Hasher>,
    /// Where the file ended: what lies behind is written apart from what lies before.
    file_end: Option<u64>,
}

impl WriteRecorder {
    /// Takes down what is written into a file that ends there, also where it is an append that may go further on.
    pub(super) fn new(end: u64, is_append: bool) -> Self {
        WriteRecorder {
            append_hasher: is_append.then(blake3::Hasher::new),
            file_end: Some(end),
            ..WriteRecorder::default()
        }
    }

    /// Adds bytes, in the order in which they are written.
    pub(super) fn add(&mut self, offset: u64, mut bytes: &[u8]) {
        match self.written.stretches.last_mut() {
            Some((start, length)) if *start + *length == offset && self.file_end != Some(offset) => {
                *length += bytes.len() as u64;
            }
            _ => {
                self.end_block();
                self.written.stretches.push((offset, bytes.len() as u64));
            }
        }
        self.count += bytes.len();
        if self.count <= MAX_INLINE_BYTES {
            self.first_bytes.extend_from_slice(bytes);
        } else if self.first_bytes.len() < FIRST_BYTES {
            self.first_bytes
                .extend_from_slice(&bytes[..bytes.len().min(FIRST_BYTES - self.first_bytes.len())]);
        }
        if let Some(all) = &mut self.append_hasher {
            all.update(bytes);
        }
        let mut at = offset;
        while !bytes.is_empty() {
            let left = usize::try_from(BLOCK_SIZE - at % BLOCK_SIZE).expect("at most a block");
            let (now, later) = bytes.split_at(left.min(bytes.len()));
            at += now.len() as u64;
            bytes = later;
            if self.block.is_empty() && at.is_multiple_of(BLOCK_SIZE) {
                self.written.blocks.push(hash(now));
                continue;
            }
            self.block.extend_from_slice(now);
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

    /// All that was written.
    pub(super) fn finish(mut self) -> WrittenBlocks {
        self.end_block();
        let bytes = (self.count <= MAX_INLINE_BYTES).then(|| hexadecimal(&self.first_bytes));
        let appended = self.append_hasher.map(|all| AppendMark {
            first: hexadecimal(&self.first_bytes[..self.first_bytes.len().min(FIRST_BYTES)]),
            hash: short_hash(&all.finalize()),
        });
        WrittenBlocks { bytes, appended, ..self.written }
    }
}

impl WrittenBlocks {
    /// Without what it takes to recognise the bytes.
    pub(super) fn without_hashes(&self) -> Self {
        WrittenBlocks { stretches: self.stretches.clone(), ..WrittenBlocks::default() }
    }

    /// Start and end of each block, and where it begins in all that is written.
    fn blocks(&self) -> impl Iterator<Item = BlockSpan> + '_ {
        let mut before = 0;
        self.stretches.iter().flat_map(move |&(start, length)| {
            let first = before;
            before += length;
            split_at_blocks(start, start + length).map(move |(from, to)| BlockSpan {
                from,
                to,
                at: first + (from - start),
            })
        })
    }

    /// The bytes of a block, where they are known.
    fn bytes_of(&self, block: &BlockSpan) -> Option<Vec<u8>> {
        let text = self.bytes.as_deref()?;
        let start = usize::try_from(block.at).ok()? * 2;
        let end = start + usize::try_from(block.to - block.from).ok()? * 2;
        from_hexadecimal(text.as_bytes().get(start..end)?)
    }

    /// What is there of an append behind what another program appended first.
    fn find_append(&self, file: &File, stat: &HostStat) -> StoreResult<FoundAppend> {
        let known =
            self.appended.as_ref().and_then(|it| Some((from_hexadecimal(it.first.as_bytes())?, it.hash)));
        let (Some((first, hash)), [(start, length)]) = (known, &*self.stretches) else {
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
                // The host cuts a write short only where a block ends.
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

/// What is there of an append that another program came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FoundAppend {
    Nothing,
    /// Its first bytes, perhaps.
    Part,
    Complete,
}

/// How much is looked through at once.
const WINDOW: usize = 64 << 10;

/// Where some bytes begin in others.
fn find_bytes(all: &[u8], wanted: &[u8]) -> Option<usize> {
    all.windows(wanted.len().max(1)).position(|window| window == wanted)
}

/// The hash of a stretch of a file.
fn hash_of(file: &File, from: u64, length: u64) -> StoreResult<u64> {
    let (mut all, mut at, mut buffer) = (blake3::Hasher::new(), from, vec![0; WINDOW]);
    while at < from + length {
        let wanted = usize::try_from(from + length - at).unwrap_or(WINDOW).min(WINDOW);
        let count = read_full(file, at, &mut buffer[..wanted])?;
        if count == 0 {
            break;
        }
        all.update(&buffer[..count]);
        at += count as u64;
    }
    Ok(short_hash(&all.finalize()))
}

struct BlockSpan {
    from: u64,
    to: u64,
    at: u64,
}

/// Cuts a stretch where blocks end.
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

/// What has become of a write that may have been cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchOutcome {
    /// Nothing of it is there.
    NotWritten,
    /// All of it is there, and nothing else was changed by others, so far as can be seen.
    Complete,
    /// It was made, and others have changed the file since: it stays as it is.
    ChangedSince,
    /// A part of it is there, and nobody has changed the file since: the part can be taken back.
    Torn,
    /// A part of it may be there, and others have changed the file since: nobody can tell what it should be.
    Unclear,
}

/// What the blocks of a file are.
#[derive(Debug, Default)]
struct BlockSurvey {
    /// As they were before.
    old: usize,
    /// As they were to be.
    new: usize,
    /// Neither.
    foreign: usize,
    /// The file ends in the middle of a block of what was to be written.
    is_cut_short: bool,
}

/// Decides what has become of a write, by what the file has now. `acted` says that all of it was written once.
pub(super) fn patch_outcome(
    file: &File,
    stat: &HostStat,
    patch: &FilePatch,
    stash: Option<&File>,
    acted: bool,
) -> StoreResult<PatchOutcome> {
    let survey = BlockSurvey::of(file, stat, patch, stash)?;
    let longest = patch.old_length.max(patch.new_length);
    let ends = patch.written.blocks().map(|block| block.to);
    // The sizes that the file has while it is written into.
    let is_own_size = survey.is_cut_short
        || [patch.old_length, patch.new_length, patch.kept_length]
            .into_iter()
            .chain(ends)
            .any(|end| end == stat.size);
    // Nothing is cut away first, so what is not there any more was removed by others.
    let was_whole =
        patch.stash.is_none() || patch.kept_length >= patch.old_length && stat.size >= patch.old_length;
    let BlockSurvey { old, new, foreign, is_cut_short } = survey;
    if foreign > 0 {
        match patch.written.find_append(file, stat)? {
            FoundAppend::Complete => return Ok(PatchOutcome::ChangedSince),
            FoundAppend::Part if !acted => return Ok(PatchOutcome::Unclear),
            FoundAppend::Part | FoundAppend::Nothing => {}
        }
    }
    let some = new > 0 || is_cut_short;
    Ok(match (some, old > 0, foreign > 0) {
        // All that is in question is the length: both contents are the same.
        (false, false, false) if stat.size == patch.new_length => PatchOutcome::Complete,
        (false, _, false) if stat.size >= patch.old_length => PatchOutcome::NotWritten,
        (false, _, false) if is_own_size => PatchOutcome::Torn,
        (false, _, false) => PatchOutcome::NotWritten,
        (true, false, false) if stat.size == patch.new_length && !is_cut_short => PatchOutcome::Complete,
        (true, false, false) if stat.size > longest && !is_cut_short => PatchOutcome::ChangedSince,
        (true, _, false) if is_own_size && !(acted && stat.size > longest) => PatchOutcome::Torn,
        _ if acted => PatchOutcome::ChangedSince,
        (false, _, true) if was_whole => PatchOutcome::NotWritten,
        _ => PatchOutcome::Unclear,
    })
}

impl BlockSurvey {
    fn of(file: &File, stat: &HostStat, patch: &FilePatch, stash: Option<&File>) -> StoreResult<Self> {
        let mut survey = BlockSurvey::default();
        for (block, &hash) in patch.written.blocks().zip(&patch.written.blocks) {
            let there = read_range(file, block.from, block.to.min(stat.size))?;
            let is_whole = stat.size >= block.to;
            let is_new = is_whole && self::hash(&there) == hash;
            let is_old = patch.is_old_block(stash, &there, block.from, block.to, stat.size)?;
            let begins = !is_whole
                && !there.is_empty()
                && patch.written.bytes_of(&block).is_some_and(|bytes| bytes.starts_with(&there));
            match (is_new, is_old) {
                (true, true) => {}
                (true, false) => survey.new += 1,
                (false, _) if begins => survey.is_cut_short = true,
                (false, true) => survey.old += 1,
                (false, false) => survey.foreign += 1,
            }
        }
        // What is removed, and not written over.
        for (from, to) in patch.removed_ranges() {
            for (from, to) in split_at_blocks(from, to) {
                let there = read_range(file, from, to.min(stat.size))?;
                let is_new = there.iter().all(|&byte| byte == 0);
                let is_old = patch.old_bytes(stash, from, to)? == there;
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
    /// The stretches of the old content that are removed, and not written over.
    fn removed_ranges(&self) -> Vec<(u64, u64)> {
        let mut from = self.kept_length.min(self.new_length);
        let mut removed = Vec::new();
        for &(start, length) in &self.written.stretches {
            if start > from && from < self.old_length {
                removed.push((from, start.min(self.old_length)));
            }
            from = from.max(start + length);
        }
        if from < self.old_length {
            removed.push((from, self.old_length));
        }
        // Where nothing was cut, what lies between two stretches has stayed.
        let cut = self.kept_length.min(self.new_length);
        removed.retain(|&(start, end)| start >= cut && start < end);
        removed
    }

    /// The old bytes of a stretch, so far as there were any.
    fn old_bytes(&self, stash: Option<&File>, from: u64, to: u64) -> StoreResult<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut filled = 0;
        for &(start, length) in &self.replaced {
            let (first, last) = (from.max(start), to.min(start + length));
            if let (Some(stash), true) = (stash, first < last) {
                bytes.extend(read_range(stash, filled + (first - start), filled + (last - start))?);
            }
            filled += length;
        }
        Ok(bytes)
    }

    /// Whether a block that was to be written is still what it was, or was only cut away.
    fn is_old_block(
        &self,
        stash: Option<&File>,
        there: &[u8],
        from: u64,
        to: u64,
        size: u64,
    ) -> StoreResult<bool> {
        let old = self.old_bytes(stash, from, to)?;
        let ends_as_before = to <= self.old_length || size <= from.max(self.old_length);
        let was_cut = size == self.kept_length && old.starts_with(there);
        let is_blank = from >= self.kept_length.min(self.old_length) && there.iter().all(|&byte| byte == 0);
        Ok(old == there && ends_as_before || was_cut || is_blank)
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
    fn patch(old: &[u8], pieces: &[(u64, &[u8])], cut: u64, new_length: u64) -> (FilePatch, File) {
        let old_length = old.len() as u64;
        let is_append = matches!(pieces, [(offset, _), ..] if *offset == old_length);
        let mut recorder = WriteRecorder::new(old_length, is_append);
        pieces.iter().for_each(|(offset, bytes)| recorder.add(*offset, bytes));
        let stash = tempfile::tempfile().unwrap();
        stash.write_all_at(old, 0).unwrap();
        let looks = ModeAndTime { mode: 0o644, modified: Timestamp(1) };
        let appends = cut >= old_length && pieces.iter().all(|(offset, _)| *offset >= old_length);
        let patch = FilePatch {
            ino: 1,
            old_length,
            new_length,
            before: looks,
            after: looks,
            kept_length: cut,
            written: recorder.finish(),
            stash: (!appends).then(|| "t1".to_owned()),
            replaced: if appends { Vec::new() } else { vec![(0, old_length)] },
            is_only_action: true,
            at: Timestamp(0),
        };
        (patch, stash)
    }

    fn found(patch: &(FilePatch, File), content: &[u8], acted: bool) -> PatchOutcome {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(content, 0).unwrap();
        let stash = patch.0.stash.is_some().then_some(&patch.1);
        patch_outcome(&file, &host::stat(&file).unwrap(), &patch.0, stash, acted).unwrap()
    }

    #[test]
    fn an_append_is_taken_back_only_where_the_file_ends_with_its_first_bytes() {
        let append = patch(b"old\n", &[(4, b"new line\n")], 4, 13);
        for (content, fate) in [
            ("old\n", PatchOutcome::NotWritten),
            ("old\nnew", PatchOutcome::Torn),
            ("old\nnew line\n", PatchOutcome::Complete),
            ("old\nnew line\nmore\n", PatchOutcome::ChangedSince),
            ("old\nother\n", PatchOutcome::NotWritten),
            ("old\nothers, and much more\n", PatchOutcome::NotWritten),
            ("old\nnewmore\n", PatchOutcome::NotWritten),
            ("ol", PatchOutcome::NotWritten),
        ] {
            assert_eq!(found(&append, content.as_bytes(), false), fate, "{content:?}");
        }
        assert_eq!(found(&append, b"old\nNEW LINE\nmore\n", true), PatchOutcome::ChangedSince);
        for others_first in ["old\nother\nnew line\n", "old\nother\nnew new line\nmore\n"] {
            assert_eq!(
                found(&append, others_first.as_bytes(), false),
                PatchOutcome::ChangedSince,
                "{others_first:?}"
            );
        }
        assert_eq!(found(&append, b"old\nnew", true), PatchOutcome::Torn, "a power cut");
    }

    #[test]
    fn a_long_append_is_recognised_block_by_block() {
        let (old, new) = ([b'o'; 100], [b'n'; 20_000]);
        let append = patch(&old, &[(100, &new[..10_000]), (10_100, &new[10_000..])], 100, 20_100);
        let content = [&old[..], &new[..]].concat();
        assert_eq!(found(&append, &content, false), PatchOutcome::Complete);
        assert_eq!(found(&append, &content[..8_192], false), PatchOutcome::Torn);
        assert_eq!(found(&append, &content[..100], false), PatchOutcome::NotWritten);
        let others = [&content[..8_192], b"line\n"].concat();
        assert_eq!(found(&append, &others, false), PatchOutcome::Unclear);
        assert_eq!(found(&append, &[&content[..], b"line\n"].concat(), false), PatchOutcome::ChangedSince);
        let others_first = [&old[..], &[b'x'; 70_000], &new[..]].concat();
        assert_eq!(found(&append, &others_first, false), PatchOutcome::ChangedSince);
        assert_eq!(
            found(&append, &others_first[..81_920], false),
            PatchOutcome::Unclear,
            "the host cut it there"
        );
        assert_eq!(found(&append, &others_first[..70_000], false), PatchOutcome::NotWritten);
    }

    #[test]
    fn a_write_in_the_middle_is_taken_back_unless_others_wrote_there() {
        let write = patch(b"one two three", &[(4, b"TWO"), (13, b"!")], 13, 14);
        for (content, fate) in [
            ("one two three", PatchOutcome::NotWritten),
            ("one TWO three", PatchOutcome::Torn),
            ("one TWO three!", PatchOutcome::Complete),
            ("one TWO three! and more", PatchOutcome::ChangedSince),
            ("one two three and more", PatchOutcome::NotWritten),
            ("one TWO three and more", PatchOutcome::Unclear),
            ("one zwo three", PatchOutcome::NotWritten),
        ] {
            assert_eq!(found(&write, content.as_bytes(), false), fate, "{content:?}");
        }
    }

    #[test]
    fn what_was_cut_away_is_put_back_unless_others_wrote_there() {
        let cut = patch(b"one two three", &[(0, b"four")], 0, 4);
        for (content, fate) in [
            ("one two three", PatchOutcome::NotWritten),
            ("", PatchOutcome::Torn),
            ("four", PatchOutcome::Complete),
            ("four more", PatchOutcome::Unclear),
            ("other", PatchOutcome::Unclear),
        ] {
            assert_eq!(found(&cut, content.as_bytes(), false), fate, "{content:?}");
        }
        assert_eq!(found(&cut, b"four more", true), PatchOutcome::ChangedSince);
        let shorter = patch(b"one two three", &[], 3, 3);
        assert_eq!(found(&shorter, b"one", false), PatchOutcome::Complete);
        assert_eq!(found(&shorter, b"one two three", false), PatchOutcome::NotWritten);
    }
}
