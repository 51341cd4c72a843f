//! A Store that fails on purpose, at a call of your choice.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use crate::clock::Timestamp;
use crate::identity::Operation;
use crate::managed::Manifest;
use crate::search::{FileHits, Grep, WalkOptions};
use crate::store::{
    Applied, Attr, CaptureScopes, Captured, Change, ChangeFeed, ChangeListener, CompanionRecords, ContentRef,
    Draft, DraftBase, Feed, FileContent, Fork, ForkSides, Forks, History, Listing, Maintenance, MergeDrafts,
    NodeId, NodePath, OpenContent, OpenPurpose, Page, RecordKind, RecordQuery, RevisionNumber, RevisionQuery,
    RevisionSet, SealedContent, SidesQuery, Store, StoreError, StoreId, StoreInfo, StorePath, StoreResult,
    StoredRecord, Subscription, Usage, VerifyReport, WalkEntry,
};

/// What goes wrong. Calls are counted from 1, those of drafts and open contents included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// Nothing does.
    #[default]
    Never,
    /// This call fails before it reaches the Store.
    Before(u64),
    /// This call reaches the Store, and its answer is lost.
    After(u64),
    /// No call reaches the Store from this one on.
    From(u64),
    /// The host refuses this call.
    Denied(u64),
    /// This call reaches the Store only after [`FaultyStore::go_on`].
    Waits(u64),
}

/// Wraps a Store and fails at the calls that the test has chosen.
#[derive(Debug)]
pub struct FaultyStore {
    store: Arc<dyn Store>,
    connection: Arc<FaultyConnection>,
}

impl FaultyStore {
    /// The Store, with one fault.
    pub fn new(store: Arc<dyn Store>, fault: Fault) -> Self {
        FaultyStore { store, connection: Arc::new(FaultyConnection { fault, ..FaultyConnection::default() }) }
    }

    /// Lets the call go on that waits, or that would.
    pub fn go_on(&self) {
        *self.connection.may_go_on.lock() = true;
        self.connection.goes_on.notify_all();
    }

    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.connection.calls.load(Ordering::SeqCst)
    }
}

/// The connection between a caller and a Store. It counts the calls and makes one of them fail.
#[derive(Debug, Default)]
struct FaultyConnection {
    fault: Fault,
    calls: AtomicU64,
    may_go_on: Mutex<bool>,
    goes_on: Condvar,
}

impl FaultyConnection {
    fn call<T>(&self, act: impl FnOnce() -> StoreResult<T>) -> StoreResult<T> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        match self.fault {
            Fault::Before(fault) if number == fault => Err(connection_lost()),
            Fault::Denied(fault) if number == fault => Err(StoreError::HostDenied),
            Fault::From(fault) if number >= fault => Err(connection_lost()),
            Fault::After(fault) if number == fault => {
                drop(act());
                Err(connection_lost())
            }
            Fault::Waits(fault) if number == fault => {
                let mut may_go_on = self.may_go_on.lock();
                self.goes_on.wait_while(&mut may_go_on, |may_go_on| !*may_go_on);
                drop(may_go_on);
                act()
            }
            Fault::Never
            | Fault::Before(_)
            | Fault::Denied(_)
            | Fault::After(_)
            | Fault::From(_)
            | Fault::Waits(_) => act(),
        }
    }
}

fn connection_lost() -> StoreError {
    StoreError::unavailable("the connection to the Store is broken")
}

#[deny(clippy::missing_trait_methods)]
impl Store for FaultyStore {
    fn id(&self) -> StoreId {
        self.store.id()
    }

    fn info(&self) -> StoreInfo {
        self.store.info()
    }

    fn stat(&self, at: &NodePath) -> StoreResult<Attr> {
        self.connection.call(|| self.store.stat(at))
    }

    fn stat_many(&self, at: &[NodePath]) -> Vec<StoreResult<Attr>> {
        let answers = self.connection.call(|| Ok(self.store.stat_many(at)));
        answers.unwrap_or_else(|_| at.iter().map(|_| Err(connection_lost())).collect())
    }

    fn read(&self, at: &NodePath, limit: u64) -> StoreResult<FileContent> {
        self.connection.call(|| self.store.read(at, limit))
    }

    fn read_many(&self, at: &[NodePath], limit: u64) -> Vec<StoreResult<FileContent>> {
        let answers = self.connection.call(|| Ok(self.store.read_many(at, limit)));
        answers.unwrap_or_else(|_| at.iter().map(|_| Err(connection_lost())).collect())
    }

    fn open(&self, at: &NodePath, purpose: OpenPurpose) -> StoreResult<Box<dyn OpenContent>> {
        let content = self.connection.call(|| self.store.open(at, purpose))?;
        Ok(Box::new(FaultyContent { content, connection: self.connection.clone() }))
    }

    fn read_link(&self, at: &NodePath) -> StoreResult<Vec<u8>> {
        self.connection.call(|| self.store.read_link(at))
    }

    fn list(&self, at: &NodePath, page: &Page) -> StoreResult<Listing> {
        self.connection.call(|| self.store.list(at, page))
    }

    fn walk(
        &self,
        at: &NodePath,
        walk: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.connection.call(|| self.store.walk(at, walk, visit))
    }

    fn grep(
        &self,
        at: &NodePath,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        self.connection.call(|| self.store.grep(at, grep, visit))
    }

    fn draft(&self, base: DraftBase<'_>) -> StoreResult<Box<dyn Draft>> {
        let draft = self.connection.call(|| self.store.draft(base))?;
        Ok(Box::new(FaultyDraft { draft, connection: self.connection.clone() }))
    }

    fn apply(&self, change: Change) -> StoreResult<Applied> {
        self.connection.call(|| self.store.apply(change))
    }

    fn sync(&self) -> StoreResult<()> {
        self.connection.call(|| self.store.sync())
    }

    fn usage(&self, at: &StorePath) -> StoreResult<Usage> {
        self.connection.call(|| self.store.usage(at))
    }

    fn forget_node(&self, node: NodeId) {
        self.store.forget_node(node);
    }

    fn history(&self) -> Option<&dyn History> {
        self.store.history().map(|_| self as &dyn History)
    }

    fn forks(&self) -> Option<&dyn Forks> {
        self.store.forks().map(|_| self as &dyn Forks)
    }

    fn feed(&self) -> Option<&dyn ChangeFeed> {
        self.store.feed().map(|_| self as &dyn ChangeFeed)
    }

    fn manifest(&self) -> StoreResult<Option<Arc<dyn Manifest>>> {
        self.store.manifest()
    }

    fn companion_records(&self) -> Option<&dyn CompanionRecords> {
        self.store.companion_records().map(|_| self as &dyn CompanionRecords)
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        self.store.maintenance().map(|_| self as &dyn Maintenance)
    }
}

#[deny(clippy::missing_trait_methods)]
impl CompanionRecords for FaultyStore {
    fn record(&self, kind: &RecordKind, key: &str) -> StoreResult<Option<StoredRecord>> {
        self.connection.call(|| self.store.require_companion_records()?.record(kind, key))
    }

    fn records(&self, kind: &RecordKind, query: &RecordQuery) -> StoreResult<Vec<StoredRecord>> {
        self.connection.call(|| self.store.require_companion_records()?.records(kind, query))
    }
}

#[deny(clippy::missing_trait_methods)]
impl History for FaultyStore {
    fn retains_content(&self) -> bool {
        self.store.history().is_some_and(|history| history.retains_content())
    }

    fn retains_file(&self, size: u64) -> bool {
        self.store.history().is_some_and(|history| history.retains_file(size))
    }

    fn as_of(&self, revision: RevisionNumber) -> StoreResult<Arc<dyn Store>> {
        self.connection.call(|| self.store.require_history()?.as_of(revision))
    }

    fn latest_revision(&self) -> StoreResult<RevisionNumber> {
        self.connection.call(|| self.store.require_history()?.latest_revision())
    }

    fn revision_at(&self, time: Timestamp) -> StoreResult<RevisionNumber> {
        self.connection.call(|| self.store.require_history()?.revision_at(time))
    }

    fn revisions(&self, query: &RevisionQuery) -> StoreResult<RevisionSet> {
        self.connection.call(|| self.store.require_history()?.revisions(query))
    }

    fn undoable_operations(
        &self,
        agent: &str,
        since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<(RevisionNumber, Operation)>> {
        self.connection.call(|| self.store.require_history()?.undoable_operations(agent, since, limit))
    }

    fn changes_between(
        &self,
        older: RevisionNumber,
        newer: RevisionNumber,
        below: &[StorePath],
    ) -> StoreResult<RevisionSet> {
        self.connection.call(|| self.store.require_history()?.changes_between(older, newer, below))
    }

    fn capture(
        &self,
        scopes: &CaptureScopes,
        operation: &Operation,
        progress: &mut dyn FnMut(u64) -> StoreResult<()>,
    ) -> StoreResult<Option<Captured>> {
        self.connection.call(|| self.store.require_history()?.capture(scopes, operation, progress))
    }

    fn open_content(&self, content: &ContentRef) -> StoreResult<Box<dyn OpenContent>> {
        self.connection.call(|| self.store.require_history()?.open_content(content))
    }
}

#[deny(clippy::missing_trait_methods)]
impl Forks for FaultyStore {
    fn fork(&self, base: Arc<dyn Store>, fork: &Fork) -> StoreResult<Arc<dyn Store>> {
        self.connection.call(|| self.store.require_forks()?.fork(base, fork))
    }

    fn shows_later_changes(&self) -> bool {
        self.store.forks().is_some_and(|forks| forks.shows_later_changes())
    }

    fn target(&self) -> StoreResult<StoreId> {
        self.connection.call(|| self.store.require_forks()?.target())
    }

    fn sides(
        &self,
        query: SidesQuery,
        also: &BTreeSet<NodeId>,
        progress: &mut dyn FnMut() -> StoreResult<()>,
    ) -> StoreResult<ForkSides> {
        self.connection.call(|| self.store.require_forks()?.sides(query, also, progress))
    }

    fn merge_drafts(&self) -> StoreResult<Box<dyn MergeDrafts>> {
        self.connection.call(|| self.store.require_forks()?.merge_drafts())
    }
}

#[deny(clippy::missing_trait_methods)]
impl ChangeFeed for FaultyStore {
    fn changes_since(&self, cursor: Option<RevisionNumber>, limit: usize) -> StoreResult<Feed> {
        self.connection.call(|| self.store.require_feed()?.changes_since(cursor, limit))
    }

    fn subscribe(&self, listener: ChangeListener) -> StoreResult<Subscription> {
        self.connection.call(|| self.store.require_feed()?.subscribe(listener))
    }
}

#[deny(clippy::missing_trait_methods)]
impl Maintenance for FaultyStore {
    fn destroy(&self) -> StoreResult<()> {
        self.connection.call(|| self.store.require_maintenance()?.destroy())
    }

    fn is_gone(&self) -> bool {
        self.store.maintenance().is_some_and(|maintenance| maintenance.is_gone())
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<VerifyReport> {
        self.connection.call(|| self.store.require_maintenance()?.verify(progress))
    }
}

struct FaultyContent {
    content: Box<dyn OpenContent>,
    connection: Arc<FaultyConnection>,
}

impl OpenContent for FaultyContent {
    fn attr(&self) -> Attr {
        self.content.attr()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize> {
        self.connection.call(|| self.content.read_at(offset, buffer))
    }

    fn reopen(&self) -> StoreResult<Option<Box<dyn OpenContent>>> {
        let content = self.connection.call(|| self.content.reopen())?;
        Ok(content
            .map(|content| Box::new(FaultyContent { content, connection: self.connection.clone() }) as _))
    }

    fn draft(&self) -> StoreResult<Option<Box<dyn Draft>>> {
        let draft = self.connection.call(|| self.content.draft())?;
        Ok(draft.map(|draft| Box::new(FaultyDraft { draft, connection: self.connection.clone() }) as _))
    }
}

struct FaultyDraft {
    draft: Box<dyn Draft>,
    connection: Arc<FaultyConnection>,
}

impl Draft for FaultyDraft {
    fn size(&self) -> u64 {
        self.draft.size()
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize> {
        self.connection.call(|| self.draft.read_at(offset, buffer))
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> StoreResult<()> {
        self.connection.call(|| self.draft.write_at(offset, bytes))
    }

    fn set_size(&mut self, size: u64) -> StoreResult<()> {
        self.connection.call(|| self.draft.set_size(size))
    }

    fn seal(&mut self) -> StoreResult<SealedContent> {
        self.connection.call(|| self.draft.seal())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::store::{Content, PutOptions};
    use crate::testkit::ModelStore;
    use crate::testkit::suite::subject::{at, change, write, write_with};

    /// Makes the three calls that create the file `a`. Returns their result, whether the file exists afterwards, and
    /// the number of calls.
    fn draft_a_file(fault: Fault) -> (StoreResult<()>, bool, u64) {
        let store = Arc::new(ModelStore::new());
        let faulty = FaultyStore::new(store.clone(), fault);
        let act = || {
            let mut draft = faulty.draft(DraftBase::Empty)?;
            draft.write_at(0, b"1")?;
            let content = Content::Sealed(draft.seal()?);
            faulty.apply(change(vec![write_with(at("a"), content, PutOptions::default())]))?;
            Ok(())
        };
        (act(), store.stat(&at("a")).is_ok(), faulty.calls())
    }

    #[test]
    fn without_a_fault_every_call_reaches_the_store() {
        assert!(matches!(draft_a_file(Fault::Never), (Ok(()), true, 4)));
    }

    #[test]
    fn a_call_fails_before_it_reaches_the_store() {
        for call in 1..=4 {
            let (result, file_exists, calls) = draft_a_file(Fault::Before(call));
            assert!(matches!(result, Err(StoreError::Unavailable { .. })));
            assert!(!file_exists);
            assert_eq!(calls, call);
        }
        assert!(matches!(draft_a_file(Fault::Before(5)), (Ok(()), true, 4)));
    }

    #[test]
    fn an_answer_is_lost_but_the_change_is_made() {
        let (result, file_exists, _) = draft_a_file(Fault::After(4));
        assert!(matches!(result, Err(StoreError::Unavailable { .. })));
        assert!(file_exists);
        let (result, file_exists, _) = draft_a_file(Fault::After(3));
        assert!(result.is_err() && !file_exists);
    }

    #[test]
    fn a_call_waits_until_it_may_go_on() {
        let faulty = FaultyStore::new(Arc::new(ModelStore::new()), Fault::Waits(2));
        faulty.apply(change(vec![write("a", "1")])).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| faulty.stat(&at("a")).is_ok());
            while faulty.calls() < 2 {
                std::thread::yield_now();
            }
            assert!(faulty.stat(&at("a")).is_ok(), "only one call waits");
            assert!(!waiting.is_finished());
            faulty.go_on();
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn only_one_call_fails_or_all_from_then_on() {
        for (fault, recovers) in [(Fault::Before(2), true), (Fault::After(2), true), (Fault::From(2), false)]
        {
            let faulty = FaultyStore::new(Arc::new(ModelStore::new()), fault);
            faulty.apply(change(vec![write("a", "1")])).unwrap();
            let open = faulty.open(&at("a"), OpenPurpose::Read);
            assert!(open.is_err());
            assert_eq!(faulty.read(&at("a"), 9).is_ok(), recovers);
            let results = faulty.stat_many(&[at("a"), at("a")]);
            assert_eq!((results.len(), results.iter().all(Result::is_ok)), (2, recovers));
        }
    }

    #[test]
    fn open_content_fails_too() {
        let faulty = FaultyStore::new(Arc::new(ModelStore::new()), Fault::From(3));
        faulty.apply(change(vec![write("a", "1")])).unwrap();
        let open = faulty.open(&at("a"), OpenPurpose::Read).unwrap();
        assert_eq!(open.attr().size, 1);
        assert!(open.read_at(0, &mut [0]).is_err());
    }
}
