//! The servers: how each is started, and the names of its tools.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::client::Call;
use crate::Result;

/// A server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// Stead's server, over files in a database.
    Virtual,
    /// Stead's server, over files on disk.
    Physical,
    /// The crate `rust-mcp-filesystem`.
    Rust,
    /// The npm package `@modelcontextprotocol/server-filesystem`.
    Node,
}

/// All servers, in the order of the table.
pub const SERVERS: [Server; 4] = [Server::Virtual, Server::Physical, Server::Rust, Server::Node];

/// Where the programs are. `cargo xtask bench` builds and installs them before it starts the benchmark.
#[derive(Debug)]
pub struct Programs {
    stead: PathBuf,
    rust: PathBuf,
    node: PathBuf,
}

impl Programs {
    /// Reads the paths of the programs from environment variables.
    pub fn find() -> Result<Self> {
        let env_path = |name: &str| {
            let path = std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_file());
            path.ok_or_else(|| format!("{name} names no file; `cargo xtask bench mcp` sets it"))
        };
        Ok(Programs {
            stead: env_path("STEAD_BENCH_STEAD")?,
            rust: env_path("STEAD_BENCH_PEER_RUST")?,
            node: env_path("STEAD_BENCH_PEER_NODE")?,
        })
    }

    /// The command that starts a server over the files in `data`, in `files` and `virtual`. The state of Stead's server
    /// is in `data`, too.
    pub fn command(&self, server: Server, data: &Path) -> Command {
        let files = data.join("files");
        let mut command = match server {
            Server::Virtual | Server::Physical => Command::new(&self.stead),
            Server::Rust => Command::new(&self.rust),
            Server::Node => Command::new("node"),
        };
        match server {
            Server::Virtual => {
                command.current_dir(data.join("virtual")).args(["mcp", "--agent", "bench"]);
            }
            Server::Physical => {
                let mut argument = files.into_os_string();
                argument.push(":rw");
                command.env("XDG_STATE_HOME", data.join("state")).arg("mcp").arg(argument);
            }
            Server::Rust => {
                command.arg("--allow-write").arg(files);
            }
            Server::Node => {
                command.arg(&self.node).arg(files);
            }
        }
        command
    }
}

impl Server {
    /// Its name in the table.
    pub fn label(self) -> &'static str {
        match self {
            Server::Virtual => "Virtual",
            Server::Physical => "Physical",
            Server::Rust => "rust-mcp-filesystem",
            Server::Node => "server-filesystem",
        }
    }

    /// Whether it is Stead's server.
    pub fn is_ours(self) -> bool {
        matches!(self, Server::Virtual | Server::Physical)
    }

    /// The path as this server expects it. `path` is relative to the files.
    fn path(self, data: &Path, path: &str) -> String {
        match self {
            Server::Virtual | Server::Physical => format!("/files/{path}"),
            Server::Rust | Server::Node => data.join("files").join(path).to_string_lossy().into_owned(),
        }
    }

    /// Reads a file.
    pub fn read(self, data: &Path, path: &str) -> Call {
        let tool = if self.is_ours() { "read_file" } else { "read_text_file" };
        Call { tool, arguments: json!({ "path": self.path(data, path) }) }
    }

    /// Writes a file.
    pub fn write(self, data: &Path, path: &str, content: &str) -> Call {
        Call { tool: "write_file", arguments: json!({ "path": self.path(data, path), "content": content }) }
    }

    /// Lists a whole directory. Stead's server returns sizes and times, too; the others return only names.
    pub fn list(self, data: &Path, path: &str) -> Call {
        let mut arguments = json!({ "path": self.path(data, path) });
        if self.is_ours() {
            arguments["limit"] = 5_000.into();
        }
        Call { tool: "list_directory", arguments }
    }

    /// Finds files by name.
    pub fn find(self, data: &Path, directory: &str, pattern: &str) -> Call {
        let tool = if self.is_ours() { "glob" } else { "search_files" };
        Call { tool, arguments: json!({ "path": self.path(data, directory), "pattern": pattern }) }
    }

    /// Finds a text in files whose names end with `.txt`. `None` if the server has no tool for it.
    pub fn search(self, data: &Path, directory: &str, text: &str) -> Option<Call> {
        let path = self.path(data, directory);
        match self {
            Server::Virtual | Server::Physical => {
                let arguments =
                    json!({ "path": path, "pattern": text, "literal": true, "include": ["*.txt"] });
                Some(Call { tool: "grep", arguments })
            }
            Server::Rust => {
                let arguments = json!({ "path": path, "pattern": "*.txt", "query": text });
                Some(Call { tool: "search_files_content", arguments })
            }
            Server::Node => None,
        }
    }
}
