//! Boundaries that the compiler can't enforce: which crate may depend on which, that the crates which hold files can't
//! start a process, and that the domain doesn't depend on a machine.
//!
//! The rules are pure functions over text, in the modules below; this module fetches the text. No single check is
//! enough: sources show intent, dependencies show what is within reach, and compiled code shows what is really called.

mod crate_dependencies;
mod dependency_tree;
mod rust_source;
mod source_rules;
mod symbols;
mod text_rules;

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::Result;
use crate::programs::{capture, cargo, program, root};
use dependency_tree::Dependency;
use source_rules::SourceRule;

/// The crates that must not be able to start a process.
const NON_EXECUTING_CRATES: [&str; 2] = ["stead-core", "stead-stores"];
/// The crate that must not depend on a machine: no files, network, environment or threads.
const DOMAIN_CRATE: &str = "stead-core";

/// What `cargo metadata` reports of the workspace's own packages.
pub(crate) fn metadata() -> Result<Value> {
    let text = capture(cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
    Ok(serde_json::from_str(&text)?)
}

/// Checks that dependencies between our crates point inward.
pub(crate) fn check_crate_dependencies() -> Result {
    report(crate_dependencies::violations(&metadata()?, crate_dependencies::ALLOWED))
}

/// Checks that no source names what its crate may not use, and that no file contains what the repository must not hold.
pub(crate) fn check_sources() -> Result {
    let mut problems = Vec::new();
    for name in tracked_files()? {
        // Skips files that aren't text, and symlinks that lead nowhere.
        let Ok(text) = fs::read_to_string(root().join(&name)) else { continue };
        let mut found = text_rules::violations(&text);
        if name.ends_with(".rs") {
            let rules = rules_for(&name);
            found.extend(source_rules::violations(&text, &rules));
        }
        problems.extend(found.into_iter().map(|(line, problem)| format!("{name}:{line}: {problem}")));
    }
    report(problems)
}

/// The rules for a file, by its place in the repository. Tests and examples of crates that hold files may start
/// processes: crash tests have to kill some.
fn rules_for(name: &str) -> Vec<SourceRule> {
    let is_in = |package: &str, folder: &str| name.starts_with(&format!("crates/{package}/{folder}/"));
    let mut rules = source_rules::EVERYWHERE.to_vec();
    if NON_EXECUTING_CRATES.iter().any(|package| is_in(package, "src")) {
        rules.extend(source_rules::CANNOT_EXECUTE);
    }
    if is_in(DOMAIN_CRATE, "src") && !is_in(DOMAIN_CRATE, "src/testkit") {
        rules.extend(source_rules::KNOWS_NO_MACHINE);
    }
    rules
}

/// Checks that no dependency of the crates that hold files can start a process, and that no dependency of the domain
/// reaches the machine.
pub(crate) fn check_dependencies() -> Result {
    let mut problems = Vec::new();
    for package in NON_EXECUTING_CRATES {
        let dependencies = dependencies_of(package)?;
        let mut rules = dependency_tree::CANNOT_EXECUTE.to_vec();
        if package == DOMAIN_CRATE {
            rules.extend(dependency_tree::KNOWS_NO_MACHINE);
        }
        let found = dependency_tree::violations(&dependencies, &rules);
        problems.extend(found.into_iter().map(|problem| format!("{package}: {problem}")));
    }
    report(problems)
}

/// Checks that neither the crates that hold files nor their dependencies refer to a function that starts a process, in
/// their compiled code.
pub(crate) fn check_compiled_code() -> Result {
    let mut build = cargo();
    build.args(["build", "--lib", "--message-format", "json"]);
    build.args(NON_EXECUTING_CRATES.iter().flat_map(|package| ["--package", package]));
    let messages = capture(&mut build)?;
    let mut packages = BTreeSet::new();
    for package in NON_EXECUTING_CRATES {
        packages.extend(dependencies_of(package)?.into_iter().map(|dependency| dependency.name));
    }
    let mut problems = Vec::new();
    let libraries = symbols::libraries(&messages, &packages);
    for own in NON_EXECUTING_CRATES {
        // If nothing was built, nothing is found. That must not count as a clean result.
        if !libraries.iter().any(|(package, _)| package == own) {
            problems.push(format!("{own} was not built"));
        }
    }
    for (package, library) in libraries {
        let symbols = symbols::symbols(&fs::read(library)?).map_err(|error| format!("{package}: {error}"))?;
        let found = symbols::violations(&symbols).into_iter();
        problems.extend(found.map(|symbol| format!("{package} refers to {symbol}")));
    }
    report(problems)
}

/// The crates that are compiled into this one. Procedural macros and build scripts run at build time and aren't
/// included.
fn dependencies_of(package: &str) -> Result<Vec<Dependency>> {
    let mut command = cargo();
    command.args(["tree", "--package", package, "--edges", "normal,no-proc-macro", "--target", "all"]);
    command.args(["--prefix", "none", "--no-dedupe", "--format", dependency_tree::FORMAT]);
    Ok(dependency_tree::parse(&capture(&mut command)?))
}

fn tracked_files() -> Result<Vec<String>> {
    let mut command = program("git");
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    Ok(capture(&mut command)?.split_terminator('\0').map(str::to_owned).collect())
}

fn report(problems: Vec<String>) -> Result {
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starting_a_process_is_forbidden_in_crates_that_hold_files_but_not_in_their_tests() {
        let source = "fn f() { std::process::Command::new(\"sh\"); }";
        let problems = |name| source_rules::violations(source, &rules_for(name)).len();
        assert!(problems("crates/stead-core/src/lib.rs") > 0);
        assert!(problems("crates/stead-stores/src/physical/host.rs") > 0);
        assert_eq!(problems("crates/stead-stores/tests/crash.rs"), 0);
        assert_eq!(problems("crates/stead-cli/src/main.rs"), 0);
    }

    #[test]
    fn the_domain_may_not_use_files_but_its_test_kit_may() {
        let source = "use std::{fs, io};";
        let problems = |name| source_rules::violations(source, &rules_for(name)).len();
        assert_eq!(problems("crates/stead-core/src/vfs/mod.rs"), 1);
        assert_eq!(problems("crates/stead-core/src/testkit/mod.rs"), 0);
        assert_eq!(problems("crates/stead-stores/src/lib.rs"), 0);
    }

    /// Compiles a library with the current compiler, and returns its symbols that start processes.
    fn process_symbols(source: &str, name: &str) -> Vec<String> {
        let folder = std::env::temp_dir().join(format!("xtask-symbols-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (input, library) = (folder.join("lib.rs"), folder.join(format!("lib{name}.rlib")));
        fs::write(&input, source).unwrap();
        let mut rustc = program("rustc");
        rustc.args(["--edition", "2024", "--crate-type", "rlib", "--crate-name", name, "-o"]);
        capture(rustc.arg(&library).arg(&input)).unwrap();
        let symbols = symbols::symbols(&fs::read(&library).unwrap()).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        symbols::violations(&symbols).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn a_compiled_crate_that_starts_a_process_is_found() {
        let spawns = "pub fn f() { let _ = std::process::Command::new(\"true\").status(); }";
        assert!(!process_symbols(spawns, "spawns").is_empty());
        let forks = "unsafe extern \"C\" { fn fork() -> i32; } pub fn f() -> i32 { unsafe { fork() } }";
        assert_eq!(process_symbols(forks, "forks"), ["fork"]);
        let harmless = "pub fn fork() -> u32 { std::process::id() }";
        assert!(process_symbols(harmless, "harmless").is_empty());
    }
}
