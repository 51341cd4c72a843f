//! The difference between two contents, by line for text.
//!
//! ```
//! use stead_core::history::diff::{ContentDiff, diff_content};
//!
//! let diff = diff_content(b"read\n", b"review\n", 3);
//! assert_eq!(diff, ContentDiff::Text("@@ -1 +1 @@\n-read\n+review\n".to_owned()));
//! ```

use std::fmt::Write as _;

use similar::TextDiff;

use crate::text_encoding::TextEncoding;

/// The largest content that is compared by line, in bytes.
pub const MAX_DIFF_SIZE: u64 = 8 << 20;

/// The difference between two contents, for people to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentDiff {
    /// The difference by line, as `diff -u` writes it: hunks without a header.
    Text(String),
    /// At least one side isn't text or is too large to be compared by line, or only the encoding differs.
    Binary,
}

/// Compares the texts of two contents by line and shows `context` unchanged lines around each difference.
pub fn diff_content(old: &[u8], new: &[u8], context: usize) -> ContentDiff {
    if old.len().max(new.len()) as u64 > MAX_DIFF_SIZE {
        return ContentDiff::Binary;
    }
    match (TextEncoding::decode_content(old), TextEncoding::decode_content(new)) {
        (Some(old_text), Some(new_text)) if old_text != new_text || old == new => {
            ContentDiff::Text(diff_text(&old_text, &new_text, context))
        }
        _ => ContentDiff::Binary,
    }
}

/// Writes the hunks. A line ends at `\n`; the library would also end one at a lone `\r`.
fn diff_text(old: &str, new: &str, context: usize) -> String {
    let (old, new): (Vec<_>, Vec<_>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let diff = TextDiff::configure().diff_slices(&old, &new);
    let mut text = String::new();
    for hunk in diff.unified_diff().context_radius(context).iter_hunks() {
        writeln!(text, "{}", hunk.header()).expect("a String takes everything");
        for change in hunk.iter_changes() {
            write!(text, "{}{}", change.tag(), change.value()).expect("a String takes everything");
            if !change.value().ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    text
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
    fn a_lone_carriage_return_ends_no_line() {
        let ContentDiff::Text(diff) = diff_content(b"a\rb\r", b"a\rc\r", 3) else {
            panic!("both contents are text")
        };
        let no_newline = "\n\\ No newline at end of file\n";
        assert_eq!(diff, format!("@@ -1 +1 @@\n-a\rb\r{no_newline}+a\rc\r{no_newline}"));
    }

    #[test]
    fn texts_in_other_encodings_are_compared_by_line() {
        let utf_16 = |text| TextEncoding::Utf16Le.encode(text).unwrap();
        let expected = ContentDiff::Text("@@ -1,2 +1,2 @@\n caf\u{e9}\n-one\n+two\n".to_owned());
        assert_eq!(diff_content(b"caf\xe9\none\n", b"caf\xe9\ntwo\n", 3), expected);
        let (old, new) = (utf_16("\u{feff}caf\u{e9}\none\n"), utf_16("\u{feff}caf\u{e9}\ntwo\n"));
        assert_eq!(diff_content(&old, &new, 3), expected);
        assert_eq!(diff_content(b"caf\xe9\none\n", &new, 3), expected);
        // The lines are equal, but the contents aren't.
        assert_eq!(diff_content("caf\u{e9}\ntwo\n".as_bytes(), &new, 3), ContentDiff::Binary);
    }

    #[test]
    fn binary_content_is_not_compared_by_line() {
        assert_eq!(diff_content(b"a\0", b"b", 3), ContentDiff::Binary);
        assert_eq!(diff_content(b"\xff", b"b", 3), ContentDiff::Binary);
    }
}
