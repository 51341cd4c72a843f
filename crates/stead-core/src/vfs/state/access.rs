//! Authorizing calls on a State, also in its past.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::error::{Error, Result, Visibility};
use crate::path::VfsPath;
use crate::router::WorkspaceNames;
use crate::scope::Access;
use crate::store::{RevisionQuery, StoreError, StoreResult};
use crate::vfs::as_of::{PastWorkspace, PointInTime, past_workspace};
use crate::vfs::call::Call;
use crate::workspace::{Barrier, Workspace};

impl<'v> Call<'v> {
    /// Authorizes an access to something in the State, and returns the State's Workspace. `path` is its name in the
    /// history and the audit.
    pub(in crate::vfs) fn authorize_state(&self, path: &VfsPath, access: Access) -> Result<&'v Workspace> {
        let state = self.shared().router.state().ok_or_else(|| Error::Invalid("you have no State".into()))?;
        self.scope.set(Some(state.scope()));
        if !state.scope().allows(access) {
            return Err(Error::ScopeDenied {
                path: path.clone(),
                workspace: state.prefix().clone(),
                scope: state.scope(),
                access,
                allowed: WorkspaceNames::default(),
            });
        }
        if let Some(barrier) = state.barrier() {
            let (path, workspace) = (path.clone(), state.prefix().clone());
            return Err(Error::BehindBarrier { path, workspace, barrier: barrier.clone() });
        }
        if self.vfs.approval.needs_approval(path, access, Some(state)) {
            return Err(Error::ApprovalRequired { path: path.clone(), workspace: state.prefix().clone() });
        }
        Ok(state)
    }

    /// Authorizes an access to what the history names: a path, or something in the State.
    pub(in crate::vfs) fn authorize_logged(&self, path: &VfsPath, access: Access) -> Result<()> {
        if path.is_state() {
            self.authorize_state(path, access).map(drop)
        } else {
            self.authorize(path, access).map(drop)
        }
    }

    /// The time by which keys have expired: the present, or the time of a view of the past.
    pub(super) fn state_now(&self) -> Timestamp {
        self.shared().state_time.unwrap_or_else(|| self.shared().clock.now())
    }

    /// The State at a point in time: read-only, or a barrier with a reason. Also returns the time of that point, by which
    /// keys have expired; `None` for the present time.
    pub(in crate::vfs) fn past_state(
        &self,
        point: &PointInTime,
    ) -> (Option<Arc<Workspace>>, Option<Timestamp>) {
        let Some(state) = self.shared().router.state() else { return (None, None) };
        let past = past_workspace(state, point).and_then(|past| Ok((past, self.time_of(point)?)));
        let (past, time) = match past {
            Ok((PastWorkspace::Visible(past), time)) => (*past, time),
            Ok((PastWorkspace::Barrier(reason), _)) | Err(StoreError::Unsupported(reason)) => {
                (Workspace::clone(state).as_barrier(Barrier::NotInPast(reason)), None)
            }
            Err(cause) => {
                let reason = Barrier::NotInPast(cause.to_string().into());
                (Workspace::clone(state).as_barrier(reason), None)
            }
        };
        (Some(Arc::new(past)), time)
    }

    /// The time of a point in time: for revisions, when the newest of them was made.
    fn time_of(&self, point: &PointInTime) -> StoreResult<Option<Timestamp>> {
        let revisions = match point {
            PointInTime::Now => return Ok(None),
            PointInTime::Time(time) => return Ok(Some(*time)),
            // One revision has been replaced by those of all Stores that share its numbers.
            PointInTime::Revision(_) => return Ok(None),
            PointInTime::Revisions(revisions) => revisions,
        };
        let router = &self.shared().router;
        let mut newest = Timestamp(i64::MIN);
        for workspace in router.workspaces().chain(router.state()) {
            let store = workspace.mount().store();
            let (Some(history), Some(number)) = (store.history(), revisions.get(store.id())) else {
                continue;
            };
            let query = RevisionQuery { up_to: number, limit: 1, ..RevisionQuery::all() };
            let times =
                history.revisions(&query)?.revisions.into_iter().map(|revision| revision.operation.at);
            newest = times.fold(newest, Timestamp::max);
        }
        Ok(Some(newest))
    }
}

/// A Store's error, for something in the State.
pub(super) fn store_error(path: &VfsPath, cause: StoreError) -> Error {
    Error::Store { path: path.clone(), visibility: Visibility::Visible, cause }
}
