//! Two Physical Stores of one directory. They are one Store, so they can't keep different amounts of displaced content.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use stead_stores::DisplacedRetention;

use super::host_check::{HostCheck, HostCheckKind};
use super::workspace_location::keys_of_directories;
use super::{Config, ConfigDiagnostic, StoreConfig};

/// A Physical Store, with the position of its `path` in the file.
struct StoreDirectory<'c> {
    name: &'c str,
    directory: &'c Path,
    displaced_retention: Option<DisplacedRetention>,
    line: usize,
    column: usize,
}

impl Config {
    /// The Stores that have the directory of an earlier one but another `keep`, by line. Touches the host only if there
    /// are Stores with different `keep`.
    pub(super) fn contradicting_stores(&self) -> Vec<ConfigDiagnostic> {
        let stores: Vec<_> =
            self.host_checks.iter().filter_map(|check| self.store_directory_at(check)).collect();
        let retentions: BTreeSet<_> = stores.iter().map(|store| store.displaced_retention).collect();
        if retentions.len() < 2 {
            return Vec::new();
        }
        let mut by_key: HashMap<_, &StoreDirectory<'_>> = HashMap::new();
        let mut problems = Vec::new();
        for (store, keys) in
            stores.iter().zip(keys_of_directories(stores.iter().map(|store| store.directory)))
        {
            let known = keys.iter().find_map(|key| by_key.get(key).copied());
            if let Some(first) = known.filter(|first| first.displaced_retention != store.displaced_retention)
            {
                problems.push(store.contradiction(first));
            }
            for key in keys {
                by_key.entry(key).or_insert(store);
            }
        }
        problems
    }

    fn store_directory_at<'c>(&'c self, check: &'c HostCheck) -> Option<StoreDirectory<'c>> {
        let HostCheckKind::Directory { store: name } = &check.kind else { return None };
        let Some(StoreConfig::Physical { path, displaced_retention }) = self.stores.get(name) else {
            return None;
        };
        let (displaced_retention, line, column) = (*displaced_retention, check.line, check.column);
        Some(StoreDirectory { name, directory: path, displaced_retention, line, column })
    }
}

impl StoreDirectory<'_> {
    fn contradiction(&self, first: &StoreDirectory<'_>) -> ConfigDiagnostic {
        let message = format!(
            "the Store `{}` has the same directory as the Store `{}` in line {}, but another `keep`; give both the same \
             `keep`, or remove one of them",
            self.name, first.name, first.line
        );
        ConfigDiagnostic::at((self.line, self.column), &message)
    }
}
