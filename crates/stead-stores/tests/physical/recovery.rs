//! Recovery next to running processes: they roll back the half-made change of a dead process before they go on, and
//! what a program of the host has changed since stays.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use stead_core::store::{Content, DraftBase, History, Maintenance, PutOptions};

use super::*;

/// A Store that dies right before an action of this name, after `skipped` others of that name.
fn open_failing(temp: &Path, action: &'static str, skipped: usize) -> PhysicalStore {
    let count = AtomicUsize::new(0);
    open(temp, |options| {
        options.faults =
            Some(Arc::new(move |name| name == action && count.fetch_add(1, Ordering::SeqCst) == skipped));
    })
}

/// Dies after the first of two writes into `log`.
fn die_in_a_write(temp: &Path) {
    let store = open_failing(temp, "patch", 1);
    let mut draft = store.draft(DraftBase::File(&at("log"))).unwrap();
    draft.write_at(4, b"TWO").unwrap();
    draft.write_at(8, b"THREE").unwrap();
    let content = Content::Sealed(draft.seal().unwrap());
    apply(&store, Step::Write { at: at("log"), content, options: PutOptions::default() }).unwrap_err();
}

fn append_as_host(path: &Path, line: &str) {
    std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(line.as_bytes()).unwrap();
}

#[test]
fn a_running_process_rolls_back_a_torn_write_before_its_next_change() {
    let bench = Bench::new();
    write(&bench.store, "log", "one two three\n");
    die_in_a_write(bench.temp.path());
    assert_eq!(read(&bench.store, "log"), "one TWO three\n");
    // Any change triggers recovery, even of another name.
    write(&bench.store, "other", "");
    assert_eq!(read(&bench.store, "log"), "one two three\n");
    assert_eq!(
        staging_counts(bench.temp.path()),
        (1, 0),
        "the staging directory of the crashed process has to be removed"
    );
}

#[test]
fn a_torn_append_is_truncated_before_a_running_process_appends() {
    let bench = Bench::new();
    write(&bench.store, "log", "one\n");
    let store = open_failing(bench.temp.path(), "patch", 1);
    apply(&store, append_step("log", &b"torn\n".repeat(500_000))).unwrap_err();
    drop(store);
    assert!(read(&bench.store, "log").len() > 4, "a part of the append has to be written");
    apply(&bench.store, append_step("log", b"two\n")).unwrap();
    assert_eq!(read(&open(bench.temp.path(), |_| ()), "log"), "one\ntwo\n");
}

#[test]
fn an_acknowledged_append_is_not_mistaken_for_a_torn_one() {
    let fails = Arc::new(AtomicUsize::new(0));
    let should_fail = Arc::clone(&fails);
    let Bench { temp, root, store } = Bench::with(|options| {
        options.faults = Some(Arc::new(move |_| should_fail.load(Ordering::SeqCst) > 0));
    });
    write(&store, "log", "one\n");
    apply(&store, append_step("log", b"two\n")).unwrap();
    // Another program truncates the file where a torn append would have ended. Then the process dies before it has
    // recorded in the ledger that the append was made.
    std::fs::OpenOptions::new().write(true).open(root.join("log")).unwrap().set_len(6).unwrap();
    fails.store(1, Ordering::SeqCst);
    apply(&store, write_step("other", "x")).unwrap_err();
    drop(store);
    let store = open(temp.path(), |_| ());
    assert_eq!(read(&store, "log"), "one\ntw");
    assert_eq!(store.revisions(&stead_core::store::RevisionQuery::all()).unwrap().revisions.len(), 2);
    assert_eq!(store.verify(&mut |_| ()).unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_change_of_one_action_is_logged_once() {
    let bench = Bench::new();
    let journal_count = || {
        let staging = std::fs::read_dir(bench.temp.path().join("state/physical")).unwrap().next().unwrap();
        let process_directories = std::fs::read_dir(staging.unwrap().path().join("staging")).unwrap();
        let files =
            process_directories.flat_map(|directory| std::fs::read_dir(directory.unwrap().path()).unwrap());
        files.filter(|entry| entry.as_ref().unwrap().file_name().as_encoded_bytes().starts_with(b"j")).count()
    };
    write(&bench.store, "log", "one\n");
    apply(&bench.store, append_step("log", b"two\n")).unwrap();
    let modified = Some(Timestamp::from_secs(7));
    apply(&bench.store, Step::SetAttr { at: at("log"), mode: Some(0o600), modified }).unwrap();
    assert_eq!(journal_count(), 0, "a change of one action needs no intent log file");
    bench.store.apply(change(vec![write_step("a", "1"), write_step("b", "2")])).unwrap();
    assert_eq!(journal_count(), 1);
}

#[test]
fn what_recovery_can_not_decide_stays_and_verify_reports_it_until_the_report_is_removed() {
    let bench = Bench::new();
    write(&bench.store, "log", "one two three\n");
    die_in_a_write(bench.temp.path());
    let file = bench.host_path("log");
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap().replace("three", "drei!")).unwrap();
    append_as_host(&file, "acknowledged\n");

    let store = open(bench.temp.path(), |_| ());
    assert_eq!(read(&store, "log"), "one TWO drei!\nacknowledged\n");
    let [problem] = &store.verify(&mut |_| ()).unwrap().problems[..] else { panic!("expected one problem") };
    assert!(problem.starts_with("`log`: a process died while it wrote into this"), "{problem}");
    let path_in_report = |ending: &str| {
        let has_ending =
            |part: &&str| part.contains("/recovered/") && part.ends_with(".report") == (ending == "report");
        bench.temp.path().join("state").join(problem.split('`').find(has_ending).unwrap())
    };
    assert_eq!(std::fs::read(path_in_report("before")).unwrap(), b"twothree", "the bytes that were replaced");
    std::fs::remove_file(path_in_report("report")).unwrap();
    assert_eq!(store.verify(&mut |_| ()).unwrap().problems, [""; 0]);
}

#[test]
fn a_half_made_batch_is_rolled_back_except_files_that_another_program_has_changed() {
    let bench = Bench::new();
    write(&bench.store, "a", "a's\n");
    write(&bench.store, "b", "b's\n");
    let store = open_failing(bench.temp.path(), "commit", 0);
    let steps = vec![write_step("a", "new a's\n"), write_step("b", "new b's\n"), write_step("c", "c's\n")];
    store.apply(change(steps)).unwrap_err();
    drop(store);
    append_as_host(&bench.host_path("a"), "acknowledged\n");
    append_as_host(&bench.host_path("c"), "acknowledged\n");

    write(&bench.store, "b", "mine\n");
    assert_eq!(read(&bench.store, "a"), "new a's\nacknowledged\n");
    assert_eq!(read(&bench.store, "b"), "mine\n");
    assert_eq!(read(&bench.store, "c"), "c's\nacknowledged\n");
    let problems = bench.store.verify(&mut |_| ()).unwrap().problems;
    let problems_of = |name: &str| problems.iter().filter(|problem| problem.starts_with(name)).count();
    assert_eq!((problems.len(), problems_of("`a`:"), problems_of("`c`:")), (2, 1, 1), "{problems:?}");
}

#[test]
fn verify_counts_the_content_of_a_recovered_directory() {
    let bench = Bench::new();
    write(&bench.store, "d/in/large", &"x".repeat(100_000));
    let store = open_failing(bench.temp.path(), "commit", 0);
    let steps = vec![remove_step("d", Subtree::Any), write_step("other", "")];
    store.apply(change(steps)).unwrap_err();
    drop(store);
    // Its name is taken, so recovery can't put it back.
    std::fs::write(bench.host_path("d"), "in the way").unwrap();
    write(&bench.store, "trigger", "");
    let counted = bench.store.verify(&mut |_| ()).unwrap().unreferenced;
    assert!(counted >= 100_000, "{counted}");
}
