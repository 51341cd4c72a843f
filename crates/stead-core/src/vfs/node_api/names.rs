//! Changing names and attributes through the node API.

use crate::clock::Timestamp;
use crate::error::{Error, Result, Visibility};
use crate::name::Name;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{
    Attr, IfMissing, NodeId, NodeKind, Precondition, Replace, Side, Step, StoreError, StorePath, Subtree,
    SyncPolicy, VersionTag,
};
use crate::vfs::call::{Call, ChangeStage};
use crate::vfs::node_api::{DirectoryRef, Lookup, NodeApi, child_path, expected_nodes, symlink_as_conflict};
use crate::vfs::resolve::ResolvedPath;

impl NodeApi {
    /// Creates a directory.
    pub fn mkdir(&self, seat: &DirectoryRef, name: &Name, mode: u32) -> Result<Lookup> {
        self.vfs.call("mkdir", [child_path(seat, name)], |call, [path]| {
            let spot = call.authorize(path, Access::Write)?;
            self.special_files.check_free(seat.node, &spot)?;
            let step = Step::Mkdir {
                at: spot.node_path.clone(),
                parents: call.parents_policy(seat),
                mode: Some(mode),
            };
            match call.change_at(&spot, vec![step], expected_nodes(&[(&spot, seat)])) {
                // In a WRITE_ONLY Workspace, an existing directory has to look like a new one.
                Err(Error::Store { cause: StoreError::AlreadyExists, .. })
                    if spot.visibility() == Visibility::Hidden =>
                {
                    match spot.store().stat(&spot.node_path) {
                        Ok(attr) if attr.kind == NodeKind::Directory => {
                            call.apply_nothing(SyncPolicy::Deferred)
                                .map_err(|cause| spot.store_error(cause))?;
                            Ok(self.created_lookup(&spot, attr))
                        }
                        _ => Err(spot.store_error(StoreError::HostDenied)),
                    }
                }
                made => made.map(|attr| self.created_lookup(&spot, attr)),
            }
        })
    }

    /// Creates a symlink.
    pub fn symlink(&self, seat: &DirectoryRef, name: &Name, target: &[u8]) -> Result<Lookup> {
        self.vfs.call("symlink", [child_path(seat, name)], |call, [path]| {
            if target.is_empty() || target.contains(&0) || target.len() > crate::path::MAX_PATH {
                return Err(Error::Invalid("a symlink's target has to be a path of 1 to 4096 bytes".into()));
            }
            let spot = call.authorize(path, Access::Write)?;
            spot.check_not_protected_ancestor()?;
            self.special_files.check_free(seat.node, &spot)?;
            let (at, parents) = (spot.node_path.clone(), call.parents_policy(seat));
            let step = Step::Symlink { at, target: target.to_vec(), parents, expect: Precondition::Absent };
            let attr = call.change_at(&spot, vec![step], expected_nodes(&[(&spot, seat)]))?;
            Ok(self.created_lookup(&spot, attr))
        })
    }

    /// Removes a file or a symlink.
    pub fn unlink(&self, seat: &DirectoryRef, name: &Name) -> Result<()> {
        self.remove(seat, name, Subtree::File)
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, seat: &DirectoryRef, name: &Name) -> Result<()> {
        self.remove(seat, name, Subtree::EmptyDirectory)
    }

    fn remove(&self, seat: &DirectoryRef, name: &Name, subtree: Subtree) -> Result<()> {
        self.vfs.call("remove", [child_path(seat, name)], |call, [path]| {
            let spot = call.authorize(path, Access::Write)?;
            call.check_movable(&spot)?;
            if self.remove_special(call, &spot, seat, subtree)? {
                return Ok(());
            }
            let step = Step::Remove {
                at: spot.node_path.clone(),
                subtree,
                expect: Precondition::Any,
                if_missing: IfMissing::Fail,
                protected: spot.protected_names(Side::From),
                displaced: spot.displaced_content(),
            };
            match call.apply_at(&spot, vec![step], expected_nodes(&[(&spot, seat)])) {
                // In a WRITE_ONLY Workspace, a failure must not reveal whether a node is there. One that stays is
                // hidden from now on, and a revision is made, as for a removal.
                Err(error) if error.reveals_existence() => {
                    if let Ok(attr) = spot.store().stat(&spot.node_path) {
                        self.created_hidden.lock().remove(&(self.workspace_index(spot.workspace), attr.node));
                    }
                    call.apply_nothing(SyncPolicy::Deferred).map_err(|cause| spot.store_error(cause))
                }
                removed => removed.map(drop),
            }
        })
    }

    /// Renames a node within one Workspace.
    pub fn rename(
        &self,
        (from_seat, from): (&DirectoryRef, &Name),
        (to_seat, to): (&DirectoryRef, &Name),
        replace: Replace,
    ) -> Result<()> {
        let paths = [child_path(from_seat, from), child_path(to_seat, to)];
        self.vfs.call("move", paths, |call, [from, to]| {
            let (from, to) = (call.authorize(from, Access::Write)?, call.authorize(to, Access::Write)?);
            call.check_movable(&from)?;
            call.check_movable(&to)?;
            if from.workspace.prefix() != to.workspace.prefix() {
                return Err(Error::AcrossWorkspaces { from: from.path.clone(), to: to.path.clone() });
            }
            if self.rename_special(call, (&from, from_seat), (&to, to_seat), replace)? {
                return Ok(());
            }
            call.check_path_limits(&from, &to)?;
            let mut expect = call.check_destination(&from, &to)?;
            if from.visibility() == Visibility::Hidden {
                expect = Precondition::Tag(call.check_own_file(&from)?);
            }
            if replace == Replace::Exchange {
                if to.visibility() == Visibility::Hidden {
                    // An exchange needs a node at `to`, so its success would reveal that there is one.
                    call.check_own_file(&to)?;
                }
                call.check_path_limits(&to, &from)?;
                call.check_destination(&to, &from)?;
                call.check_exchange(&from, &to)?;
            }
            let step = Step::Rename {
                from: from.node_path.clone(),
                to: to.node_path.clone(),
                replace,
                parents: call.parents_policy(to_seat),
                expect,
                protected: [from.protected_names(Side::From), to.protected_names(Side::To)],
            };
            let still = expected_nodes(&[(&from, from_seat), (&to, to_seat)]);
            call.join_creating_operation_at(&from);
            call.apply_at(&from, vec![step], still)?;
            self.special_files.release_name(to_seat.node, &to);
            Ok(())
        })
    }

    /// Sets permission bits and the time of the last modification of a node. Also returns the tag that the node had
    /// before: its content is still the same.
    pub fn set_attributes(
        &self,
        (path, node): (&VfsPath, NodeId),
        mode: Option<u32>,
        modified: Option<Timestamp>,
    ) -> Result<(Lookup, VersionTag)> {
        self.vfs.call("set_attributes", [Ok(path.clone())], |call, [path]| {
            let spot = call.authorize(path, Access::Write)?;
            if let Some(looked) = self.set_special_attributes(path, node, mode, modified) {
                // A special file has no content.
                let tag = looked.attr.tag;
                return Ok((looked, tag));
            }
            let before = call.check_node(&spot, node)?;
            call.join_creating_operation(spot.workspace.mount().store(), node);
            call.sets_attributes(&spot);
            let step = Step::SetAttr { at: spot.node_path.clone(), mode, modified };
            let attr = call.change_at(&spot, vec![step], Vec::new())?;
            let store = spot.workspace.mount().store();
            self.vfs.shared.open_nodes.move_edit_base(store, node, before.tag, attr.tag);
            Ok((self.created_lookup(&spot, attr), before.tag))
        })
    }
}

impl Call<'_> {
    /// Applies a change at a path and returns the attributes of what is there now.
    pub(super) fn change_at(
        &self,
        spot: &ResolvedPath<'_>,
        steps: Vec<Step>,
        still: Vec<(StorePath, NodeId)>,
    ) -> Result<Attr> {
        let attr = self.apply_at(spot, steps, still)?;
        attr.ok_or_else(|| spot.store_error(StoreError::NotFound))
    }

    pub(super) fn apply_at(
        &self,
        spot: &ResolvedPath<'_>,
        steps: Vec<Step>,
        still: Vec<(StorePath, NodeId)>,
    ) -> Result<Option<Attr>> {
        let applied = self.apply_with(spot.store(), steps, ChangeStage::Final, |change| {
            change.expect_nodes = still;
            change.sync = SyncPolicy::Deferred;
        });
        let applied = applied.map_err(|cause| spot.store_error(symlink_as_conflict(cause)))?;
        self.shared().read_set.forget(&spot.path);
        Ok(applied.outcomes.first().and_then(|outcome| outcome.attr))
    }

    /// Checks that `node` is at the path, and returns its attributes.
    pub(super) fn check_node(&self, spot: &ResolvedPath<'_>, node: NodeId) -> Result<Attr> {
        match spot.store().stat(&spot.node_path) {
            Ok(attr) if attr.node == node => Ok(attr),
            Ok(_) => Err(spot.store_error(StoreError::Conflict)),
            Err(cause) => Err(spot.store_error(symlink_as_conflict(cause))),
        }
    }

    /// Checks that `from` may take the name `to`: if protected names can lie below `to`, only a directory may. Returns
    /// the precondition on `from`.
    fn check_destination(&self, from: &ResolvedPath<'_>, to: &ResolvedPath<'_>) -> Result<Precondition> {
        let Err(refused) = to.check_not_protected_ancestor() else { return Ok(Precondition::Any) };
        let attr = from
            .store()
            .stat(&from.node_path)
            .map_err(|cause| from.store_error(symlink_as_conflict(cause)))?;
        if attr.kind == NodeKind::Directory { Ok(Precondition::Tag(attr.tag)) } else { Err(refused) }
    }

    /// Checks that two nodes may be exchanged. The step guards the protected names of a rename in one direction, and an
    /// exchange moves nodes in both. So a directory may be exchanged only in a Workspace that protects nothing.
    fn check_exchange(&self, from: &ResolvedPath<'_>, to: &ResolvedPath<'_>) -> Result<()> {
        for spot in [from, to] {
            let attr = spot
                .store()
                .stat(&spot.node_path)
                .map_err(|cause| spot.store_error(symlink_as_conflict(cause)))?;
            if attr.kind == NodeKind::Directory && !spot.workspace.protect().is_empty() {
                let workspace = spot.workspace.prefix().clone();
                return Err(Error::Protected { path: spot.path.clone(), workspace });
            }
        }
        Ok(())
    }
}
