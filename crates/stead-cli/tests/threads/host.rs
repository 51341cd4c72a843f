//! A directory with a configuration, and the processes that work there: commands, servers and mounts.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use stead::{Clock, Config, Identity, Stores, SystemClock, Tokens};

use crate::connection::{Connection, Era};

/// The kinds of Store that a thread's files can be on.
pub(crate) const KINDS: [&str; 3] = ["virtual", "memory", "physical"];

/// A Store `s` of a kind.
pub(crate) fn store(kind: &str) -> String {
    let path = if kind == "physical" { "path = \"files\"\n" } else { "" };
    format!("[stores.s]\nkind = \"{kind}\"\n{path}")
}

pub(crate) struct Host {
    directory: tempfile::TempDir,
    /// How long a lease holds in the processes that are started here.
    lease: Duration,
}

impl Host {
    pub(crate) fn new(config: &str, lease: Duration) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("files")).unwrap();
        fs::write(directory.path().join("stead.toml"), config).unwrap();
        Host { directory, lease }
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    pub(crate) fn config(&self) -> Config {
        Config::load(&self.path("stead.toml")).unwrap()
    }

    /// The Stores as another process has them.
    pub(crate) fn stores(&self) -> Stores {
        Stores::of(&self.config()).with_lease_ttl(self.lease)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
        command.args(args).current_dir(&self.directory).stdin(Stdio::null());
        for variable in ["STEAD_CONFIG", "STEAD_AGENT", "STEAD_TOKEN", "XDG_CONFIG_HOME", "XDG_STATE_HOME"] {
            command.env_remove(variable);
        }
        command.env("HOME", self.path("no-home"));
        command.env("STEAD_TEST_LEASE_TTL_MS", self.lease.as_millis().to_string());
        command
    }

    /// Runs a command in a thread.
    pub(crate) fn run_in(&self, agent: &str, thread: &str, args: &[&str]) -> Output {
        self.command(&[args, &["--agent", agent, "--thread", thread]].concat()).output().unwrap()
    }

    /// What a command in a thread prints, which has to succeed.
    pub(crate) fn stead_in(&self, agent: &str, thread: &str, args: &[&str]) -> String {
        let output = self.run_in(agent, thread, args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts a server.
    pub(crate) fn serve(&self) -> Server {
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let start: Value = serde_json::from_str(&line).unwrap();
        let url = start["listening"].as_str().unwrap();
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().parse().unwrap();
        Server { child, address }
    }

    pub(crate) fn token(&self, agent: &str, thread: Option<&str>) -> String {
        let identity = Identity { thread: thread.map(str::to_owned), ..Identity::agent(agent) };
        Tokens::of(&self.config()).create(identity, None, SystemClock.now()).unwrap().1
    }

    /// A client of a thread, with a token of its own.
    pub(crate) fn connect(&self, server: &Server, agent: &str, thread: Option<&str>) -> Connection {
        Connection::open(server.address, &self.token(agent, thread), Era::NoSessions)
    }

    /// Mounts a thread's stead, or prints SKIPPED and returns `None` where there is no FUSE.
    pub(crate) fn mount(&self, at: &str, agent: &str, thread: &str, options: &[&str]) -> Option<Mounted> {
        if !Path::new("/dev/fuse").exists() {
            eprintln!("SKIPPED: this host has no /dev/fuse");
            return None;
        }
        let point = self.path(at);
        fs::create_dir_all(&point).unwrap();
        let thread = if thread.is_empty() { vec![] } else { vec!["--thread", thread] };
        let args = [&["mount", at, "--agent", agent], &*thread, options].concat();
        let mut child = self.command(&args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("Mounted at "), "{line:?}");
        Some(Mounted { child, point })
    }

    /// The names of the threads that there are, sorted.
    pub(crate) fn threads(&self) -> Vec<String> {
        let threads = Stores::of(&self.config()).threads().list(None).unwrap();
        threads.into_iter().map(|record| record.key.thread).collect()
    }
}

/// A running server. Dropping it kills the process.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends the server in the ordinary way.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        assert!(self.child.wait().unwrap().success());
    }

    /// The metrics that anyone on this machine can read.
    pub(crate) fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address)
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A mounted stead. Dropping it unmounts it.
pub(crate) struct Mounted {
    child: Child,
    pub(crate) point: PathBuf,
}

impl Mounted {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Writes a file, or says why that failed.
pub(crate) fn write(client: &mut Connection, path: &str, content: &str) -> Result<(), String> {
    let result = client.try_call("write_file", json!({ "path": path, "content": content }));
    if result["isError"] == true { Err(result["content"][0]["text"].to_string()) } else { Ok(()) }
}

/// Reads a file as a model gets it, or says why that failed.
pub(crate) fn read(client: &mut Connection, path: &str) -> Result<String, String> {
    let result = client.try_call("read_file", json!({ "path": path }));
    let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    if result["isError"] == true { Err(text) } else { Ok(text) }
}

/// Waits for what happens by itself.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(40);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: it doesn't happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}
