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
const PROTOCOL_VERSIONS: [(&str, usize); 2] = [("2025-11-25", 30), ("2026-07-28", 37)];

/// Runs all of them.
pub(crate) fn run(length: RunLength, page: HostsPage) -> Result {
    let clients = TestClients::fetch()?;
    let conformance_binary =
        clients.copy_binary(&build(&["--features", "conformance"])?, "stead-conformance")?;
    let binary = build(&[])?;
    let mut steps = StepRunner::default();

    for (version, _) in PROTOCOL_VERSIONS {
        let setup = ServerSetup::new(binary.clone(), clients.fresh_directory(&format!("suite-{version}"))?)?;
        let baseline = sources_directory().join("conformance.yaml");
        steps.run(&format!("conformance {version}"), || {
            let server = setup.serve()?;
            let mut suite = suite(&clients, &server, version);
            capture(suite.arg("--expected-failures").arg(&baseline)).map(drop)
        })?;
    }
    for (version, required) in PROTOCOL_VERSIONS {
        let setup = ServerSetup::new(
            conformance_binary.clone(),
            clients.fresh_directory(&format!("fixtures-{version}"))?,
        )?;
        steps.run(&format!("conformance {version}, fixtures"), || {
            let server = setup.serve()?;
            let passed = passed_count(&capture(&mut suite(&clients, &server, version))?);
            // A suite that ran nothing reports no failure. That must not count as a clean result.
            if passed == required { Ok(()) } else { Err(format!("{passed} of {required} passed").into()) }
        })?;
    }

    let setup = ServerSetup::new(binary.clone(), clients.fresh_directory("clients")?)?;
    let token = setup.create_token(&["--structured"])?;
    let server = setup.serve()?;
    let run_script = |mut script: Command| {
        script.env("STEAD_BIN", setup.binary()).env("STEAD_CONFIG", setup.config());
        script.env("STEAD_URL", server.url()).env("STEAD_TOKEN", &token);
        capture(&mut script).map(drop)
    };
    steps.run("Python client", || run_script(clients.python_script("python/drive.py")))?;
    for (example, script) in [("threads", "loop.py"), ("team", "team.py")] {
        steps.run(&format!("example of {example}"), || {
            let directory = clients.fresh_directory(example)?;
            let source = programs::root().join("examples").join(example);
            let setup = ServerSetup::from_example(&source, binary.clone(), directory.clone())?;
            let mut script = clients.python(&directory.join(script));
            script.current_dir(&directory).env("STEAD_BIN", setup.binary());
            for name in ["STEAD_CONFIG", "STEAD_AGENT", "STEAD_TOKEN"] {
                script.env_remove(name);
            }
            capture(&mut script).map(drop)
        })?;
    }
    steps.run("TypeScript clients", || run_script(clients.node_script("typescript/drive.mjs")?))?;
    steps.run("Inspector, stdio", || {
        let mut inspector = inspector(&clients);
        inspector.arg("-e").arg(format!("STEAD_CONFIG={}", setup.config().display()));
        capture(inspector.arg(setup.binary()).args(["mcp", "--agent", "coder"])).map(drop)
    })?;
    steps.run("Inspector, HTTP", || {
        let mut inspector = inspector(&clients);
        inspector.args(["--transport", "http", "--server-url", server.url(), "--header"]);
        capture(inspector.arg(format!("Authorization: Bearer {token}"))).map(drop)
    })?;
    mcp_hosts::run(&clients, &binary, length, page, &mut steps)?;
    steps.finish()
}

/// Builds the binary and returns its path.
fn build(options: &[&str]) -> Result<PathBuf> {
    capture(cargo().args(["build", "--package", "stead-cli"]).args(options))?;
    Ok(programs::target().join("debug/stead"))
}

/// The command that runs the suite with the requirements of one protocol version.
fn suite(clients: &TestClients, server: &RunningServer, version: &str) -> Command {
    let mut suite = clients.node("@modelcontextprotocol/conformance/dist/index.js");
    suite.args(["server", "--url", server.url(), "--requirements", version]);
    suite
}

/// The command that lists the tools and checks their schemas against what the APIs of models accept.
fn inspector(clients: &TestClients) -> Command {
    let mut inspector = clients.node(".bin/mcp-inspector");
    inspector.args(["--cli", "--method", "tools/list", "--strict"]);
    inspector
}

/// How many of the scored scenarios have passed, according to the suite's summary.
fn passed_count(output: &str) -> usize {
    let summary = output.split_once("=== SUMMARY ===").map_or("", |(_, summary)| summary);
    let (scored, not_scored) = summary.split_once("Not scored").unwrap_or((summary, ""));
    let count_passed = |text: &str| text.lines().filter(|line| line.trim_start().starts_with('✓')).count();
    count_passed(scored) - count_passed(not_scored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_that_are_not_scored_are_not_counted() {
        let output = "✓ noise\n=== SUMMARY ===\n✓ ping: 2 passed, 0 failed\n✗ fly: 0 passed, 1 failed\n\
                    ✓ swim: 1 passed, 0 failed\n\nNot scored for 1: 2 run\n  ✓ swim (pending)\n  ✗ fly (extension)\n";
        assert_eq!(passed_count(output), 1);
        assert_eq!(passed_count(""), 0);
    }
}
