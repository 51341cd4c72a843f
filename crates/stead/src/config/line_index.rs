//! Finds the line and column of a position in a text, without counting from the start of the text each time.

/// Where the lines of a text begin.
pub(super) struct LineIndex<'t> {
    text: &'t str,
    /// The byte offset of each line.
    starts: Vec<usize>,
}

impl<'t> LineIndex<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let after_newlines = text.match_indices('\n').map(|(newline, _)| newline + 1);
        LineIndex { text, starts: std::iter::once(0).chain(after_newlines).collect() }
    }

    /// The line and column of a byte offset, counted from 1; the column in characters.
    pub(super) fn line_and_column(&self, byte: usize) -> (usize, usize) {
        let byte = self.text.floor_char_boundary(byte);
        let line = self.starts.partition_point(|start| *start <= byte);
        (line, self.text[self.starts[line - 1]..byte].chars().count() + 1)
    }
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
}
