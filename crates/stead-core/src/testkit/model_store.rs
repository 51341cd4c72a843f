//! The model as a Store: in memory, behind one lock, as strict as the contract allows.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::memory_audit_log::MemoryAuditLog;
use super::model::{DraftBytes, ModelBody, ModelTree};
use crate::audit::{AuditLog, AuditRecord};
use crate::hide::HiddenNames;
use crate::managed::Manifest;
use crate::monitor::check_not_stopped;
use crate::name::{Name, escape_name};
use crate::search::{DirectoryRules, FileHits, Grep, IgnoreRules, LeftOutReason, WalkOptions};
use crate::store::{
    Applied, Attr, Change, ChangeFeed, ChangeListener, ChangeListeners, CompanionRecord, CompanionRecords,
    Draft, DraftBase, Entry, Feed, FeedEntry, FileContent, Forks, History, Listing, Maintenance, NodeId,
    NodeKind, NodePath, OpenContent, OpenPurpose, Page, QuotaRoot, RevisionNumber, SealedContent, Store,
    StoreError, StoreId, StoreInfo, StoreKind, StorePath, StoreResult, Subscription, Usage, VerifyReport,
    WalkEntry,
};

/// A Store for tests: every rule of the port, with nothing behind it.
///
/// It is slow on large trees, since every change copies the tree.
#[derive(Debug)]
pub struct ModelStore {
    state: Mutex<ModelState>,
    listeners: Arc<ChangeListeners>,
    /// Where the records of its changes go.
    id: StoreId,
    audit_log: Option<Arc<MemoryAuditLog>>,
}

#[derive(Debug)]
struct ModelState {
    tree: ModelTree,
    revision: RevisionNumber,
    changes: Vec<FeedEntry>,
}

impl ModelStore {
    /// An empty Store.
    pub fn new() -> Self {
        let state = ModelState { tree: ModelTree::new(), revision: RevisionNumber(0), changes: Vec::new() };
        ModelStore {
            state: Mutex::new(state),
            listeners: Arc::default(),
            id: StoreId::fresh(),
            audit_log: None,
        }
    }

    /// An empty Store that records its own changes in this audit log.
    pub fn recording(audit_log: Arc<MemoryAuditLog>) -> Self {
        ModelStore { audit_log: Some(audit_log), ..ModelStore::new() }
    }

    fn append_records(&self, records: Vec<CompanionRecord>) -> StoreResult<()> {
        let append = |record: CompanionRecord| match (record, &self.audit_log) {
            (CompanionRecord::Audit { record, began }, Some(log)) => {
                log.append(&AuditRecord { duration: began.elapsed(), ..*record })
            }
            (CompanionRecord::Undoes(_), Some(_)) => Ok(()),
            // A Store without a manifest has no rows to write.
            (CompanionRecord::Managed(_) | CompanionRecord::Returning(_), _) => Ok(()),
            (
                CompanionRecord::Row(_)
                | CompanionRecord::ForkSync(_)
                | CompanionRecord::RestoresFork(_)
                | CompanionRecord::Lease(_)
                | CompanionRecord::Manifest(_),
                _,
            )
            | (_, None) => Err(StoreError::unsupported("this Store keeps no companion records")),
        };
        records.into_iter().try_for_each(append)
    }

    /// The tree as it is now. Visitors see this copy, so that they may call the Store while they visit.
    fn current_tree(&self) -> ModelTree {
        self.state.lock().tree.clone()
    }
}

impl Default for ModelStore {
    fn default() -> Self {
        ModelStore::new()
    }
}

impl Store for ModelStore {
    fn id(&self) -> StoreId {
        self.id
    }

    fn info(&self) -> StoreInfo {
        let database = self.audit_log.as_ref().map(|log| log.database());
        StoreInfo { kind: StoreKind::Virtual, database, commits_audit: database.is_some() }
    }

    fn stat(&self, at: &NodePath) -> StoreResult<Attr> {
        let tree = &self.state.lock().tree;
        Ok(tree.attr(tree.find(at)?))
    }

    fn read(&self, at: &NodePath, limit: u64) -> StoreResult<FileContent> {
        let tree = &self.state.lock().tree;
        let (id, bytes) = tree.file(at)?;
        let attr = tree.attr(id);
        if attr.size > limit {
            return Err(StoreError::TooLarge { size: attr.size, limit });
        }
        Ok(FileContent { attr, bytes: bytes.to_vec() })
    }

    fn open(&self, at: &NodePath, _: OpenPurpose) -> StoreResult<Box<dyn OpenContent>> {
        let tree = &self.state.lock().tree;
        let (id, bytes) = tree.file(at)?;
        Ok(Box::new(ModelContent { attr: tree.attr(id), bytes: bytes.clone() }))
    }

    fn read_link(&self, at: &NodePath) -> StoreResult<Vec<u8>> {
        self.state.lock().tree.link(at).map(<[u8]>::to_vec)
    }

    fn list(&self, at: &NodePath, page: &Page) -> StoreResult<Listing> {
        let tree = &self.state.lock().tree;
        let (_, names) = tree.directory(at)?;
        let is_after = |name: &[u8]| page.after.as_ref().is_none_or(|after| name > after.as_bytes());
        let shown = || names.iter().filter(|(name, _)| !page.hides(name));
        let mut remaining = shown().filter(|(name, _)| is_after(name));
        let entry = |(name, &id): (&Vec<u8>, &_)| {
            let name = Name::new(&**name).expect("the tree contains only valid names");
            Entry { name, attr: tree.attr(id) }
        };
        let entries = remaining.by_ref().take(page.limit).map(entry).collect();
        Ok(Listing { entries, total: shown().count() as u64, more: remaining.next().is_some() })
    }

    fn walk(
        &self,
        at: &NodePath,
        walk: &WalkOptions,
        visit: &mut dyn FnMut(WalkEntry) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        let tree = self.current_tree();
        let (top, _) = tree.directory(at)?;
        let (shown, left_out) = apply_ignore_rules(&tree, tree.descendants(top), walk.ignore.as_ref());
        for (path, kind, reason) in left_out {
            if path.depth() <= walk.depth && !is_skipped(&path, &walk.skip, walk.hide.as_ref()) {
                walk.note_left_out(&path, kind, reason);
            }
        }
        for (path, id) in shown {
            if walk.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(StoreError::unavailable("the walk took too long; narrow it"));
            }
            if path.depth() > walk.depth
                || is_skipped(&path, &walk.skip, walk.hide.as_ref())
                || !walk.matches(&path)
            {
                continue;
            }
            if visit(WalkEntry { path, attr: tree.attr(id) }).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn grep(
        &self,
        at: &NodePath,
        grep: &Grep,
        visit: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        let tree = self.current_tree();
        let files = match tree.file(at) {
            Ok((file, _)) => vec![(StorePath::empty(), file)],
            Err(StoreError::IsADirectory) => {
                let all = tree.descendants(tree.find(at)?);
                let (mut files, left_out) = apply_ignore_rules(&tree, all, grep.ignore.as_ref());
                for (path, kind, reason) in left_out {
                    if !is_skipped(&path, &grep.skip, grep.hide.as_ref()) {
                        grep.note_left_out(&path, kind, reason);
                    }
                }
                files.retain(|(path, _)| {
                    !is_skipped(path, &grep.skip, grep.hide.as_ref()) && grep.matches(path)
                });
                files
            }
            Err(error) => return Err(error),
        };
        let mut searcher = grep.searcher();
        for (path, id) in files {
            if grep.should_stop() {
                return Err(StoreError::unavailable(
                    "the search took too long; use a narrower path or pattern",
                ));
            }
            let Some(ModelBody::File(bytes)) = tree.body(id) else { continue };
            if !grep.accepts_size(&path, bytes.len() as u64) {
                continue;
            }
            let Some(hits) = searcher.search(bytes) else { continue };
            if visit(FileHits { path, attr: Some(tree.attr(id)), hits }).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn draft(&self, base: DraftBase<'_>) -> StoreResult<Box<dyn Draft>> {
        let bytes = match base {
            DraftBase::Empty => Vec::new(),
            DraftBase::File(at) => self.state.lock().tree.file(at)?.1.to_vec(),
        };
        Ok(Box::new(DraftBytes(bytes)))
    }

    fn apply(&self, change: Change) -> StoreResult<Applied> {
        let mut state = self.state.lock();
        let revision = RevisionNumber(state.revision.0 + 1);
        let Change { operation, steps, quotas, records, expect_nodes, expect_free, monitor, .. } = change;
        steps.iter().try_for_each(|_| check_not_stopped(monitor.as_ref()))?;
        for (path, node) in expect_nodes {
            let current = state.tree.directory(&NodePath::from_root(path)).map(|(node, _)| node);
            if current.ok() != Some(node) {
                return Err(StoreError::Conflict);
            }
        }
        check_free(&expect_free, &state.tree)?;
        let before = (!quotas.is_empty() || !records.is_empty()).then(|| state.tree.clone());
        let applied = state.tree.apply(steps, operation.at, revision)?;
        if let Some(before) = before
            && let Err(error) =
                check_quotas(&quotas, &before, &state.tree).and_then(|()| self.append_records(records))
        {
            state.tree = before;
            return Err(error);
        }
        if !applied.changes.is_empty() {
            state.revision = revision;
            state.changes.extend(applied.changes);
            drop(state);
            self.listeners.notify();
        }
        Ok(Applied { revision: None, outcomes: applied.outcomes, not_kept: 0 })
    }

    /// Does nothing: the model has no disk.
    fn sync(&self) -> StoreResult<()> {
        Ok(())
    }

    fn forget_node(&self, _: NodeId) {}

    fn history(&self) -> Option<&dyn History> {
        None
    }

    fn forks(&self) -> Option<&dyn Forks> {
        None
    }

    fn feed(&self) -> Option<&dyn ChangeFeed> {
        Some(self)
    }

    fn manifest(&self) -> StoreResult<Option<Arc<dyn Manifest>>> {
        Ok(None)
    }

    fn companion_records(&self) -> Option<&dyn CompanionRecords> {
        None
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }
}

impl ChangeFeed for ModelStore {
    fn changes_since(&self, cursor: Option<RevisionNumber>, limit: usize) -> StoreResult<Feed> {
        let state = self.state.lock();
        let cursor = cursor.unwrap_or(state.revision);
        let newer = || state.changes.iter().filter(|change| change.revision > cursor);
        // A cursor is a revision, so a page ends only at the end of a revision.
        let end = newer().take(limit.max(1)).last().map_or(cursor, |change| change.revision);
        let changes: Vec<_> = newer().filter(|change| change.revision <= end).cloned().collect();
        Ok(Feed { changes, cursor: end, more: end < state.revision })
    }

    fn subscribe(&self, listener: ChangeListener) -> StoreResult<Subscription> {
        Ok(Subscription::new(self.listeners.add(listener)))
    }
}

impl Maintenance for ModelStore {
    fn destroy(&self) -> StoreResult<()> {
        Err(StoreError::unsupported("a model can't be destroyed"))
    }

    fn is_gone(&self) -> bool {
        false
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<VerifyReport> {
        let tree = self.current_tree();
        let (top, _) = tree.directory(&NodePath::root())?;
        let entries = tree.descendants(top).len() as u64;
        progress(entries);
        Ok(VerifyReport { entries, problems: tree.problems(), ..VerifyReport::default() })
    }
}

fn check_free(names: &[StorePath], tree: &ModelTree) -> StoreResult<()> {
    match names.iter().find(|name| tree.find(&NodePath::from_root((*name).clone())).is_ok()) {
        Some(name) => Err(StoreError::NameTaken { path: escape_name(name.as_bytes()).to_string() }),
        None => Ok(()),
    }
}

/// Checks the quotas of a change: compares what is below each quota root before and after it.
fn check_quotas(quotas: &[QuotaRoot], before: &ModelTree, after: &ModelTree) -> StoreResult<()> {
    for quota in quotas {
        let attrs_below =
            |tree: &ModelTree, root: &StorePath| match tree.directory(&NodePath::from_root(root.clone())) {
                Ok((top, _)) => tree.descendants(top).into_iter().map(|(_, id)| tree.attr(id)).collect(),
                Err(_) => Vec::new(),
            };
        let files =
            |tree: &ModelTree| quota.roots().flat_map(|root| attrs_below(tree, root)).collect::<Vec<Attr>>();
        let usage = |files: &[Attr]| Usage {
            bytes: files.iter().filter(|attr| attr.kind == NodeKind::File).map(|attr| attr.size).sum(),
            files: files.iter().filter(|attr| attr.kind != NodeKind::Directory).count() as u64,
        };
        let (before, after) = (files(before), files(after));
        quota.check(usage(&before), usage(&after))?;
        let was_as_large =
            |file: &Attr| before.iter().any(|old| old.node == file.node && old.size >= file.size);
        for file in after.iter().filter(|file| file.kind == NodeKind::File && !was_as_large(file)) {
            quota.limits.check_file_size(file.size)?;
        }
    }
    Ok(())
}

type LeftOutEntry = (StorePath, NodeKind, LeftOutReason);

/// Splits the entries below a directory, each before what is below it, into those that ignore rules leave and the
/// uppermost ones that they leave out.
fn apply_ignore_rules(
    tree: &ModelTree,
    entries: Vec<(StorePath, NodeId)>,
    ignore: Option<&IgnoreRules>,
) -> (Vec<(StorePath, NodeId)>, Vec<LeftOutEntry>) {
    let Some(ignore) = ignore else { return (entries, Vec::new()) };
    let kind_of = |id| tree.attr(id).kind;
    let rules_in = |directory: &StorePath, above: &DirectoryRules| {
        let children = entries.iter().filter_map(|(path, id)| {
            let (parent, name) = path.parent_and_name()?;
            (parent == directory.as_bytes()).then(|| (name, kind_of(*id)))
        });
        ignore.enter(above, directory, children, |path| {
            let (_, id) = entries.iter().find(|(found, _)| found == path).ok_or(StoreError::NotFound)?;
            match tree.body(*id) {
                Some(ModelBody::File(bytes)) => Ok(bytes.to_vec()),
                _ => Err(StoreError::NotFound),
            }
        })
    };
    let mut rules = HashMap::from([(StorePath::empty(), rules_in(&StorePath::empty(), ignore.above()))]);
    let (mut shown, mut left_out) = (Vec::new(), Vec::new());
    for (path, id) in &entries {
        let (parent, _) = path.parent_and_name().expect("an entry has a name");
        // A directory that is left out has no rules, and nothing below it is shown.
        let Some(above) = rules.get(&StorePath::from_checked(parent)).cloned() else { continue };
        match ignore.decide(&above, path, kind_of(*id)) {
            Some(reason) => left_out.push((path.clone(), kind_of(*id), reason)),
            None => {
                if kind_of(*id) == NodeKind::Directory {
                    rules.insert(path.clone(), rules_in(path, &above));
                }
                shown.push((path.clone(), *id));
            }
        }
    }
    (shown, left_out)
}

fn is_skipped(path: &StorePath, skip: &[StorePath], hide: Option<&HiddenNames>) -> bool {
    skip.iter().any(|skipped| path.is_at_or_below(skipped))
        || hide.is_some_and(|hidden| hidden.hides(path.as_bytes()))
}

struct ModelContent {
    attr: Attr,
    bytes: Arc<Vec<u8>>,
}

impl OpenContent for ModelContent {
    fn attr(&self) -> Attr {
        self.attr
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize> {
        Ok(copy_at(&self.bytes, offset, buffer))
    }
}

impl Draft for DraftBytes {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize> {
        Ok(copy_at(&self.0, offset, buffer))
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> StoreResult<()> {
        let start = check_memory_size(offset)?;
        let end = check_memory_size(offset.saturating_add(bytes.len() as u64))?;
        if !bytes.is_empty() {
            self.0.resize(self.0.len().max(end), 0);
            self.0[start..end].copy_from_slice(bytes);
        }
        Ok(())
    }

    fn set_size(&mut self, size: u64) -> StoreResult<()> {
        self.0.resize(check_memory_size(size)?, 0);
        Ok(())
    }

    fn seal(&mut self) -> StoreResult<SealedContent> {
        Ok(SealedContent::new(self.size(), self.clone()))
    }
}

fn copy_at(bytes: &[u8], offset: u64, buffer: &mut [u8]) -> usize {
    let start = usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()));
    let count = buffer.len().min(bytes.len() - start);
    buffer[..count].copy_from_slice(&bytes[start..start + count]);
    count
}

fn check_memory_size(size: u64) -> StoreResult<usize> {
    const MAX_SIZE: u64 = 1 << 30;
    if size > MAX_SIZE {
        return Err(StoreError::TooLarge { size, limit: MAX_SIZE });
    }
    Ok(usize::try_from(size).expect("the size of a model file fits into usize"))
}
