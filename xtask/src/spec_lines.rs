//! Maps the numbered lines of specifications to the tests that prove them: `docs/organization-tests.md` for the lines F1 and so
//! on, `docs/merge-tests.md` for the lines G1 and so on.
//!
//! The name of a test says which lines it proves: `f24_...`, `f13_to_f25_and_f30_...`. A line without a test is an error.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::Result;
use crate::programs::{capture, root};

/// A specification with numbered lines.
struct Specification {
    /// The letter of its lines, in lower case.
    letter: char,
    /// The lines are 1 to this one.
    last_line: u32,
    /// What proves a line that no test can, or why there is no test yet.
    proven_otherwise: &'static [(u32, &'static str)],
    page: &'static str,
    title: &'static str,
    subject: &'static str,
}

const SPECIFICATIONS: [Specification; 2] = [
    Specification {
        letter: 'f',
        last_line: 168,
        proven_otherwise: &[(156, "`cargo xtask test --coverage` measures it; it isn't part of CI")],
        page: "docs/organization-tests.md",
        title: "Organizations",
        subject: "organizations",
    },
    Specification {
        letter: 'g',
        last_line: 32,
        proven_otherwise: &[
            (1, "not done yet: nested Workspaces are left out of a fork, whatever their scope"),
            (3, "no test with this name yet; the behaviour suite runs on forks in stead-stores/tests/forks"),
            (29, "not done yet: merged texts are in memory until the commit, 512 MiB at most"),
            (30, "not done yet: `fork = \"thread\"` has no effect"),
            (31, "not done yet: there is no `stead review`"),
        ],
        page: "docs/merge-tests.md",
        title: "Forks and merges",
        subject: "forks, merge, update and review",
    },
];

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
    fn page(&self, tests: &BTreeMap<u32, Vec<String>>) -> Result<String> {
        let Specification { title, subject, .. } = self;
        let letter = self.letter.to_ascii_uppercase();
        let mut page = format!(
            "# {title}: lines and tests\n\nWhich tests prove which line of the specification of {subject}. A test's name begins \
             with its lines. `cargo xtask spec-lines` writes this page, and `cargo xtask check` fails if a line has no test.\n\n\
             | line | tests |\n|---|---|\n",
        );
        let mut missing = Vec::new();
        for line in 1..=self.last_line {
            let otherwise = self.proven_otherwise.iter().find(|(number, _)| *number == line);
            let names = tests.get(&line).map(|names| names.join(", "));
            match names.as_deref().or(otherwise.map(|(_, text)| *text)) {
                Some(proof) => writeln!(page, "| {letter}{line} | {proof} |")?,
                None => missing.push(format!("{letter}{line}")),
            }
        }
        match missing.is_empty() {
            true => Ok(page),
            false => Err(format!("no test's name says that it proves {}", missing.join(", ")).into()),
        }
    }

    /// The tests of each line, as `file: name`.
    fn tests_by_line(&self) -> Result<BTreeMap<u32, Vec<String>>> {
        let mut command = std::process::Command::new("git");
        let files = capture(command.args(["ls-files", "crates/*.rs"]).current_dir(root()))?;
        let mut tests: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        let start = format!("fn {}", self.letter);
        for file in files.lines() {
            let text = fs::read_to_string(root().join(file)).unwrap_or_default();
            let names =
                text.lines().filter_map(|line| line.trim_start().strip_prefix(&start)?.split_once('('));
            for (name, _) in names {
                for line in self.lines_of(&format!("{}{name}", self.letter)) {
                    let short = self.short(name);
                    tests.entry(line).or_default().push(format!("`{short}` in {}", file_name(file)));
                }
            }
        }
        Ok(tests)
    }

    fn line_of(&self, word: &str) -> Option<u32> {
        word.strip_prefix(self.letter)?.parse().ok()
    }

    /// The lines at the beginning of a test's name.
    fn lines_of(&self, name: &str) -> Vec<u32> {
        let (mut lines, mut is_range): (Vec<u32>, bool) = (Vec::new(), false);
        for word in name.split('_') {
            match (word, self.line_of(word)) {
                (_, Some(line)) => {
                    let first = if is_range { lines.last().map_or(line, |last| last + 1) } else { line };
                    lines.extend(first..=line);
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
        let is_line = |word: &&str| {
            let number = word.strip_prefix(self.letter).unwrap_or(word);
            number.parse::<u32>().is_ok() || ["to", "and"].contains(word)
        };
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
        let [organizations, merges] = &SPECIFICATIONS;
        assert_eq!(organizations.lines_of("f7_unknown_parameters"), [7]);
        assert_eq!(organizations.lines_of("f13_to_f15_f30_and_f31_each_scope_of_f9"), [13, 14, 15, 30, 31]);
        assert_eq!(organizations.lines_of("format_of_f3"), Vec::<u32>::new());
        assert_eq!(organizations.short("13_to_f15_and_f31_each_scope"), "each scope");
        assert_eq!(merges.lines_of("g8_g9_texts_of_f3"), [8, 9]);
    }

    #[test]
    fn a_line_without_a_test_is_an_error() {
        let tests = BTreeMap::from([(1, vec!["a".to_owned()])]);
        let error = SPECIFICATIONS[0].page(&tests).unwrap_err().to_string();
        assert!(error.contains("F2, F3") && !error.contains("F1,"), "{error}");
    }
}
