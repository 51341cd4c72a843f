//! A fork of a code base, changes on both sides, and the merge, beside git.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use super::code_base::source_files;
use super::forkable::{FileChange, Forkable};
use super::git::Repository;
use super::stead_side::{SteadSide, StoreKind};
use crate::Result;
use crate::case::Effort;
use crate::contender::Durability;
use crate::measure::{Sample, in_turns};
use crate::table::{Table, Unit, count};

const FILES: usize = 12_000;
/// How many files a round changes in the fork.
const IN_FORK: usize = 200;
/// How many of these it renames as well.
const RENAMED: usize = 10;
/// How many files a round changes in the base. Of these, [`IN_BOTH`] are changed in the fork too, in other lines, half of the
/// renamed ones among them.
const IN_BASE: usize = 50;
const IN_BOTH: usize = 20;
/// Files with fewer lines are not changed, so that the two sides change lines that are far apart.
const MIN_LINES: usize = 20;

const COLUMNS: [&str; 5] = ["Virtual", "Physical", "Virtual, synced", "Physical, synced", "git"];
const PAIRS: [(&str, &str); 4] =
    [("Virtual", "git"), ("Physical", "git"), ("Virtual, synced", "git"), ("Physical, synced", "git")];
const STEPS: [&str; 4] = ["fork", "commit both sides", "merge", "discard"];

/// How long each step took; `None` if a contender has no such step.
type StepSamples = [Option<Sample>; STEPS.len()];
type Tree = BTreeMap<String, Vec<u8>>;

/// The changes of one round.
struct RoundChanges {
    fork: Vec<FileChange>,
    base: Vec<FileChange>,
}

/// A row per step.
pub fn run(data: &Path, effort: Effort) -> Result<Table> {
    let files = source_files(FILES)?;
    let bytes: usize = files.iter().map(|(_, content)| content.len()).sum();
    eprintln!("  {} files, {} MiB", files.len(), bytes >> 20);
    let mut contenders: Vec<RefCell<Box<dyn Forkable>>> = Vec::new();
    for (name, kind, durability) in [
        ("virtual", StoreKind::Virtual, Durability::Fast),
        ("physical", StoreKind::Physical, Durability::Fast),
        ("virtual-synced", StoreKind::Virtual, Durability::Full),
        ("physical-synced", StoreKind::Physical, Durability::Full),
    ] {
        let side = SteadSide::create(&data.join(name), kind, durability, files.iter().cloned())?;
        contenders.push(RefCell::new(Box::new(side)));
    }
    contenders.push(RefCell::new(Box::new(Repository::create(&data.join("git"), &files)?)));

    // Every round goes on from the merge of the round before.
    let mut tree: Tree = files.into_iter().collect();
    let mut rounds = Vec::new();
    let mut random = fastrand::Rng::with_seed(1);
    for round in 0..=effort.rounds() {
        rounds.push(RoundChanges::new(&mut tree, round, &mut random)?);
    }
    let mut table = Table::new(format!("{} files of a code base", count(tree.len())), &COLUMNS, &PAIRS);
    let mut samples = vec![StepSamples::default(); contenders.len() * rounds.len()];
    let indices: Vec<usize> = (0..contenders.len()).collect();
    in_turns(&indices, effort.rounds(), |&index, round| {
        let mut contender = contenders[index].borrow_mut();
        samples[index * rounds.len() + round] = run_round(&mut **contender, round, &rounds[round])?;
        Ok(None)
    })?;
    for (step, name) in STEPS.into_iter().enumerate() {
        // The samples are there already; this sorts them into rows.
        let row = in_turns(&indices, effort.rounds(), |&index, round| {
            Ok(samples[index * rounds.len() + round][step])
        })?;
        table.row(name, &row, Unit::Time);
    }
    for (contender, name) in contenders.iter().zip(COLUMNS) {
        check(&**contender.borrow(), &tree, &rounds).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(table)
}

/// Forks, changes, merges and discards.
fn run_round(contender: &mut dyn Forkable, round: usize, changes: &RoundChanges) -> Result<StepSamples> {
    let name = format!("round-{round}");
    let fork = stopwatch(|| contender.fork(&name).map(|()| true))?;
    contender.change_fork(&name, &changes.fork)?;
    contender.change_base(&changes.base)?;
    let commit = stopwatch(|| contender.commit(&name))?;
    let merge = stopwatch(|| contender.merge(&name).map(|()| true))?;
    let discard = stopwatch(|| contender.discard(&name).map(|()| true))?;
    Ok([fork, commit, merge, discard])
}

/// Times a step, unless it says that there was nothing to do. What earlier steps have left for the disk to do isn't part of it.
fn stopwatch(step: impl FnOnce() -> Result<bool>) -> Result<Option<Sample>> {
    rustix::fs::sync();
    let start = Instant::now();
    let is_done = step()?;
    let each = start.elapsed().as_secs_f64();
    Ok(is_done.then_some(Sample { each, worst: each }))
}

/// Compares every file with what it has to be after all merges.
fn check(contender: &dyn Forkable, tree: &Tree, rounds: &[RoundChanges]) -> Result {
    for (path, content) in tree {
        if contender.read(path)?.as_ref() != Some(content) {
            return Err(format!("`{path}` is not what the merges make of it").into());
        }
    }
    let moved = rounds.iter().flat_map(|round| &round.fork).filter(|change| change.moved_to.is_some());
    for change in moved.filter(|change| !tree.contains_key(&change.path)) {
        if contender.read(&change.path)?.is_some() {
            return Err(format!("`{}` was renamed and is still there", change.path).into());
        }
    }
    Ok(())
}

impl RoundChanges {
    /// Random changes of a tree, which becomes what their merge makes of it.
    fn new(tree: &mut Tree, round: usize, random: &mut fastrand::Rng) -> Result<Self> {
        // Git has to recognize a renamed file, so no line makes up half of it.
        let is_changeable = |path: &str, content: &[u8]| {
            let is_source = path.ends_with(".rs") || path.starts_with("generated/");
            let text = std::str::from_utf8(content).ok().filter(|_| is_source && !content.contains(&0));
            text.is_some_and(|text| {
                text.lines().count() >= MIN_LINES && text.lines().all(|line| line.len() <= 200)
            })
        };
        let candidates: Vec<&String> = tree
            .iter()
            .filter(|(path, content)| is_changeable(path, content))
            .map(|(path, _)| path)
            .collect();
        let wanted = IN_FORK + IN_BASE - IN_BOTH;
        if candidates.len() < wanted {
            return Err("the code base has too few text files".into());
        }
        let mut chosen = BTreeSet::new();
        while chosen.len() < wanted {
            chosen.insert(random.usize(..candidates.len()));
        }
        let mut chosen: Vec<String> = chosen.into_iter().map(|index| candidates[index].clone()).collect();
        random.shuffle(&mut chosen);

        let (mut fork, mut base) = (Vec::new(), Vec::new());
        for (index, path) in chosen.into_iter().enumerate() {
            let old = tree.remove(&path).ok_or("a chosen file is missing")?;
            let in_fork = index < IN_FORK;
            // The first ones are renamed, and every second of the first ones is changed in the base too.
            let in_base = !in_fork || (index % 2 == 0 && index < 2 * IN_BOTH);
            let (first, last) = (format!("// fork {round}\n"), format!("// base {round}\n"));
            let mut merged = old.clone();
            let moved_to = (index < RENAMED).then(|| format!("{path}.{round}"));
            if in_fork {
                fork.push(FileChange {
                    path: path.clone(),
                    moved_to: moved_to.clone(),
                    content: with_line(&old, 3, &first),
                });
                merged = with_line(&merged, 3, &first);
            }
            if in_base {
                base.push(FileChange {
                    path: path.clone(),
                    moved_to: None,
                    content: with_line(&old, MIN_LINES - 3, &last),
                });
                merged = with_line(&merged, MIN_LINES - 3, &last);
            }
            tree.insert(moved_to.unwrap_or(path), merged);
        }
        Ok(RoundChanges { fork, base })
    }
}

/// The text with another line in place of the one with this index.
fn with_line(text: &[u8], index: usize, line: &str) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n').enumerate();
    lines.flat_map(|(number, old)| if number == index { line.as_bytes() } else { old }).copied().collect()
}
