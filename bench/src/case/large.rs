//! A large file, written and read in pieces.

use std::path::Path;

use crate::Result;
use crate::case::Effort;
use crate::contender::{Durability, PAIRS, labels, open_contenders};
use crate::content::noise;
use crate::measure::{in_turns, timed};
use crate::table::{Table, Unit};

const MIB: usize = 64;

/// One table.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    let unit = Unit::Throughput(MIB as f64);
    let contenders = open_contenders(data, Durability::Fast)?;
    let mut table = Table::new(format!("{MIB} MiB"), &labels(&contenders), &PAIRS);
    let mut seed = 0;
    let written = in_turns(&contenders, effort.rounds(), |entry, round| {
        seed += 1;
        let content = noise(seed, MIB << 20);
        Ok(Some(timed(1, || entry.contender.write_large(&format!("large{round}"), &content))?))
    })?;
    table.row("write", &written, unit);
    let read = in_turns(&contenders, effort.rounds(), |entry, round| {
        let sample = timed(1, || {
            let size = entry.contender.read_large(&format!("large{round}"))?;
            if size == (MIB << 20) as u64 {
                Ok(())
            } else {
                Err(format!("{}: {size} bytes", entry.label).into())
            }
        })?;
        Ok(Some(sample))
    })?;
    table.row("read", &read, unit);
    Ok(vec![table])
}
