//! A Store that is opened when it is first needed, so that a Store that can't be opened doesn't affect other Stores.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use stead_core::managed::Manifest;
use stead_core::name::escape_name;
use stead_core::search::{FileHits, Grep, WalkOptions};
use stead_core::store::{
    Applied, Attr, CaptureScopes, Captured, Change, ChangeFeed, ChangeListener, CompanionRecords, ContentRef,
    Draft, DraftBase, Feed, FileContent, Fork, ForkSides, Forks, History, Listing, Maintenance, MergeDrafts,
    NodeId, NodePath, OpenContent, OpenPurpose, Page, RecordKind, RecordQuery, RevisionNumber, RevisionQuery,
    RevisionSet, SidesQuery, Store, StoreError, StoreId, StoreInfo, StorePath, StoreResult, StoredRecord,
    Subscription, Usage, VerifyReport, WalkEntry,
};
use stead_core::{ErrorKind, Operation, Timestamp};
use stead_stores::MemoryStore;

use crate::error::Error;

/// How a Store is opened.
type OpenFn = dyn Fn() -> Result<Arc<dyn Store>, Error> + Send + Sync;

/// What a Store offers beside files. It follows from the configuration, so it is known before the Store is open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Abilities {
    /// Whether it has a [`History`].
    pub(crate) history: bool,
    /// Whether its history retains content.
    pub(crate) retains_content: bool,
    /// Whether it has a [`ChangeFeed`].
    pub(crate) feed: bool,
    /// Whether it has [`Forks`].
    pub(crate) forks: bool,
    /// Whether its forks show later changes of it.
    pub(crate) live_forks: bool,
    /// Whether it has [`CompanionRecords`].
    pub(crate) companion_records: bool,
}

impl Abilities {
    /// Those of a Store in a database.
    pub(crate) const ALL: Abilities = Abilities {
        history: true,
        retains_content: true,
        feed: true,
        forks: true,
        live_forks: false,
        companion_records: true,
    };
}

/// A Store that opens at the first call that needs it.
///
/// A failure to open isn't remembered: the next call tries again.
pub(crate) struct LazyStore {
    name: String,
    id: StoreId,
    info: StoreInfo,
    abilities: Abilities,
    open_fn: Box<OpenFn>,
    /// Whether the open Store may still be used, beside what the Store itself knows.
    is_current: Option<Box<dyn Fn() -> bool + Send + Sync>>,
    opened: RwLock<Option<Arc<dyn Store>>>,
    /// Held while the Store is being opened, so that it is opened once.
    open_lock: Mutex<()>,
    /// The Store, if it is a Memory Store.
    memory: Option<Arc<MemoryStore>>,
}

impl LazyStore {
    /// A Store of this name and id. `info` and `abilities` describe it before it is open.
    pub(crate) fn new(
        name: impl Into<String>,
        id: StoreId,
        info: StoreInfo,
        abilities: Abilities,
        open: impl Fn() -> Result<Arc<dyn Store>, Error> + Send + Sync + 'static,
    ) -> Self {
        let (opened, open_lock) = (RwLock::default(), Mutex::default());
        let (name, open_fn) = (name.into(), Box::new(open));
        LazyStore { name, id, info, abilities, open_fn, is_current: None, opened, open_lock, memory: None }
    }

    /// The same, opened again as soon as `is_current` doesn't hold any more. It is asked at each use.
    pub(crate) fn while_current(self, is_current: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        LazyStore { is_current: Some(Box::new(is_current)), ..self }
    }

    /// A Memory Store, which is always open.
    pub(crate) fn of_memory(name: impl Into<String>, store: MemoryStore) -> Self {
        let (id, info, store) = (store.id(), store.info(), Arc::new(store));
        let opened = Arc::clone(&store);
        let lazy = LazyStore::new(name, id, info, Abilities::ALL, move || Ok(Arc::clone(&opened) as _));
        LazyStore { memory: Some(store), ..lazy }
    }

    /// The Store, if it is a Memory Store.
    pub(crate) fn memory(&self) -> Option<&Arc<MemoryStore>> {
        self.memory.as_ref()
    }

    /// The Store, if it is open and usable.
    fn if_open(&self) -> Option<Arc<dyn Store>> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        if opened.is_some() && self.is_current.as_ref().is_some_and(|is_current| !is_current()) {
            return None;
        }
        let is_gone = |store: &dyn Store| store.maintenance().is_some_and(|store| store.is_gone());
        opened.as_ref().filter(|store| !is_gone(&***store)).map(Arc::clone)
    }

    /// The Store, which is opened if it isn't open yet, or if what it stood on was removed.
    pub(crate) fn get_or_open(&self) -> Result<Arc<dyn Store>, Error> {
        if let Some(store) = self.if_open() {
            return Ok(store);
        }
        // The lock guards no data, so poisoning doesn't matter.
        let _guard = self.open_lock.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// The error that callers of the port get.
    fn open_error(&self, error: &Error) -> StoreError {
        match error {
            // Waiting does not help, and `stead verify` says more.
            Error::OpenStore { cause: StoreError::Corrupt(message), .. } => {
                StoreError::Corrupt(message.clone())
            }
            // One cause has one code, wherever it is met.
            error if error.kind() == ErrorKind::Quota => StoreError::NoSpace,
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
        paths: &[NodePath],
        call: impl FnOnce(&dyn Store) -> Vec<StoreResult<T>>,
    ) -> Vec<StoreResult<T>> {
        match self.get_or_open() {
            Ok(store) => call(&*store),
            Err(error) => paths.iter().map(|_| Err(self.open_error(&error))).collect(),
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
    fn id(&self) -> StoreId {
        self.id
    }

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

    fn open(&self, at: &NodePath, purpose: OpenPurpose) -> StoreResult<Box<dyn OpenContent>> {
        self.store()?.open(at, purpose)
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
        // A Store whose directory was removed is asked as well, and reports that. A Store that was never open has no
        // changes to sync.
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner).clone();
        opened.map_or(Ok(()), |store| store.sync())
    }

    fn forget_node(&self, node: NodeId) {
        // Callers have no nodes of a Store that was never open.
        if let Some(store) = self.if_open() {
            store.forget_node(node);
        }
    }

    fn usage(&self, at: &StorePath) -> StoreResult<Usage> {
        self.store()?.usage(at)
    }

    fn history(&self) -> Option<&dyn History> {
        self.abilities.history.then_some(self)
    }

    fn forks(&self) -> Option<&dyn Forks> {
        self.abilities.forks.then_some(self)
    }

    fn feed(&self) -> Option<&dyn ChangeFeed> {
        self.abilities.feed.then_some(self)
    }

    fn manifest(&self) -> StoreResult<Option<Arc<dyn Manifest>>> {
        self.store()?.manifest()
    }

    fn companion_records(&self) -> Option<&dyn CompanionRecords> {
        self.abilities.companion_records.then_some(self)
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }
}

#[deny(clippy::missing_trait_methods)]
impl CompanionRecords for LazyStore {
    fn record(&self, kind: &RecordKind, key: &str) -> StoreResult<Option<StoredRecord>> {
        self.store()?.require_companion_records()?.record(kind, key)
    }

    fn records(&self, kind: &RecordKind, query: &RecordQuery) -> StoreResult<Vec<StoredRecord>> {
        self.store()?.require_companion_records()?.records(kind, query)
    }
}

#[deny(clippy::missing_trait_methods)]
impl History for LazyStore {
    fn retains_content(&self) -> bool {
        let opened = self.if_open();
        opened.map_or(self.abilities.retains_content, |store| {
            store.history().is_some_and(|history| history.retains_content())
        })
    }

    fn retains_file(&self, size: u64) -> bool {
        let opened = self.if_open();
        opened.map_or(self.abilities.retains_content, |store| {
            store.history().is_some_and(|history| history.retains_file(size))
        })
    }

    fn as_of(&self, revision: RevisionNumber) -> StoreResult<Arc<dyn Store>> {
        self.store()?.require_history()?.as_of(revision)
    }

    fn latest_revision(&self) -> StoreResult<RevisionNumber> {
        self.store()?.require_history()?.latest_revision()
    }

    fn revision_at(&self, time: Timestamp) -> StoreResult<RevisionNumber> {
        self.store()?.require_history()?.revision_at(time)
    }

    fn revisions(&self, query: &RevisionQuery) -> StoreResult<RevisionSet> {
        self.store()?.require_history()?.revisions(query)
    }

    fn undoable_operations(
        &self,
        agent: &str,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<(RevisionNumber, Operation)>> {
        self.store()?.require_history()?.undoable_operations(agent, since, limit)
    }

    fn changes_between(
        &self,
        older: RevisionNumber,
        newer: RevisionNumber,
        paths: &[StorePath],
    ) -> StoreResult<RevisionSet> {
        self.store()?.require_history()?.changes_between(older, newer, paths)
    }

    fn capture(
        &self,
        scopes: &CaptureScopes,
        operation: &Operation,
        progress: &mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> StoreResult<Option<Captured>> {
        self.store()?.require_history()?.capture(scopes, operation, progress)
    }

    fn open_content(&self, content: &ContentRef) -> StoreResult<Box<dyn OpenContent>> {
        self.store()?.require_history()?.open_content(content)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Forks for LazyStore {
    fn fork(&self, base: Arc<dyn Store>, fork: &Fork) -> StoreResult<Arc<dyn Store>> {
        self.store()?.require_forks()?.fork(base, fork)
    }

    fn shows_later_changes(&self) -> bool {
        self.abilities.live_forks
    }

    fn target(&self) -> StoreResult<StoreId> {
        self.store()?.require_forks()?.target()
    }

    fn sides(
        &self,
        query: SidesQuery,
        also: &BTreeSet<NodeId>,
        progress: &mut dyn FnMut() -> StoreResult<()>,
    ) -> StoreResult<ForkSides> {
        self.store()?.require_forks()?.sides(query, also, progress)
    }

    fn merge_drafts(&self) -> StoreResult<Box<dyn MergeDrafts>> {
        self.store()?.require_forks()?.merge_drafts()
    }
}

#[deny(clippy::missing_trait_methods)]
impl ChangeFeed for LazyStore {
    fn changes_since(&self, cursor: Option<RevisionNumber>, limit: usize) -> StoreResult<Feed> {
        self.store()?.require_feed()?.changes_since(cursor, limit)
    }

    fn subscribe(&self, listener: ChangeListener) -> StoreResult<Subscription> {
        self.store()?.require_feed()?.subscribe(listener)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Maintenance for LazyStore {
    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<VerifyReport> {
        self.store()?.require_maintenance()?.verify(progress)
    }

    fn destroy(&self) -> StoreResult<()> {
        self.store()?.require_maintenance()?.destroy()
    }

    /// Never: the next call opens the Store again.
    fn is_gone(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use stead_core::store::{NodeKind, StoreKind, StorePath};

    use super::*;

    const INFO: StoreInfo = StoreInfo { kind: StoreKind::Memory, database: None, commits_audit: false };

    #[test]
    fn a_store_is_opened_once_when_it_is_first_needed() {
        let open_count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&open_count);
        let lazy = LazyStore::new("x", StoreId::fresh(), INFO, Abilities::ALL, move || {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(Arc::new(MemoryStore::new()))
        });
        lazy.info();
        lazy.forget_node(NodeId(7));
        assert_eq!(
            (open_count.load(Ordering::SeqCst), format!("{lazy:?}")),
            (0, "LazyStore { name: \"x\", .. }".into())
        );
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(lazy.stat(&NodePath::root()).unwrap().kind, NodeKind::Directory));
            }
        });
        assert_eq!(open_count.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_store_that_could_not_be_opened_is_tried_again() {
        let phase = Arc::new(AtomicUsize::new(0));
        let phase_at_open = Arc::clone(&phase);
        let lazy = LazyStore::new("x", StoreId::fresh(), INFO, Abilities::ALL, move || {
            match phase_at_open.load(Ordering::SeqCst) {
                0 => Err(StoreError::NotFound.into()),
                1 => Err(StoreError::Corrupt("the file isn't a database".into()).into()),
                _ => Ok(Arc::new(MemoryStore::new())),
            }
        });
        let paths = [NodePath::root(), NodePath::from_root(StorePath::from_checked("a"))];
        let error = lazy.stat(&NodePath::root()).unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().starts_with("the Store `x` can't be opened: its directory"), "{error}");
        assert_eq!(lazy.stat_many(&paths).iter().filter(|answer| answer.is_err()).count(), 2);
        phase.store(1, Ordering::SeqCst);
        assert!(matches!(lazy.read(&paths[1], 1), Err(StoreError::Corrupt(_))));
        phase.store(2, Ordering::SeqCst);
        assert!(matches!(lazy.read(&paths[1], 1), Err(StoreError::NotFound)));
        assert_eq!(lazy.stat_many(&paths).iter().filter(|answer| answer.is_ok()).count(), 1);
    }
}
