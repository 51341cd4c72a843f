//! Child processes: this test program, started again for one task.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::test_stores::Kind;
use crate::{
    audit, crash, killed_history_work, killed_managed_work, killed_thread_work, limited_process,
    many_processes, memory, state,
};

const TASK: &str = "STEAD_SOAK_TASK";

/// What a child does, and where.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) directory: PathBuf,
    pub(crate) number: u64,
}

impl Task {
    pub(crate) fn new(name: &str, kind: Kind, directory: &Path, number: u64) -> Self {
        Task { name: name.into(), kind, directory: directory.into(), number }
    }

    /// Starts a process for the task.
    pub(crate) fn start(&self) -> (Child, BufReader<ChildStdout>) {
        let Task { name, kind, directory, number } = self;
        let program = std::env::current_exe().unwrap();
        let mut command = match (&**name, *number) {
            // The shell sets limits, and the kernel sets users.
            ("limited_process", 256) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", "ulimit -n 256 && exec \"$0\" \"$@\""]).arg(program);
                shell
            }
            ("limited_process", uid) => {
                // The build directory may be closed to other users. This process never has the copy open for writing: a
                // child that another thread starts would have it open as well for a moment, and then it can't be run.
                let copy = directory.join("program");
                assert!(Command::new("cp").arg("-p").args([&program, &copy]).status().unwrap().success());
                let mut as_user = Command::new(copy);
                let id = u32::try_from(uid).unwrap();
                as_user.uid(id).gid(id);
                as_user
            }
            _ => Command::new(program),
        };
        let mut child = command
            .args(["--ignored", "--exact", "child::the_child_process", "--nocapture"])
            .env(TASK, format!("{name},{},{number},{}", kind.name(), directory.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        (child, output)
    }

    fn from_environment() -> Option<Task> {
        let task = std::env::var(TASK).ok()?;
        let mut parts = task.splitn(4, ',');
        let (name, kind) = (parts.next()?.to_owned(), Kind::named(parts.next()?));
        let (number, directory) = (parts.next()?.parse().ok()?, parts.next()?.into());
        Some(Task { name, kind, directory, number })
    }
}

/// Sends a line to the parent, in one piece.
pub(crate) fn send_line(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n>{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// The lines that a child sends, until it ends.
pub(crate) fn lines_of(output: BufReader<ChildStdout>) -> impl Iterator<Item = String> {
    output.lines().map_while(Result::ok).filter_map(|line| line.strip_prefix('>').map(str::to_owned))
}

#[test]
#[ignore = "a child process: the tests start it"]
fn the_child_process() {
    let task = Task::from_environment().expect("one of the tests starts this process");
    match &*task.name {
        "audit" => audit::child(&task),
        "crash" => crash::child(&task),
        "many_processes" => many_processes::child(&task),
        "memory" => memory::child(&task),
        "state" => state::child(&task),
        "limited_process" => limited_process::child(&task),
        "killed_thread_work" => killed_thread_work::child(&task),
        "killed_managed_work" => killed_managed_work::child(&task),
        "killed_history_work" => killed_history_work::child(&task),
        other => panic!("no such task: {other}"),
    }
}
