//! Rules for the paths that sources may not name.

use super::rust_source::named_paths;

/// Segments that may not follow one another in a path, and the reason.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceRule {
    segments: &'static [&'static str],
    reason: &'static str,
}

const fn rule(segments: &'static [&'static str], reason: &'static str) -> SourceRule {
    SourceRule { segments, reason }
}

const UNFINISHED_REASON: &str = "finish it first";
/// Rules for every source.
pub(super) const EVERYWHERE: [SourceRule; 2] =
    [rule(&["todo!"], UNFINISHED_REASON), rule(&["unimplemented!"], UNFINISHED_REASON)];

const EXECUTE_REASON: &str = "this crate must not execute programs";
/// Rules for crates that hold files. `fork` is a word of the domain, so C's `fork` is looked for in compiled code only.
pub(super) const CANNOT_EXECUTE: [SourceRule; 16] = [
    rule(&["process", "Command"], EXECUTE_REASON),
    rule(&["process", "Child"], EXECUTE_REASON),
    rule(&["process", "*"], EXECUTE_REASON),
    rule(&["Command", "new"], EXECUTE_REASON),
    rule(&["CommandExt"], EXECUTE_REASON),
    rule(&["posix_spawn"], EXECUTE_REASON),
    rule(&["posix_spawnp"], EXECUTE_REASON),
    rule(&["execve"], EXECUTE_REASON),
    rule(&["execveat"], EXECUTE_REASON),
    rule(&["libc"], EXECUTE_REASON),
    rule(&["nix"], EXECUTE_REASON),
    rule(&["rustix", "process"], EXECUTE_REASON),
    rule(&["rustix", "runtime"], EXECUTE_REASON),
    rule(&["asm!"], EXECUTE_REASON),
    // These lints see through renames and re-exports, so no source may switch them off.
    rule(&["clippy", "disallowed_types"], EXECUTE_REASON),
    rule(&["clippy", "disallowed_methods"], EXECUTE_REASON),
];

const MACHINE_REASON: &str = "stead-core must not use files, network, environment or threads";
/// Rules for the domain.
pub(super) const KNOWS_NO_MACHINE: [SourceRule; 7] = [
    rule(&["std", "fs"], MACHINE_REASON),
    rule(&["std", "net"], MACHINE_REASON),
    rule(&["std", "env"], MACHINE_REASON),
    rule(&["std", "os"], MACHINE_REASON),
    rule(&["thread", "spawn"], MACHINE_REASON),
    rule(&["thread", "Builder"], MACHINE_REASON),
    rule(&["std", "*"], MACHINE_REASON),
];

/// The paths that break a rule: the line, and a sentence with the path and the reason.
pub(super) fn violations(source: &str, rules: &[SourceRule]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for named in named_paths(source) {
        let broken_rule =
            rules.iter().find(|rule| named.path.windows(rule.segments.len()).any(|w| w == rule.segments));
        if let Some(rule) = broken_rule {
            found.push((named.line, format!("`{}`: {}", named.path.join("::"), rule.reason)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_to_a_process_is_found() {
        for source in [
            "std::process::Command::new(\"sh\")",
            "use std::process::{self, Command};",
            "use std::process; fn f() { process::Command::new(\"sh\"); }",
            "use std::process::*;",
            "use std::os::unix::process::CommandExt as _;",
            "unsafe { libc::fork() }",
            "rustix::runtime::execve(a, b, c)",
            "#[allow(clippy::disallowed_types)]",
        ] {
            assert!(!violations(source, &CANNOT_EXECUTE).is_empty(), "{source}");
        }
    }

    #[test]
    fn harmless_paths_are_allowed() {
        for source in [
            "std::process::id()",
            "volume.fork(name)",
            "// std::process::Command",
            "let text = \"libc::fork\";",
        ] {
            assert_eq!(violations(source, &CANNOT_EXECUTE), [], "{source}");
        }
    }

    #[test]
    fn paths_that_the_domain_may_not_use_are_found() {
        let lines = |source| {
            violations(source, &KNOWS_NO_MACHINE).into_iter().map(|(line, _)| line).collect::<Vec<_>>()
        };
        assert_eq!(lines("use std::{\n    fmt,\n    fs,\n    env,\n};"), [3, 4]);
        assert_eq!(lines("let x = std::net::TcpStream::connect(y);"), [1]);
        assert_eq!(lines("use std::thread;\nthread::spawn(f);"), [2]);
        assert_eq!(lines("use std::{fmt, time::Instant};"), [0; 0]);
    }

    #[test]
    fn unfinished_code_is_found() {
        assert_eq!(
            violations("fn f() {\n    todo!()\n}", &EVERYWHERE),
            [(2, "`todo!`: finish it first".to_owned())]
        );
        assert_eq!(violations("let todo = 1;", &EVERYWHERE), []);
    }
}
