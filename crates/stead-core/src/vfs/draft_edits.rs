//! The edits made to a draft, tracked apart from its base content, so that they can be replayed on what another writer
//! has made of the file meanwhile.

use std::ops::Range;

use crate::store::{Draft, StoreResult, VersionTag};

/// How many bytes are copied at once.
const COPY_CHUNK: usize = 256 << 10;

/// The edits made to a draft since it was begun.
#[derive(Debug, Default, Clone)]
pub(super) struct DraftEdits {
    /// The version tag that the draft was begun from, if the file existed.
    pub(super) base: Option<VersionTag>,
    /// The smallest size that the draft was truncated to.
    truncated_to: Option<u64>,
    /// The largest size that the draft was extended to; 0 if it wasn't. A later truncation below it lowers it.
    extended_to: u64,
    /// The byte ranges written at given offsets, sorted and disjoint.
    written_ranges: Vec<Range<u64>>,
    /// Where appended bytes begin. Everything from here to the end was appended, and is replayed at the end of the
    /// other draft.
    append_start: Option<u64>,
}

impl DraftEdits {
    pub(super) fn from_base(base: Option<VersionTag>) -> Self {
        DraftEdits { base, ..DraftEdits::default() }
    }

    /// Notes a write of `count` bytes at an offset. The part behind `append_start` belongs to the appended bytes.
    pub(super) fn write(&mut self, offset: u64, count: usize) {
        let mut new = offset..offset.saturating_add(count as u64).min(self.append_start.unwrap_or(u64::MAX));
        if new.is_empty() {
            return;
        }
        self.written_ranges.retain(|old| {
            let is_apart = old.end < new.start || new.end < old.start;
            if !is_apart {
                new = old.start.min(new.start)..old.end.max(new.end);
            }
            is_apart
        });
        let index = self.written_ranges.partition_point(|old| old.start < new.start);
        self.written_ranges.insert(index, new);
    }

    /// Notes an append to a draft that ends at `end`.
    pub(super) fn append(&mut self, end: u64) {
        self.append_start.get_or_insert(end);
    }

    /// Notes that the draft's size changes.
    pub(super) fn resize(&mut self, before: u64, size: u64) {
        // The same size is not a truncation: what another writer appends must stay.
        if size == before {
            return;
        }
        if size > before {
            self.extended_to = self.extended_to.max(size);
            return;
        }
        self.truncated_to = Some(self.truncated_to.map_or(size, |smallest| smallest.min(size)));
        self.extended_to = self.extended_to.min(size);
        self.append_start = self.append_start.filter(|tail| *tail < size);
        self.written_ranges.retain_mut(|old| {
            old.end = old.end.min(size);
            !old.is_empty()
        });
    }

    /// Whether nothing of the base content is left.
    pub(super) fn replaces_everything(&self) -> bool {
        self.truncated_to == Some(0)
    }

    /// All written ranges of a draft of that size, the appended one last.
    fn ranges(&self, size: u64) -> impl Iterator<Item = Range<u64>> {
        let tail = self.append_start.map(|tail| tail..size);
        self.written_ranges.iter().cloned().chain(tail)
    }

    /// How many bytes were written, for a draft of that size.
    pub(super) fn bytes(&self, size: u64) -> u64 {
        self.ranges(size).map(|range| range.end.saturating_sub(range.start)).sum()
    }

    /// Replays the edits on the draft `to`. The written bytes come from `from`, the draft that they were made to.
    pub(super) fn replay_from(&mut self, from: &mut dyn Draft, to: &mut dyn Draft) -> StoreResult<()> {
        self.truncate(to)?;
        let (append_start, mut buffer) = (self.append_start, vec![0; COPY_CHUNK]);
        for range in self.ranges(from.size()).collect::<Vec<_>>() {
            let start = if append_start == Some(range.start) { self.move_tail(to) } else { range.start };
            let mut copied = 0;
            while range.start + copied < range.end {
                let chunk =
                    usize::try_from(range.end - range.start - copied).unwrap_or(COPY_CHUNK).min(COPY_CHUNK);
                match from.read_at(range.start + copied, &mut buffer[..chunk])? {
                    0 => break,
                    count => {
                        to.write_at(start + copied, &buffer[..count])?;
                        copied += count as u64;
                    }
                }
            }
        }
        self.extend(to)
    }

    fn truncate(&self, to: &mut dyn Draft) -> StoreResult<()> {
        match self.truncated_to {
            Some(size) if size < to.size() => to.set_size(size),
            _ => Ok(()),
        }
    }

    /// Moves the appended range to the end of `to`, and returns where it begins.
    fn move_tail(&mut self, to: &dyn Draft) -> u64 {
        self.append_start = Some(to.size());
        to.size()
    }

    fn extend(&self, to: &mut dyn Draft) -> StoreResult<()> {
        if self.extended_to > to.size() { to.set_size(self.extended_to) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{DraftBase, Store};
    use crate::testkit::ModelStore;

    fn draft(text: &str) -> Box<dyn Draft> {
        let mut draft = ModelStore::default().draft(DraftBase::Empty).unwrap();
        draft.write_at(0, text.as_bytes()).unwrap();
        draft
    }

    fn text(draft: &mut dyn Draft) -> String {
        let mut bytes = vec![0; usize::try_from(draft.size()).unwrap()];
        draft.read_at(0, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// The text of `newer` after the edits made to `old` are replayed on it.
    fn replayed(old: &str, newer: &str, edit: impl Fn(&mut DraftEdits, &mut dyn Draft)) -> String {
        let (mut edits, mut from, mut to) = (DraftEdits::default(), draft(old), draft(newer));
        edit(&mut edits, &mut *from);
        edits.replay_from(&mut *from, &mut *to).unwrap();
        text(&mut *to)
    }

    fn write(edits: &mut DraftEdits, draft: &mut dyn Draft, offset: u64, text: &str) {
        edits.write(offset, text.len());
        draft.write_at(offset, text.as_bytes()).unwrap();
    }

    fn append(edits: &mut DraftEdits, draft: &mut dyn Draft, text: &str) {
        edits.append(draft.size());
        draft.write_at(draft.size(), text.as_bytes()).unwrap();
    }

    fn resize(edits: &mut DraftEdits, draft: &mut dyn Draft, size: u64) {
        edits.resize(draft.size(), size);
        draft.set_size(size).unwrap();
    }

    #[test]
    fn appended_bytes_are_replayed_at_the_end_of_the_newer_content() {
        let appended = replayed("one\n", "one\ntool\n", |edits, draft| {
            append(edits, draft, "two\n");
            append(edits, draft, "three\n");
            write(edits, draft, 4, "TWO");
        });
        assert_eq!(appended, "one\ntool\nTWO\nthree\n");
    }

    #[test]
    fn written_bytes_are_replayed_at_their_offset() {
        let written = replayed("aaaaaaaa", "bbbbbbbbbb", |edits, draft| {
            write(edits, draft, 1, "XX");
            write(edits, draft, 3, "Y");
            write(edits, draft, 6, "Z");
        });
        assert_eq!(written, "bXXYbbZbbb");
        let both = replayed("aaaa", "aaaabbbb", |edits, draft| {
            append(edits, draft, "cc");
            write(edits, draft, 2, "XXXX");
        });
        assert_eq!(both, "aaXXbbbbXX");
    }

    #[test]
    fn a_truncation_is_replayed() {
        assert_eq!(replayed("abcdef", "ABCDEFGH", |edits, draft| resize(edits, draft, 3)), "ABC");
        let rewritten = replayed("abcdef", "ABCDEFGH", |edits, draft| {
            write(edits, draft, 4, "late");
            resize(edits, draft, 0);
            write(edits, draft, 0, "new");
            assert!(edits.replaces_everything() && edits.bytes(3) == 3);
        });
        assert_eq!(rewritten, "new");
        assert_eq!(replayed("ab", "abc", |edits, draft| resize(edits, draft, 2)), "abc", "it has that size");
        let longer = replayed("ab", "AB", |edits, draft| {
            append(edits, draft, "c");
            resize(edits, draft, 2);
            resize(edits, draft, 4);
        });
        assert_eq!(longer, "AB\0\0");
    }
}
