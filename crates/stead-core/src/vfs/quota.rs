//! What a change counts against: the quotas of the Workspaces on its Store, and the stead's own.

use std::sync::Arc;

use crate::scope::Access;
use crate::store::{QuotaLimits, QuotaResource, QuotaRoot, Store, StoreError, StorePath, StoreResult, Usage};
use crate::vfs::VfsShared;
use crate::vfs::call::Call;
use crate::vfs::write::same_store;
use crate::workspace::Workspace;

/// Whether what open files have reserved counts along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DraftCounting {
    /// Yes.
    Counted,
    /// No: one of them is about to become a change, and all of them were found to fit.
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

    /// The stead's own quota: all of its places in the Store count together, with those in others as what lies elsewhere.
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
    /// The places in Stores that the stead's own quota counts, each once.
    pub(super) fn stead_quota_roots(&self) -> impl Iterator<Item = (&Arc<dyn Store>, &StorePath)> {
        let mut places: Vec<(&Arc<dyn Store>, &StorePath)> = Vec::new();
        for workspace in self.router.workspaces() {
            let (place, path) = (workspace.mount().store(), workspace.mount().path());
            // What lies inside another of its places is counted there.
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
    /// The limits of which the caller may not know how much is used: something counts against them that it may not look
    /// at, and whoever knows the rest could tell its size.
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

    /// The places in Stores that count along and can't be looked at: WRITE_ONLY Workspaces, and what a Workspace inside
    /// another one hides there.
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

/// A refusal without how much is in use, where the limit is one of these.
pub(super) fn without_usage(cause: StoreError, withheld: &[QuotaLimits]) -> StoreError {
    let StoreError::OverQuota { on, allowed, .. } = cause else { return cause };
    let is_withheld = |limits: &QuotaLimits| match on {
        QuotaResource::Bytes => limits.bytes == Some(allowed),
        QuotaResource::Files => limits.files == Some(allowed),
        // Of one file that the caller may not look at, the size is not told anyway.
        QuotaResource::FileBytes => false,
    };
    if withheld.iter().any(is_withheld) { StoreError::OverQuotaUndisclosed { on, allowed } } else { cause }
}
