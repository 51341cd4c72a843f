//! The difference of two texts by line, with the same hunks that git finds.
//!
//! A three-way merge of text depends on which of several equal lines count as changed: two changes that touch are a
//! conflict, two with an unchanged line between them are not. So that Stead merges what git merges, this file follows the
//! steps of git's default algorithm: lines that the other text doesn't have are set apart, Myers's algorithm in linear space
//! compares the rest, and each group of changed lines is moved as far down as it can go, or to a group of the other text.

use std::collections::HashMap;

/// From this cost on, a split of the texts need not be the best one.
const MIN_HEURISTIC_COST: i64 = 256;
/// The smallest cost at which the search for a split ends, however good it is.
const MIN_COST_LIMIT: i64 = 256;
/// How many equal lines make a good place for a split.
const LONG_SNAKE: i64 = 20;
/// How much better than its cost a heuristic split has to be.
const HEURISTIC_FACTOR: i64 = 4;
/// A line with so many matches, or the square root of the text's lines, may be set apart.
const MAX_MATCHES: usize = 1_024;
/// How many lines around a line with many matches decide whether it is set apart.
const SCAN_WINDOW: usize = 100;
/// A run of lines around a line with many matches is sparse if it has fewer than one in so many of them.
const RUN_FACTOR: usize = 4;

/// A part of the old text that has another part of the new text in its place. Lines are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineHunk {
    /// The first line of the old part.
    pub old_start: usize,
    /// How many lines the old part has.
    pub old_len: usize,
    /// The first line of the new part.
    pub new_start: usize,
    /// How many lines the new part has.
    pub new_len: usize,
}

/// Splits a content into lines, each with its ending. A line ends at `\n`.
pub fn split_lines(content: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', content) {
        lines.push(&content[start..=end]);
        start = end + 1;
    }
    if start < content.len() {
        lines.push(&content[start..]);
    }
    lines
}

/// The hunks that turn `old` into `new`, from the first line to the last.
pub fn diff_lines<'t>(old: &[&'t [u8]], new: &[&'t [u8]]) -> Vec<LineHunk> {
    let mut numbers = HashMap::with_capacity(old.len());
    let [old, new] = [old, new].map(|text| number_lines(text, &mut numbers));
    diff_numbers(&old, &new)
}

/// Gives each different line a number.
fn number_lines<'t>(text: &[&'t [u8]], numbers: &mut HashMap<&'t [u8], u32>) -> Vec<u32> {
    let mut numbered = Vec::with_capacity(text.len());
    for line in text {
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        numbered.push(*numbers.entry(line).or_insert(next));
    }
    numbered
}

fn diff_numbers(old: &[u32], new: &[u32]) -> Vec<LineHunk> {
    let (mut old_changed, mut new_changed) = (Changed::new(old.len()), Changed::new(new.len()));
    mark_changes(old, new, &mut old_changed, &mut new_changed);
    compact(old, &mut old_changed, &new_changed);
    compact(new, &mut new_changed, &old_changed);
    hunks(&old_changed, &new_changed)
}

/// Which lines of a text are changed. A line before the first and one after the last count as unchanged.
struct Changed(Vec<bool>);

impl Changed {
    fn new(lines: usize) -> Self {
        Changed(vec![false; lines])
    }

    fn is_changed(&self, line: isize) -> bool {
        usize::try_from(line).ok().and_then(|line| self.0.get(line)).copied().unwrap_or(false)
    }

    fn set(&mut self, line: usize, changed: bool) {
        self.0[line] = changed;
    }
}

/// Sets apart what can't or should not be compared, and compares the rest.
fn mark_changes(old: &[u32], new: &[u32], old_changed: &mut Changed, new_changed: &mut Changed) {
    let shorter = old.len().min(new.len());
    let prefix = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let suffix = (0..shorter - prefix)
        .take_while(|&index| old[old.len() - 1 - index] == new[new.len() - 1 - index])
        .count();
    let kept_old = compared_lines(old, new, prefix, suffix, old_changed);
    let kept_new = compared_lines(new, old, prefix, suffix, new_changed);
    let size = kept_old.len() + kept_new.len() + 3;
    let mut search = Search {
        old: kept_old.iter().map(|&line| old[line]).collect(),
        new: kept_new.iter().map(|&line| new[line]).collect(),
        old_lines: kept_old,
        new_lines: kept_new,
        forward: vec![0; 2 * size + 2],
        backward: vec![0; 2 * size + 2],
        // Diagonals may be negative.
        origin: 0,
        cost_limit: bogus_sqrt(size).max(MIN_COST_LIMIT),
    };
    search.origin = i64::try_from(search.new.len()).expect("a text has fewer lines") + 1;
    let (old_len, new_len) = (to_i64(search.old.len()), to_i64(search.new.len()));
    search.compare((0, old_len), (0, new_len), Exactness::Heuristic, old_changed, new_changed);
}

fn to_i64(number: usize) -> i64 {
    i64::try_from(number).expect("a text has fewer lines")
}

/// A power of two near the square root.
fn bogus_sqrt(mut number: usize) -> i64 {
    let mut root = 1;
    while number > 0 {
        root <<= 1;
        number >>= 2;
    }
    root
}

/// How many times the other text has a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matches {
    None,
    Some,
    Many,
}

/// The lines of a text that are compared. The others, between the common beginning and the common end, are marked as
/// changed.
fn compared_lines(
    text: &[u32],
    other: &[u32],
    prefix: usize,
    suffix: usize,
    changed: &mut Changed,
) -> Vec<usize> {
    let mut counts: HashMap<u32, usize> = HashMap::new();
    for line in other {
        *counts.entry(*line).or_default() += 1;
    }
    let many = usize::try_from(bogus_sqrt(text.len())).unwrap_or(MAX_MATCHES).min(MAX_MATCHES);
    let middle = prefix..text.len() - suffix;
    let matches: Vec<Matches> = text[middle.clone()]
        .iter()
        .map(|line| match counts.get(line) {
            None => Matches::None,
            Some(&count) if count >= many => Matches::Many,
            Some(_) => Matches::Some,
        })
        .collect();
    let mut kept = Vec::with_capacity(middle.len());
    for (index, line) in middle.enumerate() {
        let is_kept = match matches[index] {
            Matches::None => false,
            Matches::Some => true,
            Matches::Many => !is_noise(&matches, index),
        };
        if is_kept {
            kept.push(line);
        } else {
            changed.set(line, true);
        }
    }
    kept
}

/// Whether a line with many matches lies among lines without any, so that to match it would only split a change.
fn is_noise(matches: &[Matches], index: usize) -> bool {
    let count = |lines: &mut dyn Iterator<Item = &Matches>| {
        let (mut unmatched, mut many) = (0, 1);
        for line in lines.take(SCAN_WINDOW) {
            match line {
                Matches::None => unmatched += 1,
                Matches::Many => many += 1,
                Matches::Some => break,
            }
        }
        (unmatched, many)
    };
    let (unmatched_before, many_before) = count(&mut matches[..index].iter().rev());
    if unmatched_before == 0 {
        return false;
    }
    let (unmatched_after, many_after) = count(&mut matches[index + 1..].iter());
    if unmatched_after == 0 {
        return false;
    }
    let (unmatched, many) = (unmatched_before + unmatched_after, many_before + many_after);
    many * RUN_FACTOR < many + unmatched
}

/// Whether a split has to be the best one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exactness {
    Minimal,
    Heuristic,
}

struct Search {
    old: Vec<u32>,
    new: Vec<u32>,
    /// The line numbers in the texts.
    old_lines: Vec<usize>,
    new_lines: Vec<usize>,
    /// For each diagonal, how far the old text is reached from the beginning, and from the end.
    forward: Vec<i64>,
    backward: Vec<i64>,
    origin: i64,
    cost_limit: i64,
}

/// Where two texts are split, and how exactly the two halves have to be compared.
struct Split {
    old: i64,
    new: i64,
    before: Exactness,
    after: Exactness,
}

impl Search {
    fn compare(
        &mut self,
        (mut old_from, mut old_to): (i64, i64),
        (mut new_from, mut new_to): (i64, i64),
        exactness: Exactness,
        old_changed: &mut Changed,
        new_changed: &mut Changed,
    ) {
        while old_from < old_to && new_from < new_to && self.equal(old_from, new_from) {
            (old_from, new_from) = (old_from + 1, new_from + 1);
        }
        while old_from < old_to && new_from < new_to && self.equal(old_to - 1, new_to - 1) {
            (old_to, new_to) = (old_to - 1, new_to - 1);
        }
        if old_from == old_to {
            for line in new_from..new_to {
                new_changed.set(self.new_lines[index(line)], true);
            }
        } else if new_from == new_to {
            for line in old_from..old_to {
                old_changed.set(self.old_lines[index(line)], true);
            }
        } else {
            let split = self.split((old_from, old_to), (new_from, new_to), exactness);
            let (old_split, new_split) = (split.old, split.new);
            self.compare(
                (old_from, old_split),
                (new_from, new_split),
                split.before,
                old_changed,
                new_changed,
            );
            self.compare((old_split, old_to), (new_split, new_to), split.after, old_changed, new_changed);
        }
    }

    fn equal(&self, old: i64, new: i64) -> bool {
        self.old[index(old)] == self.new[index(new)]
    }

    /// Finds a point in the middle of a shortest way, searching from both ends at once.
    fn split(&mut self, old: (i64, i64), new: (i64, i64), exactness: Exactness) -> Split {
        let ((old_from, old_to), (new_from, new_to)) = (old, new);
        let (lowest, highest) = (old_from - new_to, old_to - new_from);
        let (forward_middle, backward_middle) = (old_from - new_from, old_to - new_to);
        let is_odd = (forward_middle - backward_middle) & 1 != 0;
        let exact = |old, new| Split { old, new, before: Exactness::Minimal, after: Exactness::Minimal };
        let (mut forward_min, mut forward_max) = (forward_middle, forward_middle);
        let (mut backward_min, mut backward_max) = (backward_middle, backward_middle);
        self.set_forward(forward_middle, old_from);
        self.set_backward(backward_middle, old_to);
        let mut cost = 0;
        loop {
            cost += 1;
            let mut has_snake = false;
            if forward_min > lowest {
                forward_min -= 1;
                self.set_forward(forward_min - 1, -1);
            } else {
                forward_min += 1;
            }
            if forward_max < highest {
                forward_max += 1;
                self.set_forward(forward_max + 1, -1);
            } else {
                forward_max -= 1;
            }
            let mut diagonal = forward_max;
            while diagonal >= forward_min {
                let (below, above) = (self.forward(diagonal - 1), self.forward(diagonal + 1));
                let start = if below >= above { below + 1 } else { above };
                let (mut old, mut new) = (start, start - diagonal);
                while old < old_to && new < new_to && self.equal(old, new) {
                    (old, new) = (old + 1, new + 1);
                }
                has_snake |= old - start > LONG_SNAKE;
                self.set_forward(diagonal, old);
                if is_odd
                    && (backward_min..=backward_max).contains(&diagonal)
                    && self.backward(diagonal) <= old
                {
                    return exact(old, new);
                }
                diagonal -= 2;
            }
            if backward_min > lowest {
                backward_min -= 1;
                self.set_backward(backward_min - 1, i64::MAX);
            } else {
                backward_min += 1;
            }
            if backward_max < highest {
                backward_max += 1;
                self.set_backward(backward_max + 1, i64::MAX);
            } else {
                backward_max -= 1;
            }
            let mut diagonal = backward_max;
            while diagonal >= backward_min {
                let (below, above) = (self.backward(diagonal - 1), self.backward(diagonal + 1));
                let start = if below < above { below } else { above - 1 };
                let (mut old, mut new) = (start, start - diagonal);
                while old > old_from && new > new_from && self.equal(old - 1, new - 1) {
                    (old, new) = (old - 1, new - 1);
                }
                has_snake |= start - old > LONG_SNAKE;
                self.set_backward(diagonal, old);
                if !is_odd && (forward_min..=forward_max).contains(&diagonal) && old <= self.forward(diagonal)
                {
                    return exact(old, new);
                }
                diagonal -= 2;
            }
            if exactness == Exactness::Minimal {
                continue;
            }
            let forward = (forward_min, forward_max, forward_middle);
            let backward = (backward_min, backward_max, backward_middle);
            if has_snake && cost > MIN_HEURISTIC_COST {
                let good = self
                    .good_forward((old_from, old_to), (new_from, new_to), forward, cost)
                    .or_else(|| self.good_backward((old_from, old_to), (new_from, new_to), backward, cost));
                if let Some(split) = good {
                    return split;
                }
            }
            if cost >= self.cost_limit {
                return self.farthest((old_from, old_to), (new_from, new_to), forward, backward);
            }
        }
    }

    /// A point that was reached from the beginning with little cost, at the end of a long snake.
    fn good_forward(
        &self,
        (old_from, old_to): (i64, i64),
        (new_from, new_to): (i64, i64),
        (min, max, middle): (i64, i64, i64),
        cost: i64,
    ) -> Option<Split> {
        let (mut best, mut found) = (0, None);
        let mut diagonal = max;
        while diagonal >= min {
            let old = self.forward(diagonal);
            let new = old - diagonal;
            let value = (old - old_from) + (new - new_from) - (diagonal - middle).abs();
            let is_inside =
                old_from + LONG_SNAKE <= old && old < old_to && new_from + LONG_SNAKE <= new && new < new_to;
            if value > HEURISTIC_FACTOR * cost
                && value > best
                && is_inside
                && (1..=LONG_SNAKE).all(|back| self.equal(old - back, new - back))
            {
                best = value;
                found = Some(Split { old, new, before: Exactness::Minimal, after: Exactness::Heuristic });
            }
            diagonal -= 2;
        }
        found
    }

    /// The same from the end.
    fn good_backward(
        &self,
        (old_from, old_to): (i64, i64),
        (new_from, new_to): (i64, i64),
        (min, max, middle): (i64, i64, i64),
        cost: i64,
    ) -> Option<Split> {
        let (mut best, mut found) = (0, None);
        let mut diagonal = max;
        while diagonal >= min {
            let old = self.backward(diagonal);
            let new = old - diagonal;
            let value = (old_to - old) + (new_to - new) - (diagonal - middle).abs();
            let is_inside =
                old_from < old && old <= old_to - LONG_SNAKE && new_from < new && new <= new_to - LONG_SNAKE;
            if value > HEURISTIC_FACTOR * cost
                && value > best
                && is_inside
                && (0..LONG_SNAKE).all(|on| self.equal(old + on, new + on))
            {
                best = value;
                found = Some(Split { old, new, before: Exactness::Heuristic, after: Exactness::Minimal });
            }
            diagonal -= 2;
        }
        found
    }

    /// The point that is farthest from either end.
    fn farthest(
        &self,
        (old_from, old_to): (i64, i64),
        (new_from, new_to): (i64, i64),
        (forward_min, forward_max, _): (i64, i64, i64),
        (backward_min, backward_max, _): (i64, i64, i64),
    ) -> Split {
        let (mut forward_sum, mut forward_old) = (-1, -1);
        let mut diagonal = forward_max;
        while diagonal >= forward_min {
            let mut old = self.forward(diagonal).min(old_to);
            let mut new = old - diagonal;
            if new_to < new {
                (old, new) = (new_to + diagonal, new_to);
            }
            if forward_sum < old + new {
                (forward_sum, forward_old) = (old + new, old);
            }
            diagonal -= 2;
        }
        let (mut backward_sum, mut backward_old) = (i64::MAX, i64::MAX);
        let mut diagonal = backward_max;
        while diagonal >= backward_min {
            let mut old = self.backward(diagonal).max(old_from);
            let mut new = old - diagonal;
            if new < new_from {
                (old, new) = (new_from + diagonal, new_from);
            }
            if old + new < backward_sum {
                (backward_sum, backward_old) = (old + new, old);
            }
            diagonal -= 2;
        }
        if (old_to + new_to) - backward_sum < forward_sum - (old_from + new_from) {
            let (old, new) = (forward_old, forward_sum - forward_old);
            Split { old, new, before: Exactness::Minimal, after: Exactness::Heuristic }
        } else {
            let (old, new) = (backward_old, backward_sum - backward_old);
            Split { old, new, before: Exactness::Heuristic, after: Exactness::Minimal }
        }
    }

    fn forward(&self, diagonal: i64) -> i64 {
        self.forward[index(diagonal + self.origin)]
    }

    fn set_forward(&mut self, diagonal: i64, old: i64) {
        self.forward[index(diagonal + self.origin)] = old;
    }

    fn backward(&self, diagonal: i64) -> i64 {
        self.backward[index(diagonal + self.origin)]
    }

    fn set_backward(&mut self, diagonal: i64, old: i64) {
        self.backward[index(diagonal + self.origin)] = old;
    }
}

fn index(number: i64) -> usize {
    usize::try_from(number).expect("the search stays inside the texts")
}

/// A group of changed lines, which may be empty: from `start` to before `end`.
#[derive(Debug, Clone, Copy)]
struct Group {
    start: isize,
    end: isize,
}

impl Group {
    fn first(changed: &Changed) -> Self {
        let mut group = Group { start: 0, end: 0 };
        while changed.is_changed(group.end) {
            group.end += 1;
        }
        group
    }

    fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Goes on to the next group. Returns whether there is one.
    fn next(&mut self, changed: &Changed) -> bool {
        if self.end == changed.0.len().cast_signed() {
            return false;
        }
        self.start = self.end + 1;
        self.end = self.start;
        while changed.is_changed(self.end) {
            self.end += 1;
        }
        true
    }

    /// Goes back to the previous group, which exists.
    fn previous(&mut self, changed: &Changed) {
        self.end = self.start - 1;
        self.start = self.end;
        while changed.is_changed(self.start - 1) {
            self.start -= 1;
        }
    }

    /// Moves the group down by one line, if the line after it equals its first line. A group that it touches joins it.
    fn slide_down(&mut self, text: &[u32], changed: &mut Changed) -> bool {
        let (start, end) = (self.start.cast_unsigned(), self.end.cast_unsigned());
        if end >= text.len() || text[start] != text[end] {
            return false;
        }
        changed.set(start, false);
        changed.set(end, true);
        (self.start, self.end) = (self.start + 1, self.end + 1);
        while changed.is_changed(self.end) {
            self.end += 1;
        }
        true
    }

    /// Moves the group up by one line, if the line before it equals its last line. A group that it touches joins it.
    fn slide_up(&mut self, text: &[u32], changed: &mut Changed) -> bool {
        if self.start <= 0 {
            return false;
        }
        let (start, end) = (self.start.cast_unsigned(), self.end.cast_unsigned());
        if text[start - 1] != text[end - 1] {
            return false;
        }
        changed.set(start - 1, true);
        changed.set(end - 1, false);
        (self.start, self.end) = (self.start - 1, self.end - 1);
        while changed.is_changed(self.start - 1) {
            self.start -= 1;
        }
        true
    }
}

/// Moves each group of changed lines as far down as it can go or, if that is possible, to where the other text has a group
/// too.
fn compact(text: &[u32], changed: &mut Changed, other: &Changed) {
    let (mut group, mut other_group) = (Group::first(changed), Group::first(other));
    loop {
        if !group.is_empty() {
            compact_group(text, &mut group, changed, &mut other_group, other);
        }
        if !group.next(changed) {
            return;
        }
        other_group.next(other);
    }
}

fn compact_group(
    text: &[u32],
    group: &mut Group,
    changed: &mut Changed,
    other_group: &mut Group,
    other: &Changed,
) {
    let (earliest_end, matching_end) = loop {
        let size = group.end - group.start;
        let mut matching_end = None;
        while group.slide_up(text, changed) {
            other_group.previous(other);
        }
        let earliest_end = group.end;
        if !other_group.is_empty() {
            matching_end = Some(group.end);
        }
        while group.slide_down(text, changed) {
            other_group.next(other);
            if !other_group.is_empty() {
                matching_end = Some(group.end);
            }
        }
        if size == group.end - group.start {
            break (earliest_end, matching_end);
        }
    };
    if group.end != earliest_end && matching_end.is_some() {
        while other_group.is_empty() {
            group.slide_up(text, changed);
            other_group.previous(other);
        }
    }
}

fn hunks(old: &Changed, new: &Changed) -> Vec<LineHunk> {
    let mut hunks = Vec::new();
    let (mut old_line, mut new_line) = (0, 0);
    while old_line < old.0.len() || new_line < new.0.len() {
        let (old_start, new_start) = (old_line, new_line);
        while old.0.get(old_line) == Some(&true) {
            old_line += 1;
        }
        while new.0.get(new_line) == Some(&true) {
            new_line += 1;
        }
        if (old_line, new_line) == (old_start, new_start) {
            (old_line, new_line) = (old_line + 1, new_line + 1);
        } else {
            let (old_len, new_len) = (old_line - old_start, new_line - new_start);
            hunks.push(LineHunk { old_start, old_len, new_start, new_len });
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn diff(old: &str, new: &str) -> Vec<LineHunk> {
        diff_lines(&split_lines(old.as_bytes()), &split_lines(new.as_bytes()))
    }

    /// The new text, made from the old one and the hunks.
    fn patched(old: &str, new: &str) -> Vec<u8> {
        let (old, new) = (split_lines(old.as_bytes()), split_lines(new.as_bytes()));
        let (mut text, mut next) = (Vec::<&[u8]>::new(), 0);
        for hunk in diff_lines(&old, &new) {
            text.extend(&old[next..hunk.old_start]);
            text.extend(&new[hunk.new_start..hunk.new_start + hunk.new_len]);
            next = hunk.old_start + hunk.old_len;
        }
        text.extend(&old[next..]);
        text.concat()
    }

    #[test]
    fn lines_keep_their_endings() {
        assert_eq!(split_lines(b"a\r\n\nb"), [&b"a\r\n"[..], b"\n", b"b"]);
        assert!(split_lines(b"").is_empty());
    }

    #[test]
    fn a_group_of_equal_lines_counts_as_added_at_the_end() {
        let hunk = LineHunk { old_start: 2, old_len: 0, new_start: 2, new_len: 1 };
        assert_eq!(diff("a\na\n", "a\na\na\n"), [hunk]);
        assert!(diff("a\n", "a\n").is_empty());
    }

    #[test]
    fn very_different_texts_are_compared_in_bounded_time() {
        let text = |from: u64| -> String {
            let mut number = from;
            (0..20_000)
                .map(|_| {
                    number =
                        number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
                    format!("{}\n", (number >> 33) % 500)
                })
                .collect()
        };
        let (old, new) = (text(1), text(2));
        assert_eq!(patched(&old, &new), new.as_bytes());
    }

    proptest! {
        #[test]
        fn the_hunks_turn_the_old_text_into_the_new_one(old in "([abcde]\n){0,40}f?", new in "([abcde]\n){0,40}f?") {
            prop_assert_eq!(patched(&old, &new), new.as_bytes());
        }
    }
}
