//! How many layers a fork has below it, and that they don't show.

use std::ops::ControlFlow;

use rusqlite::Connection;
use stead_core::Store;
use stead_core::glob::{Anchor, PathGlobs};
use stead_core::search::WalkOptions;
use stead_core::store::{Maintenance, NodePath};
use stead_core::testkit::snapshot_of;
use stead_stores::{Database, VirtualStore};
use tempfile::TempDir;

use crate::{database, fork, place, read, remove, rename, sound, write};

fn number(directory: &TempDir, sql: &str) -> i64 {
    let conn = Connection::open(directory.path().join("stead.db")).unwrap();
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// How many layers the deepest volume has below it.
fn depth(directory: &TempDir) -> i64 {
    number(
        directory,
        "WITH RECURSIVE layer(volume, depth) AS (
           SELECT id, 0 FROM volume WHERE base IS NULL
           UNION ALL SELECT v.id, depth + 1 FROM layer l JOIN volume v ON v.base = l.volume)
         SELECT max(depth) FROM layer",
    )
}

/// Forks of forks, each of which changes a little of everything.
fn tower(database: &Database, height: usize) -> Vec<VirtualStore> {
    let base = database.store(["base"]).unwrap();
    for number in 0..20 {
        write(&base, &format!("d{}/f{number}", number % 4), "base");
    }
    let mut tower = vec![base];
    for floor in 1..=height {
        let top = fork(&tower[floor - 1], &floor.to_string());
        write(&top, "d0/same", &floor.to_string());
        write(&top, &format!("own/{floor}"), "own");
        remove(&top, &format!("d1/f{}", 1 + 4 * (floor % 5)));
        rename(&top, &format!("d2/f{}", 2 + 4 * (floor % 5)), &format!("d2/moved{}", floor % 5));
        if floor % 5 == 4 {
            // What was moved is moved back, and what was removed is created again.
            for left in 0..5 {
                let (from, to) = (format!("d2/moved{left}"), format!("d2/f{}", 2 + 4 * left));
                if top.stat(&place(&from)).is_ok() {
                    rename(&top, &from, &to);
                }
                write(&top, &format!("d1/f{}", 1 + 4 * left), "again");
            }
        }
        tower.push(top);
    }
    tower
}

/// A search by a file name's ending must not skip a whiteout that hides what it looks for.
#[test]
fn what_hides_a_directory_of_the_base_hides_it_from_a_search_by_name_too() {
    let (database, _directory) = database();
    let base = database.store(["base"]).unwrap();
    write(&base, "d/x.md", "base");
    write(&base, "e/y.md", "base");
    let fork = fork(&base, "fork");
    remove(&fork, "d/x.md");
    remove(&fork, "d");
    write(&fork, "d", "a file");
    for top in [&fork, &self::fork(&fork, "again")] {
        let mut found = Vec::new();
        let only = Some(PathGlobs::new(["**/*.md"], Anchor::Start).unwrap());
        top.walk(&NodePath::root(), &WalkOptions { include: only, ..WalkOptions::default() }, &mut |entry| {
            found.push(entry.path.to_string());
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(found, ["e/y.md"]);
    }
}

#[test]
fn forks_of_forks_stand_on_few_layers_and_show_the_same() {
    let (database, directory) = database();
    let tower = tower(&database, 24);
    assert!(depth(&directory) <= 5, "{}", depth(&directory));
    let shown: Vec<_> = tower.iter().map(|floor| snapshot_of(floor)).collect();
    for (floor, store) in tower.iter().enumerate().skip(1) {
        assert_eq!(read(store, "d0/same").unwrap(), floor.to_string());
        let again = fork(store, &format!("again {floor}"));
        assert_eq!(snapshot_of(&again), shown[floor], "floor {floor}");
        let (ours, theirs) = (again.stat(&place("d0/f0")).unwrap(), tower[0].stat(&place("d0/f0")).unwrap());
        assert_eq!(ours, theirs, "floor {floor}");
    }
    sound(&tower[0]);
}

#[test]
fn what_the_base_has_is_never_copied() {
    let (database, directory) = database();
    let base = database.store(["base"]).unwrap();
    for number in 0..500 {
        write(&base, &format!("many/{number}"), "base");
    }
    let mut top = base;
    for floor in 0..10 {
        top = fork(&top, &floor.to_string());
        write(&top, "own", &floor.to_string());
    }
    // Each of them has its own file, and the root, whose times changed; some have it twice, after layers were merged.
    let of_forks =
        "SELECT count(*) FROM entry WHERE volume IN (SELECT id FROM volume WHERE base IS NOT NULL)";
    assert!(number(&directory, of_forks) <= 30, "{}", number(&directory, of_forks));
}

#[test]
fn a_fork_of_an_unchanged_fork_takes_its_base() {
    let (database, directory) = database();
    let base = database.store(["base"]).unwrap();
    write(&base, "f", "1");
    let mut top = base;
    for floor in 0..10 {
        top = fork(&top, &floor.to_string());
    }
    assert_eq!(depth(&directory), 1);
    assert_eq!(read(&top, "f").unwrap(), "1");
}

#[test]
fn layers_that_were_put_together_go_with_the_last_fork_on_them() {
    let (database, directory) = database();
    let tower = tower(&database, 12);
    for store in tower.iter().skip(1).rev() {
        store.destroy().unwrap();
    }
    assert_eq!(number(&directory, "SELECT count(*) FROM volume"), 1);
    assert_eq!(number(&directory, "SELECT count(DISTINCT volume) FROM entry"), 1);
    sound(&tower[0]);
}
