//! Which Workspaces may be forked, and by which path.

use super::*;
use crate::store::StoreError;

fn fork_error(vfs: &Vfs, prefix: &str) -> Error {
    // The model Store has no forks: it refuses every call that reaches it.
    vfs.fork(prefix, "draft".parse().unwrap(), "tester").unwrap_err()
}

#[test]
fn the_scope_is_checked_before_the_store_is_called() {
    let guarded = Workspace::new(path("/guarded"), WriteOnly, Mount::new(Arc::new(PanickingStore)));
    assert!(matches!(fork_error(&vfs_with([guarded]), "/guarded"), Error::ScopeDenied { .. }));
    for scope in [ReadOnly, ReadWrite] {
        let vfs = vfs_with([workspace("/w", scope, &Arc::new(ModelStore::new()))]);
        let error = fork_error(&vfs, "/w");
        assert!(matches!(error, Error::Store { cause: StoreError::Unsupported(_), .. }), "{error:?}");
    }
}

#[test]
fn only_a_workspace_itself_is_forked() {
    let vfs = vfs_with([workspace("/w/x", ReadWrite, &Arc::new(ModelStore::new()))]);
    assert!(fork_error(&vfs, "/w/x/d").to_string().contains("fork the whole Workspace `/w/x`"));
    assert!(matches!(fork_error(&vfs, "/w"), Error::SyntheticDirectory { .. }));
    assert!(matches!(fork_error(&vfs, "/other"), Error::OutsideWorkspaces { .. }));
}
