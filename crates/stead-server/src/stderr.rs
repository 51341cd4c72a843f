//! Messages to standard error that can't end the process.

use std::fmt::Display;
use std::io::Write;

/// Prints a line to standard error. If nobody reads it any more, nothing happens: `eprintln!` would panic, and end the
/// thread or task that had something to say.
pub fn print_to_stderr(message: impl Display) {
    // In one piece, so that lines of several threads or processes don't mix.
    let _ = std::io::stderr().write_all(format!("{message}\n").as_bytes());
}
