//! `cargo xtask clients`: tests the server with third-party software: the official conformance suite, the official
//! clients, the Inspector and real hosts.

use std::path::PathBuf;
use std::process::Command;

use crate::Result;
use crate::mcp_hosts::{self, HostsPage};
use crate::programs::{self, capture, cargo};
use crate::running_server::{RunningServer, ServerSetup};
use crate::steps::StepRunner;
use crate::test::RunLength;
use crate::test_clients::{TestClients, sources_directory};

/// The protocol versions that the suite has requirements for, and how many scenarios each requires.
const REVISIONS: [(&str, usize); 2] = [("2025-11-25", 30), ("2026-07-28", 37)];

/// Runs all of them.
pub(crate) fn run(length: RunLength, page: HostsPage) -> Result {
    let peers = TestClients::fetch()?;
    let fixtures = peers.keep_copy(&build(&["--features", "conformance"])?, "stead-conformance")?;
    let real = build(&[])?;
    let mut steps = StepRunner::default();

    for (revision, _) in REVISIONS {
        let setting = ServerSetup::new(real.clone(), peers.fresh_directory(&format!("suite-{revision}"))?)?;
        let baseline = sources_directory().join("conformance.yaml");
        steps.run(&format!("conformance {revision}"), || {
            let served = setting.serve()?;
            let mut suite = suite(&peers, &served, revision);
            capture(suite.arg("--expected-failures").arg(&baseline)).map(drop)
        })?;
    }
    for (revision, required) in REVISIONS {
        let setting =
            ServerSetup::new(fixtures.clone(), peers.fresh_directory(&format!("fixtures-{revision}"))?)?;
        steps.run(&format!("conformance {revision}, fixtures"), || {
            let served = setting.serve()?;
            let passed = passed_count(&capture(&mut suite(&peers, &served, revision))?);
            // A suite that ran nothing reports no failure. That must not count as a clean result.
            if passed == required { Ok(()) } else { Err(format!("{passed} of {required} passed").into()) }
        })?;
    }

    let setting = ServerSetup::new(real.clone(), peers.fresh_directory("clients")?)?;
    let token = setting.create_token(&["--structured"])?;
    let served = setting.serve()?;
    let told = |mut script: Command| {
        script.env("STEAD_BIN", setting.binary()).env("STEAD_CONFIG", setting.config());
        script.env("STEAD_URL", served.url()).env("STEAD_TOKEN", &token);
        capture(&mut script).map(drop)
    };
    steps.run("Python client", || told(peers.python_script("python/drive.py")))?;
    steps.run("TypeScript clients", || told(peers.node_script("typescript/drive.mjs")?))?;
    steps.run("Inspector, stdio", || {
        let mut inspector = inspector(&peers);
        inspector.arg("-e").arg(format!("STEAD_CONFIG={}", setting.config().display()));
        capture(inspector.arg(setting.binary()).args(["mcp", "--agent", "coder"])).map(drop)
    })?;
    steps.run("Inspector, HTTP", || {
        let mut inspector = inspector(&peers);
        inspector.args(["--transport", "http", "--server-url", served.url(), "--header"]);
        capture(inspector.arg(format!("Authorization: Bearer {token}"))).map(drop)
    })?;
    mcp_hosts::run(&peers, &real, length, page, &mut steps)?;
    steps.finish()
}

/// Builds the binary and returns its path.
fn build(options: &[&str]) -> Result<PathBuf> {
    capture(cargo().args(["build", "--package", "stead-cli"]).args(options))?;
    Ok(programs::target().join("debug/stead"))
}

/// The command that runs the suite with the requirements of one protocol version.
fn suite(peers: &TestClients, served: &RunningServer, revision: &str) -> Command {
    let mut suite = peers.node("@modelcontextprotocol/conformance/dist/index.js");
    suite.args(["server", "--url", served.url(), "--requirements", revision]);
    suite
}

/// The command that lists the tools and checks their schemas against what the APIs of models accept.
fn inspector(peers: &TestClients) -> Command {
    let mut inspector = peers.node(".bin/mcp-inspector");
    inspector.args(["--cli", "--method", "tools/list", "--strict"]);
    inspector
}

/// How many of the scored scenarios have passed, according to the suite's summary.
fn passed_count(said: &str) -> usize {
    let summary = said.split_once("=== SUMMARY ===").map_or("", |(_, summary)| summary);
    let (all, not_counted) = summary.split_once("Not scored").unwrap_or((summary, ""));
    let ticks = |text: &str| text.lines().filter(|line| line.trim_start().starts_with('✓')).count();
    ticks(all) - ticks(not_counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_scored_is_not_counted() {
        let said = "✓ noise\n=== SUMMARY ===\n✓ ping: 2 passed, 0 failed\n✗ fly: 0 passed, 1 failed\n\
                    ✓ swim: 1 passed, 0 failed\n\nNot scored for 1: 2 run\n  ✓ swim (pending)\n  ✗ fly (extension)\n";
        assert_eq!(passed_count(said), 1);
        assert_eq!(passed_count(""), 0);
    }
}
