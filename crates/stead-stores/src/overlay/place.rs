//! Where a path of a fork leads: to the fork's own rows, or to the host directory.

use std::collections::HashSet;

use stead_core::store::{LinkHit, NodeKind, NodePath, StorePath};
use stead_core::{Store, StoreError, StoreResult};

use crate::database::error::Result;
use crate::overlay::OverlayStore;
use crate::overlay::live_node::is_live_node;
use crate::overlay::taken_index::{Seq, TakenDirectory};

/// Where a path leads.
pub(super) enum Place {
    /// To the fork's own volume. `directory` is the node if all names of the path lead to directories of the fork.
    Upper { directory: Option<(i64, Seq)> },
    /// To a path of the host directory.
    Live(LivePath),
}

/// A path of the host directory.
#[derive(Debug, Clone)]
pub(super) struct LivePath {
    pub(super) path: StorePath,
    /// How many names of the path lead to the directory that the fork has taken over.
    lead: usize,
    /// How many names of the caller's path lead to that directory.
    depth: usize,
}

/// A directory that the fork has taken over, without all of its names.
#[derive(Debug, Clone)]
pub(super) struct LiveDirectory {
    /// Its path in the host directory.
    pub(super) path: StorePath,
    /// The names that were taken over: the host directory doesn't decide about them any more.
    pub(super) taken: HashSet<Box<[u8]>>,
}

impl LiveDirectory {
    fn of(directory: &TakenDirectory, seq: Seq) -> Option<Self> {
        if directory.is_whole(seq) {
            return None;
        }
        let taken = directory.taken_names(seq).map(Box::from).collect();
        Some(LiveDirectory { path: directory.path.clone(), taken })
    }
}

/// What [`OverlayStore::place`] finds in the database.
enum Found {
    Place(Place),
    /// The path starts at a node of the host directory.
    LiveNode,
}

impl OverlayStore {
    /// Where a path leads.
    pub(super) fn place(&self, at: &NodePath) -> StoreResult<Place> {
        match self.find_place(at)? {
            Found::Place(place) => Ok(place),
            Found::LiveNode => self.place_from_live_node(at),
        }
    }

    fn find_place(&self, at: &NodePath) -> Result<Found> {
        self.upper.read_transaction(|snapshot| {
            let tree = snapshot.tree;
            let seq = self.layer.refresh(tree.conn)?;
            let base = tree.node_number(at.base);
            if is_live_node(base) && !self.layer.with_index(|index| index.has_node(base)) {
                return Ok(Found::LiveNode);
            }
            if base != tree.root && !at.path.is_empty() {
                tree.start_node(at.base)?;
            }
            let mut directory = base;
            for (depth, name) in at.path.components().enumerate() {
                // The fork alone decides about the names of a directory that it has made.
                let live_path = self.layer.with_index(|index| {
                    let taken = index.directory(directory, seq)?;
                    (!taken.is_taken(name, seq)).then(|| taken.path.clone())
                });
                if let Some(directory_path) = live_path {
                    let lead = directory_path.depth();
                    let path =
                        at.path.components().skip(depth).fold(directory_path, |path, name| path.child(name));
                    return Ok(Found::Place(Place::Live(LivePath { path, lead, depth })));
                }
                match tree.child(directory, name)? {
                    Some(row) if row.is_directory() => directory = row.node,
                    _ => return Ok(Found::Place(Place::Upper { directory: None })),
                }
            }
            Ok(Found::Place(Place::Upper { directory: Some((directory, seq)) }))
        })
    }

    /// The names that the host directory has in a directory of the fork, if a path leads to one and it decides about some.
    pub(super) fn live_part(&self, (directory, seq): (i64, Seq)) -> Option<LiveDirectory> {
        self.layer.with_index(|index| LiveDirectory::of(index.directory(directory, seq)?, seq))
    }

    /// Where a path leads that starts at a node of the host directory.
    fn place_from_live_node(&self, at: &NodePath) -> StoreResult<Place> {
        let start = self.layer.paths.path(at.base.0).ok_or(StoreError::NotFound)?;
        let start = StorePath::from_checked(start.to_vec());
        let attr = match self.lower.get()?.stat(&NodePath::from_root(start.clone())) {
            // Something else is in the place of a directory on the way.
            Err(StoreError::Link(_) | StoreError::NotADirectory) => return Err(StoreError::NotFound),
            attr => attr?,
        };
        if self.layer.live_node(attr.node) != at.base {
            return Err(StoreError::NotFound);
        }
        if !at.path.is_empty() && attr.kind != NodeKind::Directory {
            return Err(StoreError::NotADirectory);
        }
        let lead = start.depth();
        Ok(Place::Live(LivePath { path: start.join(&at.path), lead, depth: 0 }))
    }

    /// Calls the Store of the host directory with a path of it.
    pub(super) fn call_lower<T>(
        &self,
        live: &LivePath,
        call: impl FnOnce(&dyn Store, &NodePath) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let lower = self.lower.get()?;
        call(&*lower, &NodePath::from_root(live.path.clone()))
            .map_err(|error| self.live_error(live, &*lower, error))
    }

    /// The error of a path of the host directory, as an error of the caller's path.
    fn live_error(&self, live: &LivePath, lower: &dyn Store, error: StoreError) -> StoreError {
        match error {
            // The directory that the fork has taken over is a symlink now, or lies behind one: its other names are gone.
            StoreError::Link(hit) if hit.depth <= live.lead => StoreError::NotFound,
            StoreError::Link(hit) => {
                StoreError::Link(LinkHit { depth: hit.depth - live.lead + live.depth, ..hit })
            }
            StoreError::NotADirectory => {
                let names = live.path.components().take(live.lead);
                let directory = names.fold(StorePath::empty(), |path, name| path.child(name));
                match lower.stat(&NodePath::from_root(directory)) {
                    Ok(attr) if attr.kind == NodeKind::Directory => StoreError::NotADirectory,
                    _ => StoreError::NotFound,
                }
            }
            error => error,
        }
    }
}
