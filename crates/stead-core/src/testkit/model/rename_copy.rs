//! Renaming and copying in the model: the steps with two paths.

use std::sync::Arc;

use super::steps::{ModelTransaction, check_not_root, check_parents};
use super::{ModelBody, ModelSlot};
use crate::store::{
    ChangeKind, NodeId, NodePath, Parents, Precondition, ProtectedNames, Replace, Side, StepOutcome,
    StoreError, StoreResult,
};

/// An error, and which of the step's two paths it is about.
pub(super) struct StepError(pub(super) Side, pub(super) StoreError);

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        StepError(Side::From, error)
    }
}

fn at_destination(error: StoreError) -> StepError {
    StepError(Side::To, error)
}

impl ModelTransaction {
    pub(super) fn rename(
        &mut self,
        from: &NodePath,
        to: &NodePath,
        replace: Replace,
        parents: Parents,
        expect: Precondition,
        protected: &[Option<ProtectedNames>; 2],
    ) -> Result<StepOutcome, StepError> {
        let id = self.tree.find(from)?;
        let slot = self.tree.slot(to).map_err(at_destination)?;
        check_not_root(id)?;
        match slot {
            ModelSlot::Occupied(other) if other == id => {
                expect.check(Some(self.tree.node(id).tag))?;
                return Ok(self.outcome(id, false));
            }
            ModelSlot::Occupied(other) => {
                check_not_root(other).map_err(at_destination)?;
                match replace {
                    Replace::Refuse => return Err(at_destination(StoreError::AlreadyExists)),
                    Replace::Exchange => {
                        let nested =
                            self.tree.is_at_or_below(id, other) || self.tree.is_at_or_below(other, id);
                        if nested {
                            return Err(StoreError::IntoItself.into());
                        }
                    }
                    Replace::Overwrite => {
                        if self.tree.is_at_or_below(other, id) {
                            return Err(StoreError::IntoItself.into());
                        }
                        self.check_replaceable(id, other).map_err(at_destination)?;
                    }
                }
                expect.check(Some(self.tree.node(id).tag))?;
                for protected in protected.iter().flatten() {
                    self.check_protected(id, Some(protected))?;
                    if replace == Replace::Exchange {
                        self.check_protected(other, Some(protected))?;
                    }
                }
                let (old, new) = (self.parent_and_name(id), self.parent_and_name(other));
                self.remove_entry(id, ChangeKind::MovedFrom);
                if replace == Replace::Exchange {
                    self.remove_entry(other, ChangeKind::MovedFrom);
                    self.attach(other, old);
                } else {
                    self.remove_entry(other, ChangeKind::Removed);
                    self.drop_nodes(other);
                }
                self.attach(id, new);
            }
            ModelSlot::Missing { ancestor, names } => {
                check_parents(&names, parents).map_err(at_destination)?;
                if replace == Replace::Exchange {
                    return Err(at_destination(StoreError::NotFound));
                }
                if self.tree.is_at_or_below(ancestor, id) {
                    return Err(StoreError::IntoItself.into());
                }
                expect.check(Some(self.tree.node(id).tag))?;
                for protected in protected.iter().flatten() {
                    self.check_protected(id, Some(protected))?;
                }
                let new = self.make_parents(ancestor, names);
                self.remove_entry(id, ChangeKind::MovedFrom);
                self.attach(id, new);
            }
        }
        Ok(self.outcome(id, false))
    }

    pub(super) fn copy(
        &mut self,
        from: &NodePath,
        to: &NodePath,
        replace: Replace,
        parents: Parents,
        protected: Option<&ProtectedNames>,
    ) -> Result<StepOutcome, StepError> {
        if replace == Replace::Exchange {
            return Err(StoreError::Invalid("a copy can't exchange two paths; rename can".to_owned()).into());
        }
        let id = self.tree.find(from)?;
        let slot = self.tree.slot(to).map_err(at_destination)?;
        let is_directory = matches!(self.tree.node(id).body, ModelBody::Directory(_));
        match slot {
            ModelSlot::Occupied(other) if other == id && replace == Replace::Overwrite => {
                Err(at_destination(StoreError::Invalid("it can't be copied to its own path".to_owned())))
            }
            ModelSlot::Occupied(_) if is_directory || replace == Replace::Refuse => {
                Err(at_destination(StoreError::AlreadyExists))
            }
            ModelSlot::Occupied(other) => {
                self.check_replaceable(id, other).map_err(at_destination)?;
                let source = self.tree.node(id).clone();
                let keeps_mode = self.tree.node(other).body.kind() == source.body.kind();
                // A fresh allocation, even of equal bytes: `mark_stale_handles` compares pointers to see that the
                // content was replaced.
                self.tree.node_mut(other).body = match source.body {
                    ModelBody::File(bytes) => ModelBody::File(Arc::new(bytes.to_vec())),
                    body => body,
                };
                self.touch(other);
                let node = self.tree.node_mut(other);
                node.modified = source.modified;
                node.mode = if keeps_mode { node.mode } else { source.mode };
                self.log_change(ChangeKind::Written, other);
                Ok(self.outcome(other, false))
            }
            ModelSlot::Missing { ancestor, names } => {
                check_parents(&names, parents).map_err(at_destination)?;
                if is_directory && self.tree.is_at_or_below(ancestor, id) {
                    return Err(StoreError::IntoItself.into());
                }
                self.check_protected(id, protected)?;
                let (parent, name) = self.make_parents(ancestor, names);
                let copied = self.copy_nodes(id, parent, name);
                Ok(self.outcome(copied, true))
            }
        }
    }

    fn copy_nodes(&mut self, id: NodeId, parent: NodeId, name: Vec<u8>) -> NodeId {
        let source = self.tree.node(id).clone();
        let (body, children) = match source.body {
            ModelBody::Directory(children) => (ModelBody::Directory(Default::default()), children),
            body => (body, Default::default()),
        };
        let copy = self.tree.add(parent, name.clone(), body, source.mode, self.at);
        self.add_entry(copy, parent, name, ChangeKind::Created);
        for (name, child) in children {
            self.copy_nodes(child, copy, name);
        }
        // Last, because adding children to a directory sets its modification time.
        self.tree.node_mut(copy).modified = source.modified;
        copy
    }

    fn attach(&mut self, id: NodeId, (parent, name): (NodeId, Vec<u8>)) {
        let (tag, now) = (self.tree.fresh_tag(), self.at);
        let node = self.tree.node_mut(id);
        (node.parent, node.name, node.changed, node.tag) = (parent, name.clone(), now, tag);
        self.add_entry(id, parent, name, ChangeKind::MovedTo);
    }

    /// Checks that `id` may replace `other`.
    fn check_replaceable(&self, id: NodeId, other: NodeId) -> StoreResult<()> {
        let is_directory = |id| matches!(self.tree.node(id).body, ModelBody::Directory(_));
        match (is_directory(id), is_directory(other)) {
            (false, true) => Err(StoreError::IsADirectory),
            (true, false) => Err(StoreError::NotADirectory),
            (true, true) if self.is_nonempty_directory(other) => Err(StoreError::NotEmpty),
            (true, true) | (false, false) => Ok(()),
        }
    }
}
