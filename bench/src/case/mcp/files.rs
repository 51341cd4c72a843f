//! The files that the servers serve: the same on disk and in a database. The database has many more besides them.

use std::path::Path;

use crate::Result;
use crate::contender::{Contender, Disk, Durability, SteadStore, WriteMethod, new_directory};
use crate::content::{RARE, SMALL, text};

/// How many files are searched and read, below `tree`.
pub const TREE_FILES: usize = 10_000;
/// How many entries are listed, in `many`.
pub const LISTED_FILES: usize = 2_000;
/// How many files the database has.
pub const DATABASE_FILES: usize = 100_000;
/// Matches one name in a hundred below `tree`.
pub const NAME_PATTERN: &str = "**/*77.txt";

/// Makes the files in `data`: on disk in `files`, and a configured stead in `virtual`.
pub fn create_files(data: &Path) -> Result {
    Disk::open(&new_directory(data, "files")?, WriteMethod::Plain)
        .fill(&mut tree_files().chain(listed_files()))?;
    let directory = new_directory(data, "virtual")?;
    let rest = (0..DATABASE_FILES - TREE_FILES - LISTED_FILES).map(|number| {
        (format!("rest/{:03}/{number}.txt", number / 100), format!("the rest, {number}\n").into_bytes())
    });
    SteadStore::in_database(&directory, Durability::Fast)?
        .fill(&mut tree_files().chain(listed_files()).chain(rest))?;
    Ok(std::fs::write(directory.join("stead.toml"), CONFIG)?)
}

/// The agent has the default settings; the audit is on by default.
const CONFIG: &str = r#"
[database]
url = "sqlite:stead.db"

[stores.files]
kind = "virtual"
namespace = ["bench"]

[agents.bench]

[[agents.bench.workspaces]]
prefix = "/files"
scope = "READ_WRITE"
store = "files"
"#;

/// The path of a file below `tree`.
pub fn path(number: usize) -> String {
    format!("tree/{:02}/{number:05}.txt", number / 100)
}

/// The content of a file below `tree`. Few of them contain the rare word.
pub fn content(number: usize) -> Vec<u8> {
    let mut content = text(number, SMALL);
    if contains_rare_word(number) {
        let line = format!("\n{RARE}\n");
        content[100..100 + line.len()].copy_from_slice(line.as_bytes());
    }
    content
}

/// How many files contain the rare word.
pub fn rare_file_count() -> usize {
    (0..TREE_FILES).filter(|number| contains_rare_word(*number)).count()
}

fn contains_rare_word(number: usize) -> bool {
    number % (TREE_FILES / 3) == 7
}

fn tree_files() -> impl Iterator<Item = (String, Vec<u8>)> {
    (0..TREE_FILES).map(|number| (path(number), content(number)))
}

fn listed_files() -> impl Iterator<Item = (String, Vec<u8>)> {
    (0..LISTED_FILES)
        .map(|number| (format!("many/{number:04}.txt"), format!("one of many, {number}\n").into_bytes()))
}
