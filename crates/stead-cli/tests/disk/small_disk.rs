//! A small disk, mounted in a mount namespace of its own.
//!
//! A test that needs one runs itself again under `unshare --mount`: what it mounts goes away with that process.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The environment variable that tells the second process where the disk is mounted.
const DISK_VARIABLE: &str = "STEAD_TEST_SMALL_DISK";

/// The kind of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    /// An ext4 with the smallest block size: mapped memory is allocated a quarter of a page at a time.
    SmallBlocks,
}

/// Runs a test on a disk of a few MiB. If the host doesn't allow mounts, prints SKIPPED and tests nothing.
pub(crate) fn on_small_disk(name: &str, kind: Kind, test: impl FnOnce(&Disk)) {
    if let Some(directory) = std::env::var_os(DISK_VARIABLE) {
        let directory = PathBuf::from(directory);
        if mount(&directory, kind) {
            test(&Disk { directory });
        } else {
            eprintln!("SKIPPED {name}: this host mounts no {kind:?}");
        }
        return;
    }
    let host = tempfile::tempdir().unwrap();
    let directory = host.path().join("disk");
    std::fs::create_dir(&directory).unwrap();
    let mut command = Command::new("unshare");
    command.arg("--mount").arg(std::env::current_exe().unwrap()).args(["--exact", name, "--nocapture"]);
    let is_allowed = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    if !is_allowed.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED {name}: this host has no mount namespace for this user");
        return;
    }
    let output = command.env(DISK_VARIABLE, &directory).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    stderr.lines().filter(|line| line.starts_with("SKIPPED")).for_each(|line| eprintln!("{line}"));
    assert!(output.status.success(), "{}\n{stderr}", String::from_utf8_lossy(&output.stdout));
}

fn mount(directory: &Path, kind: Kind) -> bool {
    let run = |program: &str, args: &[&str]| {
        let run = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
        run.is_ok_and(|status| status.success())
    };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    match kind {
        Kind::Memory => run("mount", &["-t", "tmpfs", "-o", "size=24m", "none", &text(directory)]),
        Kind::SmallBlocks => {
            let image = directory.with_extension("image");
            std::fs::File::create(&image).unwrap().set_len(24 << 20).unwrap();
            run("mkfs.ext4", &["-q", "-F", "-b", "1024", "-m", "0", &text(&image)])
                && run("mount", &["-o", "loop", &text(&image), &text(directory)])
        }
    }
}

/// A disk with a stead on it.
pub(crate) struct Disk {
    directory: PathBuf,
}

impl Disk {
    /// A stead in an existing directory.
    pub(crate) fn at(directory: &Path) -> Self {
        Disk { directory: directory.to_owned() }
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.join(relative)
    }

    /// Writes a configuration with one Virtual Store, and some files into that Store.
    pub(crate) fn set_up(&self) {
        let config = "[stores.notes]\nkind = \"virtual\"\n[[agents.a.workspaces]]\nprefix = \"/notes\"\n\
                      scope = \"rw\"\nstore = \"notes\"\n";
        std::fs::write(self.path("stead.toml"), config).unwrap();
        for number in 0..14 {
            let text = format!("line of file {number}\n").repeat(900);
            assert_eq!(self.exit_code(&["write", &format!("/notes/f{number}"), &text]), 0);
            if number == 0 {
                // Version 1 stays, whatever retention removes.
                assert_eq!(self.exit_code(&["snapshot", "/notes"]), 0);
            }
        }
        assert_eq!(self.exit_code(&["write", "/notes/keep", "hello\n"]), 0);
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
        command.args(args).current_dir(&self.directory).stdin(Stdio::null());
        for name in ["STEAD_CONFIG", "STEAD_AGENT", "STEAD_TOKEN", "XDG_CONFIG_HOME", "XDG_STATE_HOME"] {
            command.env_remove(name);
        }
        command.env("HOME", self.path("no-home"));
        command
    }

    pub(crate) fn stead(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The exit code of a command. Fails if a signal killed it.
    #[track_caller]
    pub(crate) fn exit_code(&self, args: &[&str]) -> i32 {
        let output = self.stead(args);
        output.status.code().unwrap_or_else(|| panic!("{args:?}: {:?}", output.status))
    }

    /// The exit code of a command, and its whole output.
    pub(crate) fn run(&self, args: &[&str]) -> (i32, String) {
        let output = self.stead(args);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
    }

    /// The output of a command that has to succeed.
    #[track_caller]
    pub(crate) fn run_ok(&self, args: &[&str]) -> String {
        let output = self.stead(args);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {stdout}{stderr}");
        stdout
    }

    /// How many bytes of the disk are free.
    pub(crate) fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.directory).unwrap();
        disk.f_bfree * disk.f_frsize
    }

    /// Fills the disk until only `free` bytes are left.
    pub(crate) fn fill_except(&self, free: u64) {
        use std::os::unix::fs::FileExt;
        let filler = std::fs::File::create(self.path("filler")).unwrap();
        let disk = rustix::fs::statvfs(&self.directory).unwrap();
        let available = disk.f_bfree * disk.f_frsize;
        let _ = rustix::fs::fallocate(
            &filler,
            rustix::fs::FallocateFlags::empty(),
            0,
            available.saturating_sub(free).max(1),
        );
        // If that was too much at once, smaller pieces may still fit: small blocks need blocks of their own.
        let mut offset = filler.metadata().unwrap().len();
        while {
            let disk = rustix::fs::statvfs(&self.directory).unwrap();
            disk.f_bfree * disk.f_frsize > free && filler.write_all_at(&[1; 1024], offset).is_ok()
        } {
            offset += 1024;
        }
    }

    pub(crate) fn remove_filler(&self) {
        std::fs::remove_file(self.path("filler")).unwrap();
    }
}
