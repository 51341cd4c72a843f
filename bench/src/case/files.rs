//! Small files, one caller: create, overwrite, read, stat, list.

use std::path::Path;

use crate::Result;
use crate::case::Effort;
use crate::contender::{Durability, NamedContender, PAIRS, labels, open_contenders};
use crate::content::{SMALL, renumber, text};
use crate::measure::{in_turns, timed};
use crate::table::{Table, Unit, count};

/// How many files exist before the measurement, to be read and overwritten. Their paths have three components.
const EXISTING_FILES: usize = 10_000;
/// How many of them one round reads.
const FILES_PER_ROUND: usize = 1_000;

/// Returns two tables for writing, one per durability, and one for reading.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    let full = open_contenders(&data.join("full"), Durability::Full)?;
    let fast = open_contenders(&data.join("fast"), Durability::Fast)?;
    for entry in full.iter().chain(&fast) {
        entry.contender.fill(&mut (0..EXISTING_FILES).map(|i| (path(i), text(i, SMALL))))?;
    }
    Ok(vec![
        writing("4 KiB files, surviving a power cut", &full, 100, effort)?,
        writing("4 KiB files, surviving the process", &fast, 500, effort)?,
        reading(&fast, effort)?,
    ])
}

fn path(number: usize) -> String {
    format!("there/{:03}/{number}", number / 100)
}

fn writing(title: &str, contenders: &[NamedContender], files: usize, effort: Effort) -> Result<Table> {
    let mut table = Table::new(title, &labels(contenders), &PAIRS);
    let mut content = text(0, SMALL);
    let mut number = EXISTING_FILES;
    let created = in_turns(contenders, effort.rounds(), |entry, round| {
        let directory = format!("new{round}");
        entry.contender.make_directory(&directory)?;
        let sample = timed(files, || {
            for index in 0..files {
                number += 1;
                renumber(&mut content, number);
                entry.contender.create(&format!("{directory}/{index}"), &content)?;
            }
            Ok(())
        })?;
        Ok(Some(sample))
    })?;
    table.row("create", &created, Unit::Time);
    let mut random = fastrand::Rng::with_seed(1);
    let overwritten = in_turns(contenders, effort.rounds(), |entry, _| {
        let sample = timed(files, || {
            for _ in 0..files {
                number += 1;
                renumber(&mut content, number);
                entry.contender.overwrite(&path(random.usize(..EXISTING_FILES)), &content)?;
            }
            Ok(())
        })?;
        Ok(Some(sample))
    })?;
    table.row("overwrite", &overwritten, Unit::Time);
    Ok(table)
}

fn reading(contenders: &[NamedContender], effort: Effort) -> Result<Table> {
    let mut table = Table::new("4 KiB files", &labels(contenders), &PAIRS);
    let mut random = fastrand::Rng::with_seed(2);
    let read = in_turns(contenders, effort.rounds(), |entry, _| {
        let sample = timed(FILES_PER_ROUND, || {
            for _ in 0..FILES_PER_ROUND {
                let content = entry.contender.read(&path(random.usize(..EXISTING_FILES)))?;
                expect(content.len() == SMALL, entry, "read")?;
            }
            Ok(())
        })?;
        Ok(Some(sample))
    })?;
    table.row("read", &read, Unit::Time);
    let stats = in_turns(contenders, effort.rounds(), |entry, _| {
        let sample = timed(FILES_PER_ROUND, || {
            for _ in 0..FILES_PER_ROUND {
                let size = entry.contender.size(&path(random.usize(..EXISTING_FILES)))?;
                expect(size == SMALL as u64, entry, "stat")?;
            }
            Ok(())
        })?;
        Ok(Some(sample))
    })?;
    table.row("stat", &stats, Unit::Time);
    for entries in [100, 20_000] {
        let directory = format!("listed{entries}");
        for entry in contenders {
            entry.contender.fill(&mut (0..entries).map(|i| (format!("{directory}/{i}"), text(i, 100))))?;
        }
        let times = (10_000 / entries).max(1);
        let listed = in_turns(contenders, effort.rounds(), |entry, _| {
            let sample = timed(times, || {
                for _ in 0..times {
                    expect(entry.contender.list(&directory)? == entries, entry, "list")?;
                }
                Ok(())
            })?;
            Ok(Some(sample))
        })?;
        table.row(format!("list {} with attributes", count(entries)), &listed, Unit::Time);
    }
    Ok(table)
}

/// Fails if an answer is wrong: its time would mean nothing.
fn expect(is_correct: bool, entry: &NamedContender, operation: &str) -> Result {
    if is_correct { Ok(()) } else { Err(format!("{}: {operation} gave a wrong answer", entry.label).into()) }
}
