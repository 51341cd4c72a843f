//! Maps the numbered lines of specifications to the tests that prove them: one page in `docs/` for each specification.
//!
//! The name of a test says which lines it proves: `f24_...`, `f13_to_f25_and_f30_...`, `w44a_...`. A line without a test is an
//! error.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use crate::Result;
use crate::programs::{capture, root};

/// A specification with numbered lines.
struct Specification {
    /// The letter that its lines begin with, in lower case.
    letter: char,
    /// The numbers of its lines.
    numbers: &'static [RangeInclusive<u32>],
    /// Lines with a letter after their number, besides those in `numbers`.
    inserted: &'static [(u32, char)],
    /// What proves a line that no test can, or why there is no test yet.
    proven_otherwise: &'static [(u32, &'static str)],
    title: &'static str,
    subject: &'static str,
    page: &'static str,
}

const SPECIFICATIONS: [Specification; 4] = [
    Specification {
        letter: 'f',
        numbers: &[1..=168],
        inserted: &[],
        proven_otherwise: &[(156, "`cargo xtask test --coverage` measures it; it isn't part of CI")],
        title: "Organizations",
        subject: "organizations",
        page: "docs/organization-tests.md",
    },
    Specification {
        letter: 'g',
        numbers: &[1..=32],
        inserted: &[],
        proven_otherwise: &[],
        title: "Forks and merges",
        subject: "forks, merge, update and review",
        page: "docs/merge-tests.md",
    },
    Specification {
        letter: 'w',
        numbers: &[1..=94],
        inserted: &[(44, 'a')],
        proven_otherwise: &[],
        title: "Managed Workspaces",
        subject: "managed Workspaces",
        page: "docs/managed-tests.md",
    },
    Specification {
        letter: 's',
        // The other lines are about parts that have no page: files, audit and history.
        numbers: &[1..=5, 11..=18],
        inserted: &[(12, 'a')],
        proven_otherwise: &[],
        title: "Threads and State",
        subject: "steads, threads and State",
        page: "docs/thread-tests.md",
    },
];

/// A line: its number, and the letter after it if there is one.
type Line = (u32, Option<char>);

/// Fails if a line has no test, or if a page is out of date.
pub(crate) fn check() -> Result {
    for specification in &SPECIFICATIONS {
        let page = specification.page(&specification.tests_by_line()?)?;
        let written = fs::read_to_string(root().join(specification.page)).unwrap_or_default();
        if written != page {
            return Err(format!("{} is out of date: run `cargo xtask spec-lines`", specification.page).into());
        }
    }
    Ok(())
}

/// Writes the pages.
pub(crate) fn write() -> Result {
    for specification in &SPECIFICATIONS {
        let page = specification.page(&specification.tests_by_line()?)?;
        fs::write(root().join(specification.page), page)?;
    }
    Ok(())
}

impl Specification {
    fn lines(&self) -> Vec<Line> {
        let inserted = self.inserted.iter().map(|(number, letter)| (*number, Some(*letter)));
        let numbers = self.numbers.iter().cloned().flatten();
        let mut lines: Vec<_> = numbers.map(|number| (number, None)).chain(inserted).collect();
        lines.sort_unstable();
        lines
    }

    fn page(&self, tests: &BTreeMap<Line, Vec<String>>) -> Result<String> {
        let Specification { title, subject, .. } = self;
        let mut page = format!(
            "# {title}: lines and tests\n\nWhich tests prove which line of the specification of {subject}. A test's name \
             begins with its lines. `cargo xtask spec-lines` writes this page, and `cargo xtask check` fails if a line has no \
             test.\n\n| line | tests |\n|---|---|\n",
        );
        let mut missing = Vec::new();
        for line in self.lines() {
            let (number, letter) = line;
            let label = format!(
                "{}{number}{}",
                self.letter.to_ascii_uppercase(),
                letter.map(String::from).unwrap_or_default()
            );
            let otherwise = self.proven_otherwise.iter().find(|(other, _)| (*other, None) == line);
            let names = tests.get(&line).map(|names| names.join(", "));
            match names.as_deref().or(otherwise.map(|(_, text)| *text)) {
                Some(proof) => writeln!(page, "| {label} | {proof} |")?,
                None => missing.push(label),
            }
        }
        match missing.is_empty() {
            true => Ok(page),
            false => Err(format!("no test's name says that it proves {}", missing.join(", ")).into()),
        }
    }

    /// The tests of each line, as `file: name`.
    fn tests_by_line(&self) -> Result<BTreeMap<Line, Vec<String>>> {
        let mut command = std::process::Command::new("git");
        let files = capture(command.args(["ls-files", "crates/*.rs"]).current_dir(root()))?;
        let mut tests: BTreeMap<Line, Vec<String>> = BTreeMap::new();
        for file in files.lines() {
            let text = fs::read_to_string(root().join(file)).unwrap_or_default();
            let names =
                text.lines().filter_map(|line| line.trim_start().strip_prefix("fn ")?.split_once('('));
            for (name, _) in names {
                for line in self.lines_of(name) {
                    let test = format!("`{}` in {}", self.short(name), file_name(file));
                    tests.entry(line).or_default().push(test);
                }
            }
        }
        Ok(tests)
    }

    /// The line that a word names: `w44`, or `w44a`.
    fn line(&self, word: &str) -> Option<Line> {
        let text = word.strip_prefix(self.letter)?;
        match text.parse() {
            Ok(number) => Some((number, None)),
            Err(_) => {
                let (last, letter) = text.char_indices().last()?;
                Some((text[..last].parse().ok()?, Some(letter)))
            }
        }
    }

    /// The lines at the beginning of a test's name.
    fn lines_of(&self, name: &str) -> Vec<Line> {
        let (mut lines, mut is_range): (Vec<Line>, bool) = (Vec::new(), false);
        for word in name.split('_') {
            match (word, self.line(word)) {
                (_, Some(line @ (_, Some(_)))) => lines.push(line),
                (_, Some((number, None))) => {
                    let first =
                        if is_range { lines.last().map_or(number, |(last, _)| last + 1) } else { number };
                    lines.extend((first..=number).map(|number| (number, None)));
                    is_range = false;
                }
                ("to", None) if !lines.is_empty() => is_range = true,
                ("and", None) if !lines.is_empty() => {}
                _ => break,
            }
        }
        lines
    }

    /// The rest of a test's name, after the lines.
    fn short(&self, name: &str) -> String {
        let is_line = |word: &&str| self.line(word).is_some() || ["to", "and"].contains(word);
        name.split('_').skip_while(is_line).collect::<Vec<_>>().join(" ")
    }
}

/// The path of a test without what all paths have.
fn file_name(file: &str) -> String {
    Path::new(file).strip_prefix("crates").map_or_else(|_| file.to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_test_are_those_at_the_beginning_of_its_name() {
        let [organizations, merges, managed, _] = &SPECIFICATIONS;
        let numbers =
            |name| organizations.lines_of(name).into_iter().map(|(number, _)| number).collect::<Vec<_>>();
        assert_eq!(numbers("f7_unknown_parameters"), [7]);
        assert_eq!(numbers("f13_to_f15_f30_and_f31_each_scope_of_f9"), [13, 14, 15, 30, 31]);
        assert_eq!(numbers("format_of_f3"), Vec::<u32>::new());
        assert_eq!(organizations.short("f13_to_f15_and_f31_each_scope"), "each scope");
        assert_eq!(merges.lines_of("g8_g9_texts_of_f3"), [(8, None), (9, None)]);
        assert_eq!(managed.lines_of("w44a_sync_runs"), [(44, Some('a'))]);
        assert_eq!(managed.lines_of("write_all"), Vec::<Line>::new());
        assert_eq!(managed.short("w44a_sync_runs"), "sync runs");
    }

    #[test]
    fn a_line_without_a_test_is_an_error() {
        let tests = BTreeMap::from([((1, None), vec!["a".to_owned()])]);
        let error = SPECIFICATIONS[0].page(&tests).unwrap_err().to_string();
        assert!(error.contains("F2, F3") && !error.contains("F1,"), "{error}");
        let error = SPECIFICATIONS[2].page(&tests).unwrap_err().to_string();
        assert!(error.contains("W44, W44a, W45"), "{error}");
        let error = SPECIFICATIONS[3].page(&tests).unwrap_err().to_string();
        assert!(error.contains("S5, S11") && error.ends_with("S18"), "{error}");
    }
}
