//! `cargo xtask installs`: installs every package in a directory of its own, as a user would, and uses what was
//! installed: `stead --version`, and a conversation over MCP.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::Result;
use crate::programs::{self, capture, cargo, program};
use crate::required_programs::{self, NPM, VENV};
use crate::stdio_client::StdioClient;
use crate::steps::StepRunner;

use super::{Release, dockerfile, make_packages};

/// Packages the binary of the tests and installs the packages.
pub(crate) fn run() -> Result {
    required_programs::install_missing(&[NPM, VENV])?;
    capture(cargo().args(["build", "--package", "stead-cli"]))?;
    let directory = tempfile::tempdir()?;
    let packages = directory.path().join("packages");
    make_packages(&[programs::target().join("debug/stead")], &packages)?;
    let version = Release::current()?.version;
    let check = |installed: &Path| check_installed(installed, &version);

    let mut steps = StepRunner::default();
    let new_directory = |name: &str| -> Result<PathBuf> {
        let path = directory.path().join(name);
        fs::create_dir(&path)?;
        Ok(path)
    };
    steps.run("SHA256SUMS", || {
        capture(program("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&packages))
            .map(drop)
    })?;
    steps.run("tar.gz", || {
        let prefix = new_directory("tarball")?;
        let mut unpack = program("tar");
        unpack.args(["--strip-components=1", "--directory"]).arg(&prefix);
        capture(unpack.arg("-xzf").arg(package(&packages, ".tar.gz")?))?;
        check(&prefix.join("bin/stead"))
    })?;
    steps.run("Debian package", || {
        let root = new_directory("debian")?;
        install_deb(&package(&packages, ".deb")?, &root)?;
        check(&root.join("usr/bin/stead"))
    })?;
    steps.run("npm package", || {
        let prefix = new_directory("npm")?;
        let mut npm = program("npm");
        npm.args(["install", "--offline", "--no-audit", "--no-fund", "--prefix"]).arg(&prefix);
        capture(npm.arg(package(&packages, ".tgz")?))?;
        check(&prefix.join("node_modules/.bin/stead"))
    })?;
    steps.run("Python wheel", || {
        let environment = directory.path().join("python");
        capture(program("python3").args(["-m", "venv"]).arg(&environment))?;
        let mut pip = program(environment.join("bin/pip"));
        pip.args(["install", "--quiet", "--no-index", "--disable-pip-version-check"]);
        capture(pip.arg(package(&packages, ".whl")?))?;
        check(&environment.join("bin/stead"))
    })?;
    steps.run("Dockerfile", || check_dockerfile(&packages))?;
    steps.run("names in the README", || check_readme(&packages))?;
    steps.finish()
}

/// The path of the one package with this ending.
fn package(packages: &Path, ending: &str) -> Result<PathBuf> {
    let files = fs::read_dir(packages)?.collect::<std::io::Result<Vec<_>>>()?;
    let mut found =
        files.iter().map(fs::DirEntry::path).filter(|path| path.to_string_lossy().ends_with(ending));
    found.next().ok_or_else(|| format!("there is no package {ending}").into())
}

/// Installs a Debian package into a directory that holds no system, so nothing that it depends on is there.
fn install_deb(package: &Path, root: &Path) -> Result {
    let database = root.join("var/lib/dpkg");
    for name in ["info", "updates"] {
        fs::create_dir_all(database.join(name))?;
    }
    for name in ["status", "available"] {
        fs::write(database.join(name), "")?;
    }
    let mut dpkg = program("dpkg");
    dpkg.arg("--root").arg(root).args([
        "--force-not-root",
        "--force-depends",
        "--log=/dev/null",
        "--install",
    ]);
    capture(dpkg.arg(package))?;
    let status = capture(program("dpkg-query").arg("--root").arg(root).args(["--show", "stead"]))?;
    if status.is_empty() { Err("dpkg doesn't list the package".into()) } else { Ok(()) }
}

/// Fails unless the installed binary has this version and serves tools.
fn check_installed(stead: &Path, version: &str) -> Result {
    let said = capture(program(stead).arg("--version"))?;
    if said.trim() != format!("stead {version}") {
        return Err(format!("`stead --version` said `{}`", said.trim()).into());
    }
    let home = tempfile::tempdir()?;
    let project = home.path().join("project");
    fs::create_dir(&project)?;
    let mut server = program(stead);
    server.arg("mcp").arg(format!("{}:rw", project.display()));
    server.env("HOME", home.path()).env_remove("XDG_STATE_HOME");
    let mut client = StdioClient::start(&mut server)?;
    client.initialize()?;
    let tools = client.request("tools/list", &json!({}))?;
    let mut tools = tools["tools"].as_array().into_iter().flatten();
    if tools.any(|tool| tool["name"] == "write_file") {
        Ok(())
    } else {
        Err("the installed server offers no `write_file`".into())
    }
}

/// Checks that the README names the packages as they are called. It shows those for x86-64.
fn check_readme(packages: &Path) -> Result {
    let readme = fs::read_to_string(programs::root().join("README.md"))?;
    for ending in [".tar.gz", ".deb", ".tgz"] {
        let path = package(packages, ending)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.replace("aarch64", "x86_64").replace("_arm64", "_amd64").replace("-arm64", "-x64");
        if !readme.contains(&name) {
            return Err(format!("the README doesn't name `{name}`").into());
        }
    }
    Ok(())
}

/// Checks the instructions of the Dockerfile, and that the files which it copies are beside it.
fn check_dockerfile(packages: &Path) -> Result {
    let text = fs::read_to_string(packages.join("Dockerfile"))?;
    let architecture = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "amd64",
    };
    for file in dockerfile::copied_files(&text, architecture)? {
        if !packages.join(&file).is_file() {
            return Err(format!("the Dockerfile copies `{file}`, which isn't there").into());
        }
    }
    Ok(())
}
