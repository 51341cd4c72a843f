//! Undoes the actions of a change: at once if a later step fails, or in recovery after a crash.
//!
//! An action may or may not have happened, and other programs may have changed files since. So each case checks first,
//! acts only on what is still as the action left it, and never destroys content: content that can't go back to its
//! place is kept in `recovered/`, and what can't be decided stays as it is. After a crash, both are reported
//! (`recovery_report`).

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};
use stead_core::Timestamp;
use stead_core::store::{NodeKind, StoreError, StoreResult};

use super::history::TreeFingerprint;
use super::host::{self, Errno, HostResult, HostStat, NameAt, OpenMode, errno_to_store_error};
use super::mask::split;
use super::owner_access;
use super::patch::{FilePatch, ModeAndTime};
use super::patch_outcome::PatchOutcome;
use super::recovery_report::{self, Undecided};
use super::root::{self, Dir, Root};
use super::staging_area::rescue;
use crate::boot;

/// An action, and what it takes to undo it.
///
/// Paths start at the root. `staged_name` is a name in the staging directory. `fingerprint` is the fingerprint of what the
/// action puts into place. `changed` is the change time (ctime) that the removed or renamed entry had before; of two
/// exchanged entries, that of the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum UndoRecord {
    /// The entry `staged_name` was moved to `at`, where nothing was.
    Placed {
        at: Vec<u8>,
        #[serde(rename = "stash")]
        staged_name: String,
        ino: u64,
        #[serde(rename = "print")]
        fingerprint: Option<TreeFingerprint>,
    },
    /// The entry `staged_name` and what was at `at` were exchanged.
    Replaced {
        at: Vec<u8>,
        #[serde(rename = "stash")]
        staged_name: String,
        #[serde(rename = "ours")]
        our_ino: u64,
        #[serde(rename = "theirs")]
        their_ino: u64,
        #[serde(rename = "print")]
        fingerprint: Option<TreeFingerprint>,
    },
    /// What was at `at` was moved to `staged_name`.
    Removed {
        at: Vec<u8>,
        #[serde(rename = "stash")]
        staged_name: String,
        ino: u64,
        changed: Timestamp,
    },
    /// `from` was renamed to `to`, where nothing was.
    Moved { from: Vec<u8>, to: Vec<u8>, ino: u64, changed: Timestamp },
    /// `from` was renamed to `to`, and replaced what was there. `staged_name` is a hard link to what was replaced; `None`
    /// if that was an empty directory.
    MovedOver {
        from: Vec<u8>,
        to: Vec<u8>,
        ino: u64,
        changed: Timestamp,
        #[serde(rename = "stash")]
        staged_name: Option<String>,
    },
    /// `from` and `to` were exchanged.
    Exchanged { from: Vec<u8>, to: Vec<u8>, from_ino: u64, to_ino: u64, changed: Timestamp },
    /// A file was written into in place.
    Patched { at: Vec<u8>, patch: FilePatch },
    /// Mode and modification time were set.
    AttributesSet {
        at: Vec<u8>,
        ino: u64,
        before: ModeAndTime,
        after: ModeAndTime,
        #[serde(rename = "alone")]
        is_only_action: bool,
    },
}

/// When an action is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UndoTime {
    /// By the change that made it.
    DuringChange,
    /// By recovery after a crash. Users may have gone on working with the files meanwhile.
    AfterCrash,
}

/// The directories in which actions are undone, and what is known about the action.
pub(super) struct UndoContext<'a> {
    pub(super) root: &'a Root,
    pub(super) staging_dir: BorrowedFd<'a>,
    pub(super) rescued: &'a Dir,
    pub(super) when: UndoTime,
    /// Whether the action is known to have happened, whatever the files look like now.
    pub(super) is_performed: bool,
}

/// An open parent directory, and the last name of a path.
struct OpenParent<'a> {
    dir: Dir,
    name: &'a [u8],
}

impl OpenParent<'_> {
    fn at(&self) -> NameAt<'_> {
        (self.dir.as_fd(), self.name)
    }

    fn has(&self, ino: u64) -> StoreResult<bool> {
        Ok(stat_if_exists(self.dir.stat_at(self.name))?.is_some_and(|stat| stat.ino == ino))
    }
}

fn stat_if_exists(stat: HostResult<HostStat>) -> StoreResult<Option<HostStat>> {
    match stat {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(errno_to_store_error(error)),
    }
}

impl UndoContext<'_> {
    /// Opens the parent of a path; `None` if it doesn't exist any more.
    fn open_parent<'p>(&self, path: &'p [u8]) -> StoreResult<Option<OpenParent<'p>>> {
        let (parent, name) = split(path);
        match root::enter(&self.root.dir, parent, OpenMode::Traverse) {
            Ok(dir) => Ok(Some(OpenParent { dir, name })),
            Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn staged_entry<'p>(&'p self, name: &'p str) -> NameAt<'p> {
        (self.staging_dir, name.as_bytes())
    }

    fn stat_staged(&self, name: &str) -> StoreResult<Option<HostStat>> {
        stat_if_exists(host::stat_at(self.staging_dir, name.as_bytes()))
    }

    fn rescue(&self, staged_name: &str) -> StoreResult<()> {
        rescue(self.staging_dir, staged_name, self.rescued).map(drop).map_err(errno_to_store_error)
    }

    /// Keeps an entry that can't go back to its place, and reports it.
    fn rescue_and_report(&self, at: &[u8], staged_name: &str, undecided: Undecided) -> StoreResult<()> {
        match rescue(self.staging_dir, staged_name, self.rescued).map_err(errno_to_store_error)? {
            Some(name) => self.report(at, undecided, Some(&name)),
            None => Ok(()),
        }
    }

    fn report(&self, at: &[u8], undecided: Undecided, rescued_name: Option<&str>) -> StoreResult<()> {
        // A living process returns the error to its caller. Only recovery has no caller to inform.
        if self.when == UndoTime::DuringChange {
            return Ok(());
        }
        recovery_report::write(self.root, self.rescued, at, undecided, rescued_name)
    }

    /// Whether the machine was restarted since the process of this staging directory started.
    fn is_of_an_earlier_boot(&self) -> StoreResult<bool> {
        let lock = match host::open_name(self.staging_dir, b"lock", OpenMode::Read) {
            Ok(lock) => File::from(lock),
            Err(Errno::NOENT) => return Ok(true),
            Err(error) => return Err(errno_to_store_error(error)),
        };
        let mut boot = [0; boot::ID_LENGTH];
        let is_known = lock.read_exact_at(&mut boot, 0).is_ok();
        Ok(boot::id().is_some_and(|current| !is_known || current != boot))
    }

    /// Whether the entry is still as the action put it there. Without a fingerprint, it counts as unchanged.
    fn is_unchanged(
        &self,
        parent: &OpenParent<'_>,
        fingerprint: Option<TreeFingerprint>,
    ) -> StoreResult<bool> {
        match fingerprint {
            Some(fingerprint) => {
                Ok(TreeFingerprint::of(&parent.dir, parent.name)?.is_unchanged_since(&fingerprint))
            }
            None => Ok(true),
        }
    }
}

/// Undoes an action, if it happened.
pub(super) fn undo(context: &UndoContext<'_>, action: &UndoRecord) -> StoreResult<()> {
    match action {
        UndoRecord::Placed { at, staged_name, ino, fingerprint } => {
            let Some(parent) = context.open_parent(at)? else { return Ok(()) };
            if context.stat_staged(staged_name)?.is_some() || !parent.has(*ino)? {
                return Ok(());
            }
            if !context.is_unchanged(&parent, *fingerprint)? {
                return context.report(at, Undecided::Made, None);
            }
            owner_access::rename_new(parent.at(), context.staged_entry(staged_name))
                .map_err(errno_to_store_error)?;
            // After a crash, a user may be writing into it: it is removed from its place, but not destroyed.
            if context.when == UndoTime::DuringChange { Ok(()) } else { context.rescue(staged_name) }
        }
        UndoRecord::Replaced { at, staged_name, our_ino, their_ino, fingerprint } => {
            if context.stat_staged(staged_name)?.is_none_or(|stat| stat.ino != *their_ino) {
                return Ok(());
            }
            match context.open_parent(at)? {
                Some(parent) if parent.has(*our_ino)? && context.is_unchanged(&parent, *fingerprint)? => {
                    host::exchange(context.staged_entry(staged_name), parent.at())
                        .map_err(errno_to_store_error)?;
                    if context.when == UndoTime::DuringChange { Ok(()) } else { context.rescue(staged_name) }
                }
                _ => context.rescue_and_report(at, staged_name, Undecided::Replaced),
            }
        }
        UndoRecord::Removed { at, staged_name, .. } => {
            if context.stat_staged(staged_name)?.is_none() {
                return Ok(());
            }
            let Some(parent) = context.open_parent(at)? else {
                return context.rescue_and_report(at, staged_name, Undecided::Removed);
            };
            match owner_access::rename_new(context.staged_entry(staged_name), parent.at()) {
                Err(Errno::EXIST | Errno::NOENT) => {
                    context.rescue_and_report(at, staged_name, Undecided::Removed)
                }
                result => result.map_err(errno_to_store_error),
            }
        }
        UndoRecord::Moved { from, to, ino, .. } => move_back(context, from, to, *ino),
        UndoRecord::MovedOver { from, to, ino, staged_name: Some(staged_name), .. } => {
            undo_over(context, from, to, *ino, staged_name)
        }
        UndoRecord::MovedOver { from, to, ino, staged_name: None, .. } => move_back(context, from, to, *ino),
        UndoRecord::Exchanged { from, to, from_ino, to_ino, .. } => {
            let (Some(from), Some(to)) = (context.open_parent(from)?, context.open_parent(to)?) else {
                return Ok(());
            };
            if from.has(*to_ino)? && to.has(*from_ino)? {
                host::exchange(from.at(), to.at()).map_err(errno_to_store_error)?;
            }
            Ok(())
        }
        UndoRecord::Patched { at, patch } => undo_patch(context, at, patch),
        UndoRecord::AttributesSet { at, ino, before, after, is_only_action } => {
            let Some(parent) = context.open_parent(at)? else { return Ok(()) };
            let Some(stat) = stat_if_exists(parent.dir.stat_at(parent.name))?.filter(|stat| stat.ino == *ino)
            else {
                return Ok(());
            };
            let is_complete = (stat.mode, stat.modified) == (after.mode, after.modified);
            // The mode is set first. Any other combination was set by another program.
            let is_half = stat.mode == after.mode && stat.modified == before.modified;
            if context.when != UndoTime::DuringChange
                && (*is_only_action && is_complete || !is_complete && !is_half)
            {
                return Ok(());
            }
            host::set_modified_at(parent.dir.as_fd(), parent.name, before.modified)
                .map_err(errno_to_store_error)?;
            if let NodeKind::Symlink | NodeKind::Special(_) = stat.kind {
                return Ok(());
            }
            let handle = parent.dir.open(parent.name, OpenMode::Handle).map_err(errno_to_store_error)?;
            match host::stat(&handle).map_err(errno_to_store_error)?.ino == *ino {
                true => host::set_mode(handle, before.mode).map_err(errno_to_store_error),
                false => Ok(()),
            }
        }
    }
}

/// Renames an entry back to its old name.
fn move_back(context: &UndoContext<'_>, from: &[u8], to: &[u8], ino: u64) -> StoreResult<()> {
    let (Some(source), Some(destination)) = (context.open_parent(from)?, context.open_parent(to)?) else {
        return Ok(());
    };
    if !destination.has(ino)? {
        return Ok(());
    }
    match owner_access::rename_new(destination.at(), source.at()) {
        // The old name has been taken: the entry stays where it is.
        Err(Errno::EXIST) => context.report(to, Undecided::Moved, None),
        result => result.map_err(errno_to_store_error),
    }
}

/// Undoes a `MovedOver` with a stash. At any time the name `to` must lead to one file or the other: so the stash and
/// `to` are exchanged, and then what was moved goes from the stash back to `from`.
fn undo_over(
    context: &UndoContext<'_>,
    from: &[u8],
    to: &[u8],
    ino: u64,
    staged_name: &str,
) -> StoreResult<()> {
    let Some(staged_stat) = context.stat_staged(staged_name)? else { return Ok(()) };
    let (source, destination) = (context.open_parent(from)?, context.open_parent(to)?);
    let has =
        |parent: &Option<OpenParent<'_>>, ino| parent.as_ref().map_or(Ok(false), |parent| parent.has(ino));
    // If the stash holds the moved file, an earlier recovery has already exchanged them and then stopped.
    if staged_stat.ino != ino {
        if has(&destination, staged_stat.ino)? || has(&source, ino)? {
            // The rename did not happen. The stash is a second name of what is at `to`, or was there until another
            // program removed it.
            return Ok(());
        }
        let (Some(source), Some(destination)) = (&source, &destination) else {
            return context.rescue_and_report(to, staged_name, Undecided::Moved);
        };
        if !destination.has(ino)? {
            return context.rescue_and_report(to, staged_name, Undecided::Removed);
        }
        if stat_if_exists(source.dir.stat_at(source.name))?.is_some() {
            // The old name has been taken: the moved file stays where it is.
            return context.rescue_and_report(to, staged_name, Undecided::Moved);
        }
        match host::exchange(context.staged_entry(staged_name), destination.at()) {
            // Some file systems can't exchange names.
            Err(Errno::INVAL) => {
                owner_access::rename_new(destination.at(), source.at()).map_err(errno_to_store_error)?;
                return owner_access::rename_new(context.staged_entry(staged_name), destination.at())
                    .map_err(errno_to_store_error);
            }
            exchanged => exchanged.map_err(errno_to_store_error)?,
        }
    }
    let Some(source) = source else { return context.rescue_and_report(from, staged_name, Undecided::Moved) };
    match owner_access::rename_new(context.staged_entry(staged_name), source.at()) {
        Err(Errno::EXIST | Errno::NOENT) => context.rescue_and_report(from, staged_name, Undecided::Moved),
        result => result.map_err(errno_to_store_error),
    }
}

/// Undoes a write into a file, unless the write is complete and was the only action of its change.
fn undo_patch(context: &UndoContext<'_>, at: &[u8], patch: &FilePatch) -> StoreResult<()> {
    let found = match context.open_parent(at)? {
        Some(parent) => match stat_if_exists(parent.dir.stat_at(parent.name))? {
            Some(stat) if stat.ino == patch.ino && stat.kind == NodeKind::File => Some((parent, stat)),
            _ => None,
        },
        None => None,
    };
    // A power cut reorders the writes that were not synced, and may keep a later change of the name. After a restart
    // that can't be told from the work of another program, so nothing is reported. The content from before is kept all
    // the same.
    let rescue_unclear = |undecided| match (&patch.old_bytes_name, context.is_of_an_earlier_boot()?) {
        (Some(old_bytes_name), false) => context.rescue_and_report(at, old_bytes_name, undecided),
        (None, false) => context.report(at, undecided, None),
        (Some(old_bytes_name), true) => context.rescue(old_bytes_name),
        (None, true) => Ok(()),
    };
    let Some((parent, stat)) = found else {
        // Another file has the name. Where the written file is now, and what it holds, is unknown.
        return if patch.is_only_action && context.is_performed {
            Ok(())
        } else {
            rescue_unclear(Undecided::WrittenElsewhere)
        };
    };
    let file = owner_access::open(&parent.dir, parent.name, OpenMode::ReadWrite)
        .map_err(errno_to_store_error)?
        .0
        .into();
    let may_stay = patch.is_only_action && context.when != UndoTime::DuringChange;
    match patch.outcome(&file, &stat, context)? {
        PatchOutcome::NotWritten => {
            if stat.mode == patch.after.mode && stat.mode != patch.before.mode {
                host::set_mode(&file, patch.before.mode).map_err(errno_to_store_error)?;
            }
            Ok(())
        }
        PatchOutcome::Complete if may_stay => patch.complete(&file, &stat, context.when),
        PatchOutcome::ChangedSince if may_stay => Ok(()),
        PatchOutcome::Complete | PatchOutcome::Torn => patch.revert(&file, &stat, context),
        PatchOutcome::ChangedSince | PatchOutcome::Unclear => rescue_unclear(Undecided::Written),
    }
}

/// Whether an action happened that was the only one of its change.
///
/// If the action leaves something in the staging directory, that answers it for certain. For other actions, the files
/// at their paths answer it, as long as no program has changed them since: Stead's own processes run recovery first. If
/// the action is known to have happened (`is_performed`), only files that are exactly as before contradict it: then a
/// power cut has lost the action.
pub(super) fn has_happened(context: &UndoContext<'_>, action: &UndoRecord) -> StoreResult<bool> {
    let has = |path: &[u8], ino: u64| match context.open_parent(path)? {
        Some(parent) => parent.has(ino),
        None => Ok(false),
    };
    let is_as_before = |path: &[u8], ino: u64, changed: Timestamp| match context.open_parent(path)? {
        Some(parent) => {
            let stat = stat_if_exists(parent.dir.stat_at(parent.name))?;
            StoreResult::Ok(stat.is_some_and(|stat| (stat.ino, stat.changed) == (ino, changed)))
        }
        None => Ok(false),
    };
    Ok(match action {
        UndoRecord::Placed { at, staged_name, ino, .. } => {
            context.stat_staged(staged_name)?.is_none() && (context.is_performed || has(at, *ino)?)
        }
        UndoRecord::Replaced { at, staged_name, our_ino, .. } => match context.stat_staged(staged_name)? {
            Some(stat) => stat.ino != *our_ino,
            None => context.is_performed || has(at, *our_ino)?,
        },
        UndoRecord::Removed { at, staged_name, ino, changed } => {
            // If the content was not kept, it is gone, and a file that was created since may have its inode.
            context.stat_staged(staged_name)?.is_some()
                || context.is_performed && !is_as_before(at, *ino, *changed)?
        }
        UndoRecord::Moved { from, to, ino, changed }
        | UndoRecord::MovedOver { from, to, ino, changed, .. }
        | UndoRecord::Exchanged { from, to, from_ino: ino, changed, .. } => {
            has(to, *ino)? || context.is_performed && !is_as_before(from, *ino, *changed)?
        }
        UndoRecord::Patched { at, patch } => {
            let Some(parent) = context.open_parent(at)? else { return Ok(context.is_performed) };
            match stat_if_exists(parent.dir.stat_at(parent.name))? {
                Some(stat) if stat.ino == patch.ino && stat.kind == NodeKind::File => {
                    let (file, _) = owner_access::open(&parent.dir, parent.name, OpenMode::Read)
                        .map_err(errno_to_store_error)?;
                    matches!(
                        patch.outcome(&file.into(), &stat, context)?,
                        PatchOutcome::Complete | PatchOutcome::ChangedSince
                    )
                }
                _ => context.is_performed,
            }
        }
        UndoRecord::AttributesSet { at, ino, before, after, .. } => match context.open_parent(at)? {
            Some(parent) => {
                match stat_if_exists(parent.dir.stat_at(parent.name))?.filter(|stat| stat.ino == *ino) {
                    Some(stat) => {
                        let has_attributes = |attributes: &ModeAndTime| {
                            (stat.mode, stat.modified) == (attributes.mode, attributes.modified)
                        };
                        has_attributes(after) || context.is_performed && !has_attributes(before)
                    }
                    None => context.is_performed,
                }
            }
            None => context.is_performed,
        },
    })
}

impl UndoRecord {
    /// Whether it is the only action of its change, though it takes more than one system call.
    pub(super) fn is_only_action(&self) -> bool {
        match self {
            UndoRecord::Patched { patch, .. } => patch.is_only_action,
            UndoRecord::AttributesSet { is_only_action, .. } => *is_only_action,
            _ => false,
        }
    }

    /// Whether this is the same action: the same entries at the same path, by the same name in the staging directory.
    pub(super) fn is_same_action(&self, other: &Self) -> bool {
        let essence = |record: &Self| match record {
            UndoRecord::Placed { staged_name, ino, .. } => Some((0, staged_name.clone(), *ino, 0)),
            UndoRecord::Replaced { staged_name, our_ino, their_ino, .. } => {
                Some((1, staged_name.clone(), *our_ino, *their_ino))
            }
            UndoRecord::Removed { staged_name, ino, .. } => Some((2, staged_name.clone(), *ino, 0)),
            _ => None,
        };
        let paths = |record: &Self| match record {
            UndoRecord::Placed { at, .. }
            | UndoRecord::Replaced { at, .. }
            | UndoRecord::Removed { at, .. } => Some(at.clone()),
            _ => None,
        };
        essence(self).is_some() && essence(self) == essence(other) && paths(self) == paths(other)
    }

    /// The part that the ledger needs if the intent log holds the complete record: what kind of action it is, and the names in
    /// the staging directory. A change may have very many actions.
    pub(super) fn ledger_summary(&self) -> Self {
        let nowhere = Vec::new;
        match self.clone() {
            UndoRecord::Patched { patch, .. } => {
                let patch = FilePatch { written: patch.written.without_hashes(), ..patch };
                UndoRecord::Patched { at: nowhere(), patch }
            }
            UndoRecord::Placed { staged_name, ino, .. } => {
                UndoRecord::Placed { at: nowhere(), staged_name, ino, fingerprint: None }
            }
            UndoRecord::Replaced { staged_name, our_ino, their_ino, .. } => {
                UndoRecord::Replaced { at: nowhere(), staged_name, our_ino, their_ino, fingerprint: None }
            }
            UndoRecord::Removed { staged_name, ino, changed, .. } => {
                UndoRecord::Removed { at: nowhere(), staged_name, ino, changed }
            }
            UndoRecord::Moved { ino, changed, .. } => {
                UndoRecord::Moved { from: nowhere(), to: nowhere(), ino, changed }
            }
            UndoRecord::MovedOver { ino, changed, staged_name, .. } => {
                UndoRecord::MovedOver { from: nowhere(), to: nowhere(), ino, changed, staged_name }
            }
            UndoRecord::Exchanged { from_ino, to_ino, changed, .. } => {
                UndoRecord::Exchanged { from: nowhere(), to: nowhere(), from_ino, to_ino, changed }
            }
            UndoRecord::AttributesSet { ino, before, after, is_only_action, .. } => {
                UndoRecord::AttributesSet { at: nowhere(), ino, before, after, is_only_action }
            }
        }
    }

    /// The name in the staging directory that holds, or will hold, what the action displaces.
    pub(super) fn displaced_name(&self) -> Option<&str> {
        match self {
            UndoRecord::Replaced { staged_name, .. } | UndoRecord::Removed { staged_name, .. } => {
                Some(staged_name)
            }
            UndoRecord::MovedOver { staged_name, .. } => staged_name.as_deref(),
            UndoRecord::Patched { patch, .. } => patch.old_bytes_name.as_deref(),
            UndoRecord::Placed { .. }
            | UndoRecord::Moved { .. }
            | UndoRecord::Exchanged { .. }
            | UndoRecord::AttributesSet { .. } => None,
        }
    }
}
