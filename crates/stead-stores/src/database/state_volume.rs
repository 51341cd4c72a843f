//! The volumes of States: one for each stead that has a State.
//!
//! The namespace of such a volume is a JSON object, so no configuration can name it, and no Virtual Store shows it.

use std::fmt;

use serde::{Deserialize, Serialize};
use stead_core::store::{DatabaseId, StoreId};
use stead_core::{StoreError, StoreResult};

use crate::database::error::DatabaseError;
use crate::database::{Database, volume_store_id};
use crate::threads::ThreadKey;
use crate::virtual_store::VirtualStore;

/// The beginning of the namespace of every State's volume.
const NAMESPACE_START: &str = "{\"state\":";

/// The stead that a State belongs to: an agent's, or that of one of its threads.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateOwner {
    agent: String,
    thread: Option<ThreadPart>,
}

/// A thread, by its name and by its number, which is never used again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct ThreadPart {
    name: String,
    id: i64,
}

/// The namespace of a State's volume: `{"state":["AGENT"]}` or `{"state":["AGENT","THREAD"],"id":N}`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateNamespace {
    state: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    id: Option<i64>,
}

impl StateOwner {
    /// The stead of an agent.
    pub fn agent(agent: impl Into<String>) -> Self {
        StateOwner { agent: agent.into(), thread: None }
    }

    /// The stead of the thread with this number.
    pub fn thread(key: &ThreadKey, id: i64) -> Self {
        StateOwner { agent: key.agent.clone(), thread: Some(ThreadPart { name: key.thread.clone(), id }) }
    }

    pub(crate) fn namespace(&self) -> String {
        let (thread, id) = self.thread.as_ref().map(|thread| (&thread.name, thread.id)).unzip();
        let state = [&self.agent].into_iter().chain(thread).cloned().collect();
        serde_json::to_string(&StateNamespace { state, id }).expect("texts can be written as JSON")
    }

    fn of_namespace(namespace: &str) -> Option<Self> {
        let StateNamespace { state, id } = serde_json::from_str(namespace).ok()?;
        let mut parts = state.into_iter();
        let agent = parts.next()?;
        let thread = match (parts.next(), id) {
            (Some(name), Some(id)) => Some(ThreadPart { name, id }),
            (None, None) => None,
            _ => return None,
        };
        parts.next().is_none().then_some(StateOwner { agent, thread })
    }

    /// The id of the Store of this State in a database, neither of which need exist yet.
    pub fn store_id_in(&self, database: DatabaseId) -> StoreId {
        volume_store_id(database, &self.namespace())
    }
}

/// Whether a volume of this namespace is that of a State.
pub(crate) fn is_state_namespace(namespace: &str) -> bool {
    namespace.starts_with(NAMESPACE_START)
}

impl fmt::Display for StateOwner {
    /// The id of the stead: `AGENT` or `AGENT/THREAD`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.agent)?;
        self.thread.as_ref().map_or(Ok(()), |thread| write!(f, "/{}", thread.name))
    }
}

impl Database {
    /// The Store of a stead's State. The volume of an agent's State is created at the first use. That of a thread's State is
    /// created by [`crate::HeldThread::state_volume`], and is [`StoreError::NotFound`] before and after the thread's life.
    pub fn state_store(&self, owner: &StateOwner) -> StoreResult<VirtualStore> {
        let namespace = owner.namespace();
        if owner.thread.is_none() {
            return self.volume(namespace);
        }
        // Only looked up: a volume that is made after the thread has ended would belong to no thread.
        self.existing_volume(&namespace)?.ok_or(StoreError::NotFound)
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
        let owners = ["a", "a/b", "[\"a\"]"].map(StateOwner::agent);
        let of_thread = StateOwner::thread(&ThreadKey::new("a", "b"), 7);
        assert_eq!(
            database.state_store(&of_thread).unwrap_err().to_string(),
            StoreError::NotFound.to_string()
        );
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
