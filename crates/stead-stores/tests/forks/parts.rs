//! Forks with parts: the volumes of nested Workspaces, which exist with their fork and never without it.

use std::time::Duration;

use stead_core::store::{Fork, Maintenance};
use stead_core::{AccessScope, Clock, OperationId, Store, StoreError, SystemClock, Timestamp, VfsPath};
use stead_stores::database::GcOptions;
use stead_stores::{Database, VirtualStore};

use crate::sharing::{fork_for, fork_record};
use crate::{assert_sound, database, read, write};

/// The record of a part of an agent's fork.
fn part_record(owner: &str, name: &str, place: &str, made_by: OperationId) -> Fork {
    let place = VfsPath::parse(place).unwrap();
    let made_by = Some(made_by);
    Fork { place, scope: AccessScope::ReadOnly, made_by, ..fork_record(owner, name) }
}

fn made_by() -> OperationId {
    OperationId::fresh(SystemClock.now())
}

fn bases(database: &Database) -> [VirtualStore; 2] {
    ["base", "nested"].map(|name| {
        let store = database.store([name]).unwrap();
        write(&store, "f", name);
        store
    })
}

/// How many volumes are forks.
fn fork_volumes(directory: &tempfile::TempDir) -> i64 {
    let conn = rusqlite::Connection::open(directory.path().join("stead.db")).unwrap();
    conn.query_row("SELECT count(*) FROM volume WHERE base IS NOT NULL", [], |row| row.get(0)).unwrap()
}

fn gc(database: &Database, now: Timestamp) {
    database.gc(GcOptions::default(), now, &mut |_| ()).unwrap();
}

#[test]
fn g1_the_parts_of_a_fork_are_stored_with_it_and_removed_with_it() {
    let (database, directory) = database();
    let [base, nested] = bases(&database);
    let made_by = made_by();
    let part = fork_for(&nested, &part_record("ann", "draft", "/lib", made_by)).unwrap();
    // Until the fork itself is made, no one sees it.
    assert!(database.fork_records("ann").unwrap().is_empty());
    assert!(database.fork_volumes().unwrap().is_empty());
    let whole = Fork { made_by: Some(made_by), ..fork_record("ann", "draft") };
    let fork = fork_for(&base, &whole).unwrap();
    write(&*part, "f", "changed");
    let record = database.fork_records("ann").unwrap().remove(0);
    let parts: Vec<_> = record.fork.parts.iter().map(|part| (part.place.as_str(), part.scope)).collect();
    assert_eq!(parts, [("/lib", AccessScope::ReadOnly)]);
    assert_eq!(record.parts[0].fork, part_record("ann", "draft", "/lib", made_by));
    let opened = database.open_fork(&record.parts[0]).unwrap();
    assert_eq!(
        (read(&opened, "f").unwrap(), read(&nested, "f").unwrap()),
        ("changed".into(), "nested".into())
    );
    assert_eq!(opened.id(), Database::store_id_of(database.id(), &record.parts[0]).unwrap());
    assert_sound(&base);
    // What a fork of it has of its part stays until that fork is removed too.
    let second = OperationId::fresh(SystemClock.now());
    let second_part = fork_for(&opened, &part_record("ann", "second", "/lib", second)).unwrap();
    fork_for(&base, &Fork { made_by: Some(second), ..fork_record("ann", "second") }).unwrap();
    fork.require_maintenance().unwrap().destroy().unwrap();
    assert!(read(&*part, "f").is_err() && read(&opened, "f").is_err(), "its Stores show nothing any more");
    assert_eq!(read(&*second_part, "f").unwrap(), "changed");
    assert_sound(&base);
    database.fork_store("ann", &"second".parse().unwrap()).unwrap().destroy().unwrap();
    assert_eq!(fork_volumes(&directory), 0);
    assert!(read(&*part, "f").is_err(), "its Store shows nothing any more");
    assert!(matches!(database.open_fork(&record.parts[0]), Err(StoreError::NotFound)));
    assert_sound(&base);
}

#[test]
fn g1_what_an_interrupted_process_left_of_parts_is_never_part_of_another_fork() {
    let (database, directory) = database();
    let [base, nested] = bases(&database);
    drop(fork_for(&nested, &part_record("ann", "draft", "/left", made_by())).unwrap());
    drop(fork_for(&nested, &part_record("bob", "draft", "/other", made_by())).unwrap());
    let made_by = made_by();
    drop(fork_for(&nested, &part_record("ann", "draft", "/lib", made_by)).unwrap());
    let whole = Fork { made_by: Some(made_by), ..fork_record("ann", "draft") };
    let fork = fork_for(&base, &whole).unwrap();
    let record = database.fork_records("ann").unwrap().remove(0);
    assert_eq!(record.parts.iter().map(|part| part.fork.place.as_str()).collect::<Vec<_>>(), ["/lib"]);
    // The other part of this name is gone, and the one of another owner isn't.
    assert_eq!(fork_volumes(&directory), 3);
    // A name that is taken is refused at the first part.
    let taken =
        fork_for(&nested, &part_record("ann", "draft", "/more", OperationId::fresh(SystemClock.now())));
    assert!(matches!(taken, Err(StoreError::AlreadyExists)), "{taken:?}");
    fork.require_maintenance().unwrap().destroy().unwrap();
    assert_eq!(fork_volumes(&directory), 1);
    assert_sound(&base);
}

#[test]
fn g1_maintenance_removes_parts_whose_fork_was_never_made() {
    let (database, directory) = database();
    let [base, nested] = bases(&database);
    let now = SystemClock.now();
    let made_by = OperationId::fresh(now);
    for (owner, made_by) in [("ann", made_by), ("bob", OperationId::fresh(now))] {
        let part = Fork { created: now, ..part_record(owner, "draft", "/lib", made_by) };
        drop(fork_for(&nested, &part).unwrap());
    }
    let whole = Fork { made_by: Some(made_by), created: now, ..fork_record("ann", "draft") };
    drop(fork_for(&base, &whole).unwrap());
    let later = |days: u64| Timestamp(now.0 + Duration::from_secs(days * 24 * 3600).as_nanos() as i64);
    gc(&database, later(6));
    assert_eq!(fork_volumes(&directory), 3, "a process may still make the fork");
    gc(&database, later(8));
    assert_eq!(fork_volumes(&directory), 2, "only the part without a fork is removed");
    assert_eq!(database.fork_records("ann").unwrap()[0].parts.len(), 1);
    assert_sound(&base);
}

#[test]
fn g1_one_of_many_concurrent_forks_with_parts_and_one_name_succeeds_with_its_own_parts() {
    let (database, directory) = database();
    let [base, nested] = bases(&database);
    let made = std::thread::scope(|scope| {
        let makers: Vec<_> = (0..8)
            .map(|number| {
                let (base, nested) = (base.clone(), nested.clone());
                scope.spawn(move || {
                    let made_by = made_by();
                    let places = [format!("/part{number}"), format!("/part{number}/deeper")];
                    let parts = places.each_ref().map(|place| {
                        fork_for(&nested, &part_record("ann", "draft", place, made_by)).map(drop)
                    });
                    let whole = Fork { made_by: Some(made_by), ..fork_record("ann", "draft") };
                    let is_made = parts.iter().all(Result::is_ok) && fork_for(&base, &whole).is_ok();
                    is_made.then_some(places)
                })
            })
            .collect();
        makers.into_iter().filter_map(|maker| maker.join().unwrap()).collect::<Vec<_>>()
    });
    let [places] = &made[..] else { panic!("{made:?}") };
    let record = database.fork_records("ann").unwrap().remove(0);
    let stored: Vec<_> = record.parts.iter().map(|part| part.fork.place.to_string()).collect();
    assert_eq!(stored, *places);
    // Those who came too late left parts at most until the fork is discarded.
    database.open_fork(&record).unwrap().destroy().unwrap();
    assert_eq!(fork_volumes(&directory), 0);
    assert_sound(&base);
}
