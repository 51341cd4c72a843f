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

use crate::{assert_sound, database, fork, node_path, read, remove, rename, write};

fn query_number(directory: &TempDir, sql: &str) -> i64 {
    let conn = Connection::open(directory.path().join("stead.db")).unwrap();
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// How many layers the deepest volume has below it.
fn depth(directory: &TempDir) -> i64 {
    query_number(
        directory,
        "WITH RECURSIVE layer(volume, depth) AS (
           SELECT id, 0 FROM volume WHERE base IS NULL
           UNION ALL SELECT v.id, depth + 1 FROM layer l JOIN volume v ON v.base = l.volume)
         SELECT max(depth) FROM layer",
    )
}

/// Forks of forks, each of which changes a little of everything.
fn nested_forks(database: &Database, height: usize) -> Vec<VirtualStore> {
    let base = database.store(["base"]).unwrap();
    for file in 0..20 {
        write(&base, &format!("d{}/f{file}", file % 4), "base");
    }
    let mut stores = vec![base];
    for level in 1..=height {
        let top = fork(&stores[level - 1], &level.to_string());
        write(&top, "d0/same", &level.to_string());
        write(&top, &format!("own/{level}"), "own");
        remove(&top, &format!("d1/f{}", 1 + 4 * (level % 5)));
        rename(&top, &format!("d2/f{}", 2 + 4 * (level % 5)), &format!("d2/moved{}", level % 5));
        if level % 5 == 4 {
            // What was moved is moved back, and what was removed is created again.
            for index in 0..5 {
                let (from, to) = (format!("d2/moved{index}"), format!("d2/f{}", 2 + 4 * index));
                if top.stat(&node_path(&from)).is_ok() {
                    rename(&top, &from, &to);
                }
                write(&top, &format!("d1/f{}", 1 + 4 * index), "again");
            }
        }
        stores.push(top);
    }
    stores
}

/// A search by a file name's ending must not skip a whiteout that hides what it looks for.
#[test]
fn a_whiteout_hides_a_directory_of_the_base_from_a_search_by_name_too() {
    let (database, _directory) = database();
    let base = database.store(["base"]).unwrap();
    write(&base, "d/x.md", "base");
    write(&base, "e/y.md", "base");
    let fork = fork(&base, "fork");
    remove(&fork, "d/x.md");
    remove(&fork, "d");
    write(&fork, "d", "a file");
    for store in [&fork, &self::fork(&fork, "again")] {
        let mut paths = Vec::new();
        let include = Some(PathGlobs::new(["**/*.md"], Anchor::Start).unwrap());
        store
            .walk(&NodePath::root(), &WalkOptions { include, ..WalkOptions::default() }, &mut |entry| {
                paths.push(entry.path.to_string());
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(paths, ["e/y.md"]);
    }
}

#[test]
fn forks_of_forks_have_few_layers_and_show_the_same() {
    let (database, directory) = database();
    let tower = nested_forks(&database, 24);
    assert!(depth(&directory) <= 5, "{}", depth(&directory));
    let trees: Vec<_> = tower.iter().map(|level| snapshot_of(level)).collect();
    for (level, store) in tower.iter().enumerate().skip(1) {
        assert_eq!(read(store, "d0/same").unwrap(), level.to_string());
        let new_fork = fork(store, &format!("again {level}"));
        assert_eq!(snapshot_of(&new_fork), trees[level], "floor {level}");
        let (ours, theirs) =
            (new_fork.stat(&node_path("d0/f0")).unwrap(), tower[0].stat(&node_path("d0/f0")).unwrap());
        assert_eq!(ours, theirs, "floor {level}");
    }
    assert_sound(&tower[0]);
}

#[test]
fn entries_of_the_base_are_never_copied() {
    let (database, directory) = database();
    let base = database.store(["base"]).unwrap();
    for number in 0..500 {
        write(&base, &format!("many/{number}"), "base");
    }
    let mut top = base;
    for level in 0..10 {
        top = fork(&top, &level.to_string());
        write(&top, "own", &level.to_string());
    }
    // Each of them has its own file, and the root, whose times changed; some have it twice, after layers were merged.
    let count_entries_of_forks =
        "SELECT count(*) FROM entry WHERE volume IN (SELECT id FROM volume WHERE base IS NOT NULL)";
    assert!(
        query_number(&directory, count_entries_of_forks) <= 30,
        "{}",
        query_number(&directory, count_entries_of_forks)
    );
}

#[test]
fn a_fork_of_an_unchanged_fork_gets_the_same_base() {
    let (database, directory) = database();
    let base = database.store(["base"]).unwrap();
    write(&base, "f", "1");
    let mut top = base;
    for level in 0..10 {
        top = fork(&top, &level.to_string());
    }
    assert_eq!(depth(&directory), 1);
    assert_eq!(read(&top, "f").unwrap(), "1");
}

#[test]
fn merged_layers_are_removed_with_the_last_fork_on_them() {
    let (database, directory) = database();
    let tower = nested_forks(&database, 12);
    for store in tower.iter().skip(1).rev() {
        store.destroy().unwrap();
    }
    assert_eq!(query_number(&directory, "SELECT count(*) FROM volume"), 1);
    assert_eq!(query_number(&directory, "SELECT count(DISTINCT volume) FROM entry"), 1);
    assert_sound(&tower[0]);
}
