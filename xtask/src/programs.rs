//! Starts programs in the root of the repository.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask is in the repository").to_owned()
}

/// The directory for what cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |target| root().join(target))
}

/// Whether this process runs as root.
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// A program that will start in the root of the repository.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// The cargo that started this xtask.
pub(crate) fn cargo() -> Command {
    program(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
}

/// Runs a program with our own stdout and stderr.
pub(crate) fn run_shown(command: &mut Command) -> Result {
    let status = command.status().map_err(|error| start_error(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("{} failed", command_line(command)).into()) }
}

/// Runs a program and returns its stdout. If it fails, the error contains everything that it wrote.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| start_error(command, &error))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} failed\n{stdout}{stderr}", command_line(command)).into())
}

/// Whether a program can be started and succeeds.
pub(crate) fn succeeds(command: &[&str]) -> bool {
    let [name, arguments @ ..] = command else { return false };
    program(name).args(arguments).output().is_ok_and(|output| output.status.success())
}

fn start_error(command: &Command, error: &std::io::Error) -> String {
    format!("{} can't be started: {error}", command_line(command))
}

/// The program and its arguments, for a message.
pub(crate) fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    format!("`{}`", words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
}
