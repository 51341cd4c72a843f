//! Recovery next to running processes: they roll back the half-made change of a dead process before they go on, and
//! what a program of the host has changed since stays.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use stead_core::store::{Content, DraftBase, History, Maintenance, PutOptions};

use super::*;

/// A Store that dies right before an action of this name, after `passed` others of that name.
fn doomed(temp: &Path, action: &'static str, passed: usize) -> PhysicalStore {
    let seen = AtomicUsize::new(0);
    open(temp, |options| {
        options.faults =
            Some(Arc::new(move |name| name == action && seen.fetch_add(1, Ordering::SeqCst) == passed));
    })
}

/// Dies after the first of two writes into `log`.
fn dies_while_it_writes(temp: &Path) {
    let store = doomed(temp, "patch", 1);
    let mut draft = store.draft(DraftBase::File(&at("log"))).unwrap();
    draft.write_at(4, b"TWO").unwrap();
    draft.write_at(8, b"THREE").unwrap();
    let content = Content::Sealed(draft.seal().unwrap());
    apply(&store, Step::Write { at: at("log"), content, options: PutOptions::default() }).unwrap_err();
}

fn add_as_the_host(path: &Path, line: &str) {
    std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(line.as_bytes()).unwrap();
}

#[test]
fn a_living_process_takes_a_torn_write_back_before_it_goes_on() {
    let bench = Bench::new();
    write(&bench.store, "log", "one two three\n");
    dies_while_it_writes(bench.temp.path());
    assert_eq!(read(&bench.store, "log"), "one TWO three\n");
    // Any change triggers recovery, even of another name.
    write(&bench.store, "other", "");
    assert_eq!(read(&bench.store, "log"), "one two three\n");
    assert_eq!(workshop(bench.temp.path()), (1, 0), "nothing is left of the dead one");
}

#[test]
fn a_torn_append_is_cut_off_before_a_living_process_appends() {
    let bench = Bench::new();
    write(&bench.store, "log", "one\n");
    let store = doomed(bench.temp.path(), "patch", 1);
    apply(&store, append_step("log", &b"torn\n".repeat(500_000))).unwrap_err();
    drop(store);
    assert!(read(&bench.store, "log").len() > 4, "a part of it was written");
    apply(&bench.store, append_step("log", b"two\n")).unwrap();
    assert_eq!(read(&open(bench.temp.path(), |_| ()), "log"), "one\ntwo\n");
}

#[test]
fn what_was_acknowledged_is_not_taken_for_a_torn_write_later() {
    let dies = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dies);
    let Bench { temp, root, store } = Bench::with(|options| {
        options.faults = Some(Arc::new(move |_| count.load(Ordering::SeqCst) > 0));
    });
    write(&store, "log", "one\n");
    apply(&store, append_step("log", b"two\n")).unwrap();
    // Another program truncates the file where a torn append would have ended. Then the process dies before it has
    // recorded in the ledger that the append was made.
    std::fs::OpenOptions::new().write(true).open(root.join("log")).unwrap().set_len(6).unwrap();
    dies.store(1, Ordering::SeqCst);
    apply(&store, write_step("other", "x")).unwrap_err();
    drop(store);
    let store = open(temp.path(), |_| ());
    assert_eq!(read(&store, "log"), "one\ntw");
    assert_eq!(store.revisions(&stead_core::store::RevisionQuery::all()).unwrap().revisions.len(), 2);
    assert_eq!(store.verify(&mut |_| ()).unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_change_of_one_action_is_written_down_once() {
    let bench = Bench::new();
    let journals = || {
        let staging = std::fs::read_dir(bench.temp.path().join("state/physical")).unwrap().next().unwrap();
        let rooms = std::fs::read_dir(staging.unwrap().path().join("staging")).unwrap();
        let names = rooms.flat_map(|room| std::fs::read_dir(room.unwrap().path()).unwrap());
        names.filter(|entry| entry.as_ref().unwrap().file_name().as_encoded_bytes().starts_with(b"j")).count()
    };
    write(&bench.store, "log", "one\n");
    apply(&bench.store, append_step("log", b"two\n")).unwrap();
    let modified = Some(Timestamp::from_secs(7));
    apply(&bench.store, Step::SetAttr { at: at("log"), mode: Some(0o600), modified }).unwrap();
    assert_eq!(journals(), 0, "the ledger knows it");
    bench.store.apply(change(vec![write_step("a", "1"), write_step("b", "2")])).unwrap();
    assert_eq!(journals(), 1);
}

#[test]
fn what_nobody_can_decide_stays_and_verify_names_it_until_the_report_is_removed() {
    let bench = Bench::new();
    write(&bench.store, "log", "one two three\n");
    dies_while_it_writes(bench.temp.path());
    let file = bench.host("log");
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap().replace("three", "drei!")).unwrap();
    add_as_the_host(&file, "acknowledged\n");

    let store = open(bench.temp.path(), |_| ());
    assert_eq!(read(&store, "log"), "one TWO drei!\nacknowledged\n");
    let [problem] = &store.verify(&mut |_| ()).unwrap().problems[..] else { panic!("one problem") };
    assert!(problem.starts_with("`log`: a process died while it wrote into this"), "{problem}");
    let named = |ending: &str| {
        let is_it =
            |part: &&str| part.contains("/recovered/") && part.ends_with(".report") == (ending == "report");
        bench.temp.path().join("state").join(problem.split('`').find(is_it).unwrap())
    };
    assert_eq!(std::fs::read(named("before")).unwrap(), b"twothree", "the bytes that were replaced");
    std::fs::remove_file(named("report")).unwrap();
    assert_eq!(store.verify(&mut |_| ()).unwrap().problems, [""; 0]);
}

#[test]
fn a_batch_that_died_is_taken_back_but_for_what_another_program_has_changed() {
    let bench = Bench::new();
    write(&bench.store, "a", "a's\n");
    write(&bench.store, "b", "b's\n");
    let store = doomed(bench.temp.path(), "commit", 0);
    let steps = vec![write_step("a", "new a's\n"), write_step("b", "new b's\n"), write_step("c", "c's\n")];
    store.apply(change(steps)).unwrap_err();
    drop(store);
    add_as_the_host(&bench.host("a"), "acknowledged\n");
    add_as_the_host(&bench.host("c"), "acknowledged\n");

    write(&bench.store, "b", "mine\n");
    assert_eq!(read(&bench.store, "a"), "new a's\nacknowledged\n");
    assert_eq!(read(&bench.store, "b"), "mine\n");
    assert_eq!(read(&bench.store, "c"), "c's\nacknowledged\n");
    let problems = bench.store.verify(&mut |_| ()).unwrap().problems;
    let of = |name: &str| problems.iter().filter(|problem| problem.starts_with(name)).count();
    assert_eq!((problems.len(), of("`a`:"), of("`c`:")), (2, 1, 1), "{problems:?}");
}

#[test]
fn verify_counts_what_lies_in_a_recovered_directory() {
    let bench = Bench::new();
    write(&bench.store, "d/in/large", &"x".repeat(100_000));
    let store = doomed(bench.temp.path(), "commit", 0);
    let steps = vec![remove_step("d", Subtree::Any), write_step("other", "")];
    store.apply(change(steps)).unwrap_err();
    drop(store);
    // Its name is taken, so recovery can't put it back.
    std::fs::write(bench.host("d"), "in the way").unwrap();
    write(&bench.store, "trigger", "");
    let counted = bench.store.verify(&mut |_| ()).unwrap().unreferenced;
    assert!(counted >= 100_000, "{counted}");
}
