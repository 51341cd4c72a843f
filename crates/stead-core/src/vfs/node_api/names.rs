//! Changing names and attributes through the node API.

use crate::clock::Timestamp;
use crate::error::{Error, Result, Visibility};
use crate::name::Name;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{
    Attr, HiddenRule, IfMissing, NodeId, NodeKind, Precondition, Replace, Side, Step, StepOutcome,
    StoreError, StorePath, Subtree, SyncPolicy, VersionTag,
};
use crate::vfs::call::{Call, ChangeStage};
use crate::vfs::node_api::{DirectoryRef, Lookup, NodeApi, child_path, expected_nodes, symlink_as_conflict};
use crate::vfs::resolve::ResolvedPath;

impl NodeApi {
    /// Creates a directory.
    pub fn mkdir(&self, directory: &DirectoryRef, name: &Name, mode: u32) -> Result<Lookup> {
        self.vfs.call("mkdir", [child_path(directory, name)], |call, [path]| {
            let resolved = call.authorize(path, Access::Write)?;
            self.special_files.check_free(directory.node, &resolved)?;
            let step = Step::Mkdir {
                at: resolved.node_path.clone(),
                parents: call.parents_policy(directory),
                mode: Some(mode),
            };
            match call.change_at(&resolved, vec![step], expected_nodes(&[(&resolved, directory)])) {
                // In a WRITE_ONLY Workspace, an existing directory has to look like a new one.
                Err(Error::Store { cause: StoreError::AlreadyExists, .. })
                    if resolved.visibility() == Visibility::Hidden =>
                {
                    match resolved.store().stat(&resolved.node_path) {
                        Ok(attr) if attr.kind == NodeKind::Directory => {
                            call.apply_empty_change(SyncPolicy::Deferred)
                                .map_err(|cause| resolved.store_error(cause))?;
                            Ok(self.created_lookup(&resolved, attr))
                        }
                        _ => Err(resolved.store_error(StoreError::HostDenied)),
                    }
                }
                result => result.map(|attr| self.created_lookup(&resolved, attr)),
            }
        })
    }

    /// Creates a symlink.
    pub fn symlink(&self, directory: &DirectoryRef, name: &Name, target: &[u8]) -> Result<Lookup> {
        self.vfs.call("symlink", [child_path(directory, name)], |call, [path]| {
            if target.is_empty() || target.contains(&0) || target.len() > crate::path::MAX_PATH {
                return Err(Error::Invalid("a symlink's target has to be a path of 1 to 4096 bytes".into()));
            }
            let resolved = call.authorize(path, Access::Write)?;
            resolved.check_not_protected_ancestor()?;
            self.special_files.check_free(directory.node, &resolved)?;
            let (at, parents) = (resolved.node_path.clone(), call.parents_policy(directory));
            let step = Step::Symlink { at, target: target.to_vec(), parents, expect: Precondition::Absent };
            let attr = call.change_at(&resolved, vec![step], expected_nodes(&[(&resolved, directory)]))?;
            Ok(self.created_lookup(&resolved, attr))
        })
    }

    /// Removes a file or a symlink.
    pub fn unlink(&self, directory: &DirectoryRef, name: &Name) -> Result<()> {
        self.remove(directory, name, Subtree::File)
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, directory: &DirectoryRef, name: &Name) -> Result<()> {
        self.remove(directory, name, Subtree::EmptyDirectory)
    }

    fn remove(&self, directory: &DirectoryRef, name: &Name, subtree: Subtree) -> Result<()> {
        self.vfs.call("remove", [child_path(directory, name)], |call, [path]| {
            let resolved = call.authorize(path, Access::Write)?;
            call.check_movable(&resolved)?;
            if self.remove_special(call, &resolved, directory, subtree)? {
                return Ok(());
            }
            let step = Step::Remove {
                at: resolved.node_path.clone(),
                subtree,
                expect: Precondition::Any,
                if_missing: IfMissing::Fail,
                protected: resolved.protected_names(Side::From, None),
                displaced: resolved.displaced_content(),
            };
            match call.apply_at(&resolved, vec![step], expected_nodes(&[(&resolved, directory)])) {
                // In a WRITE_ONLY Workspace, a failure must not reveal whether a node is there. One that stays is
                // hidden from now on, and a revision is made, as for a removal.
                Err(error) if error.reveals_existence() => {
                    if let Ok(attr) = resolved.store().stat(&resolved.node_path) {
                        self.created_hidden
                            .lock()
                            .remove(&(self.workspace_index(resolved.workspace), attr.node));
                    }
                    call.apply_empty_change(SyncPolicy::Deferred).map_err(|cause| resolved.store_error(cause))
                }
                removed => removed.map(drop),
            }
        })
    }

    /// Renames a node within one Workspace.
    pub fn rename(
        &self,
        (from_directory, from): (&DirectoryRef, &Name),
        (to_directory, to): (&DirectoryRef, &Name),
        replace: Replace,
    ) -> Result<()> {
        let paths = [child_path(from_directory, from), child_path(to_directory, to)];
        self.vfs.call("move", paths, |call, [from, to]| {
            let (from, to) = (call.authorize(from, Access::Write)?, call.authorize(to, Access::Write)?);
            call.check_movable(&from)?;
            call.check_movable(&to)?;
            if from.workspace.prefix() != to.workspace.prefix() {
                return Err(Error::AcrossWorkspaces { from: from.path.clone(), to: to.path.clone() });
            }
            if self.rename_special(call, (&from, from_directory), (&to, to_directory), replace)? {
                return Ok(());
            }
            check_reveals_nothing(&from, &to, replace)?;
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
                parents: call.parents_policy(to_directory),
                expect,
                protected: [
                    from.protected_names(Side::From, hidden_rule(&from, &to, replace)),
                    to.protected_names(Side::To, None),
                ],
            };
            let expect_nodes = expected_nodes(&[(&from, from_directory), (&to, to_directory)]);
            call.join_creating_operation_at(&from);
            call.apply_at(&from, vec![step], expect_nodes)?;
            self.special_files.release_name(to_directory.node, &to);
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
            let resolved = call.authorize(path, Access::Write)?;
            if let Some(lookup) = self.set_special_attributes(path, node, mode, modified) {
                // A special file has no content.
                let tag = lookup.attr.tag;
                return Ok((lookup, tag));
            }
            let before = call.check_node(&resolved, node)?;
            // A program such as `tar` also sets the bits that a directory has already.
            resolved.check_mode_change(mode.filter(|mode| *mode != before.mode))?;
            let store = resolved.workspace.mount().store();
            // A program sets the mode and the times of a file that it creates, such as `tar`, before it closes it.
            if before.kind == NodeKind::File && !self.vfs.shared.open_nodes.is_open(store, node) {
                resolved.check_openable()?;
            }
            call.join_creating_operation(store, node);
            call.name_as_set_attributes(&resolved);
            let step = Step::SetAttr { at: resolved.node_path.clone(), mode, modified };
            let outcome = call.outcome_at(&resolved, vec![step], Vec::new())?;
            let attr = outcome.attr.ok_or_else(|| resolved.store_error(StoreError::NotFound))?;
            // Another program may have written since the check.
            let before_tag = outcome.before.unwrap_or(before.tag);
            self.vfs.shared.open_nodes.move_edit_base(store, node, before_tag, attr.tag);
            Ok((self.created_lookup(&resolved, attr), before_tag))
        })
    }
}

/// Refuses to give a hidden file a name under which it could be opened.
fn check_reveals_nothing(from: &ResolvedPath<'_>, to: &ResolvedPath<'_>, replace: Replace) -> Result<()> {
    match (from.check_openable(), to.check_openable()) {
        (Err(error), Ok(())) => Err(error),
        (Ok(()), Err(error)) if replace == Replace::Exchange => Err(error),
        _ => Ok(()),
    }
}

/// The same for what is in a directory.
fn hidden_rule(from: &ResolvedPath<'_>, to: &ResolvedPath<'_>, replace: Replace) -> Option<HiddenRule> {
    let (before, after) = (from.hidden_names()?, to.hidden_names()?);
    Some(match replace {
        Replace::Refuse | Replace::Overwrite => HiddenRule::NotRevealed { before, after },
        Replace::Exchange => HiddenRule::SameAtBoth([before, after]),
    })
}

impl Call<'_> {
    /// Applies a change at a path and returns the attributes of what is there now.
    pub(super) fn change_at(
        &self,
        resolved: &ResolvedPath<'_>,
        steps: Vec<Step>,
        expect_nodes: Vec<(StorePath, NodeId)>,
    ) -> Result<Attr> {
        let attr = self.apply_at(resolved, steps, expect_nodes)?;
        attr.ok_or_else(|| resolved.store_error(StoreError::NotFound))
    }

    pub(super) fn apply_at(
        &self,
        resolved: &ResolvedPath<'_>,
        steps: Vec<Step>,
        expect_nodes: Vec<(StorePath, NodeId)>,
    ) -> Result<Option<Attr>> {
        Ok(self.outcome_at(resolved, steps, expect_nodes)?.attr)
    }

    /// Like [`Call::apply_at`], and returns all of the first step's outcome.
    fn outcome_at(
        &self,
        resolved: &ResolvedPath<'_>,
        steps: Vec<Step>,
        expect_nodes: Vec<(StorePath, NodeId)>,
    ) -> Result<StepOutcome> {
        let applied = self.apply_with(resolved.store(), steps, ChangeStage::Final, |change| {
            change.expect_nodes = expect_nodes;
            change.sync = SyncPolicy::Deferred;
        });
        let applied = applied.map_err(|cause| resolved.store_error(symlink_as_conflict(cause)))?;
        self.shared().read_set.forget(&resolved.path);
        Ok(applied.outcomes.first().copied().unwrap_or_default())
    }

    /// Checks that `node` is at the path, and returns its attributes.
    pub(super) fn check_node(&self, resolved: &ResolvedPath<'_>, node: NodeId) -> Result<Attr> {
        match resolved.store().stat(&resolved.node_path) {
            Ok(attr) if attr.node == node => Ok(attr),
            Ok(_) => Err(resolved.store_error(StoreError::Conflict)),
            Err(cause) => Err(resolved.store_error(symlink_as_conflict(cause))),
        }
    }

    /// Checks that `from` may take the name `to`: if protected names can lie below `to`, only a directory may. Returns
    /// the precondition on `from`.
    fn check_destination(&self, from: &ResolvedPath<'_>, to: &ResolvedPath<'_>) -> Result<Precondition> {
        let Err(error) = to.check_not_protected_ancestor() else { return Ok(Precondition::Any) };
        let attr = from
            .store()
            .stat(&from.node_path)
            .map_err(|cause| from.store_error(symlink_as_conflict(cause)))?;
        if attr.kind == NodeKind::Directory { Ok(Precondition::Tag(attr.tag)) } else { Err(error) }
    }

    /// Checks that two nodes may be exchanged. The step guards the protected names of a rename in one direction, and an
    /// exchange moves nodes in both. So a directory may be exchanged only in a Workspace that protects nothing.
    fn check_exchange(&self, from: &ResolvedPath<'_>, to: &ResolvedPath<'_>) -> Result<()> {
        for resolved in [from, to] {
            let attr = resolved
                .store()
                .stat(&resolved.node_path)
                .map_err(|cause| resolved.store_error(symlink_as_conflict(cause)))?;
            if attr.kind == NodeKind::Directory && !resolved.workspace.protect().is_empty() {
                let workspace = resolved.workspace.prefix().clone();
                return Err(Error::Protected { path: resolved.path.clone(), workspace });
            }
        }
        Ok(())
    }
}
