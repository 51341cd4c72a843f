//! Numbers, not promises: `cargo test --release -p stead-stores --test physical -- --ignored --nocapture measure`.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use stead_core::glob::PathGlobs;
use stead_core::search::{Grep, GrepQuery};
use stead_core::store::Page;
use stead_stores::Durability;

use super::*;

fn each(name: &str, rounds: u32, mut call: impl FnMut(u32)) -> Duration {
    // The best of three, to leave out what else the machine does.
    let run = |call: &mut dyn FnMut(u32)| {
        let begin = Instant::now();
        (0..rounds).for_each(call);
        begin.elapsed() / rounds
    };
    let best = (0..3).map(|_| run(&mut call)).min().unwrap();
    println!("{name:>28} {:>9.2} µs", best.as_nanos() as f64 / 1_000.0);
    best
}

fn safely(path: &Path, content: &[u8], durability: Durability) {
    let temp = path.with_extension("tmp");
    let mut file = File::create(&temp).unwrap();
    file.write_all(content).unwrap();
    if durability == Durability::Full {
        file.sync_all().unwrap();
    }
    std::fs::rename(&temp, path).unwrap();
    if durability == Durability::Full {
        File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
    }
}

#[test]
#[ignore = "measures"]
fn measure_single_files() {
    let content = "x".repeat(4_096);
    for durability in [Durability::Fast, Durability::Full] {
        let bench = Bench::with(|options| options.durability = durability);
        let rounds = if durability == Durability::Fast { 5_000 } else { 300 };
        println!("{durability:?}");
        write(&bench.store, "a/b/file", &content);
        each("std overwrite", rounds, |_| safely(&bench.host("a/b/file"), content.as_bytes(), durability));
        each("overwrite", rounds, |_| {
            write(&bench.store, "a/b/file", &content);
        });
        let mut next = 0;
        each("std create", rounds, |_| {
            next += 1;
            safely(&bench.host(&format!("a/b/s{next}")), content.as_bytes(), durability);
        });
        each("create", rounds, |_| {
            next += 1;
            write(&bench.store, &format!("a/b/n{next}"), &content);
        });
        each("append 100 bytes", rounds, |_| {
            apply(&bench.store, append_step("log", &[b'x'; 100])).unwrap();
        });
        each("std read", rounds, |_| drop(std::fs::read(bench.host("a/b/file")).unwrap()));
        each("read", rounds, |_| drop(bench.store.read(&at("a/b/file"), 1 << 20).unwrap()));
        each("std stat", rounds, |_| {
            std::fs::symlink_metadata(bench.host("a/b/file")).unwrap();
        });
        each("stat", rounds, |_| {
            bench.store.stat(&at("a/b/file")).unwrap();
        });
        let mut here = false;
        each("rename file", rounds, |_| {
            let (from, to) = if here { ("a/y", "a/b/file") } else { ("a/b/file", "a/y") };
            apply(&bench.store, rename_step(from, to, Replace::Refuse)).unwrap();
            here = !here;
        });
    }
}

#[test]
#[ignore = "measures"]
fn measure_many_files() {
    let bench = Bench::new();
    for dir in 0..100 {
        std::fs::create_dir_all(bench.host(&format!("tree/{dir}"))).unwrap();
        for file in 0..100 {
            let text = format!("{dir} {file} some text of no consequence\n").repeat(100);
            std::fs::write(bench.host(&format!("tree/{dir}/{file}")), text).unwrap();
        }
    }
    std::fs::create_dir(bench.host("flat")).unwrap();
    for file in 0..100_000 {
        File::create(bench.host(&format!("flat/{file}"))).unwrap();
    }
    each("list 100,000", 1, |_| drop(bench.store.list(&at("flat"), &Page::ALL).unwrap()));
    each("list first 1,000 of them", 1, |_| {
        drop(bench.store.list(&at("flat"), &Page { after: None, limit: 1_000 }).unwrap())
    });
    each("walk 10,000", 1, |_| {
        bench.store.walk(&at("tree"), &Walk::default(), &mut |_| ControlFlow::Continue(())).unwrap();
    });
    for pattern in ["99 99 some", "consequence"] {
        each(&format!("grep 10,000 for {pattern}"), 1, |_| {
            let grep = Grep::new(&GrepQuery::new(pattern), None, PathGlobs::none()).unwrap();
            bench.store.grep(&at("tree"), &grep, &mut |_| ControlFlow::Continue(())).unwrap();
        });
    }
    let mut here = false;
    each("rename directory of 10,000", 10, |_| {
        let (from, to) = if here { ("moved", "tree") } else { ("tree", "moved") };
        apply(&bench.store, rename_step(from, to, Replace::Refuse)).unwrap();
        here = !here;
    });
}

/// One of several processes: `SHARED=dir` names the directory that all of them work in.
#[test]
#[ignore = "measures"]
fn measure_waiting() {
    let own = TempDir::new().unwrap();
    let shared = std::env::var_os("SHARED").map_or(own.path().to_owned(), PathBuf::from);
    std::fs::create_dir_all(shared.join("root")).unwrap();
    let full = std::env::var_os("FULL").is_some();
    let store =
        open(&shared, |options| options.durability = if full { Durability::Full } else { Durability::Fast });
    let (worst, calls) = (std::sync::Mutex::new(Duration::ZERO), std::sync::atomic::AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (store, worst, calls) = (&store, &worst, &calls);
            scope.spawn(move || {
                let end = Instant::now() + Duration::from_secs(5);
                let mut round = 0;
                while Instant::now() < end {
                    round += 1;
                    let begin = Instant::now();
                    let step = match (thread, round % 10) {
                        (0, 0) => rename_step("d", "e", Replace::Refuse),
                        (0, 5) => rename_step("e", "d", Replace::Refuse),
                        (_, 0 | 1) => append_step("one/log", b"line\n"),
                        (_, 2) => write_step("one/file", "content"),
                        _ => write_step(&format!("many/{}-{thread}", std::process::id()), "content"),
                    };
                    match apply(store, step) {
                        Ok(_)
                        | Err(stead_core::StoreError::NotFound | stead_core::StoreError::AlreadyExists) => {}
                        Err(error) => panic!("{error}"),
                    }
                    calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let mut worst = worst.lock().unwrap();
                    *worst = (*worst).max(begin.elapsed());
                }
            });
        }
    });
    println!("{:?} calls, worst wait {:?}", calls, worst.into_inner().unwrap());
}
