//! Reading what a thread has, without using the thread.

use stead_core::StoreResult;

use crate::database::Database;
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
        self.existing_volume(&thread_namespace((thread, key), namespace)?)
    }
}
