//! Third-party clients that the server is tested with. They are fetched into the target directory, in pinned versions,
//! and only if they aren't there yet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::programs::{self, capture, program};
use crate::required_programs;

/// The directory with the pinned versions and the scripts.
pub(crate) fn sources_directory() -> PathBuf {
    programs::root().join("tests/clients")
}

/// The fetched clients.
#[derive(Debug)]
pub(crate) struct TestClients {
    folder: PathBuf,
}

impl TestClients {
    /// Fetches the clients that are missing.
    pub(crate) fn fetch() -> Result<Self> {
        let clients = TestClients::without_fetching()?;
        clients.fetch_node("", &sources_directory())?;
        clients.fetch_python("python", &sources_directory().join("python/requirements.txt"))?;
        Ok(clients)
    }

    /// Fetches nothing. For callers that fetch clients of their own.
    pub(crate) fn without_fetching() -> Result<Self> {
        let clients = TestClients { folder: programs::target().join("peers") };
        fs::create_dir_all(&clients.folder)?;
        Ok(clients)
    }

    /// The directory that the clients are fetched into.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Fetches the packages that the `package-lock.json` in `pinned` names into a subdirectory.
    pub(crate) fn fetch_node(&self, folder: &str, pinned: &Path) -> Result {
        let folder = self.folder.join(folder);
        fs::create_dir_all(&folder)?;
        unless_up_to_date(&folder.join("node.txt"), &pinned.join("package-lock.json"), || {
            required_programs::install_missing(&[required_programs::NPM])?;
            eprintln!("fetching clients with npm");
            for name in ["package.json", "package-lock.json"] {
                fs::copy(pinned.join(name), folder.join(name))?;
            }
            // Not `npm ci`: it requires the optional packages of every other platform too.
            let mut npm = program("npm");
            npm.args([
                "install",
                "--no-save",
                "--ignore-scripts",
                "--prefer-offline",
                "--no-audit",
                "--no-fund",
            ]);
            npm.arg("--prefix");
            capture(npm.arg(&folder)).map(drop)
        })
    }

    /// Fetches the packages that the requirements file `pinned` names into a virtual environment of their own.
    pub(crate) fn fetch_python(&self, environment: &str, pinned: &Path) -> Result {
        unless_up_to_date(&self.folder.join(format!("{environment}.txt")), pinned, || {
            required_programs::install_missing(&[required_programs::VENV])?;
            eprintln!("fetching clients with pip");
            let directory = self.folder.join(environment);
            capture(program("python3").args(["-m", "venv", "--clear"]).arg(&directory))?;
            capture(
                program(directory.join("bin/pip")).args(["install", "--quiet", "--requirement"]).arg(pinned),
            )
            .map(drop)
        })
    }

    /// Runs a file of a fetched npm package with the fetched Node.
    pub(crate) fn node(&self, package_file: &str) -> Command {
        let modules = self.folder.join("node_modules");
        let mut command = program(modules.join(".bin/node"));
        command.arg(modules.join(package_file));
        command
    }

    /// Runs a script of ours with Node. Node looks for packages next to the script, so the script is copied there.
    pub(crate) fn node_script(&self, script: &str) -> Result<Command> {
        let copy = self.folder.join(Path::new(script).file_name().expect("a script has a name"));
        fs::copy(sources_directory().join(script), &copy)?;
        let mut command = program(self.folder.join("node_modules/.bin/node"));
        command.arg(copy);
        Ok(command)
    }

    /// Runs a script of ours with Python.
    pub(crate) fn python_script(&self, script: &str) -> Command {
        self.python(&sources_directory().join(script))
    }

    /// Runs a script with Python.
    pub(crate) fn python(&self, script: &Path) -> Command {
        let mut command = program(self.folder.join("python/bin/python"));
        // `-B`: writes no bytecode next to the sources.
        command.arg("-B").arg(script);
        command
    }

    /// Creates an empty directory for one run. What an earlier run left there is removed.
    pub(crate) fn fresh_directory(&self, name: &str) -> Result<PathBuf> {
        let directory = self.folder.join("places").join(name);
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory)?;
        Ok(directory)
    }

    /// Copies a program that the next build would replace.
    pub(crate) fn copy_binary(&self, built: &Path, name: &str) -> Result<PathBuf> {
        let copy = self.folder.join(name);
        // Removed first: the old one may be a hard link to a file that cargo still uses.
        if copy.exists() {
            fs::remove_file(&copy)?;
        }
        fs::copy(built, &copy)?;
        Ok(copy)
    }
}

/// Runs `run`, unless it has run for the same content of `pinned` before. `done_path` holds the content of the last
/// run.
pub(crate) fn unless_up_to_date(done_path: &Path, pinned: &Path, run: impl FnOnce() -> Result) -> Result {
    let content = fs::read(pinned)?;
    if fs::read(done_path).is_ok_and(|done| done == content) {
        return Ok(());
    }
    run()?;
    // Written last, so that an interrupted run is repeated.
    Ok(fs::write(done_path, content)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_is_not_repeated_for_the_same_versions() {
        let folder = std::env::temp_dir().join(format!("xtask-peers-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (done, pinned) = (folder.join("done"), folder.join("pinned"));
        let fetched = std::cell::Cell::new(0);
        let fetch = || {
            unless_up_to_date(&done, &pinned, || {
                fetched.set(fetched.get() + 1);
                Ok(())
            })
        };
        fs::write(&pinned, "a 1").unwrap();
        assert!(unless_up_to_date(&done, &pinned, || Err("no network".into())).is_err());
        fetch().unwrap();
        fetch().unwrap();
        assert_eq!(fetched.get(), 1);
        fs::write(&pinned, "a 2").unwrap();
        fetch().unwrap();
        assert_eq!(fetched.get(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
