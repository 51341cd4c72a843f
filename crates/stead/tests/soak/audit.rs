//! SIGKILL at random points: every call that was answered is in the audit, and the audit verifies.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use stead_core::{Identity, Mount, Vfs, VfsPath, Workspace};
use stead_stores::{ArchiveLookup, Audit, AuditAccess, AuditQuery, Database, DatabaseOptions};

use crate::child::{Task, lines_of, send_line};
use crate::test_stores::{Kind, is_long_run};

const CHILDREN: u64 = 2;

fn database(directory: &Path) -> Database {
    Database::open(directory.join("stead.db"), DatabaseOptions::default()).unwrap()
}

/// Reads, is refused and writes until it is killed, and reports each path once it has its answer.
pub(crate) fn child(task: &Task) {
    let database = database(&task.directory);
    let store = std::sync::Arc::new(database.store(["soak"]).unwrap());
    let audit = Audit::open(&database, &task.directory.join("audit")).unwrap();
    let scope = stead_core::AccessScope::ReadWrite;
    let workspace = Workspace::new(VfsPath::parse("/in").unwrap(), scope, Mount::from(store));
    let vfs = Vfs::builder(Identity::agent("soak")).workspace(workspace).audit(audit).build().unwrap();
    for number in 0_u64.. {
        let name = format!("{}-{number}", task.number);
        let path = match number % 50 {
            0 => {
                let path = format!("/in/{name}");
                vfs.write(&*path, "text").unwrap();
                path
            }
            1 => {
                let path = format!("/out/{name}");
                vfs.read(&*path).unwrap_err();
                path
            }
            _ => {
                let path = format!("/in/{name}");
                vfs.exists(&*path).unwrap();
                path
            }
        };
        send_line(&path);
    }
}

#[test]
fn a_killed_process_loses_no_record_of_what_it_answered() {
    let rounds = if is_long_run() { 500 } else { 15 };
    let directory = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    let mut answered: HashMap<String, u32> = HashMap::new();
    for round in 0..rounds {
        let started: Vec<_> = (0..CHILDREN)
            .map(|child| {
                let number = round * CHILDREN + child;
                Task::new("audit", Kind::Virtual, directory.path(), number).start()
            })
            .collect();
        let delay = Duration::from_millis(random.u64(150..600));
        std::thread::scope(|scope| {
            let mut readers = Vec::new();
            let mut children: Vec<Child> = Vec::new();
            for (child, output) in started {
                children.push(child);
                readers.push(scope.spawn(move || lines_of(output).collect::<Vec<_>>()));
            }
            std::thread::sleep(delay);
            for mut child in children {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            for reader in readers {
                answered.extend(reader.join().unwrap().into_iter().map(|path| (path, 0)));
            }
        });
    }
    assert!(answered.len() as u64 > rounds, "the children did nothing");
    let access = AuditAccess::open(&database(directory.path()), &directory.path().join("audit")).unwrap();
    let visit = &mut |entry: &stead_stores::AuditEntry| {
        if let Some(times) = answered.get_mut(&entry.paths[0]) {
            *times += 1;
        }
        ControlFlow::Continue(())
    };
    access.each(&AuditQuery::default(), visit).unwrap();
    let not_recorded_once: Vec<_> = answered.iter().filter(|(_, times)| **times != 1).collect();
    assert!(
        not_recorded_once.is_empty(),
        "{} of {} answered calls don't have exactly one record: {:?}",
        not_recorded_once.len(),
        answered.len(),
        not_recorded_once[0]
    );
    let verified = access.verify(&ArchiveLookup::default(), &mut |_| ()).unwrap();
    assert_eq!(verified.problems, [""; 0]);
    assert_eq!(verified.unsigned, 0);
    println!("{rounds} rounds of kills: {} answers, each with one record", answered.len());
    // Recovery has run for every killed process, and leaves nothing behind.
    assert_eq!(std::fs::read_dir(directory.path().join("audit/running")).unwrap().count(), 0);
}
