//! Races: threads, several Stores on one directory, and a program outside that swaps directories for symlinks.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stead_core::glob::PathGlobs;
use stead_core::search::{Grep, GrepQuery};
use stead_core::store::{
    Content, DraftBase, NodePath, Page, Precondition, PutOptions, Step, StoreError, Subtree,
};
use stead_core::{Edit, Occurrences, Timestamp};

use super::*;

both_ways! {
    a_directory_swapped_for_a_symlink_never_leads_outside,
    appends_and_edits_from_many_threads_and_stores_are_all_there,
    concurrent_changes_are_answered_as_if_they_had_run_one_after_the_other,
    a_reader_sees_the_old_content_or_the_new_and_one_creator_wins,
    a_read_or_search_of_a_growing_file_ends,
    directories_are_renamed_while_other_threads_write_into_them,
    stores_are_opened_while_others_are_closed,
    appends_by_a_program_of_the_host_and_by_a_store_are_all_there,
    a_write_by_a_program_of_the_host_during_a_change_is_not_taken_for_the_change,
}

/// V53: no operation reads or writes outside while a directory is swapped for a symlink in a loop.
fn a_directory_swapped_for_a_symlink_never_leads_outside(confinement: Confinement) {
    let bench = Bench::confined_by(confinement);
    let outside = bench.temp.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "outside").unwrap();
    std::fs::write(outside.join("file"), "outside").unwrap();
    write(&bench.store, "swap/file", "inside");
    symlink(&outside, bench.host_path("link")).unwrap();
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    // A longer run shows more: `RACE_SECONDS=60 cargo test -p stead-stores races`.
    let seconds = std::env::var("RACE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let (swap, link) = (bench.host_path("swap"), bench.host_path("link"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &swap, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                let (store, calls) = (&bench.store, &calls);
                scope.spawn(move || {
                    let end = Instant::now() + Duration::from_secs(seconds);
                    let mut round = 0_u64;
                    while Instant::now() < end {
                        round += 1;
                        calls.fetch_add(1, Ordering::Relaxed);
                        let path_through_swap = format!("swap/w{worker}");
                        match round % 7 {
                            0 => {
                                if let Ok(listing) = store.list(&at("swap"), &Page::ALL) {
                                    assert!(
                                        listing
                                            .entries
                                            .iter()
                                            .all(|entry| entry.name.as_bytes() != b"secret")
                                    );
                                }
                            }
                            1 => assert!(store.stat(&at("swap/secret")).is_err()),
                            2 => drop(apply(store, write_step(&path_through_swap, "x"))),
                            3 => drop(apply(store, append_step(&path_through_swap, b"y"))),
                            4 => drop(apply(store, remove_step(&path_through_swap, Subtree::File))),
                            5 => {
                                let edit = Edit::new("side", "SIDE", Occurrences::One).unwrap();
                                let expect = Precondition::Any;
                                let step = Step::Edit {
                                    at: at("swap/file"),
                                    edit,
                                    expect,
                                    displaced: DisplacedContent::Keep,
                                };
                                drop(apply(store, step));
                            }
                            _ => match store.read(&at("swap/file"), 100) {
                                Ok(content) => assert_ne!(content.bytes, b"outside"),
                                Err(
                                    StoreError::Link(_)
                                    | StoreError::Unavailable { .. }
                                    | StoreError::NotFound,
                                ) => {}
                                Err(error) => panic!("{error}"),
                            },
                        }
                    }
                })
            })
            .collect();
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok), "a call read something outside the Store");
    });
    let mut names: Vec<_> =
        std::fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["file", "secret"], "a call wrote something outside the Store");
    assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), "outside");
    let calls = calls.into_inner();
    println!("{calls} raced calls");
    assert!(calls > 1_000);
}

fn appends_and_edits_from_many_threads_and_stores_are_all_there(confinement: Confinement) {
    let bench = Bench::confined_by(confinement);
    let second = bench.second(confinement);
    write(&bench.store, "lines", &(0..20).map(|line| format!("line {line:02}.\n")).collect::<String>());
    std::thread::scope(|scope| {
        for thread in 0..20 {
            let store = if thread % 2 == 0 { &bench.store } else { &second };
            scope.spawn(move || {
                let record = format!("{thread:02}{}\n", "x".repeat(5_000));
                for _ in 0..5 {
                    apply(store, append_step("log", record.as_bytes())).unwrap();
                }
                let edit = Edit::new(format!("line {thread:02}."), "done", Occurrences::One).unwrap();
                let step = Step::Edit {
                    at: at("lines"),
                    edit,
                    expect: Precondition::Any,
                    displaced: DisplacedContent::Keep,
                };
                apply(store, step).unwrap();
            });
        }
    });
    let log = read(&second, "log");
    assert_eq!(log.lines().count(), 100);
    assert!(log.lines().all(|line| line.len() == 5_002), "a record was torn");
    assert_eq!(read(&bench.store, "lines"), "done\n".repeat(20));
}

fn concurrent_changes_are_answered_as_if_they_had_run_one_after_the_other(confinement: Confinement) {
    const THREADS: usize = 16;
    const ROUNDS: usize = 6;
    let bench = Bench::with(|options| {
        (options.confinement, options.durability) = (confinement, Durability::Full);
    });
    let lines = (0..THREADS).map(|line| format!("{line:02}.\n")).collect::<String>();
    let tags = ["edited", "appended"].map(|name| write(&bench.store, name, &lines).tag);
    let answers = std::sync::Mutex::new(std::collections::HashMap::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, answers) = (&bench.store, &answers);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let line = |round: usize| format!("{thread:02}.{}\n", "x".repeat(round));
                    let edit = |old: String| Step::Edit {
                        at: at("edited"),
                        edit: Edit::new(old, line(round + 1), Occurrences::One).unwrap(),
                        expect: Precondition::Any,
                        displaced: DisplacedContent::Keep,
                    };
                    for step in [edit(line(round)), append_step("appended", line(round).as_bytes())] {
                        let outcome = apply(store, step).unwrap();
                        let (before, after) = (outcome.before.unwrap(), outcome.attr.unwrap());
                        assert!(answers.lock().unwrap().insert(before, after).is_none());
                    }
                    let missing = apply(store, edit("nowhere".to_owned()));
                    assert!(matches!(missing, Err(StoreError::EditMismatch(_))), "{missing:?}");
                }
            });
        }
    });
    let answers = answers.into_inner().unwrap();
    for (name, first) in ["edited", "appended"].into_iter().zip(tags) {
        let (mut tag, mut size, mut steps) = (first, lines.len() as u64, 0);
        while let Some(attr) = answers.get(&tag) {
            assert!(attr.size > size, "each change has to make the file longer");
            (tag, size, steps) = (attr.tag, attr.size, steps + 1);
        }
        assert_eq!(steps, THREADS * ROUNDS, "{name}: the number of changes that follow each other");
        let attr_now = bench.store.stat(&at(name)).unwrap();
        assert_eq!((attr_now.tag, attr_now.size), (tag, size), "{name}");
    }
    assert!(read(&bench.store, "edited").lines().all(|line| line.ends_with(".xxxxxx")));
    assert_eq!(read(&bench.store, "appended").lines().count(), THREADS * (ROUNDS + 1));
}

fn a_reader_sees_the_old_content_or_the_new_and_one_creator_wins(confinement: Confinement) {
    let bench = Bench::confined_by(confinement);
    let second = bench.second(confinement);
    write(&bench.store, "file", &"a".repeat(100_000));
    let winners = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let (store, winners) = (if thread % 2 == 0 { &bench.store } else { &second }, &winners);
            scope.spawn(move || {
                for round in 0..20 {
                    let letter = char::from(b'a' + thread).to_string();
                    write(store, "file", &letter.repeat(100_000));
                    let bytes = store.read(&at("file"), 1 << 20).unwrap().bytes;
                    assert!(bytes.len() == 100_000 && bytes.iter().all(|&byte| byte == bytes[0]), "torn");
                    let options = PutOptions { expect: Precondition::Absent, ..PutOptions::default() };
                    let content = Content::Bytes(letter.into_bytes());
                    let step = Step::Write { at: at(&format!("new/{round}/file")), content, options };
                    match apply(store, step) {
                        Ok(_) => drop(winners.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => assert!(matches!(error, StoreError::AlreadyExists), "{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(winners.into_inner(), 20);
    assert_eq!(staging_counts(bench.temp.path()), (2, 0));
}

fn a_read_or_search_of_a_growing_file_ends(confinement: Confinement) {
    let bench = Bench::confined_by(confinement);
    write(&bench.store, "grows", "needle\n");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::io::Write;
            let mut file = std::fs::OpenOptions::new().append(true).open(bench.host_path("grows")).unwrap();
            while !stop.load(Ordering::Relaxed) && file.metadata().unwrap().len() < 256 << 20 {
                file.write_all(&[b'x'; 4_096]).unwrap();
            }
        });
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(300) {
            drop(bench.store.read(&at("grows"), 1 << 30).unwrap());
            let grep = Grep::new(&GrepQuery::new("needle"), None, PathGlobs::none()).unwrap();
            let mut hits = 0;
            let visit = &mut |_| {
                hits += 1;
                ControlFlow::Continue(())
            };
            bench.store.grep(&NodePath::root(), &grep, visit).unwrap();
            assert_eq!(hits, 1);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn directories_are_renamed_while_other_threads_write_into_them(confinement: Confinement) {
    let bench = Bench::confined_by(confinement);
    let second = bench.second(confinement);
    write(&bench.store, "a/seed", "x");
    let longest_wait = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (store, longest_wait) = (if thread % 2 == 0 { &bench.store } else { &second }, &longest_wait);
            scope.spawn(move || {
                for round in 0..40 {
                    let start = Instant::now();
                    let result = match thread {
                        0 => apply(store, rename_step("a", "b", Replace::Refuse)),
                        1 => apply(store, rename_step("b", "a", Replace::Refuse)),
                        _ => apply(store, write_step(&format!("a/{thread}-{round}"), "x")),
                    };
                    longest_wait.fetch_max(start.elapsed().as_millis() as u64, Ordering::Relaxed);
                    if let Err(error) = result {
                        let expected = matches!(
                            error,
                            StoreError::NotFound | StoreError::AlreadyExists | StoreError::Conflict
                        );
                        assert!(expected, "{error}");
                    }
                }
            });
        }
    });
    let files = tree(&bench.store).into_keys().filter(|path| path.contains('-')).count();
    assert_eq!(files, 240, "an acknowledged file is missing");
    let longest_wait = longest_wait.into_inner();
    // Less than the time after which a caller gives up.
    assert!(longest_wait < 20_000, "a caller waited {longest_wait} ms");
}

/// A Store that is being closed removes its staging directory, and one that is being opened looks for those that dead
/// processes left.
fn stores_are_opened_while_others_are_closed(confinement: Confinement) {
    const STORES: usize = 60;
    let bench = Bench::confined_by(confinement);
    std::thread::scope(|scope| {
        for worker in 0..6 {
            let bench = &bench;
            scope.spawn(move || {
                for number in 0..STORES {
                    write(&bench.second(confinement), &format!("{worker}-{number}"), "x");
                }
            });
        }
    });
    assert_eq!(tree(&bench.store).len(), 6 * STORES);
    let staging = std::fs::read_dir(bench.temp.path().join("state/physical")).unwrap().next().unwrap();
    let left = std::fs::read_dir(staging.unwrap().path().join("staging")).unwrap().count();
    assert_eq!(left, 1, "a closed Store leaves nothing");
}

fn appends_by_a_program_of_the_host_and_by_a_store_are_all_there(confinement: Confinement) {
    use std::io::Write;
    const LINES: usize = 400;
    let bench = Bench::confined_by(confinement);
    write(&bench.store, "log", "");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut log = std::fs::OpenOptions::new().append(true).open(bench.host_path("log")).unwrap();
            for line in 0..LINES * 10 {
                log.write_all(format!("host {line}\n").as_bytes()).unwrap();
            }
        });
        scope.spawn(|| {
            for line in 0..LINES {
                apply(&bench.store, append_step("log", format!("tool {line}\n").as_bytes())).unwrap();
            }
        });
        scope.spawn(|| {
            for line in 0..LINES {
                // As a mounted file system does: try again if another writer was faster.
                loop {
                    let base = bench.store.stat(&at("log")).unwrap().tag;
                    let mut draft = bench.store.draft(DraftBase::File(&at("log"))).unwrap();
                    draft.write_at(draft.size(), format!("mount {line}\n").as_bytes()).unwrap();
                    let content = Content::Sealed(draft.seal().unwrap());
                    let options = PutOptions { expect: Precondition::Tag(base), ..PutOptions::default() };
                    match apply(&bench.store, Step::Write { at: at("log"), content, options }) {
                        Ok(_) => break,
                        Err(StoreError::Conflict) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        });
    });
    let log = std::fs::read_to_string(bench.host_path("log")).unwrap();
    for (writer, lines) in [("host", LINES * 10), ("tool", LINES), ("mount", LINES)] {
        let found: Vec<_> = log.lines().filter(|line| line.starts_with(writer)).collect();
        let expected: Vec<_> = (0..lines).map(|line| format!("{writer} {line}")).collect();
        assert_eq!(found.len(), expected.len(), "lines of {writer}");
        assert!(found == expected, "lines of {writer} are torn or out of order");
    }
}

/// A mount keeps the pages that it has of a file if a commit has made the new version from the version that it knows. A
/// program of the host wrote between the commit's check and the time that the commit set; the time hid that write, and
/// the mount showed old content.
fn a_write_by_a_program_of_the_host_during_a_change_is_not_taken_for_the_change(confinement: Confinement) {
    use std::os::unix::fs::FileExt;
    use std::sync::{Arc, Mutex};

    type Prepare = fn(&PhysicalStore) -> Step;
    let overwrite: Prepare = |store| {
        let expect = Precondition::Tag(store.stat(&at("file")).unwrap().tag);
        let mut draft = store.draft(DraftBase::File(&at("file"))).unwrap();
        draft.write_at(0, b"mount").unwrap();
        let content = Content::Sealed(draft.seal().unwrap());
        Step::Write { at: at("file"), content, options: PutOptions { expect, ..PutOptions::default() } }
    };
    let extend: Prepare = |store| {
        let expect = Precondition::Tag(store.stat(&at("file")).unwrap().tag);
        let mut draft = store.draft(DraftBase::File(&at("file"))).unwrap();
        draft.set_size(20_000).unwrap();
        let content = Content::Sealed(draft.seal().unwrap());
        Step::Write { at: at("file"), content, options: PutOptions { expect, ..PutOptions::default() } }
    };
    let append: Prepare = |_| append_step("file", b"line\n");
    let set_time: Prepare =
        |_| Step::SetAttr { at: at("file"), mode: None, modified: Some(Timestamp::from_secs(7)) };
    let set_mode: Prepare = |_| Step::SetAttr { at: at("file"), mode: Some(0o600), modified: None };
    let set_both: Prepare =
        |_| Step::SetAttr { at: at("file"), mode: Some(0o600), modified: Some(Timestamp::from_secs(7)) };
    for (step, action) in [
        (overwrite, "patch"),
        (overwrite, "time"),
        (extend, "length"),
        (extend, "time"),
        (append, "patch"),
        (append, "time"),
        (set_time, "time"),
        (set_mode, "mode"),
        (set_both, "mode"),
        (set_both, "time"),
    ] {
        let host_write = Arc::new(Mutex::new(None::<PathBuf>));
        let due = Arc::clone(&host_write);
        let bench = Bench::with(|options| {
            options.confinement = confinement;
            options.faults = Some(Arc::new(move |performed| {
                if performed == action
                    && let Some(path) = due.lock().unwrap().take()
                {
                    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
                    file.write_all_at(b"host", 8_192).unwrap();
                }
                false
            }));
        });
        write(&bench.store, "file", &"-".repeat(10_000));
        let undisturbed = apply(&bench.store, step(&bench.store)).unwrap().attr.unwrap();
        assert_eq!(undisturbed.tag, bench.store.stat(&at("file")).unwrap().tag, "{action}");

        write(&bench.store, "file", &"-".repeat(10_000));
        let next = step(&bench.store);
        *host_write.lock().unwrap() = Some(bench.host_path("file"));
        let disturbed = apply(&bench.store, next).unwrap().attr.unwrap();
        assert!(host_write.lock().unwrap().is_none(), "the action {action} was not performed");
        assert_eq!(&read(&bench.store, "file")[8_192..8_196], "host", "{action}");
        assert_ne!(
            disturbed.tag,
            bench.store.stat(&at("file")).unwrap().tag,
            "a program of the host has written before the action {action}"
        );
    }
}
