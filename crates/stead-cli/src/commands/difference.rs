//! How the differences between two versions are shown: as a patch, as counts of lines, or as names.

use stead::history::diff::ContentDiff;
use stead::vfs::{Difference, DifferenceKind};

use crate::command_error::CommandError;
use crate::json::Hunks;
use crate::session::{Colour, Session};
use crate::{human, json};

/// The most characters that show how many lines of a file were added and removed.
const BAR_WIDTH: u64 = 40;

/// What is shown of each difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiffStyle {
    /// The changed lines, as `git diff` shows them.
    Patch,
    /// How many lines were added and removed.
    Stat,
    /// The path.
    NameOnly,
    /// The path, and a letter for what happened to it.
    NameStatus,
}

impl DiffStyle {
    /// Whether contents have to be compared.
    pub(super) fn needs_content(self) -> bool {
        matches!(self, DiffStyle::Patch | DiffStyle::Stat)
    }

    /// Whether documents hold the changed lines.
    pub(super) fn hunks(self) -> Hunks {
        if self == DiffStyle::Patch { Hunks::Included } else { Hunks::LeftOut }
    }
}

/// Prints differences, sorted by path.
pub(super) fn print_differences(
    differences: &[Difference],
    style: DiffStyle,
    session: &mut Session,
) -> Result<(), CommandError> {
    if session.wants_json() {
        let hunks = style.hunks();
        return differences
            .iter()
            .try_for_each(|difference| session.print_json(&json::difference(difference, hunks)));
    }
    match style {
        DiffStyle::Patch => differences.iter().try_for_each(|difference| print_patch(difference, session)),
        DiffStyle::Stat => print_stat(differences, session),
        DiffStyle::NameOnly => differences.iter().try_for_each(|difference| {
            session.print_line(format_args!("{}{}", difference.path, human::kind_suffix(difference.kind)))
        }),
        DiffStyle::NameStatus => {
            differences.iter().try_for_each(|difference| print_status(difference, session))
        }
    }
}

fn print_status(difference: &Difference, session: &mut Session) -> Result<(), CommandError> {
    let (letter, colour) = match difference.difference {
        DifferenceKind::Added => ('A', Colour::Green),
        DifferenceKind::Changed => ('M', Colour::Blue),
        DifferenceKind::Moved => ('R', Colour::Magenta),
        DifferenceKind::Removed => ('D', Colour::Red),
    };
    session.print_line(format_args!("{} {}", session.paint(colour, letter), moved_path(difference)))
}

/// The path, with the one before a move.
fn moved_path(difference: &Difference) -> String {
    let from = difference.from.as_ref().map_or(String::new(), |from| format!("{from} -> "));
    format!("{from}{}{}", difference.path, human::kind_suffix(difference.kind))
}

/// Prints a line for each path and a line of totals, as `git diff --stat` does.
fn print_stat(differences: &[Difference], session: &mut Session) -> Result<(), CommandError> {
    if differences.is_empty() {
        return Ok(());
    }
    let paths: Vec<_> = differences.iter().map(moved_path).collect();
    let counts: Vec<_> = differences.iter().map(line_counts).collect();
    let path_width = paths.iter().map(|path| path.chars().count()).max().unwrap_or(0);
    let largest = counts.iter().flatten().map(|(added, removed)| added + removed).max().unwrap_or(0);
    let number_width = largest.to_string().len();
    for ((difference, path), counts) in differences.iter().zip(&paths).zip(&counts) {
        let summary = match (counts, &difference.content) {
            (Some((added, removed)), _) => {
                let bar = |count, symbol: &str| symbol.repeat(bar_length(count, largest));
                let plus = session.paint(Colour::Green, bar(*added, "+"));
                let minus = session.paint(Colour::Red, bar(*removed, "-"));
                format!("{:>number_width$} {plus}{minus}", added + removed)
            }
            (None, Some(_)) => {
                let (before, after) = difference.sizes;
                format!("binary: {} -> {}", human::size(before), human::size(after))
            }
            (None, None) => difference.difference.as_str().to_owned(),
        };
        session.print_line(format_args!(" {path:path_width$} | {summary}"))?;
    }
    let sum = |count: fn(&(u64, u64)) -> u64| counts.iter().flatten().map(count).sum::<u64>();
    let mut totals = human::count(differences.len() as u64, "path changed", "paths changed");
    for (count, singular, plural) in [
        (sum(|counts| counts.0), "insertion(+)", "insertions(+)"),
        (sum(|counts| counts.1), "deletion(-)", "deletions(-)"),
    ] {
        if count > 0 {
            totals = format!("{totals}, {}", human::count(count, singular, plural));
        }
    }
    session.print_line(format_args!(" {totals}"))
}

/// How many characters show this many lines, if the most that any path has is `largest`. Never none for some.
fn bar_length(count: u64, largest: u64) -> usize {
    let length = if largest <= BAR_WIDTH { count } else { (count * BAR_WIDTH).div_ceil(largest) };
    usize::try_from(length).expect("it is at most the width")
}

/// How many lines a difference adds and removes; `None` if it isn't one of text.
pub(crate) fn line_counts(difference: &Difference) -> Option<(u64, u64)> {
    let Some(ContentDiff::Text(text)) = &difference.content else { return None };
    let count = |sign| text.lines().filter(|line| line.starts_with(sign)).count() as u64;
    Some((count('+'), count('-')))
}

/// Prints one difference in the style of `git diff`.
fn print_patch(difference: &Difference, session: &mut Session) -> Result<(), CommandError> {
    let old = difference.from.as_ref().unwrap_or(&difference.path);
    let suffix = human::kind_suffix(difference.kind);
    let heading = match difference.difference {
        DifferenceKind::Added => format!("added {}{suffix}", difference.path),
        DifferenceKind::Changed => format!("changed {}{suffix}", difference.path),
        DifferenceKind::Moved => format!("moved {old} -> {}{suffix}", difference.path),
        DifferenceKind::Removed => format!("removed {}{suffix}", difference.path),
    };
    session.print_line(session.paint(Colour::Bold, heading))?;
    if let Some((before, after)) = difference.modes {
        session.print_line(format_args!("mode {before:04o} -> {after:04o}"))?;
    }
    match &difference.content {
        None => Ok(()),
        Some(ContentDiff::Binary) => {
            let (before, after) = difference.sizes;
            session.print_line(format_args!("binary: {} -> {}", human::size(before), human::size(after)))
        }
        Some(ContentDiff::Text(text)) => {
            let side = |exists: bool, path: &stead::VfsPath, letter: char| {
                if exists { format!("{letter}{path}") } else { "/dev/null".to_owned() }
            };
            let before = side(difference.difference != DifferenceKind::Added, old, 'a');
            let after = side(difference.difference != DifferenceKind::Removed, &difference.path, 'b');
            session.print_line(session.paint(Colour::Bold, format_args!("--- {before}")))?;
            session.print_line(session.paint(Colour::Bold, format_args!("+++ {after}")))?;
            for line in text.split_terminator('\n') {
                let colour = match line.bytes().next() {
                    Some(b'+') => Some(Colour::Green),
                    Some(b'-') => Some(Colour::Red),
                    Some(b'@') => Some(Colour::Cyan),
                    _ => None,
                };
                // A file's content must not control the terminal. Elsewhere it is printed unchanged.
                let line = match (session.is_terminal(), colour) {
                    (false, _) => line.to_owned(),
                    (true, Some(_)) => human::escape_text(line),
                    // The line endings of unchanged lines are of no interest.
                    (true, None) => human::escape_text(line.trim_end_matches('\r')),
                };
                match colour {
                    Some(colour) => session.print_line(session.paint(colour, line))?,
                    None => session.print_line(line)?,
                }
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_a_character_for_each_line_if_there_are_few() {
        assert_eq!([0, 1, 40].map(|count| bar_length(count, 40)), [0, 1, 40]);
        assert_eq!([0, 1, 500, 1000].map(|count| bar_length(count, 1000)), [0, 1, 20, 40]);
    }
}
