//! The steps of the recorded program, and the files that each step leaves.

use std::collections::BTreeMap;

use stead::vfs::{OpenOptions, Overwrite, RemoveOptions, WriteOptions};
use stead::{Clock, Config, Identity, Occurrences, Stead, Stores, SystemClock, Timestamp, Tokens};

/// The environment variable with the time at which the last unrecorded run began.
pub(crate) const BEFORE_THE_LAST_RUN: &str = "STEAD_POWERCUT_BEFORE_THE_LAST_RUN";

/// Files by their paths.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// One step.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Write(&'static str, Vec<u8>),
    Stream(&'static str, Vec<u8>),
    Append(&'static str, Vec<u8>),
    /// Replaces the first text by the second.
    Edit(&'static str, &'static str, &'static str),
    /// Writes into the middle of a file.
    Patch(&'static str, usize, Vec<u8>),
    /// Like `Patch`, with a deferred sync.
    Flush(&'static str, usize, Vec<u8>),
    /// Syncs the file.
    Sync(&'static str),
    Rename(&'static str, &'static str),
    Copy(&'static str, &'static str),
    Remove(&'static str),
    RemoveDirectory(&'static str),
    Batch(Vec<(&'static str, Vec<u8>)>),
    /// Leaves a record in the audit, and changes nothing.
    Read(&'static str),
    Backup(&'static str),
    /// Archives the audit of all runs except the last one and this one.
    Archive,
    Token,
}

/// Text of this length that differs for every seed.
fn text(seed: u64, length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| random.alphanumeric() as u8).collect()
}

/// The steps of the recorded program.
pub(crate) fn steps(long: bool) -> Vec<Step> {
    use Step::*;
    let mut steps = vec![
        Write("/w/a", text(1, 3_000)),
        Read("/w/a"),
        Write("/w/a", text(2, 5_000)),
        Write("/w/b", b"one two three".to_vec()),
        Edit("/w/b", "two", "2 and more"),
        Append("/w/b", b" and the end".to_vec()),
        Write("/w/deep/er/still/c", text(3, 700)),
        Batch(vec![("/w/a", text(4, 900)), ("/w/b", text(6, 10)), ("/w/new/d", text(5, 20_000))]),
        Flush("/w/a", 100, text(7, 200)),
        Sync("/w/a"),
        Token,
        Stream("/w/large", text(8, 300_000)),
        Patch("/w/large", 120_000, text(9, 9_000)),
        Rename("/w/b", "/w/moved"),
        Rename("/w/a", "/w/moved"),
        Copy("/w/large", "/w/copied"),
        Copy("/w/deep", "/w/depth"),
        Flush("/w/moved", 0, text(10, 5_000)),
        Sync("/w/moved"),
        Backup("backup-1"),
        Remove("/w/copied"),
        RemoveDirectory("/w/depth"),
        Append("/w/moved", text(11, 6_000)),
        Write("/w/after", text(12, 100)),
        Token,
        Backup("backup-2"),
        Append("/w/after", text(13, 100)),
    ];
    if long {
        let names = ["/w/a", "/w/b", "/w/deep/er/x", "/w/deep/y", "/w/after", "/w/large"];
        let mut random = fastrand::Rng::with_seed(5);
        for seed in 100..180 {
            let mut random_name = || names[random.usize(..names.len())];
            let (name, other) = (random_name(), random_name());
            let length = if random.u8(..9) == 0 { 200_000 } else { random.usize(1..7_000) };
            steps.push(match random.u8(..7) {
                0 => Append(name, text(seed, length)),
                1 => Batch(vec![(name, text(seed, length)), ("/w/pair", text(seed + 1_000, length))]),
                2 => Stream(name, text(seed, length)),
                3 if name != other => Copy("/w/after", name),
                4 => Flush("/w/after", random.usize(..50), text(seed, length)),
                _ => Write(name, text(seed, length)),
            });
            if let Some(Flush(name, ..)) = steps.last() {
                steps.push(Sync(name));
            }
            if let Some(Copy(from, to)) = steps.last()
                && from == to
            {
                steps.pop();
            }
        }
    }
    steps
}

impl Step {
    /// Applies the step to a set of files.
    pub(crate) fn apply_to(&self, files: &mut Files) {
        match self {
            Step::Write(path, bytes) | Step::Stream(path, bytes) => {
                drop(files.insert((*path).into(), bytes.clone()))
            }
            Step::Append(path, bytes) => files.entry((*path).into()).or_default().extend(bytes),
            Step::Edit(path, old, new) => {
                let text = String::from_utf8(files[*path].clone()).unwrap();
                files.insert((*path).into(), text.replacen(old, new, 1).into_bytes());
            }
            Step::Patch(path, offset, bytes) | Step::Flush(path, offset, bytes) => {
                let content = files.get_mut(*path).unwrap();
                content.resize(content.len().max(offset + bytes.len()), 0);
                content[*offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            Step::Rename(from, to) => {
                let content = files.remove(*from).unwrap();
                files.insert((*to).into(), content);
            }
            Step::Copy(from, to) => {
                let copied: Vec<_> = files
                    .iter()
                    .filter_map(|(path, bytes)| {
                        Some((format!("{to}{}", path.strip_prefix(from)?), bytes.clone()))
                    })
                    .filter(|(path, _)| path == to || path.starts_with(&format!("{to}/")))
                    .collect();
                files.extend(copied);
            }
            Step::Remove(path) => drop(files.remove(*path)),
            Step::RemoveDirectory(directory) => {
                files.retain(|path, _| !path.starts_with(&format!("{directory}/")))
            }
            Step::Batch(all) => {
                files.extend(all.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.clone())))
            }
            Step::Sync(_) | Step::Read(_) | Step::Backup(_) | Step::Archive | Step::Token => {}
        }
    }

    /// Whether the step is durable once it has been acknowledged.
    pub(crate) fn is_durable(&self) -> bool {
        !matches!(self, Step::Flush(..) | Step::Read(_))
    }

    /// Whether the step leaves a record of a change.
    pub(crate) fn is_change(&self) -> bool {
        !matches!(self, Step::Sync(_) | Step::Read(_) | Step::Backup(_) | Step::Archive | Step::Token)
    }

    /// Does the step.
    pub(crate) fn run(&self, stead: &Stead, stores: &Stores, config: &Config) {
        let vfs = stead.vfs();
        match self {
            Step::Write(path, bytes) => drop(vfs.write(*path, bytes.clone()).unwrap()),
            Step::Stream(path, bytes) => {
                drop(vfs.write_from(*path, &mut &bytes[..], &WriteOptions::new()).unwrap());
            }
            Step::Append(path, bytes) => drop(vfs.append(*path, bytes.clone()).unwrap()),
            Step::Edit(path, old, new) => drop(vfs.edit(*path, old, new, Occurrences::One).unwrap()),
            Step::Patch(path, offset, bytes) => {
                let file = vfs.open(*path, OpenOptions::write()).unwrap();
                file.write_at(*offset as u64, bytes).unwrap();
                file.sync().unwrap();
                file.close().unwrap();
            }
            Step::Flush(path, offset, bytes) => {
                let file = vfs.open(*path, OpenOptions::write()).unwrap();
                file.write_at(*offset as u64, bytes).unwrap();
                file.flush().unwrap();
                file.close().unwrap();
            }
            Step::Sync(path) => {
                let file = vfs.open(*path, OpenOptions::write()).unwrap();
                file.sync_store().unwrap();
                file.close().unwrap();
            }
            Step::Rename(from, to) => drop(vfs.rename(*from, *to, Overwrite::Replace).unwrap()),
            Step::Copy(from, to) => drop(vfs.copy(*from, *to, Overwrite::Replace).unwrap()),
            Step::Remove(path) => drop(vfs.remove_file(*path, RemoveOptions::default()).unwrap()),
            Step::RemoveDirectory(path) => {
                let options = RemoveOptions { recursive: true, ..RemoveOptions::default() };
                drop(vfs.remove_directory(*path, options).unwrap());
            }
            Step::Batch(all) => {
                let mut batch = vfs.batch();
                for (path, bytes) in all {
                    batch.write(*path, bytes.clone(), &WriteOptions::new()).unwrap();
                }
                drop(batch.apply().unwrap());
            }
            Step::Read(path) => drop(vfs.read(*path).unwrap()),
            Step::Backup(name) => {
                let backup = config.file().parent().unwrap().join(name);
                stores.backup(&backup, &mut |_| ()).unwrap();
            }
            Step::Archive => {
                let archives = config.audit_directory().join("archive");
                let before = Timestamp(std::env::var(BEFORE_THE_LAST_RUN).unwrap().parse().unwrap());
                let archived = stores.audit_access().unwrap().unwrap().archive(before, &archives).unwrap();
                assert!(archived.records > 0);
            }
            Step::Token => {
                Tokens::of(config).create(Identity::agent("a"), None, SystemClock.now()).unwrap();
            }
        }
    }
}
