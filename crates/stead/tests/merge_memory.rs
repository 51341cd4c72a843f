//! How much memory a merge and an update take for each changed file. It has a process of its own, because it measures the
//! memory of its process. `STEAD_TEST_LONG=1` merges up to 100,000 files.

#![allow(clippy::unwrap_used)]
#![allow(unsafe_code, reason = "an allocator that counts has to be one")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use stead::transfer::{CompareBy, ImportSource, NoObserver};
use stead::vfs::MergeOptions;
use stead::{Config, Stead};

/// The system's allocator, which counts the bytes that are in use, and the most that were.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn add(bytes: usize) {
    let in_use = IN_USE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(in_use, Ordering::Relaxed);
}

// SAFETY: Every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: The caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: The caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory that a merge may take for a changed file.
const MOST_BYTES: u64 = 2 << 10;
/// Of so many files, one is changed on both sides, on other lines.
const MERGED_EVERY: usize = 10;
/// How many lines such a file has. If merged texts were in memory, they alone would take about [`MOST_BYTES`] a file.
const LINES_OF_MERGED: usize = 640;
const LINES: usize = 16;

/// Which lines of a file differ from the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edited {
    None,
    First,
    Middle,
    Last,
}

fn text(number: usize, edited: Edited) -> String {
    let lines = if number.is_multiple_of(MERGED_EVERY) { LINES_OF_MERGED } else { LINES };
    let changed = match edited {
        Edited::None => lines,
        Edited::First => 0,
        Edited::Middle => lines / 2,
        Edited::Last => lines - 1,
    };
    let line = |line| match line == changed {
        true => format!("file {number:6}, {edited:?}, changed\n"),
        false => format!("file {number:6}, line {line:9}\n"),
    };
    (0..lines).map(line).collect()
}

/// Writes files below a directory of the host.
fn write_files(directory: &Path, numbers: impl Iterator<Item = usize>, edited: Edited) {
    for number in numbers {
        let parent = directory.join(format!("part-{}", number / 200));
        std::fs::create_dir_all(&parent).unwrap();
        std::fs::write(parent.join(format!("file-{number}.txt")), text(number, edited)).unwrap();
    }
}

fn import(stead: &Stead, from: &Path, to: &str) {
    let source = ImportSource::open(from).unwrap();
    stead.import(source, to, CompareBy::Content, &mut NoObserver).unwrap();
}

/// The memory of this process in bytes: now, or the most since [`forget_most_resident`].
fn resident(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1_024
}

fn forget_most_resident() {
    // On a kernel that doesn't offer it, the most so far counts.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// How many bytes a call took at most for each of the files: in this process's own heap, and as the system counts it.
fn measured(what: &str, files: usize, call: impl FnOnce()) -> u64 {
    let before = IN_USE.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    forget_most_resident();
    let (resident_before, began) = (resident("VmRSS:"), Instant::now());
    call();
    let took = began.elapsed();
    let files = files as u64;
    let heap = (MOST.load(Ordering::Relaxed) - before) as u64 / files;
    let resident = resident("VmHWM:").saturating_sub(resident_before) / files;
    println!("{what} of {files} files: {heap} bytes of heap and {resident} bytes of memory a file, {took:?}");
    heap
}

/// Merges and updates forks with so many changed files. Returns the most bytes a file.
fn merge_and_update(kind: &str, files: usize) -> u64 {
    let host = tempfile::tempdir().unwrap();
    let directory = host.path().join("files");
    std::fs::create_dir(&directory).unwrap();
    let path = if kind == "physical" { "path = \"files\"\n" } else { "" };
    let config = format!(
        "[database]\ndurability = \"fast\"\n[stores.s]\nkind = \"{kind}\"\n{path}[[agents.a.workspaces]]\nprefix = \"/w\"\n\
         scope = \"rw\"\nstore = \"s\"\n"
    );
    let config = Config::parse(&config, &host.path().join("stead.toml")).unwrap();
    let stead = Stead::open(&config, "a").unwrap();
    let change = |to: &str, numbers: &mut dyn Iterator<Item = usize>, edited| {
        if to == "/w" && kind == "physical" {
            return write_files(&directory, numbers, edited);
        }
        let from: PathBuf = host.path().join("changed");
        write_files(&from, numbers, edited);
        import(&stead_with_forks(&config), &from, to);
        std::fs::remove_dir_all(&from).unwrap();
    };
    let both = || (0..files).step_by(MERGED_EVERY);
    change("/w", &mut (0..files), Edited::None);
    stead.fork("/w", "merged").unwrap();
    stead.fork("/w", "updated").unwrap();
    change("/forks/merged", &mut (0..files), Edited::First);
    change("/forks/updated", &mut both(), Edited::Middle);
    change("/w", &mut both(), Edited::Last);
    let stead = stead_with_forks(&config);
    let merge = measured(&format!("{kind}: merge"), files, || {
        let result = stead.merge_fork("merged", &MergeOptions::default()).unwrap();
        assert!(result.done && result.changes.len() == files, "{} changes", result.changes.len());
    });
    let update = measured(&format!("{kind}: update"), files, || {
        let result = stead.update_fork("updated", &MergeOptions::default()).unwrap();
        assert!(result.done && result.conflicts.is_empty());
    });
    let merged = String::from_utf8(stead.vfs().read("/w/part-0/file-0.txt").unwrap().bytes).unwrap();
    assert!(merged.contains("First, changed") && merged.contains("Last, changed"));
    let updated = stead.vfs().read("/forks/updated/part-0/file-0.txt").unwrap().bytes;
    let updated = String::from_utf8(updated).unwrap();
    assert!(["First", "Middle", "Last"].iter().all(|line| updated.contains(&format!("{line}, changed"))));
    merge.max(update)
}

fn stead_with_forks(config: &Config) -> Stead {
    Stead::open(config, "a").unwrap()
}

#[test]
fn g29_a_merge_takes_at_most_2_kib_of_memory_a_changed_file() {
    let is_long = std::env::var_os("STEAD_TEST_LONG").is_some();
    let sizes: &[usize] = if is_long { &[1_000, 10_000, 100_000] } else { &[2_000] };
    for kind in ["virtual", "physical"] {
        for &files in sizes {
            let most = merge_and_update(kind, files);
            assert!(most <= MOST_BYTES, "{kind}: {most} bytes a file");
        }
    }
}
