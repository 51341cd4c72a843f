//! Three-way merge of text by line, as `git merge-file` does it.
//!
//! Both sides' changes to a base are combined. Changes to the same lines, and changes that touch, are a conflict, unless both
//! sides made the same change.
//!
//! ```
//! use stead_core::history::text_merge::{MergeLabels, TextMerge};
//!
//! let merge = TextMerge::new(b"one\ntwo\n", b"one\n2\n", b"one\nII\n");
//! let conflict = merge.conflicts().next().expect("both sides changed the second line");
//! assert_eq!((conflict.base.start, conflict.base.end), (1, 2));
//! let text = merge.to_bytes(&MergeLabels::FORK);
//! assert_eq!(text, b"one\n<<<<<<< target\n2\n||||||| base\ntwo\n=======\nII\n>>>>>>> fork\n");
//! ```

use std::ops::Range;

use crate::history::line_diff::{LineHunk, diff_lines, split_lines};

/// How many bytes at the beginning of a content are searched for a NUL.
const BINARY_PREFIX: usize = 8_000;

/// Whether a content counts as binary, as git judges it: it has a NUL among its first 8,000 bytes.
pub fn is_binary(content: &[u8]) -> bool {
    memchr::memchr(0, &content[..content.len().min(BINARY_PREFIX)]).is_some()
}

/// The names of the three sides in conflict markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeLabels<'a> {
    /// The first side.
    pub ours: &'a str,
    /// What both sides began with.
    pub base: &'a str,
    /// The second side.
    pub theirs: &'a str,
}

impl MergeLabels<'static> {
    /// For a fork and its target.
    pub const FORK: MergeLabels<'static> = MergeLabels { ours: "target", base: "base", theirs: "fork" };
}

/// Lines of the three sides that belong together, counted from 0. An empty range says where lines would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictHunk {
    /// The lines of the base.
    pub base: Range<usize>,
    /// The lines of the first side.
    pub ours: Range<usize>,
    /// The lines of the second side.
    pub theirs: Range<usize>,
}

/// Which side a part of the merged text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartKind {
    Ours,
    Theirs,
    Conflict,
}

/// Lines from a first one to before another one. While parts are joined, the first one may be negative.
type Lines = (isize, isize);

/// A part where a side differs from the base.
#[derive(Debug, Clone, Copy)]
struct Part {
    kind: PartKind,
    base: Lines,
    ours: Lines,
    theirs: Lines,
}

/// A three-way merge of text.
#[derive(Debug)]
pub struct TextMerge<'t> {
    base: Vec<&'t [u8]>,
    ours: Vec<&'t [u8]>,
    theirs: Vec<&'t [u8]>,
    parts: Vec<Part>,
}

impl<'t> TextMerge<'t> {
    /// Merges both sides' changes to the base.
    pub fn new(base: &'t [u8], ours: &'t [u8], theirs: &'t [u8]) -> Self {
        let [base, ours, theirs] = [base, ours, theirs].map(split_lines);
        let (our_hunks, their_hunks) = (diff_lines(&base, &ours), diff_lines(&base, &theirs));
        let mut merge = TextMerge { base, ours, theirs, parts: Vec::new() };
        merge.combine(&our_hunks, &their_hunks);
        merge
    }

    /// Whether there is no conflict.
    pub fn is_clean(&self) -> bool {
        self.conflicts().next().is_none()
    }

    /// The conflicts, from the first line to the last.
    pub fn conflicts(&self) -> impl Iterator<Item = ConflictHunk> {
        self.parts.iter().filter(|part| part.kind == PartKind::Conflict).map(|part| ConflictHunk {
            base: range(part.base),
            ours: range(part.ours),
            theirs: range(part.theirs),
        })
    }

    /// Goes through both sides' hunks in the order of the base's lines.
    fn combine(&mut self, our_hunks: &[LineHunk], their_hunks: &[LineHunk]) {
        let (mut ours, mut theirs) = (our_hunks.iter().peekable(), their_hunks.iter().peekable());
        // The offsets between the sides and the base after the hunks so far.
        let offset = |hunk: &LineHunk| new_lines(hunk).1 - old_lines(hunk).1;
        let (mut our_offset, mut their_offset) = (0, 0);
        loop {
            match (ours.peek().copied(), theirs.peek().copied()) {
                (None, None) => return,
                (Some(our), None) => {
                    self.take_ours(our, their_offset);
                    our_offset = offset(our);
                    ours.next();
                }
                (None, Some(their)) => {
                    self.take_theirs(their, our_offset);
                    their_offset = offset(their);
                    theirs.next();
                }
                (Some(our), Some(their)) => {
                    let (our_end, their_end) = (our.old_start + our.old_len, their.old_start + their.old_len);
                    if our_end < their.old_start {
                        self.take_ours(our, their_offset);
                        our_offset = offset(our);
                        ours.next();
                    } else if their_end < our.old_start {
                        self.take_theirs(their, our_offset);
                        their_offset = offset(their);
                        theirs.next();
                    } else {
                        if !self.is_same_change(our, their) {
                            self.add_conflict(our, their);
                        }
                        if our_end >= their_end {
                            their_offset = offset(their);
                            theirs.next();
                        }
                        if their_end >= our_end {
                            our_offset = offset(our);
                            ours.next();
                        }
                    }
                }
            }
        }
    }

    fn take_ours(&mut self, hunk: &LineHunk, their_offset: isize) {
        let (start, end) = old_lines(hunk);
        let theirs = (start + their_offset, end + their_offset);
        self.push(Part { kind: PartKind::Ours, base: (start, end), ours: new_lines(hunk), theirs });
    }

    fn take_theirs(&mut self, hunk: &LineHunk, our_offset: isize) {
        let (start, end) = old_lines(hunk);
        let ours = (start + our_offset, end + our_offset);
        self.push(Part { kind: PartKind::Theirs, base: (start, end), ours, theirs: new_lines(hunk) });
    }

    fn is_same_change(&self, our: &LineHunk, their: &LineHunk) -> bool {
        (our.old_start, our.old_len, our.new_len) == (their.old_start, their.old_len, their.new_len)
            && self.ours[our.new_start..our.new_start + our.new_len]
                == self.theirs[their.new_start..their.new_start + their.new_len]
    }

    /// Adds a conflict that covers both hunks: where one of them begins or ends within unchanged lines of the other side,
    /// these lines belong to it.
    fn add_conflict(&mut self, our: &LineHunk, their: &LineHunk) {
        let (our_lines, their_lines) = (old_lines(our), old_lines(their));
        let base = (our_lines.0.min(their_lines.0), our_lines.1.max(their_lines.1));
        let side = |hunk: &LineHunk| {
            let (old, new) = (old_lines(hunk), new_lines(hunk));
            (new.0 - (old.0 - base.0), new.1 + (base.1 - old.1))
        };
        self.push(Part { kind: PartKind::Conflict, base, ours: side(our), theirs: side(their) });
    }

    /// Adds a part. One that touches the part before it, on either side, joins that part.
    fn push(&mut self, part: Part) {
        let touches = |last: &&mut Part| part.ours.0 <= last.ours.1 || part.theirs.0 <= last.theirs.1;
        let last = self.parts.last_mut().filter(touches);
        let Some(last) = last else {
            self.parts.push(part);
            return;
        };
        if last.kind != part.kind {
            last.kind = PartKind::Conflict;
        }
        (last.base.1, last.ours.1, last.theirs.1) = (part.base.1, part.ours.1, part.theirs.1);
    }

    /// The merged text. Conflicts are between markers, with all three sides.
    pub fn to_bytes(&self, labels: &MergeLabels<'_>) -> Vec<u8> {
        let mut text = Vec::new();
        let mut next = 0;
        for part in &self.parts {
            let Range { start, end } = range(part.ours);
            append(&mut text, &self.ours, next..start);
            match part.kind {
                PartKind::Ours => append(&mut text, &self.ours, start..end),
                PartKind::Theirs => append(&mut text, &self.theirs, range(part.theirs)),
                PartKind::Conflict => self.write_conflict(part, labels, &mut text),
            }
            next = end;
        }
        append(&mut text, &self.ours, next..self.ours.len());
        text
    }

    fn write_conflict(&self, part: &Part, labels: &MergeLabels<'_>, text: &mut Vec<u8>) {
        let ending: &[u8] = if self.has_crlf(part) { b"\r\n" } else { b"\n" };
        let marker = |text: &mut Vec<u8>, mark: u8, label: &str| {
            text.extend_from_slice(&[mark; 7]);
            if !label.is_empty() {
                text.push(b' ');
                text.extend_from_slice(label.as_bytes());
            }
            text.extend_from_slice(ending);
        };
        let side = |text: &mut Vec<u8>, lines: &[&[u8]], shown: Lines| {
            append(text, lines, range(shown));
            // A marker begins on a line of its own.
            if text.last() != Some(&b'\n') {
                text.extend_from_slice(ending);
            }
        };
        marker(text, b'<', labels.ours);
        side(text, &self.ours, part.ours);
        marker(text, b'|', labels.base);
        side(text, &self.base, part.base);
        marker(text, b'=', "");
        side(text, &self.theirs, part.theirs);
        marker(text, b'>', labels.theirs);
    }

    /// Whether the lines before a part end with CRLF on all sides, as far as they tell.
    fn has_crlf(&self, part: &Part) -> bool {
        let mut answer = ends_with_crlf(&self.ours, range(part.ours).start.saturating_sub(1));
        if answer != Some(false) {
            answer = ends_with_crlf(&self.theirs, range(part.theirs).start.saturating_sub(1));
        }
        if answer != Some(false) {
            answer = ends_with_crlf(&self.base, 0);
        }
        answer == Some(true)
    }
}

fn append(text: &mut Vec<u8>, lines: &[&[u8]], shown: Range<usize>) {
    lines[shown].iter().for_each(|line| text.extend_from_slice(line));
}

/// The lines of a joined part.
fn range((start, end): Lines) -> Range<usize> {
    let line = |line: isize| usize::try_from(line).expect("a joined part lies inside its text");
    line(start)..line(end)
}

fn old_lines(hunk: &LineHunk) -> Lines {
    (hunk.old_start.cast_signed(), (hunk.old_start + hunk.old_len).cast_signed())
}

fn new_lines(hunk: &LineHunk) -> Lines {
    (hunk.new_start.cast_signed(), (hunk.new_start + hunk.new_len).cast_signed())
}

/// Whether a line ends with CRLF. For a last line without an ending, the one before it counts; `None` if there is none.
fn ends_with_crlf(lines: &[&[u8]], line: usize) -> Option<bool> {
    let is_crlf = |line: &&[u8]| line.ends_with(b"\r\n");
    let last = lines.last()?;
    if line + 1 < lines.len() {
        return Some(is_crlf(&lines[line]));
    }
    if last.ends_with(b"\n") {
        return Some(is_crlf(last));
    }
    lines.len().checked_sub(2).map(|before| is_crlf(&lines[before]))
}

/// Whether a text still has markers of a conflict that [`TextMerge::to_bytes`] wrote with these labels.
pub fn has_markers(text: &[u8], labels: &MergeLabels<'_>) -> bool {
    let marks = [(b'<', labels.ours), (b'|', labels.base), (b'>', labels.theirs)];
    split_lines(text).iter().any(|line| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        marks.iter().any(|(mark, label)| {
            line.strip_prefix(&[*mark; 7])
                .and_then(|rest| rest.strip_prefix(b" "))
                .is_some_and(|rest| rest == label.as_bytes())
        })
    })
}
