//! `cargo xtask bench`: builds and runs the benchmarks, which are a cargo workspace of their own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use crate::Result;
use crate::programs::{cargo, root, run_shown};
use crate::{compared_servers, required_programs, sections};

/// Runs the named benchmarks, or all of them. `--write` puts the tables into `docs/benchmarks.md`.
pub(crate) fn run(options: &[&str]) -> Result {
    let (write, arguments): (Vec<&str>, Vec<&str>) = options.iter().partition(|option| **option == "--write");
    required_programs::install_missing(&[required_programs::RIPGREP])?;
    run_shown(cargo().args(["build", "--release", "--manifest-path", "bench/Cargo.toml"]))?;
    let target = |default: &str| -> PathBuf {
        root().join(std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| default.into(), PathBuf::from))
    };
    let binary = target("bench/target").join("release/stead-bench");
    let mut command = crate::programs::program(&binary);
    let names: Vec<_> = arguments.iter().filter(|option| !option.starts_with("--")).collect();
    let wants = |case: &str| names.is_empty() || names.iter().any(|name| **name == case);
    if wants("mcp") || wants("mount") {
        // Measured in the way people run it: as a separate program.
        run_shown(cargo().args(["build", "--release", "--package", "stead-cli"]))?;
        command.env("STEAD_BENCH_STEAD", target("target").join("release/stead"));
    }
    if wants("mcp") {
        let servers = compared_servers::install_all(&target("target"))?;
        command.env("STEAD_BENCH_PEER_RUST", servers.rust).env("STEAD_BENCH_PEER_NODE", servers.node);
    }
    // Tables come on stdout and progress on stderr. Both are shown while the benchmarks run.
    let mut child = command.args(arguments).stdout(Stdio::piped()).spawn()?;
    let mut tables = String::new();
    for line in BufReader::new(child.stdout.take().expect("stdout is piped")).lines() {
        let line = line?;
        println!("{line}");
        tables.push_str(&line);
        tables.push('\n');
    }
    if !child.wait()?.success() {
        return Err("the benchmarks failed".into());
    }
    if !write.is_empty() {
        let page = root().join("docs/benchmarks.md");
        fs::write(&page, sections::replace_sections(&fs::read_to_string(&page)?, &tables)?)?;
    }
    Ok(())
}
