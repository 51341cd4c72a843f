//! History at the door: log, diff, blame, undo and restore.
//!
//! Each Store returns its own revisions. Here they become one history of the Workspaces, in logical paths and
//! authorized by scope: reading needs [`Access::History`], undo and restore need [`Access::Restore`].

mod compare;
mod execute;
mod log;
mod merge;
mod order;
mod restore;
mod undo;

pub use compare::{BlameLine, DiffOptions, Difference, DifferenceKind};
pub use log::{LogAction, LogChange, LogEntry, LogQuery, REVIEW_OWNER_PREFIX};
pub use merge::{
    ChangedContent, ForkHandle, ForkState, MergeAction, MergeChange, MergeChoice, MergeConflict,
    MergeConflictKind, MergeHunk, MergeOptions, MergeResult, MergeRule, RestOfPart, RetaggedFile, RulePaths,
    SideState, UnmergedChanges,
};
pub use restore::{RestoreOptions, check_exists};
pub use undo::{IncompleteUndo, OnConflict, PathChange, PathConflict, RevertResult, UndoOptions, UndoTarget};

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::error::{Error, Result, Visibility};
use crate::identity::{Identity, Operation, SYSTEM_AGENT};
use crate::organization::WORKSPACES_DIRECTORY;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{
    ContentRef, NodeState, RevisionNumber, RevisionSet, Store, StoreError, StorePath, StoreResult,
};
use crate::vfs::Vfs;
use crate::vfs::as_of::{PointInTime, own_numbers_error};
use crate::vfs::call::Call;
use crate::vfs::resolve::Authorized;
use crate::vfs::state::logged_path;
use crate::vfs::write::same_store;
use crate::workspace::Workspace;

/// The largest content that is merged, compared or blamed, in bytes.
const MAX_CONTENT_SIZE: u64 = 256 << 20;

/// Stands for an agent whose name is withheld. No agent can have this name.
const WITHHELD_AGENT: &str = "another agent";

/// Where organizations have their folders: the present layout's directory, and those of the old one.
const FOLDER_DIRECTORIES: [&str; 3] = [WORKSPACES_DIRECTORY, "agents", "teams"];

/// A Store, and the Workspaces over it.
#[derive(Clone)]
struct StoreGroup<'a> {
    store: &'a Arc<dyn Store>,
    workspaces: Vec<&'a Workspace>,
}

impl<'a> StoreGroup<'a> {
    /// The Workspace of the State, if this is the group of its Store.
    fn state(&self) -> Option<&'a Workspace> {
        self.workspaces.first().copied().filter(|workspace| workspace.prefix().is_state())
    }

    /// The group without the Workspaces whose directories weren't the caller's own at this time.
    fn as_of(&self, time: Timestamp) -> Self {
        let workspaces = self.workspaces.iter().copied().filter(|workspace| workspace.was_own_at(time));
        StoreGroup { store: self.store, workspaces: workspaces.collect() }
    }

    /// Removes from revisions what happened in a Workspace before its directory was the caller's own. What was moved from there
    /// to another place then counts as created.
    fn remove_before_own(&self, revisions: &mut RevisionSet) {
        for revision in &mut revisions.revisions {
            let time = revision.operation.at;
            let earlier: Vec<_> =
                self.workspaces.iter().filter(|workspace| !workspace.was_own_at(time)).collect();
            if earlier.is_empty() {
                continue;
            }
            let is_earlier = |state: &mut NodeState| {
                earlier.iter().any(|workspace| state.path.is_at_or_below(workspace.mount().path()))
            };
            for change in &mut revision.changes {
                change.before.take_if(is_earlier);
                change.after.take_if(is_earlier);
            }
            revision.changes.retain(|change| change.before.is_some() || change.after.is_some());
        }
    }

    /// An error of the Store, with the prefix of the first Workspace as its path.
    fn store_error(&self, cause: StoreError) -> Error {
        Error::Store { path: self.workspaces[0].prefix().clone(), visibility: Visibility::Visible, cause }
    }
}

impl Vfs {
    /// Whether the caller may learn that an agent exists. An agent of an organization may learn of those agents of it that
    /// have a folder among the caller's Workspaces; everyone else of all.
    pub fn may_know_agent(&self, agent: &str) -> bool {
        let caller = &self.shared.identity;
        let Some(organization) = &caller.organization else { return true };
        if agent == caller.agent || agent == SYSTEM_AGENT {
            return true;
        }
        let Some(id) = agent.strip_prefix(&**organization).and_then(|rest| rest.strip_prefix('/')) else {
            return false;
        };
        let has_folder = |directory: &str| {
            let folders = VfsPath::parse(&format!("/{directory}/{id}"));
            folders.is_ok_and(|folders| self.shared.router.nested(&folders).next().is_some())
        };
        FOLDER_DIRECTORIES.into_iter().any(has_folder)
    }

    /// Whether the caller may learn that an owner of forks exists: an agent, or a thread of it.
    pub fn may_know_owner(&self, owner: &str) -> bool {
        let organization = self.shared.identity.organization.as_deref().unwrap_or_default();
        let id = owner.strip_prefix(organization).and_then(|rest| rest.strip_prefix('/'));
        match id.and_then(|id| id.split_once('/')) {
            Some((id, _)) => self.may_know_agent(&format!("{organization}/{id}")),
            None => self.may_know_agent(owner),
        }
    }
}

impl Call<'_> {
    /// An operation as the caller may see it. Withheld are the names of other threads, except from their own agent outside of
    /// threads, and the names of agents that the caller can't discover.
    fn without_withheld_names(&self, operation: Operation) -> Operation {
        let (caller, author) = (&self.shared().identity, &operation.identity);
        if !self.vfs.may_know_agent(&author.agent) {
            return Operation { identity: Arc::new(Identity::agent(WITHHELD_AGENT)), ..operation };
        }
        let is_own = (&caller.agent, &caller.thread) == (&author.agent, &author.thread);
        let is_agents = self.shared().lease.is_none() && caller.agent == author.agent;
        if author.thread.is_none() || is_own || is_agents {
            return operation;
        }
        let identity = Arc::new(Identity { thread: None, ..Identity::clone(author) });
        Operation { identity, ..operation }
    }

    /// The Stores with history, each with the Workspaces that allow this access.
    fn store_groups(&self, access: Access) -> Vec<StoreGroup<'_>> {
        let mut groups: Vec<StoreGroup<'_>> = Vec::new();
        for workspace in self.vfs.workspaces().filter(|workspace| self.shared().allows(workspace, access)) {
            let store = workspace.mount().store();
            match groups.iter_mut().find(|group| same_store(&**group.store, &**store)) {
                Some(group) => group.workspaces.push(workspace),
                None if store.history().is_some() => {
                    groups.push(StoreGroup { store, workspaces: vec![workspace] })
                }
                None => {}
            }
        }
        if let Some(state) = self.state_with_history(access) {
            groups.push(StoreGroup { store: state.mount().store(), workspaces: vec![state] });
        }
        groups
    }

    /// The Workspace of the State, if its history allows this access.
    fn state_with_history(&self, access: Access) -> Option<&Workspace> {
        let is_usable = |state: &&Workspace| {
            state.barrier().is_none()
                && state.scope().allows(access)
                && state.mount().store().history().is_some()
        };
        self.shared().router.state().map(|state| &**state).filter(is_usable)
    }

    /// The Workspaces that a call on a path and everything below it affects: the one that the path lies in, and those
    /// nested below. Nested Workspaces that refuse the access are returned with the reason instead.
    fn history_targets(&self, path: &VfsPath, access: Access) -> Result<HistoryTargets<'_>> {
        self.history_targets_and_state(path, access, None)
    }

    /// Like [`Call::history_targets`]; if `state` is given, the State as a whole is one more target.
    fn history_targets_and_state<'a>(
        &'a self,
        path: &VfsPath,
        access: Access,
        state: Option<&'a Workspace>,
    ) -> Result<HistoryTargets<'a>> {
        let mut found = HistoryTargets { main: None, targets: Vec::new(), refused: Vec::new() };
        if let Authorized::InWorkspace(resolved) = self.route_and_authorize(path, access)? {
            check_history(resolved.workspace)?;
            found.main = Some(resolved.workspace);
            found.targets.push((resolved.workspace, resolved.node_path.path));
        }
        for workspace in self.shared().router.nested(path).filter(|nested| !nested.is_absent()) {
            let checked = self.authorize(workspace.prefix(), access).and_then(|_| check_history(workspace));
            match checked {
                Ok(()) => found.targets.push((workspace, workspace.mount().path().clone())),
                // One approval covers everything.
                Err(error @ Error::ApprovalRequired { .. }) => return Err(error),
                Err(error) => found.refused.push((workspace.prefix().clone(), error)),
            }
        }
        if let Some(state) = state {
            self.authorize_state(state.prefix(), access)?;
            found.targets.push((state, state.mount().path().clone()));
        }
        if found.targets.is_empty() { Err(no_history_error(access)) } else { Ok(found) }
    }

    /// The logical path of a path in a Store, or the name of something in the State, if one of the Workspaces shows it and doesn't hide it. If several do, the
    /// one with the deepest mount.
    fn logical_path(&self, group: &StoreGroup<'_>, path: &StorePath) -> Option<VfsPath> {
        if let Some(state) = group.state() {
            return logged_path(state, path);
        }
        let mut found: Option<(usize, VfsPath)> = None;
        for workspace in &group.workspaces {
            let mount = workspace.mount().path();
            let logical = path
                .strip_prefix(mount)
                .and_then(|relative_path| std::str::from_utf8(relative_path).ok())
                .filter(|relative_path| !workspace.hide().hides(relative_path))
                .and_then(|relative_path| workspace.prefix().join(relative_path).ok());
            if let Some(logical) = logical
                && self.routes_to(&logical, workspace)
                && found.as_ref().is_none_or(|(depth, _)| mount.depth() >= *depth)
            {
                found = Some((mount.depth(), logical));
            }
        }
        found.map(|(_, path)| path)
    }

    /// Whether a path in a Store is above the Mount of one of these Workspaces. If the Mount doesn't exist yet, the directories above it
    /// are made with the first file in it; no Workspace shows them.
    fn is_above_a_mount(&self, group: &StoreGroup<'_>, path: &StorePath) -> bool {
        group.workspaces.iter().any(|workspace| {
            let mount = workspace.mount().path();
            mount != path && mount.is_at_or_below(path)
        })
    }

    /// The paths in a Workspace's Store that the Workspace doesn't show, because Workspaces nested in it have their
    /// places.
    fn hidden_paths(&self, workspace: &Workspace) -> Vec<StorePath> {
        let nested = self.shared().router.nested(workspace.prefix());
        let places = nested.filter_map(|nested| nested.prefix().strip_prefix(workspace.prefix()));
        places.map(|place| workspace.mount().path().join(&StorePath::from_checked(place))).collect()
    }

    /// Whether a path belongs to this Workspace itself, not to one nested in it.
    fn routes_to(&self, path: &VfsPath, workspace: &Workspace) -> bool {
        self.shared().router.route(path).is_some_and(|route| route.workspace.prefix() == workspace.prefix())
    }
}

/// The Workspaces that a call affects, and which part of each.
struct HistoryTargets<'a> {
    /// The Workspace that the path lies in, if any.
    main: Option<&'a Workspace>,
    targets: Vec<(&'a Workspace, StorePath)>,
    /// The Workspaces that refuse the access, and why.
    refused: Vec<(VfsPath, Error)>,
}

/// A part of a Workspace, and the revisions of its Store at some points in time.
type PastTarget<'a, const N: usize> = (&'a Workspace, StorePath, [RevisionNumber; N]);

impl<'a> HistoryTargets<'a> {
    /// Takes the targets, with the revisions of their Stores at these points in time. A Workspace whose Store doesn't have
    /// one of the points, or can't be opened, is added to `refused`. Fails if that is the Workspace that the path lies in,
    /// or all of them.
    fn take_at<const N: usize>(&mut self, points: [&PointInTime; N]) -> Result<Vec<PastTarget<'a, N>>> {
        let (mut found, mut last_error) = (Vec::new(), None);
        for (workspace, store_path) in std::mem::take(&mut self.targets) {
            let path = workspace.prefix().clone();
            let (reason, error) = match revisions_in(&**workspace.mount().store(), points) {
                Ok(Some(revisions)) => {
                    found.push((workspace, store_path, revisions));
                    continue;
                }
                Ok(None) => (
                    "its Store has its own version numbers; name this path alone, with one of its own versions or a time"
                        .to_owned(),
                    own_numbers_error(&path),
                ),
                Err(cause) => {
                    let (reason, is_unavailable) =
                        (cause.to_string(), matches!(cause, StoreError::Unavailable { .. }));
                    let error = Error::Store { path: path.clone(), visibility: Visibility::Visible, cause };
                    if !is_unavailable {
                        return Err(error);
                    }
                    (reason, error)
                }
            };
            if self.main.is_some_and(|main| *main.prefix() == path) {
                return Err(error);
            }
            self.refused.push((path, Error::Invalid(reason)));
            last_error = Some(error);
        }
        match last_error {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(found),
        }
    }
}

/// A Store's revisions at several points in time; `None` if it doesn't have all of these points.
fn revisions_in<const N: usize>(
    store: &dyn Store,
    points: [&PointInTime; N],
) -> StoreResult<Option<[RevisionNumber; N]>> {
    let mut revisions = [RevisionNumber::NOW; N];
    for (revision, point) in revisions.iter_mut().zip(points) {
        match point.revision_in(store)? {
            Some(number) => *revision = number,
            None => return Ok(None),
        }
    }
    // Whether the Store can be opened at all shows here, before the first change.
    store.require_history()?.latest_revision()?;
    Ok(Some(revisions))
}

/// Fails if the Workspace's Store has no history.
fn check_history(workspace: &Workspace) -> Result<()> {
    if workspace.mount().store().history().is_some() {
        return Ok(());
    }
    let cause = StoreError::unsupported("this Store keeps no history");
    Err(Error::Store { path: workspace.prefix().clone(), visibility: Visibility::Visible, cause })
}

/// Reads the whole content that a reference names.
fn read_content(store: &dyn Store, content_ref: &ContentRef) -> StoreResult<Vec<u8>> {
    if content_ref.size() > MAX_CONTENT_SIZE {
        return Err(StoreError::TooLarge { size: content_ref.size(), limit: MAX_CONTENT_SIZE });
    }
    let content = store.require_history()?.open_content(content_ref)?;
    let mut bytes = vec![0; usize::try_from(content_ref.size()).expect("it is below the limit")];
    let mut done = 0;
    while done < bytes.len() {
        match content.read_at(done as u64, &mut bytes[done..])? {
            0 => return Err(StoreError::Corrupt("stored content is shorter than its recorded size".into())),
            count => done += count,
        }
    }
    Ok(bytes)
}

/// The error for something that the history doesn't contain.
fn not_in_history(missing: impl std::fmt::Display) -> Error {
    Error::NotInHistory(missing.to_string())
}

/// The error if no Workspace has a history that allows this access.
fn no_history_error(access: Access) -> Error {
    let message = match access {
        Access::Restore => {
            "none of your Workspaces can be restored: this needs READ_WRITE and a Store with history"
        }
        _ => "none of your Workspaces has a history that you may read",
    };
    Error::Invalid(message.to_owned())
}

/// Fails if no Store allows this access to its history.
fn require_groups<T>(groups: Vec<T>, access: Access) -> Result<Vec<T>> {
    if groups.is_empty() { Err(no_history_error(access)) } else { Ok(groups) }
}
