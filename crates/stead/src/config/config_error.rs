//! The errors of a configuration, with line and column.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use stead_core::name::escape_text;

use crate::error::escaped_path;

/// How many problems that say the same are shown.
const MAX_SHOWN_OF_THE_SAME: usize = 10;

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
    /// What is valid but probably not intended, by line. The message of the error doesn't have it.
    pub warnings: Vec<ConfigDiagnostic>,
}

impl std::error::Error for ConfigProblems {}

impl fmt::Display for ConfigProblems {
    /// One line each: `stead.toml:3:1: …`. Of those that say the same, only the first few.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut counts, mut left_out) = (HashMap::<&str, usize>::new(), 0);
        let mut newline = "";
        for problem in &self.problems {
            let count = counts.entry(&problem.message).or_default();
            *count += 1;
            if *count > MAX_SHOWN_OF_THE_SAME {
                left_out += 1;
                continue;
            }
            let file = problem.file.as_ref().unwrap_or(&self.file);
            write!(f, "{newline}{}:{problem}", escaped_path(file))?;
            newline = "\n";
        }
        match left_out {
            0 => Ok(()),
            more => write!(f, "\nand {more} more of the same"),
        }
    }
}

/// A mistake in the file, or a warning about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct ConfigDiagnostic {
    /// The file, if it isn't the configuration file itself.
    pub file: Option<PathBuf>,
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
        ConfigDiagnostic { file: None, line, column, message: escape_text(message).to_string() }
    }

    /// The same message about another file.
    pub(super) fn in_file(self, file: &Path) -> Self {
        ConfigDiagnostic { file: Some(file.to_owned()), ..self }
    }
}

impl fmt::Display for ConfigDiagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_mistakes_the_first_few_are_listed() {
        let problems = |count| {
            let problem = |line| ConfigDiagnostic::at((line, 1), "unknown key");
            let problems = (1..=count).map(problem).collect();
            ConfigProblems { file: "stead.toml".into(), problems, warnings: Vec::new() }.to_string()
        };
        assert_eq!(problems(10).lines().last(), Some("stead.toml:10:1: unknown key"));
        assert_eq!(
            problems(81).lines().collect::<Vec<_>>()[9..],
            ["stead.toml:10:1: unknown key", "and 71 more of the same"]
        );
    }
}
