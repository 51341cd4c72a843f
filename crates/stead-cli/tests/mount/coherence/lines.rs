//! Appends: every line is there once, complete, and in the order of its writer's lines.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use super::actor::Actor;
use super::{Done, Progress, Tally, World};
use crate::torture::mapping;

/// How many lines each writer appends in one round.
const LINES: u64 = 60;
/// The longest line, so that a line sometimes crosses the end of a page.
const LONGEST: usize = 3_000;
/// How often a read that met a change of another actor may be repeated.
const AGAIN: u64 = 100;

/// A line: its writer, its number, and bytes that follow from both.
fn line(writer: usize, number: u64) -> Vec<u8> {
    let seed = writer as u64 * 1_000_003 + number;
    let length = fastrand::Rng::with_seed(seed).usize(20..LONGEST);
    let mut line = format!("{writer}:{number}:").into_bytes();
    while line.len() < length {
        line.push(b'a' + ((seed + line.len() as u64) % 26) as u8);
    }
    line.push(b'\n');
    line
}

/// How a reader reads the content.
#[derive(Debug, Clone, Copy)]
enum Reader {
    /// Opens the file, and reads to the end.
    Anew,
    /// Opens the file, and reads through a memory mapping.
    Mapped,
    /// Has the file open all the time, and reads on where it stopped.
    Tail,
    /// Reads only the size.
    Size,
}

pub(super) fn round(world: &World, name: &str, tally: &mut Tally) {
    world.first.write(name, b"");
    let (first, second) = (&world.first, &world.second);
    let writers = [(first, true), (first, false), (second, true), (second, false)];
    let mut readers = vec![(first, Reader::Anew), (first, Reader::Size), (second, Reader::Anew)];
    if world.is_one_mount {
        // Files that one actor has open or mapped show changes made elsewhere a moment later, so these need one mount.
        readers.extend([(first, Reader::Tail), (first, Reader::Mapped)]);
    }
    let (progress, done) = (Progress::new(writers.len()), Done::default());
    let shared = Mutex::new(std::mem::take(tally));
    std::thread::scope(|scope| {
        let _end = done.at_the_end();
        let writers = writers.into_iter().enumerate().map(|(writer, (actor, stays_open))| {
            let progress = &progress;
            scope.spawn(move || write(actor, name, (writer, stays_open), progress))
        });
        let writers: Vec<_> = writers.collect();
        for (actor, reader) in readers {
            let (progress, done, shared) = (&progress, &done, &shared);
            scope.spawn(move || read(actor, name, reader, world, (progress, done, shared)));
        }
        for writer in writers {
            writer.join().unwrap();
        }
    });
    *tally = shared.into_inner().unwrap();
    tally.writes += progress.acknowledged().iter().sum::<u64>();
    for actor in [first, second] {
        let content = actor.read(name);
        if let Err(wrong) = check(&content, &progress.acknowledged()) {
            tally.wrong.get_or_insert(format!("in the end: {wrong}"));
        }
    }
}

fn write(actor: &Actor, name: &str, (writer, stays_open): (usize, bool), progress: &Progress) {
    let mut open = actor
        .path(name)
        .filter(|_| stays_open)
        .map(|path| OpenOptions::new().append(true).open(path).unwrap());
    for number in 1..=LINES {
        let line = line(writer, number);
        progress.begin(writer, number);
        match &mut open {
            Some(file) => {
                file.write_all(&line).unwrap();
                file.sync_all().unwrap();
            }
            None => actor.append(name, &line),
        }
        progress.acknowledge(writer, number);
    }
}

fn read(
    actor: &Actor,
    name: &str,
    reader: Reader,
    world: &World,
    (progress, done, tally): (&Progress, &Done, &Mutex<Tally>),
) {
    let Some(path) = actor.path(name) else {
        while !done.is() {
            let before = progress.acknowledged();
            let content = actor.read(name);
            note(tally, (actor, reader), check(&content, &before));
        }
        return;
    };
    let mut tail = Tail { file: File::open(&path).unwrap(), content: Vec::new() };
    while !done.is() {
        let mut result = Ok(());
        for attempt in 0..AGAIN {
            let before = progress.acknowledged();
            result = match reader {
                Reader::Anew => check(&actor.read(name), &before),
                Reader::Mapped => mapped(&path, &before),
                Reader::Tail => tail.read(&before),
                Reader::Size => size(&path, &before),
            };
            // What another actor has appended moves what was written here and not committed yet. A read that takes one
            // piece from before that and one from after it shows a part of a line. The next read doesn't.
            let is_mixed = matches!(result, Err(Wrong::Line(_))) && !world.is_one_mount;
            if !is_mixed {
                break;
            }
            if attempt == 0 {
                tally.lock().unwrap().mixed += 1;
            }
        }
        note(tally, (actor, reader), result);
    }
}

fn note(tally: &Mutex<Tally>, (actor, reader): (&Actor, Reader), result: Result<(), Wrong>) {
    let mut tally = tally.lock().unwrap();
    tally.reads += 1;
    if let Err(wrong) = result {
        tally.wrong.get_or_insert(format!("{actor}, {reader:?}: {wrong}"));
    }
}

/// What is wrong with the content.
#[derive(Debug)]
enum Wrong {
    /// Bytes that no actor wrote.
    Nul(String),
    /// A line that no actor wrote, or a line that is missing.
    Line(String),
    /// Fewer bytes than were acknowledged.
    Size(String),
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Wrong::Nul(text) | Wrong::Line(text) | Wrong::Size(text) => f.write_str(text),
        }
    }
}

/// Checks that everything that was acknowledged is there, in order and complete. A last line without its end is still
/// being written.
fn check(content: &[u8], acknowledged: &[u64]) -> Result<(), Wrong> {
    let mut found = vec![0; acknowledged.len()];
    let mut at = 0;
    if let Some(nul) = content.iter().position(|byte| *byte == 0) {
        let count = content[nul..].iter().take_while(|byte| **byte == 0).count();
        return Err(Wrong::Nul(format!("{count} NUL bytes at {nul} of {}", content.len())));
    }
    for piece in content.split_inclusive(|byte| *byte == b'\n') {
        let is_whole = piece.ends_with(b"\n");
        if is_whole {
            let mut numbers =
                piece.split(|byte| *byte == b':').map(|part| std::str::from_utf8(part).ok()?.parse().ok());
            let (writer, number): (Option<u64>, Option<u64>) =
                (numbers.next().flatten(), numbers.next().flatten());
            let known =
                writer.and_then(|writer| usize::try_from(writer).ok()).filter(|writer| *writer < found.len());
            match (known, number) {
                (Some(writer), Some(number)) if piece == line(writer, number) => {
                    if number != found[writer] + 1 {
                        let last = found[writer];
                        return Err(Wrong::Line(format!(
                            "at {at}: line {number} of writer {writer} after {last}"
                        )));
                    }
                    found[writer] = number;
                }
                _ => {
                    let shown = String::from_utf8_lossy(&piece[..piece.len().min(60)]).into_owned();
                    return Err(Wrong::Line(format!(
                        "a torn line of {} bytes at {at}: {shown:?}",
                        piece.len()
                    )));
                }
            }
        }
        at += piece.len();
    }
    for (writer, (found, wanted)) in found.iter().zip(acknowledged).enumerate() {
        if found < wanted {
            let size = content.len();
            return Err(Wrong::Line(format!(
                "{wanted} lines of writer {writer} were acknowledged, {found} are there, in {size} bytes"
            )));
        }
    }
    Ok(())
}

/// How many bytes were acknowledged.
fn bytes(acknowledged: &[u64]) -> u64 {
    let lines =
        |(writer, last): (usize, &u64)| (1..=*last).map(move |number| line(writer, number).len() as u64);
    acknowledged.iter().enumerate().flat_map(lines).sum()
}

/// Checks that as many bytes as were acknowledged can be read through a mapping. With fewer, this process would be
/// killed.
fn mapped(path: &Path, before: &[u64]) -> Result<(), Wrong> {
    let length = usize::try_from(bytes(before)).unwrap();
    if length == 0 {
        return Ok(());
    }
    let file = File::open(path).unwrap();
    // Like every program that has to know how much it can map.
    let shown = file.metadata().unwrap().len();
    if shown < length as u64 {
        return Err(Wrong::Size(format!("{shown} bytes, where {length} were acknowledged")));
    }
    check(&mapping::read_first(&file, length), &vec![0; before.len()])
}

/// Checks that at least as many bytes as were acknowledged are there.
fn size(path: &Path, before: &[u64]) -> Result<(), Wrong> {
    let least = bytes(before);
    let mut file = File::open(path).unwrap();
    let shown = file.metadata().unwrap().len();
    let read = file.read_to_end(&mut Vec::new()).unwrap() as u64;
    let named = fs::metadata(path).unwrap().len();
    if shown.min(read).min(named) < least {
        let sizes = [shown, read, named];
        return Err(Wrong::Size(format!(
            "sizes of {sizes:?} one after the other, {least} were acknowledged"
        )));
    }
    Ok(())
}

/// A reader that reads on where it stopped.
struct Tail {
    file: File,
    content: Vec<u8>,
}

impl Tail {
    fn read(&mut self, before: &[u64]) -> Result<(), Wrong> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = self.file.read_at(&mut buffer, self.content.len() as u64).unwrap();
            if count == 0 {
                return check(&self.content, before);
            }
            self.content.extend_from_slice(&buffer[..count]);
        }
    }
}
