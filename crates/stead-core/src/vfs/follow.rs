//! Following a file: whether it is in another state than before, whoever changed it.

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
    /// Begins to follow what has a path that may be read; it need not be there yet.
    ///
    /// That it is followed is on record. Looking whether it has changed tells nothing of what is in it, and is not.
    pub fn follow(&self, path: impl IntoPath) -> Result<FollowedFile> {
        self.call("follow", [path.into_path()], |call, [path]| {
            let state = call.current_tag(path)?;
            Ok(FollowedFile { vfs: self.clone(), path: path.clone(), tag: state })
        })
    }
}

impl Call<'_> {
    /// The state of what a path leads to; `None` where nothing is there.
    fn current_tag(&self, path: &VfsPath) -> Result<Option<VersionTag>> {
        match self.resolve_and_call(path, Access::Read, |spot| spot.store().stat(&spot.node_path)) {
            Ok((attr, _)) => Ok(Some(attr.tag)),
            Err(Error::Store { cause: StoreError::NotFound, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl FollowedFile {
    /// The path.
    pub fn path(&self) -> &VfsPath {
        &self.path
    }

    /// Whether it is in another state than when this was last asked. What can't be told now is told later.
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
