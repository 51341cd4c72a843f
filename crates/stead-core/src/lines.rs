//! Reading a text by lines, in constant memory.

use crate::store::{OpenContent, StoreResult};
use crate::text_encoding::{EncodingGuess, HEAD_SIZE, TextEncoding};

/// Which part of a text one call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRange {
    /// The first line, counted from 1.
    pub offset: u64,
    /// The most lines to return.
    pub limit: u64,
    /// The most bytes to return.
    pub max_bytes: usize,
}

impl Default for LineRange {
    fn default() -> Self {
        LineRange { offset: 1, limit: 2_000, max_bytes: 256 << 10 }
    }
}

/// Consecutive lines of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextLines {
    /// The lines, with the line endings and in the encoding that they have in the file.
    pub(crate) bytes: Vec<u8>,
    /// The encoding of the file.
    pub(crate) encoding: EncodingGuess,
    /// The number of lines; the last one may be cut.
    pub(crate) count: u64,
    /// What comes after these lines.
    pub(crate) continuation: Continuation,
}

/// What comes after the lines that a call returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuation {
    /// Nothing: the text ends here.
    End {
        /// The number of lines in the whole text.
        lines: u64,
    },
    /// More lines follow.
    More {
        /// The next line, counted from 1.
        next: u64,
    },
    /// The last line was too long for one call and is cut. It continues at this byte of the file.
    Cut {
        /// The byte offset.
        at: u64,
    },
}

/// Reads `range` of an open text.
pub(crate) fn read_lines(content: &dyn OpenContent, range: LineRange) -> StoreResult<TextLines> {
    let mut scanner = LineScanner::new(content)?;
    let guess = EncodingGuess::from_head(&scanner.buffer[..scanner.filled]);
    scanner.encoding = guess.encoding;
    let (bytes, count, continuation) = scanner.read_range(range)?;
    Ok(TextLines { bytes, encoding: guess, count, continuation })
}

enum SkipResult {
    /// A complete line was skipped.
    Line,
    /// The last line was skipped; it has no line ending.
    UnterminatedLine,
    /// No text was left.
    EndOfText,
}

/// Scans a content line by line through one buffer.
struct LineScanner<'a> {
    content: &'a dyn OpenContent,
    buffer: Vec<u8>,
    /// The offset in the file where the buffer starts.
    buffer_offset: u64,
    position: usize,
    filled: usize,
    encoding: TextEncoding,
}

impl<'a> LineScanner<'a> {
    /// A scanner whose buffer has the start of the content.
    fn new(content: &'a dyn OpenContent) -> StoreResult<Self> {
        let encoding = TextEncoding::Utf8;
        let mut scanner = LineScanner {
            content,
            buffer: vec![0; HEAD_SIZE],
            buffer_offset: 0,
            position: 0,
            filled: 0,
            encoding,
        };
        scanner.fill_buffer()?;
        Ok(scanner)
    }

    /// The lines of a range, their number, and what comes after them.
    fn read_range(&mut self, range: LineRange) -> StoreResult<(Vec<u8>, u64, Continuation)> {
        let mut line = 1;
        while line < range.offset {
            match self.skip_line()? {
                SkipResult::Line => line += 1,
                SkipResult::UnterminatedLine => {
                    return Ok((Vec::new(), 0, Continuation::End { lines: line }));
                }
                SkipResult::EndOfText => return Ok((Vec::new(), 0, Continuation::End { lines: line - 1 })),
            }
        }
        let unit_size = self.encoding.unit_size();
        let max_bytes = range.max_bytes.max(unit_size) / unit_size * unit_size;
        let mut bytes = Vec::new();
        let mut count = 0;
        while count < range.limit {
            let length_before = bytes.len();
            let is_complete = self.take_line(&mut bytes, max_bytes)?;
            if bytes.len() == length_before && self.at_end()? {
                return Ok((bytes, count, Continuation::End { lines: line - 1 }));
            }
            if !is_complete && !self.at_end()? {
                // The line doesn't fit. Complete lines are returned first; a line that is too long alone is cut between
                // characters.
                if length_before > 0 {
                    bytes.truncate(length_before);
                    return Ok((bytes, count, Continuation::More { next: line }));
                }
                let kept_length = self.encoding.len_without_partial_char(&bytes);
                let at = self.position() - (bytes.len() - kept_length) as u64;
                bytes.truncate(kept_length);
                return Ok((bytes, 1, Continuation::Cut { at }));
            }
            count += 1;
            line += 1;
        }
        let at_end = self.at_end()?;
        let continuation =
            if at_end { Continuation::End { lines: line - 1 } } else { Continuation::More { next: line } };
        Ok((bytes, count, continuation))
    }

    fn position(&self) -> u64 {
        self.buffer_offset + self.position as u64
    }

    fn fill_buffer(&mut self) -> StoreResult<bool> {
        if self.position == self.filled {
            self.buffer_offset += self.filled as u64;
            self.position = 0;
            self.filled = self.content.read_at(self.buffer_offset, &mut self.buffer)?;
        }
        Ok(self.position < self.filled)
    }

    fn at_end(&mut self) -> StoreResult<bool> {
        Ok(!self.fill_buffer()?)
    }

    fn skip_line(&mut self) -> StoreResult<SkipResult> {
        let mut skipped_any = false;
        while self.fill_buffer()? {
            skipped_any = true;
            match self.encoding.find_line_end(&self.buffer[self.position..self.filled]) {
                Some(length) => {
                    self.position += length;
                    return Ok(SkipResult::Line);
                }
                None => self.position = self.filled,
            }
        }
        Ok(if skipped_any { SkipResult::UnterminatedLine } else { SkipResult::EndOfText })
    }

    /// Appends the rest of a line, with its ending, to `output` until that has `max_length` bytes. Returns whether the
    /// line's end was reached.
    fn take_line(&mut self, output: &mut Vec<u8>, max_length: usize) -> StoreResult<bool> {
        while output.len() < max_length && self.fill_buffer()? {
            let window = &self.buffer[self.position..self.filled];
            let line_end = self.encoding.find_line_end(window);
            let line_length = line_end.unwrap_or(window.len());
            let count = line_length.min(max_length - output.len());
            output.extend_from_slice(&window[..count]);
            self.position += count;
            if line_end.is_some() && count == line_length {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::store::{Attr, NodeId, NodeKind, VersionTag};

    struct Text(Vec<u8>);

    impl OpenContent for Text {
        fn attr(&self) -> Attr {
            let zero = Timestamp(0);
            let (node, tag) = (NodeId(1), VersionTag(1));
            let size = self.0.len() as u64;
            Attr {
                node,
                kind: NodeKind::File,
                size,
                mode: 0o644,
                created: None,
                modified: zero,
                changed: zero,
                tag,
            }
        }
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize> {
            let rest = &self.0[usize::try_from(offset).unwrap().min(self.0.len())..];
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        }
    }

    fn read(
        text: impl AsRef<[u8]>,
        offset: u64,
        limit: u64,
        max_bytes: usize,
    ) -> (String, u64, Continuation) {
        let lines =
            read_lines(&Text(text.as_ref().to_vec()), LineRange { offset, limit, max_bytes }).unwrap();
        (lines.encoding.decode(lines.bytes).unwrap().0, lines.count, lines.continuation)
    }

    #[test]
    fn a_range_of_lines_is_read() {
        assert_eq!(read("a\nb\nc\n", 2, 1, 99), ("b\n".into(), 1, Continuation::More { next: 3 }));
        assert_eq!(read("a\nb\nc\n", 2, 9, 99), ("b\nc\n".into(), 2, Continuation::End { lines: 3 }));
        assert_eq!(read("a\nb\nc", 3, 1, 99), ("c".into(), 1, Continuation::End { lines: 3 }));
        assert_eq!(read("", 1, 9, 99), (String::new(), 0, Continuation::End { lines: 0 }));
        assert_eq!(read("a\nb", 7, 9, 99), (String::new(), 0, Continuation::End { lines: 2 }));
        assert_eq!(read("a\nb\n", 7, 9, 99), (String::new(), 0, Continuation::End { lines: 2 }));
    }

    #[test]
    fn complete_lines_are_read_up_to_the_byte_limit() {
        assert_eq!(
            read("aaa\nbbb\nccc\n", 1, 9, 9),
            ("aaa\nbbb\n".into(), 2, Continuation::More { next: 3 })
        );
        assert_eq!(read("aaa\nbbb\n", 1, 9, 8), ("aaa\nbbb\n".into(), 2, Continuation::End { lines: 2 }));
        // The limit is at the end of a line, but not at the end of the text.
        assert_eq!(
            read("aaa\nbbb\nccc\n", 1, 9, 8),
            ("aaa\nbbb\n".into(), 2, Continuation::More { next: 3 })
        );
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_between_characters() {
        assert_eq!(read("aaaaaaaa\n", 1, 9, 4), ("aaaa".into(), 1, Continuation::Cut { at: 4 }));
        assert_eq!(read("\u{e9}\u{e9}\u{e9}\n", 1, 9, 3), ("\u{e9}".into(), 1, Continuation::Cut { at: 2 }));
        assert_eq!(read("\u{1f600}\u{1f600}", 1, 9, 7), ("\u{1f600}".into(), 1, Continuation::Cut { at: 4 }));
    }

    #[test]
    fn lines_longer_than_the_buffer_are_skipped_and_taken() {
        let long = "x".repeat(200_000);
        let text = format!("{long}\nshort\n{long}\n");
        assert_eq!(read(&text, 2, 1, 99), ("short\n".into(), 1, Continuation::More { next: 3 }));
        assert_eq!(read(&text, 3, 1, 1 << 20), (format!("{long}\n"), 1, Continuation::End { lines: 3 }));
    }

    #[test]
    fn lines_of_utf_16_are_counted_and_cut_like_others() {
        for encoding in [TextEncoding::Utf16Le, TextEncoding::Utf16Be] {
            let encoded = |text: &str| encoding.encode(text).unwrap().into_owned();
            let text = encoded("\u{feff}one\r\n\u{a0a}two\nthree");
            assert_eq!(read(&*text, 1, 1, 99), ("one\r\n".into(), 1, Continuation::More { next: 2 }));
            assert_eq!(read(&*text, 2, 1, 99), ("\u{a0a}two\n".into(), 1, Continuation::More { next: 3 }));
            assert_eq!(read(&*text, 3, 9, 99), ("three".into(), 1, Continuation::End { lines: 3 }));
            assert_eq!(read(&*text, 9, 9, 99), (String::new(), 0, Continuation::End { lines: 3 }));
            let long = encoded("\u{feff}ab\u{1f600}\u{1f600}");
            // Nine bytes end in the middle of a character.
            assert_eq!(read(&*long, 1, 9, 9), ("ab".into(), 1, Continuation::Cut { at: 6 }));
        }
    }
}
