//! What it costs a directory to keep what is overwritten, and to say who did it.

use std::path::Path;

use crate::Result;
use crate::case::Effort;
use crate::contender::{Contender, Durability, Ours, Seat, fresh, labels};
use crate::content::{SMALL, renumber, text};
use crate::measure::{concurrent, in_turns, timed};
use crate::table::{Table, Unit};

/// Files that are there to be overwritten.
const THERE: usize = 1_000;
const PAIRS: [(&str, &str); 2] = [("keeping", "not keeping"), ("keeping", "Virtual")];
const WRITERS: usize = 8;

/// A table for either durability.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    Ok(vec![
        table("4 KiB files, surviving a power cut", &data.join("full"), Durability::Full, 200, effort)?,
        table("4 KiB files, surviving the process", &data.join("fast"), Durability::Fast, 1_000, effort)?,
    ])
}

fn field(data: &Path, durability: Durability) -> Result<Vec<Seat>> {
    let mut seats: Vec<Seat> = Vec::new();
    let mut seat = |label, contender: Box<dyn Contender>| seats.push(Seat { label, contender });
    seat("keeping", Box::new(Ours::keeping(&fresh(data, "keeping")?, durability)?));
    seat("not keeping", Box::new(Ours::on_disk(&fresh(data, "physical")?, durability)?));
    seat("Virtual", Box::new(Ours::in_database(&fresh(data, "virtual")?, durability)?));
    Ok(seats)
}

fn table(title: &str, data: &Path, durability: Durability, files: usize, effort: Effort) -> Result<Table> {
    let field = field(data, durability)?;
    for seat in &field {
        seat.contender.fill(&mut (0..THERE).map(|i| (path(i), text(i, SMALL))))?;
    }
    let mut table = Table::new(title, &labels(&field), &PAIRS);
    let mut content = text(0, SMALL);
    let mut number = THERE;
    let created = in_turns(&field, effort.rounds(), |seat, round| {
        let directory = format!("new{round}");
        seat.contender.make_directory(&directory)?;
        Ok(Some(timed(files, || {
            for index in 0..files {
                number += 1;
                renumber(&mut content, number);
                seat.contender.create(&format!("{directory}/{index}"), &content)?;
            }
            Ok(())
        })?))
    })?;
    table.row("create", &created, Unit::Time);
    let mut random = fastrand::Rng::with_seed(1);
    let overwritten = in_turns(&field, effort.rounds(), |seat, _| {
        Ok(Some(timed(files, || {
            for _ in 0..files {
                number += 1;
                renumber(&mut content, number);
                seat.contender.overwrite(&path(random.usize(..THERE)), &content)?;
            }
            Ok(())
        })?))
    })?;
    table.row("overwrite", &overwritten, Unit::Time);
    let at_once = in_turns(&field, effort.rounds(), |seat, _| Ok(Some(at_once(&*seat.contender, files)?)))?;
    table.row(format!("overwrite, {WRITERS} writers"), &at_once, Unit::Rate);
    Ok(table)
}

fn path(number: usize) -> String {
    format!("there/{number}")
}

/// Overwrites files from several threads.
fn at_once(contender: &dyn Contender, files: usize) -> Result<crate::measure::Sample> {
    let start = std::time::Instant::now();
    let waits = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn(move || -> Result<Vec<std::time::Duration>> {
                    let handle = contender.for_thread()?;
                    let mut content = text(writer, SMALL);
                    let mut waits = Vec::with_capacity(files / WRITERS);
                    for number in 0..files / WRITERS {
                        renumber(&mut content, fastrand::usize(..1_000_000_000_000));
                        let begin = std::time::Instant::now();
                        handle.overwrite(&path((writer + number * WRITERS) % THERE), &content)?;
                        waits.push(begin.elapsed());
                    }
                    Ok(waits)
                })
            })
            .collect();
        let mut waits = Vec::with_capacity(files);
        for thread in threads {
            waits.extend(thread.join().expect("a writer does not panic")?);
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(waits)
    })?;
    Ok(concurrent(&waits, start.elapsed()))
}
