//! Three-way merge: of any values, and of text by line.

use crate::history::text_merge::{MergeLabels, TextMerge, is_binary};

/// The largest content that is merged by line, in bytes. Larger content merges only if one side is unchanged.
pub(crate) const MAX_MERGE_SIZE: usize = 32 << 20;

/// Returns the side that changed, or `None` if both changed differently.
pub fn pick<'a, T: Eq>(base: &'a T, ours: &'a T, theirs: &'a T) -> Option<&'a T> {
    if ours == theirs || theirs == base {
        Some(ours)
    } else if ours == base {
        Some(theirs)
    } else {
        None
    }
}

/// Combines both sides' changes to `base`. Returns `None` if both changed the same lines, or if both changed and one
/// side is binary or too large.
pub fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    if let Some(changed_side) = pick(&base, &ours, &theirs) {
        return Some(changed_side.to_vec());
    }
    if [base, ours, theirs].iter().any(|side| side.len() > MAX_MERGE_SIZE || is_binary(side)) {
        return None;
    }
    let merge = TextMerge::new(base, ours, theirs);
    merge.is_clean().then(|| merge.to_bytes(&MergeLabels::FORK))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn merged(base: &str, ours: &str, theirs: &str) -> Option<String> {
        let merged = merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes())?;
        Some(String::from_utf8(merged).expect("text merges to text"))
    }

    #[test]
    fn changes_to_different_lines_are_both_kept() {
        let merged = merged("1\n2\n3\n4\n5\n", "one\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\n");
        assert_eq!(merged.as_deref(), Some("one\n2\n3\n4\nfive\n"));
    }

    #[test]
    fn changes_to_one_line_are_a_conflict() {
        assert_eq!(merged("1\n2\n3\n", "1\nours\n3\n", "1\ntheirs\n3\n"), None);
    }

    #[test]
    fn the_same_change_on_both_sides_merges() {
        assert_eq!(merged("1\n2\n", "1\ntwo\n", "1\ntwo\n").as_deref(), Some("1\ntwo\n"));
    }

    #[test]
    fn line_endings_are_kept() {
        let (base, ours, theirs) = ("a\r\nb\r\nc\r\nd", "A\r\nb\r\nc\r\nd", "a\r\nb\r\nc\r\nD");
        assert_eq!(merged(base, ours, theirs).as_deref(), Some("A\r\nb\r\nc\r\nD"));
    }

    #[test]
    fn binary_content_is_not_merged() {
        assert_eq!(merge(b"a\0\n1\n2\n3\n", b"b\0\n1\n2\n3\n", b"a\0\n1\n2\n4\n"), None);
        assert_eq!(merge(b"\xff", b"\xff", b"\xfe").as_deref(), Some(&b"\xfe"[..]));
    }

    proptest! {
        #[test]
        fn one_sided_changes_always_merge(base in "[ab\n]{0,30}", other in "[ab\n]{0,30}") {
            prop_assert_eq!(merged(&base, &base, &other), Some(other.clone()));
            prop_assert_eq!(merged(&base, &other, &base), Some(other.clone()));
            prop_assert_eq!(merged(&base, &other, &other), Some(other));
        }

        /// Swapping the sides makes no difference to whether they can be merged.
        #[test]
        fn the_order_of_the_sides_does_not_matter(base in "([abc]\n){0,12}", ours in "([abc]\n){0,12}", theirs in "([abc]\n){0,12}") {
            prop_assert_eq!(merged(&base, &ours, &theirs).is_some(), merged(&base, &theirs, &ours).is_some());
        }
    }
}
