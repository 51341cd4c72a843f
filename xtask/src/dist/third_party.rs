//! The licence texts of the crates in the binary. Most licences ask for their text beside every copy of the code.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::Result;
use crate::programs::{capture, cargo};

/// How the names of files with a licence begin.
const FILE_NAMES: [&str; 6] = ["COPYING", "COPYRIGHT", "LICENCE", "LICENSE", "NOTICE", "UNLICENSE"];

/// All licence texts, each once, with the crates that it belongs to.
pub(super) fn licence_texts() -> Result<String> {
    let mut tree = cargo();
    tree.args(["tree", "--package", "stead-cli", "--edges", "normal,no-proc-macro"]);
    let tree = capture(tree.args(["--prefix", "none", "--format", "{p}"]))?;
    let metadata = capture(cargo().args(["metadata", "--format-version", "1"]))?;
    let compiled = compiled_crates(&tree);
    let mut notices = Notices::default();
    for package in serde_json::from_str::<Value>(&metadata)?["packages"].as_array().into_iter().flatten() {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let is_foreign = package["source"].is_string();
        if is_foreign && compiled.contains(&(text("name").to_owned(), text("version").to_owned())) {
            let label = format!("{} {} ({})", text("name"), text("version"), text("license"));
            let manifest = Path::new(text("manifest_path"));
            notices.add_crate(&label, manifest.parent().expect("a manifest is in a directory"))?;
        }
    }
    Ok(notices.to_text())
}

/// The names and versions in the output of `cargo tree`.
fn compiled_crates(tree: &str) -> BTreeSet<(String, String)> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next()?, words.next()?);
        Some((name.to_owned(), version.strip_prefix('v')?.to_owned()))
    };
    tree.lines().filter_map(line).collect()
}

/// Licence texts, and for each the crates that have it.
#[derive(Debug, Default)]
struct Notices {
    texts: BTreeMap<String, BTreeSet<String>>,
    without_text: BTreeSet<String>,
}

impl Notices {
    fn add_crate(&mut self, label: &str, directory: &Path) -> Result {
        let mut found = false;
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().to_uppercase();
            let is_licence = FILE_NAMES.iter().any(|beginning| name.starts_with(beginning));
            if is_licence && entry.file_type()?.is_file() {
                let text = String::from_utf8_lossy(&fs::read(entry.path())?).replace("\r\n", "\n");
                self.texts.entry(text.trim().to_owned()).or_default().insert(label.to_owned());
                found = true;
            }
        }
        if !found {
            self.without_text.insert(label.to_owned());
        }
        Ok(())
    }

    fn to_text(&self) -> String {
        let mut out = String::from("The binary `stead` contains the crates below, under these licences.\n");
        let line = "-".repeat(80);
        for (text, crates) in &self.texts {
            let _ = write!(out, "\n{line}\n{}\n{line}\n\n{text}\n", joined(crates));
        }
        if !self.without_text.is_empty() {
            let _ = write!(
                out,
                "\n{line}\nCrates that name a licence and come without its text:\n{}\n",
                joined(&self.without_text)
            );
        }
        out
    }
}

fn joined(labels: &BTreeSet<String>) -> String {
    labels.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crates_of_a_tree_are_read_with_their_versions() {
        let tree = "stead v0.1.0 (/home/ann/stead)\nserde v1.0.2\nserde v1.0.2 (*)\n\n";
        let version = |name: &str, version: &str| (name.to_owned(), version.to_owned());
        let expected = BTreeSet::from([version("stead", "0.1.0"), version("serde", "1.0.2")]);
        assert_eq!(compiled_crates(tree), expected);
    }

    #[test]
    fn a_text_appears_once_with_every_crate_that_has_it_and_a_missing_text_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let folder = |name: &str, licence: Option<&str>| {
            let folder = directory.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("lib.rs"), "code").unwrap();
            if let Some(licence) = licence {
                fs::write(folder.join("LICENSE-MIT"), licence).unwrap();
            }
            folder
        };
        let mut notices = Notices::default();
        notices.add_crate("one", &folder("one", Some("You may.\n"))).unwrap();
        notices.add_crate("two", &folder("two", Some("You may.\r\n\r\n"))).unwrap();
        notices.add_crate("three", &folder("three", None)).unwrap();
        let text = notices.to_text();
        assert_eq!(text.matches("You may.").count(), 1, "{text}");
        assert!(text.contains("one\ntwo\n"), "{text}");
        assert!(text.ends_with("without its text:\nthree\n"), "{text}");
    }
}
