//! A file replaced again and again: a read shows all of one version, and none older than the last acknowledged one.

use std::sync::Mutex;

use super::actor::Actor;
use super::{Done, Progress, Tally, World};

/// How often each writer replaces the file in one round.
const VERSIONS: u64 = 60;
const WRITERS: usize = 2;

/// How the file is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Another file is renamed over it. Both writers do so at the same time.
    Renamed,
    /// It is truncated and written again, by one writer at a time.
    Truncated,
}

/// The content of a version. Its length follows from the version too.
fn content(writer: usize, version: u64) -> Vec<u8> {
    let seed = writer as u64 * 1_000_003 + version;
    let words = fastrand::Rng::with_seed(seed).usize(1..2_500);
    let word = ((writer as u64 + 1) << 48 | version).to_be_bytes();
    word.into_iter().cycle().take(words * 8).collect()
}

/// The writer and the version of a word.
fn parsed(word: &[u8]) -> Option<(usize, u64)> {
    let word = u64::from_be_bytes(word.try_into().ok()?);
    let writer = usize::try_from(word >> 48).ok()?.checked_sub(1).filter(|writer| *writer < WRITERS)?;
    Some((writer, word & 0xffff_ffff_ffff))
}

pub(super) fn round(world: &World, name: &str, way: Way, tally: &mut Tally) {
    world.first.write(name, &content(0, 0));
    let writers = [&world.first, &world.second];
    let (progress, done, turn) = (Progress::new(WRITERS), Done::default(), Mutex::new(()));
    let shared = Mutex::new(std::mem::take(tally));
    std::thread::scope(|scope| {
        let _end = done.at_the_end();
        let writers = writers.into_iter().enumerate().map(|(writer, actor)| {
            let (progress, turn) = (&progress, &turn);
            scope.spawn(move || {
                for number in 1..=VERSIONS {
                    match way {
                        Way::Renamed => {
                            progress.begin(writer, number);
                            actor.replace(name, &format!("{name}.{writer}"), &content(writer, number));
                            progress.acknowledge(writer, number);
                        }
                        Way::Truncated => {
                            let _turn = turn.lock().unwrap();
                            // Both writers share one counter, so that acknowledged versions are in order.
                            let version = progress.acknowledged()[0] + 1;
                            progress.begin(0, version);
                            rewrite(actor, name, &content(0, version));
                            progress.acknowledge(0, version);
                        }
                    }
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        for actor in [&world.first, &world.first, &world.second] {
            let (progress, done, shared) = (&progress, &done, &shared);
            scope.spawn(move || {
                while !done.is() {
                    let result =
                        read(world, actor, name, way, progress).map_err(|wrong| format!("{actor}: {wrong}"));
                    let mut tally = shared.lock().unwrap();
                    tally.reads += 1;
                    if let Err(wrong) = result {
                        tally.wrong.get_or_insert(wrong);
                    }
                }
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
    });
    *tally = shared.into_inner().unwrap();
    tally.writes += progress.acknowledged().iter().sum::<u64>();
    for actor in [&world.first, &world.second] {
        if let Err(wrong) = read(world, actor, name, way, &progress) {
            tally.wrong.get_or_insert(format!("{actor}, in the end: {wrong}"));
        }
    }
}

fn rewrite(actor: &Actor, name: &str, content: &[u8]) {
    let open = actor.open(name);
    open.set_size(0);
    open.write_at(0, content);
    open.sync();
}

fn read(world: &World, actor: &Actor, name: &str, way: Way, progress: &Progress) -> Result<(), String> {
    let least = progress.acknowledged();
    let found = actor.read(name);
    let most = progress.begun();
    let is_quiet = least == most;
    let size = found.len();
    let mut words = found.chunks(8).map(parsed);
    let Some(first) = words.next() else {
        return if way == Way::Truncated && !is_quiet { Ok(()) } else { Err("it is empty".into()) };
    };
    if way == Way::Renamed || is_quiet {
        let Some((writer, version)) = first else {
            return Err(format!("foreign bytes at its beginning: {}", runs(&found)));
        };
        if found != content(writer, version) {
            let whole = content(writer, version).len();
            let runs = runs(&found);
            return Err(format!("{size} bytes of {runs}; version {version} of writer {writer} has {whole}"));
        }
        return in_time((writer, version), &least, &most);
    }
    // While the file is truncated and written again, a reader may find nothing or a part of it, and a reader that reads
    // in several pieces the beginning of one version and the end of another: a local disk shows the same. It finds no
    // zeros. The writer writes from the beginning, so no state of the file has zeros; a local disk shows none, and a
    // program that copies or parses the file couldn't tell them from content.
    //
    // The exception is a file that another process makes shorter. The kernel can't be told of that: it learns of a size
    // only when it asks. It reads less than the size it knows, and takes that for the new end, unless another program
    // has asked for the file's attributes at the same time: then it shows zeros up to the old end. On one mount the
    // kernel truncates the file itself, and there are no zeros.
    let is_blank = |at: usize| found[at * 8..].iter().take(8).all(|byte| *byte == 0);
    for (at, word) in std::iter::once(first).chain(words).enumerate() {
        match word {
            Some(word) => in_time(word, &least, &most)?,
            None if world.is_cut_elsewhere && is_blank(at) => {}
            None => return Err(format!("foreign bytes: {}", runs(&found))),
        }
    }
    Ok(())
}

/// A description of the content: how many words of which writer and version follow each other.
fn runs(found: &[u8]) -> String {
    let mut runs: Vec<(Option<(usize, u64)>, usize)> = Vec::new();
    for word in found.chunks(8).map(parsed) {
        match runs.last_mut() {
            Some((last, count)) if *last == word => *count += 1,
            _ => runs.push((word, 1)),
        }
    }
    let run = |(word, count): &(Option<(usize, u64)>, usize)| match word {
        Some((writer, version)) => format!("{count} words of {writer}:{version}"),
        None => format!("{count} foreign words"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(", ")
}

fn in_time((writer, version): (usize, u64), least: &[u64], most: &[u64]) -> Result<(), String> {
    if version < least[writer] || version > most[writer] {
        let (least, most) = (least[writer], most[writer]);
        return Err(format!(
            "version {version} of writer {writer}, where {least} was acknowledged and {most} begun"
        ));
    }
    Ok(())
}
