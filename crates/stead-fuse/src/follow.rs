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
use stead_core::store::{ChangeKind, Changed, Place, Store, Version};

use crate::filesystem::Mounting;

/// How often a Store is asked.
const PACE: Duration = Duration::from_millis(10);
/// How much is taken at once.
const MOST: usize = 10_000;

/// One Store, and the Workspaces that stand on it.
struct Followed {
    store: Arc<dyn Store>,
    workspaces: Vec<usize>,
    cursor: Option<Version>,
}

/// Where each Store is now: all that happens from here on is told by [`follow`].
pub(crate) struct Beginning(Vec<Followed>);

impl Beginning {
    pub(crate) fn of(mounting: &Mounting) -> Self {
        mounting.door.follow();
        let mut followed: Vec<Followed> = Vec::new();
        for workspace in 0..mounting.door.workspaces().len() {
            let store = mounting.door.store(workspace);
            match followed.iter_mut().find(|known| Arc::ptr_eq(&known.store, store)) {
                Some(known) => known.workspaces.push(workspace),
                None if store.about().feed => followed.push(Followed {
                    store: Arc::clone(store),
                    workspaces: vec![workspace],
                    cursor: store.changes_since(None, 1).ok().map(|feed| feed.cursor),
                }),
                None => {}
            }
        }
        Beginning(followed)
    }

    /// Whether there is nobody to ask.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Follows the Stores until the other end of `stop` is dropped.
pub(crate) fn follow(mounting: &Mounting, notifier: &Notifier, beginning: Beginning, stop: &Receiver<()>) {
    let mut followed = beginning.0;
    while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(PACE) {
        for store in &mut followed {
            store.ask(mounting, notifier);
        }
    }
}

impl Followed {
    fn ask(&mut self, mounting: &Mounting, notifier: &Notifier) {
        loop {
            // What can't be told now is told later; until then the kernel believes it no longer than it may.
            let Ok(feed) = self.store.changes_since(self.cursor, MOST) else { return };
            self.cursor = Some(feed.cursor);
            let more = feed.more;
            if feed.changes.is_empty() {
                return;
            }
            for changed in &mounting.door.others(&*self.store, feed) {
                for &workspace in &self.workspaces {
                    self.tell(mounting, notifier, workspace, changed);
                }
            }
            if !more {
                return;
            }
        }
    }

    fn tell(&self, mounting: &Mounting, notifier: &Notifier, workspace: usize, changed: &Changed) {
        let inodes = &mounting.inodes;
        match changed.what {
            ChangeKind::Written | ChangeKind::Attributes => {
                let Some(ino) = inodes.number(workspace, changed.node) else { return };
                let now = self.store.stat(&Place::node(changed.node)).ok().map(|attr| attr.tag);
                if now.is_some() && now == inodes.told(ino) {
                    return;
                }
                mounting.door.refresh(workspace, changed.node);
                // The kernel has its reasons where it refuses: it knows the file no longer.
                let _ = notifier.inval_inode(INodeNo(ino), 0, 0);
            }
            ChangeKind::Created | ChangeKind::MovedTo | ChangeKind::Removed | ChangeKind::MovedFrom => {
                let Some(parent) = inodes.number(workspace, changed.parent) else { return };
                let Some(name) = Name::new(&*changed.name) else { return };
                let there = self.store.stat(&Place::child(changed.parent, &name)).ok();
                let there = there.and_then(|attr| inodes.number(workspace, attr.node));
                let named = inodes.named(parent, &name);
                if there.is_some() && there == named {
                    return;
                }
                // Where something has gone the kernel finds out by itself. Until then it is nowhere: what is judged
                // by the one path must not be done at the other, which is where the kernel still takes it to be.
                inodes.removed(parent, &name);
                if let Some(ino) = there {
                    inodes.gone(ino);
                }
                let _ = notifier.inval_entry(INodeNo(parent), OsStr::from_bytes(&changed.name));
                let _ = notifier.inval_inode(INodeNo(parent), -1, 0);
            }
        }
    }
}
