//! Concurrent callers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::subject::*;
use crate::store::{NodePath, Parents, Precondition, PutOptions, Replace, StoreError};

/// Runs `act` in this many threads at once and waits for all of them.
fn run_threads(threads: usize, act: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for number in 0..threads {
            let act = &act;
            scope.spawn(move || act(number));
        }
    });
}

pub fn concurrent_appends_are_all_kept(t: &Subject) {
    const ROUNDS: usize = 10;
    let line =
        |thread: usize, round: usize| format!("{thread:02} {round:02} {}\n", "x".repeat(100 + 7 * thread));
    run_threads(20, |thread| {
        for round in 0..ROUNDS {
            t.apply_one(append("log", line(thread, round)));
        }
    });
    let text = String::from_utf8(t.read("log")).unwrap();
    let mut lines: Vec<_> = text.split_inclusive('\n').map(str::to_owned).collect();
    for thread in 0..20 {
        let thread_lines = lines.iter().filter(|line| line.starts_with(&format!("{thread:02} "))).cloned();
        let expected: Vec<_> = (0..ROUNDS).map(|round| line(thread, round)).collect();
        assert_eq!(
            thread_lines.collect::<Vec<_>>(),
            expected,
            "the lines of a thread have to be complete and in order"
        );
    }
    lines.dedup();
    assert_eq!(lines.len(), 20 * ROUNDS);
}

pub fn concurrent_edits_of_different_lines_are_all_kept(t: &Subject) {
    let text: String = (0..10).map(|number| format!("line {number} is old\n")).collect();
    t.write("file", &text);
    run_threads(10, |number| {
        t.apply_one(edit("file", &format!("line {number} is old"), &format!("line {number} is new")));
    });
    assert_eq!(t.read("file"), text.replace("old", "new").into_bytes());
}

pub fn a_reader_sees_the_old_or_the_new_content(t: &Subject) {
    let content =
        |number: usize| vec![b'a' + u8::try_from(number).unwrap(); [10, 5_000, 300_000, 70_000][number % 4]];
    t.write("file", content(0));
    let is_complete = |bytes: &[u8]| (0..8).any(|number| bytes == content(number));
    let done = AtomicBool::new(false);
    let writers = AtomicUsize::new(4);
    run_threads(8, |number| {
        if number < 4 {
            for round in 0..12 {
                t.write("file", content((number + 4 * (round % 2)) % 8));
            }
            if writers.fetch_sub(1, Ordering::SeqCst) == 1 {
                done.store(true, Ordering::SeqCst);
            }
        } else {
            while !done.load(Ordering::SeqCst) {
                assert!(is_complete(&t.read("file")), "a torn read");
                let open = t.open("file");
                let bytes = read_all(&*open);
                assert_eq!(bytes.len() as u64, open.attr().size);
                assert!(is_complete(&bytes), "a torn read of an open file");
            }
        }
    });
}

pub fn one_of_many_concurrent_creators_wins(t: &Subject) {
    for round in 0..10 {
        let path = format!("dir{round}/file");
        let winner = AtomicUsize::new(usize::MAX);
        run_threads(8, |number| {
            let options = PutOptions { expect: Precondition::Absent, ..PutOptions::default() };
            match t.try_apply_one(write_with(at(&path), number.to_string().into_bytes(), options)) {
                Ok(outcome) => {
                    assert!(outcome.created);
                    assert_eq!(winner.swap(number, Ordering::SeqCst), usize::MAX, "two callers succeeded");
                }
                Err(StoreError::AlreadyExists) => {}
                Err(other) => panic!("{other:?}"),
            }
        });
        assert_eq!(t.read(&path), winner.into_inner().to_string().into_bytes());
    }
}

pub fn no_update_is_lost_with_a_tag_precondition(t: &Subject) {
    t.write("counter", "0");
    run_threads(6, |_| {
        let mut increments = 0;
        while increments < 8 {
            let file = t.store.read(&at("counter"), 99).unwrap();
            let count: usize = String::from_utf8(file.bytes).unwrap().parse().unwrap();
            let options = PutOptions { expect: Precondition::Tag(file.attr.tag), ..PutOptions::default() };
            match t.try_apply_one(write_with(at("counter"), (count + 1).to_string().into_bytes(), options)) {
                Ok(_) => increments += 1,
                Err(StoreError::Conflict) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    });
    assert_eq!(t.read("counter"), b"48");
}

pub fn one_of_many_concurrent_renames_wins(t: &Subject) {
    for round in 0..10 {
        t.write("source/file", "1");
        let winners = AtomicUsize::new(0);
        run_threads(6, |number| {
            let to = at(&format!("moved/{round}/{number}"));
            match t.try_apply_one(rename_with(
                at("source"),
                to,
                Replace::Refuse,
                Parents::Create,
                Precondition::Any,
            )) {
                Ok(_) => {
                    winners.fetch_add(1, Ordering::SeqCst);
                }
                Err(StoreError::NotFound) => {}
                Err(other) => panic!("{other:?}"),
            }
        });
        assert_eq!(winners.into_inner(), 1);
        assert!(!t.exists("source"));
    }
    let files = t.walk_paths(&at("moved"), &Default::default());
    assert_eq!(files.iter().filter(|path| path.ends_with("/file")).count(), 10);
}

pub fn directories_created_concurrently_are_shared(t: &Subject) {
    run_threads(8, |number| {
        for round in 0..8 {
            t.write(&format!("a/{round}/b/{number}"), "1");
        }
    });
    for round in 0..8 {
        assert_eq!(t.names(&format!("a/{round}/b")).len(), 8);
    }
}

pub fn writers_of_different_files_do_not_disturb_each_other(t: &Subject) {
    run_threads(8, |number| {
        let path = format!("dir/{number}");
        for round in 0..10 {
            let text = format!("{number} {round}");
            t.write(&path, &text);
            assert_eq!(t.read(&path), text.as_bytes());
            t.rename(&path, &format!("{path}.moved"), Replace::Overwrite);
            t.rename(&format!("{path}.moved"), &path, Replace::Refuse);
            t.walk_paths(&NodePath::root(), &Default::default());
        }
    });
    assert_eq!(t.names("dir").len(), 8);
}
