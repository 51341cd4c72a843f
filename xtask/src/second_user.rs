//! Runs tests a second time as a user who isn't root, because permission bits don't bind root.
//!
//! Uses the test programs that the first run has built. Nothing is compiled for this run.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Result;
use crate::programs::{self, capture, cargo, program};
use crate::steps::StepRunner;

/// The ids of nobody and nogroup, which every Debian has.
const NOBODY: u32 = 65_534;

/// The tests that run again: the package, the target, and a part of their names.
const RERUN_TESTS: [(&str, &str, &str); 7] = [
    ("stead-stores", "physical", ""),
    ("stead-stores", "overlay", "the_host_forbids"),
    ("stead-stores", "history", ""),
    ("stead-stores", "suite", "on_disk"),
    ("stead-cli", "cli", ""),
    ("stead-cli", "disk", ""),
    ("stead-cli", "mount", ""),
];
/// The test that needs a compiler, which is in root's home directory on many hosts.
const NEEDS_CARGO: &str = "programs::a_crate_is_built_once";

/// Runs the tests.
pub(crate) fn run() -> Result {
    let user = SecondUser::nobody()?;
    // The same selection as before: another one might build packages with different features.
    let messages = capture(cargo().args(["test", "--workspace", "--no-run", "--message-format", "json"]))?;
    let programs = test_programs(&messages);
    let mut steps = StepRunner::default();
    for (package, target, filter) in RERUN_TESTS {
        let test_program =
            programs.iter().find(|program| (&*program.package, &*program.target) == (package, target));
        let test_program = test_program.ok_or_else(|| format!("{package} has no test {target}"))?;
        steps.run(&format!("{package}, {target}"), || user.test(test_program, filter))?;
    }
    steps.finish()
}

/// A test program.
#[derive(Debug, PartialEq, Eq)]
struct TestProgram {
    package: String,
    target: String,
    program: PathBuf,
    manifest: PathBuf,
}

/// The integration tests among cargo's build messages.
fn test_programs(messages: &str) -> Vec<TestProgram> {
    let lines = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter_map(|message| {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let manifest = PathBuf::from(text(&message["manifest_path"])?);
            let package = text(&Value::from(manifest.parent()?.file_name()?.to_str()?))?;
            let target = &message["target"];
            let is_test = target["kind"].as_array()?.iter().any(|kind| kind == "test");
            let program = PathBuf::from(text(&message["executable"])?);
            is_test.then_some(TestProgram { package, target: text(&target["name"])?, program, manifest })
        })
        .collect()
}

/// Another user, with a home directory that exists until this is dropped.
#[derive(Debug)]
pub(crate) struct SecondUser {
    home: PathBuf,
}

impl SecondUser {
    /// The user nobody, prepared to mount a stead on this host. Only root can call this.
    pub(crate) fn nobody() -> Result<Self> {
        let home = std::env::temp_dir().join(format!("stead-second-user-{}", std::process::id()));
        fs::create_dir(&home)?;
        let user = SecondUser { home };
        user.give_ownership(&user.home)?;
        fs::set_permissions(&user.home, Permissions::from_mode(0o700))?;
        // The device is usually open to all users, but in a container it may be open to root only.
        fs::set_permissions("/dev/fuse", Permissions::from_mode(0o666))?;
        let root = programs::root();
        if !user.can_read(&root) {
            let root = root.display();
            return Err(format!(
                "the user nobody can't reach {root}: run `chmod o+x` on the directories above it"
            )
            .into());
        }
        if !is_set_user_id("fusermount3") {
            return Err("fusermount3 is not set-user-id root; install the package fuse3 again".into());
        }
        Ok(user)
    }

    /// Makes a program run as this user.
    pub(crate) fn run_as<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.uid(NOBODY).gid(NOBODY).env("HOME", &self.home).env("TMPDIR", &self.home);
        command.env("CARGO_HOME", self.home.join(".cargo"))
    }

    /// Gives a file to this user.
    pub(crate) fn give_ownership(&self, path: &Path) -> Result {
        Ok(chown(path, Some(NOBODY), Some(NOBODY))?)
    }

    fn can_read(&self, path: &Path) -> bool {
        let mut test_command = program("test");
        test_command.arg("-r").arg(path).current_dir("/");
        self.run_as(&mut test_command).status().is_ok_and(|status| status.success())
    }

    fn has_cargo(&self) -> bool {
        let mut probe = program("cargo");
        probe.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        self.run_as(&mut probe).status().is_ok_and(|status| status.success())
    }

    fn test(&self, test: &TestProgram, filter: &str) -> Result {
        let directory = test.manifest.parent().expect("a manifest is in a directory");
        let mut command = program(&test.program);
        command.current_dir(directory).env("CARGO_MANIFEST_DIR", directory);
        // Snapshots are compared, but not written.
        command.env("INSTA_WORKSPACE_ROOT", programs::root()).env("INSTA_UPDATE", "no");
        command.arg(filter).env_remove("STEAD_TEST_LONG");
        if test.target == "mount" && !self.has_cargo() {
            command.args(["--skip", NEEDS_CARGO]);
        }
        let output = capture(self.run_as(&mut command))?;
        // If no test ran, none failed. That must not count as a clean result.
        if output.contains(" 0 passed") { Err("no test ran".into()) } else { Ok(()) }
    }
}

impl Drop for SecondUser {
    fn drop(&mut self) {
        // At worst, a few empty directories stay in the temporary directory.
        let _ = fs::remove_dir_all(&self.home);
    }
}

fn is_set_user_id(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates =
        std::env::split_paths(&path).filter_map(|directory| fs::metadata(directory.join(name)).ok());
    candidates.next().is_some_and(|metadata| metadata.mode() & 0o4000 != 0 && metadata.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_in_cargos_build_messages() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/r/crates/stores/Cargo.toml","target":{"kind":["lib"],"name":"stores"},"executable":"/t/lib-1"}
{"reason":"compiler-artifact","manifest_path":"/r/crates/stores/Cargo.toml","target":{"kind":["test"],"name":"suite"},"executable":"/t/suite-2"}
{"reason":"compiler-artifact","manifest_path":"/r/crates/other/Cargo.toml","target":{"kind":["test"],"name":"x"},"executable":null}
{"reason":"build-finished","success":true}
"#;
        let expected = TestProgram {
            package: "stores".into(),
            target: "suite".into(),
            program: "/t/suite-2".into(),
            manifest: "/r/crates/stores/Cargo.toml".into(),
        };
        assert_eq!(test_programs(messages), [expected]);
    }
}
