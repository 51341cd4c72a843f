//! A process is killed at a random moment while it makes, changes and discards forks of a directory. Everything that it has
//! acknowledged is there, and what it was doing is done whole or not at all. The directory is unchanged in any case.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a process has to be killed")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use stead_core::Store;
use stead_core::store::Forks;
use stead_core::testkit::{TreeSnapshot, snapshot_of};
use stead_stores::OverlayStore;

use crate::{Site, essence, fork_record, open_database, open_directory, remove, rename, write};

const TASK: &str = "STEAD_KILLED_FORK_TASK";
/// How many files the directory has that the process removes as a whole.
const REMOVED_FILES: usize = 20;
/// What the process does to each fork, in this order.
const STEPS: [&str; 5] = ["fork", "write", "rename", "remove", "discard"];

/// The process that is killed. Without a task, it has nothing to do.
#[test]
fn the_process_that_makes_forks() {
    let Ok(temp) = std::env::var(TASK) else { return };
    let database = open_database(Path::new(&temp));
    let lower = Arc::new(open_directory(Path::new(&temp), &database));
    let mut output = std::io::stdout();
    for number in 0_u32.. {
        let mut acknowledge = |step: &str| {
            writeln!(output, "\nstep {number} {step}").unwrap();
            output.flush().unwrap();
        };
        let base: Arc<dyn Store> = Arc::clone(&lower) as _;
        let fork = lower.fork(base, &fork_record(&format!("f{number}"))).unwrap();
        acknowledge("fork");
        write(&*fork, "d/file", "fork");
        acknowledge("write");
        rename(&*fork, "d", "moved");
        acknowledge("rename");
        remove(&*fork, "removed");
        acknowledge("remove");
        fork.require_maintenance().unwrap().destroy().unwrap();
        acknowledge("discard");
    }
}

/// The tree of a fork after so many steps; `None` if there is no fork then.
fn expected_tree(base: &TreeSnapshot, steps: usize) -> Option<TreeSnapshot> {
    let mut tree = base.clone();
    if steps == 0 || steps == STEPS.len() {
        return None;
    }
    if steps >= 2 {
        let file = tree.get_mut(&b"d/file"[..]).unwrap();
        (file.size, file.content_hash) = (4, Some(blake3::hash(b"fork")));
    }
    if steps >= 3 {
        let renamed = |path: Vec<u8>| match path.strip_prefix(b"d") {
            Some(rest) if rest.is_empty() || rest.starts_with(b"/") => [b"moved", rest].concat(),
            _ => path,
        };
        tree = tree.into_iter().map(|(path, entry)| (renamed(path), entry)).collect();
    }
    if steps >= 4 {
        tree.retain(|path, _| !path.starts_with(b"removed"));
    }
    Some(tree)
}

#[test]
fn g4_a_fork_of_a_directory_survives_a_kill_at_any_moment() {
    let rounds = if std::env::var_os("STEAD_TEST_LONG").is_some() { 500 } else { 40 };
    let site = Site::new();
    site.put("d/file", "the base");
    site.put("d/live", "live");
    for number in 0..REMOVED_FILES {
        site.put(&format!("removed/{}/{number}", number % 3), &number.to_string());
    }
    let (before, base_tree) = (site.host_tree(), snapshot_of(&*site.store));
    let mut killed_after = [0; STEPS.len()];
    for round in 0..rounds {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "killed::the_process_that_makes_forks", "--nocapture"]);
        let mut child = command.env(TASK, site.temp.path()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut steps = lines.filter_map(|line| {
            let line = line.unwrap();
            let (number, step) = line.strip_prefix("step ")?.split_once(' ')?;
            Some((number.parse::<u32>().unwrap(), STEPS.iter().position(|name| *name == step).unwrap() + 1))
        });
        let first = steps.next().expect("the process makes a fork");
        std::thread::sleep(Duration::from_micros(round * 1_777 % 40_000));
        child.kill().unwrap();
        let last = steps.last().unwrap_or(first);
        child.wait().unwrap();
        check(&site, &base_tree, last);
        killed_after[last.1 - 1] += 1;
        assert_eq!(essence(&site.host_tree()), essence(&before), "the base has changed");
    }
    println!("killed after {STEPS:?}: {killed_after:?}");
    assert_eq!(["overlay", "taken_name", "fork"].map(|table| site.count(table)), [0; 3]);
}

/// Checks the fork after the step that was acknowledged last, and discards it.
fn check(site: &Site, base: &TreeSnapshot, (number, steps): (u32, usize)) {
    let database = open_database(site.temp.path());
    assert_eq!(database.verify(&mut |_| ()).unwrap().problems, Vec::<String>::new());
    let lower = Arc::new(open_directory(site.temp.path(), &database));
    // After the last step of one fork comes the first one of the next.
    let (number, steps) = if steps == STEPS.len() { (number + 1, 0) } else { (number, steps) };
    let name = format!("f{number}");
    let records = database.fork_records("coder").unwrap();
    assert!(records.iter().all(|record| record.fork.name.as_str() == name), "{records:?}");
    let found = records.first().map(|record| {
        OverlayStore::open(database.open_fork(record).unwrap(), Arc::clone(&lower) as _).unwrap()
    });
    let tree = found.as_ref().map(|fork| snapshot_of(fork));
    let allowed = [steps, steps + 1].map(|steps| expected_tree(base, steps));
    assert!(allowed.contains(&tree), "after step {steps}: {tree:?}");
    if let Some(fork) = found {
        fork.maintenance().unwrap().destroy().unwrap();
    }
}
