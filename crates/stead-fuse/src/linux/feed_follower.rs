//! Invalidates the kernel's caches after changes by others, so that the kernel may cache replies for long.
//!
//! A Store with a feed reports what any process has changed since a cursor. The kernel already knows the
//! changes made through this mount. By the time the other changes are read from the feed, names may have changed again,
//! also through this mount; so each is compared with the Store's present state.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use fuser::{INodeNo, Notifier};
use stead_core::Name;
use stead_core::store::{ChangeKind, FeedEntry, NodePath, RevisionNumber, Store};

use crate::linux::fuse_adapter::FuseAdapter;

/// How often the feed of a Store is read.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How many changes are read at once.
const MAX_CHANGES: usize = 10_000;

/// A Store, and the Workspaces over it.
struct FollowedStore {
    store: Arc<dyn Store>,
    workspaces: Vec<usize>,
    cursor: Option<RevisionNumber>,
    /// Invalidations of something that the kernel didn't know. A reply that makes it known may have been on its way, so
    /// they are sent once more.
    retries: Vec<Invalidation>,
}

/// A message that invalidates something in the kernel's caches.
enum Invalidation {
    /// A file's attributes have changed.
    Inode(INodeNo),
    /// A name in a directory leads to something else.
    Name(INodeNo, Vec<u8>),
}

impl Invalidation {
    /// Sends the message. Returns whether the kernel knew the inode or name.
    fn send(&self, notifier: &Notifier) -> bool {
        match self {
            Invalidation::Inode(ino) => notifier.inval_inode(*ino, -1, 0).is_ok(),
            Invalidation::Name(parent, name) => {
                notifier.inval_entry(*parent, OsStr::from_bytes(name)).is_ok()
            }
        }
    }
}

/// The Stores with a feed, and the cursor of each: [`follow`] handles all changes after it.
pub(crate) struct FeedCursors(Vec<FollowedStore>);

impl FeedCursors {
    pub(crate) fn take(mounting: &FuseAdapter) -> Self {
        mounting.node_api.track_own_revisions();
        let mut followed: Vec<FollowedStore> = Vec::new();
        for workspace in 0..mounting.node_api.workspaces().len() {
            let store = mounting.node_api.store(workspace);
            match followed.iter_mut().find(|known| known.store.id() == store.id()) {
                Some(known) => known.workspaces.push(workspace),
                None if store.feed().is_some() => followed.push(FollowedStore {
                    store: Arc::clone(store),
                    workspaces: vec![workspace],
                    cursor: store
                        .require_feed()
                        .and_then(|feed| feed.changes_since(None, 1))
                        .ok()
                        .map(|feed| feed.cursor),
                    retries: Vec::new(),
                }),
                None => {}
            }
        }
        FeedCursors(followed)
    }

    /// Whether no Store has a feed.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Follows the feeds until the sender of `stop` is dropped.
pub(crate) fn follow(
    mounting: &FuseAdapter,
    notifier: &Notifier,
    beginning: FeedCursors,
    stop: &Receiver<()>,
) {
    let mut followed = beginning.0;
    while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(POLL_INTERVAL) {
        for store in &mut followed {
            store.poll(mounting, notifier);
        }
    }
}

impl FollowedStore {
    fn poll(&mut self, mounting: &FuseAdapter, notifier: &Notifier) {
        // A reply that was on its way then has arrived by now.
        for told in std::mem::take(&mut self.retries) {
            told.send(notifier);
        }
        loop {
            // If the feed can't be read now, it is read later. Until then the kernel's cached replies expire as usual.
            let Ok(feed) =
                self.store.require_feed().and_then(|feed| feed.changes_since(self.cursor, MAX_CHANGES))
            else {
                return;
            };
            self.cursor = Some(feed.cursor);
            let more = feed.more;
            if feed.changes.is_empty() {
                return;
            }
            let others = mounting.node_api.foreign_changes(&*self.store, feed);
            if !others.is_empty() {
                mounting.note_foreign_change();
            }
            for changed in &others {
                for place in 0..self.workspaces.len() {
                    self.invalidate(mounting, notifier, self.workspaces[place], changed);
                }
            }
            if !more {
                return;
            }
        }
    }

    fn invalidate(
        &mut self,
        mounting: &FuseAdapter,
        notifier: &Notifier,
        workspace: usize,
        changed: &FeedEntry,
    ) {
        let inodes = &mounting.inodes;
        match changed.kind {
            ChangeKind::Written | ChangeKind::Attributes => {
                let Some(ino) = inodes.ino_of(workspace, changed.node) else { return };
                let now = self.store.stat(&NodePath::of_node(changed.node)).ok().map(|attr| attr.tag);
                let outdated = now.filter(|now| inodes.is_stale(ino, *now));
                if let Some(now) = outdated {
                    mounting.invalidate_content(INodeNo(ino), now);
                } else {
                    // Even if the cached content is current: of two replies at once, the kernel may have used the older
                    // one.
                    mounting.node_api.refresh(workspace, changed.node);
                    self.send_or_retry(notifier, Invalidation::Inode(INodeNo(ino)));
                }
            }
            ChangeKind::Created | ChangeKind::MovedTo | ChangeKind::Removed | ChangeKind::MovedFrom => {
                let Some(parent) = inodes.ino_of(workspace, changed.parent) else { return };
                let Some(name) = Name::new(&*changed.name) else { return };
                {
                    // A rename through this mount is in the Store before it is in the inode table.
                    let _names = mounting.lock_names();
                    let there = self.store.stat(&NodePath::child(changed.parent, &name)).ok();
                    let there = there.and_then(|attr| inodes.ino_of(workspace, attr.node));
                    let named = inodes.ino_named(parent, &name);
                    if there.is_some() && there == named {
                        return;
                    }
                    // The kernel finds the new location of a moved node by itself. Until then, the table has no path
                    // for the node: the door would authorize a call at one path, while the kernel still takes the node
                    // to be at the other.
                    inodes.remove_foreign(parent, &name);
                    if let Some(ino) = there {
                        inodes.mark_moved(ino);
                    }
                }
                // No lock is held here: the kernel may wait for a reply about that directory before it handles this
                // message.
                self.send_or_retry(notifier, Invalidation::Name(INodeNo(parent), changed.name.clone()));
                let _ = notifier.inval_inode(INodeNo(parent), -1, 0);
            }
        }
    }

    fn send_or_retry(&mut self, notifier: &Notifier, told: Invalidation) {
        if !told.send(notifier) {
            self.retries.push(told);
        }
    }
}
