//! `cargo xtask test --coverage`: which lines the tests of the workspace run.
//!
//! The compiler adds counters to the code (`-C instrument-coverage`), and LLVM's tools of the compiler's version read them; Debian's
//! package has these tools. It isn't part of CI: everything is compiled once more, and runs slower.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Result;
use crate::programs::{capture, cargo, program, root, run_shown, succeeds};
use crate::required_programs;

/// The least part of all lines that the tests have to run, in percent.
const MINIMUM: f64 = 85.0;
/// Every line of these files has to be run: the decision about rights and scopes, discovery, and the resolution of folder ids.
const COMPLETE: [&str; 5] = [
    "stead-core/src/organization/rights.rs",
    "stead-core/src/organization/discovery.rs",
    "stead-core/src/organization/folder_ids.rs",
    "stead-core/src/scope.rs",
    "stead-core/src/tools/folders/open_folder.rs",
];
/// Code that is there for tests, or isn't ours.
const IGNORED_FILES: &str =
    r"(/tests/|/tests\.rs$|/testkit/|/benches/|/examples/|/xtask/|/\.cargo/|/rustc/|/target/)";
/// The counters lie in a mapped file, which each process shares: it ends at once, and a killed one counts too.
const FLAGS: &str = "-C instrument-coverage -C llvm-args=-runtime-counter-relocation";

pub(crate) fn run() -> Result {
    let [profdata, cov] = llvm_tools()?;
    let target = root().join("target/coverage");
    let profiles = target.join("profiles");
    let _ = fs::remove_dir_all(&profiles);
    fs::create_dir_all(&profiles)?;
    let test = |arguments: &[&str]| {
        let mut command = cargo();
        command
            .args(["test", "--workspace", "--exclude", "xtask", "--lib", "--bins", "--tests"])
            .args(arguments);
        command.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", &target).env_remove("STEAD_TEST_LONG");
        // Many processes count in each of a few files, because some tests start thousands.
        command.env("LLVM_PROFILE_FILE", profiles.join("%c%8m.profraw"));
        command
    };
    let programs =
        executables(&capture(test(&["--no-run", "--message-format=json"]).env("CARGO_TERM_QUIET", "true"))?);
    let tests = run_shown(&mut test(&["--no-fail-fast"]));
    let merged = target.join("tests.profdata");
    let mut merge = program(profdata);
    // A process that was killed while it made a file leaves it without an end.
    merge.args(["merge", "--sparse", "--failure-mode=all", "--output"]).arg(&merged).arg(&profiles);
    capture(&mut merge)?;
    let mut export = program(cov);
    export
        .args(["export", "--format=lcov", "--ignore-filename-regex", IGNORED_FILES, "--instr-profile"])
        .arg(&merged);
    for program in programs {
        export.arg("--object").arg(program);
    }
    let report = LineCounts::parse(&capture(&mut export)?);
    match (tests, report.check()) {
        (Err(tests), Err(lines)) => Err(format!("{tests}\n{lines}").into()),
        (tests, lines) => tests.and(lines),
    }
}

/// `llvm-profdata` and `llvm-cov` of the version that the compiler has.
fn llvm_tools() -> Result<[String; 2]> {
    let version = capture(program("rustc").arg("-vV"))?;
    let major = version.lines().find_map(|line| line.strip_prefix("LLVM version: ")?.split('.').next());
    let major = major.ok_or("rustc doesn't say which LLVM it has")?;
    let tools = ["llvm-profdata", "llvm-cov"].map(|name| format!("{name}-{major}"));
    if !tools.iter().all(|tool| succeeds(&[tool, "--version"])) {
        required_programs::install_packages(&[&format!("llvm-{major}")])?;
    }
    Ok(tools)
}

/// The programs among cargo's messages.
fn executables(messages: &str) -> Vec<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?))).collect()
}

/// How often each line of each file was run.
struct LineCounts(BTreeMap<PathBuf, BTreeMap<u64, u64>>);

impl LineCounts {
    /// Reads the format of lcov: `SF:file`, then `DA:line,count` for each line with code.
    fn parse(report: &str) -> LineCounts {
        let mut files = BTreeMap::<PathBuf, BTreeMap<u64, u64>>::new();
        let mut lines = None;
        for entry in report.lines() {
            if let Some(file) = entry.strip_prefix("SF:") {
                lines = Some(files.entry(PathBuf::from(file)).or_default());
            } else if let Some((line, count)) =
                entry.strip_prefix("DA:").and_then(|data| data.split_once(','))
                && let (Some(lines), Ok(line), Ok(count)) = (&mut lines, line.parse(), count.parse::<u64>())
            {
                *lines.entry(line).or_default() += count;
            }
        }
        LineCounts(files)
    }

    /// Prints how much was run, for each crate and in all. Fails if that is too little.
    fn check(&self) -> Result {
        let mut crates = BTreeMap::<&str, (usize, usize)>::new();
        let mut problems = Vec::new();
        for (file, lines) in &self.0 {
            let missed: Vec<_> =
                lines.iter().filter(|(_, count)| **count == 0).map(|(line, _)| line).collect();
            let (run, all) = crates.entry(crate_of(file)).or_default();
            *run += lines.len() - missed.len();
            *all += lines.len();
            if let (Some(name), false) =
                (COMPLETE.iter().find(|name| file.ends_with(name)), missed.is_empty())
            {
                problems.push(format!("{name}: no test runs the lines {missed:?}"));
            }
        }
        for name in COMPLETE.iter().filter(|name| self.0.keys().all(|file| !file.ends_with(name))) {
            problems.push(format!("{name}: it isn't in the report"));
        }
        let total = crates.values().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        for (name, part) in crates.iter().chain([(&"all", &total)]) {
            println!("{name:14} {:5.1} % of {:6} lines", percent(*part), part.1);
        }
        if percent(total) < MINIMUM {
            problems
                .push(format!("{:.1} % of the lines are run, and {MINIMUM} % are required", percent(total)));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
    }
}

fn percent((run, all): (usize, usize)) -> f64 {
    100.0 * run as f64 / all.max(1) as f64
}

/// The directory of the crate that a file belongs to.
fn crate_of(file: &Path) -> &str {
    let mut names = file.iter().filter_map(|name| name.to_str()).skip_while(|name| *name != "crates");
    names.nth(1).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_programs_are_added_and_missed_lines_are_named() {
        let complete: String = COMPLETE.iter().map(|name| format!("SF:/x/crates/{name}\nDA:1,1\n")).collect();
        let report = LineCounts::parse(&format!(
            "{complete}SF:/x/crates/a/b.rs\nDA:1,0\nDA:2,7\nDA:1,2\nend_of_record\n"
        ));
        assert!(report.check().is_ok());
        let report = LineCounts::parse(&format!("{complete}DA:7,1\nDA:8,1\nDA:9,0\n"));
        let error = report.check().unwrap_err().to_string();
        assert_eq!(error, "stead-core/src/tools/folders/open_folder.rs: no test runs the lines [9]");
        assert!(LineCounts::parse("").check().unwrap_err().to_string().contains("it isn't in the report"));
    }
}
