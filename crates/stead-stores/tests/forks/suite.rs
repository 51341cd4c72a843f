//! Forks under the behaviour suite of all Stores: they are Stores like any other.

use std::sync::Arc;

use stead_core::store_suite;
use stead_stores::{Database, VirtualStore};
use tempfile::TempDir;

use crate::{clear, database, fork, rename, write};

/// A base with something at every name that the suite uses, so that forks have to hide it everywhere.
fn filled_base(database: &Database) -> VirtualStore {
    let base = database.store(["base"]).unwrap();
    for name in ["a", "b", "c", "d", "f", "x", "file", "dir", "sub", "one", "two", "text", "link", "moved"] {
        write(&base, &format!("{name}/{name}/a"), name);
        write(&base, &format!("{name}/t"), name);
    }
    for name in ["e", "g", "y", "empty", "new", "old", "from", "to", "log", "count", "shared", "a.txt"] {
        write(&base, name, name);
    }
    base
}

fn fork_of_an_empty_base() -> (Arc<VirtualStore>, TempDir) {
    let (database, directory) = database();
    (Arc::new(fork(&database.store(["base"]).unwrap(), "one")), directory)
}

fn fork_that_hides_its_base() -> (Arc<VirtualStore>, TempDir) {
    let (database, directory) = database();
    let fork = fork(&filled_base(&database), "one");
    clear(&fork);
    (Arc::new(fork), directory)
}

fn fork_of_a_fork() -> (Arc<VirtualStore>, TempDir) {
    let (database, directory) = database();
    let first = fork(&filled_base(&database), "one");
    rename(&first, "a", "z");
    rename(&first, "b", "a");
    write(&first, "d/e/f", "first");
    let second = fork(&first, "two");
    clear(&second);
    (Arc::new(second), directory)
}

fn fork_of_merged_layers() -> (Arc<VirtualStore>, TempDir) {
    let (database, directory) = database();
    let mut top = filled_base(&database);
    for layer in 0..6 {
        top = fork(&top, &layer.to_string());
        write(&top, &format!("x/{layer}"), "layer");
        rename(&top, &format!("x/{layer}"), &format!("a{layer}"));
    }
    clear(&top);
    (Arc::new(fork(&top, "top")), directory)
}

store_suite!(on_a_fork, fork_of_an_empty_base);
store_suite!(on_a_fork_that_hides, fork_that_hides_its_base);
store_suite!(on_a_fork_of_a_fork, fork_of_a_fork);
store_suite!(on_a_deep_fork, fork_of_merged_layers);
