//! Following a file: whether its version tag has changed, by any agent or program.

use crate::error::{Error, Result};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{StoreError, VersionTag};
use crate::vfs::call::Call;
use crate::vfs::{IntoPath, Vfs};

/// A file that is followed.
#[derive(Debug)]
pub struct FollowedFile {
    vfs: Vfs,
    path: VfsPath,
    tag: Option<VersionTag>,
}

impl Vfs {
    /// Starts to follow a path that may be read. Nothing needs to exist there yet.
    ///
    /// This call is recorded. Later looks for a change disclose nothing of the content, and are not recorded.
    pub fn follow(&self, path: impl IntoPath) -> Result<FollowedFile> {
        self.call("follow", [path.into_path()], |call, [path]| {
            let state = call.current_tag(path)?;
            Ok(FollowedFile { vfs: self.clone(), path: path.clone(), tag: state })
        })
    }
}

impl Call<'_> {
    /// The version tag of what a path leads to; `None` if nothing is there.
    fn current_tag(&self, path: &VfsPath) -> Result<Option<VersionTag>> {
        match self.resolve_and_call(path, Access::Read, |spot| spot.store().stat(&spot.node_path)) {
            Ok((attr, _)) => Ok(Some(attr.tag)),
            Err(Error::Store { cause: StoreError::NotFound, .. }) => Ok(None),
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
        let looked = self
            .vfs
            .subcall("follow", [Ok(self.path.clone())], |call, [path]| Ok(call.current_tag(path).ok()));
        match looked {
            Ok((Some(state), _)) => std::mem::replace(&mut self.tag, state) != state,
            _ => false,
        }
    }
}
