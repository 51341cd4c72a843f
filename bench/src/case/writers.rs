//! Many callers that create small files at the same time.

use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::Result;
use crate::case::Effort;
use crate::contender::{Contender, Durability, PAIRS, labels, open_contenders};
use crate::content::{SMALL, renumber, text};
use crate::measure::{Sample, concurrent, in_turns};
use crate::table::{Table, Unit};

/// Returns one table per durability.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    let full = "4 KiB files created, surviving a power cut";
    let fast = "4 KiB files created, surviving the process";
    Ok(vec![
        table(full, &data.join("full"), Durability::Full, 512, effort)?,
        table(fast, &data.join("fast"), Durability::Fast, 2_048, effort)?,
    ])
}

fn table(title: &str, data: &Path, durability: Durability, files: usize, effort: Effort) -> Result<Table> {
    let contenders = open_contenders(data, durability)?;
    let mut table = Table::new(title, &labels(&contenders), &PAIRS);
    for writers in [1, 8, 64] {
        let summaries = in_turns(&contenders, effort.rounds(), |entry, round| {
            let directory = format!("writers{writers}-{round}");
            entry.contender.make_directory(&directory)?;
            Ok(Some(create_concurrently(&*entry.contender, &directory, writers, files)?))
        })?;
        let name = if writers == 1 { "1 writer".to_owned() } else { format!("{writers} writers") };
        table.row(&name, &summaries, Unit::Rate);
        table.row_of_worst(format!("{name}, longest wait"), &summaries);
    }
    Ok(table)
}

/// Creates `files` files, divided among `writers` threads.
fn create_concurrently(
    contender: &dyn Contender,
    directory: &str,
    writers: usize,
    files: usize,
) -> Result<Sample> {
    let handles = (0..writers).map(|_| contender.for_thread()).collect::<Result<Vec<_>>>()?;
    let barrier = Barrier::new(writers + 1);
    std::thread::scope(|scope| {
        let threads = handles.iter().enumerate().map(|(writer, handle)| {
            let barrier = &barrier;
            scope.spawn(move || -> Result<Vec<Duration>> {
                let mut content = text(writer, SMALL);
                let mut waits = Vec::with_capacity(files / writers);
                barrier.wait();
                for number in 0..files / writers {
                    let path = format!("{directory}/{writer}-{number}");
                    renumber(&mut content, fastrand::usize(..1_000_000_000_000));
                    let start = Instant::now();
                    handle.create(&path, &content)?;
                    waits.push(start.elapsed());
                }
                Ok(waits)
            })
        });
        let threads = threads.collect::<Vec<_>>();
        barrier.wait();
        let start = Instant::now();
        let mut waits = Vec::with_capacity(files);
        for thread in threads {
            waits.extend(thread.join().expect("a writer does not panic")?);
        }
        Ok(concurrent(&waits, start.elapsed()))
    })
}
