//! Child processes: this test program, started again to work on the mount.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{killed, stress};

const TASK: &str = "STEAD_TORTURE_TASK";

/// What a child does, and where.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    kind: String,
    pub(crate) number: u64,
    pub(crate) directory: PathBuf,
}

impl Task {
    pub(crate) fn new(kind: &str, number: u64, directory: &Path) -> Self {
        Task { kind: kind.into(), number, directory: directory.into() }
    }

    /// Starts a process for the task.
    pub(crate) fn start(&self) -> Child {
        let Task { kind, number, directory } = self;
        Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "torture::child::the_child_process", "--nocapture"])
            .env(TASK, format!("{kind},{number},{}", directory.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn from_environment() -> Option<Task> {
        let task = std::env::var(TASK).ok()?;
        let mut parts = task.splitn(3, ',');
        let (kind, number) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
        Some(Task { kind, number, directory: parts.next()?.into() })
    }
}

/// Sends a line to the parent, in one piece.
pub(crate) fn send_line(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n>{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// The lines that a child has sent.
pub(crate) fn received_lines(output: impl Read) -> impl Iterator<Item = String> {
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    lines.filter_map(|line| line.strip_prefix('>').map(str::to_owned))
}

#[test]
#[ignore = "a child process: the tests start it"]
fn the_child_process() {
    let task = Task::from_environment().expect("one of the tests starts this process");
    match &*task.kind {
        "stress" => stress::child(&task),
        "killed" => killed::child(&task),
        other => panic!("no such task: {other}"),
    }
}
