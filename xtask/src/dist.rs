//! `cargo xtask dist`: makes the files of a release in `target/dist`, from binaries that are built already or built here.
//!
//! For each binary: a tar.gz, a Debian package, an npm package, a Python wheel, and the binary alone. Beside them a
//! Dockerfile and SHA256SUMS. The same binaries give the same bytes: every file in every package has one time, that of
//! SOURCE_DATE_EPOCH or of the last commit.

mod binary;
mod build;
mod checksums;
mod contents;
mod deb;
mod dockerfile;
mod installs;
mod npm;
mod tarball;
mod third_party;
mod wheel;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::programs::{self, capture, program};
use crate::{Result, boundary};
use binary::Binary;
use contents::{PackagedFile, SharedFiles};

pub(crate) use installs::run as check_installs;

/// Runs the command: `[--binary FILE]…`.
pub(crate) fn run(options: &[&str]) -> Result {
    let mut binaries = Vec::new();
    for option in options.chunks(2) {
        match option {
            ["--binary", file] => binaries.push(PathBuf::from(file)),
            _ => return Err("cargo xtask dist [--binary FILE]…".into()),
        }
    }
    if binaries.is_empty() {
        binaries = build::build_binaries()?;
    }
    let directory = programs::target().join("dist");
    for package in make_packages(&binaries, &directory)? {
        println!("{}", package.display());
    }
    Ok(())
}

/// What every package says about this release.
#[derive(Debug)]
struct Release {
    version: String,
    description: String,
    licence: String,
    /// The time of every file in every package, in seconds since 1970.
    time: u64,
}

impl Release {
    /// The release of the working tree.
    fn current() -> Result<Self> {
        let metadata = boundary::metadata()?;
        let mut packages = metadata["packages"].as_array().into_iter().flatten();
        let package = packages
            .find(|package| package["name"] == "stead-cli")
            .ok_or("the crate stead-cli is missing")?;
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        Ok(Release {
            version: text("version"),
            description: text("description"),
            licence: text("license"),
            time: release_time()?,
        })
    }
}

fn release_time() -> Result<u64> {
    let seconds = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(seconds) => seconds,
        Err(_) => capture(program("git").args(["log", "-1", "--format=%ct"]))?,
    };
    seconds.trim().parse().map_err(|_| "SOURCE_DATE_EPOCH has to be a number of seconds since 1970".into())
}

/// Makes all packages of these binaries in `directory`, which is emptied first. Returns their paths.
fn make_packages(binaries: &[PathBuf], directory: &Path) -> Result<Vec<PathBuf>> {
    let release = Release::current()?;
    let binaries = binaries.iter().map(|file| Binary::read(file)).collect::<Result<Vec<_>>>()?;
    let shared = SharedFiles::collect(&binaries)?;
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    fs::create_dir_all(directory)?;
    let mut files = vec![dockerfile::file()?];
    for binary in &binaries {
        files.push(dockerfile::binary_file(binary));
        files.push(tarball::package(binary, &shared, &release)?);
        files.push(deb::package(binary, &shared, &release)?);
        files.push(npm::package(binary, &shared, &release)?);
        files.push(wheel::package(binary, &shared, &release)?);
    }
    files.push(PackagedFile::data("SHA256SUMS", checksums::sums(&files)));
    let mut paths = Vec::new();
    for file in files {
        let path = directory.join(file.path);
        fs::create_dir_all(path.parent().expect("a package is in a directory"))?;
        fs::write(&path, file.content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(file.mode))?;
        paths.push(path);
    }
    Ok(paths)
}
