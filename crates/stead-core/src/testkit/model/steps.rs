//! How the model applies a change: step by step on a copy, which replaces the tree if all steps succeed.

use std::sync::Arc;

use super::rename_copy::StepError;
use super::{DIRECTORY_MODE, FILE_MODE, ModelBody, ModelSlot, ModelTree, ROOT, SYMLINK_MODE};
use crate::clock::Timestamp;
use crate::edit::Edit;
use crate::store::{
    ChangeKind, Content, FeedEntry, IfMissing, LinkHit, NodeId, NodePath, Parents, Precondition,
    ProtectedNames, PutOptions, RevisionNumber, Step, StepOutcome, StoreError, StoreResult, Subtree,
};

/// The bytes of a draft of the model.
#[derive(Clone)]
pub(crate) struct DraftBytes(pub(crate) Vec<u8>);

/// The result of a change to the model.
pub(crate) struct ModelApplied {
    pub(crate) outcomes: Vec<StepOutcome>,
    pub(crate) changes: Vec<FeedEntry>,
}

impl ModelTree {
    /// Applies all of the steps, or none.
    pub(crate) fn apply(
        &mut self,
        steps: Vec<Step>,
        at: Timestamp,
        revision: RevisionNumber,
    ) -> StoreResult<ModelApplied> {
        let mut transaction = ModelTransaction { tree: self.clone(), at, revision, changes: Vec::new() };
        let mut outcomes = Vec::new();
        for (index, step) in steps.into_iter().enumerate() {
            outcomes
                .push(transaction.step(step).map_err(|StepError(side, error)| error.in_step(index, side))?);
        }
        *self = transaction.tree;
        Ok(ModelApplied { outcomes, changes: transaction.changes })
    }
}

/// A change in progress.
pub(super) struct ModelTransaction {
    pub(super) tree: ModelTree,
    pub(super) at: Timestamp,
    revision: RevisionNumber,
    changes: Vec<FeedEntry>,
}

/// Whether content replaces the existing content, or is appended to it.
#[derive(Clone, Copy, PartialEq)]
enum PutMode {
    Replace,
    Append,
}

impl ModelTransaction {
    fn step(&mut self, step: Step) -> Result<StepOutcome, StepError> {
        Ok(match step {
            Step::Write { at, content, options } => self.put(&at, content, &options, PutMode::Replace)?,
            Step::Append { at, content, options } => self.put(&at, content, &options, PutMode::Append)?,
            Step::Edit { at, edit, expect, displaced: _ } => self.edit(&at, &edit, expect)?,
            Step::Mkdir { at, parents, mode } => self.mkdir(&at, parents, mode)?,
            Step::Symlink { at, target, parents, expect } => self.symlink(&at, target, parents, expect)?,
            Step::Remove { at, subtree, expect, if_missing, protected, displaced: _ } => {
                self.remove(&at, subtree, expect, if_missing, protected.as_ref())?
            }
            Step::Rename { from, to, replace, parents, expect, protected } => {
                self.rename(&from, &to, replace, parents, expect, &protected)?
            }
            Step::Copy { from, to, replace, parents, protected, displaced: _ } => {
                self.copy(&from, &to, replace, parents, protected.as_ref())?
            }
            Step::SetAttr { at, mode, modified } => self.set_attr(&at, mode, modified)?,
        })
    }

    fn put(
        &mut self,
        at: &NodePath,
        content: Content,
        options: &PutOptions,
        mode: PutMode,
    ) -> StoreResult<StepOutcome> {
        let content = match content {
            Content::Bytes(bytes) => bytes,
            Content::Sealed(sealed) => {
                let wrong_store = || StoreError::Invalid("the draft belongs to another Store".to_owned());
                sealed.into_inner::<DraftBytes>().ok_or_else(wrong_store)?.0
            }
            Content::Stored(_) => return Err(StoreError::unsupported("this Store keeps no history")),
        };
        let (id, before) = match self.tree.slot(at)? {
            ModelSlot::Occupied(_) => {
                let (id, bytes) = self.tree.file(at)?;
                let tag = self.tree.node(id).tag;
                options.expect.check(Some(tag))?;
                if mode == PutMode::Append {
                    options.check_append(bytes.len() as u64, content.len() as u64)?;
                }
                let new_bytes = match mode {
                    PutMode::Replace => content,
                    PutMode::Append => [bytes.as_slice(), &content].concat(),
                };
                self.rewrite(id, new_bytes);
                (id, Some(tag))
            }
            ModelSlot::Missing { ancestor, names } => {
                check_parents(&names, options.parents)?;
                options.expect.check(None)?;
                (self.create_node(ancestor, names, ModelBody::File(Arc::new(content)), FILE_MODE), None)
            }
        };
        let node = self.tree.node_mut(id);
        node.mode = options.mode.unwrap_or(node.mode);
        node.modified = options.modified.unwrap_or(node.modified);
        Ok(StepOutcome { before, ..self.outcome(id, before.is_none()) })
    }

    fn edit(&mut self, at: &NodePath, edit: &Edit, expect: Precondition) -> StoreResult<StepOutcome> {
        let (id, bytes) = self.tree.file(at)?;
        let tag = self.tree.node(id).tag;
        expect.check(Some(tag))?;
        let (edited, replaced) = edit.apply(bytes)?;
        self.rewrite(id, edited);
        Ok(StepOutcome { replaced, before: Some(tag), ..self.outcome(id, false) })
    }

    fn mkdir(&mut self, at: &NodePath, parents: Parents, mode: Option<u32>) -> StoreResult<StepOutcome> {
        match self.tree.slot(at)? {
            ModelSlot::Occupied(id) => match (&self.tree.node(id).body, parents) {
                (ModelBody::Directory(_), Parents::Create) => Ok(self.outcome(id, false)),
                (ModelBody::Symlink(target), Parents::Create) => {
                    Err(LinkHit::error_at(at.path.depth(), target.clone()))
                }
                _ => Err(StoreError::AlreadyExists),
            },
            ModelSlot::Missing { ancestor, names } => {
                check_parents(&names, parents)?;
                let mode = mode.unwrap_or(DIRECTORY_MODE);
                let id = self.create_node(ancestor, names, ModelBody::Directory(Default::default()), mode);
                Ok(self.outcome(id, true))
            }
        }
    }

    fn symlink(
        &mut self,
        at: &NodePath,
        target: Vec<u8>,
        parents: Parents,
        expect: Precondition,
    ) -> StoreResult<StepOutcome> {
        if target.is_empty() || target.contains(&0) {
            return Err(StoreError::Invalid("a symlink needs a target without NUL bytes".to_owned()));
        }
        match self.tree.slot(at)? {
            ModelSlot::Occupied(id) => {
                if !matches!(self.tree.node(id).body, ModelBody::Symlink(_)) {
                    return Err(StoreError::AlreadyExists);
                }
                expect.check(Some(self.tree.node(id).tag))?;
                self.tree.node_mut(id).body = ModelBody::Symlink(target);
                self.touch(id);
                self.log_change(ChangeKind::Written, id);
                Ok(self.outcome(id, false))
            }
            ModelSlot::Missing { ancestor, names } => {
                check_parents(&names, parents)?;
                expect.check(None)?;
                let id = self.create_node(ancestor, names, ModelBody::Symlink(target), SYMLINK_MODE);
                Ok(self.outcome(id, true))
            }
        }
    }

    fn remove(
        &mut self,
        at: &NodePath,
        subtree: Subtree,
        expect: Precondition,
        if_missing: IfMissing,
        protected: Option<&ProtectedNames>,
    ) -> StoreResult<StepOutcome> {
        let id = match (self.tree.find(at), if_missing) {
            (Err(StoreError::NotFound), IfMissing::Ignore) => return Ok(StepOutcome::default()),
            (found, _) => found?,
        };
        check_not_root(id)?;
        let is_directory = matches!(self.tree.node(id).body, ModelBody::Directory(_));
        match subtree {
            Subtree::File if is_directory => return Err(StoreError::IsADirectory),
            Subtree::EmptyDirectory | Subtree::Directory if !is_directory => {
                return Err(StoreError::NotADirectory);
            }
            Subtree::File | Subtree::EmptyDirectory | Subtree::Directory | Subtree::Any => {}
        }
        expect.check(Some(self.tree.node(id).tag))?;
        if subtree == Subtree::EmptyDirectory && self.is_nonempty_directory(id) {
            return Err(StoreError::NotEmpty);
        }
        self.check_protected(id, protected)?;
        self.remove_entry(id, ChangeKind::Removed);
        self.drop_nodes(id);
        Ok(StepOutcome::default())
    }

    fn set_attr(
        &mut self,
        at: &NodePath,
        mode: Option<u32>,
        modified: Option<Timestamp>,
    ) -> StoreResult<StepOutcome> {
        let id = self.tree.find(at)?;
        let before = Some(self.tree.node(id).tag);
        let (tag, now) = (self.tree.fresh_tag(), self.at);
        let node = self.tree.node_mut(id);
        node.mode = mode.unwrap_or(node.mode);
        node.modified = modified.unwrap_or(node.modified);
        (node.changed, node.tag) = (now, tag);
        self.log_change(ChangeKind::Attributes, id);
        Ok(StepOutcome { before, ..self.outcome(id, false) })
    }

    pub(super) fn outcome(&self, id: NodeId, created: bool) -> StepOutcome {
        StepOutcome { attr: Some(self.tree.attr(id)), before: None, created, replaced: 0 }
    }

    fn rewrite(&mut self, id: NodeId, bytes: Vec<u8>) {
        self.tree.node_mut(id).body = ModelBody::File(Arc::new(bytes));
        self.touch(id);
        self.log_change(ChangeKind::Written, id);
    }

    /// Sets the times and a fresh tag on a node whose content, or a directory whose entries, changed.
    pub(super) fn touch(&mut self, id: NodeId) {
        let (tag, now) = (self.tree.fresh_tag(), self.at);
        let node = self.tree.node_mut(id);
        (node.modified, node.changed, node.tag) = (now, now, tag);
    }

    fn create_node(&mut self, ancestor: NodeId, names: Vec<Vec<u8>>, body: ModelBody, mode: u32) -> NodeId {
        let (parent, name) = self.make_parents(ancestor, names);
        let id = self.tree.add(parent, name.clone(), body, mode, self.at);
        self.add_entry(id, parent, name, ChangeKind::Created);
        id
    }

    /// Creates directories for all names but the last. Returns the parent and the last name.
    pub(super) fn make_parents(&mut self, ancestor: NodeId, mut names: Vec<Vec<u8>>) -> (NodeId, Vec<u8>) {
        let last = names.pop().expect("a path that doesn't exist has a missing name");
        let parent = names.into_iter().fold(ancestor, |parent, name| {
            let body = ModelBody::Directory(Default::default());
            let id = self.tree.add(parent, name.clone(), body, DIRECTORY_MODE, self.at);
            self.add_entry(id, parent, name, ChangeKind::Created);
            id
        });
        (parent, last)
    }

    pub(super) fn parent_and_name(&self, id: NodeId) -> (NodeId, Vec<u8>) {
        let node = self.tree.node(id);
        (node.parent, node.name.clone())
    }

    pub(super) fn add_entry(&mut self, id: NodeId, parent: NodeId, name: Vec<u8>, kind: ChangeKind) {
        if let ModelBody::Directory(names) = &mut self.tree.node_mut(parent).body {
            names.insert(name.clone(), id);
        }
        self.touch(parent);
        self.changes.push(FeedEntry { revision: self.revision, kind, node: id, parent, name });
    }

    pub(super) fn remove_entry(&mut self, id: NodeId, kind: ChangeKind) {
        let (parent, name) = self.parent_and_name(id);
        if let ModelBody::Directory(names) = &mut self.tree.node_mut(parent).body {
            names.remove(&name);
        }
        self.touch(parent);
        self.changes.push(FeedEntry { revision: self.revision, kind, node: id, parent, name });
    }

    pub(super) fn drop_nodes(&mut self, top: NodeId) {
        for (_, id) in self.tree.descendants(top) {
            self.tree.nodes.remove(&id);
        }
        self.tree.nodes.remove(&top);
    }

    pub(super) fn log_change(&mut self, kind: ChangeKind, id: NodeId) {
        let (parent, name) = self.parent_and_name(id);
        self.changes.push(FeedEntry { revision: self.revision, kind, node: id, parent, name });
    }

    pub(super) fn is_nonempty_directory(&self, id: NodeId) -> bool {
        matches!(&self.tree.node(id).body, ModelBody::Directory(names) if !names.is_empty())
    }

    pub(super) fn check_protected(&self, top: NodeId, protected: Option<&ProtectedNames>) -> StoreResult<()> {
        let Some(protected) = protected else { return Ok(()) };
        let descendants = self.tree.descendants(top);
        descendants
            .iter()
            .try_for_each(|(path, id)| protected.check(path.as_bytes(), self.tree.node(*id).body.kind()))
    }
}

pub(super) fn check_parents(names: &[Vec<u8>], parents: Parents) -> StoreResult<()> {
    if names.len() > 1 && parents == Parents::Required { Err(StoreError::NotFound) } else { Ok(()) }
}

pub(super) fn check_not_root(id: NodeId) -> StoreResult<()> {
    if id == ROOT {
        return Err(StoreError::Invalid("the root can't be removed or renamed".to_owned()));
    }
    Ok(())
}
