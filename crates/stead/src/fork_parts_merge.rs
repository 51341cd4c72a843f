//! Merging and updating a fork with several parts: all of them or none, as one operation.
//!
//! A merge plans all parts first. If one of them can't be merged, nothing is changed. Then each Store gets its change, one after the
//! other. Between two Stores there is no common transaction: if something comes in between, the result names what was merged,
//! and merging again goes on with the rest.

use stead_core::store::StoreError;
use stead_core::vfs::{ForkState, MergeChoice, MergeOptions, MergeResult, PathConflict, UnmergedChanges};
use stead_core::{Access, ErrorKind, VfsPath};

use crate::error::Result;
use crate::fork_entry::{ForkEntry, PartEntry};
use crate::fork_merge::FoundFork;
use crate::forks::error_kind;
use crate::stead::Stead;

/// A part of a fork that is to be merged.
struct MergePart<'f> {
    part: &'f PartEntry,
    /// The Workspace that it is merged into; `None` if the agent may not write what the part was made from.
    target: Option<VfsPath>,
}

impl MergePart<'_> {
    fn options(&self, options: &MergeOptions) -> MergeOptions {
        let mut options = options.clone();
        options.place = Some(self.part.fork.place.clone());
        options
    }
}

/// What a merge of all parts would do.
struct PlannedParts {
    result: MergeResult,
    /// What each part has changed, if the options ask for that.
    states: Vec<Option<ForkState>>,
    /// The first part that can't be merged.
    in_the_way: Option<usize>,
}

impl Stead {
    /// Merges a fork that has READ_WRITE parts. `target` is where the fork itself is merged into.
    pub(crate) fn merge_parts(
        &self,
        found: &FoundFork,
        target: &VfsPath,
        options: &MergeOptions,
    ) -> Result<MergeResult> {
        let mut parts = vec![MergePart { part: &found.entry.whole, target: Some(target.clone()) }];
        for part in found.entry.writable_parts() {
            // A part whose base is gone can't be merged either.
            let target = self.base_of(part, Access::Restore).ok().flatten();
            // Nobody is asked about a part that has nothing to merge.
            let asks = target.as_ref().is_some_and(|target| self.asks_at(target));
            if !asks || self.vfs.has_fork_changes(part.handle())? {
                parts.push(MergePart { part, target });
            }
        }
        let targets: Vec<VfsPath> = parts.iter().filter_map(|part| part.target.clone()).collect();
        // A person is asked about all of them at once.
        self.vfs.authorize_all(&targets, Access::Restore)?;
        if options.dry_run {
            let planned = self.plan_parts(found, &parts, options)?;
            // The record of the call is that of the last plan: of a part that is in the way, if there is one.
            if let Some(part) = planned.in_the_way {
                self.plan_part(found, &parts[0], &parts[part], options)?;
            }
            return Ok(planned.result);
        }
        self.compound("merge", target, error_kind, |stead| {
            let mut plan_options = options.clone();
            (plan_options.dry_run, plan_options.finish_earlier) = (true, true);
            let planned = stead.plan_parts(found, &parts, &plan_options)?;
            if planned.result.is_stopped() {
                stead.vfs.note_partial_failure(kind_of(&planned.result));
                return Ok(planned.result);
            }
            stead.commit_parts(&parts, options, planned)
        })
    }

    /// Plans all parts, the fork itself last. Changes nothing in the targets.
    fn plan_parts(
        &self,
        found: &FoundFork,
        parts: &[MergePart<'_>],
        options: &MergeOptions,
    ) -> Result<PlannedParts> {
        let (mut result, mut states, mut in_the_way) = (MergeResult::default(), Vec::new(), None);
        for (index, part) in parts.iter().enumerate().rev() {
            let planned = self.plan_part(found, &parts[0], part, options)?;
            if planned.is_stopped() {
                in_the_way = Some(index);
            }
            states.push(planned.fork_state);
            result.add_part(planned);
        }
        states.reverse();
        let all: Option<Vec<ForkState>> = states.iter().copied().collect();
        result.fork_state = all.map(|states| ForkState::combined(&states));
        if options.fork_state.is_some_and(|shown| Some(shown) != result.fork_state) {
            let path = parts[0].target.clone().unwrap_or_else(VfsPath::root);
            return Err(stead_core::Error::ReviewOutdated { path }.into());
        }
        Ok(PlannedParts { result, states, in_the_way })
    }

    fn plan_part(
        &self,
        found: &FoundFork,
        whole: &MergePart<'_>,
        part: &MergePart<'_>,
        options: &MergeOptions,
    ) -> Result<MergeResult> {
        let mut part_options = part.options(options);
        // What was shown was the state of all parts together.
        part_options.with_contents |= part_options.fork_state.take().is_some();
        match &part.target {
            Some(target) => Ok(self.vfs.merge_fork(target, part.part.handle(), &part_options)?),
            None => Ok(self.refuse_part(found, whole, part.part, &part_options)),
        }
    }

    /// What a part without a target contributes to a plan: its changes are refused, except those that rules leave out.
    fn refuse_part(
        &self,
        found: &FoundFork,
        whole: &MergePart<'_>,
        part: &PartEntry,
        options: &MergeOptions,
    ) -> MergeResult {
        let mut result = MergeResult::default();
        if options.with_contents {
            result.fork_state = Some(ForkState::combined(&[]));
        }
        let shown_at = self.shown_at(found, part);
        let unmerged = self.vfs.unmerged_changes(shown_at.as_ref(), part.handle(), options);
        let top = shown_at.or_else(|| whole.target.clone()).unwrap_or_else(VfsPath::root);
        match unmerged {
            Ok(UnmergedChanges { paths, has_unseen, left_out, left_out_unseen, .. }) => {
                let why = "it was changed in a Workspace that you may not write; leave it out, or ask for READ_WRITE \
                           access";
                let refuse = |path| PathConflict::new(path, why);
                result.refused.extend(paths.into_iter().map(refuse));
                if has_unseen {
                    let why = "the fork has changes in Workspaces that you may not see; leave out what you may not see, to merge the rest";
                    result.refused.push(PathConflict::new(top, why));
                }
                (result.left_out, result.left_out_unseen) = (left_out, left_out_unseen);
            }
            // Without its base it can't be compared.
            Err(error) => {
                let place = part.fork.place.as_str()[1..].to_owned();
                match options.choice_for(&[place]) {
                    // What it has changed isn't known, so all of it counts as left out.
                    Some(MergeChoice::LeaveOut) => result.left_out.push(top),
                    _ => result.refused.push(PathConflict::new(top, error.to_string())),
                }
            }
        }
        result
    }

    /// Merges the parts, which were planned.
    fn commit_parts(
        &self,
        parts: &[MergePart<'_>],
        options: &MergeOptions,
        planned: PlannedParts,
    ) -> Result<MergeResult> {
        let (mut result, mut merged) = (MergeResult::default(), Vec::new());
        result.fork_state = planned.result.fork_state;
        for (part, state) in parts.iter().zip(planned.states) {
            let Some(target) = &part.target else { continue };
            let mut part_options = part.options(options);
            part_options.fork_state = state.filter(|_| options.fork_state.is_some());
            let stopped = match self.vfs.merge_fork(target, part.part.handle(), &part_options) {
                Ok(part) if part.done => {
                    merged.extend(part.operation.map(|_| target.clone()));
                    result.add_part(part);
                    continue;
                }
                // Something has changed since the parts were planned.
                Ok(stopped) => stopped,
                Err(error) if merged.is_empty() => return Err(error.into()),
                Err(error) => {
                    let mut stopped = MergeResult::default();
                    stopped.refused.push(PathConflict::new(target.clone(), error.to_string()));
                    stopped
                }
            };
            self.vfs.note_partial_failure(kind_of(&stopped));
            if merged.is_empty() {
                return Ok(stopped);
            }
            (result.conflicts, result.refused, result.merged) = (stopped.conflicts, stopped.refused, merged);
            return Ok(result);
        }
        (result.left_out, result.left_out_unseen) = (planned.result.left_out, planned.result.left_out_unseen);
        result.done = true;
        Ok(result)
    }

    /// Whether a person is asked about changes in a Workspace.
    pub(crate) fn asks_at(&self, prefix: &VfsPath) -> bool {
        let mut workspaces = self.vfs.workspaces();
        let found = workspaces.find(|workspace| workspace.prefix() == prefix);
        found.is_some_and(|workspace| workspace.approval_policy().requires_approval(Access::Restore))
    }

    /// Updates a fork that has READ_WRITE parts.
    pub(crate) fn update_parts(&self, entry: &ForkEntry, options: &MergeOptions) -> Result<MergeResult> {
        // A part whose base is gone, or which this agent can't read, has nothing to take in.
        let has_base = |part: &PartEntry| {
            let target = part.store.require_forks().and_then(|forks| forks.target());
            !matches!(target, Err(StoreError::Expired(_)))
        };
        let mut parts: Vec<&PartEntry> = Vec::new();
        for part in entry.writable_parts().filter(|part| has_base(part)) {
            if !self.vfs.can_read_target(part.handle())? {
                continue;
            }
            // Nobody is asked about a part that has nothing to take in.
            let is_needed = !self.asks_at(&part.prefix()) || !options.rules.is_empty();
            if is_needed || self.vfs.has_target_changes(part.handle())? {
                parts.push(part);
            }
        }
        parts.push(&entry.whole);
        let prefixes: Vec<VfsPath> = parts.iter().map(|part| part.prefix()).collect();
        self.vfs.authorize_all(&prefixes, Access::Restore)?;
        let update = |stead: &Stead, options: &MergeOptions| -> Result<MergeResult> {
            let mut result = MergeResult::default();
            for (part, prefix) in parts.iter().zip(&prefixes) {
                let mut part_options = options.clone();
                part_options.place = Some(part.fork.place.clone());
                result.add_part(stead.vfs.update_fork(prefix, part.handle(), &part_options)?);
            }
            result.done = !options.dry_run;
            Ok(result)
        };
        if options.dry_run {
            return update(self, options);
        }
        self.compound("update", &entry.whole.prefix(), error_kind, |stead| {
            // What can't be planned fails before the first part is changed.
            let mut plan_options = options.clone();
            plan_options.dry_run = true;
            update(stead, &plan_options)?;
            update(stead, options)
        })
    }
}

/// Why a merge was not made, for its record.
fn kind_of(result: &MergeResult) -> ErrorKind {
    if result.refused.is_empty() { ErrorKind::Conflict } else { ErrorKind::Denied }
}
