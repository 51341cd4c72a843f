//! Renaming a directory that holds many files.

use std::path::Path;

use crate::Result;
use crate::case::Effort;
use crate::contender::{Durability, PAIRS, labels, open_contenders};
use crate::content::text;
use crate::measure::{in_turns, timed};
use crate::table::{Table, Unit};

const FILES: usize = 10_000;

/// One table.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    let contenders = open_contenders(data, Durability::Fast)?;
    for entry in &contenders {
        entry
            .contender
            .fill(&mut (0..FILES).map(|i| (format!("round0/{:02}/{i}", i / 100), text(i, 200))))?;
    }
    let mut table = Table::new("rename", &labels(&contenders), &PAIRS);
    let renamed = in_turns(&contenders, effort.rounds(), |entry, round| {
        let (from, to) = (format!("round{round}"), format!("round{}", round + 1));
        Ok(Some(timed(1, || entry.contender.rename(&from, &to))?))
    })?;
    table.row("a directory of 10,000 files", &renamed, Unit::Time);
    Ok(vec![table])
}
