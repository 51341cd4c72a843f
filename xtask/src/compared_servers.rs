//! The MCP servers that ours is compared with, each in one version, installed below the target directory.

use std::path::{Path, PathBuf};

use crate::Result;
use crate::programs::{capture, cargo, program};
use crate::required_programs::{self, NPM};

/// A crate, and the version to compare with.
const RUST_SERVER: (&str, &str) = ("rust-mcp-filesystem", "0.4.5");
/// An npm package, and the version to compare with.
const NODE_SERVER: (&str, &str) = ("@modelcontextprotocol/server-filesystem", "2026.8.31");

/// Where the other servers are installed.
pub(crate) struct ComparedServers {
    /// An executable.
    pub(crate) rust: PathBuf,
    /// A script for `node`.
    pub(crate) node: PathBuf,
}

/// Installs the servers that are missing.
pub(crate) fn install_all(target: &Path) -> Result<ComparedServers> {
    let crate_root = install_directory(target, RUST_SERVER);
    let servers =
        ComparedServers { rust: crate_root.join("bin").join(RUST_SERVER.0), node: install_node(target)? };
    if !servers.rust.is_file() {
        eprintln!("installing {} {}", RUST_SERVER.0, RUST_SERVER.1);
        let mut install = cargo();
        install
            .args(["install", RUST_SERVER.0, "--version", RUST_SERVER.1, "--locked", "--root"])
            .arg(crate_root);
        capture(install.arg("--target-dir").arg(target.join("peers/build")))?;
    }
    Ok(servers)
}

/// Installs the npm server if it is missing, and returns the path of its script for `node`.
pub(crate) fn install_node(target: &Path) -> Result<PathBuf> {
    required_programs::install_missing(&[NPM])?;
    let package_root = install_directory(target, NODE_SERVER);
    let script = package_root.join("node_modules").join(NODE_SERVER.0).join("dist/index.js");
    if !script.is_file() {
        eprintln!("installing {} {}", NODE_SERVER.0, NODE_SERVER.1);
        let mut install = program("npm");
        install.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(package_root);
        capture(install.arg(format!("{}@{}", NODE_SERVER.0, NODE_SERVER.1)))?;
    }
    Ok(script)
}

/// The directory that a version is installed in.
fn install_directory(target: &Path, (name, version): (&str, &str)) -> PathBuf {
    let name = name.rsplit('/').next().unwrap_or(name);
    target.join("peers").join(format!("{name}-{version}"))
}
