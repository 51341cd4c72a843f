//! `cargo xtask test --coverage`: which lines the tests of the domain run.
//!
//! Measured with cargo-tarpaulin, which traces the test program and so needs none of the compiler's own tools. It isn't part of
//! CI: it takes several times as long as the tests.

use crate::Result;
use crate::programs::{capture, cargo, root, run_shown, succeeds};

/// The least part of all lines that the tests have to run, in percent.
const MINIMUM: f64 = 85.0;
/// Every line of these files has to be run: the decision about rights, discovery, and the resolution of folder ids.
const COMPLETE: [&str; 4] = [
    "stead-core/src/organization/rights.rs",
    "stead-core/src/organization/discovery.rs",
    "stead-core/src/organization/folder_ids.rs",
    "stead-core/src/tools/folders/open_folder.rs",
];

pub(crate) fn run() -> Result {
    if !succeeds(&["cargo", "tarpaulin", "--version"]) {
        run_shown(cargo().args(["install", "cargo-tarpaulin", "--locked"]))?;
    }
    let output = root().join("target/coverage");
    std::fs::create_dir_all(&output)?;
    let arguments = ["tarpaulin", "--engine", "ptrace", "--package", "stead-core", "--lib", "--skip-clean"];
    let mut command = cargo();
    command.args(arguments).args(["--out", "Json", "--output-dir"]).arg(&output);
    command.args([
        "--include-files",
        "crates/stead-core/src/*",
        "--exclude-files",
        "*/tests/*",
        "*/tests.rs",
        "*/testkit/*",
    ]);
    capture(&mut command)?;
    let report = std::fs::read_to_string(output.join("tarpaulin-report.json"))?;
    report_on(&serde_json::from_str(&report)?)
}

fn report_on(report: &serde_json::Value) -> Result {
    let files = report["files"].as_array().ok_or("the report has no files")?;
    let (mut covered, mut coverable, mut problems) = (0, 0, Vec::new());
    for file in files {
        let path = file["path"].as_array().into_iter().flatten().filter_map(|part| part.as_str());
        let path = path.collect::<Vec<_>>().join("/");
        let missed = file["traces"].as_array().into_iter().flatten();
        let missed = missed.filter(|trace| trace["stats"]["Line"].as_u64() == Some(0));
        let missed: Vec<_> = missed.filter_map(|trace| trace["line"].as_u64()).collect();
        covered += file["covered"].as_u64().unwrap_or(0);
        coverable += file["coverable"].as_u64().unwrap_or(0);
        if !missed.is_empty() && COMPLETE.iter().any(|name| path.ends_with(name)) {
            problems.push(format!("{path}: no test runs the lines {missed:?}"));
        }
    }
    let percent = 100.0 * covered as f64 / (coverable.max(1)) as f64;
    println!("{percent:.1} % of {coverable} lines");
    if percent < MINIMUM {
        problems.push(format!("{percent:.1} % of the lines are run, and {MINIMUM} % are required"));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}
