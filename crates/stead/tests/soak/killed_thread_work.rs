//! SIGKILL while threads are made, renewed, destroyed and archived: afterwards each thread is there as a whole or not at all,
//! and nothing of a thread that isn't there is left.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use stead::{Config, ErrorKind, Identity, Stead, Stores, ThreadKey, vfs::ListPage};
use stead_core::vfs::state::SetOptions;

use crate::child::{Task, lines_of, send_line};
use crate::test_stores::{Kind, is_long_run};

/// What a child is doing when it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Create,
    Renew,
    Destroy,
    /// Archives threads, and destroys each that is archived.
    Archive,
}

/// A thread's files are in the database and in two directories of the host.
const CONFIG: &str = r#"
[stores.rows]
kind = "virtual"
[stores.host]
kind = "physical"
path = "files"
[agents.a]
scope = "thread"
history = true
idle_timeout = "1h"
state = { enabled = true }
workspaces = [
  { prefix = "/rows", store = "rows", path = "/app", scope = "rw" },
  { prefix = "/files", store = "host", path = "/app", scope = "rw" },
  { prefix = "/more", store = "host", path = "/other", scope = "rw" },
]
"#;

const PREFIXES: [&str; 3] = ["/rows", "/files", "/more"];
/// How many threads there are to work on in a round.
const THREADS: u64 = 6;
/// How many files a thread has in each Workspace.
const FILES: u64 = 8;
/// How long a lease of a child holds. Those of the child that renews hold for a tenth of that.
const LEASE: Duration = Duration::from_millis(700);

/// How long the first step of a child may take.
const FIRST_STEP: Duration = Duration::from_millis(60);

fn config(directory: &Path) -> Config {
    fs::create_dir_all(directory.join("files")).unwrap();
    Config::parse(CONFIG, &directory.join("stead.toml")).unwrap()
}

/// The Stores as the test itself has them: it isn't killed, and is never late with a renewal.
fn stores(directory: &Path) -> Stores {
    Stores::of(&config(directory))
}

/// The Stores as a child has them. On a busy machine it may be late with a renewal: then it fails, which is like being killed.
fn stores_of_child(directory: &Path) -> Stores {
    Stores::of(&config(directory)).with_lease_ttl(LEASE)
}

fn name(round: u64, number: u64) -> String {
    format!("r{round}-{number}")
}

fn key(thread: &str) -> ThreadKey {
    ThreadKey::new("a", thread)
}

fn open(stores: &Stores, thread: &str) -> Stead {
    Stead::open_in(stores, &Identity::agent("a").with_thread(thread)).unwrap()
}

fn content(thread: &str, file: u64) -> String {
    format!("the content of {thread}\n").repeat(1 + (file as usize) * 300)
}

/// Gives a thread files with a past, a fork and a snapshot.
fn fill(stead: &Stead, thread: &str) {
    for prefix in PREFIXES {
        for file in 0..FILES {
            let path = format!("{prefix}/d{}/{thread}-{file}", file % 3);
            stead.vfs().write(&path, format!("the past of {thread}")).unwrap();
            stead.vfs().write(&path, content(thread, file)).unwrap();
        }
    }
    stead.state().unwrap().set("key", &format!("\"{thread}\""), &SetOptions::new()).unwrap();
    stead.snapshot(None, Some("label")).unwrap();
    stead.fork("/rows", "draft").unwrap().vfs().write("/forks/draft/new", thread).unwrap();
}

/// Fails unless the thread has all that `fill` gave it, and nothing else.
fn assert_whole(stead: &Stead, thread: &str) {
    for prefix in PREFIXES {
        for directory in 0..3 {
            let files = (0..FILES).filter(|file| file % 3 == directory);
            let expected: BTreeSet<_> = files.clone().map(|file| format!("{thread}-{file}")).collect();
            let listed = stead.vfs().list(format!("{prefix}/d{directory}"), &ListPage::all()).unwrap();
            let names: BTreeSet<_> = listed.entries.iter().map(|entry| entry.name.to_string()).collect();
            assert_eq!(names, expected, "{thread} {prefix}");
            for file in files {
                let read = stead.vfs().read(format!("{prefix}/d{directory}/{thread}-{file}")).unwrap();
                assert!(read.bytes == content(thread, file).as_bytes(), "{thread} {prefix} {file}");
            }
        }
    }
    assert_eq!(stead.snapshots(None).unwrap().len(), 1, "{thread}");
    assert_eq!(stead.state().unwrap().get("key").unwrap().unwrap().value, format!("\"{thread}\""));
    let draft = stead.vfs().read("/forks/draft/new").unwrap();
    assert_eq!(draft.bytes, thread.as_bytes());
}

/// Works until it is killed.
pub(crate) fn child(task: &Task) {
    let (round, directory) = (task.number / 10, &*task.directory);
    let work = [Work::Create, Work::Renew, Work::Destroy, Work::Archive][(task.number % 10) as usize];
    match work {
        Work::Create => create(directory, round),
        Work::Renew => renew(directory, round),
        Work::Destroy => {
            let stores = stores_of_child(directory);
            send_line("begins");
            for number in 0..THREADS {
                stores.threads().destroy(&key(&name(round, number))).unwrap().unwrap();
                send_line(&format!("{number}"));
            }
        }
        Work::Archive => {
            let stores = stores_of_child(directory);
            send_line("begins");
            for number in 0..THREADS {
                let (thread, part) = (name(round, number), directory.join("part.tar"));
                let mut file = fs::File::create(&part).unwrap();
                stores.threads().archive(&key(&thread), &mut file).unwrap();
                file.sync_all().unwrap();
                fs::rename(part, archive_of(directory, &thread)).unwrap();
                stores.threads().destroy(&key(&thread)).unwrap().unwrap();
                send_line(&format!("{number}"));
            }
        }
    }
    send_line("done");
    std::thread::sleep(Duration::from_secs(60));
}

fn archive_of(directory: &Path, thread: &str) -> PathBuf {
    directory.join(format!("{thread}.tar"))
}

fn create(directory: &Path, round: u64) {
    let stores = stores_of_child(directory);
    let mut kept = Vec::new();
    send_line("begins");
    for number in 0.. {
        let thread = name(round, number);
        let stead = open(&stores, &thread);
        for prefix in PREFIXES {
            stead.vfs().write(format!("{prefix}/x"), &*thread).unwrap();
        }
        send_line(&format!("{number}"));
        // Some are released, and some are in use when the process is killed.
        kept.extend(Some(stead).filter(|_| number % 3 == 0));
    }
}

/// Renews every few milliseconds, and writes meanwhile.
fn renew(directory: &Path, round: u64) {
    let stores = Stores::of(&config(directory)).with_lease_ttl(LEASE / 10);
    let steads: Vec<_> = (0..THREADS).map(|number| open(&stores, &name(round, number))).collect();
    send_line("begins");
    for step in 1_u64.. {
        for (number, stead) in steads.iter().enumerate() {
            let prefix = PREFIXES[step as usize % PREFIXES.len()];
            let state = stead.state().unwrap();
            let written = stead.vfs().write(format!("{prefix}/step"), step.to_string()).and_then(|_| {
                let options = match state.get("step")? {
                    Some(found) => SetOptions::new().if_match(found.version_tag),
                    None => SetOptions::new().create_only(),
                };
                state.set("step", &step.to_string(), &options)
            });
            match written {
                Ok(_) => send_line(&format!("{number} {step}")),
                // The process had no time to renew in time: one of the two was refused, and it says so.
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                    send_line(&format!("{number} {step} refused"));
                }
            }
        }
    }
}

/// Kills a child in the middle of a step, after it has reported so many steps, and returns all that it reported. `part` says
/// when: 0.5 is about half of a step. A step is taken to be as long as those before it, so a busy machine changes nothing.
fn run_and_kill(task: &Task, steps: usize, part: f64) -> Vec<String> {
    let (mut child, output) = task.start();
    let mut lines = lines_of(output);
    assert_eq!(lines.next().as_deref(), Some("begins"));
    let began = Instant::now();
    let mut reported: Vec<_> = lines.by_ref().take(steps).collect();
    let step = u32::try_from(reported.len()).ok().and_then(|count| began.elapsed().checked_div(count));
    std::thread::sleep(step.unwrap_or(FIRST_STEP).mul_f64(part));
    child.kill().unwrap();
    reported.extend(lines);
    child.wait().unwrap();
    reported
}

/// Fails if anything is left of a thread that doesn't exist, or of a process that is gone.
fn assert_nothing_is_left(directory: &Path) {
    let database = Connection::open(config(directory).database.path).unwrap();
    let count = |sql: &str| {
        database.query_row(&format!("SELECT count(*) FROM {sql}"), [], |row| row.get::<_, i64>(0)).unwrap()
    };
    for what in [
        "lease_holder",
        "thread_lease",
        "thread WHERE ending IS NOT NULL",
        "volume WHERE thread IS NOT NULL AND thread NOT IN (SELECT id FROM thread)",
        "volume WHERE namespace LIKE '{\"thread\"%' AND thread IS NULL",
        "fork WHERE owner NOT IN (SELECT agent || '/' || name FROM thread)",
        "fork WHERE volume NOT IN (SELECT id FROM volume)",
        "snapshot WHERE agent NOT IN (SELECT agent || '/' || name FROM thread)",
        "entry WHERE volume NOT IN (SELECT id FROM volume)",
        "node_change WHERE volume NOT IN (SELECT id FROM volume)",
        "entry_history WHERE volume NOT IN (SELECT id FROM volume)",
        "usage WHERE volume NOT IN (SELECT id FROM volume)",
    ] {
        assert_eq!(count(what), 0, "{what}");
    }
    let mut statement = database.prepare("SELECT name FROM thread").unwrap();
    let threads: BTreeSet<String> =
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for path in ["files/app/threads/a", "files/other/threads/a"] {
        let names: BTreeSet<_> = fs::read_dir(directory.join(path))
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(names.is_subset(&threads), "{path}: {:?}", names.difference(&threads));
    }
    for (path, only) in [("files/app", "threads"), ("files/app/threads", "a"), ("files/other/threads", "a")] {
        for entry in fs::read_dir(directory.join(path)).into_iter().flatten() {
            assert_eq!(entry.unwrap().file_name(), only, "{path}");
        }
    }
    // Nothing is kept of what the removal displaced.
    for file in files_below(directory).into_iter().filter(|file| !is_database_or_archive(file)) {
        let bytes = fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        if let Some((_, owner)) = text.split_once("the content of ").or(text.split_once("the past of ")) {
            let owner = owner.split(['\n', ' ']).next().unwrap();
            assert!(threads.contains(owner), "{} has content of {owner}", file.display());
        }
    }
}

fn is_database_or_archive(file: &Path) -> bool {
    let name = file.file_name().unwrap().to_string_lossy();
    name.contains(".db") || name.ends_with(".tar")
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files.extend(files_below(&entry.path())),
            kind if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}

/// `most_steps` is how many steps a child reports at most before it is killed.
fn kill_repeatedly(work: Work, most_steps: usize) {
    let rounds = if is_long_run() { 120 } else { 10 };
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut random = fastrand::Rng::with_seed(work as u64);
    let (mut done, mut undone) = (0, 0);
    for round in 0..rounds {
        if matches!(work, Work::Destroy | Work::Archive) {
            let stores = stores(directory);
            for number in 0..THREADS {
                let thread = name(round, number);
                fill(&open(&stores, &thread), &thread);
            }
        }
        let task = Task::new("killed_thread_work", Kind::Virtual, directory, round * 10 + work as u64);
        let lines = run_and_kill(&task, random.usize(0..=most_steps), 1.5 * random.f64());
        // A process that is killed has its leases until they expire.
        std::thread::sleep(LEASE + Duration::from_millis(50));
        let stores = stores(directory);
        let swept = stores.threads().sweep().unwrap();
        assert!(swept.failed.is_empty(), "{:?}", swept.failed);
        let threads: BTreeSet<String> =
            stores.threads().list(None).unwrap().into_iter().map(|record| record.key.thread).collect();
        let acknowledged: BTreeSet<u64> = lines.iter().filter_map(|line| line.parse().ok()).collect();
        match work {
            Work::Create => {
                for number in &acknowledged {
                    let thread = name(round, *number);
                    assert!(threads.contains(&thread), "{thread} is lost");
                    let stead = open(&stores, &thread);
                    for prefix in PREFIXES {
                        assert_eq!(stead.vfs().read(format!("{prefix}/x")).unwrap().bytes, thread.as_bytes());
                    }
                }
                done += acknowledged.len();
                undone += threads.len() - acknowledged.len();
            }
            Work::Renew => {
                // The last step of a thread that was acknowledged, and the last one that was answered.
                let last = |number: u64| {
                    let prefix = format!("{number} ");
                    let answers = lines.iter().filter_map(|line| line.strip_prefix(&prefix));
                    let (mut acknowledged, mut answered) = (None, 0);
                    for answer in answers {
                        let step = answer.split(' ').next().unwrap().parse::<usize>().ok()?;
                        acknowledged = if answer.ends_with("refused") { acknowledged } else { Some(step) };
                        answered = step;
                    }
                    Some((acknowledged?, answered))
                };
                for number in 0..THREADS {
                    let Some((step, answered)) = last(number) else { continue };
                    let stead = open(&stores, &name(round, number));
                    let path = format!("{}/step", PREFIXES[step % PREFIXES.len()]);
                    let found: usize =
                        String::from_utf8(stead.vfs().read(path).unwrap().bytes).unwrap().parse().unwrap();
                    assert!(
                        (step..=answered + 1).step_by(PREFIXES.len()).any(|possible| possible == found),
                        "{found} in the file of thread {number}, {step} acknowledged and {answered} answered"
                    );
                    let state = stead.state().unwrap().get("step").unwrap().unwrap().value;
                    let state: usize = state.parse().unwrap();
                    assert!(
                        state == step || state == answered + 1,
                        "{state} in the State, {step} acknowledged and {answered} answered"
                    );
                    done += 1;
                }
                undone += 1;
            }
            Work::Destroy | Work::Archive => {
                for number in 0..THREADS {
                    let thread = name(round, number);
                    let is_there = threads.contains(&thread);
                    assert!(!(is_there && acknowledged.contains(&number)), "{thread} was destroyed");
                    if is_there {
                        assert_whole(&open(&stores, &thread), &thread);
                        undone += 1;
                    } else {
                        done += 1;
                    }
                    if work == Work::Archive && !is_there {
                        assert_archive_is_whole(&stores, directory, &thread);
                    }
                }
            }
        }
        drop(stores);
        // The last process that released threads has removed its own row, too.
        assert_nothing_is_left(directory);
        if round % 5 == 4 {
            end_all(directory);
        }
    }
    end_all(directory);
    println!("{work:?}, killed {rounds} times: {done} done, {undone} cut short");
    assert!(done > 0 && undone > 0, "{work:?}: {done} done, {undone} cut short");
}

/// Destroys all threads, so that nothing is left of any.
fn end_all(directory: &Path) {
    let stores = stores(directory);
    for record in stores.threads().list(None).unwrap() {
        stores.threads().destroy(&record.key).unwrap().unwrap();
    }
    for (store, report) in stores.verify(&mut |_, _| ()).unwrap() {
        assert_eq!(report.problems, [""; 0], "{store}");
    }
    drop(stores);
    assert_nothing_is_left(directory);
}

/// A thread was destroyed only after its archive was complete.
fn assert_archive_is_whole(stores: &Stores, directory: &Path, thread: &str) {
    use stead::transfer::{CompareBy, ImportSource, NoObserver};
    let file = fs::File::open(archive_of(directory, thread)).unwrap();
    let stead = open(stores, "imported");
    let source = ImportSource::Archive { stream: Box::new(file), name: "thread.tar".to_owned() };
    let totals = stead.import(source, "/rows", CompareBy::default(), &mut NoObserver).unwrap();
    // The fork is in the archive, too: what it shares with its base, and its new file.
    let expected = FILES * PREFIXES.len() as u64 + FILES + 1;
    assert_eq!((totals.files, totals.refused), (expected, 0), "{thread}");
    drop(stead);
    stores.threads().destroy(&key("imported")).unwrap().unwrap();
}

#[test]
fn s14_a_killed_creation_leaves_a_whole_thread_or_none() {
    kill_repeatedly(Work::Create, 9);
}

#[test]
fn s14_a_killed_renewal_loses_nothing_and_its_thread_can_be_swept() {
    kill_repeatedly(Work::Renew, 60);
}

#[test]
fn s14_a_killed_destruction_leaves_a_whole_thread_or_none() {
    kill_repeatedly(Work::Destroy, THREADS as usize - 1);
}

#[test]
fn s14_a_killed_archive_leaves_a_whole_thread_or_a_whole_archive() {
    kill_repeatedly(Work::Archive, THREADS as usize - 1);
}
