//! Invalidates the kernel's caches after changes by others, so that the kernel may cache replies for long.
//!
//! A Store with a feed reports what any process has changed since a cursor, and wakes its subscribers after a change. The kernel already knows the
//! changes made through this mount. By the time the other changes are read from the feed, names may have changed again,
//! also through this mount; so each is compared with the Store's present state.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fuser::{INodeNo, Notifier};
use stead_core::Name;
use stead_core::store::{ChangeKind, ChangeSignal, FeedEntry, NodePath, RevisionNumber, Store, Subscription};

use crate::linux::fuse_adapter::FuseAdapter;

/// When a Store is looked at again whose feed could not be read or subscribed to, or whose invalidations are sent once
/// more.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// How many changes are read at once.
const MAX_CHANGES: usize = 10_000;

/// A Store, and the Workspaces over it.
struct FollowedStore {
    store: Arc<dyn Store>,
    workspaces: Vec<usize>,
    cursor: Option<RevisionNumber>,
    /// `None` as long as the Store could not be subscribed to.
    subscription: Option<Subscription>,
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

/// Wakes the thread that follows the feeds, and tells it to end.
#[derive(Debug, Default)]
pub(crate) struct FollowerControl {
    wake: Arc<ChangeSignal>,
    is_stopped: AtomicBool,
}

impl FollowerControl {
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.wake.raise();
    }
}

/// The Stores with a feed, and the cursor of each: [`FeedFollower::run`] handles all changes after it.
pub(crate) struct FeedFollower {
    stores: Vec<FollowedStore>,
    control: Arc<FollowerControl>,
}

impl FeedFollower {
    /// Takes the cursors that stand for now.
    pub(crate) fn new(adapter: &FuseAdapter) -> Self {
        adapter.node_api.track_feed_echoes();
        let control = Arc::<FollowerControl>::default();
        let mut stores: Vec<FollowedStore> = Vec::new();
        for workspace in 0..adapter.node_api.workspaces().len() {
            let store = adapter.node_api.store(workspace);
            match stores.iter_mut().find(|followed| followed.store.id() == store.id()) {
                Some(followed) => followed.workspaces.push(workspace),
                None if store.feed().is_some() => {
                    let mut followed = FollowedStore {
                        store: Arc::clone(store),
                        workspaces: vec![workspace],
                        cursor: None,
                        subscription: None,
                        retries: Vec::new(),
                    };
                    followed.begin(&control.wake);
                    stores.push(followed);
                }
                None => {}
            }
        }
        FeedFollower { stores, control }
    }

    /// Whether no Store has a feed.
    pub(crate) fn is_empty(&self) -> bool {
        self.stores.is_empty()
    }

    pub(crate) fn control(&self) -> Arc<FollowerControl> {
        Arc::clone(&self.control)
    }

    /// Handles changes until it is stopped.
    pub(crate) fn run(mut self, adapter: &FuseAdapter, notifier: &Notifier) {
        let mut needs_retry = self.stores.iter().any(|store| store.subscription.is_none());
        loop {
            self.control.wake.wait(needs_retry.then_some(RETRY_INTERVAL));
            if self.control.is_stopped.load(Ordering::Acquire) {
                return;
            }
            needs_retry = false;
            for store in &mut self.stores {
                needs_retry |= !store.catch_up(adapter, notifier, &self.control.wake);
            }
        }
    }
}

impl FollowedStore {
    /// Subscribes to the feed, and takes the cursor of now if there is none. If that fails, it is tried again later; until
    /// then the kernel's cached replies expire as usual.
    fn begin(&mut self, wake: &Arc<ChangeSignal>) {
        let Some(feed) = self.store.feed() else { return };
        if self.subscription.is_none() {
            self.subscription = feed.subscribe(wake.listener()).ok();
        }
        if self.cursor.is_none() {
            self.cursor = feed.changes_since(None, 1).ok().map(|feed| feed.cursor);
        }
    }

    /// Handles the changes since the cursor. Returns whether nothing is left to be tried again.
    fn catch_up(&mut self, adapter: &FuseAdapter, notifier: &Notifier, wake: &Arc<ChangeSignal>) -> bool {
        // A reply that was on its way then has arrived by now.
        for invalidation in std::mem::take(&mut self.retries) {
            invalidation.send(notifier);
        }
        self.begin(wake);
        while self.cursor.is_some() {
            let feed = self.store.require_feed();
            let Ok(feed) = feed.and_then(|feed| feed.changes_since(self.cursor, MAX_CHANGES)) else {
                return false;
            };
            self.cursor = Some(feed.cursor);
            let more = feed.more;
            if feed.changes.is_empty() {
                break;
            }
            let foreign_changes = adapter.node_api.foreign_changes(&*self.store, feed);
            if !foreign_changes.is_empty() {
                adapter.note_foreign_change();
            }
            for entry in &foreign_changes {
                for index in 0..self.workspaces.len() {
                    self.invalidate(adapter, notifier, self.workspaces[index], entry);
                }
            }
            if !more {
                break;
            }
        }
        self.subscription.is_some() && self.cursor.is_some() && self.retries.is_empty()
    }

    fn invalidate(
        &mut self,
        adapter: &FuseAdapter,
        notifier: &Notifier,
        workspace: usize,
        entry: &FeedEntry,
    ) {
        let inodes = &adapter.inodes;
        match entry.kind {
            ChangeKind::Written | ChangeKind::Attributes => {
                let Some(ino) = inodes.ino_of(workspace, entry.node) else { return };
                let tag = self.store.stat(&NodePath::of_node(entry.node)).ok().map(|attr| attr.tag);
                let outdated = tag.filter(|tag| inodes.is_stale(ino, *tag));
                if let Some(tag) = outdated {
                    adapter.invalidate_content(INodeNo(ino), tag);
                } else {
                    // Even if the cached content is current: of two replies at once, the kernel may have used the older
                    // one.
                    adapter.node_api.refresh(workspace, entry.node);
                    self.send_or_retry(notifier, Invalidation::Inode(INodeNo(ino)));
                }
            }
            ChangeKind::Created | ChangeKind::MovedTo | ChangeKind::Removed | ChangeKind::MovedFrom => {
                let Some(parent) = inodes.ino_of(workspace, entry.parent) else { return };
                let Some(name) = Name::new(&*entry.name) else { return };
                {
                    // A rename through this mount is in the Store before it is in the inode table.
                    let _names = adapter.lock_names();
                    let attr = self.store.stat(&NodePath::child(entry.parent, &name)).ok();
                    let store_ino = attr.and_then(|attr| inodes.ino_of(workspace, attr.node));
                    let table_ino = inodes.ino_named(parent, &name);
                    if store_ino.is_some() && store_ino == table_ino {
                        return;
                    }
                    // The kernel finds the new location of a moved node by itself. Until then, the table has no path
                    // for the node: the door would authorize a call at one path, while the kernel still takes the node
                    // to be at the other.
                    inodes.remove_foreign(parent, &name);
                    if let Some(ino) = store_ino {
                        inodes.mark_moved(ino);
                    }
                }
                // No lock is held here: the kernel may wait for a reply about that directory before it handles this
                // message.
                self.send_or_retry(notifier, Invalidation::Name(INodeNo(parent), entry.name.clone()));
                let _ = notifier.inval_inode(INodeNo(parent), -1, 0);
            }
        }
    }

    fn send_or_retry(&mut self, notifier: &Notifier, invalidation: Invalidation) {
        if !invalidation.send(notifier) {
            self.retries.push(invalidation);
        }
    }
}
