//! The size of a reply: one page that no host cuts, or more if the caller sets a larger limit.

/// The bytes of one page. With the last line of notes, the reply stays within 20,000 characters.
///
/// Hosts cut longer replies, some of them to a few hundred characters.
pub(super) const PAGE_BYTES: usize = 19_400;
/// The lines of one page.
pub(super) const PAGE_LINES: usize = 800;
/// The largest reply in bytes, if the caller sets a larger limit.
pub(super) const MAX_REPLY_BYTES: usize = 256 << 10;
/// The longest reply that hosts are told to expect: the largest reply as base64, and a last line.
pub(super) const MAX_REPLY_CHARACTERS: usize = 360_000;

/// The bounds of one reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReplyBounds {
    /// The most bytes of text.
    pub(super) bytes: usize,
    /// The most lines.
    pub(super) lines: usize,
}

impl ReplyBounds {
    /// One page.
    pub(super) const PAGE: ReplyBounds = ReplyBounds { bytes: PAGE_BYTES, lines: PAGE_LINES };
    /// The largest reply.
    pub(super) const MAX: ReplyBounds = ReplyBounds { bytes: MAX_REPLY_BYTES, lines: usize::MAX };

    /// One page, or the largest reply if the caller's limit exceeds `default_limit`.
    pub(super) fn for_limit(limit: Option<u64>, default_limit: u64) -> ReplyBounds {
        if limit.is_some_and(|limit| limit > default_limit) { ReplyBounds::MAX } else { ReplyBounds::PAGE }
    }
}

/// Text that is built line by line until it reaches its bounds.
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

    /// Adds a line, or several that belong together. Returns false, adding nothing, if they don't fit.
    pub(super) fn push_line(&mut self, line: &str) -> bool {
        // The first line is always added: an empty reply wouldn't help the caller.
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
