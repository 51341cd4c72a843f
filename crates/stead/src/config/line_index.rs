//! Finds the line and column of a position in a text, without counting from the start of the text each time.

/// How many bytes are counted at most to find a column. A line may be as long as the text.
const BLOCK_BYTES: usize = 1024;

/// Where the lines of a text begin.
pub(super) struct LineIndex<'t> {
    text: &'t str,
    /// The byte offset of each line.
    starts: Vec<usize>,
    /// How many characters begin before each block of [`BLOCK_BYTES`] bytes.
    characters_before: Vec<usize>,
}

impl<'t> LineIndex<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let after_newlines = text.match_indices('\n').map(|(newline, _)| newline + 1);
        let starts = std::iter::once(0).chain(after_newlines).collect();
        let mut characters_before = vec![0];
        for block in text.as_bytes().chunks(BLOCK_BYTES) {
            let before = characters_before.last().copied().unwrap_or_default();
            characters_before.push(before + count_characters(block));
        }
        LineIndex { text, starts, characters_before }
    }

    /// The line and column of a byte offset, counted from 1; the column in characters.
    pub(super) fn line_and_column(&self, byte: usize) -> (usize, usize) {
        let byte = self.text.floor_char_boundary(byte);
        let line = self.starts.partition_point(|start| *start <= byte);
        (line, self.characters_until(byte) - self.characters_until(self.starts[line - 1]) + 1)
    }

    /// How many characters begin before a byte offset.
    fn characters_until(&self, byte: usize) -> usize {
        let block = byte / BLOCK_BYTES;
        self.characters_before[block] + count_characters(&self.text.as_bytes()[block * BLOCK_BYTES..byte])
    }
}

/// How many characters begin in these bytes of a text.
fn count_characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| !matches!(byte, 0x80..=0xbf)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_are_counted_from_one_in_characters() {
        let index = LineIndex::new("a\n\u{e9}b\n");
        assert_eq!(index.line_and_column(0), (1, 1));
        assert_eq!(index.line_and_column(2), (2, 1));
        assert_eq!(index.line_and_column(4), (2, 2));
        assert_eq!(index.line_and_column(999), (3, 1));
    }

    #[test]
    fn a_column_far_into_a_long_line_is_counted_in_characters() {
        let long = "\u{e9}a\u{20ac}".repeat(BLOCK_BYTES);
        let text = format!("first\n{long}\n{long}");
        let index = LineIndex::new(&text);
        for (byte, _) in text.char_indices().chain([(text.len(), ' ')]) {
            let before = &text[..byte];
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            let line = before.matches('\n').count() + 1;
            if byte % 97 < 4 || byte == text.len() {
                assert_eq!(index.line_and_column(byte), (line, text[line_start..byte].chars().count() + 1));
            }
        }
    }
}
