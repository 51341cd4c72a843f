//! What a change counts against: the quotas of the Workspaces on its Store, and the stead's own.

use std::sync::Arc;

use crate::store::{QuotaLimits, QuotaRoot, Store, StorePath, StoreResult, Usage};
use crate::vfs::call::Call;
use crate::vfs::write::same_store;

impl Call<'_> {
    /// The quotas that a change of this Store counts against.
    pub(super) fn quotas_on(&self, store: &dyn Store) -> StoreResult<Vec<QuotaRoot>> {
        let mut roots = Vec::new();
        for workspace in self.vfs.workspaces() {
            let (mount, limits) = (workspace.mount(), workspace.quota());
            if !limits.is_unlimited() && same_store(&**mount.store(), store) {
                roots.push(QuotaRoot::new(mount.path().clone(), limits));
            }
        }
        let limits = self.shared().quota;
        if !limits.is_unlimited() {
            self.add_own(store, limits, &mut roots)?;
        }
        Ok(roots)
    }

    /// The stead's own quota: all of its places in the Store count together, with those in others as what lies elsewhere.
    fn add_own(&self, store: &dyn Store, limits: QuotaLimits, roots: &mut Vec<QuotaRoot>) -> StoreResult<()> {
        let mut places: Vec<(&Arc<dyn Store>, &StorePath)> = Vec::new();
        for workspace in self.vfs.workspaces() {
            let (place, path) = (workspace.mount().store(), workspace.mount().path());
            // What lies inside another of its places is counted there.
            let covered = self.vfs.workspaces().any(|other| {
                let outer = other.mount();
                same_store(&**outer.store(), &**place)
                    && outer.path() != path
                    && path.is_at_or_below(outer.path())
            });
            let known = places.iter().any(|(store, at)| same_store(&***store, &**place) && *at == path);
            if !covered && !known {
                places.push((place, path));
            }
        }
        let (here, others): (Vec<_>, Vec<_>) =
            places.into_iter().partition(|(place, _)| same_store(&***place, store));
        let mut here = here.into_iter().map(|(_, path)| path.clone());
        let Some(at) = here.next() else { return Ok(()) };
        let mut elsewhere = Usage::default();
        for (place, path) in others {
            elsewhere = elsewhere.plus(place.usage(path)?);
        }
        roots.push(QuotaRoot { at, beside: here.collect(), limits, elsewhere });
        Ok(())
    }
}
