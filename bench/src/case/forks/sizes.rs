//! How long it takes to make a fork of more and more files.

use std::cell::RefCell;
use std::path::Path;

use super::code_base::generated_files;
use super::forkable::Forkable;
use super::git::Repository;
use super::stead_side::{SteadSide, StoreKind};
use crate::Result;
use crate::case::Effort;
use crate::contender::Durability;
use crate::measure::{Sample, in_turns, timed};
use crate::table::{Table, Unit, count};

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
/// How many forks Stead makes of each tree: they take milliseconds.
const MANY_ROUNDS: usize = 21;
const COLUMNS: [&str; 3] = ["Virtual", "Physical", "git worktree add"];
const PAIRS: [(&str, &str); 2] = [("Virtual", "git worktree add"), ("Physical", "git worktree add")];

/// A row per number of files.
pub fn run(data: &Path, effort: Effort) -> Result<Table> {
    let mut table = Table::new("make a fork", &COLUMNS, &PAIRS);
    for size in SIZES {
        eprintln!("  {} files", count(size));
        let directory = tempfile::tempdir_in(data)?;
        let create = |name: &str, kind| {
            SteadSide::create(&directory.path().join(name), kind, Durability::Fast, generated_files(size))
        };
        let stead: [RefCell<Box<dyn Forkable>>; 2] = [
            RefCell::new(Box::new(create("virtual", StoreKind::Virtual)?)),
            RefCell::new(Box::new(create("physical", StoreKind::Physical)?)),
        ];
        let mut row = in_turns(&stead, MANY_ROUNDS, make_fork)?;
        // Git comes after the others: what it writes and removes would occupy the disk while they are measured.
        let files: Vec<_> = generated_files(size).collect();
        let repository = Repository::create(&directory.path().join("git"), &files)?;
        let git: [RefCell<Box<dyn Forkable>>; 1] = [RefCell::new(Box::new(repository))];
        row.extend(in_turns(&git, effort.rounds(), make_fork)?);
        table.row(format!("of {} files", count(size)), &row, Unit::Time);
    }
    Ok(table)
}

/// Makes a fork and discards it.
fn make_fork(contender: &RefCell<Box<dyn Forkable>>, round: usize) -> Result<Option<Sample>> {
    let (mut contender, name) = (contender.borrow_mut(), format!("fork-{round}"));
    // What earlier rounds have left for the disk to do isn't part of this fork.
    rustix::fs::sync();
    let sample = timed(1, || contender.fork(&name))?;
    contender.discard(&name)?;
    Ok(Some(sample))
}
