//! The volumes of States: one for each stead that has a State.
//!
//! The namespace of such a volume is a JSON object, so no configuration can name it, and no Virtual Store shows it.

use serde::{Deserialize, Serialize};
use stead_core::StoreResult;
use stead_core::store::{DatabaseId, StoreId};

use crate::database::error::DatabaseError;
use crate::database::{Database, volume_store_id};
use crate::virtual_store::VirtualStore;

/// The beginning of the namespace of every State's volume.
const NAMESPACE_START: &str = "{\"state\":";

/// The stead that a State belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateOwner {
    /// The agent.
    pub agent: String,
    /// The thread, if the stead is that of a thread.
    pub thread: Option<String>,
}

/// The namespace of a State's volume: `{"state":["AGENT"]}` or `{"state":["AGENT","THREAD"]}`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateNamespace {
    state: Vec<String>,
}

impl StateOwner {
    fn namespace(&self) -> String {
        let state = [&self.agent].into_iter().chain(&self.thread).cloned().collect();
        serde_json::to_string(&StateNamespace { state }).expect("texts can be written as JSON")
    }

    fn of_namespace(namespace: &str) -> Option<Self> {
        let StateNamespace { state } = serde_json::from_str(namespace).ok()?;
        let mut parts = state.into_iter();
        let owner = StateOwner { agent: parts.next()?, thread: parts.next() };
        parts.next().is_none().then_some(owner)
    }

    /// The id of the Store of this State in a database, neither of which need exist yet.
    pub fn store_id_in(&self, database: DatabaseId) -> StoreId {
        volume_store_id(database, &self.namespace())
    }
}

impl Database {
    /// The Store of a stead's State. Its volume is created at the first use.
    pub fn state_store(&self, owner: &StateOwner) -> StoreResult<VirtualStore> {
        self.volume(owner.namespace())
    }

    /// The steads that have a State in this database, sorted.
    pub fn state_owners(&self) -> StoreResult<Vec<StateOwner>> {
        let reader = self.0.reader()?;
        let query = || -> Result<Vec<String>, DatabaseError> {
            let mut statement = reader
                .prepare_cached("SELECT namespace FROM volume WHERE substr(namespace, 1, length(?1)) = ?1")?;
            let rows = statement.query_map([NAMESPACE_START], |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        };
        let mut owners: Vec<_> = query()?.iter().filter_map(|text| StateOwner::of_namespace(text)).collect();
        owners.sort();
        Ok(owners)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s18_no_configuration_can_name_the_volume_of_a_state() {
        let database = Database::in_memory();
        let owner = |agent: &str, thread: Option<&str>| StateOwner {
            agent: agent.to_owned(),
            thread: thread.map(str::to_owned),
        };
        let owners = [owner("a", None), owner("a", Some("b")), owner("a/b", None), owner("[\"a\"]", None)];
        let mut ids: Vec<_> = owners.iter().map(|owner| owner.store_id_in(database.id())).collect();
        for (owner, id) in owners.iter().zip(&ids) {
            use stead_core::Store;
            assert_eq!(database.state_store(owner).unwrap().id(), *id);
        }
        for namespace in [&["state"][..], &["a"], &["state", "a"], &["{\"state\":[\"a\"]}"]] {
            ids.push(VirtualStore::id_in(database.id(), namespace).unwrap());
            database.store(namespace).unwrap();
        }
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        let mut sorted = owners.to_vec();
        sorted.sort();
        assert_eq!(database.state_owners().unwrap(), sorted);
    }
}
