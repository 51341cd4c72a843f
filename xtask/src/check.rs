//! `cargo xtask check`: everything that can be said of the code without running its tests.

use std::io::Write;
use std::time::Instant;

use crate::Result;
use crate::host::{capture, cargo};

/// A step: its name, and what it does.
type Step = (&'static str, fn() -> Result);

const STEPS: [Step; 8] = [
    ("format", || format(&["fmt", "--all", "--check"])),
    ("format of the benchmarks", || format(&["fmt", "--manifest-path", "bench/Cargo.toml", "--check"])),
    ("lints", lints),
    ("boundary: arrows", crate::boundary::arrows),
    ("boundary: sources", crate::boundary::sources),
    ("boundary: dependencies", crate::boundary::dependencies),
    ("boundary: compiled code", crate::boundary::compiled),
    ("documentation", documentation),
];

/// Runs every step, also after one that failed, and says how each went.
pub(crate) fn run() -> Result {
    let mut failed = Vec::new();
    for (name, step) in STEPS {
        print!("{name:26} ");
        std::io::stdout().flush()?;
        let start = Instant::now();
        let outcome = step();
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("{verdict:6} {:6.1} s", start.elapsed().as_secs_f64());
        if let Err(error) = outcome {
            println!("{error}\n");
            failed.push(name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}

fn format(arguments: &[&str]) -> Result {
    capture(cargo().args(arguments)).map(drop)
}

fn lints() -> Result {
    capture(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])).map(drop)
}

fn documentation() -> Result {
    capture(cargo().env("RUSTDOCFLAGS", "-D warnings").args([
        "doc",
        "--workspace",
        "--no-deps",
        "--all-features",
    ]))
    .map(drop)
}
