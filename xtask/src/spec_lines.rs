//! Maps the numbered lines of the specification of organizations to the tests that prove them: `docs/organization-tests.md`.
//!
//! The name of a test says which lines it proves: `f24_...`, `f13_to_f25_and_f30_...`. A line without a test is an error.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::Result;
use crate::programs::{capture, root};

/// The lines are F1 to this one.
const LAST_LINE: u32 = 168;
/// What proves a line that no test can.
const PROVEN_OTHERWISE: [(u32, &str); 1] =
    [(156, "`cargo xtask test --coverage` measures it; it isn't part of CI")];
const PAGE: &str = "docs/organization-tests.md";

/// Fails if a line has no test, or if the page is out of date.
pub(crate) fn check() -> Result {
    let page = page(&tests_by_line()?)?;
    let written = fs::read_to_string(root().join(PAGE)).unwrap_or_default();
    if written == page {
        return Ok(());
    }
    Err(format!("{PAGE} is out of date: run `cargo xtask spec-lines`").into())
}

/// Writes the page.
pub(crate) fn write() -> Result {
    fs::write(root().join(PAGE), page(&tests_by_line()?)?)?;
    Ok(())
}

fn page(tests: &BTreeMap<u32, Vec<String>>) -> Result<String> {
    let mut page = String::from(
        "# Organizations: lines and tests\n\nWhich tests prove which line of the specification of organizations. A test's name begins \
         with its lines. `cargo xtask spec-lines` writes this page, and `cargo xtask check` fails if a line has no test.\n\n\
         | line | tests |\n|---|---|\n",
    );
    let mut missing = Vec::new();
    for line in 1..=LAST_LINE {
        let otherwise = PROVEN_OTHERWISE.iter().find(|(number, _)| *number == line).map(|(_, text)| *text);
        let names = tests.get(&line).map(|names| names.join(", "));
        match names.as_deref().or(otherwise) {
            Some(proof) => writeln!(page, "| F{line} | {proof} |")?,
            None => missing.push(format!("F{line}")),
        }
    }
    match missing.is_empty() {
        true => Ok(page),
        false => Err(format!("no test's name says that it proves {}", missing.join(", ")).into()),
    }
}

/// The tests of each line, as `file: name`.
fn tests_by_line() -> Result<BTreeMap<u32, Vec<String>>> {
    let mut command = std::process::Command::new("git");
    let files = capture(command.args(["ls-files", "crates/*.rs"]).current_dir(root()))?;
    let mut tests: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for file in files.lines() {
        let text = fs::read_to_string(root().join(file)).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        for name in lines.iter().filter_map(|line| line.trim_start().strip_prefix("fn f")?.split_once('(')) {
            for line in lines_of(&format!("f{}", name.0)) {
                tests.entry(line).or_default().push(format!("`{}` in {}", short(name.0), file_name(file)));
            }
        }
    }
    Ok(tests)
}

/// The lines at the beginning of a test's name.
fn lines_of(name: &str) -> Vec<u32> {
    let (mut lines, mut is_range): (Vec<u32>, bool) = (Vec::new(), false);
    for word in name.split('_') {
        match (word, word.strip_prefix('f').and_then(|number| number.parse::<u32>().ok())) {
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
fn short(name: &str) -> String {
    let is_line = |word: &&str| {
        let number = word.strip_prefix('f').unwrap_or(word);
        number.parse::<u32>().is_ok() || ["to", "and"].contains(word)
    };
    name.split('_').skip_while(is_line).collect::<Vec<_>>().join(" ")
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
        assert_eq!(lines_of("f7_unknown_parameters"), [7]);
        assert_eq!(lines_of("f13_to_f15_f30_and_f31_each_scope_of_f9"), [13, 14, 15, 30, 31]);
        assert_eq!(lines_of("format_of_f3"), Vec::<u32>::new());
        assert_eq!(short("13_to_f15_and_f31_each_scope"), "each scope");
    }

    #[test]
    fn a_line_without_a_test_is_an_error() {
        let error = page(&BTreeMap::from([(1, vec!["a".to_owned()])])).unwrap_err().to_string();
        assert!(error.contains("F2, F3") && !error.contains("F1,"), "{error}");
    }
}
