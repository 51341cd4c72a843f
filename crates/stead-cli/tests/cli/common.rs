//! Runs the real binary in a directory of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;

/// A directory to run the binary in. It is in a home directory of its own, where the search for a configuration ends.
pub(crate) struct TestDir {
    home: tempfile::TempDir,
    directory: PathBuf,
}

impl TestDir {
    /// An empty directory.
    pub(crate) fn empty() -> Self {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("dir");
        std::fs::create_dir(&directory).unwrap();
        TestDir { home, directory }
    }

    /// A directory with a small project and a new configuration.
    pub(crate) fn new() -> Self {
        let dir = TestDir::empty();
        dir.file("README.md", "# Hello\nThe quick brown fox.\n");
        dir.file("src/main.rs", "fn main() {}\n");
        assert!(dir.stead(["init"]).status.success());
        dir
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.join(relative)
    }

    pub(crate) fn file(&self, relative: &str, content: &str) {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn command<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
        command.args(args).current_dir(&self.directory).stdin(Stdio::null());
        command
            .env_remove("STEAD_CONFIG")
            .env_remove("STEAD_AGENT")
            .env_remove("STEAD_TOKEN")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_STATE_HOME");
        command.env("HOME", self.home.path()).env("TZ", "UTC");
        command
    }

    pub(crate) fn stead<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs the binary with this standard input.
    pub(crate) fn run_with_input<'a>(&self, args: impl IntoIterator<Item = &'a str>, input: &[u8]) -> Output {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Runs the binary, and returns its whole output and how it ended.
    pub(crate) fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> String {
        output_text(&self.stead(args), self.home.path())
    }
}

/// A child process that is killed when this is dropped, even if the test fails.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Running(command.spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

/// The whole output of a run, as a person would see it. Fails if it contains a path of the host.
pub(crate) fn output_text(output: &Output, directory: &Path) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    for stream in [&stdout, &stderr] {
        assert!(!stream.contains(directory.to_str().unwrap()), "the output contains a host path: {stream}");
    }
    let mut shown = stdout;
    if !stderr.is_empty() {
        shown.push_str("! ");
        shown.push_str(&stderr.trim_end().replace('\n', "\n! "));
        shown.push('\n');
    }
    match output.status.code() {
        Some(0) => {}
        code => shown.push_str(&format!("exit {}", code.unwrap())),
    }
    shown.trim_end().to_owned()
}

/// A new terminal of this many rows: the side of the person, and the side of the program.
pub(crate) fn open_terminal(rows: u16) -> (File, OwnedFd) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let size = rustix::termios::Winsize { ws_row: rows, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&terminal, size).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    (File::from(terminal), rustix::fs::open(&*name, flags, rustix::fs::Mode::empty()).unwrap())
}

/// Reads what a terminal shows, in the background, until the program has ended.
pub(crate) fn read_terminal(mut terminal: File) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut shown = Vec::new();
        // On Linux, reading fails once the other end is closed.
        let _ = terminal.read_to_end(&mut shown);
        String::from_utf8(shown).unwrap().replace('\r', "")
    })
}

/// The error code at the end of a failure's text, as a model reads it.
pub(crate) fn error_code(result: &serde_json::Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    text.strip_suffix(']').and_then(|text| text.rsplit_once(" [")).unwrap_or_else(|| panic!("{text}")).1
}
