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
        "there is no configuration here; run `stead init` to create a stead.toml, or name one with --config{}",
        skipped_text(skipped)
    )]
    NotFound {
        /// The files that were found but not used.
        skipped: Vec<SkippedFile>,
    },
    /// The current directory is gone, so nothing can be looked for in it.
    #[error("the current directory doesn't exist any more; change to another one, or name one with -C")]
    NoCurrentDirectory,
    /// `stead mcp DIR...` was run with this directory and different other ones.
    #[error("several steads have this directory; choose one of them:{}", choices_text(choices))]
    SeveralSteads {
        /// The steads.
        choices: Vec<SteadChoice>,
    },
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

/// A configuration file that is not used, although it is where Stead looks for one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedFile {
    /// The file, relative to where the search began.
    pub file: PathBuf,
    /// Why it isn't used.
    pub reason: SkipReason,
}

/// Why a configuration file is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// Neither the user nor root owns it, and it isn't in the current directory.
    OtherOwner,
    /// It is inside a mounted stead, where agents write.
    InMountedStead,
}

/// A stead of `stead mcp DIR...`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SteadChoice {
    /// Its configuration file.
    pub file: PathBuf,
    /// Its directories, ordered by path.
    pub directories: Vec<PathBuf>,
}

/// What was found but not used, after a semicolon. Empty if nothing was.
fn skipped_text(skipped: &[SkippedFile]) -> String {
    let text = |skipped: &SkippedFile| {
        let reason = match skipped.reason {
            SkipReason::OtherOwner => "it belongs to another user",
            SkipReason::InMountedStead => "it is inside a mounted stead",
        };
        format!("; `{}` isn't used, because {reason}", escaped_path(&skipped.file))
    };
    skipped.iter().map(text).collect()
}

/// One line per stead: the command, and the directories.
fn choices_text(choices: &[SteadChoice]) -> String {
    let text = |choice: &SteadChoice| {
        let directories: Vec<_> =
            choice.directories.iter().map(|path| escaped_path(path).to_string()).collect();
        format!("\n  stead --config {} ...  ({})", escaped_path(&choice.file), directories.join(", "))
    };
    choices.iter().map(text).collect()
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
