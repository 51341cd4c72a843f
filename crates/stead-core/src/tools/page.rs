//! How much one answer holds: a page that no host cuts, or more where a larger limit is asked for.

/// How much one answer holds unless a larger limit is asked for. Its last line has room beside it, within 20,000 characters.
///
/// Hosts cut longer answers, some of them to a few hundred characters.
pub(super) const PAGE_BYTES: usize = 19_400;
/// How many lines one answer holds unless a larger limit is asked for.
pub(super) const PAGE_LINES: usize = 800;
/// How much one answer holds at the most.
pub(super) const MAX_REPLY_BYTES: usize = 256 << 10;
/// The longest answer that is announced to a host: all bytes as base64, and a last line.
pub(super) const MAX_REPLY_CHARACTERS: usize = 360_000;

/// The bounds of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReplyBounds {
    /// At most so many bytes of text.
    pub(super) bytes: usize,
    /// At most so many lines.
    pub(super) lines: usize,
}

impl ReplyBounds {
    /// A page.
    pub(super) const PAGE: ReplyBounds = ReplyBounds { bytes: PAGE_BYTES, lines: PAGE_LINES };
    /// As much as there may be.
    pub(super) const MAX: ReplyBounds = ReplyBounds { bytes: MAX_REPLY_BYTES, lines: usize::MAX };

    /// A page, unless the caller asks for more than is usual.
    pub(super) fn for_limit(limit: Option<u64>, usual: u64) -> ReplyBounds {
        if limit.is_some_and(|limit| limit > usual) { ReplyBounds::MAX } else { ReplyBounds::PAGE }
    }
}

/// Text that is written line by line, for as long as it fits.
#[derive(Debug)]
pub(super) struct PagedText {
    text: String,
    lines: usize,
    bounds: ReplyBounds,
}

impl PagedText {
    pub(super) fn new(bounds: ReplyBounds) -> Self {
        PagedText { text: String::new(), lines: 0, bounds }
    }

    /// Adds a line, or several that belong together, or says that they do not fit.
    pub(super) fn push_line(&mut self, line: &str) -> bool {
        // A first line is always told: an answer that says nothing leads nowhere.
        let lines = 1 + line.matches('\n').count();
        let has_room =
            self.lines + lines <= self.bounds.lines && self.text.len() + line.len() < self.bounds.bytes;
        let fits = has_room || self.lines == 0;
        if fits {
            self.text.push_str(line);
            self.text.push('\n');
            self.lines += lines;
        }
        fits
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_at_a_whole_line() {
        let mut page = PagedText::new(ReplyBounds { bytes: 10, lines: 3 });
        assert!(page.push_line("1234") && page.push_line("5678"));
        assert!(!page.push_line("9"), "there is no room left");
        assert_eq!(page.into_text(), "1234\n5678\n");
        let mut page = PagedText::new(ReplyBounds { bytes: 100, lines: 2 });
        assert!(page.push_line("1") && page.push_line("2") && !page.push_line("3"));
        let mut page = PagedText::new(ReplyBounds { bytes: 2, lines: 2 });
        assert!(page.push_line("12345") && !page.push_line("6"));
    }
}
