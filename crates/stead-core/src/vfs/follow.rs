//! Following a file: whether its version tag has changed, by any agent or program.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{ChangeListener, Store, StoreError, Subscription, VersionTag};
use crate::vfs::call::Call;
use crate::vfs::{IntoPath, Vfs};

/// What is called when a followed file may have changed. It must return at once.
pub type FileWaker = Arc<dyn Fn() + Send + Sync>;

/// A file that is followed.
pub struct FollowedFile {
    vfs: Vfs,
    path: VfsPath,
    tag: Option<VersionTag>,
    /// The Stores that the path leads through: more than one if symlinks lead from one to another.
    stores: Vec<Arc<dyn Store>>,
    /// One for each of these Stores that reports its changes.
    subscriptions: Vec<Subscription>,
    /// Whether the file could be looked at the last time.
    is_visible: bool,
    waker: FileWaker,
}

impl fmt::Debug for FollowedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowedFile")
            .field("path", &self.path)
            .field("tag", &self.tag)
            .finish_non_exhaustive()
    }
}

/// What a path leads to, and the Stores on the way.
type CurrentFile = (Option<VersionTag>, Vec<Arc<dyn Store>>);

impl Vfs {
    /// Starts to follow a path that may be read. Nothing needs to exist there yet. `waker` is called at once, and then
    /// whenever it is time to ask [`FollowedFile::has_changed`].
    ///
    /// This call is recorded. Later looks for a change disclose nothing of the content, and are not recorded.
    pub fn follow(&self, path: impl IntoPath, waker: FileWaker) -> Result<FollowedFile> {
        self.call("follow", [path.into_path()], |call, [path]| {
            let (tag, stores) = call.current_file(path)?;
            let mut followed = FollowedFile {
                vfs: self.clone(),
                path: path.clone(),
                tag,
                stores: Vec::new(),
                subscriptions: Vec::new(),
                is_visible: true,
                waker,
            };
            followed.subscribe_to(stores);
            Ok(followed)
        })
    }
}

impl Call<'_> {
    /// The version tag of what a path leads to, `None` if nothing is there, and the Stores on the way.
    fn current_file(&self, path: &VfsPath) -> Result<CurrentFile> {
        let mut stores = Vec::new();
        let stat = self.resolve_and_call(path, Access::Read, |resolved| {
            stores.push(Arc::clone(resolved.workspace.mount().store()));
            resolved.store().stat(&resolved.node_path)
        });
        match stat {
            Ok((attr, _)) => Ok((Some(attr.tag), stores)),
            Err(Error::Store { cause: StoreError::NotFound, .. }) => Ok((None, stores)),
            Err(error) => Err(error),
        }
    }
}

impl FollowedFile {
    /// The path that is followed.
    pub fn path(&self) -> &VfsPath {
        &self.path
    }

    /// Whether the version tag has changed since this was last called. Returns `false` while the file can't be looked
    /// at; the change is then reported by a later call.
    pub fn has_changed(&mut self) -> bool {
        let result = self
            .vfs
            .subcall("follow", [Ok(self.path.clone())], |call, [path]| Ok(call.current_file(path).ok()));
        let Ok((Some((tag, stores)), _)) = result else {
            self.is_visible = false;
            return false;
        };
        self.is_visible = true;
        let is_same = |(one, other): (&Arc<dyn Store>, &Arc<dyn Store>)| Arc::ptr_eq(one, other);
        if stores.len() != self.stores.len() || !stores.iter().zip(&self.stores).all(is_same) {
            self.subscribe_to(stores);
        }
        std::mem::replace(&mut self.tag, tag) != tag
    }

    /// Whether changes may come without a call of the waker, so that the file has to be looked at from time to time: a
    /// Store on the way doesn't report its changes, or the file can't be looked at now.
    pub fn needs_polling(&self) -> bool {
        !self.is_visible || self.subscriptions.len() < self.stores.len()
    }

    fn subscribe_to(&mut self, stores: Vec<Arc<dyn Store>>) {
        let listener = || -> ChangeListener {
            let waker = Arc::clone(&self.waker);
            Box::new(move || waker())
        };
        self.subscriptions =
            stores.iter().filter_map(|store| store.feed()?.subscribe(listener()).ok()).collect();
        self.stores = stores;
        // The file may have changed before the subscriptions began.
        (self.waker)();
    }
}
