//! Directories of which the fork and the host directory each have names: their entries, merged.

use stead_core::name::Name;
use stead_core::store::{Attr, Entry, Listing, NodeId, NodeKind, NodePath, Page, StorePath};
use stead_core::{Store, StoreError, StoreResult};

use crate::overlay::OverlayStore;
use crate::overlay::place::{LiveDirectory, Place};

/// A directory to be read.
#[derive(Debug, Clone)]
pub(super) enum DirectoryRef {
    /// A directory of the fork, by its node.
    Upper(NodeId),
    /// A directory of the host directory, by its path there.
    Live(StorePath),
}

/// An entry of a directory, and where it is read.
#[derive(Debug)]
pub(super) struct MergedEntry {
    pub(super) name: Name,
    pub(super) attr: Attr,
    /// The path in the host directory, if the fork has not taken the entry over.
    pub(super) live_path: Option<StorePath>,
}

impl MergedEntry {
    /// The entry as a directory to be read, if it is one.
    pub(super) fn directory(&self) -> Option<DirectoryRef> {
        let directory = match &self.live_path {
            Some(path) => DirectoryRef::Live(path.clone()),
            None => DirectoryRef::Upper(self.attr.node),
        };
        (self.attr.kind == NodeKind::Directory).then_some(directory)
    }
}

impl OverlayStore {
    pub(super) fn list_both(&self, at: &NodePath, page: &Page) -> StoreResult<Listing> {
        match self.place(at)? {
            Place::Live(live) => {
                let mut listing = self.call_lower(&live, |lower, at| lower.list(at, page))?;
                for entry in &mut listing.entries {
                    entry.attr = self.live_attr(&live.path.child(entry.name.as_bytes()), entry.attr);
                }
                Ok(listing)
            }
            Place::Upper { directory } => {
                let live = directory.and_then(|directory| self.live_part(directory));
                let mut listing = self.upper.list(at, page)?;
                for entry in &mut listing.entries {
                    entry.attr = self.upper_attr(entry.attr);
                }
                match live {
                    Some(live) => Ok(merge(listing, self.list_live(&live, page)?, page.limit)),
                    None => Ok(listing),
                }
            }
        }
    }

    /// The names that only the host directory has in a directory.
    fn list_live(&self, directory: &LiveDirectory, page: &Page) -> StoreResult<Listing> {
        let lower = self.lower.get()?;
        let at = NodePath::from_root(directory.path.clone());
        // So many more that enough of them are left without the names that were taken over.
        let limit = page.limit.saturating_add(directory.taken.len());
        let mut listing = match lower.list(&at, &Page { limit, ..page.clone() }) {
            // The host has no such directory any more.
            Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => {
                return Ok(Listing { entries: Vec::new(), total: 0, more: false });
            }
            listing => listing?,
        };
        let is_taken = |entry: &Entry| directory.taken.contains(entry.name.as_bytes());
        let taken_count = if page.after.is_none() && !listing.more {
            listing.entries.iter().filter(|entry| is_taken(entry)).count()
        } else {
            let exists = |name: &[u8]| !page.hides(name) && lower.stat(&at.join(name)).is_ok();
            directory.taken.iter().filter(|name| exists(name)).count()
        };
        listing.entries.retain(|entry| !is_taken(entry));
        listing.total = listing.total.saturating_sub(taken_count as u64);
        for entry in &mut listing.entries {
            entry.attr = self.live_attr(&directory.path.child(entry.name.as_bytes()), entry.attr);
        }
        Ok(listing)
    }

    /// Whether the host directory has names in a directory of the base layer that the fork has not taken over.
    pub(super) fn has_live_names(&self, directory: &LiveDirectory) -> StoreResult<bool> {
        Ok(!self.list_live(directory, &Page { limit: 1, ..Page::ALL })?.entries.is_empty())
    }

    /// All entries of a directory, sorted by name. If the part of the host directory can't be read, the entries of the fork come
    /// with the error.
    pub(super) fn entries(
        &self,
        directory: &DirectoryRef,
    ) -> StoreResult<(Vec<MergedEntry>, Option<StoreError>)> {
        let mut failure = None;
        let mut entries = match directory {
            DirectoryRef::Live(path) => {
                let listing = self.lower.get()?.list(&NodePath::from_root(path.clone()), &Page::ALL)?;
                let attr = |entry: &Entry| self.live_attr(&path.child(entry.name.as_bytes()), entry.attr);
                let entries = listing.entries.into_iter().map(|entry| (attr(&entry), entry.name));
                entries.map(|(attr, name)| live_entry(path, name, attr)).collect()
            }
            DirectoryRef::Upper(node) => {
                let at = NodePath::of_node(*node);
                let live = match self.place(&at)? {
                    Place::Upper { directory } => directory.and_then(|directory| self.live_part(directory)),
                    Place::Live(_) => None,
                };
                let mut entries: Vec<_> = self
                    .upper
                    .list(&at, &Page::ALL)?
                    .entries
                    .into_iter()
                    .map(|entry| {
                        let attr = self.upper_attr(entry.attr);
                        MergedEntry { name: entry.name, attr, live_path: None }
                    })
                    .collect();
                if let Some(live) = live {
                    match self.list_live(&live, &Page::ALL) {
                        Ok(listing) => entries.extend(
                            listing
                                .entries
                                .into_iter()
                                .map(|entry| live_entry(&live.path, entry.name, entry.attr)),
                        ),
                        Err(error) => failure = Some(error),
                    }
                }
                entries
            }
        };
        entries.sort_unstable_by(|one, other| one.name.as_bytes().cmp(other.name.as_bytes()));
        Ok((entries, failure))
    }
}

fn live_entry(directory: &StorePath, name: Name, attr: Attr) -> MergedEntry {
    let live_path = Some(directory.child(name.as_bytes()));
    MergedEntry { name, attr, live_path }
}

/// Merges one page of each side into one page.
fn merge(upper: Listing, live: Listing, limit: usize) -> Listing {
    let mut entries = upper.entries;
    entries.extend(live.entries);
    entries.sort_unstable_by(|one, other| one.name.as_bytes().cmp(other.name.as_bytes()));
    let more = upper.more || live.more || entries.len() > limit;
    entries.truncate(limit);
    Listing { entries, total: upper.total + live.total, more }
}
