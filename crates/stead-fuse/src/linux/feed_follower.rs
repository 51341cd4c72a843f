//! Tells the kernel what others have changed, so that it can believe for long what it was told.
//!
//! A Store with a feed says what has changed since a cursor, whoever changed it. What this mount has changed itself the
//! kernel knows already. Of the rest, names may have changed again by the time that this is heard, through this mount
//! as well: so what it is told is what is there now.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use fuser::{INodeNo, Notifier};
use stead_core::Name;
use stead_core::store::{ChangeKind, FeedEntry, NodePath, RevisionNumber, Store};

use crate::linux::fuse_adapter::FuseAdapter;

/// How often a Store is asked.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How much is taken at once.
const MAX_CHANGES: usize = 10_000;

/// One Store, and the Workspaces that stand on it.
struct FollowedStore {
    store: Arc<dyn Store>,
    workspaces: Vec<usize>,
    cursor: Option<RevisionNumber>,
    /// What the kernel did not know when it was told: an answer that tells it may have been on the way.
    retries: Vec<Invalidation>,
}

/// What the kernel is told.
enum Invalidation {
    /// A file's attributes are different.
    Inode(INodeNo),
    /// A name in a directory leads to something else.
    Name(INodeNo, Vec<u8>),
}

impl Invalidation {
    /// Whether the kernel knew it.
    fn send(&self, notifier: &Notifier) -> bool {
        match self {
            Invalidation::Inode(ino) => notifier.inval_inode(*ino, -1, 0).is_ok(),
            Invalidation::Name(parent, name) => {
                notifier.inval_entry(*parent, OsStr::from_bytes(name)).is_ok()
            }
        }
    }
}

/// Where each Store is now: all that happens from here on is told by [`follow`].
pub(crate) struct FeedCursors(Vec<FollowedStore>);

impl FeedCursors {
    pub(crate) fn take(mounting: &FuseAdapter) -> Self {
        mounting.node_api.track_own_revisions();
        let mut followed: Vec<FollowedStore> = Vec::new();
        for workspace in 0..mounting.node_api.workspaces().len() {
            let store = mounting.node_api.store(workspace);
            match followed.iter_mut().find(|known| Arc::ptr_eq(&known.store, store)) {
                Some(known) => known.workspaces.push(workspace),
                None if store.info().feed => followed.push(FollowedStore {
                    store: Arc::clone(store),
                    workspaces: vec![workspace],
                    cursor: store.changes_since(None, 1).ok().map(|feed| feed.cursor),
                    retries: Vec::new(),
                }),
                None => {}
            }
        }
        FeedCursors(followed)
    }

    /// Whether there is nobody to ask.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Follows the Stores until the other end of `stop` is dropped.
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
        // By now it has come, or never will.
        for told in std::mem::take(&mut self.retries) {
            told.send(notifier);
        }
        loop {
            // What can't be told now is told later; until then the kernel believes it no longer than it may.
            let Ok(feed) = self.store.changes_since(self.cursor, MAX_CHANGES) else { return };
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
                    // Also where the kernel was told already: of two answers at once it may have taken the older one.
                    mounting.node_api.refresh(workspace, changed.node);
                    self.send_or_retry(notifier, Invalidation::Inode(INodeNo(ino)));
                }
            }
            ChangeKind::Created | ChangeKind::MovedTo | ChangeKind::Removed | ChangeKind::MovedFrom => {
                let Some(parent) = inodes.ino_of(workspace, changed.parent) else { return };
                let Some(name) = Name::new(&*changed.name) else { return };
                {
                    // A rename through this mount is in the Store before it is in the table.
                    let _names = mounting.lock_names();
                    let there = self.store.stat(&NodePath::child(changed.parent, &name)).ok();
                    let there = there.and_then(|attr| inodes.ino_of(workspace, attr.node));
                    let named = inodes.ino_named(parent, &name);
                    if there.is_some() && there == named {
                        return;
                    }
                    // Where something has gone the kernel finds out by itself. Until then it is nowhere: what is judged
                    // by the one path must not be done at the other, which is where the kernel still takes it to be.
                    inodes.remove_foreign(parent, &name);
                    if let Some(ino) = there {
                        inodes.mark_moved(ino);
                    }
                }
                // The kernel may be waiting for an answer about that directory before it hears this: nothing is held.
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
