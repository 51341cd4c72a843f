//! The server: the real binary in a process of its own, whose memory can be measured.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use stead::{Clock, Config, Identity, SystemClock, Tokens};

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

/// A running server. Dropping it ends the process.
pub(crate) struct Server {
    child: Child,
    directory: tempfile::TempDir,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn launch() -> Self {
        Server::launch_with(CONFIG, |_| ())
    }

    /// Starts a server with this configuration, in a directory that `prepare` fills first.
    pub(crate) fn launch_with(config: &str, prepare: impl FnOnce(&Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("stead.toml"), config).unwrap();
        prepare(directory.path());
        let mut command = stead(&directory);
        command.args(["serve", "--structured", "--listen", "127.0.0.1:0", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let startup_info: Value = serde_json::from_str(&line).unwrap();
        let url = startup_info["listening"].as_str().unwrap();
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().parse().unwrap();
        Server { child, directory, address }
    }

    /// Creates a token for an agent.
    pub(crate) fn token(&self, agent: &str) -> String {
        let output =
            stead(&self.directory).args(["token", "create", "--agent", agent, "--json"]).output().unwrap();
        let token: Value = serde_json::from_slice(&output.stdout).unwrap();
        token["token"].as_str().unwrap().to_owned()
    }

    /// Creates tokens for agents, without a process for each.
    pub(crate) fn tokens(&self, agents: impl IntoIterator<Item = String>) -> Vec<String> {
        let tokens = Tokens::of(&Config::load(&self.path("stead.toml")).unwrap());
        let create_token =
            |agent: String| tokens.create(Identity::agent(agent), None, SystemClock.now()).unwrap().1;
        agents.into_iter().map(create_token).collect()
    }

    /// A path in the server's directory.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    /// Requests a path of the server, and returns the status and the body.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("the server answers");
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Waits until the metrics contain a line.
    pub(crate) fn wait_for_metric(&self, line: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let metrics = self.get("/metrics").1;
            if metrics.lines().any(|metric| metric == line) {
                return;
            }
            assert!(Instant::now() < deadline, "the metrics never contained `{line}`: {metrics}");
        }
    }

    /// How much memory the server uses now, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.status("VmRSS:").strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }

    /// The most memory that the server has used, in bytes.
    pub(crate) fn peak(&self) -> u64 {
        self.status("VmHWM:").strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }

    /// How many threads the server has.
    pub(crate) fn threads(&self) -> u64 {
        self.status("Threads:").parse().unwrap()
    }

    fn status(&self, name: &str) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stead(directory: &tempfile::TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
    command.current_dir(directory.path()).stdin(Stdio::null());
    for name in ["STEAD_CONFIG", "STEAD_AGENT", "STEAD_TOKEN"] {
        command.env_remove(name);
    }
    command
}
