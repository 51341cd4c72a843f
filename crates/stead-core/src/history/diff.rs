//! The difference between two contents, by line for text.
//!
//! ```
//! use stead_core::history::diff::{ContentDiff, diff_content};
//!
//! let diff = diff_content(b"read\n", b"review\n", 3);
//! assert_eq!(diff, ContentDiff::Text("@@ -1 +1 @@\n-read\n+review\n".to_owned()));
//! ```

use similar::TextDiff;

use crate::history::merge::is_text;

/// The largest content that is compared by line, in bytes.
pub const MAX_DIFF_SIZE: u64 = 8 << 20;

/// The difference between two contents, for people to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentDiff {
    /// The difference by line, as `diff -u` writes it: hunks without a header.
    Text(String),
    /// At least one side isn't text, or is too large to be compared by line.
    Binary,
}

/// Compares two contents by line and shows `context` unchanged lines around each difference.
pub fn diff_content(old: &[u8], new: &[u8], context: usize) -> ContentDiff {
    if [old, new].iter().any(|side| side.len() as u64 > MAX_DIFF_SIZE || !is_text(side)) {
        return ContentDiff::Binary;
    }
    let (Ok(old), Ok(new)) = (std::str::from_utf8(old), std::str::from_utf8(new)) else {
        return ContentDiff::Binary;
    };
    let diff = TextDiff::from_lines(old, new);
    ContentDiff::Text(diff.unified_diff().context_radius(context).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_compared_by_line() {
        let ContentDiff::Text(diff) = diff_content(b"a\nb\nc\n", b"a\nB\nc", 1) else {
            panic!("both contents are text")
        };
        assert_eq!(diff, "@@ -1,3 +1,3 @@\n a\n-b\n-c\n+B\n+c\n\\ No newline at end of file\n");
    }

    #[test]
    fn binary_content_is_not_compared_by_line() {
        assert_eq!(diff_content(b"a\0", b"b", 3), ContentDiff::Binary);
        assert_eq!(diff_content(b"\xff", b"b", 3), ContentDiff::Binary);
    }
}
