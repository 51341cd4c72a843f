//! The hunks of a changed text, of which each can be taken or refused.
//!
//! ```
//! use stead_core::history::hunks::{HunkDecision, TextChange};
//!
//! let (old, new) = (b"a\n1\n2\n3\n4\n5\n6\n7\nz\n", b"A\n1\n2\n3\n4\n5\n6\n7\nZ\n");
//! let change = TextChange::new(old, new).expect("both are text");
//! let hunks = change.hunks();
//! let first = change.with([(hunks[0].clone(), HunkDecision::Take), (hunks[1].clone(), HunkDecision::Refuse)]);
//! assert_eq!(first, b"A\n1\n2\n3\n4\n5\n6\n7\nz\n");
//! ```

use std::fmt::Write as _;
use std::ops::Range;

use crate::history::line_diff::{LineHunk, diff_lines, split_lines};
use crate::history::text_merge::is_binary;

/// How many unchanged lines are shown around a hunk.
const CONTEXT: usize = 3;

/// The difference between two texts.
#[derive(Debug)]
pub struct TextChange<'t> {
    old: Vec<&'t [u8]>,
    new: Vec<&'t [u8]>,
    /// The smallest parts that differ, from the first line to the last.
    parts: Vec<LineHunk>,
}

/// One or more parts of a [`TextChange`] that are shown and decided together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    parts: Range<usize>,
}

/// What is decided about a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HunkDecision {
    /// The new lines are taken.
    Take,
    /// The old lines stay.
    Refuse,
    /// The old lines of the hunk, from its first changed line to its last one, are replaced by these bytes.
    Replace(Vec<u8>),
}

impl<'t> TextChange<'t> {
    /// The change from `old` to `new`; `None` if one of them isn't text, or if they are equal.
    pub fn new(old: &'t [u8], new: &'t [u8]) -> Option<Self> {
        if is_binary(old) || is_binary(new) {
            return None;
        }
        let (old, new) = (split_lines(old), split_lines(new));
        let parts = diff_lines(&old, &new);
        (!parts.is_empty()).then_some(TextChange { old, new, parts })
    }

    /// The hunks, as a unified diff would show them: parts with few lines between them are one hunk.
    pub fn hunks(&self) -> Vec<Hunk> {
        let mut hunks: Vec<Hunk> = Vec::new();
        for (index, part) in self.parts.iter().enumerate() {
            let is_near = |before: &LineHunk| part.old_start - end(before) <= 2 * CONTEXT;
            match hunks.last_mut() {
                Some(last) if is_near(&self.parts[index - 1]) => last.parts.end = index + 1,
                _ => hunks.push(Hunk { parts: index..index + 1 }),
            }
        }
        hunks
    }

    /// The parts of a hunk as hunks of their own; `None` if it has only one.
    pub fn split(&self, hunk: &Hunk) -> Option<Vec<Hunk>> {
        let parts = hunk.parts.clone();
        (parts.len() > 1).then(|| parts.map(|part| Hunk { parts: part..part + 1 }).collect())
    }

    /// The header of a hunk, as a unified diff shows it.
    pub fn header(&self, hunk: &Hunk) -> String {
        let (lead, lines, tail) = self.old_lines(hunk);
        let (first, last) = (&self.parts[hunk.parts.start], &self.parts[hunk.parts.end - 1]);
        let new_lines = last.new_start + last.new_len - first.new_start + lead.len() + tail.len();
        let old_lines = lines.len() + lead.len() + tail.len();
        let new_start = first.new_start - lead.len();
        format!("@@ -{} +{} @@", shown_range(lead.start, old_lines), shown_range(new_start, new_lines))
    }

    /// The lines of a hunk with what is around it, each with its mark: ` `, `-` or `+`. A line has its ending.
    pub fn lines(&self, hunk: &Hunk) -> Vec<(char, &'t [u8])> {
        let (lead, lines, tail) = self.old_lines(hunk);
        let mut shown = Vec::new();
        let mut push = |mark: char, lines: &[&'t [u8]]| shown.extend(lines.iter().map(|line| (mark, *line)));
        push(' ', &self.old[lead]);
        let mut next = lines.start;
        for part in &self.parts[hunk.parts.clone()] {
            push(' ', &self.old[next..part.old_start]);
            push('-', &self.old[part.old_start..end(part)]);
            push('+', &self.new[part.new_start..part.new_start + part.new_len]);
            next = end(part);
        }
        push(' ', &self.old[tail]);
        shown
    }

    /// A hunk as a unified diff shows it, header included; `None` if it isn't UTF-8.
    pub fn text(&self, hunk: &Hunk) -> Option<String> {
        let mut text = format!("{}\n", self.header(hunk));
        for (mark, line) in self.lines(hunk) {
            let line = std::str::from_utf8(line).ok()?;
            let _ = write!(text, "{mark}{line}");
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
        Some(text)
    }

    /// What a person made of a hunk's text in an editor: lines that begin with `#` and the header are left out, ` ` and `-`
    /// lines have to be those of the old text, and `+` lines are new. The error says what is wrong.
    pub fn edited(&self, hunk: &Hunk, text: &str) -> Result<HunkDecision, String> {
        let (lead, _, tail) = self.old_lines(hunk);
        let (mut old, mut new) = (Vec::new(), Vec::new());
        let mut last_mark = "";
        for line in text.split_inclusive('\n') {
            // What an editor leaves of an empty context line.
            let line = if line == "\n" { " \n" } else { line };
            let (mark, rest) = line.split_at(1);
            match mark {
                "#" | "@" => {}
                " " => {
                    old.push(rest.as_bytes());
                    new.push(rest.as_bytes());
                }
                "-" => old.push(rest.as_bytes()),
                "+" => new.push(rest.as_bytes()),
                // The line before has no line ending.
                "\\" if last_mark != "-" => {
                    let last = new.pop();
                    new.extend(last.map(without_ending));
                }
                "\\" => {}
                _ => return Err("each line has to begin with ` `, `-`, `+` or `#`".to_owned()),
            }
            last_mark = mark;
        }
        let shown = lead.start..tail.end;
        let is_same = |(one, other): (&&[u8], &&[u8])| without_ending(one) == without_ending(other);
        if old.len() != shown.len() || !old.iter().zip(&self.old[shown]).all(is_same) {
            return Err(
                "the lines that begin with ` ` or `-` have to stay as they are, in their order".to_owned()
            );
        }
        let is_at = |at: usize, line: usize| {
            new.get(at).is_some_and(|new| without_ending(new) == without_ending(self.old[line]))
        };
        let has_lead = lead.clone().enumerate().all(|(at, line)| is_at(at, line));
        let first_of_tail = new.len().checked_sub(tail.len()).filter(|first| *first >= lead.len());
        let has_tail = first_of_tail
            .is_some_and(|first| tail.clone().enumerate().all(|(at, line)| is_at(first + at, line)));
        let Some(first_of_tail) = first_of_tail.filter(|_| has_lead && has_tail) else {
            return Err("the lines around the change have to stay as they are".to_owned());
        };
        let mut replacement = new[lead.len()..first_of_tail].concat();
        // The text ends within the hunk: its last line is as the person left it. Elsewhere every line has an ending.
        let is_at_end = tail.is_empty() && tail.end == self.old.len();
        if !is_at_end && replacement.last().is_some_and(|last| *last != b'\n') {
            replacement.push(b'\n');
        }
        Ok(HunkDecision::Replace(replacement))
    }

    /// The old text with what was decided. A hunk without a decision is refused; of decisions about the same part, the last
    /// one counts.
    pub fn with(&self, decisions: impl IntoIterator<Item = (Hunk, HunkDecision)>) -> Vec<u8> {
        let mut decided: Vec<(Hunk, HunkDecision)> = decisions.into_iter().collect();
        decided.reverse();
        let mut text = Vec::new();
        let (mut next_line, mut part) = (0, 0);
        while part < self.parts.len() {
            let hunk = decided.iter().find(|(hunk, _)| hunk.parts.contains(&part));
            let (parts, decision) = match hunk {
                Some((hunk, decision @ HunkDecision::Replace(_))) if hunk.parts.start == part => {
                    (hunk.parts.clone(), decision)
                }
                Some((_, decision)) => (part..part + 1, decision),
                None => (part..part + 1, &HunkDecision::Refuse),
            };
            let (first, last) = (&self.parts[parts.start], &self.parts[parts.end - 1]);
            text.extend(self.old[next_line..first.old_start].concat());
            match decision {
                HunkDecision::Take => {
                    text.extend(self.new[first.new_start..last.new_start + last.new_len].concat());
                }
                HunkDecision::Refuse => text.extend(self.old[first.old_start..end(last)].concat()),
                HunkDecision::Replace(bytes) => text.extend(bytes),
            }
            (next_line, part) = (end(last), parts.end);
        }
        text.extend(self.old[next_line..].concat());
        text
    }

    /// The lines of the old text that a hunk shows: those before its first changed line, those that it covers, and those
    /// after. Lines of other parts are never among them.
    fn old_lines(&self, hunk: &Hunk) -> (Range<usize>, Range<usize>, Range<usize>) {
        let Range { start, end: end_part } = hunk.parts;
        let (first, last) = (&self.parts[start], &self.parts[end_part - 1]);
        let before = start.checked_sub(1).map_or(0, |before| end(&self.parts[before]));
        let after = self.parts.get(end_part).map_or(self.old.len(), |after| after.old_start);
        let lead = first.old_start.saturating_sub(CONTEXT).max(before)..first.old_start;
        let tail = end(last)..(end(last) + CONTEXT).min(after);
        (lead, first.old_start..end(last), tail)
    }
}

/// The line after the old lines of a part.
fn end(part: &LineHunk) -> usize {
    part.old_start + part.old_len
}

fn without_ending(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// A range of lines as the header of a hunk has it. `start` counts from 0.
fn shown_range(start: usize, len: usize) -> String {
    match len {
        // Without lines, the line before is named.
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        _ => format!("{},{len}", start + 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OLD: &[u8] = b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
    const NEW: &[u8] = b"1\nB\n3\n4\nE\n6\n7\n8\n9\n10\n11\n12\n13\n";

    fn change() -> TextChange<'static> {
        TextChange::new(OLD, NEW).expect("both are text and differ")
    }

    #[test]
    fn near_changes_are_one_hunk_that_can_be_split() {
        let change = change();
        let hunks = change.hunks();
        assert_eq!(hunks.len(), 2);
        assert_eq!(
            change.text(&hunks[0]).unwrap(),
            "@@ -1,8 +1,8 @@\n 1\n-2\n+B\n 3\n 4\n-5\n+E\n 6\n 7\n 8\n"
        );
        assert_eq!(change.text(&hunks[1]).unwrap(), "@@ -10,3 +10,4 @@\n 10\n 11\n 12\n+13\n");
        assert_eq!(change.split(&hunks[1]), None);
        let parts = change.split(&hunks[0]).expect("it has two parts");
        assert_eq!(change.text(&parts[0]).unwrap(), "@@ -1,4 +1,4 @@\n 1\n-2\n+B\n 3\n 4\n");
        assert_eq!(change.text(&parts[1]).unwrap(), "@@ -3,6 +3,6 @@\n 3\n 4\n-5\n+E\n 6\n 7\n 8\n");
        let taken = change.with([(parts[1].clone(), HunkDecision::Take)]);
        assert_eq!(taken, b"1\n2\n3\n4\nE\n6\n7\n8\n9\n10\n11\n12\n");
    }

    #[test]
    fn an_edited_hunk_replaces_its_lines_and_keeps_those_around_it() {
        let change = change();
        let hunk = change.hunks().remove(0);
        let text = change.text(&hunk).unwrap();
        let edited = change.edited(&hunk, &text.replace("+E", "+F\n+G").replace("-2\n+B\n", " 2\n")).unwrap();
        assert_eq!(change.with([(hunk.clone(), edited)]), b"1\n2\n3\n4\nF\nG\n6\n7\n8\n9\n10\n11\n12\n");
        let unchanged = change.edited(&hunk, &text).unwrap();
        assert_eq!(
            change.with([(hunk.clone(), unchanged)]),
            change.with([(hunk.clone(), HunkDecision::Take)])
        );
        for wrong in
            [text.replace(" 3\n", ""), text.replace(" 4\n", " x\n"), "junk\n".to_owned(), String::new()]
        {
            assert!(change.edited(&hunk, &wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_missing_line_ending_stays_missing() {
        let (old, new) = (b"a\nb".as_slice(), b"a\nc".as_slice());
        let change = TextChange::new(old, new).unwrap();
        let hunk = change.hunks().remove(0);
        let text = change.text(&hunk).unwrap();
        assert!(text.ends_with("+c\n\\ No newline at end of file\n"), "{text}");
        assert_eq!(change.with([(hunk.clone(), change.edited(&hunk, &text).unwrap())]), new);
        assert_eq!(change.with([(hunk, HunkDecision::Refuse)]), old);
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_taken_and_not_edited() {
        let (old, new) = (b"one\ntwo\n".as_slice(), b"one\ncaf\xe9\n".as_slice());
        let change = TextChange::new(old, new).unwrap();
        let hunk = change.hunks().remove(0);
        assert_eq!(change.text(&hunk), None);
        assert_eq!(change.lines(&hunk)[2], ('+', b"caf\xe9\n".as_slice()));
        assert_eq!(change.with([(hunk, HunkDecision::Take)]), new);
    }

    #[test]
    fn binary_and_equal_contents_have_no_hunks() {
        assert!(TextChange::new(b"a\0", b"b").is_none());
        assert!(TextChange::new(b"a\n", b"a\n").is_none());
    }

    proptest! {
        #[test]
        fn all_taken_is_the_new_text_and_none_the_old_one(
            old in "([a-c]\n?){0,30}",
            new in "([a-c]\n?){0,30}",
            mask in any::<u64>(),
        ) {
            let Some(change) = TextChange::new(old.as_bytes(), new.as_bytes()) else { return Ok(()) };
            let hunks = change.hunks();
            let all = |decision: HunkDecision| hunks.iter().cloned().map(move |hunk| (hunk, decision.clone()));
            prop_assert_eq!(change.with(all(HunkDecision::Take)), new.as_bytes());
            prop_assert_eq!(change.with(all(HunkDecision::Refuse)), old.as_bytes());
            let edited = hunks.iter().map(|hunk| (hunk.clone(), change.edited(hunk, &change.text(hunk).unwrap()).unwrap()));
            prop_assert_eq!(change.with(edited), new.as_bytes());
            // What one reviewer takes, and another one takes of the rest, is the whole.
            let is_taken = |index: usize| mask >> (index % 64) & 1 == 1;
            let some = hunks.iter().enumerate().filter(|(index, _)| is_taken(*index));
            let first = change.with(some.map(|(_, hunk)| (hunk.clone(), HunkDecision::Take)));
            let rest = TextChange::new(&first, new.as_bytes());
            let whole = rest.map(|rest| rest.with(rest.hunks().into_iter().map(|hunk| (hunk, HunkDecision::Take))));
            prop_assert_eq!(whole.unwrap_or(first.clone()), new.as_bytes());
        }
    }
}
