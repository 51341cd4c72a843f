//! The Store of a fork of a host directory: the fork's own files over the directory as it is.
//!
//! Two volumes of the database belong to such a fork. The **base layer** holds what the forks have taken over from the
//! directory: each name, with what it was then, when a fork first changed something there. Its rows are inserted as if they had
//! been there since the fork was made, so they are no changes. The **fork's own volume** is an ordinary fork over that layer
//! (`virtual_store::fork`): its history, undo, quotas and forks of it are those of any fork.
//!
//! A name that was not taken over is read from the directory, live. A change runs in the fork's own volume. If it meets a name that
//! was not taken over, the transaction says so ([`NotTakenOver`]), the Store takes the name over, and the change runs again. So no
//! change has to be predicted, and every change finds in the base layer what a merge needs: the base's content and fingerprint.
//!
//! | modules | what they do |
//! |---|---|
//! | `lower`, `live_node` | the directory as it is, or as a snapshot has it; node ids for its files |
//! | `base_layer`, `taken_index` | the layer and its rows; in memory, which names it has taken over |
//! | `place` | whether a path leads to the fork's rows or to the directory |
//! | `directory`, `walk`, `grep` | listings, walks and searches of both together |
//! | `take_over`, `change` | taking names over; changes |
//! | `mirror`, `mirror_scan` | for a merge: what the directory has now at the names that were taken over |
//! | `ports` | history, forks, feed, companion records, maintenance |

mod base_layer;
mod change;
mod directory;
mod grep;
mod live_node;
mod lower;
mod mirror;
mod mirror_scan;
mod place;
mod ports;
mod store;
mod take_over;
mod taken_index;
mod walk;

use std::collections::HashMap;
use std::sync::Arc;

use stead_core::store::{Attr, NodeKind, StorePath};

use base_layer::BaseLayer;
pub(crate) use base_layer::ForkedDirectory;
pub use base_layer::TakenOver;
use lower::Lower;

use crate::virtual_store::VirtualStore;

/// A fork of a host directory as a Store.
#[derive(Debug)]
pub struct OverlayStore {
    /// The fork's own volume.
    upper: VirtualStore,
    layer: Arc<BaseLayer>,
    lower: Lower,
}

/// What a change needs of the host directory before it can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotTakenOver {
    /// A name in a directory of the base layer.
    Name { directory: i64, name: Vec<u8> },
    /// Whether the host directory has entries in this directory.
    Children(i64),
    /// The names that the host directory has below this directory.
    NamesBelow(i64),
    /// Everything below this directory.
    Subtree(i64),
}

/// What is known of the part of the host directory that the fork has not taken over, for one change.
#[derive(Debug, Default)]
pub(crate) struct LiveFacts {
    /// Whether the host directory has entries in a directory.
    pub(crate) has_children: HashMap<i64, bool>,
    /// What lies below a directory, by paths relative to it.
    pub(crate) names_below: HashMap<i64, Vec<(StorePath, NodeKind)>>,
}

impl OverlayStore {
    /// The attributes of a row of the fork as callers see them: what the fork has taken over and not changed has the host's tag.
    fn upper_attr(&self, attr: Attr) -> Attr {
        Attr { tag: self.layer.host_tag(&attr).unwrap_or(attr.tag), ..attr }
    }

    /// The attributes of a node of the host directory, at this path of it, as callers see them.
    fn live_attr(&self, path: &StorePath, attr: Attr) -> Attr {
        let node = self.layer.live_node(attr.node);
        self.layer.paths.remember(node.0, path.as_bytes());
        Attr { node, ..attr }
    }
}
