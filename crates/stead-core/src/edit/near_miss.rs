//! What a text that isn't in a file was perhaps meant to be: the likely mistakes of a caller that copied it.

use std::fmt;

use crate::name::escape_text;
use crate::text_encoding::TextEncoding;

/// The largest content that is searched for a near miss, in bytes.
const MAX_CONTENT: usize = 1 << 20;
/// The longest text that a near miss is looked for, in bytes.
const MAX_OLD: usize = 16 << 10;
/// The most lines of a content that are compared with those of a text.
const MAX_LINES: usize = 20_000;
/// The most lines of a text that are compared.
const MAX_OLD_LINES: usize = 50;
/// The longest line that is compared with another by similarity, in bytes.
const MAX_COMPARED_LINE: usize = 400;
/// The lowest similarity of two lines, from 0 to 1, that is worth a hint.
const MIN_SIMILARITY: f64 = 0.6;
/// The most characters of a line that a hint shows.
const MAX_SHOWN: usize = 160;

/// Something in a file that is almost the text that an edit was to replace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NearMiss {
    /// The text without its line numbers.
    LineNumbers,
    /// The text with other line endings.
    LineEndings {
        /// The line where it begins.
        line: u64,
        /// The line ending that the file has there.
        in_file: LineEnding,
    },
    /// The text with other white space.
    WhiteSpace {
        /// The first line that differs.
        line: u64,
        /// That line in the file.
        text: String,
    },
    /// A text in which some lines differ.
    Similar {
        /// The first line that differs.
        line: u64,
        /// That line in the file.
        text: String,
    },
}

/// What ends a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnding {
    /// A line feed.
    Lf,
    /// A carriage return and a line feed.
    CrLf,
}

impl fmt::Display for NearMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NearMiss::LineNumbers => f.write_str("it has line numbers in it; leave them out"),
            NearMiss::LineEndings { line, in_file: LineEnding::CrLf } => {
                write!(f, "from line {line} on, lines end with CRLF in the file, not with LF; write \\r\\n")
            }
            NearMiss::LineEndings { line, in_file: LineEnding::Lf } => {
                write!(f, "from line {line} on, lines end with LF in the file, not with CRLF; write \\n")
            }
            NearMiss::WhiteSpace { line, text } => {
                write!(f, "it differs in white space at line {line}, which is `{}`", visible(text))
            }
            NearMiss::Similar { line, text } => {
                write!(f, "the nearest text differs at line {line}, which is `{}`", visible(text))
            }
        }
    }
}

/// A line as a reader can copy it: with visible tabs, and not too long.
fn visible(line: &str) -> String {
    let line = line.replace('\t', "\\t").replace('\r', "\\r");
    let shown: String = line.chars().take(MAX_SHOWN).collect();
    let cut = if shown.len() < line.len() { "…" } else { "" };
    format!("{}{cut}", escape_text(&shown))
}

/// Looks for what `old` was perhaps meant to be.
pub(super) fn find(content: &[u8], old: &[u8], encoding: TextEncoding) -> Option<NearMiss> {
    let old = std::str::from_utf8(old).ok().filter(|old| old.len() <= MAX_OLD)?;
    if content.len() > MAX_CONTENT {
        return None;
    }
    let text = encoding.decode(content);
    other_line_endings(&text, old)
        .or_else(|| line_numbers(&text, old))
        .or_else(|| other_white_space(&text, old))
        .or_else(|| similar_lines(&text, old))
        .or_else(|| similar_line(&text, old))
}

fn other_line_endings(text: &str, old: &str) -> Option<NearMiss> {
    let with_lf = old.replace("\r\n", "\n");
    let found = |old: &str, in_file| {
        let start = text.find(old)?;
        Some(NearMiss::LineEndings { line: line_number(text, start), in_file })
    };
    if !with_lf.contains('\n') {
        return None;
    }
    found(&with_lf, LineEnding::Lf).or_else(|| found(&with_lf.replace('\n', "\r\n"), LineEnding::CrLf))
}

fn line_numbers(text: &str, old: &str) -> Option<NearMiss> {
    let without_number = |line| -> Option<&str> {
        let (number, rest) = str::split_once(line, '\t')?;
        number.trim().parse::<u64>().is_ok().then_some(rest)
    };
    let lines = old.lines().map(without_number).collect::<Option<Vec<_>>>()?.join("\n");
    (!lines.trim().is_empty() && text.replace("\r\n", "\n").contains(&lines)).then_some(NearMiss::LineNumbers)
}

/// Looks for the text with all white space left out, then for the first place where the white space differs.
fn other_white_space(text: &str, old: &str) -> Option<NearMiss> {
    let squeezed_old: String = old.chars().filter(|c| !c.is_whitespace()).collect();
    let (mut squeezed, mut offsets) = (String::new(), Vec::new());
    for (offset, character) in text.char_indices().filter(|(_, c)| !c.is_whitespace()) {
        squeezed.push(character);
        offsets.resize(squeezed.len(), offset);
    }
    if squeezed_old.is_empty() {
        return None;
    }
    let start = offsets[squeezed.find(&squeezed_old)?];
    let indent = &old[..old.len() - old.trim_start().len()];
    let same_length = match text[..start].ends_with(indent) {
        true => {
            let pairs = text[start..].chars().zip(old[indent.len()..].chars());
            pairs.take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum()
        }
        false => 0,
    };
    let (line, text) = line_at(text, start + same_length);
    Some(NearMiss::WhiteSpace { line, text })
}

/// Looks for the lines of `old`, of which at least half have to be in their place.
fn similar_lines(text: &str, old: &str) -> Option<NearMiss> {
    let old: Vec<_> = old.trim_matches('\n').lines().map(str::trim).take(MAX_OLD_LINES).collect();
    let lines: Vec<_> = text.lines().map(str::trim).take(MAX_LINES).collect();
    let same = |start: usize| {
        let pairs = lines[start..].iter().zip(&old);
        pairs.filter(|(one, other)| one == other && !one.is_empty()).count()
    };
    let best = (0..lines.len()).map(|start| (same(start), start)).max_by_key(|&(same, start)| {
        // The first of several.
        (same, std::cmp::Reverse(start))
    });
    let (_, start) = best.filter(|&(count, _)| count > 0 && 2 * count >= old.len())?;
    let differing = (0..old.len()).find(|&index| lines.get(start + index) != Some(&old[index]));
    let index = (start + differing?).min(lines.len() - 1);
    Some(NearMiss::Similar { line: index as u64 + 1, text: text.lines().nth(index)?.to_owned() })
}

/// Looks for the line that is most like the first line of `old`.
fn similar_line(text: &str, old: &str) -> Option<NearMiss> {
    let old = old.lines().map(str::trim).find(|line| !line.is_empty())?;
    let is_comparable = |line: &str| line.len() <= MAX_COMPARED_LINE && 2 * line.len() > old.len();
    if old.len() > MAX_COMPARED_LINE {
        return None;
    }
    let mut best: Option<(f64, usize, &str)> = None;
    for (index, line) in text.lines().take(MAX_LINES).enumerate().filter(|(_, line)| is_comparable(line)) {
        let similarity = strsim::sorensen_dice(line.trim(), old);
        if similarity >= best.map_or(MIN_SIMILARITY, |(best, ..)| best.next_up()) {
            best = Some((similarity, index, line));
        }
    }
    let (_, index, line) = best?;
    Some(NearMiss::Similar { line: index as u64 + 1, text: line.to_owned() })
}

/// The number, from 1, of the line with this byte.
fn line_number(text: &str, offset: usize) -> u64 {
    1 + memchr::memchr_iter(b'\n', &text.as_bytes()[..offset]).count() as u64
}

/// The line with this byte: its number, from 1, and its text.
fn line_at(text: &str, offset: usize) -> (u64, String) {
    let start = text[..offset].rfind('\n').map_or(0, |index| index + 1);
    let line = text[start..].split('\n').next().unwrap_or_default();
    (line_number(text, offset), line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(content: &str, old: &str) -> Option<String> {
        find(content.as_bytes(), old.as_bytes(), TextEncoding::Utf8).map(|near_miss| near_miss.to_string())
    }

    #[test]
    fn other_white_space_is_shown_where_it_differs() {
        let content = "fn main() {\n\tone();\n\ttwo();\n}\n";
        let differs =
            |line, text: &str| Some(format!("it differs in white space at line {line}, which is `{text}`"));
        assert_eq!(hint(content, "    one();"), differs(2, "\\tone();"));
        assert_eq!(hint(content, "\tone();\n    two();"), differs(3, "\\ttwo();"));
        assert_eq!(hint(content, "one( );"), differs(2, "\\tone();"));
        assert_eq!(hint(content, "two();\n\n}"), differs(4, "}"));
        assert_eq!(hint("a \nb\n", "a\nb"), differs(1, "a "));
        assert_eq!(hint("a\u{a0}b", "a b"), differs(1, "a\u{a0}b"));
    }

    #[test]
    fn other_line_endings_are_named() {
        let crlf = hint("a\r\nb\r\nc", "b\nc").unwrap();
        assert_eq!(crlf, "from line 2 on, lines end with CRLF in the file, not with LF; write \\r\\n");
        let lf = hint("a\nb\nc", "b\r\nc").unwrap();
        assert_eq!(lf, "from line 2 on, lines end with LF in the file, not with CRLF; write \\n");
    }

    #[test]
    fn copied_line_numbers_are_named() {
        let hinted = hint("one\ntwo\nthree\n", "2\ttwo\n3\tthree").unwrap();
        assert_eq!(hinted, "it has line numbers in it; leave them out");
    }

    #[test]
    fn the_nearest_text_is_shown() {
        let content = "fn one() {}\nfn two(a: u32) {}\nfn three() {}\n";
        let nearest =
            |line, text: &str| Some(format!("the nearest text differs at line {line}, which is `{text}`"));
        let several_lines = "fn one() {}\nfn two(a: u64) {}\nfn three() {}";
        assert_eq!(hint(content, several_lines), nearest(2, "fn two(a: u32) {}"));
        assert_eq!(hint(content, "fn tow(a: u32)"), nearest(2, "fn two(a: u32) {}"));
        assert_eq!(hint(content, "fn three() {}\nfn four() {}"), nearest(3, "fn three() {}"));
        assert_eq!(hint(content, "something else"), None);
        assert_eq!(hint("", "text"), None);
        assert_eq!(hint(content, " \n"), None);
    }

    #[test]
    fn a_long_line_is_cut_and_control_characters_are_escaped() {
        let hinted = hint(&format!("\u{1b}[2J{}  end", "x".repeat(300)), &format!("{} end", "x".repeat(300)));
        let hinted = hinted.unwrap();
        assert!(!hinted.contains('\u{1b}') && hinted.ends_with("x…`") && hinted.len() < 260, "{hinted}");
    }

    #[test]
    fn a_large_content_costs_no_search() {
        let content = "line \n".repeat(MAX_CONTENT / 6 + 1);
        assert_eq!(hint(&content, "line\nline"), None);
        let blank = "\n".repeat(MAX_CONTENT);
        assert_eq!(hint(&blank, &"x\n".repeat(MAX_OLD / 2)), None);
    }
}
