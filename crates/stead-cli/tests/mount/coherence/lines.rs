//! Appends: every line is there once, complete, and in the order of its writer's lines.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use super::actor::Actor;
use super::{ActorPair, Done, Progress, Tally};
use crate::torture::mapping;

/// How many lines each writer appends in one round.
const LINES: u64 = 60;
/// The longest line, so that a line sometimes crosses the end of a page.
const MAX_LINE_LENGTH: usize = 3_000;
/// How often a read that met a change of another actor may be repeated.
const MAX_ATTEMPTS: u64 = 100;

/// A line: its writer, its number, and bytes that follow from both.
fn line(writer: usize, number: u64) -> Vec<u8> {
    let seed = writer as u64 * 1_000_003 + number;
    let length = fastrand::Rng::with_seed(seed).usize(20..MAX_LINE_LENGTH);
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
    Reopened,
    /// Opens the file, and reads through a memory mapping.
    Mapped,
    /// Has the file open all the time, and reads on where it stopped.
    Tail,
    /// Reads only the size.
    Size,
}

pub(super) fn round(pair: &ActorPair, name: &str, tally: &mut Tally) {
    pair.first.write(name, b"");
    let (first, second) = (&pair.first, &pair.second);
    let writers = [(first, true), (first, false), (second, true), (second, false)];
    let mut readers = vec![(first, Reader::Reopened), (first, Reader::Size), (second, Reader::Reopened)];
    if pair.is_one_mount {
        // Files that one actor has open or mapped show changes made elsewhere a moment later, so these need one mount.
        readers.extend([(first, Reader::Tail), (first, Reader::Mapped)]);
    }
    let (progress, done) = (Progress::new(writers.len()), Done::default());
    let shared = Mutex::new(std::mem::take(tally));
    std::thread::scope(|scope| {
        let _end = done.set_on_drop();
        let writers = writers.into_iter().enumerate().map(|(writer, (actor, stays_open))| {
            let progress = &progress;
            scope.spawn(move || write(actor, name, (writer, stays_open), progress))
        });
        let writers: Vec<_> = writers.collect();
        for (actor, reader) in readers {
            let (progress, done, shared) = (&progress, &done, &shared);
            scope.spawn(move || read(actor, name, reader, pair, (progress, done, shared)));
        }
        for writer in writers {
            writer.join().unwrap();
        }
    });
    *tally = shared.into_inner().unwrap();
    tally.writes += progress.acknowledged().iter().sum::<u64>();
    for actor in [first, second] {
        let content = actor.read(name);
        if let Err(error) = check(&content, &progress.acknowledged()) {
            tally.first_error.get_or_insert(format!("at the end: {error}"));
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
    pair: &ActorPair,
    (progress, done, tally): (&Progress, &Done, &Mutex<Tally>),
) {
    let Some(path) = actor.path(name) else {
        while !done.is_set() {
            let before = progress.acknowledged();
            let content = actor.read(name);
            record_read(tally, (actor, reader), check(&content, &before));
        }
        return;
    };
    let mut tail = Tail { file: File::open(&path).unwrap(), content: Vec::new() };
    while !done.is_set() {
        let mut result = Ok(());
        for attempt in 0..MAX_ATTEMPTS {
            let before = progress.acknowledged();
            result = match reader {
                Reader::Reopened => check(&actor.read(name), &before),
                Reader::Mapped => mapped(&path, &before),
                Reader::Tail => tail.read(&before),
                Reader::Size => size(&path, &before),
            };
            // What another actor has appended moves what was written here and not committed yet. A read that takes one
            // piece from before that and one from after it shows a part of a line. The next read doesn't.
            let is_mixed = matches!(result, Err(ContentError::Line(_))) && !pair.is_one_mount;
            if !is_mixed {
                break;
            }
            if attempt == 0 {
                tally.lock().unwrap().mixed += 1;
            }
        }
        record_read(tally, (actor, reader), result);
    }
}

fn record_read(tally: &Mutex<Tally>, (actor, reader): (&Actor, Reader), result: Result<(), ContentError>) {
    let mut tally = tally.lock().unwrap();
    tally.reads += 1;
    if let Err(error) = result {
        tally.first_error.get_or_insert(format!("{actor}, {reader:?}: {error}"));
    }
}

/// What is wrong with the content.
#[derive(Debug)]
enum ContentError {
    /// Bytes that no actor wrote.
    Nul(String),
    /// A line that no actor wrote, or a line that is missing.
    Line(String),
    /// Fewer bytes than were acknowledged.
    Size(String),
}

impl std::fmt::Display for ContentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ContentError::Nul(text) | ContentError::Line(text) | ContentError::Size(text) => {
                f.write_str(text)
            }
        }
    }
}

/// Checks that everything that was acknowledged is there, in order and complete. A last line without its end is still
/// being written.
fn check(content: &[u8], acknowledged: &[u64]) -> Result<(), ContentError> {
    let mut found = vec![0; acknowledged.len()];
    let mut offset = 0;
    if let Some(nul) = content.iter().position(|byte| *byte == 0) {
        let count = content[nul..].iter().take_while(|byte| **byte == 0).count();
        return Err(ContentError::Nul(format!("{count} NUL bytes at {nul} of {}", content.len())));
    }
    for part in content.split_inclusive(|byte| *byte == b'\n') {
        let is_complete = part.ends_with(b"\n");
        if is_complete {
            let mut numbers =
                part.split(|byte| *byte == b':').map(|part| std::str::from_utf8(part).ok()?.parse().ok());
            let (writer, number): (Option<u64>, Option<u64>) =
                (numbers.next().flatten(), numbers.next().flatten());
            let known_writer =
                writer.and_then(|writer| usize::try_from(writer).ok()).filter(|writer| *writer < found.len());
            match (known_writer, number) {
                (Some(writer), Some(number)) if part == line(writer, number) => {
                    if number != found[writer] + 1 {
                        let last = found[writer];
                        return Err(ContentError::Line(format!(
                            "at {offset}: line {number} of writer {writer} after {last}"
                        )));
                    }
                    found[writer] = number;
                }
                _ => {
                    let shown = String::from_utf8_lossy(&part[..part.len().min(60)]).into_owned();
                    return Err(ContentError::Line(format!(
                        "a torn line of {} bytes at {offset}: {shown:?}",
                        part.len()
                    )));
                }
            }
        }
        offset += part.len();
    }
    for (writer, (found, expected)) in found.iter().zip(acknowledged).enumerate() {
        if found < expected {
            let size = content.len();
            return Err(ContentError::Line(format!(
                "{expected} lines of writer {writer} were acknowledged, {found} are there, in {size} bytes"
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
fn mapped(path: &Path, before: &[u64]) -> Result<(), ContentError> {
    let length = usize::try_from(bytes(before)).unwrap();
    if length == 0 {
        return Ok(());
    }
    let file = File::open(path).unwrap();
    // Like every program that has to know how much it can map.
    let size = file.metadata().unwrap().len();
    if size < length as u64 {
        return Err(ContentError::Size(format!("{size} bytes, where {length} were acknowledged")));
    }
    check(&mapping::read_first(&file, length), &vec![0; before.len()])
}

/// Checks that at least as many bytes as were acknowledged are there.
fn size(path: &Path, before: &[u64]) -> Result<(), ContentError> {
    let minimum = bytes(before);
    let mut file = File::open(path).unwrap();
    let size_when_open = file.metadata().unwrap().len();
    let bytes_read = file.read_to_end(&mut Vec::new()).unwrap() as u64;
    let size_by_path = fs::metadata(path).unwrap().len();
    if size_when_open.min(bytes_read).min(size_by_path) < minimum {
        let sizes = [size_when_open, bytes_read, size_by_path];
        return Err(ContentError::Size(format!(
            "sizes of {sizes:?} one after the other, {minimum} were acknowledged"
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
    fn read(&mut self, before: &[u64]) -> Result<(), ContentError> {
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
