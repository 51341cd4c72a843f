//! Measures the Virtual Store against flat SQLite, one table of paths and blobs, in the same run.
//!
//! `cargo run --release -p stead-stores --example measure -- DIRECTORY` measures everything a single process does.
//! `... --example measure -- DIRECTORY contend THREADS SECONDS` writes to one database from that many threads; started
//! several times at once, it shows how processes share it.

use std::borrow::Cow;
use std::error::Error;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use stead_core::glob::{Anchor, PathGlobs};
use stead_core::search::{Grep, GrepQuery, Walk};
use stead_core::store::{
    Change, Content, DraftOf, Expect, Keep, Missing, Page, Parents, Place, Put, Replace, Step, StorePath,
    Subtree,
};
use stead_core::{Clock, Identity, Operation, OperationId, Store, SystemClock};
use stead_stores::{Database, DatabaseOptions, Durability, VirtualStore};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const FILES: usize = 10_000;
const SIZE: usize = 4_096;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        [directory, "contend", threads, seconds] => {
            contend(Path::new(directory), threads.parse()?, Duration::from_secs(seconds.parse()?))
        }
        [directory] => single(Path::new(directory)),
        _ => Err("usage: measure DIRECTORY [contend THREADS SECONDS]".into()),
    }
}

fn single(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    for durability in [Durability::Full, Durability::Fast] {
        let flat_file = directory.join(format!("flat-{durability}.db"));
        let conn = flat_database(&flat_file, durability)?;
        let file = directory.join(format!("stead-{durability}.db"));
        let store = Database::open(file, DatabaseOptions { durability, ..DatabaseOptions::default() })?
            .store(["workspaces", "measure"])?;
        let Pair { flat, ours, ratio } = creates(&conn, &store)?;
        println!("create, {durability}: flat {flat:.0} µs, Stead {ours:.0} µs, {ratio:.2} of flat");
        if durability == Durability::Fast {
            reads(&flat_file, &store)?;
            trees(&store)?;
            searches(&store)?;
            large(&store)?;
        }
        together(&store, durability)?;
    }
    Ok(())
}

/// What file number `index` is called.
fn path(index: usize) -> String {
    format!("project/dir{}/file{index}.txt", index % 50)
}

/// What it holds: lines of text that no other file holds.
fn text(index: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(index as u64);
    let mut text = Vec::with_capacity(SIZE);
    while text.len() < SIZE {
        text.extend((0..60).map(|_| random.lowercase() as u8));
        text.push(b'\n');
    }
    text.truncate(SIZE);
    text
}

fn place(path: &str) -> Place {
    Place::path(StorePath::from_checked(path))
}

fn change(steps: Vec<Step>) -> Change {
    let at = SystemClock.now();
    let identity = Arc::new(Identity::agent("measure"));
    Change {
        operation: Operation { id: OperationId::fresh(at), identity, tool: Cow::Borrowed("measure"), at },
        steps,
    }
}

fn write(path: &str, bytes: Vec<u8>) -> Change {
    change(vec![Step::Write { at: place(path), content: Content::Bytes(bytes), put: Put::default() }])
}

fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

fn micros(count: usize, took: Duration) -> f64 {
    took.as_secs_f64() * 1e6 / count as f64
}

fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

/// How the two of a pair compare in a typical block of work. Blocks of both alternate, so that what else the machine
/// does weighs on both.
struct Pair {
    flat: f64,
    ours: f64,
    ratio: f64,
}

impl Pair {
    /// `blocks` are the times that flat SQLite and Stead took for `count` things each.
    fn of(blocks: &[(Duration, Duration)], count: usize) -> Pair {
        let median = |mut numbers: Vec<f64>| {
            numbers.sort_by(f64::total_cmp);
            numbers[numbers.len() / 2]
        };
        Pair {
            flat: median(blocks.iter().map(|(flat, _)| micros(count, *flat)).collect()),
            ours: median(blocks.iter().map(|(_, ours)| micros(count, *ours)).collect()),
            ratio: median(
                blocks.iter().map(|(flat, ours)| flat.as_secs_f64() / ours.as_secs_f64()).collect(),
            ),
        }
    }
}

fn flat_database(file: &Path, durability: Durability) -> Result<Connection> {
    let conn = Connection::open(file)?;
    let synchronous = if durability == Durability::Full { "FULL" } else { "NORMAL" };
    conn.execute_batch(&format!(
        "PRAGMA page_size=4096; PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous};
         PRAGMA wal_autocheckpoint=4000; PRAGMA cache_size=-8192;
         CREATE TABLE IF NOT EXISTS file(path TEXT PRIMARY KEY, data BLOB NOT NULL);"
    ))?;
    Ok(conn)
}

fn creates(conn: &Connection, store: &VirtualStore) -> Result<Pair> {
    const BLOCK: usize = FILES / 40;
    let mut insert = conn.prepare("INSERT INTO file(path, data) VALUES (?1, ?2)")?;
    let mut blocks = Vec::new();
    for first in (0..FILES).step_by(BLOCK) {
        let contents: Vec<_> = (first..first + BLOCK).map(|index| (path(index), text(index))).collect();
        let changes: Vec<_> = contents.iter().map(|(path, text)| write(path, text.clone())).collect();
        let start = Instant::now();
        for (path, data) in &contents {
            insert.execute(params![path, data])?;
        }
        let flat = start.elapsed();
        let start = Instant::now();
        for change in changes {
            store.apply(change)?;
        }
        blocks.push((flat, start.elapsed()));
    }
    Ok(Pair::of(&blocks, BLOCK))
}

fn reads(flat: &Path, store: &VirtualStore) -> Result<()> {
    const BLOCK: usize = 500;
    let conn = Connection::open(flat)?;
    conn.execute_batch("PRAGMA cache_size=-2048")?;
    let mut select = conn.prepare("SELECT data FROM file WHERE path = ?1")?;
    let mut random = fastrand::Rng::with_seed(1);
    let (mut reads, mut stats) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let paths: Vec<_> = (0..BLOCK).map(|_| path(random.usize(0..FILES))).collect();
        let places: Vec<_> = paths.iter().map(|path| place(path)).collect();
        let start = Instant::now();
        for path in &paths {
            black_box(select.query_row([path], |row| row.get::<_, Vec<u8>>(0))?);
        }
        let flat = start.elapsed();
        let start = Instant::now();
        for place in &places {
            black_box(store.read(place, u64::MAX)?);
        }
        reads.push((flat, start.elapsed()));
        let start = Instant::now();
        for place in &places {
            black_box(store.stat(place)?);
        }
        stats.push((flat, start.elapsed()));
    }
    let Pair { flat, ours, ratio } = Pair::of(&reads, BLOCK);
    println!("read: flat {flat:.1} µs, Stead {ours:.1} µs, {ratio:.2} of flat");
    println!("stat: {:.1} µs", Pair::of(&stats, BLOCK).ours);
    Ok(())
}

fn trees(store: &VirtualStore) -> Result<()> {
    let start = Instant::now();
    let mut seen = 0;
    store.walk(&Place::root(), &Walk::default(), &mut |_| {
        seen += 1;
        ControlFlow::Continue(())
    })?;
    println!("walk of {seen}: {:.1} ms", millis(start.elapsed()));
    let only = PathGlobs::new(["**/*9.txt"], Anchor::Start)?;
    let start = Instant::now();
    let mut seen = 0;
    store.walk(&Place::root(), &Walk { only: Some(only), ..Walk::default() }, &mut |_| {
        seen += 1;
        ControlFlow::Continue(())
    })?;
    println!("glob, {seen} of {FILES}: {:.1} ms", millis(start.elapsed()));

    let many = (0..20_000).map(|index| format!("wide/f{index}")).collect::<Vec<_>>();
    for batch in many.chunks(1_000) {
        let write = |path: &String| Step::Write {
            at: place(path),
            content: Content::Bytes(b"x".to_vec()),
            put: Put::default(),
        };
        store.apply(change(batch.iter().map(write).collect()))?;
    }
    let start = Instant::now();
    let listed = store.list(&place("wide"), &Page::ALL)?;
    println!("list of {}: {:.1} ms", listed.entries.len(), millis(start.elapsed()));
    let start = Instant::now();
    store.list(&place("wide"), &Page { after: None, limit: 100 })?;
    println!("list of the first 100 of them: {:.2} ms", millis(start.elapsed()));

    let rename = |from: &str, to: &str| {
        change(vec![Step::Rename {
            from: place(from),
            to: place(to),
            replace: Replace::Refuse,
            parents: Parents::Create,
            expect: Expect::Any,
            spare: [None, None],
        }])
    };
    let (there, back) = (rename("project", "elsewhere"), rename("elsewhere", "project"));
    let start = Instant::now();
    store.apply(there)?;
    println!("rename of a directory of {FILES}: {:.3} ms", millis(start.elapsed()));
    store.apply(back)?;

    let copy = change(vec![Step::Copy {
        from: place("project"),
        to: place("copy"),
        replace: Replace::Refuse,
        parents: Parents::Create,
        spare: None,
        keep: Keep::History,
    }]);
    let start = Instant::now();
    store.apply(copy)?;
    println!("copy of it: {:.1} ms", millis(start.elapsed()));
    for path in ["copy", "wide"] {
        let remove = change(vec![Step::Remove {
            at: place(path),
            subtree: Subtree::Directory,
            expect: Expect::Any,
            missing: Missing::Fails,
            spare: None,
            keep: Keep::History,
        }]);
        let start = Instant::now();
        store.apply(remove)?;
        println!("removal of `{path}`: {:.1} ms", millis(start.elapsed()));
    }
    Ok(())
}

fn searches(store: &VirtualStore) -> Result<()> {
    let rare = std::str::from_utf8(&text(1_234)[100..120])?.replace('\n', "");
    for (what, pattern) in [("rare literal", &*rare), ("common literal", "ab"), ("regex", "[xyz]{5}q")] {
        let mut best = Duration::MAX;
        let mut files = 0;
        for _ in 0..5 {
            let grep = Grep::new(&GrepQuery::new(pattern), None, PathGlobs::none())?;
            files = 0;
            let start = Instant::now();
            store.grep(&Place::root(), &grep, &mut |_| {
                files += 1;
                ControlFlow::Continue(())
            })?;
            best = best.min(start.elapsed());
        }
        println!("grep of {FILES} files, {what}, {files} hit: {:.1} ms", millis(best));
    }
    Ok(())
}

fn large(store: &VirtualStore) -> Result<()> {
    const MIB: usize = 64;
    let mut bytes = vec![0; MIB << 20];
    fastrand::Rng::with_seed(7).fill(&mut bytes);
    let start = Instant::now();
    let mut draft = store.draft(DraftOf::Nothing)?;
    for (index, piece) in bytes.chunks(128 << 10).enumerate() {
        draft.write_at((index * (128 << 10)) as u64, piece)?;
    }
    let content = Content::Sealed(draft.seal()?);
    store.apply(change(vec![Step::Write { at: place("large"), content, put: Put::default() }]))?;
    println!("write of {MIB} MiB: {:.0} MiB/s", per_second(MIB, start.elapsed()));
    for piece in [1 << 20, 128 << 10] {
        let mut best = Duration::MAX;
        for _ in 0..3 {
            let open = store.open(&place("large"))?;
            let mut buffer = vec![0; piece];
            let start = Instant::now();
            let mut offset = 0;
            while offset < open.attr().size {
                offset += open.read_at(offset, &mut buffer)? as u64;
            }
            best = best.min(start.elapsed());
        }
        println!("read of {MIB} MiB in pieces of {} KiB: {:.0} MiB/s", piece >> 10, per_second(MIB, best));
    }
    let append = change(vec![Step::Append {
        at: place("large"),
        content: Content::Bytes(b"x".to_vec()),
        put: Put::default(),
    }]);
    let start = Instant::now();
    store.apply(append)?;
    println!("append to it: {:.2} ms", millis(start.elapsed()));
    Ok(())
}

fn together(store: &VirtualStore, durability: Durability) -> Result<()> {
    for threads in [8, 64] {
        let each = 4_000 / threads;
        let start = Instant::now();
        let worst = std::thread::scope(|scope| {
            let run = |thread: usize| {
                let mut worst = Duration::ZERO;
                for index in 0..each {
                    let change = write(
                        &format!("together{threads}/{thread}-{index}"),
                        text(1 << 20 | thread << 10 | index),
                    );
                    let start = Instant::now();
                    store.apply(change).expect("a write beside others succeeds");
                    worst = worst.max(start.elapsed());
                }
                worst
            };
            let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
            running.into_iter().map(|thread| thread.join().expect("no writer panics")).max()
        });
        let rate = per_second(threads * each, start.elapsed());
        println!(
            "{threads} writers, {durability}: {rate:.0}/s, worst wait {:.0} ms",
            millis(worst.unwrap_or_default())
        );
    }
    Ok(())
}

fn contend(directory: &Path, threads: usize, time: Duration) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    let file: PathBuf = directory.join("contended.db");
    let store = Database::open(file, DatabaseOptions::default())?.store(["contended"])?;
    let me = std::process::id();
    let until = Instant::now() + time;
    let run = |thread: usize| {
        let (mut count, mut worst) = (0, Duration::ZERO);
        while Instant::now() < until {
            let path = format!("p{me}/t{thread}-{count}");
            let change = write(&path, text(me as usize * 1_000_003 + thread * 10_007 + count));
            let start = Instant::now();
            store.apply(change).expect("a write beside other processes succeeds");
            worst = worst.max(start.elapsed());
            count += 1;
        }
        (count, worst)
    };
    let run = &run;
    let results: Vec<(usize, Duration)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        running.into_iter().map(|thread| thread.join().expect("no writer panics")).collect()
    });
    let count: usize = results.iter().map(|(count, _)| count).sum();
    let worst = results.iter().map(|(_, worst)| *worst).max().unwrap_or_default();
    println!("process {me}: {:.0}/s, worst wait {:.0} ms", per_second(count, time), millis(worst));
    Ok(())
}
