//! Replacing text inside a file, byte for byte: line endings, a missing last newline, a BOM and bytes that aren't UTF-8
//! stay as they are.
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

use std::sync::Arc;

use memchr::memmem;

use crate::store::{QuotaLimits, QuotaResource, StoreError};

/// The largest file, before and after an edit, in bytes. Both are held in memory.
pub const MAX_EDIT_SIZE: u64 = 256 << 20;

/// A text to replace, and its replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    old: Arc<[u8]>,
    new: Arc<[u8]>,
    occurrences: Occurrences,
    /// The largest size of the result.
    max_size: u64,
    /// The largest size of the result that the quotas allow, before the rest of the usage is counted.
    quota: Option<u64>,
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
        let (old, new) = (old.as_ref(), new.as_ref());
        if old.is_empty() {
            return Err(EditError::EmptyOld);
        }
        if old == new {
            return Err(EditError::Unchanged);
        }
        Ok(Edit { old: old.into(), new: new.into(), occurrences, max_size: MAX_EDIT_SIZE, quota: None })
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

    /// The most memory that editing a file of this size takes: the file before and after the edit.
    pub(crate) fn memory_needed(&self, size: u64) -> u64 {
        let (old, new) = (self.old.len() as u64, self.new.len() as u64);
        let times = match self.occurrences {
            Occurrences::One => 1,
            Occurrences::All => size / old,
        };
        let largest = size.saturating_add(times.saturating_mul(new.saturating_sub(old)));
        let before = size.min(MAX_EDIT_SIZE);
        before.saturating_add(largest.min(self.max_size))
    }

    /// Returns the content after the edit, and the number of replacements.
    ///
    /// The size of the result is checked before memory is allocated: a few bytes, replaced often enough by a few more,
    /// can exceed any machine's memory.
    pub fn apply(&self, content: &[u8]) -> Result<(Vec<u8>, usize), StoreError> {
        let count = self.count_replacements(content)?;
        let (before, total_length) =
            (content.len() as u64, |text: &[u8]| (count as u64).saturating_mul(text.len() as u64));
        let size = (before - total_length(&self.old)).saturating_add(total_length(&self.new));
        self.check_size(before, size)?;
        let mut edited =
            Vec::with_capacity(usize::try_from(size).expect("the checked size fits into memory"));
        let mut copied_until = 0;
        for start in memmem::find_iter(content, &self.old) {
            edited.extend_from_slice(&content[copied_until..start]);
            edited.extend_from_slice(&self.new);
            copied_until = start + self.old.len();
        }
        edited.extend_from_slice(&content[copied_until..]);
        Ok((edited, count))
    }

    /// The number of replacements to make: at least one.
    fn count_replacements(&self, content: &[u8]) -> Result<usize, StoreError> {
        let first = memmem::find(content, &self.old).ok_or(StoreError::NoMatch)?;
        let count = memmem::find_iter(content, &self.old).count();
        match self.occurrences {
            // A text that overlaps itself ("aa" in "aaa") matches at more than one position.
            Occurrences::One if count == 1 && memmem::find(&content[first + 1..], &self.old).is_some() => {
                Err(StoreError::Ambiguous(2))
            }
            Occurrences::One if count > 1 => Err(StoreError::Ambiguous(count)),
            Occurrences::One | Occurrences::All => Ok(count),
        }
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

    #[test]
    fn exactly_one_occurrence_is_replaced() {
        assert_eq!(apply_edit(b"a b c", "b", "x", Occurrences::One).unwrap(), (b"a x c".to_vec(), 1));
        assert!(matches!(apply_edit(b"a b c", "d", "x", Occurrences::One), Err(StoreError::NoMatch)));
        assert!(matches!(apply_edit(b"b b b", "b", "x", Occurrences::One), Err(StoreError::Ambiguous(3))));
        assert!(matches!(apply_edit(b"aaa", "aa", "x", Occurrences::One), Err(StoreError::Ambiguous(2))));
    }

    #[test]
    fn all_occurrences_are_replaced_on_request() {
        assert_eq!(apply_edit(b"b b b", "b", "xx", Occurrences::All).unwrap(), (b"xx xx xx".to_vec(), 3));
        assert!(matches!(apply_edit(b"", "b", "x", Occurrences::All), Err(StoreError::NoMatch)));
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
        assert_eq!(Edit::new("", "x", Occurrences::One), Err(EditError::EmptyOld));
        assert_eq!(Edit::new("x", "x", Occurrences::One), Err(EditError::Unchanged));
    }

    #[test]
    fn the_rest_of_the_file_stays_byte_for_byte() {
        let content = b"\xef\xbb\xbfone\r\ntwo\r\n\xff\xfethree";
        let (after, _) = apply_edit(content, "two", "2", Occurrences::One).unwrap();
        assert_eq!(after, b"\xef\xbb\xbfone\r\n2\r\n\xff\xfethree");
    }
}
