//! The files of a real code base: the sources of the crates that this program is made of.

use std::fs;
use std::path::{Path, PathBuf};

use stead_core::hide::is_hidden_by_default;

use crate::Result;
use crate::content::text;

/// A path and its content.
pub type SourceFile = (String, Vec<u8>);

/// Larger files are left out: they are data rather than sources.
const MAX_SIZE: u64 = 256 << 10;

/// This many source files. They come from cargo's registry, crate by crate in the order of the lock file, so that they are the
/// same on every machine. What is missing there is generated.
pub fn source_files(count: usize) -> Result<Vec<SourceFile>> {
    let mut files = Vec::with_capacity(count);
    let registry = registry();
    for package in locked_packages() {
        for directory in registry.iter().map(|registry| registry.join(&package)) {
            if directory.is_dir() && files.len() < count {
                collect(&directory, &package, &mut files)?;
            }
        }
    }
    files.truncate(count);
    let found = files.len();
    if found < count {
        eprintln!("  {found} files are in cargo's registry, {} are generated", count - found);
    }
    files.extend((found..count).map(generated_file));
    Ok(files)
}

/// Small files that differ from each other.
pub fn generated_files(count: usize) -> impl Iterator<Item = SourceFile> {
    (0..count).map(generated_file)
}

fn generated_file(number: usize) -> SourceFile {
    (format!("generated/{}/{}/{number}.txt", number / 10_000, number / 100), text(number, 512))
}

/// The directories in which cargo unpacks crates.
fn registry() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let sources = home.and_then(|home| fs::read_dir(home.join("registry/src")).ok());
    sources.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// `NAME-VERSION` of each crate in the lock file.
fn locked_packages() -> Vec<String> {
    let value = |line: &str, key: &str| Some(line.strip_prefix(key)?.trim_matches('"').to_owned());
    let lines: Vec<_> = include_str!("../../../Cargo.lock").lines().collect();
    lines
        .windows(2)
        .filter_map(|pair| Some((value(pair[0], "name = ")?, value(pair[1], "version = ")?)))
        .map(|(name, version)| format!("{name}-{version}"))
        .collect()
}

/// Adds the files below a directory, sorted by name. Left out are files that tell git what to do, and keys for tests, whose
/// names a Workspace hides.
fn collect(directory: &Path, prefix: &str, files: &mut Vec<SourceFile>) -> Result {
    let mut entries = fs::read_dir(directory)?.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let (kind, path) = (entry.file_type()?, format!("{prefix}/{name}"));
        if name.starts_with('.') || is_hidden_by_default(&path) {
            continue;
        } else if kind.is_dir() {
            collect(&entry.path(), &path, files)?;
        } else if kind.is_file() && entry.metadata()?.len() <= MAX_SIZE {
            files.push((path, fs::read(entry.path())?));
        }
    }
    Ok(())
}
