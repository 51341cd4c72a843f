//! The quotas that a change counts against: those of the Workspaces on its Store, and the stead's.

use std::sync::Arc;

use crate::scope::Access;
use crate::store::{QuotaLimits, QuotaResource, QuotaRoot, Store, StoreError, StorePath, StoreResult, Usage};
use crate::vfs::VfsShared;
use crate::vfs::call::Call;
use crate::vfs::write::same_store;
use crate::workspace::Workspace;

/// Whether the reservations of open files count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DraftCounting {
    /// They do.
    Counted,
    /// They don't: one of the drafts is being committed, and all of them were found to fit.
    Ignored,
}

impl Call<'_> {
    /// The quotas that a change of this Store counts against.
    pub(super) fn quotas_for(&self, store: &dyn Store, drafts: DraftCounting) -> StoreResult<Vec<QuotaRoot>> {
        let reserved = |number: usize| match drafts {
            DraftCounting::Counted => {
                Usage { bytes: self.shared().draft_reservations.reserved(number), files: 0 }
            }
            DraftCounting::Ignored => Usage::default(),
        };
        let mut roots = Vec::new();
        for (number, workspace) in self.vfs.workspaces().enumerate() {
            let (mount, limits) = (workspace.mount(), workspace.quota());
            if !limits.is_unlimited() && same_store(&**mount.store(), store) {
                let elsewhere = reserved(number);
                roots.push(QuotaRoot {
                    usage_elsewhere: elsewhere,
                    ..QuotaRoot::new(mount.path().clone(), limits)
                });
            }
        }
        let limits = self.shared().quota;
        if !limits.is_unlimited() {
            self.add_stead_quota(store, limits, reserved(self.vfs.workspaces().count()), &mut roots)?;
        }
        Ok(roots)
    }

    /// Adds the stead's quota: all of its paths in this Store count together, and its usage in other Stores counts as
    /// usage elsewhere.
    fn add_stead_quota(
        &self,
        store: &dyn Store,
        limits: QuotaLimits,
        reserved: Usage,
        roots: &mut Vec<QuotaRoot>,
    ) -> StoreResult<()> {
        let (here, others): (Vec<_>, Vec<_>) =
            self.shared().stead_quota_roots().partition(|(place, _)| same_store(&***place, store));
        let mut here = here.into_iter().map(|(_, path)| path.clone());
        let Some(at) = here.next() else { return Ok(()) };
        let mut elsewhere = reserved;
        for (place, path) in others {
            elsewhere = elsewhere.plus(place.usage(path)?);
        }
        roots.push(QuotaRoot { root: at, other_roots: here.collect(), limits, usage_elsewhere: elsewhere });
        Ok(())
    }
}

impl VfsShared {
    /// The paths in Stores that the stead's quota counts, each once.
    pub(super) fn stead_quota_roots(&self) -> impl Iterator<Item = (&Arc<dyn Store>, &StorePath)> {
        let mut places: Vec<(&Arc<dyn Store>, &StorePath)> = Vec::new();
        for workspace in self.router.workspaces() {
            let (place, path) = (workspace.mount().store(), workspace.mount().path());
            // A path inside another counted one is counted there.
            let covered = self.router.workspaces().any(|other| {
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
        places.into_iter()
    }
}

impl Call<'_> {
    /// The limits whose usage the caller may not know: something that it may not read counts against them, and from the
    /// total and what it can read it could work out the size.
    pub(super) fn undisclosed_limits(&self, store: &dyn Store, quotas: &[QuotaRoot]) -> Vec<QuotaLimits> {
        if quotas.is_empty() {
            return Vec::new();
        }
        let withheld = self.undisclosed_roots();
        let own = self.shared().quota;
        let hides = |quota: &&QuotaRoot| {
            let everywhere = !own.is_unlimited() && quota.limits == own && !withheld.is_empty();
            let covers = |place: &(&dyn Store, StorePath)| {
                let roots = || quota.roots();
                same_store(place.0, store)
                    && roots().any(|root| place.1.is_at_or_below(root) || root.is_at_or_below(&place.1))
            };
            everywhere || withheld.iter().any(covers)
        };
        quotas.iter().filter(hides).map(|quota| quota.limits).collect()
    }

    /// The paths in Stores that count against quotas and that the caller may not read: WRITE_ONLY Workspaces, and what
    /// a nested Workspace hides of the outer one's Store.
    fn undisclosed_roots(&self) -> Vec<(&dyn Store, StorePath)> {
        let router = &self.shared().router;
        let may_look = |one: &Workspace| one.scope().allows(Access::Read) && one.barrier().is_none();
        let mut places: Vec<(&dyn Store, StorePath)> = Vec::new();
        for workspace in router.workspaces() {
            let mount = workspace.mount();
            if !may_look(workspace) {
                places.push((&**mount.store(), mount.path().clone()));
            }
            for nested in router.nested(workspace.prefix()) {
                let below = nested.prefix().strip_prefix(workspace.prefix()).expect("it is nested");
                let hidden = mount.node_path(below).path;
                let shown = may_look(nested)
                    && same_store(&**nested.mount().store(), &**mount.store())
                    && *nested.mount().path() == hidden;
                if !shown {
                    places.push((&**mount.store(), hidden));
                }
            }
        }
        places
    }
}

/// Leaves the usage out of a refusal by one of these limits.
pub(super) fn without_usage(cause: StoreError, withheld: &[QuotaLimits]) -> StoreError {
    let StoreError::OverQuota { on, allowed, .. } = cause else { return cause };
    let is_withheld = |limits: &QuotaLimits| match on {
        QuotaResource::Bytes => limits.bytes == Some(allowed),
        QuotaResource::Files => limits.files == Some(allowed),
        // The size of one file that the caller may not read isn't disclosed anyway.
        QuotaResource::FileBytes => false,
    };
    if withheld.iter().any(is_withheld) { StoreError::OverQuotaUndisclosed { on, allowed } } else { cause }
}
