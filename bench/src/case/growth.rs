//! What the same operation costs among few files and among many.

use std::path::Path;

use crate::Result;
use crate::case::Effort;
use crate::contender::{Durability, PAIRS, Seat, field, labels};
use crate::content::{renumber, text};
use crate::measure::{Summary, in_turns, timed};
use crate::table::{Table, Unit, count};

/// Files in a directory.
const TOGETHER: usize = 100;
const SIZE: usize = 1024;
/// Beyond this many files AgentFS sits out: it has no way to fill it that ends within minutes.
const AGENTFS: usize = 100_000;

/// A table, with a row per operation and number of files.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    let sizes: &[usize] = match effort {
        Effort::Full => &[1_000, 100_000, 1_000_000],
        Effort::Quick => &[1_000, 100_000],
    };
    let field = field(data, Durability::Fast)?;
    let mut table = Table::new("1 KiB files", &labels(&field), &PAIRS);
    let mut rows: [(&str, Vec<Vec<Option<Summary>>>); 4] =
        [("create", vec![]), ("stat", vec![]), ("read", vec![]), ("list 100", vec![])];
    let mut there = 0;
    for &files in sizes {
        for seat in field.iter().filter(|seat| takes_part(seat, files)) {
            eprintln!("  {files} files: {}", seat.label);
            seat.contender.fill(&mut (there..files).map(|i| (path(i), text(i, SIZE))))?;
        }
        there = files;
        for (row, summaries) in rows.iter_mut().zip(measured(&field, files, effort)?) {
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

fn takes_part(seat: &Seat, files: usize) -> bool {
    seat.label != "AgentFS" || files <= AGENTFS
}

fn path(number: usize) -> String {
    format!("{}/{}/{number}", number / TOGETHER / TOGETHER, number / TOGETHER)
}

fn measured(field: &[Seat], files: usize, effort: Effort) -> Result<[Vec<Option<Summary>>; 4]> {
    const COUNT: usize = 300;
    let mut random = fastrand::Rng::with_seed(files as u64);
    let mut content = text(0, SIZE);
    let mut number = files;
    let created = in_turns(field, effort.rounds(), |seat, round| {
        if !takes_part(seat, files) {
            return Ok(None);
        }
        let directory = format!("new{files}-{round}");
        seat.contender.make_directory(&directory)?;
        let sample = timed(COUNT, || {
            for index in 0..COUNT {
                number += 1;
                renumber(&mut content, number);
                seat.contender.create(&format!("{directory}/{index}"), &content)?;
            }
            Ok(())
        })?;
        Ok(Some(sample))
    })?;
    let mut each = |operation: &dyn Fn(&Seat, usize) -> Result| {
        in_turns(field, effort.rounds(), |seat, _| {
            if !takes_part(seat, files) {
                return Ok(None);
            }
            let sample =
                timed(COUNT, || (0..COUNT).try_for_each(|_| operation(seat, random.usize(..files))))?;
            Ok(Some(sample))
        })
    };
    let sized = each(&|seat, number| seat.contender.size(&path(number)).map(drop))?;
    let read = each(&|seat, number| seat.contender.read(&path(number)).map(drop))?;
    let directory_of = |number: usize| format!("{}/{}", number / TOGETHER / TOGETHER, number / TOGETHER);
    let listed = each(&|seat, number| seat.contender.list(&directory_of(number)).map(drop))?;
    Ok([created, sized, read, listed])
}
