//! Which Workspaces may be forked, and by which path.

use super::*;
use crate::store::StoreError;

fn fork(vfs: &Vfs, prefix: &str) -> Error {
    // The model Store has no forks: it refuses every call that reaches it.
    vfs.fork(prefix, "draft".parse().unwrap(), "tester").unwrap_err()
}

#[test]
fn the_scope_is_judged_before_the_store_is_called() {
    let guarded = Workspace::new(path("/guarded"), WriteOnly, Mount::new(Arc::new(PanickingStore)));
    assert!(matches!(fork(&door([guarded]), "/guarded"), Error::ScopeDenied { .. }));
    for scope in [ReadOnly, ReadWrite] {
        let vfs = door([workspace("/w", scope, &Arc::new(ModelStore::new()))]);
        let refused = fork(&vfs, "/w");
        assert!(matches!(refused, Error::Store { cause: StoreError::Unsupported(_), .. }), "{refused:?}");
    }
}

#[test]
fn only_a_workspace_itself_is_forked() {
    let vfs = door([workspace("/w/x", ReadWrite, &Arc::new(ModelStore::new()))]);
    assert!(fork(&vfs, "/w/x/d").to_string().contains("fork the whole Workspace `/w/x`"));
    assert!(matches!(fork(&vfs, "/w"), Error::SyntheticDirectory { .. }));
    assert!(matches!(fork(&vfs, "/other"), Error::OutsideWorkspaces { .. }));
}
