//! What a change does to files, as far as a manifest is concerned.

use stead_core::store::{NodeId, NodeKind, NodePath, Replace, Step, StepOutcome, StorePath};

/// What a change does to a file or to everything below a directory. Paths are those in the Store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileEffect {
    /// A file has this size now. `is_new` says that nothing was at the path before, as far as the Store knows.
    Put { path: Vec<u8>, size: u64, is_new: bool },
    /// What was at the path and below it is gone.
    Remove { path: Vec<u8> },
    /// What was at `from` and below it is at `to` now, in place of what was there. `size` is that of a file; `None` for a directory.
    Move { from: Vec<u8>, to: Vec<u8>, size: Option<u64> },
    /// Two paths have swapped what was at and below them.
    Exchange { first: Vec<u8>, second: Vec<u8> },
}

/// What a step of a Virtual Store is about to do. Its paths are known before the step is applied, sizes only after it.
#[derive(Debug)]
pub(crate) enum StepEffect {
    Put(StorePath),
    Remove(StorePath),
    Rename { from: StorePath, to: StorePath, replace: Replace },
    Copy(StorePath),
    None,
}

impl StepEffect {
    /// The effect of a step. `path_of_node` is asked for the path of a node that isn't the root.
    pub(crate) fn of<E>(
        step: &Step,
        path_of_node: impl Fn(NodeId) -> Result<StorePath, E>,
    ) -> Result<StepEffect, E> {
        let path_of = |at: &NodePath| match at.base {
            NodeId::ROOT => Ok(at.path.clone()),
            base => path_of_node(base).map(|path| path.join(&at.path)),
        };
        Ok(match step {
            Step::Write { at, .. }
            | Step::Edit { at, .. }
            | Step::Append { at, .. }
            | Step::Symlink { at, .. } => StepEffect::Put(path_of(at)?),
            Step::Remove { at, .. } => StepEffect::Remove(path_of(at)?),
            Step::Rename { from, to, replace, .. } => {
                StepEffect::Rename { from: path_of(from)?, to: path_of(to)?, replace: *replace }
            }
            Step::Copy { to, .. } => StepEffect::Copy(path_of(to)?),
            Step::Mkdir { .. } | Step::SetAttr { .. } => StepEffect::None,
        })
    }

    /// What the step did, by its outcome. What a copy of a directory made below it isn't included: the Store knows that.
    pub(crate) fn finish(self, outcome: &StepOutcome, effects: &mut Vec<FileEffect>) {
        let bytes = |path: StorePath| path.as_bytes().to_vec();
        let Some(attr) = outcome.attr else {
            if let StepEffect::Remove(path) = self {
                effects.push(FileEffect::Remove { path: bytes(path) });
            }
            return;
        };
        let size = (attr.kind == NodeKind::File).then_some(attr.size);
        match (self, size) {
            (StepEffect::Put(path) | StepEffect::Copy(path), Some(size)) => {
                effects.push(FileEffect::Put { path: bytes(path), size, is_new: outcome.created });
            }
            // A symlink has taken the place of a file, perhaps.
            (StepEffect::Put(path), None) => effects.push(FileEffect::Remove { path: bytes(path) }),
            (StepEffect::Rename { from, to, replace: Replace::Exchange }, _) => {
                effects.push(FileEffect::Exchange { first: bytes(from), second: bytes(to) });
            }
            (StepEffect::Rename { from, to, .. }, _) if from != to => {
                let (from, to) = (bytes(from), bytes(to));
                effects.push(match attr.kind {
                    // Only files have rows.
                    NodeKind::Symlink | NodeKind::Special(_) => FileEffect::Remove { path: to },
                    NodeKind::File | NodeKind::Directory => FileEffect::Move { from, to, size },
                });
            }
            (StepEffect::Remove(path), _) => effects.push(FileEffect::Remove { path: bytes(path) }),
            (StepEffect::Copy(_) | StepEffect::Rename { .. } | StepEffect::None, _) => {}
        }
    }
}
