//! A stead in a directory of its own, mounted by the real binary.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const CONFIG: &str = r#"
[stores.main]
kind = "virtual"

[stores.project]
kind = "physical"
path = "project"

[agents.coder]
workspaces = [
  { prefix = "/v", store = "main", path = "/v", scope = "rw", protect = [] },
  { prefix = "/p", store = "project", scope = "rw", protect = [] },
]
"#;

pub(crate) struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Place { directory: tempfile::tempdir().unwrap() };
        for directory in ["project", "mnt"] {
            fs::create_dir(place.path(directory)).unwrap();
        }
        fs::write(place.path("stead.toml"), CONFIG).unwrap();
        place
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
        command.args(args).current_dir(&self.directory).stdin(Stdio::null());
        for variable in ["STEAD_CONFIG", "STEAD_AGENT", "STEAD_TOKEN"] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs it; it has to succeed.
    pub(crate) fn stead(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{args:?}: {}\n{out}\n{err}", output.status);
        out
    }

    pub(crate) fn mount(&self) -> OnMount {
        let mut child = self.command(&["mount", "mnt"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("Mounted at "), "{line:?}");
        OnMount { child, at: self.path("mnt") }
    }
}

/// A stead that is mounted. Dropped, it is unmounted.
pub(crate) struct OnMount {
    child: Child,
    pub(crate) at: PathBuf,
}

impl OnMount {
    /// Ends it as nobody should, and waits until nothing of it is left.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while is_mounted(&self.at) {
            assert!(Instant::now() < until, "its keeper should have cleared the mount away");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends it in good order.
    pub(crate) fn end(mut self) {
        self.terminate();
        assert!(!is_mounted(&self.at), "a mount is left behind");
    }

    fn terminate(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
            assert!(self.child.wait().unwrap().success() || std::thread::panicking());
        }
    }
}

impl Drop for OnMount {
    fn drop(&mut self) {
        self.terminate();
    }
}

fn is_mounted(at: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == at.to_str())
}

/// How long something goes on, in CI and otherwise.
pub(crate) fn long_or<T>(long: T, short: T) -> T {
    if std::env::var_os("STEAD_TEST_LONG").is_some() { long } else { short }
}
