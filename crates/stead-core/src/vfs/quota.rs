//! The quotas that a change counts against: those of the Workspaces on its Store, and the stead's.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::iter;
use std::sync::Arc;

use crate::error::{Error, Result, Visibility};
use crate::path::VfsPath;
use crate::router::Router;
use crate::scope::Access;
use crate::store::{QuotaLimits, QuotaResource, QuotaRoot, Store, StoreError, StorePath, StoreResult, Usage};
use crate::vfs::Vfs;
use crate::vfs::call::Call;
use crate::vfs::write::{StoreKey, same_store, store_key};
use crate::workspace::Workspace;

/// Whether the reservations of open files count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DraftCounting {
    /// They do.
    Counted,
    /// They don't: one of the drafts is being committed, and all of them were found to fit.
    Ignored,
}

/// A quota of a `Vfs`: the index of a Workspace that has one or, one past the last, the quota of the stead.
pub(super) type QuotaIndex = usize;

/// The quotas of a `Vfs`, by Store.
#[derive(Debug, Default)]
pub(super) struct QuotaTable {
    stores: Vec<StoreQuotas>,
    by_store: HashMap<StoreKey, usize>,
    /// The Workspaces that have a quota.
    limited: Vec<Arc<Workspace>>,
    stead: QuotaLimits,
}

/// What counts in one Store.
#[derive(Debug)]
struct StoreQuotas {
    store: Arc<dyn Store>,
    /// The quotas of Workspaces.
    workspaces: Vec<(QuotaIndex, QuotaRoot)>,
    /// The paths that the stead's quota counts. None of them lies inside another.
    stead_roots: Vec<StorePath>,
    /// The limits whose usage the caller may not know: something that it may not read counts against them, and from
    /// the total and what it can read it could work out the size.
    undisclosed: Vec<QuotaLimits>,
}

impl QuotaTable {
    /// The quotas of these Workspaces, and of the stead.
    pub(super) fn new(router: &Router, stead: QuotaLimits) -> Self {
        let limited: Vec<_> =
            router.workspaces().filter(|workspace| !workspace.quota().is_unlimited()).cloned().collect();
        let mut table = QuotaTable { limited, stead, ..QuotaTable::default() };
        if table.limited.is_empty() && stead.is_unlimited() {
            return table;
        }
        let mut mounts: Vec<BTreeSet<&[u8]>> = Vec::new();
        for workspace in router.workspaces().chain(router.state()) {
            let mount = workspace.mount();
            let index = *table.by_store.entry(store_key(&**mount.store())).or_insert_with(|| {
                table.stores.push(StoreQuotas::new(mount.store()));
                mounts.push(BTreeSet::new());
                table.stores.len() - 1
            });
            mounts[index].insert(mount.path().as_bytes());
        }
        for (index, workspace) in table.limited.iter().enumerate() {
            let mount = workspace.mount();
            let root = QuotaRoot::new(workspace.quota_root().clone(), workspace.quota());
            table.stores[table.by_store[&store_key(&**mount.store())]].workspaces.push((index, root));
        }
        let mut undisclosed = vec![Vec::new(); table.stores.len()];
        for (store, path) in undisclosed_paths(router) {
            undisclosed[table.by_store[&store_key(store)]].push(path);
        }
        let hides_anything = undisclosed.iter().any(|paths| !paths.is_empty());
        for ((store_quotas, mounts), undisclosed) in table.stores.iter_mut().zip(mounts).zip(&undisclosed) {
            let is_outermost = |path: &&&[u8]| !at_or_above(path).skip(1).any(|outer| mounts.contains(outer));
            store_quotas.stead_roots =
                mounts.iter().filter(is_outermost).map(|&path| StorePath::from_checked(path)).collect();
            store_quotas.undisclosed = store_quotas.undisclosed_limits(undisclosed, stead, hides_anything);
        }
        table
    }

    fn for_store(&self, store: &dyn Store) -> Option<&StoreQuotas> {
        self.by_store.get(&store_key(store)).map(|&index| &self.stores[index])
    }

    /// The limits of this Store whose usage the caller may not know.
    pub(super) fn undisclosed_limits(&self, store: &dyn Store) -> &[QuotaLimits] {
        self.for_store(store).map_or(&[], |quotas| &quotas.undisclosed)
    }

    /// The quotas that a file at this path counts against.
    pub(super) fn limits_at(&self, store: &dyn Store, path: &StorePath) -> Vec<(QuotaIndex, QuotaLimits)> {
        let workspaces = self.for_store(store).map_or(&[][..], |quotas| &quotas.workspaces);
        let of_workspaces = workspaces.iter().filter(|(_, quota)| path.is_at_or_below(&quota.root));
        let of_stead = (!self.stead.is_unlimited()).then_some((self.limited.len(), self.stead));
        of_workspaces.map(|(index, quota)| (*index, quota.limits)).chain(of_stead).collect()
    }

    /// Whether the stead's own quota would be exceeded if this much were added, as far as the Stores know now. `None` as the
    /// addition means that it isn't known.
    pub(super) fn may_exceed_stead(&self, added: Option<Usage>) -> StoreResult<bool> {
        if self.stead.bytes.is_none() && self.stead.files.is_none() {
            return Ok(false);
        }
        let Some(added) = added else { return Ok(true) };
        let wanted = self.usage(self.limited.len())?.plus(added);
        let exceeds = |limit: Option<u64>, wanted: u64| limit.is_some_and(|limit| wanted > limit);
        Ok(exceeds(self.stead.bytes, wanted.bytes) || exceeds(self.stead.files, wanted.files))
    }

    /// How much of a quota the Stores say is used.
    pub(super) fn usage(&self, quota: QuotaIndex) -> StoreResult<Usage> {
        match self.limited.get(quota) {
            Some(workspace) => workspace.mount().store().usage(workspace.quota_root()),
            None => self.stores.iter().try_fold(Usage::default(), StoreQuotas::add_stead_usage),
        }
    }
}

impl StoreQuotas {
    fn new(store: &Arc<dyn Store>) -> Self {
        let (workspaces, stead_roots, undisclosed) = (Vec::new(), Vec::new(), Vec::new());
        StoreQuotas { store: Arc::clone(store), workspaces, stead_roots, undisclosed }
    }

    /// Adds what the stead uses in this Store.
    fn add_stead_usage(used: Usage, quotas: &StoreQuotas) -> StoreResult<Usage> {
        quotas.stead_roots.iter().try_fold(used, |used, path| Ok(used.plus(quotas.store.usage(path)?)))
    }

    /// The limits that count one of the undisclosed paths of this Store, or a part of it.
    fn undisclosed_limits(
        &self,
        undisclosed: &[StorePath],
        stead: QuotaLimits,
        hides_anything: bool,
    ) -> Vec<QuotaLimits> {
        let above: HashSet<&[u8]> =
            undisclosed.iter().flat_map(|path| at_or_above(path.as_bytes())).collect();
        let paths: HashSet<&[u8]> = undisclosed.iter().map(StorePath::as_bytes).collect();
        let counts_undisclosed = |root: &StorePath| {
            above.contains(root.as_bytes()) || at_or_above(root.as_bytes()).any(|outer| paths.contains(outer))
        };
        let of_workspaces = self.workspaces.iter().filter(|(_, quota)| counts_undisclosed(&quota.root));
        let of_stead = (!stead.is_unlimited() && hides_anything).then_some(stead);
        of_workspaces.map(|(_, quota)| quota.limits).chain(of_stead).collect()
    }
}

/// This path and the paths above it, up to the empty one.
fn at_or_above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    iter::successors(Some(path), |path| match path {
        [] => None,
        path => Some(memchr::memrchr(b'/', path).map_or(&[][..], |end| &path[..end])),
    })
}

/// The paths in Stores that count against quotas and that the caller may not read: WRITE_ONLY Workspaces, and what a
/// nested Workspace hides of the outer one's Store.
fn undisclosed_paths(router: &Router) -> Vec<(&dyn Store, StorePath)> {
    let may_read =
        |workspace: &Workspace| workspace.scope().allows(Access::Read) && workspace.barrier().is_none();
    let mut paths: Vec<(&dyn Store, StorePath)> = Vec::new();
    for workspace in router.workspaces() {
        let mount = workspace.mount();
        if !may_read(workspace) {
            paths.push((&**mount.store(), mount.path().clone()));
        }
        for nested in router.nested(workspace.prefix()) {
            let relative_path = nested.prefix().strip_prefix(workspace.prefix()).expect("it is nested");
            let hidden_path = mount.node_path(relative_path).path;
            let is_shown = may_read(nested)
                && same_store(&**nested.mount().store(), &**mount.store())
                && *nested.mount().path() == hidden_path;
            if !is_shown {
                paths.push((&**mount.store(), hidden_path));
            }
        }
    }
    paths
}

impl Vfs {
    /// The quotas that a path counts against, and how much of each is used. Where something counts that the caller may
    /// not look at, nothing seems to be used. Makes no audit record.
    pub(crate) fn quota_usage(&self, path: &VfsPath) -> Result<Vec<(QuotaLimits, Usage)>> {
        self.unaudited_call("statfs", [Ok(path.clone())], |call, [path]| {
            let Some(route) = call.shared().router.route(path) else { return Ok(Vec::new()) };
            if route.workspace.barrier().is_some() {
                return Ok(Vec::new());
            }
            let store = &**route.workspace.mount().store();
            let node_path = route.workspace.mount().node_path(route.relative_path);
            let visibility = Visibility::of(route.workspace.scope());
            let failed = |cause| Error::Store { path: path.clone(), visibility, cause };
            let undisclosed = call.shared().quotas.undisclosed_limits(store);
            let mut quotas = call.quotas_for(store, DraftCounting::Counted).map_err(failed)?;
            quotas.retain(|quota| quota.roots().any(|root| node_path.path.is_at_or_below(root)));
            let usage = |quota: QuotaRoot| {
                if undisclosed.contains(&quota.limits) {
                    return Ok((quota.limits, Usage::default()));
                }
                let add = |usage: Usage, root| Ok(usage.plus(store.usage(root)?));
                let usage = quota.roots().try_fold(quota.usage_elsewhere, add).map_err(failed)?;
                Ok((quota.limits, usage))
            };
            quotas.into_iter().map(usage).collect()
        })
    }
}

impl Call<'_> {
    /// The quotas that a change of this Store counts against.
    pub(super) fn quotas_for(&self, store: &dyn Store, drafts: DraftCounting) -> StoreResult<Vec<QuotaRoot>> {
        let table = &self.shared().quotas;
        let Some(store_quotas) = table.for_store(store) else { return Ok(Vec::new()) };
        let reserved = |quota: QuotaIndex| match drafts {
            DraftCounting::Counted => {
                Usage { bytes: self.shared().draft_reservations.reserved(quota), files: 0 }
            }
            DraftCounting::Ignored => Usage::default(),
        };
        let of_workspaces = store_quotas.workspaces.iter();
        let with_reserved = |(index, quota): &(_, QuotaRoot)| QuotaRoot {
            usage_elsewhere: reserved(*index),
            ..quota.clone()
        };
        let mut quotas: Vec<_> = of_workspaces.map(with_reserved).collect();
        if let (false, [root, other_roots @ ..]) = (table.stead.is_unlimited(), &*store_quotas.stead_roots) {
            let elsewhere = table.stores.iter().filter(|other| !same_store(&*other.store, store));
            quotas.push(QuotaRoot {
                root: root.clone(),
                other_roots: other_roots.to_vec(),
                limits: table.stead,
                usage_elsewhere: elsewhere
                    .into_iter()
                    .try_fold(reserved(table.limited.len()), StoreQuotas::add_stead_usage)?,
            });
        }
        Ok(quotas)
    }
}

/// Leaves the usage out of a refusal by one of these limits.
pub(super) fn without_usage(cause: StoreError, undisclosed: &[QuotaLimits]) -> StoreError {
    let StoreError::OverQuota { on, allowed, .. } = cause else { return cause };
    let is_undisclosed = |limits: &QuotaLimits| match on {
        QuotaResource::Bytes => limits.bytes == Some(allowed),
        QuotaResource::Files => limits.files == Some(allowed),
        // The size of one file that the caller may not read isn't disclosed anyway.
        QuotaResource::FileBytes => false,
    };
    if undisclosed.iter().any(is_undisclosed) {
        StoreError::OverQuotaUndisclosed { on, allowed }
    } else {
        cause
    }
}
