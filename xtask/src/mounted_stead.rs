//! A stead that the binary that is tested shows as a directory, for as long as a program needs it.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::Result;
use crate::programs::{self, capture, program};
use crate::second_user::SecondUser;

/// A binary, a directory with a configuration to use it in, and who uses it.
#[derive(Debug)]
pub(crate) struct MountSetup<'u> {
    binary: PathBuf,
    directory: PathBuf,
    user: Option<&'u SecondUser>,
}

impl<'u> MountSetup<'u> {
    /// Puts the configuration of these tests into a place. Whoever runs this uses it, unless it is another user.
    pub(crate) fn new(binary: &Path, place: PathBuf, user: Option<&'u SecondUser>) -> Result<Self> {
        for directory in ["project", "mnt"] {
            fs::create_dir(place.join(directory))?;
        }
        fs::copy(programs::root().join("tests/mount/stead.toml"), place.join("stead.toml"))?;
        if let Some(user) = user {
            for name in ["", "project", "mnt", "stead.toml"] {
                user.give_ownership(&place.join(name))?;
            }
        }
        Ok(MountSetup { binary: binary.to_owned(), directory: place, user })
    }

    /// A program, to be started by who uses it.
    pub(crate) fn program(&self, name: impl AsRef<OsStr>) -> Command {
        let mut command = program(name);
        if let Some(user) = self.user {
            user.run_as(&mut command);
        }
        command
    }

    /// Whether root uses it.
    fn is_run_by_root(&self) -> bool {
        self.user.is_none() && programs::is_root()
    }

    /// A directory of the host, beside what is mounted.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Fails if something that is stored is wrong.
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

/// A stead that is mounted; it is unmounted when this is dropped.
#[derive(Debug)]
pub(crate) struct MountedStead<'s> {
    setup: &'s MountSetup<'s>,
    child: Child,
    mount_point: PathBuf,
}

impl<'s> MountedStead<'s> {
    /// Mounts it: for all users of the host, if root does.
    pub(crate) fn new(setting: &'s MountSetup<'s>) -> Result<Self> {
        let mut command = setting.stead();
        let said = setting.directory.join("said.txt");
        command.args(["mount", "mnt"]);
        if setting.is_run_by_root() {
            command.arg("--allow-other");
        }
        let mut child = command.stdout(Stdio::piped()).stderr(fs::File::create(&said)?).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout is piped")).read_line(&mut line)?;
        if line.is_empty() {
            return Err(format!("it can't be mounted: {}", fs::read_to_string(said)?).into());
        }
        Ok(MountedStead { setup: setting, child, mount_point: setting.directory.join("mnt") })
    }

    /// A Workspace on the mount.
    pub(crate) fn path(&self, workspace: &str) -> PathBuf {
        self.mount_point.join(workspace)
    }

    /// Unmounts it, and waits until all that was written is stored.
    pub(crate) fn unmount(mut self) -> Result {
        let mut unmount = match self.setup.is_run_by_root() {
            true => program("umount"),
            false => self.setup.program("fusermount3"),
        };
        if !self.setup.is_run_by_root() {
            unmount.arg("-u");
        }
        capture(unmount.arg(&self.mount_point))?;
        let ended = self.child.wait()?;
        if ended.success() { Ok(()) } else { Err(format!("the mount ended with {ended}").into()) }
    }
}

impl Drop for MountedStead<'_> {
    fn drop(&mut self) {
        // If it has ended by itself there is nothing left to end. Its keeper clears the mount away.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
