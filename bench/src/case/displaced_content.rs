//! What it costs a Physical Store to retain displaced content and to record who displaced it.

use std::path::Path;

use crate::Result;
use crate::case::Effort;
use crate::contender::{Contender, Durability, NamedContender, SteadStore, labels, new_directory};
use crate::content::{SMALL, renumber, text};
use crate::measure::{concurrent, in_turns, timed};
use crate::table::{Table, Unit};

/// How many files exist before the measurement, to be overwritten.
const EXISTING_FILES: usize = 1_000;
const PAIRS: [(&str, &str); 2] = [("keeping", "not keeping"), ("keeping", "Virtual")];
const WRITERS: usize = 8;

/// Returns one table per durability.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    Ok(vec![
        table("4 KiB files, surviving a power cut", &data.join("full"), Durability::Full, 200, effort)?,
        table("4 KiB files, surviving the process", &data.join("fast"), Durability::Fast, 1_000, effort)?,
    ])
}

fn open_contenders(data: &Path, durability: Durability) -> Result<Vec<NamedContender>> {
    let mut contenders: Vec<NamedContender> = Vec::new();
    let mut add = |label, contender: Box<dyn Contender>| contenders.push(NamedContender { label, contender });
    add("keeping", Box::new(SteadStore::retaining(&new_directory(data, "keeping")?, durability)?));
    add("not keeping", Box::new(SteadStore::on_disk(&new_directory(data, "physical")?, durability)?));
    add("Virtual", Box::new(SteadStore::in_database(&new_directory(data, "virtual")?, durability)?));
    Ok(contenders)
}

fn table(title: &str, data: &Path, durability: Durability, files: usize, effort: Effort) -> Result<Table> {
    let contenders = open_contenders(data, durability)?;
    for entry in &contenders {
        entry.contender.fill(&mut (0..EXISTING_FILES).map(|i| (path(i), text(i, SMALL))))?;
    }
    let mut table = Table::new(title, &labels(&contenders), &PAIRS);
    let mut content = text(0, SMALL);
    let mut number = EXISTING_FILES;
    let created = in_turns(&contenders, effort.rounds(), |entry, round| {
        let directory = format!("new{round}");
        entry.contender.make_directory(&directory)?;
        Ok(Some(timed(files, || {
            for index in 0..files {
                number += 1;
                renumber(&mut content, number);
                entry.contender.create(&format!("{directory}/{index}"), &content)?;
            }
            Ok(())
        })?))
    })?;
    table.row("create", &created, Unit::Time);
    let mut random = fastrand::Rng::with_seed(1);
    let overwritten = in_turns(&contenders, effort.rounds(), |entry, _| {
        Ok(Some(timed(files, || {
            for _ in 0..files {
                number += 1;
                renumber(&mut content, number);
                entry.contender.overwrite(&path(random.usize(..EXISTING_FILES)), &content)?;
            }
            Ok(())
        })?))
    })?;
    table.row("overwrite", &overwritten, Unit::Time);
    let rates = in_turns(&contenders, effort.rounds(), |entry, _| {
        Ok(Some(overwrite_concurrently(&*entry.contender, files)?))
    })?;
    table.row(format!("overwrite, {WRITERS} writers"), &rates, Unit::Rate);
    Ok(table)
}

fn path(number: usize) -> String {
    format!("there/{number}")
}

/// Overwrites files from several threads.
fn overwrite_concurrently(contender: &dyn Contender, files: usize) -> Result<crate::measure::Sample> {
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
                        let write_start = std::time::Instant::now();
                        handle.overwrite(&path((writer + number * WRITERS) % EXISTING_FILES), &content)?;
                        waits.push(write_start.elapsed());
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
