//! What went wrong in a long run, once more at its end, where people and CI look first.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::Result;
use crate::programs::command_line;

/// How many lines of one test program's failures are repeated. The whole stands further up.
const MAX_LINES: usize = 120;

/// The failures of a run so far.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    failed: Vec<String>,
    details: Vec<String>,
}

impl Failures {
    /// Remembers the failure of a step, if it failed.
    pub(crate) fn add(&mut self, outcome: Result) {
        self.failed.extend(outcome.err().map(|error| error.to_string()));
    }

    /// Runs `cargo test`, and shows what it prints. The failures of its tests are remembered.
    pub(crate) fn run_tests(&mut self, command: &mut Command) {
        let outcome = self.run_and_read(command);
        self.add(outcome);
    }

    fn run_and_read(&mut self, command: &mut Command) -> Result {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().expect("stdout is piped");
        let mut reader = FailureReader::default();
        for line in BufReader::new(output).split(b'\n') {
            let line = line?;
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(&line)?;
            stdout.write_all(b"\n")?;
            reader.read(&String::from_utf8_lossy(&line));
        }
        self.details.append(&mut reader.sections);
        match child.wait()?.success() {
            true => Ok(()),
            false => Err(format!("{} failed", command_line(command)).into()),
        }
    }

    /// Fails if a step has failed, after printing what is known of each failure.
    pub(crate) fn finish(self) -> Result {
        if self.failed.is_empty() {
            return Ok(());
        }
        if !self.details.is_empty() {
            println!("\nThe tests that failed:\n\n{}", self.details.join("\n"));
        }
        Err(self.failed.join("\nxtask: ").into())
    }
}

/// Finds the failures in what test programs print: the lines from `failures:` to `test result:`.
#[derive(Debug, Default)]
struct FailureReader {
    sections: Vec<String>,
    is_inside: bool,
    lines: usize,
}

impl FailureReader {
    fn read(&mut self, line: &str) {
        if line.starts_with("test result:") {
            self.is_inside = false;
        } else if line == "failures:" && !self.is_inside {
            (self.is_inside, self.lines) = (true, 0);
            self.sections.push(String::new());
        } else if let (true, Some(section)) = (self.is_inside, self.sections.last_mut()) {
            // The names of the failed tests stand at the end, so they are never left out.
            let is_name = line.strip_prefix("    ").is_some_and(|name| !name.contains(' '));
            self.lines += 1;
            if self.lines <= MAX_LINES || line == "failures:" || is_name {
                *section += line;
                *section += "\n";
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failures_of_each_test_program_are_found() {
        let mut reader = FailureReader::default();
        let output = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\nbroken\n\nfailures:\n    \
                      b\n\ntest result: FAILED. 1 passed; 1 failed\nrunning 1 test\ntest c ... ok\ntest result: ok.";
        output.lines().for_each(|line| reader.read(line));
        assert_eq!(reader.sections, ["\n---- b stdout ----\nbroken\n\nfailures:\n    b\n\n"]);
    }

    #[test]
    fn all_failed_steps_are_named() {
        let mut failures = Failures::default();
        failures.add(Ok(()));
        failures.add(Err("one".into()));
        failures.add(Err("two".into()));
        assert_eq!(failures.finish().unwrap_err().to_string(), "one\nxtask: two");
        assert!(Failures::default().finish().is_ok());
    }

    #[test]
    fn a_failed_program_is_reported_with_what_its_tests_printed() {
        let mut failures = Failures::default();
        let script = "printf 'failures:\\n\\n---- x ----\\nbroken\\n'; exit 1";
        failures.run_tests(Command::new("sh").args(["-c", script]));
        assert_eq!(failures.details, ["\n---- x ----\nbroken\n"]);
        assert_eq!(failures.failed.len(), 1);
    }
}
