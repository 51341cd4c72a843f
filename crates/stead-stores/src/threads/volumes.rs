//! The volumes of a thread: trees with namespaces that no configuration can name.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use stead_core::store::StoreId;
use stead_core::vfs::ThreadLease;
use stead_core::{StoreError, StoreResult};

use crate::database::error::{Result, corrupt};
use crate::database::group_commit::CommitSync;
use crate::database::{StateOwner, Volume, find_volume, make_volume, namespace_text, volume_store_id};
use crate::threads::{HeldThread, ThreadKey, rows};
use crate::virtual_store::VirtualStore;

/// The volumes of a thread that are open in this process, by namespace.
#[derive(Debug, Default)]
pub(crate) struct ThreadVolumes(Mutex<HashMap<String, Arc<Volume>>>);

/// The namespace of a thread's volume. The thread's number is in it: a later thread of the same name has other volumes.
#[derive(Debug, Serialize, Deserialize)]
struct ThreadNamespace {
    thread: (String, String),
    id: i64,
    of: Vec<String>,
}

/// The namespace of a thread's volume in the form that the database has it.
pub(crate) fn thread_namespace<P: AsRef<str>>(
    (thread, key): (i64, &ThreadKey),
    namespace: impl IntoIterator<Item = P>,
) -> StoreResult<String> {
    let of: Vec<String> = namespace.into_iter().map(|part| part.as_ref().to_owned()).collect();
    // Checked like any other.
    namespace_text(&of)?;
    let namespace = ThreadNamespace { thread: (key.agent.clone(), key.thread.clone()), id: thread, of };
    Ok(serde_json::to_string(&namespace).expect("texts and numbers can be written as JSON"))
}

/// The namespace that a configuration has for a volume: for a thread's volume, that of the Store that it stands for.
pub(crate) fn configured_namespace(namespace: &str) -> Result<Vec<String>> {
    serde_json::from_str(namespace)
        .or_else(|_| serde_json::from_str::<ThreadNamespace>(namespace).map(|namespace| namespace.of))
        .map_err(|_| corrupt("the namespace of a volume can't be read"))
}

impl HeldThread {
    /// The thread's own volume in place of a namespace. It is made at the first use, under the thread's lease, and removed
    /// with the thread.
    ///
    /// [`StoreError::LeaseExpired`] if it has to be made and the lease has expired: call it while a call of the thread runs.
    pub fn volume<P: AsRef<str>>(&self, namespace: impl IntoIterator<Item = P>) -> StoreResult<VirtualStore> {
        self.volume_named(thread_namespace((self.thread(), &self.key), namespace)?)
    }

    /// The volume of the thread's State, like [`HeldThread::volume`].
    pub fn state_volume(&self) -> StoreResult<VirtualStore> {
        self.volume_named(StateOwner::thread(&self.key, self.thread()).namespace())
    }

    /// The thread's volume of this namespace, in the form that the database has it.
    fn volume_named(&self, namespace: String) -> StoreResult<VirtualStore> {
        let (lease, database) = (self.id(), self.holder.database());
        let id = volume_store_id(database.id(), &namespace);
        let cached = self.volumes.0.lock().get(&namespace).cloned();
        if let Some(volume) = cached {
            return Ok(VirtualStore::new(database.clone(), volume, id));
        }
        let found = find_volume(&*database.0.reader()?, &namespace)?;
        let (volume, root) = match found {
            Some(found) => found,
            None => {
                let namespace = namespace.clone();
                let made = database.0.write(CommitSync::Deferred, move |transaction| {
                    rows::check_lease(transaction.conn, lease)?;
                    make_volume(transaction, &namespace, Some(lease.thread))
                });
                if let Err(StoreError::LeaseExpired) = &made {
                    self.note_expired();
                }
                made?
            }
        };
        let volume = Arc::new(Volume {
            id: volume,
            root,
            dirs: Arc::default(),
            base_layers: Vec::new(),
            overlay: None,
        });
        // The first one stays: all Stores of a volume have to share one cache.
        let volume = Arc::clone(self.volumes.0.lock().entry(namespace).or_insert(volume));
        Ok(VirtualStore::new(database.clone(), volume, id))
    }

    /// The id of the Store that [`HeldThread::volume`] returns. Opens and writes nothing.
    pub fn volume_id<P: AsRef<str>>(&self, namespace: impl IntoIterator<Item = P>) -> StoreResult<StoreId> {
        let namespace = thread_namespace((self.thread(), &self.key), namespace)?;
        Ok(volume_store_id(self.holder.database().id(), &namespace))
    }
}
