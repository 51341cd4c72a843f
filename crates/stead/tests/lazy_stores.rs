//! Runs the behaviour suite of all Stores for Stores that a configuration opens on first use, behind a wrapper.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use stead::{Config, Store, Stores};
use stead_core::store_suite;
use stead_core::testkit::Fixture;
use tempfile::TempDir;

/// A Store, and the directory that it is in.
struct Configured {
    store: Arc<dyn Store>,
    _directory: TempDir,
}

impl Fixture for Configured {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }
}

fn configured(store: &str) -> Configured {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("project")).unwrap();
    // Durability matters for power cuts only, and no test here has one.
    let text = format!("[database]\ndurability = \"fast\"\n[audit]\nenabled = false\n[stores.s]\n{store}\n");
    let config = Config::parse(&text, &directory.path().join("stead.toml")).unwrap();
    let store = Stores::of(&config).get("s").unwrap();
    Configured { store, _directory: directory }
}

store_suite!(a_database_that_is_opened_late, || configured("kind = \"virtual\""));
store_suite!(a_directory_that_is_opened_late, || configured("kind = \"physical\"\npath = \"project\""));
