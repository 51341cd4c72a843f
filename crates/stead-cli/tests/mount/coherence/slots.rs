//! Overwrites: each writer owns some slots of one file, and writes one version after the other into them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use super::actor::{Actor, OpenHandle};
use super::{ActorPair, Done, Progress, Tally};
use crate::torture::mapping;

/// How many slots there are.
const SLOTS: usize = 24;
/// How often each writer writes in one round.
const VERSIONS: u64 = 60;

/// How the slots are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// All of them by system calls. Slots of several writers share pages.
    Written,
    /// Those of the first actor through a memory mapping. A mapped page is written back as a whole, so the other
    /// actor's slots are in other pages, unless both actors share the memory of one mount.
    Mapped,
}

/// Where the slots are, and which writer owns which.
#[derive(Debug, Clone, Copy)]
struct Layout {
    length: usize,
    distance: usize,
}

impl Layout {
    fn new(way: Way, pair: &ActorPair) -> Self {
        match way {
            Way::Mapped if !pair.is_one_mount => Layout { length: 4_096, distance: 4_096 },
            _ => Layout { length: 1_000, distance: 1_000 },
        }
    }

    fn writer(slot: usize) -> usize {
        slot % WRITERS
    }

    fn offset(self, slot: usize) -> usize {
        slot * self.distance
    }

    fn content(self, slot: usize, version: u64) -> Vec<u8> {
        word(slot, version).into_iter().cycle().take(self.length).collect()
    }
}

const WRITERS: usize = 4;

/// Eight bytes that name a slot and a version.
fn word(slot: usize, version: u64) -> [u8; 8] {
    ((slot as u64 + 1) << 48 | version).to_be_bytes()
}

pub(super) fn round(pair: &ActorPair, name: &str, way: Way, tally: &mut Tally) {
    let layout = Layout::new(way, pair);
    let initial: Vec<u8> = (0..SLOTS).flat_map(|slot| layout.content(slot, 0)).collect();
    pair.first.write(name, &initial);
    let (first, second) = (&pair.first, &pair.second);
    let writers = [(first, true), (first, false), (second, true), (second, false)];
    let (progress, done) = (Progress::new(WRITERS), Done::default());
    let shared = Mutex::new(std::mem::take(tally));
    std::thread::scope(|scope| {
        let _end = done.set_on_drop();
        let writers = writers.into_iter().enumerate().map(|(writer, (actor, stays_open))| {
            let progress = &progress;
            scope.spawn(move || {
                let mapped = way == Way::Mapped && writer < 2 && actor.path(name).is_some();
                let open = stays_open.then(|| actor.open(name));
                for version in 1..=VERSIONS {
                    progress.begin(writer, version);
                    let reopened = open.is_none().then(|| actor.open(name));
                    let file =
                        open.as_ref().or(reopened.as_ref()).expect("the file is open, or was reopened");
                    write(file, layout, writer, version, mapped);
                    // On a mount a close commits. In the library only the last close does, so it syncs.
                    if stays_open || matches!(file, OpenHandle::Tool(_)) {
                        file.sync();
                    }
                    drop(reopened);
                    progress.acknowledge(writer, version);
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        for (actor, reopens) in [(first, true), (first, false), (second, true)] {
            let (progress, done, shared) = (&progress, &done, &shared);
            scope.spawn(move || read(actor, name, reopens, (pair, layout), (progress, done, shared)));
        }
        for writer in writers {
            writer.join().unwrap();
        }
    });
    *tally = shared.into_inner().unwrap();
    tally.writes += progress.acknowledged().iter().sum::<u64>();
    for actor in [first, second] {
        let acknowledged = progress.acknowledged();
        if let Err(error) = check(&actor.read(name), layout, &acknowledged, &acknowledged) {
            tally.first_error.get_or_insert(format!("at the end: {error}"));
        }
    }
}

fn write(file: &OpenHandle, layout: Layout, writer: usize, version: u64, mapped: bool) {
    for slot in (0..SLOTS).filter(|slot| Layout::writer(*slot) == writer) {
        let (offset, content) = (layout.offset(slot), layout.content(slot, version));
        match file {
            OpenHandle::Program(file) if mapped => mapping::write(file, offset, &content),
            file => file.write_at(offset as u64, &content),
        }
    }
}

fn read(
    actor: &Actor,
    name: &str,
    reopens: bool,
    (pair, layout): (&ActorPair, Layout),
    (progress, done, tally): (&Progress, &Done, &Mutex<Tally>),
) {
    let open = actor.path(name).filter(|_| !reopens).map(|path| File::open(path).unwrap());
    while !done.is_set() {
        let mut before = progress.acknowledged();
        let content = match &open {
            Some(file) => {
                let mut content = vec![0; SLOTS * layout.distance];
                let count = file.read_at(&mut content, 0).unwrap();
                content.truncate(count);
                if !pair.is_one_mount {
                    // A reader that has the file open learns of changes made elsewhere a moment later.
                    before[2..].fill(0);
                }
                content
            }
            None => actor.read(name),
        };
        let result = check(&content, layout, &before, &progress.begun());
        let mut tally = tally.lock().unwrap();
        tally.reads += 1;
        if let Err(error) = result {
            tally.first_error.get_or_insert(error);
        }
    }
}

/// Checks that every word is of a version between the last one acknowledged before the read and the last one begun
/// since.
fn check(content: &[u8], layout: Layout, acknowledged: &[u64], begun: &[u64]) -> Result<(), String> {
    if content.len() != SLOTS * layout.distance {
        return Err(format!("{} bytes, not {}", content.len(), SLOTS * layout.distance));
    }
    for slot in 0..SLOTS {
        let writer = Layout::writer(slot);
        let slot_content = &content[layout.offset(slot)..][..layout.length];
        for (index, word) in slot_content.chunks_exact(8).enumerate() {
            let word = u64::from_be_bytes(word.try_into().expect("8 bytes"));
            let version = word & 0xffff_ffff_ffff;
            if word >> 48 != slot as u64 + 1 {
                return Err(format!("{word:#x} in word {index} of slot {slot}"));
            }
            if version < acknowledged[writer] || version > begun[writer] {
                let (acknowledged, begun) = (acknowledged[writer], begun[writer]);
                return Err(format!(
                    "version {version} in word {index} of slot {slot}, where {acknowledged} was acknowledged and {begun} begun"
                ));
            }
        }
    }
    Ok(())
}
