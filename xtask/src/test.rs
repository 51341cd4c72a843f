//! `cargo xtask test`: every test of the workspace, and the loops that only mean something at full speed.
//!
//! A crash, race or concurrency loop is a test target with `test = false` in its crate's Cargo.toml: plain
//! `cargo test` skips it, and this task builds it with `--release`.
//!
//! Every user can run it. If root does, tests that depend on permission bits run a second time as another user. A test
//! that needs root, for example to act as several users, prints a line that begins with SKIPPED for other users.

use serde_json::Value;

use crate::Result;
use crate::failures::Failures;
use crate::programs::{self, cargo, run_shown};
use crate::{
    boundary, clients, dist, doc_commands, mcp_hosts, pictures, required_programs, second_user, torture,
};

/// The examples that the README and the guides show: they have to run too.
const EXAMPLES: [(&str, &str); 3] = [("stead", "first"), ("stead", "bad_day"), ("stead", "agent_loop")];

/// How often loops repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunLength {
    /// As often as CI can wait for.
    Short,
    /// As often as it takes to trust the result: `STEAD_TEST_LONG=1`.
    Long,
}

/// Runs everything, even after a failure, so that one run reports all failures.
pub(crate) fn run(length: RunLength) -> Result {
    required_programs::install_missing(&[
        required_programs::SQLITE,
        required_programs::FUSE,
        required_programs::RSYNC,
        required_programs::STRACE,
        required_programs::NPM,
    ])?;
    let test = |arguments: &[&str]| {
        let mut command = cargo();
        command.arg("test").args(arguments);
        match length {
            RunLength::Short => command.env_remove("STEAD_TEST_LONG"),
            RunLength::Long => command.env("STEAD_TEST_LONG", "1"),
        };
        command
    };
    let loops = loop_tests(&boundary::metadata()?);
    let mut failures = Failures::default();
    for (package, example) in EXAMPLES {
        println!("The example {example}:");
        failures.add(run_shown(cargo().args(["run", "--quiet", "--package", package, "--example", example])));
    }
    failures.run_tests(&mut test(&["--workspace", "--no-fail-fast"]));
    if programs::is_root() {
        println!("The tests that depend on the user, again as another user:");
        failures.add(second_user::run());
    }
    failures.run_tests(&mut test(&["--package", "stead-cli", "--features", "otel", "--test", "otel"]));
    for (package, target) in &loops {
        failures.run_tests(&mut test(&["--release", "--package", package, "--test", target]));
    }
    println!("The commands of the README and the guides:");
    failures.add(doc_commands::run());
    failures.add(pictures::run(pictures::Picture::Checked));
    println!("The packages of a release, installed:");
    failures.add(dist::check_installs());
    println!("The server with other projects' clients:");
    failures.add(clients::run(length, mcp_hosts::HostsPage::Unchanged));
    println!("A mount with programs that stress file systems:");
    failures.add(torture::run(length));
    failures.finish()
}

/// Runs the tests that need nothing but the build: unit tests, and the behaviour suite on Memory and SQLite.
pub(crate) fn run_fast() -> Result {
    let test = |arguments: &[&str]| run_shown(cargo().arg("test").args(arguments));
    let unit_tests = test(&["--workspace", "--lib", "--bins", "--no-fail-fast"]);
    let suite = test(&["--package", "stead-stores", "--test", "suite", "--", "memory::", "on_sqlite::"]);
    unit_tests.and(suite)
}

/// The test targets that `cargo test` skips, with their packages.
fn loop_tests(metadata: &Value) -> Vec<(String, String)> {
    let mut loops = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        for target in package["targets"].as_array().into_iter().flatten() {
            let is_test = target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k == "test"));
            if let (true, Some(false)) = (is_test, target["test"].as_bool()) {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                loops.push((text(&package["name"]), text(&target["name"])));
            }
        }
    }
    loops
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn test_targets_that_cargo_test_skips_are_the_loops() {
        let metadata = json!({ "packages": [{ "name": "stores", "targets": [
            { "name": "stores", "kind": ["lib"], "test": false },
            { "name": "suite", "kind": ["test"], "test": true },
            { "name": "crash", "kind": ["test"], "test": false },
        ]}]});
        assert_eq!(loop_tests(&metadata), [("stores".to_owned(), "crash".to_owned())]);
    }
}
