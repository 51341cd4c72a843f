//! Replacing text inside a file: line endings, a missing last newline, a BOM, the encoding and bytes without a meaning in
//! it stay as they are.
//!
//! ```
//! use stead_core::{Edit, Occurrences};
//!
//! let edit = Edit::new("colour", "color", Occurrences::One)?;
//! let (content, replaced) = edit.apply(b"a colour\r\n").unwrap();
//! assert_eq!((content.as_slice(), replaced), (&b"a color\r\n"[..], 1));
//! assert!(edit.apply(b"no such word").is_err());
//! # Ok::<(), stead_core::EditError>(())
//! ```

mod excerpt;
mod mismatch;
mod near_miss;

use std::borrow::Cow;
use std::sync::Arc;

use memchr::memmem::Finder;

use crate::store::{QuotaLimits, QuotaResource, StoreError};
use crate::text_encoding::TextEncoding;
pub use excerpt::{EditReport, Excerpt, ExcerptLine};
pub use mismatch::{EditMismatch, MismatchReason};
pub use near_miss::{LineEnding, NearMiss};

use excerpt::ChangedPlaces;

/// The largest file, before and after an edit, in bytes. Both are held in memory.
pub const MAX_EDIT_SIZE: u64 = 256 << 20;

/// Texts to replace, one after another, and their replacements.
#[derive(Debug, Clone)]
pub struct Edit {
    replacements: Vec<Replacement>,
    /// The largest size of the result.
    max_size: u64,
    /// The largest size of the result that the quotas allow, before the rest of the usage is counted.
    quota: Option<u64>,
    report: Option<EditReport>,
}

#[derive(Debug, Clone)]
struct Replacement {
    old: Arc<[u8]>,
    new: Arc<[u8]>,
    occurrences: Occurrences,
}

/// How many occurrences an edit replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Occurrences {
    /// The only one; an edit with several matches is refused.
    #[default]
    One,
    /// All of them; there must be at least one.
    All,
}

/// Why an edit isn't valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The text to look for is empty.
    #[error("`old_string` is empty; give the text to replace")]
    EmptyOld,
    /// The old and the new text are equal.
    #[error("`old_string` and `new_string` are equal; nothing would change")]
    Unchanged,
}

impl Edit {
    /// An edit that replaces `old` with `new`.
    pub fn new(
        old: impl AsRef<[u8]>,
        new: impl AsRef<[u8]>,
        occurrences: Occurrences,
    ) -> Result<Self, EditError> {
        let replacement = Replacement::new(old.as_ref(), new.as_ref(), occurrences)?;
        Ok(Edit { replacements: vec![replacement], max_size: MAX_EDIT_SIZE, quota: None, report: None })
    }

    /// The same edit, which then also replaces `old` with `new`, in the result of what it replaces before. It replaces all
    /// or nothing.
    pub fn and(
        mut self,
        old: impl AsRef<[u8]>,
        new: impl AsRef<[u8]>,
        occurrences: Occurrences,
    ) -> Result<Self, EditError> {
        self.replacements.push(Replacement::new(old.as_ref(), new.as_ref(), occurrences)?);
        Ok(self)
    }

    /// The same edit, refused if its result would be larger than `bytes`. The limit is never above [`MAX_EDIT_SIZE`].
    pub fn with_max_size(self, bytes: u64) -> Self {
        Edit { max_size: self.max_size.min(bytes), ..self }
    }

    /// The same edit, refused if its result alone would exceed this quota.
    pub fn with_quota(self, quota: QuotaLimits) -> Self {
        let quota = [self.quota, quota.bytes, quota.file_bytes].into_iter().flatten().min();
        Edit { quota, ..self }
    }

    /// The same edit, which leaves the changed lines in `report`.
    pub fn with_report(self, report: &EditReport) -> Self {
        Edit { report: Some(report.clone()), ..self }
    }

    /// The most memory that editing a file of this size takes: the file before and after the edit, and with several
    /// replacements also between two of them.
    pub(crate) fn memory_needed(&self, size: u64) -> u64 {
        let before = size.min(MAX_EDIT_SIZE);
        let mut largest = size;
        for replacement in &self.replacements {
            let (old, new) = (replacement.old.len() as u64, replacement.new.len() as u64);
            let times = match replacement.occurrences {
                Occurrences::One => 1,
                Occurrences::All => largest / old,
            };
            largest = largest.saturating_add(times.saturating_mul(new.saturating_sub(old)));
        }
        let results = if self.replacements.len() == 1 { 1 } else { 2 };
        before.saturating_add(largest.min(self.max_size).saturating_mul(results))
    }

    /// Returns the content after the edit, and the number of replacements.
    ///
    /// The size of the result is checked before memory is allocated: a few bytes, replaced often enough by a few more,
    /// can exceed any machine's memory.
    pub fn apply(&self, content: &[u8]) -> Result<(Vec<u8>, usize), StoreError> {
        let encoding = TextEncoding::of_content(content);
        if encoding.unit_size() == 1 && memchr::memchr(0, content).is_some() {
            let (number, of, reason) = (1, self.replacements.len(), MismatchReason::Binary);
            return Err(StoreError::EditMismatch(Box::new(EditMismatch { number, of, reason })));
        }
        let (mut edited, mut total) = (Cow::Borrowed(content), 0);
        let mut places = ChangedPlaces::default();
        for (index, replacement) in self.replacements.iter().enumerate() {
            let mismatch = |reason| {
                let (number, of) = (index + 1, self.replacements.len());
                StoreError::EditMismatch(Box::new(EditMismatch { number, of, reason }))
            };
            let prepared = replacement.prepare(&edited, encoding).map_err(mismatch)?;
            let size = prepared.size_after(edited.len());
            self.check_size(content.len() as u64, size)?;
            if self.report.is_some() {
                places.replace(prepared.matches(&edited), prepared.old.len(), prepared.new.len());
            }
            total += prepared.count;
            edited = Cow::Owned(prepared.apply(&edited, size));
        }
        if let Some(report) = &self.report {
            report.set(places.excerpt(&edited, encoding));
        }
        Ok((edited.into_owned(), total))
    }

    /// Checks the size of the result. A file that is over its quota already may shrink.
    fn check_size(&self, before: u64, size: u64) -> Result<(), StoreError> {
        if let Some(allowed) = self.quota.filter(|allowed| size > before && size > *allowed) {
            return Err(StoreError::OverQuota {
                on: QuotaResource::FileBytes,
                used: 0,
                wanted: size,
                allowed,
            });
        }
        if size > self.max_size {
            return Err(StoreError::TooLarge { size, limit: self.max_size });
        }
        Ok(())
    }
}

impl Replacement {
    fn new(old: &[u8], new: &[u8], occurrences: Occurrences) -> Result<Self, EditError> {
        if old.is_empty() {
            return Err(EditError::EmptyOld);
        }
        if old == new {
            return Err(EditError::Unchanged);
        }
        Ok(Replacement { old: old.into(), new: new.into(), occurrences })
    }

    /// Encodes the texts as the content is, and counts the replacements to make: at least one.
    fn prepare(
        &self,
        content: &[u8],
        encoding: TextEncoding,
    ) -> Result<PreparedReplacement<'_>, MismatchReason> {
        let not_found = || MismatchReason::NotFound(near_miss::find(content, &self.old, encoding));
        let old = encode(&self.old, encoding).map_err(|_| not_found())?;
        let mut prepared = PreparedReplacement { old, new: Cow::Borrowed(&self.new), encoding, count: 0 };
        let first = prepared.matches(content).next().ok_or_else(not_found)?;
        prepared.count = prepared.matches(content).count();
        if self.occurrences == Occurrences::One {
            // A text that overlaps itself ("aa" in "aaa") matches at more than one position.
            let unit_size = encoding.unit_size();
            let overlapping = || find(&Finder::new(&*prepared.old), content, first + unit_size, unit_size);
            let count = if prepared.count == 1 { 1 + overlapping().iter().count() } else { prepared.count };
            if count > 1 {
                let starts = prepared.matches(content).chain(overlapping());
                return Err(MismatchReason::ambiguous(count, content, starts, encoding));
            }
        }
        prepared.new = encode(&self.new, encoding)
            .map_err(|character| MismatchReason::Unencodable { character, encoding })?;
        Ok(prepared)
    }
}

/// A replacement in the encoding of the content.
struct PreparedReplacement<'a> {
    old: Cow<'a, [u8]>,
    new: Cow<'a, [u8]>,
    encoding: TextEncoding,
    /// How often the old text occurs.
    count: usize,
}

impl PreparedReplacement<'_> {
    /// Where the old text begins, again and again, without overlaps.
    fn matches<'c>(&'c self, content: &'c [u8]) -> impl Iterator<Item = usize> + 'c {
        let (finder, unit_size) = (Finder::new(&*self.old), self.encoding.unit_size());
        let mut from = 0;
        std::iter::from_fn(move || {
            let start = find(&finder, content, from, unit_size)?;
            from = start + self.old.len();
            Some(start)
        })
    }

    /// The size of a content of `length` bytes after the replacement.
    fn size_after(&self, length: usize) -> u64 {
        let total_length = |text: &[u8]| (self.count as u64).saturating_mul(text.len() as u64);
        (length as u64 - total_length(&self.old)).saturating_add(total_length(&self.new))
    }

    fn apply(&self, content: &[u8], size: u64) -> Vec<u8> {
        let mut edited =
            Vec::with_capacity(usize::try_from(size).expect("the checked size fits into memory"));
        let mut copied_until = 0;
        for start in self.matches(content) {
            edited.extend_from_slice(&content[copied_until..start]);
            edited.extend_from_slice(&self.new);
            copied_until = start + self.old.len();
        }
        edited.extend_from_slice(&content[copied_until..]);
        edited
    }
}

/// The first occurrence at or after `from` that begins with a code unit.
fn find(finder: &Finder<'_>, content: &[u8], mut from: usize, unit_size: usize) -> Option<usize> {
    loop {
        let start = from + finder.find(content.get(from..)?)?;
        if start.is_multiple_of(unit_size) {
            return Some(start);
        }
        from = start + 1;
    }
}

/// Encodes a text, or returns the first character that the encoding doesn't have. Bytes that aren't text stay as they are.
fn encode(text: &[u8], encoding: TextEncoding) -> Result<Cow<'_, [u8]>, char> {
    match std::str::from_utf8(text) {
        Ok(text) => encoding.encode(text),
        Err(_) => Ok(Cow::Borrowed(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply_edit(
        content: &[u8],
        old: &str,
        new: &str,
        occurrences: Occurrences,
    ) -> Result<(Vec<u8>, usize), StoreError> {
        Edit::new(old, new, occurrences).unwrap().apply(content)
    }

    /// Why an edit isn't made.
    fn mismatch(content: &[u8], old: &str) -> MismatchReason {
        match apply_edit(content, old, "new", Occurrences::One) {
            Err(StoreError::EditMismatch(mismatch)) => mismatch.reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn exactly_one_occurrence_is_replaced() {
        assert_eq!(apply_edit(b"a b c", "b", "x", Occurrences::One).unwrap(), (b"a x c".to_vec(), 1));
        assert_eq!(mismatch(b"a b c", "d"), MismatchReason::NotFound(None));
        let lines = |count, lines: &[u64]| MismatchReason::Ambiguous { count, lines: lines.to_vec() };
        assert_eq!(mismatch(b"b b b", "b"), lines(3, &[1]));
        assert_eq!(mismatch(b"aaa", "aa"), lines(2, &[1]));
        assert_eq!(mismatch(b"b\n\nb\nb", "b"), lines(3, &[1, 3, 4]));
        assert_eq!(mismatch(&b"b\n".repeat(100), "b"), lines(100, &[1, 2, 3, 4, 5, 6, 7, 8]));
    }

    #[test]
    fn all_occurrences_are_replaced_on_request() {
        assert_eq!(apply_edit(b"b b b", "b", "xx", Occurrences::All).unwrap(), (b"xx xx xx".to_vec(), 3));
        assert!(matches!(apply_edit(b"", "b", "x", Occurrences::All), Err(StoreError::EditMismatch(_))));
    }

    #[test]
    fn a_result_that_is_too_large_is_refused_before_memory_is_allocated() {
        let content = vec![b'y'; 1 << 20];
        let edit = |new: usize| Edit::new("y", "z".repeat(new), Occurrences::All).unwrap();
        // The result would be one tebibyte: no test machine has that much memory.
        let result = edit(1 << 20).apply(&content);
        assert!(
            matches!(result, Err(StoreError::TooLarge { size: 0x100_0000_0000, limit: MAX_EDIT_SIZE })),
            "{:?}",
            result.map(|_| ())
        );
        assert!(edit(2).with_max_size(2 << 20).apply(&content).is_ok());
        let result = edit(3).with_max_size(2 << 20).apply(&content).map(|_| ());
        assert!(matches!(result, Err(StoreError::TooLarge { limit: 0x20_0000, .. })), "{result:?}");
    }

    #[test]
    fn a_quota_is_checked_before_memory_is_allocated() {
        let limits = |bytes, file_bytes| QuotaLimits { bytes, file_bytes, files: None };
        let content = vec![b'y'; 1 << 20];
        let edit = Edit::new("y", "z".repeat(1 << 20), Occurrences::All).unwrap();
        for quota in [limits(Some(4 << 20), None), limits(None, Some(4 << 20))] {
            let result =
                edit.clone().with_quota(quota).with_quota(limits(None, None)).apply(&content).map(|_| ());
            assert!(matches!(result, Err(StoreError::OverQuota { .. })), "{result:?}");
        }
        let shrink = Edit::new("yy", "z", Occurrences::All).unwrap().with_quota(limits(Some(1), Some(1)));
        assert!(
            shrink.apply(&content).is_ok(),
            "an edit that makes a file shorter has to work over the quota"
        );
    }

    #[test]
    fn the_memory_that_an_edit_needs_is_known_before() {
        let memory = |new: &str, occurrences, size| {
            let edit = Edit::new("ab", new, occurrences).unwrap();
            let content = "ab".repeat(size / 2);
            if let Ok((after, _)) = edit.apply(content.as_bytes()) {
                assert!(edit.memory_needed(size as u64) >= (size + after.len()) as u64);
            }
            edit.memory_needed(size as u64)
        };
        assert_eq!(memory("abcd", Occurrences::One, 2), 2 + 4);
        assert_eq!(memory("abcd", Occurrences::All, 100), 100 + 200);
        assert_eq!(
            memory("", Occurrences::All, 100),
            100 + 100,
            "the old text may not occur, so the result may be as long as the file"
        );
        let huge = Edit::new("a", "b".repeat(1 << 20), Occurrences::All).unwrap();
        assert_eq!(
            huge.memory_needed(1 << 30),
            MAX_EDIT_SIZE + MAX_EDIT_SIZE,
            "the result is never larger than the limit"
        );
        assert_eq!(huge.with_max_size(5).memory_needed(1 << 30), MAX_EDIT_SIZE + 5);
    }

    #[test]
    fn an_invalid_edit_is_refused() {
        assert_eq!(Edit::new("", "x", Occurrences::One).unwrap_err(), EditError::EmptyOld);
        assert_eq!(Edit::new("x", "x", Occurrences::One).unwrap_err(), EditError::Unchanged);
        let edit = Edit::new("x", "y", Occurrences::One).unwrap();
        assert_eq!(edit.and("", "y", Occurrences::One).unwrap_err(), EditError::EmptyOld);
    }

    #[test]
    fn the_rest_of_the_file_stays_byte_for_byte() {
        let content = b"\xef\xbb\xbfone\r\ntwo\r\n\xff\xfethree";
        let (after, _) = apply_edit(content, "two", "2", Occurrences::One).unwrap();
        assert_eq!(after, b"\xef\xbb\xbfone\r\n2\r\n\xff\xfethree");
    }

    #[test]
    fn several_replacements_are_made_in_order_or_not_at_all() {
        let edit = Edit::new("one", "two", Occurrences::One).unwrap();
        let edit = edit.and("two", "three", Occurrences::All).unwrap();
        assert_eq!(edit.apply(b"one two").unwrap(), (b"three three".to_vec(), 3));
        let edit = edit.and("none", "some", Occurrences::One).unwrap();
        let Err(StoreError::EditMismatch(mismatch)) = edit.apply(b"one two") else { panic!() };
        assert_eq!((mismatch.number, mismatch.of), (3, 3));
        let largest = edit.memory_needed(7);
        assert!(largest >= 7 + 2 * "three three".len() as u64, "{largest}");
    }

    #[test]
    fn the_encoding_of_a_file_is_kept() {
        let edit = |content: &[u8], old, new| apply_edit(content, old, new, Occurrences::One);
        let (after, _) = edit(b"gr\xfcn\r\nrot", "rot", "wei\u{df}").unwrap();
        assert_eq!(after, b"gr\xfcn\r\nwei\xdf");
        for encoding in [TextEncoding::Utf16Le, TextEncoding::Utf16Be] {
            let encoded = |text: &str| encoding.encode(text).unwrap().into_owned();
            let (after, _) = edit(&encoded("\u{feff}one\r\ntwo"), "two", "\u{1f600}").unwrap();
            assert_eq!(after, encoded("\u{feff}one\r\n\u{1f600}"));
        }
        // The bytes of U+4161 and U+4261 contain those of U+6142, but not at the start of a code unit.
        let encoded = TextEncoding::Utf16Be.encode("\u{feff}\u{4161}\u{4261}").unwrap();
        assert!(edit(&encoded, "\u{6142}", "x").is_err());
    }

    #[test]
    fn a_binary_file_is_not_edited() {
        assert_eq!(mismatch(b"\x7fELF\0one\0", "one"), MismatchReason::Binary);
        // Bytes of another encoding aren't binary.
        let (edited, _) =
            apply_edit(b"\xcf\xf0\xe8\xe2\xe5\xf2 one", "one", "two", Occurrences::One).unwrap();
        assert_eq!(edited, b"\xcf\xf0\xe8\xe2\xe5\xf2 two");
    }

    #[test]
    fn a_character_that_the_encoding_lacks_is_refused() {
        let result = apply_edit(b"gr\xfcn rot", "rot", "rot \u{2192} blau", Occurrences::One);
        let Err(StoreError::EditMismatch(mismatch)) = result else { panic!("{result:?}") };
        let encoding = TextEncoding::Windows1252;
        assert_eq!(mismatch.reason, MismatchReason::Unencodable { character: '\u{2192}', encoding });
        assert_eq!(self::mismatch(b"gr\xfcn", "\u{2192}"), MismatchReason::NotFound(None));
    }
}
