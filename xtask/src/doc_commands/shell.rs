//! A shell that runs one command after the other, as a person at a terminal does, with a home directory of its own.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use tempfile::TempDir;

use crate::Result;

/// Long enough for any command of the guides on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running shell. Dropping it ends the shell and removes its home directory.
#[derive(Debug)]
pub(super) struct Shell {
    child: Child,
    input: ChildStdin,
    statuses: Receiver<String>,
    directory: TempDir,
}

/// What a command did.
#[derive(Debug)]
pub(super) struct RanCommand {
    pub(super) status: i32,
    /// Standard output and standard error, in the order in which they were written.
    pub(super) output: String,
}

impl Shell {
    /// Starts a shell in an empty home directory, with this binary as `stead`.
    pub(super) fn start(binary: &Path) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let (home, programs) = (directory.path().join("home"), directory.path().join("bin"));
        fs::create_dir(&home)?;
        fs::create_dir(&programs)?;
        symlink(binary, programs.join("stead"))?;
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc"]).current_dir(&home).process_group(0);
        command.env_clear().env("HOME", &home).env("LANG", "C.UTF-8").env("USER", "ann");
        command.env("PATH", format!("{}:{path}", programs.display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut input = child.stdin.take().expect("stdin is piped");
        // As at a terminal.
        writeln!(input, "shopt -s expand_aliases")?;
        let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let (sender, statuses) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(std::io::Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Shell { child, input, statuses, directory })
    }

    /// Runs a command, and waits until it has ended.
    pub(super) fn run(&mut self, text: &str) -> Result<RanCommand> {
        let (script, output) = (self.directory.path().join("command"), self.directory.path().join("output"));
        fs::write(&script, text)?;
        writeln!(self.input, ". {} >{} 2>&1 </dev/null; echo $?", script.display(), output.display())?;
        let status = self.statuses.recv_timeout(TIMEOUT).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                format!("`{}` doesn't end; mark its block with `norun: REASON`", text.trim())
            }
            RecvTimeoutError::Disconnected => format!("`{}` ends the shell", text.trim()),
        })?;
        Ok(RanCommand {
            status: status.parse()?,
            output: String::from_utf8_lossy(&fs::read(output)?).into_owned(),
        })
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // A page that failed may have left a mount. Without this, removing the directory would remove files there.
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        for mount_point in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
            if Path::new(mount_point).starts_with(self.directory.path()) {
                let _ = Command::new("umount").args(["--lazy", mount_point]).status();
            }
        }
        // The whole group: a command that didn't end would run on. Fails if everything has ended already.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}
