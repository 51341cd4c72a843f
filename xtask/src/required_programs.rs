//! Programs that a task starts and a fresh machine may lack.

use crate::Result;
use crate::programs;

/// A program that comes in a Debian package.
pub(crate) struct RequiredProgram {
    package: &'static str,
    probe: &'static [&'static str],
}

/// Opens databases as a person would, for tests of the storage format.
pub(crate) const SQLITE: RequiredProgram =
    RequiredProgram { package: "sqlite3", probe: &["sqlite3", "--version"] };
/// Lets somebody who is not root mount a stead.
pub(crate) const FUSE: RequiredProgram =
    RequiredProgram { package: "fuse3", probe: &["fusermount3", "--version"] };
/// One of the programs that have to work on a mount.
pub(crate) const RSYNC: RequiredProgram =
    RequiredProgram { package: "rsync", probe: &["rsync", "--version"] };
/// Records what a program does to its disk, for the tests that cut the power.
pub(crate) const STRACE: RequiredProgram =
    RequiredProgram { package: "strace", probe: &["strace", "--version"] };
/// What searching is compared with.
pub(crate) const RIPGREP: RequiredProgram =
    RequiredProgram { package: "ripgrep", probe: &["rg", "--version"] };
/// Fetches the clients that are written in JavaScript.
pub(crate) const NPM: RequiredProgram = RequiredProgram { package: "npm", probe: &["npm", "--version"] };
/// Gives the clients that are written in Python a place of their own.
pub(crate) const VENV: RequiredProgram =
    RequiredProgram { package: "python3-venv", probe: &["python3", "-c", "import ensurepip, venv"] };

/// Installs what is missing, and touches nothing where nothing is.
pub(crate) fn install_missing(needs: &[RequiredProgram]) -> Result {
    let packages = missing(needs, programs::succeeds);
    if packages.is_empty() {
        return Ok(());
    }
    if !programs::is_root() {
        return Err(needs_root_message(&packages).into());
    }
    eprintln!("installing {}", packages.join(", "));
    let install = || -> Result {
        programs::capture(programs::program("apt-get").arg("update"))?;
        let mut install = programs::program("apt-get");
        install.env("DEBIAN_FRONTEND", "noninteractive");
        programs::capture(install.args(["install", "-y", "--no-install-recommends"]).args(&packages))?;
        Ok(())
    };
    install().map_err(|error| format!("install {} and try again: {error}", packages.join(", ")).into())
}

/// What somebody who is not root is told.
fn needs_root_message(packages: &[&str]) -> String {
    format!(
        "only root can install what is missing: run `sudo apt-get install {}` and try again",
        packages.join(" ")
    )
}

fn missing(needs: &[RequiredProgram], present: impl Fn(&[&str]) -> bool) -> Vec<&'static str> {
    needs.iter().filter(|need| !present(need.probe)).map(|need| need.package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_installed() {
        assert_eq!(missing(&[SQLITE, RIPGREP], |probe| probe[0] == "sqlite3"), ["ripgrep"]);
        assert!(missing(&[SQLITE, RIPGREP], |_| true).is_empty());
    }

    #[test]
    fn somebody_who_is_not_root_is_told_in_one_sentence_what_to_install() {
        let told = needs_root_message(&missing(&[SQLITE, FUSE], |_| false));
        assert_eq!(
            told,
            "only root can install what is missing: run `sudo apt-get install sqlite3 fuse3` and try again"
        );
    }
}
