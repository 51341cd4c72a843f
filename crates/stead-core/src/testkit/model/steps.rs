//! How the model changes: one step after another on a copy, which takes the tree's place if all of them succeed.

use std::sync::Arc;

use super::{Body, DIRECTORY_MODE, FILE_MODE, ROOT, SYMLINK_MODE, Spot, Tree};
use crate::clock::Timestamp;
use crate::edit::Edit;
use crate::store::{
    ChangeKind, Changed, Content, Expect, Missing, NodeId, Outcome, Parents, Place, Put, Replace, Side,
    Spare, Step, StoreError, StoreResult, Subtree, Version,
};

/// A complete draft of the model: its bytes.
pub(crate) struct Bytes(pub(crate) Vec<u8>);

/// What a change did to the model.
pub(crate) struct Done {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) changes: Vec<Changed>,
}

impl Tree {
    /// Does all of the steps, or nothing.
    pub(crate) fn apply(&mut self, steps: Vec<Step>, at: Timestamp, version: Version) -> StoreResult<Done> {
        let mut doing = Doing { tree: self.clone(), at, version, changes: Vec::new() };
        let mut outcomes = Vec::new();
        for (index, step) in steps.into_iter().enumerate() {
            outcomes.push(doing.step(step).map_err(|Failed(side, error)| error.in_step(index, side))?);
        }
        *self = doing.tree;
        Ok(Done { outcomes, changes: doing.changes })
    }
}

/// An error, and the place of the step that it is about.
struct Failed(Side, StoreError);

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Failed(Side::From, error)
    }
}

fn on_the_to_side(error: StoreError) -> Failed {
    Failed(Side::To, error)
}

/// A change under way.
struct Doing {
    tree: Tree,
    at: Timestamp,
    version: Version,
    changes: Vec<Changed>,
}

/// Whether content takes the place of what is there, or follows it.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Whole,
    AtTheEnd,
}

impl Doing {
    fn step(&mut self, step: Step) -> Result<Outcome, Failed> {
        Ok(match step {
            Step::Write { at, content, put } => self.put(&at, content, &put, How::Whole)?,
            Step::Append { at, content, put } => self.put(&at, content, &put, How::AtTheEnd)?,
            Step::Edit { at, edit, expect, keep: _ } => self.edit(&at, &edit, expect)?,
            Step::Mkdir { at, parents, mode } => self.mkdir(&at, parents, mode)?,
            Step::Symlink { at, target, parents, expect } => self.symlink(&at, target, parents, expect)?,
            Step::Remove { at, subtree, expect, missing, spare, keep: _ } => {
                self.remove(&at, subtree, expect, missing, spare.as_ref())?
            }
            Step::Rename { from, to, replace, parents, expect, spare } => {
                self.rename(&from, &to, replace, parents, expect, &spare)?
            }
            Step::Copy { from, to, replace, parents, spare, keep: _ } => {
                self.copy(&from, &to, replace, parents, spare.as_ref())?
            }
            Step::SetAttr { at, mode, modified } => self.set_attr(&at, mode, modified)?,
        })
    }

    fn put(&mut self, at: &Place, content: Content, put: &Put, how: How) -> StoreResult<Outcome> {
        let content = match content {
            Content::Bytes(bytes) => bytes,
            Content::Sealed(sealed) => {
                let foreign = || StoreError::Invalid("the draft is none of this Store's".to_owned());
                sealed.into_inner::<Bytes>().ok_or_else(foreign)?.0
            }
        };
        let (id, before) = match self.tree.spot(at)? {
            Spot::There(_) => {
                let (id, bytes) = self.tree.file(at)?;
                let tag = self.tree.node(id).tag;
                put.expect.check(Some(tag))?;
                let whole = match how {
                    How::Whole => content,
                    How::AtTheEnd => [bytes.as_slice(), &content].concat(),
                };
                self.rewrite(id, whole);
                (id, Some(tag))
            }
            Spot::Nothing { below, names } => {
                need_parents(&names, put.parents)?;
                put.expect.check(None)?;
                (self.create(below, names, Body::File(Arc::new(content)), FILE_MODE), None)
            }
        };
        let node = self.tree.node_mut(id);
        node.mode = put.mode.unwrap_or(node.mode);
        node.modified = put.modified.unwrap_or(node.modified);
        Ok(Outcome { before, ..self.outcome(id, before.is_none()) })
    }

    fn edit(&mut self, at: &Place, edit: &Edit, expect: Expect) -> StoreResult<Outcome> {
        let (id, bytes) = self.tree.file(at)?;
        let tag = self.tree.node(id).tag;
        expect.check(Some(tag))?;
        let (edited, replaced) = edit.apply(bytes)?;
        self.rewrite(id, edited);
        Ok(Outcome { replaced, before: Some(tag), ..self.outcome(id, false) })
    }

    fn mkdir(&mut self, at: &Place, parents: Parents, mode: Option<u32>) -> StoreResult<Outcome> {
        match self.tree.spot(at)? {
            Spot::There(id) => match (&self.tree.node(id).body, parents) {
                (Body::Directory(_), Parents::Create) => Ok(self.outcome(id, false)),
                _ => Err(StoreError::AlreadyExists),
            },
            Spot::Nothing { below, names } => {
                need_parents(&names, parents)?;
                let mode = mode.unwrap_or(DIRECTORY_MODE);
                let id = self.create(below, names, Body::Directory(Default::default()), mode);
                Ok(self.outcome(id, true))
            }
        }
    }

    fn symlink(
        &mut self,
        at: &Place,
        target: Vec<u8>,
        parents: Parents,
        expect: Expect,
    ) -> StoreResult<Outcome> {
        match self.tree.spot(at)? {
            Spot::There(id) => {
                if !matches!(self.tree.node(id).body, Body::Symlink(_)) {
                    return Err(StoreError::AlreadyExists);
                }
                expect.check(Some(self.tree.node(id).tag))?;
                self.tree.node_mut(id).body = Body::Symlink(target);
                self.touch(id);
                self.log_at(ChangeKind::Written, id);
                Ok(self.outcome(id, false))
            }
            Spot::Nothing { below, names } => {
                need_parents(&names, parents)?;
                expect.check(None)?;
                let id = self.create(below, names, Body::Symlink(target), SYMLINK_MODE);
                Ok(self.outcome(id, true))
            }
        }
    }

    fn remove(
        &mut self,
        at: &Place,
        subtree: Subtree,
        expect: Expect,
        missing: Missing,
        spare: Option<&Spare>,
    ) -> StoreResult<Outcome> {
        let id = match (self.tree.find(at), missing) {
            (Err(StoreError::NotFound), Missing::Fine) => return Ok(Outcome::default()),
            (found, _) => found?,
        };
        not_the_root(id)?;
        let is_directory = matches!(self.tree.node(id).body, Body::Directory(_));
        match subtree {
            Subtree::File if is_directory => return Err(StoreError::IsADirectory),
            Subtree::EmptyDirectory | Subtree::Directory if !is_directory => {
                return Err(StoreError::NotADirectory);
            }
            Subtree::File | Subtree::EmptyDirectory | Subtree::Directory | Subtree::Any => {}
        }
        expect.check(Some(self.tree.node(id).tag))?;
        if subtree == Subtree::EmptyDirectory && self.holds_something(id) {
            return Err(StoreError::NotEmpty);
        }
        self.spare(id, spare)?;
        self.detach(id, ChangeKind::Removed);
        self.drop_nodes(id);
        Ok(Outcome::default())
    }

    fn rename(
        &mut self,
        from: &Place,
        to: &Place,
        replace: Replace,
        parents: Parents,
        expect: Expect,
        spare: &[Option<Spare>; 2],
    ) -> Result<Outcome, Failed> {
        let id = self.tree.find(from)?;
        let there = self.tree.spot(to).map_err(on_the_to_side)?;
        not_the_root(id)?;
        match there {
            Spot::There(other) if other == id => {
                expect.check(Some(self.tree.node(id).tag))?;
                return Ok(self.outcome(id, false));
            }
            Spot::There(other) => {
                not_the_root(other).map_err(on_the_to_side)?;
                match replace {
                    Replace::Refuse => return Err(on_the_to_side(StoreError::AlreadyExists)),
                    Replace::Exchange => {
                        let nested =
                            self.tree.is_at_or_below(id, other) || self.tree.is_at_or_below(other, id);
                        if nested {
                            return Err(StoreError::IntoItself.into());
                        }
                    }
                    Replace::Over => {
                        if self.tree.is_at_or_below(other, id) {
                            return Err(StoreError::IntoItself.into());
                        }
                        self.can_give_way(id, other).map_err(on_the_to_side)?;
                    }
                }
                expect.check(Some(self.tree.node(id).tag))?;
                for spare in spare.iter().flatten() {
                    self.spare(id, Some(spare))?;
                    if replace == Replace::Exchange {
                        self.spare(other, Some(spare))?;
                    }
                }
                let (old, new) = (self.whereabouts(id), self.whereabouts(other));
                self.detach(id, ChangeKind::MovedFrom);
                if replace == Replace::Exchange {
                    self.detach(other, ChangeKind::MovedFrom);
                    self.attach(other, old);
                } else {
                    self.detach(other, ChangeKind::Removed);
                    self.drop_nodes(other);
                }
                self.attach(id, new);
            }
            Spot::Nothing { below, names } => {
                need_parents(&names, parents).map_err(on_the_to_side)?;
                if replace == Replace::Exchange {
                    return Err(on_the_to_side(StoreError::NotFound));
                }
                if self.tree.is_at_or_below(below, id) {
                    return Err(StoreError::IntoItself.into());
                }
                expect.check(Some(self.tree.node(id).tag))?;
                for spare in spare.iter().flatten() {
                    self.spare(id, Some(spare))?;
                }
                let new = self.make_parents(below, names);
                self.detach(id, ChangeKind::MovedFrom);
                self.attach(id, new);
            }
        }
        Ok(self.outcome(id, false))
    }

    fn copy(
        &mut self,
        from: &Place,
        to: &Place,
        replace: Replace,
        parents: Parents,
        spare: Option<&Spare>,
    ) -> Result<Outcome, Failed> {
        if replace == Replace::Exchange {
            return Err(StoreError::Invalid("a copy can't change places with something".to_owned()).into());
        }
        let id = self.tree.find(from)?;
        let there = self.tree.spot(to).map_err(on_the_to_side)?;
        let is_directory = matches!(self.tree.node(id).body, Body::Directory(_));
        match there {
            Spot::There(other) if other == id && replace == Replace::Over => {
                Err(on_the_to_side(StoreError::Invalid("it can't be copied onto itself".to_owned())))
            }
            Spot::There(_) if is_directory || replace == Replace::Refuse => {
                Err(on_the_to_side(StoreError::AlreadyExists))
            }
            Spot::There(other) => {
                self.can_give_way(id, other).map_err(on_the_to_side)?;
                let source = self.tree.node(id).clone();
                let keeps_mode = self.tree.node(other).body.kind() == source.body.kind();
                self.tree.node_mut(other).body = source.body;
                self.touch(other);
                let node = self.tree.node_mut(other);
                node.modified = source.modified;
                node.mode = if keeps_mode { node.mode } else { source.mode };
                self.log_at(ChangeKind::Written, other);
                Ok(self.outcome(other, false))
            }
            Spot::Nothing { below, names } => {
                need_parents(&names, parents).map_err(on_the_to_side)?;
                if is_directory && self.tree.is_at_or_below(below, id) {
                    return Err(StoreError::IntoItself.into());
                }
                self.spare(id, spare)?;
                let (parent, name) = self.make_parents(below, names);
                let copied = self.copy_nodes(id, parent, name);
                Ok(self.outcome(copied, true))
            }
        }
    }

    fn set_attr(
        &mut self,
        at: &Place,
        mode: Option<u32>,
        modified: Option<Timestamp>,
    ) -> StoreResult<Outcome> {
        let id = self.tree.find(at)?;
        let (tag, now) = (self.tree.fresh_tag(), self.at);
        let node = self.tree.node_mut(id);
        node.mode = mode.unwrap_or(node.mode);
        node.modified = modified.unwrap_or(node.modified);
        (node.changed, node.tag) = (now, tag);
        self.log_at(ChangeKind::Attributes, id);
        Ok(self.outcome(id, false))
    }

    fn outcome(&self, id: NodeId, created: bool) -> Outcome {
        Outcome { attr: Some(self.tree.attr(id)), before: None, created, replaced: 0 }
    }

    fn rewrite(&mut self, id: NodeId, bytes: Vec<u8>) {
        self.tree.node_mut(id).body = Body::File(Arc::new(bytes));
        self.touch(id);
        self.log_at(ChangeKind::Written, id);
    }

    /// Marks a node's content, or a directory's names, as changed now.
    fn touch(&mut self, id: NodeId) {
        let (tag, now) = (self.tree.fresh_tag(), self.at);
        let node = self.tree.node_mut(id);
        (node.modified, node.changed, node.tag) = (now, now, tag);
    }

    fn create(&mut self, below: NodeId, names: Vec<Vec<u8>>, body: Body, mode: u32) -> NodeId {
        let (parent, name) = self.make_parents(below, names);
        let id = self.tree.add(parent, name.clone(), body, mode, self.at);
        self.enter(id, parent, name, ChangeKind::Created);
        id
    }

    /// Makes all of the names but the last into directories, and returns where the last goes.
    fn make_parents(&mut self, below: NodeId, mut names: Vec<Vec<u8>>) -> (NodeId, Vec<u8>) {
        let last = names.pop().expect("a place that leads to nothing misses a name");
        let parent = names.into_iter().fold(below, |parent, name| {
            let body = Body::Directory(Default::default());
            let id = self.tree.add(parent, name.clone(), body, DIRECTORY_MODE, self.at);
            self.enter(id, parent, name, ChangeKind::Created);
            id
        });
        (parent, last)
    }

    fn copy_nodes(&mut self, id: NodeId, parent: NodeId, name: Vec<u8>) -> NodeId {
        let source = self.tree.node(id).clone();
        let (body, children) = match source.body {
            Body::Directory(children) => (Body::Directory(Default::default()), children),
            body => (body, Default::default()),
        };
        let copy = self.tree.add(parent, name.clone(), body, source.mode, self.at);
        self.enter(copy, parent, name, ChangeKind::Created);
        for (name, child) in children {
            self.copy_nodes(child, copy, name);
        }
        // Last: a directory that is being filled is being modified.
        self.tree.node_mut(copy).modified = source.modified;
        copy
    }

    fn whereabouts(&self, id: NodeId) -> (NodeId, Vec<u8>) {
        let node = self.tree.node(id);
        (node.parent, node.name.clone())
    }

    fn enter(&mut self, id: NodeId, parent: NodeId, name: Vec<u8>, what: ChangeKind) {
        if let Body::Directory(names) = &mut self.tree.node_mut(parent).body {
            names.insert(name.clone(), id);
        }
        self.touch(parent);
        self.changes.push(Changed { version: self.version, what, node: id, parent, name });
    }

    fn attach(&mut self, id: NodeId, (parent, name): (NodeId, Vec<u8>)) {
        let (tag, now) = (self.tree.fresh_tag(), self.at);
        let node = self.tree.node_mut(id);
        (node.parent, node.name, node.changed, node.tag) = (parent, name.clone(), now, tag);
        self.enter(id, parent, name, ChangeKind::MovedTo);
    }

    fn detach(&mut self, id: NodeId, what: ChangeKind) {
        let (parent, name) = self.whereabouts(id);
        if let Body::Directory(names) = &mut self.tree.node_mut(parent).body {
            names.remove(&name);
        }
        self.touch(parent);
        self.changes.push(Changed { version: self.version, what, node: id, parent, name });
    }

    fn drop_nodes(&mut self, top: NodeId) {
        for (_, id) in self.tree.below(top) {
            self.tree.nodes.remove(&id);
        }
        self.tree.nodes.remove(&top);
    }

    fn log_at(&mut self, what: ChangeKind, id: NodeId) {
        let (parent, name) = self.whereabouts(id);
        self.changes.push(Changed { version: self.version, what, node: id, parent, name });
    }

    fn holds_something(&self, id: NodeId) -> bool {
        matches!(&self.tree.node(id).body, Body::Directory(names) if !names.is_empty())
    }

    /// Whether `id` may take the place of `other`.
    fn can_give_way(&self, id: NodeId, other: NodeId) -> StoreResult<()> {
        let is_directory = |id| matches!(self.tree.node(id).body, Body::Directory(_));
        match (is_directory(id), is_directory(other)) {
            (false, true) => Err(StoreError::IsADirectory),
            (true, false) => Err(StoreError::NotADirectory),
            (true, true) if self.holds_something(other) => Err(StoreError::NotEmpty),
            (true, true) | (false, false) => Ok(()),
        }
    }

    fn spare(&self, top: NodeId, spare: Option<&Spare>) -> StoreResult<()> {
        let Some(spare) = spare else { return Ok(()) };
        match self.tree.below(top).into_iter().find(|(path, _)| spare.covers(path.as_bytes())) {
            Some((path, _)) => Err(StoreError::Spared { path: path.to_string() }),
            None => Ok(()),
        }
    }
}

fn need_parents(names: &[Vec<u8>], parents: Parents) -> StoreResult<()> {
    if names.len() > 1 && parents == Parents::Required { Err(StoreError::NotFound) } else { Ok(()) }
}

fn not_the_root(id: NodeId) -> StoreResult<()> {
    if id == ROOT {
        return Err(StoreError::Invalid("the root can be neither removed nor renamed".to_owned()));
    }
    Ok(())
}
