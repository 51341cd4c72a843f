//! Why an edit doesn't fit a file: the old text isn't there, or more than once, or the new text can't be written.

use std::fmt;

use super::near_miss::NearMiss;
use crate::name::escape_text;
use crate::text_encoding::TextEncoding;

/// The most lines that an error lists.
const MAX_LISTED_LINES: usize = 8;

/// Why an edit wasn't made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EditMismatch {
    /// Which of the edit's replacements doesn't fit, from 1.
    pub number: usize,
    /// How many replacements the edit has.
    pub of: usize,
    /// Why it doesn't fit.
    pub reason: MismatchReason,
}

/// Why a replacement doesn't fit a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MismatchReason {
    /// The old text doesn't occur; perhaps something like it does.
    NotFound(Option<NearMiss>),
    /// The old text occurs more than once.
    Ambiguous {
        /// How often it occurs.
        count: usize,
        /// The lines where it begins, from 1: the first few, and none for a caller that may not know them.
        lines: Vec<u64>,
    },
    /// The file's encoding doesn't have a character of the new text.
    Unencodable {
        /// The character.
        character: char,
        /// The encoding.
        encoding: TextEncoding,
    },
    /// The file contains NUL, so it isn't text.
    Binary,
    /// The file's encoding has code units of several bytes, and the last one isn't complete.
    IncompleteEnd {
        /// The encoding.
        encoding: TextEncoding,
    },
}

impl EditMismatch {
    /// The same mismatch for a caller that may not read the file: with nothing of its content.
    pub(crate) fn without_content(self) -> Self {
        let reason = match self.reason {
            MismatchReason::NotFound(_) => MismatchReason::NotFound(None),
            MismatchReason::Ambiguous { count, .. } => MismatchReason::Ambiguous { count, lines: Vec::new() },
            reason @ (MismatchReason::Unencodable { .. }
            | MismatchReason::Binary
            | MismatchReason::IncompleteEnd { .. }) => reason,
        };
        EditMismatch { reason, ..self }
    }

    /// Which replacement it is, for the start of a sentence; empty if there is one.
    pub(crate) fn prefix(&self) -> String {
        if self.of == 1 {
            return String::new();
        }
        format!("nothing was changed, because edit {} of {} failed: ", self.number, self.of)
    }
}

impl fmt::Display for EditMismatch {
    /// The end of a sentence about the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            MismatchReason::NotFound(None) => {
                f.write_str("doesn't contain the text to replace; read it and copy the text exactly")
            }
            MismatchReason::NotFound(Some(near_miss)) => {
                write!(f, "doesn't contain the text to replace: {near_miss}")
            }
            MismatchReason::Ambiguous { count, lines } => write!(
                f,
                "contains the text to replace {count} times{}; give more of the text around it, or replace all",
                in_lines(lines, *count)
            ),
            MismatchReason::Unencodable { character, encoding } => write!(
                f,
                "is a text in {encoding}, which has no `{}`; leave that out, or write the whole file, which makes it UTF-8",
                escape_text(character.encode_utf8(&mut [0; 4]))
            ),
            MismatchReason::Binary => {
                f.write_str("is binary, and only text can be edited; write the whole file instead")
            }
            MismatchReason::IncompleteEnd { encoding } => write!(
                f,
                "is a text in {encoding} that ends in the middle of a character; write the whole file instead"
            ),
        }
    }
}

impl MismatchReason {
    /// The old text occurs `count` times, and begins at `starts`, among others.
    pub(super) fn ambiguous(
        count: usize,
        content: &[u8],
        starts: impl Iterator<Item = usize>,
        encoding: TextEncoding,
    ) -> Self {
        let (mut lines, mut line, mut line_end) = (Vec::new(), 0, 0);
        for start in starts {
            while start >= line_end && line_end < content.len() {
                let length = encoding.find_line_end(&content[line_end..]);
                line_end = length.map_or(content.len(), |length| line_end + length);
                line += 1;
            }
            if lines.last() != Some(&line) {
                if lines.len() == MAX_LISTED_LINES {
                    break;
                }
                lines.push(line);
            }
        }
        MismatchReason::Ambiguous { count, lines }
    }
}

/// Where something is, with a comma before it: `, in lines 12, 40 and 71`.
fn in_lines(lines: &[u64], count: usize) -> String {
    let numbers = |lines: &[u64]| lines.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    match lines {
        [] => String::new(),
        [line] => format!(", in line {line}"),
        lines if lines.len() == MAX_LISTED_LINES && count > MAX_LISTED_LINES => {
            format!(", in lines {} and others", numbers(lines))
        }
        [first @ .., last] => format!(", in lines {} and {last}", numbers(first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_lists_the_lines() {
        let sentence = |count, lines: &[u64]| {
            let reason = MismatchReason::Ambiguous { count, lines: lines.to_vec() };
            EditMismatch { number: 1, of: 1, reason }.to_string()
        };
        assert_eq!(
            sentence(3, &[12, 40, 71]),
            "contains the text to replace 3 times, in lines 12, 40 and 71; give more of the text around it, or replace all"
        );
        assert!(sentence(2, &[5]).contains(" 2 times, in line 5;"));
        assert!(
            sentence(9, &[1, 2, 3, 4, 5, 6, 7, 8]).contains("in lines 1, 2, 3, 4, 5, 6, 7, 8 and others;")
        );
        assert!(sentence(9, &[]).contains("9 times;"));
    }

    #[test]
    fn nothing_of_the_content_is_left_for_a_caller_that_may_not_read() {
        let mismatch = |reason| EditMismatch { number: 2, of: 3, reason }.without_content().reason;
        let near_miss = NearMiss::Similar { line: 1, text: "secret".into() };
        assert_eq!(mismatch(MismatchReason::NotFound(Some(near_miss))), MismatchReason::NotFound(None));
        let ambiguous = |lines| MismatchReason::Ambiguous { count: 2, lines };
        assert_eq!(mismatch(ambiguous(vec![1, 2])), ambiguous(Vec::new()));
    }
}
