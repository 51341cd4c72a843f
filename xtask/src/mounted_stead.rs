//! Mounts a stead with the tested binary, for as long as a program needs it.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::Result;
use crate::programs::{self, capture, program};
use crate::second_user::SecondUser;

/// The tested binary, a directory with a configuration for it, and the user who runs it.
#[derive(Debug)]
pub(crate) struct MountSetup<'u> {
    binary: PathBuf,
    directory: PathBuf,
    user: Option<&'u SecondUser>,
}

impl<'u> MountSetup<'u> {
    /// Puts the configuration of these tests into `directory`. `user` runs the binary; `None`: the current user does.
    pub(crate) fn new(binary: &Path, directory: PathBuf, user: Option<&'u SecondUser>) -> Result<Self> {
        for name in ["project", "mnt"] {
            fs::create_dir(directory.join(name))?;
        }
        fs::copy(programs::root().join("tests/mount/stead.toml"), directory.join("stead.toml"))?;
        if let Some(user) = user {
            for name in ["", "project", "mnt", "stead.toml"] {
                user.give_ownership(&directory.join(name))?;
            }
        }
        Ok(MountSetup { binary: binary.to_owned(), directory, user })
    }

    /// A program that the user of this setup runs.
    pub(crate) fn program(&self, name: impl AsRef<OsStr>) -> Command {
        let mut command = program(name);
        if let Some(user) = self.user {
            user.run_as(&mut command);
        }
        command
    }

    /// Whether root runs it.
    fn is_run_by_root(&self) -> bool {
        self.user.is_none() && programs::is_root()
    }

    /// A directory of the host, next to the mount.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs `stead verify`, and fails if it finds a problem.
    pub(crate) fn verify(&self) -> Result {
        capture(self.stead().arg("verify")).map(drop)
    }

    fn stead(&self) -> Command {
        let mut command = self.program(&self.binary);
        command.current_dir(&self.directory).arg("--config").arg(self.directory.join("stead.toml"));
        for name in ["STEAD_CONFIG", "STEAD_AGENT", "STEAD_TOKEN"] {
            command.env_remove(name);
        }
        command
    }
}

/// A mounted stead. Dropping it ends its process.
#[derive(Debug)]
pub(crate) struct MountedStead<'s> {
    setup: &'s MountSetup<'s>,
    child: Child,
    mount_point: PathBuf,
}

impl<'s> MountedStead<'s> {
    /// Mounts the stead. If root does it, all users of the host may use the mount.
    pub(crate) fn new(setup: &'s MountSetup<'s>) -> Result<Self> {
        let mut command = setup.stead();
        let stderr = setup.directory.join("said.txt");
        command.args(["mount", "mnt"]);
        if setup.is_run_by_root() {
            command.arg("--allow-other");
        }
        let mut child = command.stdout(Stdio::piped()).stderr(fs::File::create(&stderr)?).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout is piped")).read_line(&mut line)?;
        if line.is_empty() {
            return Err(format!("the stead can't be mounted: {}", fs::read_to_string(stderr)?).into());
        }
        Ok(MountedStead { setup, child, mount_point: setup.directory.join("mnt") })
    }

    /// The path of a Workspace on the mount.
    pub(crate) fn path(&self, workspace: &str) -> PathBuf {
        self.mount_point.join(workspace)
    }

    /// Unmounts the stead, and waits until everything that was written is stored.
    pub(crate) fn unmount(mut self) -> Result {
        let mut unmount = match self.setup.is_run_by_root() {
            true => program("umount"),
            false => self.setup.program("fusermount3"),
        };
        if !self.setup.is_run_by_root() {
            unmount.arg("-u");
        }
        capture(unmount.arg(&self.mount_point))?;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the mount ended with {status}").into()) }
    }
}

impl Drop for MountedStead<'_> {
    fn drop(&mut self) {
        // Fails if the process has ended already. Its watchdog removes the mount.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
