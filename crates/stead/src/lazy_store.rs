//! A Store that is opened when it is first needed, so that one that can't be opened is in nobody else's way.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use stead_core::name::escape_name;
use stead_core::search::{FileHits, Grep, WalkOptions};
use stead_core::store::{
    Applied, Attr, CaptureScopes, Captured, Change, ContentRef, Draft, DraftBase, Feed, FileContent, Fork,
    Listing, NodeId, NodePath, OpenContent, Page, RevisionNumber, RevisionQuery, RevisionSequence,
    RevisionSet, Store, StoreError, StoreInfo, StorePath, StoreResult, Usage, VerifyReport, WalkEntry,
};
use stead_core::{ErrorKind, Operation, Timestamp};

use crate::error::Error;

/// How a Store is opened.
type OpenFn = dyn Fn() -> Result<Arc<dyn Store>, Error> + Send + Sync;

/// A Store that opens at the first call that needs it.
///
/// That it could not be opened is not remembered: the next call tries again, and finds it healed or not.
pub(crate) struct LazyStore {
    name: String,
    info: StoreInfo,
    open_fn: Box<OpenFn>,
    opened: RwLock<Option<Arc<dyn Store>>>,
    /// Held while it is opened: whoever comes meanwhile waits, rather than opening it twice.
    open_lock: Mutex<()>,
}

impl LazyStore {
    /// A Store of this name, which says this of itself before it is open.
    pub(crate) fn new(
        name: impl Into<String>,
        info: StoreInfo,
        open: impl Fn() -> Result<Arc<dyn Store>, Error> + Send + Sync + 'static,
    ) -> Self {
        let (opened, open_lock) = (RwLock::default(), Mutex::default());
        LazyStore { name: name.into(), info, open_fn: Box::new(open), opened, open_lock }
    }

    /// The Store, if it is open and of use.
    fn if_open(&self) -> Option<Arc<dyn Store>> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        opened.as_ref().filter(|store| !store.is_gone()).map(Arc::clone)
    }

    /// The Store, opened now if it is not open yet, or if what it stood on is gone.
    pub(crate) fn get_or_open(&self) -> Result<Arc<dyn Store>, Error> {
        if let Some(store) = self.if_open() {
            return Ok(store);
        }
        // Nothing is kept under the lock that a panic could leave half done.
        let _turn = self.open_lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = self.if_open() {
            return Ok(store);
        }
        let store = (self.open_fn)().map_err(|error| match error {
            Error::Store(cause) => Error::OpenStore { store: self.name.clone(), cause },
            other => other,
        })?;
        *self.opened.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&store));
        Ok(store)
    }

    fn store(&self) -> StoreResult<Arc<dyn Store>> {
        self.get_or_open().map_err(|error| self.open_error(&error))
    }

    /// What a caller of the port is told.
    fn open_error(&self, error: &Error) -> StoreError {
        match error {
            // Waiting does not help, and `stead verify` says more.
            Error::OpenStore { cause: StoreError::Corrupt(what), .. } => StoreError::Corrupt(what.clone()),
            // One cause has one code, wherever it is met.
            full if full.kind() == ErrorKind::Quota => StoreError::NoSpace,
            Error::OpenStore { .. } => StoreError::unavailable(error),
            other => StoreError::unavailable(format_args!(
                "the Store `{}` can't be opened: {other}",
                escape_name(self.name.as_bytes())
            )),
        }
    }

    /// One answer for each of several places.
    fn each_or_open_error<T>(
        &self,
        at: &[NodePath],
        ask: impl FnOnce(&dyn Store) -> Vec<StoreResult<T>>,
    ) -> Vec<StoreResult<T>> {
        match self.get_or_open() {
            Ok(store) => ask(&*store),
            Err(error) => at.iter().map(|_| Err(self.open_error(&error))).collect(),
        }
    }
}

impl fmt::Debug for LazyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.if_open() {
            Some(store) => store.fmt(f),
            None => f.debug_struct("LazyStore").field("name", &self.name).finish_non_exhaustive(),
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for LazyStore {
    fn info(&self) -> StoreInfo {
        self.if_open().map_or(self.info, |store| store.info())
    }

    fn stat(&self, at: &NodePath) -> StoreResult<Attr> {
        self.store()?.stat(at)
    }

    fn stat_many(&self, at: &[NodePath]) -> Vec<StoreResult<Attr>> {
        self.each_or_open_error(at, |store| store.stat_many(at))
    }

    fn read(&self, at: &NodePath, limit: u64) -> StoreResult<FileContent> {
        self.store()?.read(at, limit)
    }

    fn read_many(&self, at: &[NodePath], limit: u64) -> Vec<StoreResult<FileContent>> {
        self.each_or_open_error(at, |store| store.read_many(at, limit))
    }

    fn open(&self, at: &NodePath) -> StoreResult<Box<dyn OpenContent>> {
        self.store()?.open(at)
    }

    fn open_to_write(&self, at: &NodePath) -> StoreResult<Box<dyn OpenContent>> {
        self.store()?.open_to_write(at)
    }

    fn read_link(&self, at: &NodePath) -> StoreResult<Vec<u8>> {
        self.store()?.read_link(at)
    }

    fn list(&self, at: &NodePath, page: &Page) -> StoreResult<Listing> {
        self.store()?.list(at, page)
    }

    fn walk(
        &self,
        at: &NodePath,
        walk: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.store()?.walk(at, walk, visit)
    }

    fn grep(
        &self,
        at: &NodePath,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.store()?.grep(at, grep, visit)
    }

    fn draft(&self, of: DraftBase<'_>) -> StoreResult<Box<dyn Draft>> {
        self.store()?.draft(of)
    }

    fn apply(&self, change: Change) -> StoreResult<Applied> {
        self.store()?.apply(change)
    }

    fn sync(&self) -> StoreResult<()> {
        // Also one whose directory is gone, which says so. A Store that was never open has changed nothing.
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner).clone();
        opened.map_or(Ok(()), |store| store.sync())
    }

    fn changes_since(&self, cursor: Option<RevisionNumber>, limit: usize) -> StoreResult<Feed> {
        self.store()?.changes_since(cursor, limit)
    }

    fn as_of(&self, version: RevisionNumber) -> StoreResult<Arc<dyn Store>> {
        if !self.info.history {
            return Err(StoreError::Unsupported("this Store keeps no history"));
        }
        self.store()?.as_of(version)
    }

    fn forget_node(&self, node: NodeId) {
        // Nobody holds a node of a Store that was never open.
        if let Some(store) = self.if_open() {
            store.forget_node(node);
        }
    }

    fn revision_sequence(&self) -> Option<RevisionSequence> {
        self.store().ok()?.revision_sequence()
    }

    fn latest_revision(&self) -> StoreResult<RevisionNumber> {
        self.store()?.latest_revision()
    }

    fn revision_at(&self, time: Timestamp) -> StoreResult<RevisionNumber> {
        self.store()?.revision_at(time)
    }

    fn revisions(&self, query: &RevisionQuery) -> StoreResult<RevisionSet> {
        self.store()?.revisions(query)
    }

    fn undoable_operations(
        &self,
        agent: &str,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<(RevisionNumber, Operation)>> {
        self.store()?.undoable_operations(agent, since, limit)
    }

    fn changes_between(
        &self,
        older: RevisionNumber,
        newer: RevisionNumber,
        below: &[StorePath],
    ) -> StoreResult<RevisionSet> {
        self.store()?.changes_between(older, newer, below)
    }

    fn capture(
        &self,
        extents: &CaptureScopes,
        operation: &Operation,
        progress: &mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> StoreResult<Option<Captured>> {
        self.store()?.capture(extents, operation, progress)
    }

    fn open_content(&self, past: &ContentRef) -> StoreResult<Box<dyn OpenContent>> {
        self.store()?.open_content(past)
    }

    fn fork(&self, fork: &Fork) -> StoreResult<Arc<dyn Store>> {
        self.store()?.fork(fork)
    }

    fn usage(&self, at: &StorePath) -> StoreResult<Usage> {
        self.store()?.usage(at)
    }

    fn destroy(&self) -> StoreResult<()> {
        self.store()?.destroy()
    }

    /// Never: it is opened again by the next call.
    fn is_gone(&self) -> bool {
        false
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<VerifyReport> {
        self.store()?.verify(progress)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use stead_core::store::{NodeKind, StorePath};
    use stead_stores::MemoryStore;

    use super::*;

    const ABOUT: StoreInfo =
        StoreInfo { kind: "memory", history: true, retains_content: true, feed: true, audit_log: None };

    #[test]
    fn a_store_is_opened_once_by_whoever_needs_it_first() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let lazy = LazyStore::new("x", ABOUT, move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(Arc::new(MemoryStore::new()))
        });
        lazy.info();
        lazy.forget_node(NodeId(7));
        assert_eq!(
            (count.load(Ordering::SeqCst), format!("{lazy:?}")),
            (0, "LazyStore { name: \"x\", .. }".into())
        );
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(lazy.stat(&NodePath::root()).unwrap().kind, NodeKind::Directory));
            }
        });
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_store_that_heals_is_opened_then() {
        let ready = Arc::new(AtomicUsize::new(0));
        let state = Arc::clone(&ready);
        let lazy = LazyStore::new("x", ABOUT, move || match state.load(Ordering::SeqCst) {
            0 => Err(StoreError::NotFound.into()),
            1 => Err(StoreError::Corrupt("the file isn't a database".into()).into()),
            _ => Ok(Arc::new(MemoryStore::new())),
        });
        let places = [NodePath::root(), NodePath::from_root(StorePath::from_checked("a"))];
        let told = lazy.stat(&NodePath::root()).unwrap_err();
        assert!(matches!(told, StoreError::Unavailable { .. }), "{told:?}");
        assert!(told.to_string().starts_with("the Store `x` can't be opened: its directory"), "{told}");
        assert_eq!(lazy.stat_many(&places).iter().filter(|answer| answer.is_err()).count(), 2);
        ready.store(1, Ordering::SeqCst);
        assert!(matches!(lazy.read(&places[1], 1), Err(StoreError::Corrupt(_))));
        ready.store(2, Ordering::SeqCst);
        assert!(matches!(lazy.read(&places[1], 1), Err(StoreError::NotFound)));
        assert_eq!(lazy.stat_many(&places).iter().filter(|answer| answer.is_ok()).count(), 1);
    }
}
