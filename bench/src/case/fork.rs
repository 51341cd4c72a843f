//! The costs of making a fork, and of reading through forks of forks.

use std::path::Path;

use stead_core::Store;
use stead_core::identity::{Identity, Operation, OperationId};
use stead_core::store::{Change, Content, NodePath, PutOptions, Step, StorePath};
use stead_core::{Clock, SystemClock};
use stead_stores::{Database, DatabaseOptions, Durability, VirtualStore};

use crate::Result;
use crate::case::Effort;
use crate::content::text;
use crate::measure::{in_turns, timed};
use crate::table::{Table, Unit, count};

const SIZE: usize = 100;
/// How many files one change writes while a Store is filled.
const BATCH: usize = 1_000;
/// How many operations one round makes.
const COUNT: usize = 300;
/// How many forks deep the measured reads are.
const DEPTHS: [usize; 3] = [1, 4, 8];
const LABELS: [&str; 5] = ["fork", "stat in the base", "stat in a fork", "in a 4th fork", "in an 8th fork"];

/// Returns one table, with a row per number of files.
pub fn run(data: &Path, effort: Effort) -> Result<Vec<Table>> {
    let sizes: &[usize] = match effort {
        Effort::Full => &[1_000, 100_000, 1_000_000],
        Effort::Quick => &[1_000, 100_000],
    };
    let options = DatabaseOptions { durability: Durability::Fast, ..DatabaseOptions::default() };
    let database = Database::open(data.join("stead.db"), options)?;
    let base = database.store(["base"])?;
    let mut table = Table::new("forks, `fast`", &LABELS, &[]);
    let mut existing = 0;
    for &files in sizes {
        eprintln!("  {files} files");
        for start in (existing..files).step_by(BATCH) {
            let write = |number| write_step(path(number), text(number, SIZE));
            apply(&base, (start..(start + BATCH).min(files)).map(write).collect())?;
        }
        existing = files;
        let stores = nested_forks(&base, files)?;
        let mut random = fastrand::Rng::with_seed(files as u64);
        let columns: Vec<usize> = (0..LABELS.len()).collect();
        let measured = in_turns(&columns, effort.rounds(), |&column, round| {
            let sample = match column.checked_sub(1) {
                None => timed(COUNT, || {
                    for number in 0..COUNT {
                        base.fork_as([format!("{files} {round} {number}")])?;
                    }
                    Ok(())
                })?,
                Some(depth) => timed(COUNT, || {
                    for _ in 0..COUNT {
                        stores[depth].stat(&node_path(path(random.usize(..files))))?;
                    }
                    Ok(())
                })?,
            };
            Ok(Some(sample))
        })?;
        table.row(format!("among {}", count(files)), &measured, Unit::Time);
    }
    Ok(vec![table])
}

/// The base, and forks of forks of it at [`DEPTHS`]. Each fork has a file of its own.
fn nested_forks(base: &VirtualStore, files: usize) -> Result<Vec<VirtualStore>> {
    let mut stores = vec![base.clone()];
    let mut fork = base.clone();
    for depth in 1..=DEPTHS[DEPTHS.len() - 1] {
        fork = fork.fork_as([format!("{files} deep {depth}")])?;
        apply(&fork, vec![write_step(format!("own/{depth}"), text(depth, SIZE))])?;
        if DEPTHS.contains(&depth) {
            stores.push(fork.clone());
        }
    }
    Ok(stores)
}

fn path(number: usize) -> String {
    format!("{}/{}/{number}", number / 10_000, number / 100)
}

fn node_path(path: String) -> NodePath {
    NodePath::from_root(StorePath::from_checked(path))
}

fn write_step(path: String, content: Vec<u8>) -> Step {
    Step::Write { at: node_path(path), content: Content::Bytes(content), options: PutOptions::default() }
}

fn apply(store: &VirtualStore, steps: Vec<Step>) -> Result {
    let at = SystemClock.now();
    let identity = Identity::agent("bench").into();
    let operation = Operation { id: OperationId::fresh(at), identity, tool: "bench".into(), at };
    store.apply(Change::new(operation, steps))?;
    Ok(())
}
