//! Whether everything in a directory still has a valid path at the directory's destination.

use std::ops::ControlFlow;

use crate::error::{Error, Result, Visibility};
use crate::path::{MAX_DEPTH, MAX_PATH, PathError};
use crate::search::WalkOptions;
use crate::store::{NodeKind, StoreError, WalkEntry};
use crate::vfs::call::Call;
use crate::vfs::resolve::ResolvedPath;

impl Call<'_> {
    /// Refuses to move or copy a directory to where a path in it would be over the limits of depth or length, and could
    /// not be used any more.
    ///
    /// The directory is walked only if the destination is deeper than the source, or its path is longer.
    pub(super) fn check_path_limits(&self, from: &ResolvedPath<'_>, to: &ResolvedPath<'_>) -> Result<()> {
        // Where the caller may not read, it can move only files.
        let is_deeper = to.path.depth() > from.path.depth();
        let is_longer = to.path.as_str().len() > from.path.as_str().len();
        if !(is_deeper || is_longer) || from.visibility() == Visibility::Hidden {
            return Ok(());
        }
        match from.store().stat(&from.node_path) {
            Ok(attr) if attr.kind == NodeKind::Directory => {}
            // The change itself reports what is wrong.
            _ => return Ok(()),
        }
        let mut limit_error = None;
        let visit = &mut |entry: WalkEntry| {
            let depth = to.path.depth() + entry.path.depth();
            let length = to.path.as_str().len() + 1 + entry.path.as_bytes().len();
            if depth > MAX_DEPTH {
                limit_error = Some(PathError::TooDeep { depth });
            } else if length > MAX_PATH {
                limit_error = Some(PathError::TooLong { length });
            }
            let is_done = limit_error.is_some() || self.check_not_stopped().is_err();
            if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match from.store().walk(&from.node_path, &WalkOptions::default(), visit) {
            // In a directory whose mode lets nobody in, no path can be used anyway. Its owner may still move it.
            Ok(())
            | Err(
                StoreError::NotFound
                | StoreError::Link(_)
                | StoreError::NotADirectory
                | StoreError::HostDenied,
            ) => {}
            Err(cause) => return Err(from.store_error(cause)),
        }
        self.check_not_stopped()?;
        limit_error.map_or(Ok(()), |limit_error| Err(to.refusal(Error::Path(limit_error))))
    }
}
