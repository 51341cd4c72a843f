//! Splits lines that are too long for a searcher's memory.

use std::cell::RefCell;
use std::io::Read;
use std::rc::Rc;

use crate::search::Grep;

/// The longest line that is searched in one piece when content comes from a reader. Together with the searcher's own
/// buffers it has to fit into the searcher's heap limit.
const MAX_SEARCHED_LINE: usize = 4 << 20;

/// Where long lines were split, as byte offsets in the stream that the searcher reads.
pub(super) type CutOffsets = Rc<RefCell<Vec<u64>>>;

/// A reader that splits lines longer than [`MAX_SEARCHED_LINE`], and ends when the search should stop.
pub(super) struct LongLineSplitter<'a, R> {
    grep: &'a Grep,
    content: R,
    line_length: usize,
    offset: u64,
    cuts: CutOffsets,
}

impl<'a, R: Read> LongLineSplitter<'a, R> {
    pub(super) fn new(content: R, grep: &'a Grep, cuts: &CutOffsets) -> Self {
        LongLineSplitter { grep, content, line_length: 0, offset: 0, cuts: Rc::clone(cuts) }
    }
}

impl<R: Read> Read for LongLineSplitter<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if buffer.is_empty() || self.grep.should_stop() {
            return Ok(0);
        }
        if self.line_length == MAX_SEARCHED_LINE {
            self.cuts.borrow_mut().push(self.offset);
            (buffer[0], self.line_length) = (b'\n', 0);
            self.offset += 1;
            return Ok(1);
        }
        let max_length = buffer.len().min(MAX_SEARCHED_LINE - self.line_length);
        let count = self.content.read(&mut buffer[..max_length])?;
        self.line_length = match memchr::memrchr(b'\n', &buffer[..count]) {
            Some(end) => count - end - 1,
            None => self.line_length + count,
        };
        self.offset += count as u64;
        Ok(count)
    }
}
