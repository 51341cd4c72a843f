//! Small files, one caller: create, overwrite, read, stat, list.

use std::path::Path;

use crate::Result;
use crate::case::Effort;
use crate::contender::{Durability, PAIRS, Seat, field, labels};
use crate::content::{SMALL, renumber, text};
use crate::measure::{in_turns, timed};
use crate::table::{Table, Unit, count};

/// Files that are there to be read and overwritten, three components deep.
const THERE: usize = 10_000;
/// How many of them one round touches.
const TOUCHED: usize = 1_000;

/// Tables for writing at either durability, and for reading.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    let full = field(&data.join("full"), Durability::Full)?;
    let fast = field(&data.join("fast"), Durability::Fast)?;
    for seat in full.iter().chain(&fast) {
        seat.contender.fill(&mut (0..THERE).map(|i| (path(i), text(i, SMALL))))?;
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

fn writing(title: &str, field: &[Seat], files: usize, effort: Effort) -> Result<Table> {
    let mut table = Table::new(title, &labels(field), &PAIRS);
    let mut content = text(0, SMALL);
    let mut number = THERE;
    let created = in_turns(field, effort.rounds(), |seat, round| {
        let directory = format!("new{round}");
        seat.contender.make_directory(&directory)?;
        let sample = timed(files, || {
            for index in 0..files {
                number += 1;
                renumber(&mut content, number);
                seat.contender.create(&format!("{directory}/{index}"), &content)?;
            }
            Ok(())
        })?;
        Ok(Some(sample))
    })?;
    table.row("create", &created, Unit::Time);
    let mut random = fastrand::Rng::with_seed(1);
    let overwritten = in_turns(field, effort.rounds(), |seat, _| {
        let sample = timed(files, || {
            for _ in 0..files {
                number += 1;
                renumber(&mut content, number);
                seat.contender.overwrite(&path(random.usize(..THERE)), &content)?;
            }
            Ok(())
        })?;
        Ok(Some(sample))
    })?;
    table.row("overwrite", &overwritten, Unit::Time);
    Ok(table)
}

fn reading(field: &[Seat], effort: Effort) -> Result<Table> {
    let mut table = Table::new("4 KiB files", &labels(field), &PAIRS);
    let mut random = fastrand::Rng::with_seed(2);
    let read = in_turns(field, effort.rounds(), |seat, _| {
        let sample = timed(TOUCHED, || {
            for _ in 0..TOUCHED {
                let content = seat.contender.read(&path(random.usize(..THERE)))?;
                expect(content.len() == SMALL, seat, "read")?;
            }
            Ok(())
        })?;
        Ok(Some(sample))
    })?;
    table.row("read", &read, Unit::Time);
    let sized = in_turns(field, effort.rounds(), |seat, _| {
        let sample = timed(TOUCHED, || {
            for _ in 0..TOUCHED {
                let size = seat.contender.size(&path(random.usize(..THERE)))?;
                expect(size == SMALL as u64, seat, "stat")?;
            }
            Ok(())
        })?;
        Ok(Some(sample))
    })?;
    table.row("stat", &sized, Unit::Time);
    for entries in [100, 20_000] {
        let directory = format!("listed{entries}");
        for seat in field {
            seat.contender.fill(&mut (0..entries).map(|i| (format!("{directory}/{i}"), text(i, 100))))?;
        }
        let times = (10_000 / entries).max(1);
        let listed = in_turns(field, effort.rounds(), |seat, _| {
            let sample = timed(times, || {
                for _ in 0..times {
                    expect(seat.contender.list(&directory)? == entries, seat, "list")?;
                }
                Ok(())
            })?;
            Ok(Some(sample))
        })?;
        table.row(format!("list {} with attributes", count(entries)), &listed, Unit::Time);
    }
    Ok(table)
}

/// A wrong answer is no result, however fast.
fn expect(right: bool, seat: &Seat, what: &str) -> Result {
    if right { Ok(()) } else { Err(format!("{}: {what} gave a wrong answer", seat.label).into()) }
}
