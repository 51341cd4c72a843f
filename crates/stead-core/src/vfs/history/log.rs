//! The log: who did what, in logical paths.

use std::collections::HashSet;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::error::{Error, Result, Visibility};
use crate::identity::{Identity, Operation, OperationId, OperationIdPrefix};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{
    NodeChange, NodeKind, NodeState, Revision, RevisionId, RevisionQuery, Store, StoreError, StoreResult,
};
use crate::vfs::Vfs;
use crate::vfs::call::Call;
use crate::vfs::history::compare::{DiffOptions, Difference};
use crate::vfs::history::merge::merged_fork;
use crate::vfs::history::order::newest_first;
use crate::vfs::history::{StoreGroup, require_groups};
use crate::vfs::write::same_store;

/// The factor by which a query grows if the caller may see too few of the revisions that it returned.
const LIMIT_GROWTH: usize = 4;

/// How much earlier than its id says an operation may have begun: clocks are set back now and then.
const CLOCK_TOLERANCE: i64 = 86_400 * 1_000_000_000;

/// The tools whose operations merge forks.
const MERGE_TOOLS: [&str; 3] = ["merge", "merge_fork", "review"];

/// Begins the owner of a review fork. The name of an agent can't begin like this.
pub const REVIEW_OWNER_PREFIX: &str = "review:";

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
    /// The fork that the operation merged, as `OWNER/FORK`, or only its name for a caller in a thread. `None` also if it was a fork of
    /// a thread that the caller may not know.
    pub merged_fork: Option<String>,
}

/// What a change did to one path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogChange {
    /// The path after the change; before it, if the node was removed, or moved to where the caller can't see it. A key of the State is `state:NAMESPACE/KEY`.
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

    /// The operations in the log whose ids begin with `prefix`, newest first, as far as the caller can see them.
    pub fn find_operations(&self, prefix: &OperationIdPrefix) -> Result<Vec<Operation>> {
        let since = Timestamp(prefix.earliest_time().0.saturating_sub(CLOCK_TOLERANCE));
        let query = LogQuery { since: Some(since), limit: usize::MAX, ..LogQuery::default() };
        let mut operations: Vec<_> = self.log(&query)?.into_iter().map(|entry| entry.operation).collect();
        let mut seen = HashSet::new();
        operations.retain(|operation| prefix.matches(operation.id) && seen.insert(operation.id));
        Ok(operations)
    }
}

impl Call<'_> {
    fn log(&self, query: &LogQuery) -> Result<Vec<LogEntry>> {
        let names_unknown_agent = query.agent.as_ref().is_some_and(|agent| !self.vfs.may_know_agent(agent));
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
                let elsewhere = self.unasked_groups().find(|other| same_store(&**other.store, &**store));
                let groups = LogGroups { elsewhere: elsewhere.unwrap_or_else(|| group.clone()), group };
                let node_path = Some(resolved.node_path.clone());
                logs.push((&**store, self.log_of_groups(&groups, query, node_path, path)?));
            }
            None => {
                require_groups(self.store_groups(Access::History), Access::History)?;
                for group in self.unasked_groups().filter(|group| !group.workspaces.is_empty()) {
                    let (store, groups) = (group.store, LogGroups { elsewhere: group.clone(), group });
                    logs.push((&**store, self.log_of_groups(&groups, query, None, &VfsPath::root())?));
                }
            }
        }
        let mut entries = newest_first(logs, |entry: &LogEntry| (entry.revision.number, entry.operation.at));
        // What is asked for by the name of an agent that the caller can't discover isn't there, as for any other name.
        entries.truncate(if names_unknown_agent { 0 } else { query.limit });
        Ok(entries)
    }

    /// The Stores whose history the caller may read, each with its Workspaces. As in a search from above, Workspaces that a person
    /// would have to approve are skipped.
    fn unasked_groups(&self) -> impl Iterator<Item = StoreGroup<'_>> {
        self.store_groups(Access::History).into_iter().map(|mut group| {
            group.workspaces.retain(|workspace| !self.vfs.approval.must_skip(workspace));
            group
        })
    }

    /// The log of one Store.
    fn log_of_groups(
        &self,
        groups: &LogGroups<'_>,
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
            let revisions = groups
                .store()
                .require_history()
                .and_then(|history| history.revisions(&store_query))
                .map_err(|cause| Error::Store {
                    path: requested.clone(),
                    visibility: Visibility::Visible,
                    cause,
                })?;
            let is_all = revisions.revisions.len() < store_query.limit;
            let entries = self.log_entries(groups, revisions.revisions, query.diff).map_err(|cause| {
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
        groups: &LogGroups<'_>,
        revisions: Vec<Revision>,
        diff: Option<DiffOptions>,
    ) -> StoreResult<Vec<LogEntry>> {
        let store = groups.store();
        let mut entries = Vec::new();
        for revision in revisions {
            let groups = &groups.as_of(revision.operation.at);
            let mut changes: Vec<LogChange> =
                revision.changes.iter().filter_map(|change| self.log_change(groups, change)).collect();
            changes.sort_by(|one, other| one.path.cmp(&other.path));
            if changes.is_empty() {
                continue;
            }
            let differences = match diff {
                Some(options) => self.log_differences(groups, &revision.changes, options)?,
                None => Vec::new(),
            };
            let Revision { number, operation, undoes, undone, .. } = revision;
            let revision = store.revision(number);
            let merged_fork = match MERGE_TOOLS.contains(&&*operation.tool) {
                true => merged_fork(&**store, operation.id)?,
                false => None,
            };
            let merged_fork = merged_fork.and_then(|fork| self.visible_fork(&fork, &operation.identity));
            let operation = self.without_withheld_names(operation);
            entries.push(LogEntry { operation, revision, changes, differences, undoes, undone, merged_fork });
        }
        Ok(entries)
    }

    /// A merged fork, `OWNER/FORK`, as the caller may know it. A thread's forks have no name in other threads, nor for other agents.
    /// Only the fork's own name is shown to a caller in a thread, and to one that can't discover the owner.
    fn visible_fork(&self, fork: &str, merged_by: &Identity) -> Option<String> {
        let Some((owner, name)) = fork.rsplit_once('/') else { return Some(fork.to_owned()) };
        let owner_name = owner.strip_prefix(REVIEW_OWNER_PREFIX).unwrap_or(owner);
        let (caller, is_in_thread) = (&self.shared().identity, self.shared().lease.is_some());
        let is_own_merge = merged_by.agent == caller.agent && merged_by.thread == caller.thread;
        if is_own_merge && owner.starts_with(REVIEW_OWNER_PREFIX) {
            // The caller has reviewed it under this name.
            return Some(fork.to_owned());
        }
        let below = |owner: &str, above: &str| {
            owner.strip_prefix(above).and_then(|rest| rest.strip_prefix('/')).map(str::to_owned)
        };
        let is_known = match below(owner_name, &caller.agent) {
            // A thread of the caller's agent.
            Some(thread) => !is_in_thread || caller.thread.as_deref() == Some(&*thread),
            None if owner_name == caller.agent => true,
            None => {
                // A name with a slash is that of an organization's agent, or that of another agent's thread.
                let organizations = [caller, merged_by].map(|identity| identity.organization.as_deref());
                let is_organization_s = organizations
                    .into_iter()
                    .flatten()
                    .any(|organization| below(owner_name, organization).is_some());
                is_organization_s || !owner_name.contains('/')
            }
        };
        let is_owner_shown = !is_in_thread && self.vfs.may_know_owner(owner_name);
        is_known.then(|| if is_owner_shown { fork.to_owned() } else { name.to_owned() })
    }

    /// How the nodes that one revision changed differ from their states before it.
    fn log_differences(
        &self,
        groups: &LogGroups<'_>,
        changes: &[NodeChange],
        options: DiffOptions,
    ) -> StoreResult<Vec<Difference>> {
        let mut differences = Vec::new();
        for change in changes {
            let Some(VisibleChange { group, before, after }) = self.visible_change(groups, change) else {
                continue;
            };
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

    fn log_change(&self, groups: &LogGroups<'_>, change: &NodeChange) -> Option<LogChange> {
        let VisibleChange { group, before, after } = self.visible_change(groups, change)?;
        let action = match after {
            None => LogAction::Removed,
            Some(_) => LogAction::from_change(change)?,
        };
        let state = after.or(before)?;
        // The directories of the State are no keys.
        if group.state().is_some() && state.kind == NodeKind::Directory {
            return None;
        }
        let path = self.logical_path(group, &state.path)?;
        let from = match (before, action) {
            (Some(before), LogAction::Moved) => self.logical_path(group, &before.path),
            _ => None,
        };
        Some(LogChange { path, from, action, kind: state.kind, size: state.size })
    }

    /// What the caller may see of a change: one of the Workspaces that the log is about shows the node before it or after it. A state
    /// that lies where the caller may not look is left out, so what was moved there counts as removed.
    fn visible_change<'g, 'w, 'c>(
        &self,
        groups: &'g LogGroups<'w>,
        change: &'c NodeChange,
    ) -> Option<VisibleChange<'g, 'w, 'c>> {
        let visible_in = |group: &'g StoreGroup<'w>| {
            let is_visible = |state: &&NodeState| self.logical_path(group, &state.path).is_some();
            let (before, after) = (change.before.as_ref(), change.after.as_ref());
            VisibleChange { group, before: before.filter(is_visible), after: after.filter(is_visible) }
        };
        let visible = visible_in(&groups.group);
        if visible.before.is_none() && visible.after.is_none() {
            return None;
        }
        let is_partial = (visible.before.is_some(), visible.after.is_some())
            != (change.before.is_some(), change.after.is_some());
        if !is_partial {
            return Some(visible);
        }
        // Another Workspace of the caller may show the other place.
        let elsewhere = visible_in(&groups.elsewhere);
        let shows_more = elsewhere.before.is_some() && elsewhere.after.is_some();
        Some(if shows_more { elsewhere } else { visible })
    }
}

/// The Workspaces that the log of one Store is about.
struct LogGroups<'a> {
    group: StoreGroup<'a>,
    /// All Workspaces over the Store whose history the caller may read: what was moved is shown with both of its places.
    elsewhere: StoreGroup<'a>,
}

impl<'a> LogGroups<'a> {
    fn store(&self) -> &'a Arc<dyn Store> {
        self.group.store
    }

    fn as_of(&self, time: Timestamp) -> Self {
        LogGroups { group: self.group.as_of(time), elsewhere: self.elsewhere.as_of(time) }
    }
}

/// What the caller may see of a change.
struct VisibleChange<'g, 'w, 'c> {
    /// The Workspaces that show the states.
    group: &'g StoreGroup<'w>,
    before: Option<&'c NodeState>,
    after: Option<&'c NodeState>,
}
