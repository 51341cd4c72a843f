//! A file replaced again and again: a read shows all of one version, and none older than the last acknowledged one.

use std::sync::Mutex;

use super::actor::Actor;
use super::{ActorPair, Done, Progress, Tally};

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
fn parse_word(word: &[u8]) -> Option<(usize, u64)> {
    let word = u64::from_be_bytes(word.try_into().ok()?);
    let writer = usize::try_from(word >> 48).ok()?.checked_sub(1).filter(|writer| *writer < WRITERS)?;
    Some((writer, word & 0xffff_ffff_ffff))
}

pub(super) fn round(pair: &ActorPair, name: &str, way: Way, tally: &mut Tally) {
    pair.first.write(name, &content(0, 0));
    let writers = [&pair.first, &pair.second];
    let (progress, done, turn) = (Progress::new(WRITERS), Done::default(), Mutex::new(()));
    let shared = Mutex::new(std::mem::take(tally));
    std::thread::scope(|scope| {
        let _end = done.set_on_drop();
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
        for actor in [&pair.first, &pair.first, &pair.second] {
            let (progress, done, shared) = (&progress, &done, &shared);
            scope.spawn(move || {
                while !done.is_set() {
                    let result =
                        read(pair, actor, name, way, progress).map_err(|error| format!("{actor}: {error}"));
                    let mut tally = shared.lock().unwrap();
                    tally.reads += 1;
                    if let Err(error) = result {
                        tally.first_error.get_or_insert(error);
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
    for actor in [&pair.first, &pair.second] {
        if let Err(error) = read(pair, actor, name, way, &progress) {
            tally.first_error.get_or_insert(format!("{actor}, at the end: {error}"));
        }
    }
}

fn rewrite(actor: &Actor, name: &str, content: &[u8]) {
    let open = actor.open(name);
    open.set_size(0);
    open.write_at(0, content);
    open.sync();
}

fn read(pair: &ActorPair, actor: &Actor, name: &str, way: Way, progress: &Progress) -> Result<(), String> {
    let acknowledged = progress.acknowledged();
    let found = actor.read(name);
    let begun = progress.begun();
    let is_idle = acknowledged == begun;
    let size = found.len();
    let mut words = found.chunks(8).map(parse_word);
    let Some(first) = words.next() else {
        return if way == Way::Truncated && !is_idle { Ok(()) } else { Err("it is empty".into()) };
    };
    if way == Way::Renamed || is_idle {
        let Some((writer, version)) = first else {
            return Err(format!("it begins with bytes that no writer wrote: {}", runs(&found)));
        };
        if found != content(writer, version) {
            let expected_length = content(writer, version).len();
            let runs = runs(&found);
            return Err(format!(
                "{size} bytes of {runs}; version {version} of writer {writer} has {expected_length}"
            ));
        }
        return check_version((writer, version), &acknowledged, &begun);
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
    let is_blank = |index: usize| found[index * 8..].iter().take(8).all(|byte| *byte == 0);
    for (index, word) in std::iter::once(first).chain(words).enumerate() {
        match word {
            Some(word) => check_version(word, &acknowledged, &begun)?,
            None if pair.is_truncated_elsewhere && is_blank(index) => {}
            None => return Err(format!("bytes that no writer wrote: {}", runs(&found))),
        }
    }
    Ok(())
}

/// A description of the content: how many words of which writer and version follow each other.
fn runs(found: &[u8]) -> String {
    let mut runs: Vec<(Option<(usize, u64)>, usize)> = Vec::new();
    for word in found.chunks(8).map(parse_word) {
        match runs.last_mut() {
            Some((last, count)) if *last == word => *count += 1,
            _ => runs.push((word, 1)),
        }
    }
    let run = |(word, count): &(Option<(usize, u64)>, usize)| match word {
        Some((writer, version)) => format!("{count} words of {writer}:{version}"),
        None => format!("{count} words of no writer"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(", ")
}

fn check_version((writer, version): (usize, u64), acknowledged: &[u64], begun: &[u64]) -> Result<(), String> {
    if version < acknowledged[writer] || version > begun[writer] {
        let (acknowledged, begun) = (acknowledged[writer], begun[writer]);
        return Err(format!(
            "version {version} of writer {writer}, where {acknowledged} was acknowledged and {begun} begun"
        ));
    }
    Ok(())
}
