//! The cost of the same operation among few files and among many.

use std::path::Path;

use crate::Result;
use crate::case::Effort;
use crate::contender::{Durability, NamedContender, PAIRS, labels, open_contenders};
use crate::content::{renumber, text};
use crate::measure::{Summary, in_turns, timed};
use crate::table::{Table, Unit, count};

/// How many files a directory has.
const FILES_PER_DIRECTORY: usize = 100;
const SIZE: usize = 1024;
/// Above this many files AgentFS is left out: filling it takes longer than minutes.
const MAX_AGENTFS_FILES: usize = 100_000;

/// Returns one table, with a row per operation and number of files.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    let sizes: &[usize] = match effort {
        Effort::Full => &[1_000, 100_000, 1_000_000],
        Effort::Quick => &[1_000, 100_000],
    };
    let contenders = open_contenders(data, Durability::Fast)?;
    let mut table = Table::new("1 KiB files", &labels(&contenders), &PAIRS);
    let mut rows: [(&str, Vec<Vec<Option<Summary>>>); 4] =
        [("create", vec![]), ("stat", vec![]), ("read", vec![]), ("list 100", vec![])];
    let mut existing = 0;
    for &files in sizes {
        for entry in contenders.iter().filter(|entry| takes_part(entry, files)) {
            eprintln!("  {files} files: {}", entry.label);
            entry.contender.fill(&mut (existing..files).map(|i| (path(i), text(i, SIZE))))?;
        }
        existing = files;
        for (row, summaries) in rows.iter_mut().zip(measure_all(&contenders, files, effort)?) {
            row.1.push(summaries);
        }
    }
    for (operation, summaries) in rows {
        for (files, summaries) in sizes.iter().zip(summaries) {
            table.row(format!("{operation}, among {}", count(*files)), &summaries, Unit::Time);
        }
    }
    Ok(vec![table])
}

fn takes_part(entry: &NamedContender, files: usize) -> bool {
    entry.label != "AgentFS" || files <= MAX_AGENTFS_FILES
}

fn path(number: usize) -> String {
    format!(
        "{}/{}/{number}",
        number / FILES_PER_DIRECTORY / FILES_PER_DIRECTORY,
        number / FILES_PER_DIRECTORY
    )
}

fn measure_all(
    contenders: &[NamedContender],
    files: usize,
    effort: Effort,
) -> Result<[Vec<Option<Summary>>; 4]> {
    const COUNT: usize = 300;
    let mut random = fastrand::Rng::with_seed(files as u64);
    let mut content = text(0, SIZE);
    let mut number = files;
    let created = in_turns(contenders, effort.rounds(), |entry, round| {
        if !takes_part(entry, files) {
            return Ok(None);
        }
        let directory = format!("new{files}-{round}");
        entry.contender.make_directory(&directory)?;
        let sample = timed(COUNT, || {
            for index in 0..COUNT {
                number += 1;
                renumber(&mut content, number);
                entry.contender.create(&format!("{directory}/{index}"), &content)?;
            }
            Ok(())
        })?;
        Ok(Some(sample))
    })?;
    let mut measure_random = |operation: &dyn Fn(&NamedContender, usize) -> Result| {
        in_turns(contenders, effort.rounds(), |entry, _| {
            if !takes_part(entry, files) {
                return Ok(None);
            }
            let sample =
                timed(COUNT, || (0..COUNT).try_for_each(|_| operation(entry, random.usize(..files))))?;
            Ok(Some(sample))
        })
    };
    let stats = measure_random(&|entry, number| entry.contender.size(&path(number)).map(drop))?;
    let read = measure_random(&|entry, number| entry.contender.read(&path(number)).map(drop))?;
    let directory_of = |number: usize| {
        format!("{}/{}", number / FILES_PER_DIRECTORY / FILES_PER_DIRECTORY, number / FILES_PER_DIRECTORY)
    };
    let listed = measure_random(&|entry, number| entry.contender.list(&directory_of(number)).map(drop))?;
    Ok([created, stats, read, listed])
}
