//! `cargo xtask check`: all checks that don't run tests: format, lints, boundaries and documentation.

use crate::Result;
use crate::programs::{capture, cargo};
use crate::steps::StepRunner;

/// A step: its name and its function.
type CheckStep = (&'static str, fn() -> Result);

const STEPS: [CheckStep; 10] = [
    ("format", || format(&["fmt", "--all", "--check"])),
    ("format of the benchmarks", || format(&["fmt", "--manifest-path", "bench/Cargo.toml", "--check"])),
    ("lints", lints),
    ("boundary: crates", crate::boundary::check_crate_dependencies),
    ("boundary: sources", crate::boundary::check_sources),
    ("boundary: dependencies", crate::boundary::check_dependencies),
    ("boundary: compiled code", crate::boundary::check_compiled_code),
    ("licences", crate::licences::check),
    ("lines of the specification", crate::spec_lines::check),
    ("documentation", documentation),
];

/// Runs every step, even after one has failed.
pub(crate) fn run() -> Result {
    let mut steps = StepRunner::default();
    for (name, step) in STEPS {
        steps.run(name, step)?;
    }
    steps.finish()
}

fn format(arguments: &[&str]) -> Result {
    capture(cargo().args(arguments)).map(drop)
}

fn lints() -> Result {
    capture(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    // Code that only the conformance build contains.
    let conformance_arguments =
        ["clippy", "--package", "stead-server", "--features", "conformance", "--", "-D", "warnings"];
    capture(cargo().args(conformance_arguments)).map(drop)
}

fn documentation() -> Result {
    // The library `stead` and the program `stead` write to the same directory, so they aren't documented at the same time.
    for targets in ["--lib", "--bins"] {
        let arguments = ["doc", "--workspace", "--no-deps", "--all-features", targets];
        capture(cargo().env("RUSTDOCFLAGS", "-D warnings").args(arguments))?;
    }
    Ok(())
}
