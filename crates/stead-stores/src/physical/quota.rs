//! What lies below quota roots, counted on the disk before and after a change: where no ledger carries the counters on.

use std::collections::HashMap;
use std::ops::ControlFlow;

use stead_core::search::Walk;
use stead_core::store::{
    Found, Kind, NodeId, Place, QuotaLimits, QuotaRoot, StoreError, StorePath, StoreResult, Usage,
};

use super::PhysicalStore;

/// What the quota roots of a change held before it. Nobody else changes anything meanwhile.
pub(super) struct Counted<'q> {
    roots: Vec<(&'q QuotaRoot, Held)>,
}

#[derive(Default)]
struct Held {
    usage: Usage,
    /// The sizes of the files that were there, where a limit asks for what is new.
    files: HashMap<NodeId, u64>,
}

impl<'q> Counted<'q> {
    pub(super) fn before(store: &PhysicalStore, quotas: &'q [QuotaRoot]) -> StoreResult<Self> {
        let mut roots = Vec::with_capacity(quotas.len());
        for quota in quotas {
            roots.push((quota, held(store, quota)?));
        }
        Ok(Counted { roots })
    }

    /// Judges what is there now.
    pub(super) fn judge(&self, store: &PhysicalStore) -> StoreResult<()> {
        for (quota, before) in &self.roots {
            let after = held(store, quota)?;
            quota.check(before.usage, after.usage)?;
            for (node, size) in after.files {
                if before.files.get(&node).is_none_or(|held| *held < size) {
                    quota.limits.check_file(size)?;
                }
            }
        }
        Ok(())
    }
}

/// How much lies below a path; nothing where there is no directory.
pub(super) fn usage_below(store: &PhysicalStore, at: &StorePath) -> StoreResult<Usage> {
    Ok(held(store, &QuotaRoot::new(at.clone(), QuotaLimits::default()))?.usage)
}

fn held(store: &PhysicalStore, quota: &QuotaRoot) -> StoreResult<Held> {
    let mut held = Held::default();
    for place in quota.places() {
        let count = &mut |found: Found| {
            if found.attr.kind != Kind::Directory {
                held.usage.files += 1;
            }
            if found.attr.kind == Kind::File {
                held.usage.bytes += found.attr.size;
                if quota.limits.file_bytes.is_some() {
                    held.files.insert(found.attr.node, found.attr.size);
                }
            }
            ControlFlow::Continue(())
        };
        match store.walk_below(&Place::path(place.clone()), &Walk::default(), count) {
            Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => {}
            walked => walked?,
        }
    }
    Ok(held)
}
