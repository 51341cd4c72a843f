//! A stead that the binary that is tested shows as a directory, for as long as a program needs it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::Result;
use crate::host::{self, capture, program};

/// A binary, and a directory with a configuration to use it in.
#[derive(Debug)]
pub(crate) struct Setting {
    binary: PathBuf,
    place: PathBuf,
}

impl Setting {
    /// Puts the configuration of these tests into a place.
    pub(crate) fn new(binary: &Path, place: PathBuf) -> Result<Self> {
        for directory in ["project", "mnt"] {
            fs::create_dir(place.join(directory))?;
        }
        fs::copy(host::root().join("tests/mount/stead.toml"), place.join("stead.toml"))?;
        Ok(Setting { binary: binary.to_owned(), place })
    }

    /// A directory of the host, beside what is mounted.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    /// Fails if something that is stored is wrong.
    pub(crate) fn verify(&self) -> Result {
        capture(self.stead().arg("verify")).map(drop)
    }

    fn stead(&self) -> Command {
        let mut command = program(&self.binary);
        command.current_dir(&self.place).arg("--config").arg(self.place.join("stead.toml"));
        for name in ["STEAD_CONFIG", "STEAD_AGENT", "STEAD_TOKEN"] {
            command.env_remove(name);
        }
        command
    }
}

/// A stead that is mounted; it is unmounted when this is dropped.
#[derive(Debug)]
pub(crate) struct Mounted {
    child: Child,
    at: PathBuf,
}

impl Mounted {
    /// Mounts it for all users of the host.
    pub(crate) fn new(setting: &Setting) -> Result<Self> {
        let mut command = setting.stead();
        let said = setting.place.join("said.txt");
        command.args(["mount", "--allow-other", "mnt"]);
        let mut child = command.stdout(Stdio::piped()).stderr(fs::File::create(&said)?).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout is piped")).read_line(&mut line)?;
        if line.is_empty() {
            return Err(format!("it can't be mounted: {}", fs::read_to_string(said)?).into());
        }
        Ok(Mounted { child, at: setting.place.join("mnt") })
    }

    /// A Workspace on the mount.
    pub(crate) fn path(&self, workspace: &str) -> PathBuf {
        self.at.join(workspace)
    }

    /// Unmounts it, and waits until all that was written is stored.
    pub(crate) fn end(mut self) -> Result {
        capture(program("umount").arg(&self.at))?;
        let ended = self.child.wait()?;
        if ended.success() { Ok(()) } else { Err(format!("the mount ended with {ended}").into()) }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // If it has ended by itself there is nothing left to end. Its keeper clears the mount away.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
