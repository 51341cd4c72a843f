//! Installs programs that a task needs and that a fresh machine may lack.

use crate::Result;
use crate::programs;

/// A program that comes in a Debian package, and the command that succeeds if it is there.
pub(crate) struct RequiredProgram {
    package: &'static str,
    probe: &'static [&'static str],
}

/// Opens databases as a person would, for tests of the storage format.
pub(crate) const SQLITE: RequiredProgram =
    RequiredProgram { package: "sqlite3", probe: &["sqlite3", "--version"] };
/// Lets users other than root mount a stead.
pub(crate) const FUSE: RequiredProgram =
    RequiredProgram { package: "fuse3", probe: &["fusermount3", "--version"] };
/// One of the programs that have to work on a mount.
pub(crate) const RSYNC: RequiredProgram =
    RequiredProgram { package: "rsync", probe: &["rsync", "--version"] };
/// Records the system calls of a program, for the power-cut tests.
pub(crate) const STRACE: RequiredProgram =
    RequiredProgram { package: "strace", probe: &["strace", "--version"] };
/// The program that searching is compared with.
pub(crate) const RIPGREP: RequiredProgram =
    RequiredProgram { package: "ripgrep", probe: &["rg", "--version"] };
/// Fetches the clients that are written in JavaScript.
pub(crate) const NPM: RequiredProgram = RequiredProgram { package: "npm", probe: &["npm", "--version"] };
/// Creates virtual environments for the clients that are written in Python.
pub(crate) const VENV: RequiredProgram =
    RequiredProgram { package: "python3-venv", probe: &["python3", "-c", "import ensurepip, venv"] };

/// Installs the programs that are missing. Only root can, so it fails for other users if something is missing.
pub(crate) fn install_missing(required: &[RequiredProgram]) -> Result {
    let packages = missing(required, programs::succeeds);
    if packages.is_empty() { Ok(()) } else { install_packages(&packages) }
}

/// Installs Debian packages. Only root can.
pub(crate) fn install_packages(packages: &[&str]) -> Result {
    if !programs::is_root() {
        return Err(needs_root_message(packages).into());
    }
    eprintln!("installing {}", packages.join(", "));
    let install = || -> Result {
        programs::capture(programs::program("apt-get").arg("update"))?;
        let mut install = programs::program("apt-get");
        install.env("DEBIAN_FRONTEND", "noninteractive");
        programs::capture(install.args(["install", "-y", "--no-install-recommends"]).args(packages))?;
        Ok(())
    };
    install().map_err(|error| format!("install {} and try again: {error}", packages.join(", ")).into())
}

/// The error for users other than root.
fn needs_root_message(packages: &[&str]) -> String {
    format!(
        "only root can install what is missing: run `sudo apt-get install {}` and try again",
        packages.join(" ")
    )
}

fn missing(required: &[RequiredProgram], is_installed: impl Fn(&[&str]) -> bool) -> Vec<&'static str> {
    required.iter().filter(|program| !is_installed(program.probe)).map(|program| program.package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_programs_are_installed() {
        assert_eq!(missing(&[SQLITE, RIPGREP], |probe| probe[0] == "sqlite3"), ["ripgrep"]);
        assert!(missing(&[SQLITE, RIPGREP], |_| true).is_empty());
    }

    #[test]
    fn a_user_other_than_root_gets_the_command_that_installs_the_missing_programs() {
        let message = needs_root_message(&missing(&[SQLITE, FUSE], |_| false));
        assert_eq!(
            message,
            "only root can install what is missing: run `sudo apt-get install sqlite3 fuse3` and try again"
        );
    }
}
