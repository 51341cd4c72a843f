//! What is known of a path at the replay's current time.

use stead_core::store::{NodeId, NodeKind, NodeState, NodeStateFields, StoreError, StorePath};

use super::super::super::host::{Errno, HostStat, OpenMode};
use super::super::super::mask::{is_at_or_below, split};
use super::super::super::{owner_access, root};
use super::super::ledger_event::{Fingerprint, LedgerEvent};
use super::super::old_content::ContentSource;
use super::LedgerReplay;

/// Ids of removed nodes start here, above all inode numbers.
pub(in super::super) const FIRST_REMOVED_NODE: u64 = 1 << 63;

/// The fingerprint of a node of which nothing is known.
const UNKNOWN_FINGERPRINT: Fingerprint =
    Fingerprint { kind: NodeKind::File, ino: 0, size: 0, mode: 0, modified: stead_core::Timestamp(0) };

/// One node through time.
#[derive(Debug, Clone)]
pub(super) struct TrackedNode {
    pub(super) node: NodeId,
    /// What it looked like at the replay's current time.
    pub(super) fingerprint: Fingerprint,
    /// Its content at that time, if it is known.
    pub(super) source: Option<ContentSource>,
    pub(super) hash: Option<[u8; 32]>,
}

/// A row that gave a directory a path, or took one from it, together with everything below.
#[derive(Debug)]
pub(super) enum PassedMove {
    Placed(Vec<u8>),
    Removed { path: Vec<u8>, row: (i64, i64), content_kept: bool },
    Moved(Vec<u8>, Vec<u8>),
    Exchanged(Vec<u8>, Vec<u8>),
}

/// Where a node is that no row since has touched.
pub(super) enum TracedLocation {
    /// On disk, at this path.
    InTree(Vec<u8>),
    /// At this path below what a row displaced.
    Displaced((i64, i64), Vec<u8>),
    Nowhere,
}

impl LedgerReplay<'_> {
    /// The tracked node that a row left at its own path.
    pub(super) fn tracked_after(&mut self, event: &LedgerEvent, row: (i64, i64)) -> TrackedNode {
        self.tracked_left_at(&event.path, event.detail.after, row)
    }

    /// The tracked node that a row left at the path `at`, with this fingerprint.
    pub(super) fn tracked_left_at(
        &mut self,
        at: &[u8],
        fingerprint: Option<Fingerprint>,
        row: (i64, i64),
    ) -> TrackedNode {
        let track = match (self.tracked_at(at), fingerprint) {
            (Some(track), Some(fingerprint))
                if track.fingerprint.has_same_content(&fingerprint)
                    || fingerprint.kind == NodeKind::Directory =>
            {
                TrackedNode { fingerprint, ..track }
            }
            // Another program has changed it since.
            (Some(track), Some(fingerprint)) => {
                TrackedNode { node: track.node, fingerprint, source: None, hash: None }
            }
            (Some(track), None) => track,
            (None, fingerprint) => TrackedNode {
                node: self.removed_node(row, at),
                fingerprint: fingerprint.unwrap_or(UNKNOWN_FINGERPRINT),
                source: None,
                hash: None,
            },
        };
        self.tracked.insert(at.to_vec(), Some(track.clone()));
        track
    }

    /// The node at a path at the replay's current time, if one is known to be there.
    pub(super) fn tracked_at(&mut self, path: &[u8]) -> Option<TrackedNode> {
        if let Some(tracked) = self.tracked.get(path) {
            return tracked.clone();
        }
        let track = match self.trace(path) {
            TracedLocation::InTree(current_path) => {
                let fingerprint = Fingerprint::of(&self.stat_now(&current_path)?);
                let node = self.present_node(fingerprint.ino, &current_path);
                TrackedNode {
                    node,
                    fingerprint,
                    source: Some(ContentSource::in_tree(current_path, fingerprint)),
                    hash: None,
                }
            }
            TracedLocation::Displaced(row, below) => {
                let fingerprint = Fingerprint::of(&self.history.stat_displaced(row, &below)?);
                let node = self.removed_node(row, &below);
                TrackedNode {
                    node,
                    fingerprint,
                    source: Some(ContentSource::displaced(row, below, &fingerprint)),
                    hash: None,
                }
            }
            TracedLocation::Nowhere => return None,
        };
        self.tracked.insert(path.to_vec(), Some(track.clone()));
        Some(track)
    }

    /// Follows a path from the replay's current time to where it is now.
    pub(super) fn trace(&self, path: &[u8]) -> TracedLocation {
        let mut path = path.to_vec();
        let moved = |path: &[u8], from: &[u8], to: &[u8]| [to, &path[from.len()..]].concat();
        for passed in self.passed_moves.iter().rev() {
            match passed {
                PassedMove::Placed(at) if is_at_or_below(&path, at) => return TracedLocation::Nowhere,
                PassedMove::Removed { path: at, row, content_kept } if is_at_or_below(&path, at) => {
                    let suffix = &path[at.len()..];
                    let below = suffix.strip_prefix(b"/").unwrap_or(suffix).to_vec();
                    return if *content_kept {
                        TracedLocation::Displaced(*row, below)
                    } else {
                        TracedLocation::Nowhere
                    };
                }
                PassedMove::Moved(from, to) if is_at_or_below(&path, from) => path = moved(&path, from, to),
                PassedMove::Exchanged(from, to) if is_at_or_below(&path, from) => {
                    path = moved(&path, from, to)
                }
                PassedMove::Exchanged(from, to) if is_at_or_below(&path, to) => path = moved(&path, to, from),
                _ => {}
            }
        }
        TracedLocation::InTree(path)
    }

    /// The attributes of what is at a path on disk now; `None` if it is missing, or masked.
    pub(super) fn stat_now(&self, path: &[u8]) -> Option<HostStat> {
        if self.store.mask.hides(path) {
            return None;
        }
        let (parent, name) = split(path);
        match root::enter(&self.store.root.dir, parent, OpenMode::Traverse) {
            Ok(dir) => match dir.stat_at(name) {
                Err(Errno::ACCESS) => {}
                stat => return stat.ok(),
            },
            Err(StoreError::HostDenied) => {}
            Err(_) => return None,
        }
        // The agent may have made the directory inaccessible itself, and wants to undo that.
        owner_access::enter(&self.store.root.dir, parent).ok()?.stat_at(name).ok()
    }

    /// The id of a node that exists: its inode, unless the replay met that inode at another path before.
    fn present_node(&mut self, ino: u64, path: &[u8]) -> NodeId {
        let node = NodeId(ino);
        let known_path = self.present_nodes.entry(node).or_insert_with(|| path.to_vec());
        if **known_path == *path {
            return node;
        }
        let node = removed_node_id((i64::MAX, 0), path);
        self.present_nodes.insert(node, path.to_vec());
        node
    }

    /// The id of a node that a row removed, or the one it has since it was revived.
    pub(super) fn removed_node(&self, row: (i64, i64), below: &[u8]) -> NodeId {
        let node = removed_node_id(row, below);
        self.revived.get(&node).copied().unwrap_or(node)
    }

    /// Takes out what is known at a path and below it, with paths relative to it.
    pub(super) fn take_subtree(&mut self, path: &[u8]) -> Vec<(Vec<u8>, Option<TrackedNode>)> {
        // Paths below start with `path/`, and `0` is the byte after `/`.
        let below = [path, b"/"].concat()..[path, b"0"].concat();
        let keys = self.tracked.range(below).map(|(key, _)| key.clone());
        let keys: Vec<_> = keys.chain([path.to_vec()]).collect();
        let subtree = keys.into_iter().filter_map(|key| self.tracked.remove_entry(&key));
        subtree.map(|(key, track)| (key[path.len()..].to_vec(), track)).collect()
    }

    pub(super) fn put_subtree(&mut self, path: &[u8], subtree: Vec<(Vec<u8>, Option<TrackedNode>)>) {
        self.tracked.extend(subtree.into_iter().map(|(suffix, track)| ([path, &suffix].concat(), track)));
    }

    /// The id of the directory at a path, at the replay's current time.
    fn directory_node(&mut self, path: &[u8]) -> NodeId {
        if path.is_empty() {
            return NodeId::ROOT;
        }
        self.tracked_at(path).map_or_else(|| removed_node_id((i64::MAX, 1), path), |track| track.node)
    }

    pub(super) fn state_of(&mut self, track: &TrackedNode, path: &[u8]) -> NodeState {
        let (parent, name) = split(path);
        let parent = self.directory_node(parent);
        debug_assert!(!name.is_empty(), "the root has no state");
        self.state_in_parent(track, parent, path)
    }

    pub(super) fn state_in_parent(&self, track: &TrackedNode, parent: NodeId, path: &[u8]) -> NodeState {
        let TrackedNode { fingerprint, source: content, hash, .. } = track;
        let content = match fingerprint.kind {
            NodeKind::File | NodeKind::Symlink => {
                content.as_ref().and_then(|content| content.content_ref(self.store, *hash, fingerprint.size))
            }
            NodeKind::Directory | NodeKind::Special(_) => None,
        };
        let fields = NodeStateFields {
            parent,
            name: split(path).1.to_vec(),
            path: StorePath::from_checked(path),
            kind: fingerprint.kind,
            mode: fingerprint.mode,
            modified: fingerprint.modified,
            size: fingerprint.size,
            content,
        };
        fields.into()
    }
}

/// The id of a removed node: always the same for the same row and path.
fn removed_node_id((revision, seq): (i64, i64), below: &[u8]) -> NodeId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&revision.to_le_bytes()).update(&seq.to_le_bytes()).update(below);
    let bytes = hasher.finalize();
    NodeId(
        FIRST_REMOVED_NODE
            | u64::from_le_bytes(*bytes.as_bytes().first_chunk().expect("a hash has 32 bytes")),
    )
}
