//! Whether all that is in a directory can still be named where the directory goes: a path has at most 64 names.

use std::ops::ControlFlow;

use crate::error::{Error, Result, Visibility};
use crate::path::{MAX_DEPTH, MAX_PATH, PathError};
use crate::search::WalkOptions;
use crate::store::{NodeKind, StoreError, WalkEntry};
use crate::vfs::call::Call;
use crate::vfs::resolve::ResolvedPath;

impl Call<'_> {
    /// Refuses to bring a directory so deep that something in it would have a path that can't be asked for.
    ///
    /// Only a move to a deeper place can do that, and only then the directory is looked through.
    pub(super) fn check_path_limits(&self, from: &ResolvedPath<'_>, to: &ResolvedPath<'_>) -> Result<()> {
        // Where nothing may be looked at, only files can be moved.
        if to.path.depth() <= from.path.depth() || from.visibility() == Visibility::Hidden {
            return Ok(());
        }
        match from.store().stat(&from.node_path) {
            Ok(attr) if attr.kind == NodeKind::Directory => {}
            // The change reports what is wrong with it.
            _ => return Ok(()),
        }
        let mut over = None;
        let visit = &mut |found: WalkEntry| {
            let depth = to.path.depth() + found.path.depth();
            let length = to.path.as_str().len() + 1 + found.path.as_bytes().len();
            if depth > MAX_DEPTH {
                over = Some(PathError::TooDeep { depth });
            } else if length > MAX_PATH {
                over = Some(PathError::TooLong { length });
            }
            if over.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match from.store().walk(&from.node_path, &WalkOptions::default(), visit) {
            Ok(()) | Err(StoreError::NotFound | StoreError::Link(_) | StoreError::NotADirectory) => {}
            Err(cause) => return Err(from.store_error(cause)),
        }
        over.map_or(Ok(()), |over| Err(Error::Path(over)))
    }
}
