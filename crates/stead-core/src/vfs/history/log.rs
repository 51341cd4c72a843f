//! The log: who did what, in logical paths.

use std::collections::HashSet;

use crate::clock::Timestamp;
use crate::error::{Error, Result, Visibility};
use crate::identity::{Operation, OperationId, OperationIdPrefix};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{
    NodeChange, NodeKind, NodeState, Revision, RevisionId, RevisionQuery, StoreError, StoreResult,
};
use crate::vfs::Vfs;
use crate::vfs::call::Call;
use crate::vfs::history::compare::{DiffOptions, Difference};
use crate::vfs::history::merge::merged_fork;
use crate::vfs::history::order::newest_first;
use crate::vfs::history::{StoreGroup, require_groups};

/// The factor by which a query grows if the caller may see too few of the revisions that it returned.
const LIMIT_GROWTH: usize = 4;

/// How much earlier than its id says an operation may have begun: clocks are set back now and then.
const CLOCK_TOLERANCE: i64 = 86_400 * 1_000_000_000;

/// The tools whose operations merge forks.
const MERGE_TOOLS: [&str; 3] = ["merge", "merge_fork", "review"];

/// Which changes the log returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogQuery {
    /// Only changes to what is at this path now, or below it.
    pub path: Option<VfsPath>,
    /// Only changes by this agent.
    pub agent: Option<String>,
    /// Only changes of this operation.
    pub operation: Option<OperationId>,
    /// Only changes of operations that began at this time or later.
    pub since: Option<Timestamp>,
    /// The maximum number of entries. The newest ones are returned.
    pub limit: usize,
    /// Whether, and how, each change is compared with the state before it.
    pub diff: Option<DiffOptions>,
}

impl Default for LogQuery {
    fn default() -> Self {
        LogQuery { path: None, agent: None, operation: None, since: None, limit: 100, diff: None }
    }
}

/// One change, and the operation that it belongs to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogEntry {
    /// The operation.
    pub operation: Operation,
    /// The revision that the change made.
    pub revision: RevisionId,
    /// What the change did to each path, sorted by path.
    pub changes: Vec<LogChange>,
    /// How each path differs from the state before the change, sorted by path, if the query asked for it. Content that
    /// is no longer kept isn't compared.
    pub differences: Vec<Difference>,
    /// The operations that the change undid.
    pub undoes: Vec<OperationId>,
    /// Whether its operation has been undone.
    pub undone: bool,
    /// The fork that the operation merged, as `OWNER/FORK`, or only its name for a caller in a thread.
    pub merged_fork: Option<String>,
}

/// What a change did to one path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogChange {
    /// The path after the change; before it, if the node was removed. A key of the State is `state:NAMESPACE/KEY`.
    pub path: VfsPath,
    /// The path before the change, if the node was moved.
    pub from: Option<VfsPath>,
    /// What the change did.
    pub action: LogAction,
    /// The node's kind.
    pub kind: NodeKind,
    /// The size after the change in bytes; before it, if the node was removed.
    pub size: u64,
}

/// What a change can do to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogAction {
    /// It was created.
    Created,
    /// Its content was written.
    Written,
    /// It was renamed.
    Moved,
    /// Its attributes were set.
    Attributes,
    /// It was removed.
    Removed,
}

impl LogAction {
    /// The action as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            LogAction::Created => "created",
            LogAction::Written => "written",
            LogAction::Moved => "moved",
            LogAction::Attributes => "attributes",
            LogAction::Removed => "removed",
        }
    }

    fn from_change(change: &NodeChange) -> Option<LogAction> {
        Some(match (&change.before, &change.after) {
            (None, None) => return None,
            (None, Some(_)) => LogAction::Created,
            (Some(_), None) => LogAction::Removed,
            (Some(before), Some(after)) if directory_and_name(before) != directory_and_name(after) => {
                LogAction::Moved
            }
            (Some(before), Some(after)) if before.content == after.content && after.content.is_some() => {
                LogAction::Attributes
            }
            (Some(before), _) if before.kind == NodeKind::Directory => LogAction::Attributes,
            _ => LogAction::Written,
        })
    }
}

fn directory_and_name(state: &NodeState) -> (crate::store::NodeId, &[u8]) {
    (state.parent, &state.name)
}

impl Vfs {
    /// The changes that the query asks for, newest first.
    pub fn log(&self, query: &LogQuery) -> Result<Vec<LogEntry>> {
        match &query.path {
            Some(path) => self.call("log", [Ok(path.clone())], |call, _| call.log(query)),
            None => self.call("log", [], |call, []| call.log(query)),
        }
    }

    /// The operations in the log whose ids begin with `prefix`, newest first: all that the caller can see, or only those
    /// of one agent.
    pub fn find_operations(
        &self,
        prefix: &OperationIdPrefix,
        agent: Option<String>,
    ) -> Result<Vec<Operation>> {
        let since = Timestamp(prefix.earliest_time().0.saturating_sub(CLOCK_TOLERANCE));
        let query = LogQuery { agent, since: Some(since), limit: usize::MAX, ..LogQuery::default() };
        let mut operations: Vec<_> = self.log(&query)?.into_iter().map(|entry| entry.operation).collect();
        let mut seen = HashSet::new();
        operations.retain(|operation| prefix.matches(operation.id) && seen.insert(operation.id));
        Ok(operations)
    }
}

impl Call<'_> {
    fn log(&self, query: &LogQuery) -> Result<Vec<LogEntry>> {
        let mut logs = Vec::new();
        match &query.path {
            Some(path) => {
                let resolved = self.authorize(path, Access::History)?;
                let store = resolved.workspace.mount().store();
                if store.history().is_none() {
                    let cause = StoreError::unsupported("this Store keeps no history");
                    return Err(Error::Store { path: path.clone(), visibility: Visibility::Visible, cause });
                }
                let group = StoreGroup { store, workspaces: vec![resolved.workspace] };
                let node_path = Some(resolved.node_path.clone());
                logs.push((&**store, self.log_of_group(&group, query, node_path, path)?));
            }
            None => {
                for mut group in require_groups(self.store_groups(Access::History), Access::History)? {
                    // As in a search from above, Workspaces that a person would have to approve are skipped.
                    group.workspaces.retain(|workspace| !self.vfs.approval.must_skip(workspace));
                    if group.workspaces.is_empty() {
                        continue;
                    }
                    logs.push((&**group.store, self.log_of_group(&group, query, None, &VfsPath::root())?));
                }
            }
        }
        let mut entries = newest_first(logs, |entry: &LogEntry| (entry.revision.number, entry.operation.at));
        entries.truncate(query.limit);
        Ok(entries)
    }

    /// The log of one Store.
    fn log_of_group(
        &self,
        group: &StoreGroup<'_>,
        query: &LogQuery,
        at: Option<crate::store::NodePath>,
        requested: &VfsPath,
    ) -> Result<Vec<LogEntry>> {
        let mut store_query = RevisionQuery {
            agent: query.agent.clone(),
            operations: query.operation.map(|id| vec![id]),
            since: query.since,
            at,
            limit: query.limit,
            ..RevisionQuery::all()
        };
        loop {
            let revisions =
                group.store.require_history().and_then(|history| history.revisions(&store_query)).map_err(
                    |cause| Error::Store { path: requested.clone(), visibility: Visibility::Visible, cause },
                )?;
            let is_all = revisions.revisions.len() < store_query.limit;
            let entries = self.log_entries(group, revisions.revisions, query.diff).map_err(|cause| {
                Error::Store { path: requested.clone(), visibility: Visibility::Visible, cause }
            })?;
            if is_all || entries.len() >= query.limit {
                return Ok(entries);
            }
            // The caller may not see some of the revisions. The query grows until the limit is reached: a shorter list
            // would reveal that hidden revisions exist.
            store_query.limit = store_query.limit.saturating_mul(LIMIT_GROWTH);
        }
    }

    /// Turns revisions into log entries, without what the caller may not see.
    fn log_entries(
        &self,
        group: &StoreGroup<'_>,
        revisions: Vec<Revision>,
        diff: Option<DiffOptions>,
    ) -> StoreResult<Vec<LogEntry>> {
        let mut entries = Vec::new();
        for revision in revisions {
            let mut changes: Vec<LogChange> =
                revision.changes.iter().filter_map(|change| self.log_change(group, change)).collect();
            changes.sort_by(|one, other| one.path.cmp(&other.path));
            if changes.is_empty() {
                continue;
            }
            let differences = match diff {
                Some(options) => self.log_differences(group, &revision.changes, options)?,
                None => Vec::new(),
            };
            let Revision { number, operation, undoes, undone, .. } = revision;
            let revision = group.store.revision(number);
            let merged_fork = match MERGE_TOOLS.contains(&&*operation.tool) {
                true => merged_fork(&**group.store, operation.id)?,
                false => None,
            };
            let had_thread = operation.identity.thread.is_some();
            let operation = self.without_other_thread(operation);
            // The owner of a fork may be another thread, whose name is withheld.
            let is_withheld =
                self.shared().lease.is_some() || had_thread && operation.identity.thread.is_none();
            let merged_fork = merged_fork.map(|fork| match (is_withheld, fork.rsplit_once('/')) {
                (true, Some((_, name))) => name.to_owned(),
                _ => fork,
            });
            entries.push(LogEntry { operation, revision, changes, differences, undoes, undone, merged_fork });
        }
        Ok(entries)
    }

    /// How the nodes that one revision changed differ from their states before it.
    fn log_differences(
        &self,
        group: &StoreGroup<'_>,
        changes: &[NodeChange],
        options: DiffOptions,
    ) -> StoreResult<Vec<Difference>> {
        // A state before that lay where the caller may not look isn't compared: the node then counts as added. If it
        // lies there now, the log doesn't list it either.
        let is_visible = |state: &&NodeState| self.logical_path(group, &state.path).is_some();
        let mut differences = Vec::new();
        for change in changes {
            let before = change.before.as_ref().filter(is_visible);
            let after = change.after.as_ref().filter(is_visible);
            if after.is_none() && change.after.is_some() {
                continue;
            }
            let difference = match self.difference(group, before, after, options) {
                Err(StoreError::Expired(_) | StoreError::NotFound) => {
                    self.difference(group, before, after, DiffOptions { text: false, ..options })
                }
                difference => difference,
            };
            differences.extend(difference?);
        }
        differences.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(differences)
    }

    fn log_change(&self, group: &StoreGroup<'_>, change: &NodeChange) -> Option<LogChange> {
        let action = LogAction::from_change(change)?;
        let state = change.after.as_ref().or(change.before.as_ref())?;
        // The directories of the State are no keys.
        if group.state().is_some() && state.kind == NodeKind::Directory {
            return None;
        }
        let path = self.logical_path(group, &state.path)?;
        let from = match (&change.before, action) {
            (Some(before), LogAction::Moved) => self.logical_path(group, &before.path),
            _ => None,
        };
        Some(LogChange { path, from, action, kind: state.kind, size: state.size })
    }
}
