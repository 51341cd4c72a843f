//! A stead, mounted by the real binary.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A Workspace on a database and one on a directory. Both have to behave in the same way.
pub(crate) const WORKSPACES: [&str; 2] = ["v", "p"];

const CONFIG: &str = r#"
[stores.main]
kind = "virtual"

[stores.project]
kind = "physical"
path = "project"

[stores.fixed]
kind = "physical"
path = "fixed"

[stores.limited]
kind = "physical"
path = "limited"

[agents.coder]
workspaces = [
  { prefix = "/v", store = "main", path = "/v", scope = "rw", protect = [] },
  { prefix = "/p", store = "project", scope = "rw", protect = [] },
  { prefix = "/ro", store = "fixed", scope = "ro" },
  { prefix = "/in", store = "main", path = "/in", scope = "wo" },
  { prefix = "/guarded", store = "main", path = "/guarded", scope = "rw" },
  { prefix = "/small", store = "main", path = "/small", scope = "rw", quota = { bytes = "1MiB", files = 10 } },
  { prefix = "/narrow", store = "limited", scope = "rw", quota = { bytes = "1MiB" } },
  { prefix = "/v/nested/other", store = "main", path = "/other", scope = "rw" },
]
"#;

/// A stead in a directory of its own.
pub(crate) struct TestDir {
    directory: tempfile::TempDir,
}

impl TestDir {
    pub(crate) fn new() -> Self {
        let dir = TestDir { directory: tempfile::tempdir().unwrap() };
        for directory in ["project", "fixed", "limited", "mnt", "mnt2"] {
            fs::create_dir(dir.path(directory)).unwrap();
        }
        fs::write(dir.path("fixed/there.txt"), "there\n").unwrap();
        fs::write(dir.path("stead.toml"), CONFIG).unwrap();
        dir
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    pub(crate) fn command<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
        command.args(args).current_dir(&self.directory).stdin(Stdio::null());
        for variable in ["STEAD_CONFIG", "STEAD_AGENT", "STEAD_TOKEN"] {
            command.env_remove(variable);
        }
        command
    }

    pub(crate) fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs the binary with this standard input.
    pub(crate) fn run_with_input<'a>(&self, args: impl IntoIterator<Item = &'a str>, input: &str) {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        expect_success(&child.wait_with_output().unwrap());
    }

    /// Runs the binary, and returns its output.
    pub(crate) fn stead<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> String {
        expect_success(&self.run(args))
    }

    pub(crate) fn mount(&self) -> OnMount {
        self.mount_at("mnt", &[])
    }

    pub(crate) fn mount_at(&self, directory: &str, options: &[&str]) -> OnMount {
        let args = ["mount", directory].into_iter().chain(options.iter().copied());
        let mut child = self.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("Mounted at "), "{line:?}");
        OnMount { child, mount_point: self.path(directory) }
    }
}

/// A mounted stead. Dropping it unmounts it.
pub(crate) struct OnMount {
    pub(crate) child: Child,
    pub(crate) mount_point: PathBuf,
}

impl OnMount {
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.mount_point.join(relative)
    }

    /// Runs a script in a directory of the mount; it has to succeed.
    pub(crate) fn sh(&self, relative: &str, script: &str) -> String {
        expect_success(&self.shell(relative, script))
    }

    /// Runs a script in a directory of the mount.
    pub(crate) fn shell(&self, relative: &str, script: &str) -> Output {
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", script]).current_dir(self.path(relative)).stdin(Stdio::null());
        for (variable, value) in [("GIT_AUTHOR_NAME", "a"), ("GIT_COMMITTER_NAME", "a")] {
            shell.env(variable, value);
        }
        for (variable, value) in [("GIT_AUTHOR_EMAIL", "a@b"), ("GIT_COMMITTER_EMAIL", "a@b")] {
            shell.env(variable, value);
        }
        // The user's own settings don't affect the programs of this test.
        shell.env("GIT_CONFIG_GLOBAL", "/dev/null").env_remove("CARGO_TARGET_DIR").env("LC_ALL", "C");
        shell.output().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends the mount with a signal, and returns how the process ended.
    pub(crate) fn end(mut self, signal: Signal) -> std::process::ExitStatus {
        self.signal(signal);
        self.child.wait().unwrap()
    }

    /// Ends the mount with SIGTERM. Fails if the directory is still mounted afterwards.
    pub(crate) fn end_cleanly(self) {
        let mount_point = self.mount_point.clone();
        assert!(self.end(Signal::TERM).success());
        assert!(!is_mounted(&mount_point), "the directory is still mounted");
    }

    /// Kills the mount's process, and waits until the watchdog has removed the mount.
    pub(crate) fn kill(self) {
        let mount_point = self.mount_point.clone();
        self.end(Signal::KILL);
        assert!(eventually(|| !is_mounted(&mount_point)), "the watchdog did not unmount the directory");
    }
}

impl Drop for OnMount {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            self.signal(Signal::TERM);
            self.child.wait().unwrap();
        }
        if !std::thread::panicking() {
            assert!(eventually(|| !is_mounted(&self.mount_point)), "the directory is still mounted");
        }
    }
}

pub(crate) fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == path.to_str())
}

/// Whether something becomes true within 30 seconds.
pub(crate) fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

pub(crate) fn expect_success(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// The first value in a long run, the second in CI.
pub(crate) fn long_or<T>(long: T, short: T) -> T {
    if std::env::var_os("STEAD_TEST_LONG").is_some() { long } else { short }
}
