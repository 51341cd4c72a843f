//! Forks of a host directory under the behaviour suite of all Stores, in several shapes.

use std::sync::Arc;

use stead_core::testkit::Fixture;
use stead_core::{Store, store_suite};

use crate::{Site, clear, fork_of, rename, write};

/// A fork, and the directory that it was made of.
struct ForkFixture(Arc<dyn Store>, Site);

impl Fixture for ForkFixture {
    fn store(&self) -> Arc<dyn Store> {
        let ForkFixture(store, _site) = self;
        Arc::clone(store)
    }
}

/// A directory with something at every name that the suite uses, so that forks have to hide it everywhere.
fn filled_site() -> Site {
    let site = Site::new();
    for name in ["a", "b", "c", "d", "f", "x", "file", "dir", "sub", "one", "two", "text", "link", "moved"] {
        site.put(&format!("{name}/{name}/a"), name);
        site.put(&format!("{name}/t"), name);
    }
    for name in ["e", "g", "y", "empty", "new", "old", "from", "to", "log", "count", "shared", "a.txt"] {
        site.put(name, name);
    }
    site
}

fn fork_of_an_empty_directory() -> ForkFixture {
    let site = Site::new();
    ForkFixture(site.fork("one"), site)
}

fn fork_that_hides_a_directory() -> ForkFixture {
    let site = filled_site();
    let fork = site.fork("one");
    clear(&*fork);
    ForkFixture(fork, site)
}

fn fork_of_a_fork() -> ForkFixture {
    let site = filled_site();
    let first = site.fork("one");
    rename(&*first, "a", "z");
    rename(&*first, "b", "a");
    write(&*first, "d/e/f", "first");
    let second = fork_of(&first, "two");
    clear(&*second);
    ForkFixture(second, site)
}

fn fork_of_many_forks() -> ForkFixture {
    let site = filled_site();
    let mut top = site.fork("base");
    for layer in 0..6 {
        top = fork_of(&top, &layer.to_string());
        write(&*top, &format!("x/{layer}"), "layer");
        rename(&*top, &format!("x/{layer}"), &format!("a{layer}"));
    }
    clear(&*top);
    ForkFixture(fork_of(&top, "top"), site)
}

store_suite!(on_a_fork_of_an_empty_directory, fork_of_an_empty_directory);
store_suite!(on_a_fork_that_hides_a_directory, fork_that_hides_a_directory);
store_suite!(on_a_fork_of_a_fork, fork_of_a_fork);
store_suite!(on_a_deep_fork, fork_of_many_forks);
