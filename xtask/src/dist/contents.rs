//! The files that packages have in common: manual pages, completions and licences.

use std::fs;

use crate::Result;
use crate::programs::{capture, program, root};

use super::binary::Binary;
use super::third_party;

/// The licences of Stead itself, in the root of the repository.
pub(super) const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];
/// The file with the licences of the crates in the binary.
pub(super) const THIRD_PARTY: &str = "THIRD-PARTY-LICENSES.txt";

/// A shell, and the file of its completions below a prefix such as `/usr`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/stead"),
    ("fish", "share/fish/vendor_completions.d/stead.fish"),
    ("zsh", "share/zsh/site-functions/_stead"),
];

/// A file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackagedFile {
    /// The path in the package, without `/` at its beginning.
    pub(super) path: String,
    /// The permission bits.
    pub(super) mode: u32,
    /// The content.
    pub(super) content: Vec<u8>,
}

impl PackagedFile {
    /// A file that everybody may read.
    pub(super) fn data(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        PackagedFile { path: path.into(), mode: 0o644, content: content.into() }
    }

    /// A file that everybody may read and execute.
    pub(super) fn executable(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        PackagedFile { path: path.into(), mode: 0o755, content: content.into() }
    }
}

/// The files that don't depend on the architecture.
#[derive(Debug)]
pub(super) struct SharedFiles {
    /// Manual pages, completions and the changelog, below a prefix such as `/usr`.
    pub(super) installed: Vec<PackagedFile>,
    /// The licences of Stead and of the crates in the binary, without a directory.
    pub(super) licences: Vec<PackagedFile>,
    /// The text that the package managers of Node and Python show.
    pub(super) readme: String,
}

impl SharedFiles {
    /// Collects the files. One of the binaries has to run on this machine: it writes the manual pages and the
    /// completions.
    pub(super) fn collect(binaries: &[Binary]) -> Result<Self> {
        let is_native = |binary: &&Binary| binary.architecture().rust_name() == std::env::consts::ARCH;
        let binary = binaries.iter().find(is_native).ok_or(
            "none of the binaries runs on this machine, so the manual pages can't be made; add one with --binary",
        )?;
        let mut installed = manual_pages(binary)?;
        for (shell, path) in COMPLETIONS {
            let script = capture(program(binary.file()).args(["completions", shell]))?;
            installed.push(PackagedFile::data(path, script));
        }
        let changelog = fs::read(root().join("CHANGELOG.md"))?;
        installed.push(PackagedFile::data("share/doc/stead/CHANGELOG.md", changelog));
        let mut licences = Vec::new();
        for name in LICENCES {
            licences.push(PackagedFile::data(name, fs::read(root().join(name))?));
        }
        licences.push(PackagedFile::data(THIRD_PARTY, third_party::licence_texts()?));
        let readme = fs::read_to_string(root().join("packaging/README.md"))?;
        Ok(SharedFiles { installed, licences, readme })
    }
}

/// One page for each command.
fn manual_pages(binary: &Binary) -> Result<Vec<PackagedFile>> {
    let directory = tempfile::tempdir()?;
    capture(program(binary.file()).arg("man").arg(directory.path()))?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(directory.path())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        pages.push(PackagedFile::data(format!("share/man/man1/{name}"), fs::read(entry.path())?));
    }
    if pages.is_empty() {
        return Err("the binary wrote no manual pages".into());
    }
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(pages)
}
