//! The space of many forks, and what discarding them gives back.

use std::path::Path;
use std::time::Duration;

use stead::{Clock, GcOptions, Retention, SystemClock};

use super::code_base::{SourceFile, source_files};
use super::forkable::{FileChange, Forkable};
use super::git::Repository;
use super::stead_side::{SteadSide, StoreKind};
use crate::Result;
use crate::case::Effort;
use crate::contender::Durability;
use crate::table::{Table, count, digits};

const FILES: usize = 10_000;
const FORKS: usize = 100;
/// How many files each fork changes.
const CHANGES: usize = 10;

/// A column per kind of Store. What git needs is measured with one work tree.
pub fn run(data: &Path, _: Effort) -> Result<Table> {
    let files = source_files(FILES)?;
    let title = format!("{FORKS} forks of {} files, {CHANGES} changes each", count(FILES));
    let mut table = Table::new(title, &["Virtual", "Physical", "git"], &[]);
    let mut columns = Vec::new();
    for (name, kind) in [("virtual", StoreKind::Virtual), ("physical", StoreKind::Physical)] {
        eprintln!("  space: {name}");
        columns.push(measure(&data.join(name), kind, &files)?);
    }
    let mut git = Repository::create(&data.join("git"), &files)?;
    let repository = disk_usage(&data.join("git/main/.git"))?;
    git.fork("one")?;
    let work_tree =
        disk_usage(&git.work_tree("one"))? + disk_usage(&data.join("git/main/.git"))? - repository;
    let git = [Some(repository), Some(repository + FORKS as u64 * work_tree), None, Some(repository)];

    let mebibytes = |bytes: u64| format!("{} MiB", digits(bytes as f64 / f64::from(1 << 20)));
    let rows = ["before", "with the forks", "after discarding all", "after gc and vacuum"];
    for (row, name) in rows.into_iter().enumerate() {
        let mut cells: Vec<_> = columns.iter().map(|column| mebibytes(column[row])).collect();
        cells.push(git[row].map_or_else(|| "–".to_owned(), mebibytes));
        table.texts(name, cells);
    }
    Ok(table)
}

/// The bytes before, with the forks, after discarding them, and after gc.
fn measure(directory: &Path, kind: StoreKind, files: &[SourceFile]) -> Result<[u64; 4]> {
    let mut side = SteadSide::create(directory, kind, Durability::Fast, files.iter().cloned())?;
    // Without what filling leaves behind in the write-ahead log.
    collect_garbage(&side)?;
    let before = side.stored_bytes()?;
    let mut random = fastrand::Rng::with_seed(2);
    let name = |number: usize| format!("fork-{number}");
    for number in 0..FORKS {
        side.fork(&name(number))?;
        let changes: Vec<_> = (0..CHANGES)
            .map(|_| {
                let (path, content) = files[random.usize(..files.len())].clone();
                let content = [content, format!("// {number}\n").into_bytes()].concat();
                FileChange { path, moved_to: None, content }
            })
            .collect();
        side.change_fork(&name(number), &changes)?;
    }
    let with_forks = side.stored_bytes()?;
    for number in 0..FORKS {
        side.discard(&name(number))?;
    }
    let discarded = side.stored_bytes()?;
    collect_garbage(&side)?;
    Ok([before, with_forks, discarded, side.stored_bytes()?])
}

fn collect_garbage(side: &SteadSide) -> Result {
    let retention = Retention { age: Duration::ZERO, ..Retention::default() };
    let options = GcOptions { grace: Duration::ZERO, vacuum: true };
    side.stores().gc(retention, options, SystemClock.now(), &mut |_, _| ())?;
    Ok(())
}

/// The bytes of the files below a directory.
fn disk_usage(directory: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        total += match entry.file_type()?.is_dir() {
            true => disk_usage(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(total)
}
