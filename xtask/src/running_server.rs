//! Runs a server of the tested binary, over HTTP on this machine, for as long as a client needs it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::Result;
use crate::programs::{capture, program};
use crate::test_clients::sources_directory;

/// The tested binary, and a directory with a configuration for it.
#[derive(Debug, Clone)]
pub(crate) struct ServerSetup {
    binary: PathBuf,
    directory: PathBuf,
}

impl ServerSetup {
    /// Copies the configuration of these tests, with the files that it refers to, to `directory`.
    pub(crate) fn new(binary: PathBuf, directory: PathBuf) -> Result<Self> {
        ServerSetup::from_example(&sources_directory().join("place"), binary, directory)
    }

    /// Copies the configuration in `example`, with the files that it refers to, to `directory`.
    pub(crate) fn from_example(example: &Path, binary: PathBuf, directory: PathBuf) -> Result<Self> {
        copy_tree(example, &directory)?;
        Ok(ServerSetup { binary, directory })
    }

    /// The path of the configuration.
    pub(crate) fn config(&self) -> PathBuf {
        self.directory.join("stead.toml")
    }

    /// The tested binary.
    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }

    /// Creates a token for the agent, with further options of `stead token create`. From then on every client needs
    /// one.
    pub(crate) fn create_token(&self, options: &[&str]) -> Result<String> {
        let mut create = self.stead();
        create.args(["token", "create", "--agent", "coder", "--json"]).args(options);
        json_text(&capture(&mut create)?, "token")
    }

    /// Starts the server, and waits until it listens.
    pub(crate) fn serve(&self) -> Result<RunningServer> {
        let mut command = self.stead();
        command.args(["serve", "--agent", "coder", "--listen", "127.0.0.1:0", "--json"]);
        let stderr = self.directory.join("said.txt");
        let mut child = command.stdout(Stdio::piped()).stderr(fs::File::create(&stderr)?).spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut server = RunningServer { child, url: String::new() };
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        if line.is_empty() {
            return Err(format!("the server did not start: {}", fs::read_to_string(stderr)?).into());
        }
        server.url = json_text(&line, "listening")?;
        Ok(server)
    }

    fn stead(&self) -> Command {
        let mut command = program(&self.binary);
        command.current_dir(&self.directory).arg("--config").arg(self.config());
        for name in ["STEAD_CONFIG", "STEAD_AGENT", "STEAD_TOKEN"] {
            command.env_remove(name);
        }
        command
    }
}

/// A running server. Dropping it ends its process.
#[derive(Debug)]
pub(crate) struct RunningServer {
    child: Child,
    url: String,
}

impl RunningServer {
    /// The URL of the MCP endpoint.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // Fails if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn copy_tree(from: &Path, to: &Path) -> Result {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

fn json_text(json: &str, key: &str) -> Result<String> {
    let value: Value = serde_json::from_str(json).map_err(|_| format!("`{json}` isn't valid JSON"))?;
    Ok(value[key].as_str().ok_or_else(|| format!("`{json}` has no `{key}`"))?.to_owned())
}
