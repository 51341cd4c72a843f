//! The Workspaces at a point in time in the past.
//!
//! Every Workspace keeps its prefix, so that the content of an outer Workspace doesn't show through. One whose history
//! may not be read, or that has no state for that time, becomes a barrier with a reason.

use std::borrow::Cow;
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::error::{Error, Result, Visibility};
use crate::path::VfsPath;
use crate::router::Router;
use crate::scope::Access;
use crate::store::{RevisionId, RevisionNumber, Store, StoreError, StoreResult, StoreRevisions};
use crate::vfs::call::Call;
use crate::vfs::{IntoPath, Vfs};
use crate::workspace::{Barrier, Workspace};

/// A point in time, for several Stores at once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PointInTime {
    /// The present, with changes by other programs that no revision records.
    Now,
    /// A time. Each Store has its own newest revision at that time.
    Time(Timestamp),
    /// When this was the newest revision of its Store, and so of every Store of the same database. No other Store has this
    /// point in time.
    Revision(RevisionId),
    /// One revision for each of several Stores. A Store that isn't in the set doesn't have this point in time.
    Revisions(StoreRevisions),
}

impl PointInTime {
    /// A Store's revision at this point in time; `None` if the Store doesn't have this point. [`PointInTime::Revision`]
    /// counts for its own Store only.
    pub fn revision_in(&self, store: &dyn Store) -> StoreResult<Option<RevisionNumber>> {
        Ok(match self {
            PointInTime::Now => Some(RevisionNumber::NOW),
            PointInTime::Time(time) => Some(store.require_history()?.revision_at(*time)?),
            PointInTime::Revision(revision) => (revision.store == store.id()).then_some(revision.number),
            PointInTime::Revisions(revisions) => revisions.get(store.id()),
        })
    }
}

impl From<Timestamp> for PointInTime {
    fn from(time: Timestamp) -> Self {
        PointInTime::Time(time)
    }
}

impl From<RevisionId> for PointInTime {
    fn from(revision: RevisionId) -> Self {
        PointInTime::Revision(revision)
    }
}

impl From<StoreRevisions> for PointInTime {
    fn from(revisions: StoreRevisions) -> Self {
        PointInTime::Revisions(revisions)
    }
}

impl Vfs {
    /// Returns the Workspaces as they were at a point in time: read-only, and only those whose history may be read.
    ///
    /// A Workspace on a Store without history, on one that didn't exist yet, or on one without this point in time becomes a
    /// barrier: nothing can be done in it, and the content of an outer Workspace doesn't show in its place. At
    /// [`PointInTime::Now`], such a Store is shown as it is at each read.
    pub fn as_of(&self, point: impl Into<PointInTime>) -> Result<Vfs> {
        let point = point.into();
        self.call("as_of", [], |call, []| call.as_of(&call.resolve_point(point)?))
    }

    /// The revision that the Store behind a path had at a point in time; its newest one for [`PointInTime::Now`].
    pub fn revision_at(&self, path: impl IntoPath, point: impl Into<PointInTime>) -> Result<RevisionId> {
        let point = point.into();
        self.call("revision_at", [path.into_path()], |call, [path]| {
            let resolved = call.authorize(path, Access::History)?;
            let point = call.resolve_point(point)?;
            let number = match point {
                PointInTime::Now => {
                    resolved.store().require_history().and_then(|history| history.latest_revision()).map(Some)
                }
                point => point.revision_in(resolved.store()),
            };
            let number = number.map_err(|cause| resolved.store_error(cause))?;
            Ok(resolved.store().revision(number.ok_or_else(|| own_numbers_error(path))?))
        })
    }

    /// The Stores of these Workspaces at the point in time of a revision: its own Store, and every other one of the same
    /// database. Empty if none of the Workspaces is on its Store.
    pub fn store_revisions(&self, revision: RevisionId) -> StoreRevisions {
        let workspaces = || self.workspaces().chain(self.shared.router.state().map(|state| &**state));
        let stores = || workspaces().map(|workspace| &**workspace.mount().store());
        let Some(own_store) = stores().find(|store| store.id() == revision.store) else {
            return StoreRevisions::default();
        };
        let sharing = stores().filter(|store| store.shares_revisions_with(own_store));
        sharing.map(|store| store.revision(revision.number)).collect()
    }
}

/// A Workspace at a point in time: readable, or a barrier with a reason.
pub(super) enum PastWorkspace {
    Visible(Box<Workspace>),
    Barrier(Cow<'static, str>),
}

impl Call<'_> {
    fn as_of(&self, point: &PointInTime) -> Result<Vfs> {
        let (mut workspaces, mut visible, mut first_error) = (Vec::new(), 0, None);
        let mut has_reason = false;
        for workspace in self.shared().router.workspaces_and_barriers() {
            let failed = |cause| {
                let visibility = Visibility::of(workspace.scope());
                Error::Store { path: workspace.prefix().clone(), visibility, cause }
            };
            let reason = match past_workspace(workspace, point) {
                Ok(PastWorkspace::Visible(readable)) => {
                    visible += 1;
                    workspaces.push(*readable);
                    continue;
                }
                Ok(PastWorkspace::Barrier(reason)) | Err(StoreError::Unsupported(reason)) => {
                    has_reason = true;
                    reason
                }
                Err(cause @ StoreError::NotFound) if workspace.fork_origin().is_some() => {
                    first_error = first_error.or(Some(failed(cause)));
                    workspaces.push(Workspace::clone(workspace).as_barrier(Barrier::NotMadeYet));
                    continue;
                }
                // A fork has no revision from before it was made. A revision that no Store has doesn't exist.
                Err(cause @ StoreError::NotFound) => {
                    first_error = first_error.or(Some(failed(cause)));
                    "it didn't exist yet".into()
                }
                Err(cause @ StoreError::Unavailable { .. }) => {
                    first_error = first_error.or(Some(failed(cause)));
                    "its Store can't be used at present".into()
                }
                Err(cause) => return Err(failed(cause)),
            };
            let barrier = workspace.barrier().cloned().unwrap_or(Barrier::NotInPast(reason));
            workspaces.push(Workspace::clone(workspace).as_barrier(barrier));
        }
        // What is read in a Workspace that can't be shown says why. Only if there is none, the first error stands for all.
        if let (0, false, Some(first_error)) = (visible, has_reason, first_error) {
            return Err(first_error);
        }
        let router = Router::new(workspaces).expect("the prefixes are unchanged, so they still differ");
        let (state, state_time) = self.past_state(point);
        Ok(self.vfs.with_router(router.with_state(state), state_time))
    }

    /// Replaces one Store's revision by those of all Stores that share its numbers. Fails if no Workspace is on its Store.
    pub(super) fn resolve_point(&self, point: PointInTime) -> Result<PointInTime> {
        let PointInTime::Revision(revision) = point else { return Ok(point) };
        let revisions = self.vfs.store_revisions(revision);
        if revisions == StoreRevisions::default() {
            return Err(Error::NotInHistory(format!("version {}", revision.number)));
        }
        Ok(PointInTime::Revisions(revisions))
    }
}

/// The error for a path whose Store doesn't have the point in time.
pub(super) fn own_numbers_error(path: &VfsPath) -> Error {
    Error::Invalid(format!("the Store of `{path}` has its own version numbers; use a time"))
}

pub(super) fn past_workspace(workspace: &Workspace, point: &PointInTime) -> StoreResult<PastWorkspace> {
    if workspace.barrier().is_some() {
        return Ok(PastWorkspace::Barrier("it isn't part of this view".into()));
    }
    if !workspace.scope().allows(Access::History) {
        return Ok(PastWorkspace::Barrier("the history of a WRITE_ONLY Workspace can't be read".into()));
    }
    let store = workspace.mount().store();
    // A Store that can't show earlier versions still shows the present one.
    let present = || PastWorkspace::Visible(Box::new(workspace.clone().past_view(Arc::clone(store))));
    let is_now = *point == PointInTime::Now;
    let Some(history) = store.history() else {
        if is_now {
            return Ok(present());
        }
        return Ok(PastWorkspace::Barrier("its Store keeps no history".into()));
    };
    let Some(revision) = point.revision_in(&**store)? else {
        return Ok(PastWorkspace::Barrier(
            "its Store has its own version numbers; use a time instead".into(),
        ));
    };
    match history.as_of(revision) {
        Err(StoreError::Unsupported(_)) if is_now => Ok(present()),
        past => Ok(PastWorkspace::Visible(Box::new(workspace.clone().past_view(past?)))),
    }
}
