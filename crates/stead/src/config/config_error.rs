//! What is wrong with a configuration, and where.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use stead_core::name::escape_text;

use crate::error::escaped_path;

/// Why there is no configuration to work with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No file was found where one is looked for.
    #[error(
        "there is no configuration here; run `stead init` to make a stead.toml, or name one with --config"
    )]
    NotFound,
    /// The file can't be read.
    #[error("`{}` can't be read: {}", escaped_path(file), crate::error::io_error_text(*kind))]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the host said.
        kind: io::ErrorKind,
    },
    /// The file was read, and this is wrong with it.
    #[error(transparent)]
    Invalid(#[from] ConfigProblems),
}

/// All that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblems {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it, by line.
    pub problems: Vec<ConfigDiagnostic>,
}

impl std::error::Error for ConfigProblems {}

impl fmt::Display for ConfigProblems {
    /// One line each: `stead.toml:3:1: …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{}:{problem}", escaped_path(&self.file))?;
        }
        Ok(())
    }
}

/// Something to say about a place in the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigDiagnostic {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1 in characters.
    pub column: usize,
    /// What is wrong, and what was meant.
    pub message: String,
}

impl ConfigDiagnostic {
    /// Something to say about a stretch of `text`.
    pub(super) fn at_span(text: &str, span: &Range<usize>, message: &str) -> Self {
        let (line, column) = line_and_column(text, span.start);
        // Names of the file stand in it, which may hold anything.
        ConfigDiagnostic { line, column, message: escape_text(message).to_string() }
    }
}

impl fmt::Display for ConfigDiagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

/// The line and the column of a byte, counted from 1.
pub(super) fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(byte)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_are_counted_from_one_in_characters() {
        let text = "a\n\u{e9}b\n";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, 2), (2, 1));
        assert_eq!(line_and_column(text, 4), (2, 2));
        assert_eq!(line_and_column(text, 999), (3, 1));
    }
}
