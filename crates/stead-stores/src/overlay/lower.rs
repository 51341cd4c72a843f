//! The host directory below a fork: as it is, or as the snapshot of a pinned fork has it.

use std::sync::{Arc, OnceLock};

use stead_core::store::{NodePath, RevisionNumber, StoreId};
use stead_core::{Store, StoreError, StoreResult, Timestamp};

/// The Store that shows what a fork has not taken over.
#[derive(Debug, Clone)]
pub(super) struct Lower {
    store: Arc<dyn Store>,
    /// When the directory itself was created, if the host knows: another directory in its place was created at another time.
    created: Option<Timestamp>,
    /// The snapshot that is read instead of the directory as it is.
    pinned: Option<RevisionNumber>,
    /// The Store as of that snapshot, once it was opened.
    view: Arc<OnceLock<Arc<dyn Store>>>,
}

impl Lower {
    pub(super) fn new(
        store: Arc<dyn Store>,
        created: Option<Timestamp>,
        pinned: Option<RevisionNumber>,
    ) -> Self {
        Lower { store, created, pinned, view: Arc::default() }
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pinned.is_some()
    }

    /// The revision of the snapshot of a pinned fork.
    pub(super) fn pinned_at(&self) -> Option<RevisionNumber> {
        self.pinned
    }

    /// The directory as a snapshot has it, if one was taken at this revision. Otherwise the directory as it is: what no fork has
    /// changed has no history of its own.
    pub(super) fn as_of(&self, revision: RevisionNumber) -> Lower {
        if self.is_pinned() {
            return self.clone();
        }
        let view = self.store.history().and_then(|history| history.as_of(revision).ok());
        match view {
            Some(view) => {
                Lower { pinned: Some(revision), view: Arc::new(OnceLock::from(view)), ..self.clone() }
            }
            None => self.clone(),
        }
    }

    /// The Store to read. Fails if the directory is gone, or if another one is in its place.
    pub(super) fn get(&self) -> StoreResult<Arc<dyn Store>> {
        match self.pinned {
            Some(revision) => self.snapshot(revision),
            None => self.check_directory().map(|()| Arc::clone(&self.store)),
        }
        .map_err(with_advice)
    }

    /// The directory itself, as it is now, also below a pinned fork. Fails if it is gone, or if another one is in its place.
    pub(super) fn directory(&self) -> StoreResult<Arc<dyn Store>> {
        self.check_directory().map(|()| Arc::clone(&self.store)).map_err(with_advice)
    }

    /// The id of the directory's Store.
    pub(super) fn directory_id(&self) -> StoreId {
        self.store.id()
    }

    fn snapshot(&self, revision: RevisionNumber) -> StoreResult<Arc<dyn Store>> {
        if let Some(view) = self.view.get() {
            return Ok(Arc::clone(view));
        }
        let view = self.store.require_history()?.as_of(revision)?;
        Ok(Arc::clone(self.view.get_or_init(|| view)))
    }

    fn check_directory(&self) -> StoreResult<()> {
        let created = self.store.stat(&NodePath::root())?.created;
        match (self.created, created) {
            (Some(expected), Some(created)) if expected != created => Err(StoreError::unavailable(
                "the directory that this fork was made from was replaced by another one",
            )),
            _ => Ok(()),
        }
    }
}

/// Says what a caller can still do without the directory.
fn with_advice(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { what, source } => StoreError::Unavailable {
            what: format!("{what}. What the fork has changed can still be read"),
            source,
        },
        StoreError::NotFound | StoreError::NotADirectory => StoreError::unavailable(
            "the directory that this fork was made from is gone. What the fork has changed can still be read",
        ),
        error => error,
    }
}
