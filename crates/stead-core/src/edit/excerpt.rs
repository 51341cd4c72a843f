//! The lines that an edit changed, with a few lines around them, for the caller to see what it has done.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::text_encoding::TextEncoding;

/// The most places that are shown.
const MAX_PLACES: usize = 8;
/// The most lines that are shown.
const MAX_LINES: usize = 40;
/// How many lines before and after a changed place are shown.
const CONTEXT: u64 = 2;
/// How many lines at the start and at the end of a changed place are shown.
const SHOWN_PER_END: u64 = 5;
/// The most characters of a line that are shown.
const MAX_LINE: usize = 200;

/// Lines of a file after an edit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Excerpt {
    /// The lines, sorted by number.
    pub lines: Vec<ExcerptLine>,
    /// Whether every changed place is among them.
    pub is_complete: bool,
}

/// One line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExcerptLine {
    /// The line's number, from 1.
    pub number: u64,
    /// The text without its line ending; a long one is cut.
    pub text: String,
}

impl Excerpt {
    /// The lines, each as `write_line` returns it, with `…` where lines are left out.
    pub fn join_lines(&self, write_line: impl Fn(&ExcerptLine) -> String) -> String {
        let (mut joined, mut last) = (String::new(), None);
        for line in &self.lines {
            if last.is_some_and(|last| line.number > last + 1) {
                joined.push_str("…\n");
            }
            joined.push_str(&write_line(line));
            joined.push('\n');
            last = Some(line.number);
        }
        if !self.is_complete {
            joined.push_str("…\n");
        }
        joined
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.join_lines(|ExcerptLine { number, text }| format!("{number}\t{text}")))
    }
}

/// Where [`super::Edit::apply`] leaves the lines that it changed. Clones share one place.
#[derive(Debug, Clone, Default)]
pub struct EditReport(Arc<Mutex<Option<Excerpt>>>);

impl EditReport {
    pub(super) fn set(&self, excerpt: Excerpt) {
        *self.0.lock() = Some(excerpt);
    }

    /// Removes and returns what the last edit left.
    pub fn take(&self) -> Option<Excerpt> {
        self.0.lock().take()
    }
}

/// The first few places that an edit has changed, as ranges of bytes in the content after it.
#[derive(Debug, Default)]
pub(super) struct ChangedPlaces {
    /// Sorted, and apart from each other.
    ranges: Vec<Range<usize>>,
    has_more: bool,
}

impl ChangedPlaces {
    /// Follows a replacement of `old_length` bytes at each of `starts` by `new_length` bytes.
    pub(super) fn replace(
        &mut self,
        starts: impl Iterator<Item = usize>,
        old_length: usize,
        new_length: usize,
    ) {
        let bounds = std::mem::take(&mut self.ranges).into_iter().flat_map(|range| [range.start, range.end]);
        let mut bounds = bounds.enumerate().peekable();
        let (mut moved, mut added) = (Vec::new(), Vec::<Range<usize>>::new());
        // How far what follows has moved.
        let (mut grown, mut shrunk) = (0, 0);
        for start in starts {
            while let Some((_, bound)) = bounds.next_if(|(_, bound)| *bound <= start) {
                moved.push(bound + grown - shrunk);
            }
            let new_start = start + grown - shrunk;
            // A place that is replaced in part ends with the new text, or begins with it.
            while let Some((index, _)) = bounds.next_if(|(_, bound)| *bound < start + old_length) {
                moved.push(if index % 2 == 0 { new_start } else { new_start + new_length });
            }
            if let Some(last) = added.last_mut().filter(|last| last.end == new_start) {
                last.end += new_length;
            } else if added.len() < MAX_PLACES {
                added.push(new_start..new_start + new_length);
            } else {
                self.has_more = true;
                if bounds.peek().is_none() {
                    break;
                }
            }
            (grown, shrunk) = (grown + new_length, shrunk + old_length);
        }
        moved.extend(bounds.map(|(_, bound)| bound + grown - shrunk));
        added.extend(moved.chunks_exact(2).map(|bounds| bounds[0]..bounds[1]));
        added.sort_by_key(|range| (range.start, range.end));
        for range in added {
            match self.ranges.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => self.ranges.push(range),
            }
        }
        self.has_more |= self.ranges.len() > MAX_PLACES;
        self.ranges.truncate(MAX_PLACES);
    }

    /// The lines at these places and around them.
    pub(super) fn excerpt(&self, content: &[u8], encoding: TextEncoding) -> Excerpt {
        let mut wanted = BTreeSet::new();
        let mut ranges = self.ranges.iter().peekable();
        let mut first = None;
        for (number, line) in lines(content, encoding) {
            while let Some(range) = ranges.peek() {
                let is_last_line = line.end == content.len();
                if range.start < line.end || is_last_line {
                    first.get_or_insert(number);
                }
                let last_byte = range.end.max(range.start + 1) - 1;
                let (Some(first_line), true) = (first, last_byte < line.end || is_last_line) else { break };
                wanted.extend(
                    first_line.saturating_sub(CONTEXT).max(1)..number.min(first_line + SHOWN_PER_END),
                );
                wanted.extend((number + 1).saturating_sub(SHOWN_PER_END).max(first_line)..=number + CONTEXT);
                first = None;
                ranges.next();
            }
            if ranges.peek().is_none() {
                break;
            }
        }
        let is_complete = !self.has_more && wanted.len() <= MAX_LINES;
        let last = wanted.last().copied().unwrap_or(0);
        let lines = lines(content, encoding)
            .take_while(|(number, _)| *number <= last)
            .filter(|(number, _)| wanted.contains(number))
            .take(MAX_LINES)
            .map(|(number, line)| ExcerptLine { number, text: shown_text(&content[line], encoding) })
            .collect();
        Excerpt { lines, is_complete }
    }
}

/// The lines of a content, numbered from 1, as ranges of bytes.
fn lines(content: &[u8], encoding: TextEncoding) -> impl Iterator<Item = (u64, Range<usize>)> {
    let mut start = 0;
    let ranges = std::iter::from_fn(move || {
        let rest = content.get(start..).filter(|rest| !rest.is_empty())?;
        let end = encoding.find_line_end(rest).map_or(content.len(), |length| start + length);
        Some(std::mem::replace(&mut start, end)..end)
    });
    (1..).zip(ranges)
}

/// A line's text without its ending and a byte order mark, cut if it is long.
fn shown_text(line: &[u8], encoding: TextEncoding) -> String {
    // No encoding has more than four bytes in a character.
    let start = &line[..line.len().min(4 * (MAX_LINE + 1))];
    let text = encoding.decode(start);
    let text = text.trim_start_matches('\u{feff}').trim_end_matches(['\r', '\n']);
    let mut shown: String = text.chars().take(MAX_LINE).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::edit::{Edit, Occurrences};

    /// The excerpt after some replacements, line numbers and texts.
    fn excerpt(content: &str, replacements: &[(&str, &str)]) -> String {
        let mut replacements = replacements.iter();
        let (old, new) = replacements.next().unwrap();
        let edit = Edit::new(old, new, Occurrences::All).unwrap();
        let edit = replacements.fold(edit, |edit, (old, new)| edit.and(old, new, Occurrences::All).unwrap());
        let report = EditReport::default();
        edit.with_report(&report).apply(content.as_bytes()).unwrap();
        report.take().unwrap().to_string()
    }

    fn numbered(count: usize) -> String {
        (1..=count).map(|number| format!("line {number}.\n")).collect()
    }

    #[test]
    fn changed_lines_are_shown_with_two_around_them() {
        let content = numbered(9);
        let around = "3\tline 3.\n4\tline 4.\n5\tnew\n6\tline 6.\n7\tline 7.\n";
        assert_eq!(excerpt(&content, &[("line 5.", "new")]), around);
        assert_eq!(excerpt(&content, &[("line 1.", "new")]), "1\tnew\n2\tline 2.\n3\tline 3.\n");
        assert_eq!(excerpt(&content, &[("line 9.\n", "a\nb")]), "7\tline 7.\n8\tline 8.\n9\ta\n10\tb\n");
        let removed = "3\tline 3.\n4\tline 4.\n5\tline 6.\n6\tline 7.\n7\tline 8.\n";
        assert_eq!(excerpt(&content, &[("line 5.\n", "")]), removed);
        assert_eq!(excerpt(&content, &[("line 9.\n", "")]), "6\tline 6.\n7\tline 7.\n8\tline 8.\n");
        assert_eq!(excerpt("all", &[("all", "")]), "");
        assert_eq!(excerpt("a\r\nb\r\n", &[("b", "c")]), "1\ta\n2\tc\n");
    }

    #[test]
    fn places_apart_are_separated_and_near_ones_joined() {
        let content = numbered(30);
        assert_eq!(
            excerpt(&content, &[("line 5.", "A"), ("line 20.", "B")]),
            "3\tline 3.\n4\tline 4.\n5\tA\n6\tline 6.\n7\tline 7.\n…\n18\tline 18.\n19\tline 19.\n20\tB\n21\tline 21.\n\
             22\tline 22.\n"
        );
        let joined = "1\tline 1.\n2\tline 2.\n3\tA\n4\tline 4.\n5\tB\n6\tline 6.\n7\tline 7.\n";
        assert_eq!(excerpt(&content, &[("line 3.", "A"), ("line 5.", "B")]), joined);
    }

    #[test]
    fn places_move_with_later_replacements() {
        let content = numbered(12);
        // The second replacement adds lines before the first place, the third one changes a part of it.
        assert_eq!(
            excerpt(&content, &[("line 9.", "first"), ("line 2.", "x\ny\nz"), ("irs", "IRS")]),
            "1\tline 1.\n2\tx\n3\ty\n4\tz\n5\tline 3.\n6\tline 4.\n…\n9\tline 7.\n10\tline 8.\n11\tfIRSt\n12\tline 10.\n\
             13\tline 11.\n"
        );
        assert_eq!(excerpt("a\nb\nc", &[("b", "B"), ("a\nB\nc", "all")]), "1\tall\n");
    }

    #[test]
    fn many_places_and_long_ones_are_cut() {
        let content = "x\n\n\n\n\n\n".repeat(50);
        let shown = excerpt(&content, &[("x", "y")]);
        assert_eq!((shown.matches('y').count(), shown.ends_with("\n…\n")), (MAX_PLACES, true), "{shown}");
        let long = excerpt("a\n\nb\n", &[("\n\n", &format!("\n{}", numbered(100)))]);
        assert!(long.contains("5\tline 4.\n…\n97\tline 96.\n") && long.lines().count() < 16, "{long}");
        let wide = excerpt(&"é".repeat(1_000), &[("éé", "e")]);
        assert_eq!(wide, format!("1\t{}…\n", "e".repeat(MAX_LINE)));
    }

    #[test]
    fn lines_of_other_encodings_are_decoded() {
        let content = TextEncoding::Utf16Le.encode("\u{feff}one\r\ntwo\r\n").unwrap();
        let report = EditReport::default();
        let edit = Edit::new("two", "zwölf", Occurrences::One).unwrap().with_report(&report);
        edit.apply(&content).unwrap();
        assert_eq!(report.take().unwrap().to_string(), "1\tone\n2\tzwölf\n");
    }

    proptest! {
        /// Compares with a model that marks what was replaced: each replacement writes an upper-case letter.
        #[test]
        fn every_changed_line_is_shown_as_it_is(
            content in "[abc\n]{0,60}",
            edits in proptest::collection::vec(("[abc]{1,2}", "[X-Z]?\n?[X-Z]"), 1..4),
        ) {
            let report = EditReport::default();
            let (old, new) = &edits[0];
            let edit = Edit::new(old, new, Occurrences::All).unwrap().with_report(&report);
            let and = |edit: Edit, (old, new): &(String, String)| edit.and(old, new, Occurrences::All).unwrap();
            if let Ok((after, _)) = edits[1..].iter().fold(edit, and).apply(content.as_bytes()) {
                let after = String::from_utf8(after).unwrap();
                let lines: Vec<_> = after.lines().collect();
                let excerpt = report.take().unwrap();
                for line in &excerpt.lines {
                    prop_assert_eq!(&*line.text, lines[line.number as usize - 1]);
                }
                for (index, line) in lines.iter().enumerate() {
                    let is_shown = excerpt.lines.iter().any(|shown| shown.number == index as u64 + 1);
                    let is_changed = line.contains(['X', 'Y', 'Z']);
                    // The middle of a long place is left out.
                    let may_be_cut = !excerpt.is_complete || lines.len() as u64 > 2 * SHOWN_PER_END;
                    prop_assert!(is_shown || !is_changed || may_be_cut, "{} {:?}", index, after);
                }
            }
        }
    }
}
