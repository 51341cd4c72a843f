//! The server: the real binary, in a process of its own, whose memory can be looked at.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

const CONFIG: &str = r#"
    [stores.ann]
    kind = "virtual"
    namespace = ["ann"]
    [stores.bob]
    kind = "virtual"
    namespace = ["bob"]

    [agents.ann]
    history = true
    [[agents.ann.workspaces]]
    prefix = "/mine"
    scope = "rw"
    store = "ann"

    [agents.bob]
    tools = ["append_file", "grep", "list_directory", "read_file", "undo", "write_file"]
    [[agents.bob.workspaces]]
    prefix = "/mine"
    scope = "rw"
    store = "bob"
"#;

/// A server that runs until it is dropped.
pub(crate) struct Server {
    child: Child,
    place: tempfile::TempDir,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn launch() -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("stead.toml"), CONFIG).unwrap();
        let mut command = stead(&place);
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let url = said["listening"].as_str().unwrap();
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().parse().unwrap();
        Server { child, place, address }
    }

    /// A token for an agent.
    pub(crate) fn token(&self, agent: &str) -> String {
        let made = stead(&self.place).args(["token", "create", "--agent", agent, "--json"]).output().unwrap();
        let token: Value = serde_json::from_slice(&made.stdout).unwrap();
        token["token"].as_str().unwrap().to_owned()
    }

    /// How much memory it has now, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stead(place: &tempfile::TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
    command.current_dir(place.path()).stdin(Stdio::null());
    for name in ["STEAD_CONFIG", "STEAD_AGENT", "STEAD_TOKEN"] {
        command.env_remove(name);
    }
    command
}
