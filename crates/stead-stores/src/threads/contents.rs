//! Reading what a thread has, without using the thread.

use std::sync::Arc;

use stead_core::StoreResult;

use crate::database::{Database, Volume, find_volume, volume_store_id};
use crate::threads::{ThreadKey, thread_namespace};
use crate::virtual_store::VirtualStore;

impl Database {
    /// A thread's own volume in place of a namespace, to look at it; `None` if the thread has written nothing there. It takes
    /// no lease, so it must not be changed through this Store.
    pub fn existing_thread_volume<P: AsRef<str>>(
        &self,
        (thread, key): (i64, &ThreadKey),
        namespace: impl IntoIterator<Item = P>,
    ) -> StoreResult<Option<VirtualStore>> {
        let namespace = thread_namespace((thread, key), namespace)?;
        let found = find_volume(&*self.0.reader()?, &namespace)?;
        Ok(found.map(|(id, root)| {
            let volume =
                Arc::new(Volume { id, root, dirs: Arc::default(), base_layers: Vec::new(), overlay: None });
            VirtualStore::new(self.clone(), volume, volume_store_id(self.id(), &namespace))
        }))
    }
}
