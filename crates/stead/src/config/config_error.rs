//! The errors of a configuration, with line and column.

use std::fmt;
use std::io;
use std::path::PathBuf;

use stead_core::name::escape_text;

use crate::error::escaped_path;

/// Why a configuration can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is no file in any of the places where Stead looks for one.
    #[error(
        "there is no configuration here; run `stead init` to create a stead.toml, or name one with --config"
    )]
    NotFound,
    /// The file can't be read.
    #[error("`{}` can't be read: {}", escaped_path(file), crate::error::io_error_text(*kind))]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The host's error.
        kind: io::ErrorKind,
    },
    /// The file was read and has mistakes.
    #[error(transparent)]
    Invalid(#[from] ConfigProblems),
}

/// All mistakes in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigProblems {
    /// The file.
    pub file: PathBuf,
    /// The mistakes, by line.
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

/// A mistake in the file, or a warning about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct ConfigDiagnostic {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1 in characters.
    pub column: usize,
    /// What is wrong, and what was probably meant.
    pub message: String,
}

impl ConfigDiagnostic {
    /// A message about what is at this line and column.
    pub(super) fn at((line, column): (usize, usize), message: &str) -> Self {
        // The message may quote names from the file, and these can contain control characters.
        ConfigDiagnostic { line, column, message: escape_text(message).to_string() }
    }
}

impl fmt::Display for ConfigDiagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}
