//! Taking back operations, and putting back what was.

use std::collections::HashSet;

use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result, Sight};
use crate::history::{Arrangement, Conflict, Fate, How, Steps, Survey, ordered, plan};
use crate::identity::{Operation, OperationId};
use crate::name::escaped;
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{
    Attr, Deed, DeedQuery, Deeds, Kind, Line, NodeId, Page, Past, Place, Record, State, Store, StoreError,
    StorePath, StoreResult, Version,
};
use crate::vfs::call::{Call, Stage};
use crate::vfs::history::{Ground, read_past, some, unknown};
use crate::vfs::{IntoPath, Vfs};
use crate::workspace::Workspace;

/// How often a plan is made anew because something changed while it was made.
const TRIES: usize = 8;
/// How many operations are asked for by their names; beyond, by the versions that they lie between.
const MOST_BY_NAME: usize = 1_000;

/// Which operations are taken back: the caller's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undo {
    /// So many, the newest ones that have not been taken back yet.
    Last(usize),
    /// All since then.
    Since(Timestamp),
    /// This one, which may be an undo itself.
    Operation(OperationId),
}

/// What happens where others have changed the same thing since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// Nothing is changed at all.
    #[default]
    Refuse,
    /// What is in conflict stays as it is; the rest is taken back.
    Skip,
}

/// How operations are taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UndoOptions {
    /// Only says what would be done.
    pub dry_run: bool,
    /// What happens to conflicts.
    pub on_conflict: OnConflict,
}

/// What is put back as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restore {
    /// Only these, and what lies below them; everything where it is empty.
    pub paths: Vec<VfsPath>,
    /// Only says what would be done.
    pub dry_run: bool,
}

/// What was taken back, or would be.
#[derive(Debug, Clone)]
pub struct Undone {
    /// The operation that took it back; `None` where nothing was changed.
    pub operation: Option<OperationId>,
    /// The operations that were taken back, newest first.
    pub undone: Vec<Operation>,
    /// What became of which path.
    pub changes: Vec<PathChange>,
    /// What stayed as it is.
    pub conflicts: Vec<PathConflict>,
    /// Whether it was really done.
    pub done: bool,
}

/// What became of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChange {
    /// The path.
    pub path: VfsPath,
    /// Where it was, if it was moved.
    pub from: Option<VfsPath>,
    /// What became of it.
    pub fate: Fate,
}

/// Why a path stayed as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathConflict {
    /// The path, shown escaped.
    pub path: String,
    /// Why, in a sentence.
    pub why: String,
}

/// What is to be taken back on one Store.
struct Told<'a> {
    ground: Ground<'a>,
    deeds: Deeds,
    how: How,
    asked: Asked,
}

/// What was asked for, to ask again if something has changed meanwhile.
enum Asked {
    /// These very deeds.
    Deeds,
    /// All that has happened since a version at these places or below.
    Since(Version, Vec<StorePath>),
}

/// What has happened since a version at these places or below.
fn since(ground: &Ground<'_>, version: Version, below: &[StorePath]) -> StoreResult<Deeds> {
    let mut deeds = ground.store.between(version, Version::NOW, below)?;
    keep_below(&mut deeds, below);
    leave_scratch(&mut deeds, &ground.workspaces);
    Ok(deeds)
}

impl Told<'_> {
    /// Asks for the same once more: what has become by now of what was done.
    fn renew(&mut self) -> Result<()> {
        let deeds = match &self.asked {
            Asked::Since(version, below) => since(&self.ground, *version, below),
            Asked::Deeds => self.those_again(),
        };
        self.deeds = match deeds {
            Err(cause) if is_race(&cause) => return Err(self.ground.failed(StoreError::Conflict)),
            deeds => deeds.map_err(|cause| self.ground.failed(cause))?,
        };
        // Where someone else was quicker, it is not to be taken back twice.
        if self.how == How::Merged && self.deeds.deeds.iter().any(|deed| deed.undone) {
            return Err(self.ground.failed(StoreError::Conflict));
        }
        Ok(())
    }

    /// These very deeds, asked for with few others.
    fn those_again(&self) -> StoreResult<Deeds> {
        let known: HashSet<Version> = self.deeds.deeds.iter().map(|deed| deed.version).collect();
        let (Some(first), Some(last)) = (known.iter().min(), known.iter().max()) else {
            return Ok(Deeds::default());
        };
        let operations: HashSet<OperationId> =
            self.deeds.deeds.iter().map(|deed| deed.operation.id).collect();
        let few = operations.len() <= MOST_BY_NAME;
        let mut deeds = self.ground.store.deeds(&DeedQuery {
            operations: few.then(|| operations.into_iter().collect()),
            ..DeedQuery::between(Version(first.0 - 1), *last)
        })?;
        deeds.deeds.retain(|deed| known.contains(&deed.version));
        Ok(deeds)
    }
}

/// The same, and what has to be done for it.
struct Planned<'a> {
    told: Told<'a>,
    steps: Steps,
}

impl Planned<'_> {
    /// The operations of which something stays as it is.
    fn unfinished(&self) -> Vec<OperationId> {
        let stays: HashSet<NodeId> = self.steps.conflicts.iter().map(|conflict| conflict.node).collect();
        let touches = |deed: &&Deed| deed.lines.iter().any(|line| stays.contains(&line.node));
        self.told.deeds.deeds.iter().filter(touches).map(|deed| deed.operation.id).collect()
    }
}

impl Vfs {
    /// Takes back operations of this identity's agent. What others have changed since stays.
    pub fn undo(&self, what: Undo, options: UndoOptions) -> Result<Undone> {
        self.call("undo", [], |call, []| call.undo(what, options))
    }

    /// Puts a Workspace, or some paths in it, back to what they were at a version.
    pub fn restore(&self, prefix: impl IntoPath, version: Version, what: &Restore) -> Result<Undone> {
        self.call("restore", [prefix.into_path()], |call, [prefix]| call.restore(prefix, version, what))
    }
}

impl Call<'_> {
    fn undo(&self, what: Undo, options: UndoOptions) -> Result<Undone> {
        let grounds = some(self.grounds(Access::Restore), Access::Restore)?;
        let (chosen, all) = self.chosen_deeds(&grounds, what)?;
        let mut planned = Vec::new();
        for (ground, deeds) in grounds.into_iter().zip(all) {
            if !deeds.deeds.is_empty() {
                planned.push(Told { ground, deeds, how: How::Merged, asked: Asked::Deeds });
            }
        }
        self.carry_out(planned, chosen, options)
    }

    /// The operations that are to be taken back, and what they did on each Store.
    ///
    /// Operations are chosen without what they did, which may be much.
    fn chosen_deeds(&self, grounds: &[Ground<'_>], what: Undo) -> Result<(Vec<Operation>, Vec<Deeds>)> {
        let mut idle = HashSet::new();
        for _ in 0..TRIES {
            let mut chosen = self.chosen(grounds, what, &idle)?;
            let mut all = self.deeds_of(grounds, &chosen)?;
            let ids = |all: &[Deeds]| -> HashSet<OperationId> {
                all.iter().flat_map(|deeds| &deeds.deeds).map(|deed| deed.operation.id).collect()
            };
            let did = ids(&all);
            all.iter_mut().for_each(|deeds| deeds.deeds.retain(|deed| !deed.undone));
            if ids(&all) != did {
                // Someone else has taken something back since it was chosen.
                continue;
            }
            let nothing: Vec<_> = chosen.iter().map(|one| one.id).filter(|id| !did.contains(id)).collect();
            if nothing.is_empty() || !matches!(what, Undo::Last(_)) {
                chosen.retain(|operation| did.contains(&operation.id));
                return Ok((chosen, all));
            }
            // What came to nothing is none of the last ones.
            idle.extend(nothing);
        }
        Err(grounds[0].failed(StoreError::Conflict))
    }

    fn restore(&self, prefix: &VfsPath, version: Version, what: &Restore) -> Result<Undone> {
        let spot = self.enter(prefix, Access::Restore)?;
        let mut below = vec![spot.place.path.clone()];
        if !what.paths.is_empty() {
            below.clear();
            for path in &what.paths {
                let inner = self.enter(path, Access::Restore)?;
                if inner.workspace.prefix() != spot.workspace.prefix() {
                    return Err(Error::Invalid(format!("`{path}` is not in the Workspace of `{prefix}`")));
                }
                below.push(inner.place.path.clone());
            }
        }
        let store = spot.workspace.mount().store();
        let failed = |cause| Error::Store { path: prefix.clone(), sight: Sight::Sees, cause };
        if version != Version::NOW && version > store.version().map_err(failed)? {
            return Err(unknown(format!("version {version}")));
        }
        still_kept(&**store, version).map_err(failed)?;
        let ground = Ground { store, workspaces: vec![spot.workspace] };
        let deeds = since(&ground, version, &below).map_err(failed)?;
        let options = UndoOptions { dry_run: what.dry_run, on_conflict: OnConflict::Refuse };
        let asked = Asked::Since(version, below);
        self.carry_out(vec![Told { ground, deeds, how: How::Exactly, asked }], Vec::new(), options)
    }

    /// The operations that are to be taken back, newest first; those that are known to be `idle` are passed over.
    fn chosen(
        &self,
        grounds: &[Ground<'_>],
        what: Undo,
        idle: &HashSet<OperationId>,
    ) -> Result<Vec<Operation>> {
        let (since, count) = match what {
            Undo::Operation(id) => return self.one_of_ones_own(grounds, id).map(|operation| vec![operation]),
            Undo::Since(since) => (since, usize::MAX),
            Undo::Last(count) => (Timestamp(i64::MIN), count),
        };
        let mut operations = Vec::new();
        for ground in grounds {
            let limit = count.saturating_add(idle.len());
            let standing = ground.store.standing(&self.shared().identity.agent, since, limit);
            operations.extend(standing.map_err(|cause| ground.failed(cause))?);
        }
        // Those of one Store are in order already, also where they began at once.
        operations.sort_by_key(|operation| std::cmp::Reverse(operation.at));
        let mut seen = HashSet::new();
        operations.retain(|operation| !idle.contains(&operation.id) && seen.insert(operation.id));
        operations.truncate(count);
        Ok(operations)
    }

    /// An operation of the caller's that has not been taken back.
    fn one_of_ones_own(&self, grounds: &[Ground<'_>], id: OperationId) -> Result<Operation> {
        let agent = Some(self.shared().identity.agent.clone());
        let query = DeedQuery { agent, operations: Some(vec![id]), limit: 1, ..DeedQuery::all() };
        let mut known = false;
        for ground in grounds {
            let found = ground.store.deeds(&query).map_err(|cause| ground.failed(cause))?;
            if let Some(deed) = found.deeds.into_iter().next() {
                known = true;
                if !deed.undone {
                    return Ok(deed.operation);
                }
            }
        }
        Err(unknown(match known {
            true => format!("operation {id} of yours that has not been taken back already"),
            false => format!("operation {id} of yours"),
        }))
    }

    /// What these operations did, on one Store after the other.
    fn deeds_of(&self, grounds: &[Ground<'_>], operations: &[Operation]) -> Result<Vec<Deeds>> {
        let ids = operations.iter().map(|operation| operation.id).collect();
        let agent = Some(self.shared().identity.agent.clone());
        let query = DeedQuery { agent, operations: Some(ids), ..DeedQuery::all() };
        grounds
            .iter()
            .map(|ground| ground.store.deeds(&query).map_err(|cause| ground.failed(cause)))
            .collect()
    }

    /// Plans everything, and if nothing stands against it, does it: one change per Store.
    fn carry_out(&self, told: Vec<Told<'_>>, undone: Vec<Operation>, options: UndoOptions) -> Result<Undone> {
        let mut planned = Vec::new();
        let mut result =
            Undone { operation: None, undone, changes: Vec::new(), conflicts: Vec::new(), done: false };
        for mut told in told {
            let (steps, changes) = self.planned_now(&mut told)?;
            result.changes.extend(changes);
            let conflicts = steps.conflicts.iter().map(|conflict| self.told(&told.ground, conflict));
            result.conflicts.extend(conflicts);
            planned.push(Planned { told, steps });
        }
        if self.vfs.consent.is_strict() && result.changes.is_empty() {
            // That it was taken back is written down also where nothing has to be changed for it.
            for workspace in planned.iter().flat_map(|part| &part.told.ground.workspaces) {
                self.enter(workspace.prefix(), Access::Restore)?;
            }
        }
        let refused = !result.conflicts.is_empty() && options.on_conflict == OnConflict::Refuse;
        let stays = result.conflicts.iter().filter_map(|conflict| VfsPath::parse(&conflict.path).ok());
        self.names(result.changes.iter().map(|change| change.path.clone()).chain(stays).collect());
        if refused && !options.dry_run {
            self.was_refused(ErrorKind::Conflict);
        }
        if options.dry_run || refused {
            return Ok(result);
        }
        // An operation of which something stays as it is has not been taken back.
        let stays: HashSet<OperationId> = planned.iter().flat_map(Planned::unfinished).collect();
        let taken_back = result.undone.iter().map(|operation| operation.id).filter(|id| !stays.contains(id));
        let taken_back: Vec<OperationId> = taken_back.collect();
        let records: &[Record] = if taken_back.is_empty() { &[] } else { &[Record::Undoes(taken_back)] };
        let wanted = |part: &Planned<'_>| !part.steps.steps.is_empty() || !records.is_empty();
        let last = planned.iter().rposition(wanted);
        for (index, part) in planned.into_iter().enumerate() {
            let changes = !part.steps.steps.is_empty();
            // Also where nothing is left to do, it is written down that it was taken back.
            if changes || !records.is_empty() {
                let stage = if Some(index) == last { Stage::Last } else { Stage::Early };
                self.apply_plan(part, options, records, stage)?;
            }
            if changes {
                result.operation = Some(self.operation());
            }
        }
        for change in &result.changes {
            self.shared().seen.forget(&change.path);
        }
        result.done = true;
        Ok(result)
    }

    /// [`Call::planned`], made again where what it looked at has changed meanwhile.
    fn planned_now(&self, told: &mut Told<'_>) -> Result<(Steps, Vec<PathChange>)> {
        for _ in 0..TRIES {
            match self.planned(told) {
                Err(Error::Store { cause, .. }) if is_race(&cause) => told.renew()?,
                planned => return planned,
            }
        }
        Err(told.ground.failed(StoreError::Conflict))
    }

    /// What has to be done, in steps and in logical paths, if all of it is the caller's to do.
    fn planned(&self, told: &Told<'_>) -> Result<(Steps, Vec<PathChange>)> {
        let Told { ground, deeds, how, .. } = told;
        let store = &**ground.store;
        let failed = |cause| ground.failed(cause);
        // A merge has three sides and a result. What follows is mostly no larger.
        let mut memory = None;
        let mut read = |past: &Past| {
            if memory.is_none() {
                memory = Some(self.reserve(past.size().saturating_mul(4))?);
            }
            read_past(store, past)
        };
        let mut arrangement = plan(deeds, *how, &mut read).map_err(failed)?;
        self.keep_to_ones_own(ground, deeds, &mut arrangement)?;
        let aside = ground.workspaces[0].mount().path();
        let steps = ordered(arrangement, deeds, aside, &mut Looking(store)).map_err(failed)?;
        let changes = self.judged(ground, &steps)?;
        Ok((steps, changes))
    }

    /// What is not the caller's to change stays as it is: others may have moved it there.
    fn keep_to_ones_own(
        &self,
        ground: &Ground<'_>,
        deeds: &Deeds,
        arrangement: &mut Arrangement,
    ) -> Result<()> {
        let (mut refused, mut asks) = (Vec::new(), None);
        for &node in arrangement.targets.keys() {
            let Some(now) = deeds.now.get(&node) else { continue };
            let why = match self.logical(ground, &now.path) {
                Some(path) => match self.enter(&path, Access::Restore) {
                    Ok(_) => None,
                    // That a person has to agree is no conflict; they are asked about all of it at once.
                    Err(ask @ Error::Ask { .. }) => {
                        asks = asks.or(Some(ask));
                        continue;
                    }
                    Err(error) => Some(error.to_string()),
                },
                None => Some("it lies in none of the Workspaces that you may restore".to_owned()),
            };
            if let Some(why) = why {
                refused.push(Conflict { node, path: now.path.as_bytes().to_vec(), why });
            }
        }
        for conflict in refused {
            arrangement.targets.remove(&conflict.node);
            arrangement.conflicts.push(conflict);
        }
        asks.map_or(Ok(()), Err)
    }

    /// The changes in logical paths, if all of them are the caller's to make.
    fn judged(&self, ground: &Ground<'_>, steps: &Steps) -> Result<Vec<PathChange>> {
        let (mut changes, mut asks) = (Vec::with_capacity(steps.changes.len()), None);
        for change in &steps.changes {
            let mut logical = |path: &StorePath| -> Result<VfsPath> {
                let logical = self.logical(ground, path).ok_or_else(|| {
                    Error::Invalid(format!("`{path}` lies in none of the Workspaces that you may restore"))
                })?;
                match self.enter(&logical, Access::Restore) {
                    Err(ask @ Error::Ask { .. }) => asks = asks.take().or(Some(ask)),
                    judged => drop(judged?),
                }
                Ok(logical)
            };
            let path = logical(&change.path)?;
            let from = change.from.as_ref().map(logical).transpose()?;
            changes.push(PathChange { path, from, fate: change.fate });
        }
        if let Some(ask) = asks {
            return Err(ask);
        }
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(changes)
    }

    fn told(&self, ground: &Ground<'_>, conflict: &Conflict) -> PathConflict {
        let logical = self.logical(ground, &StorePath::from_checked(conflict.path.clone()));
        let path = match logical {
            Some(path) => path.to_string(),
            None => escaped(&conflict.path).to_string(),
        };
        PathConflict { path, why: conflict.why.clone() }
    }

    /// Makes the change; where something has changed since it was planned, it is planned again.
    fn apply_plan(
        &self,
        part: Planned<'_>,
        options: UndoOptions,
        records: &[Record],
        stage: Stage,
    ) -> Result<()> {
        let Planned { mut told, mut steps } = part;
        for _ in 0..TRIES {
            let Steps { steps: made, returning, .. } = steps;
            let applied = self.apply_with(&**told.ground.store, made, stage, |change| {
                change.records.extend_from_slice(records);
                change.returning = returning;
            });
            match applied {
                Err(cause) if is_race(&cause) => {}
                Err(cause) => return Err(told.ground.failed(cause)),
                Ok(_) => return Ok(()),
            }
            told.renew()?;
            if told.deeds.deeds.is_empty() {
                return Ok(());
            }
            steps = self.planned_now(&mut told)?.0;
            if !steps.conflicts.is_empty() && options.on_conflict == OnConflict::Refuse {
                break;
            }
        }
        Err(told.ground.failed(StoreError::Conflict))
    }
}

/// Whether a Store fails because something is not as it was a moment ago.
fn is_race(cause: &StoreError) -> bool {
    matches!(
        cause,
        StoreError::Conflict
            | StoreError::NotFound
            | StoreError::AlreadyExists
            | StoreError::NotEmpty
            | StoreError::NotADirectory
            | StoreError::IsADirectory
    )
}

/// Refuses a version that is no longer kept. A Store that can't be looked at as of a version tells what it has.
pub(super) fn still_kept(store: &dyn Store, version: Version) -> StoreResult<()> {
    match store.as_of(version) {
        Err(cause @ StoreError::Expired(_)) => Err(cause),
        // A fork was not there before it was made, and then what it tells is all that it did.
        _ => Ok(()),
    }
}

/// Leaves only what is at one of these paths or below, now or then, and the directories that it needs to come back.
fn keep_below(deeds: &mut Deeds, below: &[StorePath]) {
    let inside = |path: &StorePath| below.iter().any(|top| path.is_at_or_below(top));
    let leads = |state: &State| {
        state.kind == Kind::Directory && below.iter().any(|top| top.is_at_or_below(&state.path))
    };
    let now = &deeds.now;
    let mut wanted = HashSet::new();
    for line in deeds.deeds.iter().flat_map(|deed| &deed.lines) {
        let states = [&line.before, &line.after];
        let is_inside = states.into_iter().flatten().any(|state| inside(&state.path))
            || now.get(&line.node).is_some_and(|now| inside(&now.path));
        let is_missing = !now.contains_key(&line.node) && line.before.as_ref().is_some_and(leads);
        if is_inside || is_missing {
            wanted.insert(line.node);
        }
    }
    let keep = |line: &Line| wanted.contains(&line.node);
    for deed in &mut deeds.deeds {
        deed.lines.retain(keep);
    }
}

/// What has no history stays as it is.
fn leave_scratch(deeds: &mut Deeds, workspaces: &[&Workspace]) {
    let is_scratch = |state: &State| {
        workspaces.iter().any(|workspace| {
            let below = state.path.below(workspace.mount().path());
            below.is_some_and(|below| workspace.scratch().matches_bytes(below))
        })
    };
    if workspaces.iter().all(|workspace| workspace.scratch().is_empty()) {
        return;
    }
    for deed in &mut deeds.deeds {
        deed.lines
            .retain(|line| [&line.before, &line.after].into_iter().flatten().any(|state| !is_scratch(state)));
    }
}

/// A Store as a plan looks at it.
struct Looking<'s>(&'s dyn Store);

impl Survey for Looking<'_> {
    fn at(&mut self, path: &StorePath) -> StoreResult<Option<Attr>> {
        match self.0.stat(&Place::path(path.clone())) {
            Ok(attr) => Ok(Some(attr)),
            Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    fn names(&mut self, path: &StorePath) -> StoreResult<Vec<Vec<u8>>> {
        let listing = self.0.list(&Place::path(path.clone()), &Page::ALL)?;
        Ok(listing.entries.into_iter().map(|entry| entry.name.as_bytes().to_vec()).collect())
    }

    fn read(&mut self, past: &Past) -> StoreResult<Vec<u8>> {
        read_past(self.0, past)
    }
}
