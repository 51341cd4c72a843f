//! Replacing text inside a file, byte for byte: line endings, a missing last newline, a BOM and bytes that are no
//! UTF-8 stay as they were.

use std::sync::Arc;

use memchr::memmem;

use crate::store::StoreError;

/// A text to be replaced, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    old: Arc<[u8]>,
    new: Arc<[u8]>,
    occurrences: Occurrences,
}

/// How many occurrences an edit replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Occurrences {
    /// The only one; several are refused.
    #[default]
    One,
    /// All of them; at least one.
    All,
}

/// Why an edit makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// Nothing to look for.
    #[error("`old_string` is empty; give the text to be replaced")]
    EmptyOld,
    /// Nothing would change.
    #[error("`old_string` and `new_string` are equal; nothing would change")]
    Unchanged,
}

impl Edit {
    /// Replaces `old` by `new`.
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
        Ok(Edit { old: old.into(), new: new.into(), occurrences })
    }

    /// The content after the edit, and how many replacements were made.
    pub fn apply(&self, content: &[u8]) -> Result<(Vec<u8>, usize), StoreError> {
        let found = memmem::find_iter(content, &self.old).collect::<Vec<_>>();
        // A text that overlaps itself ("aa" in "aaa") has more than one place to be.
        let overlapping = |first: usize| memmem::find(&content[first + 1..], &self.old).is_some();
        match (self.occurrences, &*found) {
            (_, []) => return Err(StoreError::NoMatch),
            (Occurrences::One, &[first]) if overlapping(first) => return Err(StoreError::Ambiguous(2)),
            (Occurrences::One, many @ [_, _, ..]) => return Err(StoreError::Ambiguous(many.len())),
            (Occurrences::One | Occurrences::All, _) => {}
        }
        let mut edited =
            Vec::with_capacity(content.len() - found.len() * self.old.len() + found.len() * self.new.len());
        let mut done = 0;
        for &start in &found {
            edited.extend_from_slice(&content[done..start]);
            edited.extend_from_slice(&self.new);
            done = start + self.old.len();
        }
        edited.extend_from_slice(&content[done..]);
        Ok((edited, found.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(
        content: &[u8],
        old: &str,
        new: &str,
        occurrences: Occurrences,
    ) -> Result<(Vec<u8>, usize), StoreError> {
        Edit::new(old, new, occurrences).unwrap().apply(content)
    }

    #[test]
    fn exactly_one_occurrence_is_replaced() {
        assert_eq!(edited(b"a b c", "b", "x", Occurrences::One).unwrap(), (b"a x c".to_vec(), 1));
        assert!(matches!(edited(b"a b c", "d", "x", Occurrences::One), Err(StoreError::NoMatch)));
        assert!(matches!(edited(b"b b b", "b", "x", Occurrences::One), Err(StoreError::Ambiguous(3))));
        assert!(matches!(edited(b"aaa", "aa", "x", Occurrences::One), Err(StoreError::Ambiguous(2))));
    }

    #[test]
    fn all_occurrences_are_replaced_when_asked() {
        assert_eq!(edited(b"b b b", "b", "xx", Occurrences::All).unwrap(), (b"xx xx xx".to_vec(), 3));
        assert!(matches!(edited(b"", "b", "x", Occurrences::All), Err(StoreError::NoMatch)));
    }

    #[test]
    fn an_edit_that_makes_no_sense_is_refused() {
        assert_eq!(Edit::new("", "x", Occurrences::One), Err(EditError::EmptyOld));
        assert_eq!(Edit::new("x", "x", Occurrences::One), Err(EditError::Unchanged));
    }

    #[test]
    fn the_rest_stays_byte_for_byte() {
        let content = b"\xef\xbb\xbfone\r\ntwo\r\n\xff\xfethree";
        let (after, _) = edited(content, "two", "2", Occurrences::One).unwrap();
        assert_eq!(after, b"\xef\xbb\xbfone\r\n2\r\n\xff\xfethree");
    }
}
