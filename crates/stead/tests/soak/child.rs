//! Child processes: this very test program, started again for one task.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::places::Kind;
use crate::{crash, crowd};

const TASK: &str = "STEAD_SOAK_TASK";

/// What a child is to do, and where.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) what: String,
    pub(crate) kind: Kind,
    pub(crate) directory: PathBuf,
    pub(crate) number: u64,
}

impl Task {
    pub(crate) fn new(what: &str, kind: Kind, directory: &Path, number: u64) -> Self {
        Task { what: what.into(), kind, directory: directory.into(), number }
    }

    /// Starts a process for it.
    pub(crate) fn start(&self) -> (Child, BufReader<ChildStdout>) {
        let Task { what, kind, directory, number } = self;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "child::the_child_process", "--nocapture"])
            .env(TASK, format!("{what},{},{number},{}", kind.name(), directory.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        (child, output)
    }

    fn given() -> Option<Task> {
        let task = std::env::var(TASK).ok()?;
        let mut parts = task.splitn(4, ',');
        let (what, kind) = (parts.next()?.to_owned(), Kind::named(parts.next()?));
        let (number, directory) = (parts.next()?.parse().ok()?, parts.next()?.into());
        Some(Task { what, kind, directory, number })
    }
}

/// Tells the parent something, in one piece.
pub(crate) fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n>{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// What a child tells, until it ends.
pub(crate) fn told(output: BufReader<ChildStdout>) -> impl Iterator<Item = String> {
    output.lines().map_while(Result::ok).filter_map(|line| line.strip_prefix('>').map(str::to_owned))
}

#[test]
#[ignore = "the other end of the tests here, which start it as a process of its own"]
fn the_child_process() {
    let task = Task::given().expect("started by one of the tests here");
    match &*task.what {
        "crash" => crash::child(&task),
        "crowd" => crowd::child(&task),
        other => panic!("no such task: {other}"),
    }
}
