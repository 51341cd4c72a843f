//! `cargo xtask clients`: the server, held to the protocol by others: the official conformance suite, the official
//! clients, and the Inspector.

use std::path::PathBuf;
use std::process::Command;

use crate::Result;
use crate::host::{self, capture, cargo};
use crate::peers::{Peers, sources};
use crate::served::{Served, Setting};
use crate::steps::Steps;

/// The revisions of the protocol that the suite has requirements for.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Runs all of them.
pub(crate) fn run() -> Result {
    let peers = Peers::provide()?;
    let real = build()?;
    let mut steps = Steps::default();

    for revision in REVISIONS {
        let setting = Setting::new(real.clone(), peers.place(&format!("suite-{revision}"))?)?;
        let baseline = sources().join("conformance.yaml");
        steps.step(&format!("conformance {revision}"), || {
            let served = setting.serve()?;
            let mut suite = suite(&peers, &served, revision);
            capture(suite.arg("--expected-failures").arg(&baseline)).map(drop)
        })?;
    }

    let setting = Setting::new(real, peers.place("clients")?)?;
    let token = setting.token()?;
    let served = setting.serve()?;
    let told = |mut script: Command| {
        script.env("STEAD_BIN", setting.binary()).env("STEAD_CONFIG", setting.config());
        script.env("STEAD_URL", served.url()).env("STEAD_TOKEN", &token);
        capture(&mut script).map(drop)
    };
    steps.step("Python client", || told(peers.python_script("python/drive.py")))?;
    steps.step("TypeScript clients", || told(peers.node_script("typescript/drive.mjs")?))?;
    steps.step("Inspector, stdio", || {
        let mut inspector = inspector(&peers);
        inspector.arg("-e").arg(format!("STEAD_CONFIG={}", setting.config().display()));
        capture(inspector.arg(setting.binary()).args(["mcp", "--agent", "coder"])).map(drop)
    })?;
    steps.step("Inspector, HTTP", || {
        let mut inspector = inspector(&peers);
        inspector.args(["--transport", "http", "--server-url", served.url(), "--header"]);
        capture(inspector.arg(format!("Authorization: Bearer {token}"))).map(drop)
    })?;
    steps.end()
}

/// Builds the binary, and says where it is.
fn build() -> Result<PathBuf> {
    capture(cargo().args(["build", "--package", "stead-cli"]))?;
    Ok(host::target().join("debug/stead"))
}

/// What a revision of the protocol requires of a server.
fn suite(peers: &Peers, served: &Served, revision: &str) -> Command {
    let mut suite = peers.node("@modelcontextprotocol/conformance/dist/index.js");
    suite.args(["server", "--url", served.url(), "--requirements", revision]);
    suite
}

/// A list of the tools whose schemas are held to what models' APIs take.
fn inspector(peers: &Peers) -> Command {
    let mut inspector = peers.node(".bin/mcp-inspector");
    inspector.args(["--cli", "--method", "tools/list", "--strict"]);
    inspector
}
