//! The Workspaces at a point in time in the past.
//!
//! Every Workspace keeps its prefix, so that the content of an outer Workspace doesn't show through. One whose history
//! may not be read, or that has no state for that time, becomes a barrier with a reason.

use crate::clock::Timestamp;
use crate::error::{Error, Result, Visibility};
use crate::path::VfsPath;
use crate::router::Router;
use crate::scope::Access;
use crate::store::{RevisionNumber, RevisionSequence, Store, StoreError, StoreResult};
use crate::vfs::Vfs;
use crate::vfs::call::Call;
use crate::workspace::{Barrier, Workspace};

/// A point in time, for several Stores at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PointInTime {
    /// A revision number. It names one point in time only if all Stores share one revision sequence.
    Revision(RevisionNumber),
    /// A revision number in the sequence of the Store behind this path. Stores with another sequence become barriers.
    RevisionAt(RevisionNumber, VfsPath),
    /// A time. Each Store uses its own latest revision at that time.
    Time(Timestamp),
}

impl From<RevisionNumber> for PointInTime {
    fn from(version: RevisionNumber) -> Self {
        PointInTime::Revision(version)
    }
}

impl From<Timestamp> for PointInTime {
    fn from(time: Timestamp) -> Self {
        PointInTime::Time(time)
    }
}

impl Vfs {
    /// Returns the Workspaces as they were at a point in time: read-only, and only those whose history may be read.
    ///
    /// A Workspace on a Store without history, on one that didn't exist yet, or on one with another revision sequence
    /// becomes a barrier: nothing can be done in it, and the content of an outer Workspace doesn't show in its place.
    pub fn as_of(&self, point: impl Into<PointInTime>) -> Result<Vfs> {
        let point = point.into();
        self.call("as_of", [], |call, []| call.as_of(&point))
    }
}

/// A Workspace at a point in time: readable, or a barrier with a reason.
enum PastWorkspace {
    Visible(Workspace),
    Barrier(&'static str),
}

impl Call<'_> {
    fn as_of(&self, point: &PointInTime) -> Result<Vfs> {
        let count = self.sequence_for(point)?;
        let (mut workspaces, mut visible, mut unknown) = (Vec::new(), 0, None);
        for workspace in self.shared().router.workspaces_and_barriers() {
            let failed = |cause| {
                let sight = Visibility::of(workspace.scope());
                Error::Store { path: workspace.prefix().clone(), visibility: sight, cause }
            };
            let why = match past_workspace(workspace, point, count) {
                Ok(PastWorkspace::Visible(past)) => {
                    visible += 1;
                    workspaces.push(past);
                    continue;
                }
                Ok(PastWorkspace::Barrier(why)) => why,
                Err(StoreError::Unsupported(why)) => why,
                // A fork has no revision from before it was made. A revision that no Store has doesn't exist.
                Err(cause @ StoreError::NotFound) => {
                    unknown = unknown.or(Some(failed(cause)));
                    "it didn't exist yet"
                }
                Err(cause) => return Err(failed(cause)),
            };
            let barrier = workspace.barrier().unwrap_or(Barrier::NotInPast(why));
            workspaces.push(Workspace::clone(workspace).as_barrier(barrier));
        }
        if let (0, Some(unknown)) = (visible, unknown) {
            return Err(unknown);
        }
        Ok(self
            .vfs
            .with_router(Router::new(workspaces).expect("the prefixes are unchanged, so they still differ")))
    }

    /// The sequence that a revision number belongs to. Fails if the Stores have different sequences, since the number
    /// would mean another time in each.
    fn sequence_for(&self, point: &PointInTime) -> Result<Option<RevisionSequence>> {
        let router = &self.shared().router;
        match point {
            PointInTime::Time(_) | PointInTime::Revision(RevisionNumber::NOW) => Ok(None),
            PointInTime::RevisionAt(_, path) => {
                Ok(router.route(path).and_then(|route| sequence_of_store(&**route.workspace.mount().store())))
            }
            PointInTime::Revision(version) => {
                let mut known: Option<(&Workspace, RevisionSequence)> = None;
                for workspace in router.workspaces().filter(|one| one.scope().allows(Access::History)) {
                    let store = &**workspace.mount().store();
                    if store.history().is_none() {
                        continue;
                    }
                    let Some(here) = sequence_of_store(store) else { continue };
                    match known {
                        Some((first, other)) if other != here => {
                            return Err(Error::Invalid(format!(
                                "`{}` and `{}` have separate version numbers, so version {version} is ambiguous; use \
                                 a time, or a path in one of them",
                                first.prefix(),
                                workspace.prefix()
                            )));
                        }
                        _ => known = Some((workspace, here)),
                    }
                }
                Ok(known.map(|(_, count)| count))
            }
        }
    }
}

/// Whether a revision number means the same point in time in both Stores.
pub(super) fn share_sequence(one: &dyn Store, other: &dyn Store) -> bool {
    match (sequence_of_store(one), sequence_of_store(other)) {
        (Some(one), Some(other)) => one == other,
        (None, _) | (_, None) => true,
    }
}

/// The sequence that a Store numbers its revisions in: its own if it names none, `None` as long as it has no revisions.
fn sequence_of_store(store: &dyn Store) -> Option<RevisionSequence> {
    let history = store.history();
    let is_new = || {
        history
            .is_some_and(|history| history.latest_revision().is_ok_and(|latest| latest == RevisionNumber(0)))
    };
    match history.and_then(|history| history.revision_sequence()) {
        None if is_new() => None,
        sequence => sequence.or_else(|| Some(RevisionSequence::of_store(store))),
    }
}

fn past_workspace(
    workspace: &Workspace,
    point: &PointInTime,
    meant: Option<RevisionSequence>,
) -> StoreResult<PastWorkspace> {
    if workspace.barrier().is_some() {
        return Ok(PastWorkspace::Barrier("it isn't part of this view"));
    }
    if !workspace.scope().allows(Access::History) {
        return Ok(PastWorkspace::Barrier("the history of a WRITE_ONLY Workspace can't be read"));
    }
    let store = workspace.mount().store();
    let Some(history) = store.history() else {
        return Ok(PastWorkspace::Barrier("its Store keeps no history"));
    };
    let version = match point {
        PointInTime::Time(time) => history.revision_at(*time)?,
        PointInTime::Revision(version) | PointInTime::RevisionAt(version, _) => {
            let differs = |meant| sequence_of_store(&**store).is_some_and(|here| here != meant);
            if *version != RevisionNumber::NOW && meant.is_some_and(differs) {
                return Ok(PastWorkspace::Barrier(
                    "its Store has its own version numbers; use a time instead",
                ));
            }
            *version
        }
    };
    Ok(PastWorkspace::Visible(workspace.clone().past_view(history.as_of(version)?)))
}
