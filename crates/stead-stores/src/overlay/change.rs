//! Changes of a fork of a host directory: the change is made in the fork's own volume, after everything that it touches was taken
//! over.

use std::ops::ControlFlow;
use std::sync::Arc;

use stead_core::search::WalkOptions;
use stead_core::store::{Applied, Change, CompanionRecord, NodePath, Step, StepOutcome, Subtree};
use stead_core::{Store, StoreError, StoreResult};

use crate::overlay::{LiveFacts, NotTakenOver, OverlayStore};
use crate::reserved_names::{is_reserved, reserved_name_error};
use crate::virtual_store::change::PreparedChange;

/// How often a change is tried for each of its steps. A try fails only if it finds one more thing to take over: a name, or a
/// directory that an earlier step has moved.
const TRIES_PER_STEP: usize = 256;

impl OverlayStore {
    pub(super) fn apply_change(&self, change: Change) -> StoreResult<Applied> {
        check_reserved_names(&change)?;
        let is_sync = change.records.iter().any(|record| matches!(record, CompanionRecord::ForkSync(_)));
        let prepared = self.upper.prepare_change(change)?;
        if is_sync {
            // Its paths are those that the fork is about to have. Most of them were taken over for the merge.
            self.take_over_mirrored_names()?;
        } else {
            self.take_over_paths(&prepared)?;
        }
        let mut live_facts = LiveFacts::default();
        let step_count = prepared.steps.lock().steps.len();
        for _ in 0..TRIES_PER_STEP * (step_count + 1) {
            let facts = Arc::new(std::mem::take(&mut live_facts));
            match self.upper.apply_over_directory(&prepared, Arc::clone(&facts))? {
                Ok(applied) => return Ok(self.with_host_tags(applied)),
                Err(missing) => {
                    live_facts = Arc::into_inner(facts).unwrap_or_default();
                    self.provide(missing, &prepared, &mut live_facts)?;
                }
            }
        }
        Err(StoreError::unavailable("the directory that the fork was made from keeps changing; try again"))
    }

    /// Takes over the names that the steps touch as far as that can be told before the change. What the steps need beyond that,
    /// because an earlier step has moved something, is taken over when the change asks for it.
    fn take_over_paths(&self, prepared: &PreparedChange) -> StoreResult<()> {
        let monitor = prepared.monitor.as_ref();
        let steps = prepared.steps.lock();
        let steps = &steps.steps;
        let only_step = steps.len() == 1;
        for (index, step) in steps.iter().enumerate() {
            for at in paths_of(step) {
                match self.take_over_path(at, monitor) {
                    Ok(()) => {}
                    // An earlier step may make the path possible. If none does, the change itself fails.
                    Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_))
                        if !only_step => {}
                    Err(StoreError::NotFound) => {}
                    Err(error) => return Err(error.in_step(index, stead_core::store::Side::From)),
                }
            }
            let is_whole = match step {
                Step::Remove { subtree: Subtree::Directory | Subtree::Any, protected, .. } => {
                    protected.is_none()
                }
                _ => false,
            };
            if is_whole && let Ok(attr) = self.upper.stat(step.path()) {
                self.take_over_below(attr.node.0.cast_signed(), monitor)?;
            }
        }
        Ok(())
    }

    /// Provides what a change was missing.
    fn provide(
        &self,
        missing: NotTakenOver,
        prepared: &PreparedChange,
        live_facts: &mut LiveFacts,
    ) -> StoreResult<()> {
        let monitor = prepared.monitor.as_ref();
        match missing {
            NotTakenOver::Name { directory, name } => self.take_over_name(directory, name, monitor),
            NotTakenOver::Subtree(top) => self.take_over_below(top, monitor),
            NotTakenOver::Children(directory) => {
                let live = self.live_directory(directory)?;
                let has_children = live.map_or(Ok(false), |live| self.has_live_names(&live))?;
                live_facts.has_children.insert(directory, has_children);
                Ok(())
            }
            NotTakenOver::NamesBelow(top) => {
                let mut names = Vec::new();
                let at = NodePath::of_node(stead_core::store::NodeId(top.cast_unsigned()));
                let walk = WalkOptions::default();
                self.walk(&at, &walk, &mut |entry| {
                    names.push((entry.path, entry.attr.kind));
                    ControlFlow::Continue(())
                })?;
                // What can't be read can't be checked either.
                if let Some((_, error)) = walk.unreadable.take().into_iter().next() {
                    return Err(error);
                }
                live_facts.names_below.insert(top, names);
                Ok(())
            }
        }
    }

    /// The outcomes as callers see them.
    fn with_host_tags(&self, applied: Applied) -> Applied {
        let outcome = |outcome: StepOutcome| {
            let attr = outcome.attr.map(|attr| self.upper_attr(attr));
            StepOutcome { attr, ..outcome }
        };
        Applied { outcomes: applied.outcomes.into_iter().map(outcome).collect(), ..applied }
    }
}

/// The paths that a step looks up.
fn paths_of(step: &Step) -> impl Iterator<Item = &NodePath> {
    let second = match step {
        Step::Rename { from, .. } | Step::Copy { from, .. } => Some(from),
        _ => None,
    };
    second.into_iter().chain([step.path()])
}

/// Refuses to make something with a name that a host directory reserves: it could never be merged.
fn check_reserved_names(change: &Change) -> StoreResult<()> {
    let makes = |step: &Step| !matches!(step, Step::Remove { .. } | Step::SetAttr { .. } | Step::Edit { .. });
    let is_reserved = |step: &Step| step.path().path.components().any(is_reserved);
    if change.steps.iter().any(|step| makes(step) && is_reserved(step)) {
        return Err(reserved_name_error());
    }
    Ok(())
}
