//! Imports into a stead: collects what a source provides into batches, and applies these through the door.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};

use stead_core::store::{NodeKind, Parents, StoreError, StoreKind};
use stead_core::vfs::{Batch, IntoPath, Overwrite, Stat, WriteOptions};
use stead_core::{Access, ErrorKind, Timestamp, Vfs, VfsPath};

use super::host_directory::MODE_BITS;
use super::source::ImportSource;
use super::{
    CompareBy, CountingReader, TransferObserver, TransferTally, TransferTotals, archive_source, content_hash,
    directory_source,
};
use crate::error::{Error, Result};

/// How many steps a batch has at most.
const BATCH_STEPS: usize = 256;
/// After how many bytes a batch is applied.
const BATCH_BYTES: u64 = 8 << 20;
/// Larger files are streamed rather than held in memory.
const STREAM_THRESHOLD: u64 = 1 << 20;

/// Imports what a source holds into the directory `to`, which is created if it is missing. If `to` is above Workspaces, such as
/// `/`, each entry goes to the Workspace that its path is in, and an entry that is in none is refused.
///
/// A file that exists with the same size, time and mode (or, with [`CompareBy::Content`], the same content) is left as
/// it is, so repeating an interrupted import completes it. Files that the source lacks are not removed.
///
/// The import is one operation with one audit record for the whole; each of its changes has a record of its own,
/// committed with it.
pub fn import(
    vfs: &Vfs,
    source: ImportSource<'_>,
    to: impl IntoPath,
    compare: CompareBy,
    observer: &mut dyn TransferObserver,
) -> Result<TransferTotals> {
    let to = to.into_path()?;
    vfs.compound(
        "import",
        &to,
        |error: &Error| Some(error.kind()),
        |vfs| {
            let totals = run(vfs, source, &to, compare, observer)?;
            vfs.set_file_count(totals.files);
            Ok(totals)
        },
    )
}

fn run(
    vfs: &Vfs,
    source: ImportSource<'_>,
    to: &VfsPath,
    compare: CompareBy,
    observer: &mut dyn TransferObserver,
) -> Result<TransferTotals> {
    let (to, is_new) = find_destination(vfs, to)?;
    let tally = TransferTally::new(vfs, observer);
    let mut importer = Importer {
        vfs,
        compare,
        tally,
        batch: vfs.batch(),
        batch_bytes: 0,
        workspace: None,
        pending: HashMap::new(),
        known_directories: HashSet::from([to.clone()]),
        new_directories: HashSet::new(),
        created_symlinks: HashSet::new(),
        changed_directories: HashSet::new(),
        hidden_names: HashSet::new(),
    };
    if is_new {
        importer.flush_if_full(&to)?;
        importer.batch.mkdir(&to, None)?;
        importer.pending.insert(to.clone(), NodeKind::Directory);
        importer.new_directories.insert(to.clone());
    }
    match source {
        ImportSource::Directory { path, name } => {
            directory_source::import_directory(&path, &name, &to, &mut importer)?
        }
        ImportSource::Archive { stream, name } => {
            archive_source::import_archive(stream, &name, &to, &mut importer)?
        }
    }
    importer.flush()?;
    Ok(importer.tally.totals)
}

/// The directory to import into, and whether it is new. A new one is created in the same batch as its first entries, so
/// nothing is left behind if these are refused. An existing one needs no change, and so no audit record.
fn find_destination(vfs: &Vfs, to: &VfsPath) -> Result<(VfsPath, bool)> {
    if vfs.router().is_synthetic(to) {
        return Ok((to.clone(), false));
    }
    let scope = vfs.router().route(to).map(|route| route.workspace.scope());
    if scope.is_some_and(|scope| scope.allows(Access::Read) && scope.allows(Access::Write)) {
        if let Ok(Stat { kind: NodeKind::Directory, path, .. }) = vfs.stat(to) {
            return Ok((path, false));
        }
        if let Err(stead_core::Error::Store { cause: StoreError::NotFound, .. }) = vfs.stat_link(to) {
            return Ok((to.clone(), true));
        }
    }
    Ok((vfs.mkdir(to, Parents::Create)?.path, false))
}

/// The attributes that an entry is imported with.
#[derive(Debug, Clone, Copy)]
pub(super) struct ImportedAttr {
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) modified: Timestamp,
}

/// The content of a source's file.
pub(super) trait SourceContent: Read {
    /// Goes back to the start, and returns whether it could.
    fn try_rewind(&mut self) -> io::Result<bool>;
}

/// What is at the destination, as far as the import may know.
enum TargetState {
    Absent,
    Present(Stat),
    /// Added by this import, in a batch that isn't applied yet.
    Pending(NodeKind),
    /// The Workspace doesn't allow reading.
    Unknown,
}

pub(super) struct Importer<'v, 'w> {
    vfs: &'v Vfs,
    compare: CompareBy,
    pub(super) tally: TransferTally<'w>,
    batch: Batch<'v>,
    batch_bytes: u64,
    /// The prefix of the batch's Workspace: a batch changes only one Store.
    workspace: Option<VfsPath>,
    /// What the batch will create, by path.
    pending: HashMap<VfsPath, NodeKind>,
    /// Paths that are known to be directories, not symlinks to one.
    known_directories: HashSet<VfsPath>,
    /// The topmost directories that didn't exist before. Below them, nothing needs to be looked up.
    new_directories: HashSet<VfsPath>,
    /// Symlinks of this import, whether created or found unchanged. Nothing is imported through them.
    created_symlinks: HashSet<VfsPath>,
    /// Directories that got an entry since the import entered them, so that their time has changed.
    changed_directories: HashSet<VfsPath>,
    /// Paths that were left out because their names are hidden.
    hidden_names: HashSet<VfsPath>,
}

impl Importer<'_, '_> {
    /// Creates a directory unless it exists, with its parents. Returns whether entries can be imported into it.
    pub(super) fn ensure_directory(&mut self, path: &VfsPath) -> Result<bool> {
        self.tally.check_not_stopped()?;
        if self.known_directories.contains(path) {
            return Ok(true);
        }
        if self.is_workspace_or_above(path) {
            self.known_directories.insert(path.clone());
            return Ok(true);
        }
        if self.refuse_unusable_path(path) || !self.ensure_parents(path)? {
            return Ok(false);
        }
        match self.target_state(path)? {
            TargetState::Present(stat) if stat.kind == NodeKind::Directory => {}
            TargetState::Pending(NodeKind::Directory) => {}
            TargetState::Present(Stat { kind, .. }) | TargetState::Pending(kind) => {
                self.tally.refuse(path, format!("a {kind} with this name exists, but a directory is needed"));
                return Ok(false);
            }
            state @ (TargetState::Absent | TargetState::Unknown) => {
                if !self.add_step(path, NodeKind::Directory, |batch| batch.mkdir(path, None))? {
                    return Ok(false);
                }
                if matches!(state, TargetState::Absent) && !self.is_in_new_directory(path) {
                    self.new_directories.insert(path.clone());
                }
                self.tally.count(|totals| totals.directories += 1);
            }
        }
        self.known_directories.insert(path.clone());
        Ok(true)
    }

    /// Sets a directory's attributes, once all its entries are imported. The root of a Workspace keeps its own.
    pub(super) fn finish_directory(&mut self, path: &VfsPath, attr: ImportedAttr) -> Result<()> {
        if self.is_workspace_or_above(path) {
            return Ok(());
        }
        let ImportedAttr { mode, modified, .. } = attr;
        if !self.changed_directories.remove(path)
            && let TargetState::Present(stat) = self.target_state(path)?
            && (stat.mode & MODE_BITS, stat.modified) == (mode, Some(modified))
        {
            return Ok(());
        }
        self.set_attributes(path, NodeKind::Directory, mode, modified)
    }

    fn set_attributes(
        &mut self,
        path: &VfsPath,
        kind: NodeKind,
        mode: u32,
        modified: Timestamp,
    ) -> Result<()> {
        self.flush_if_full(path)?;
        let added = self.batch.set_attributes(path, Some(mode), Some(modified));
        self.note_step(path, kind, added)?;
        Ok(())
    }

    /// Imports a file.
    pub(super) fn import_file(
        &mut self,
        path: &VfsPath,
        attr: ImportedAttr,
        content: &mut dyn SourceContent,
    ) -> Result<()> {
        self.tally.check_not_stopped()?;
        if self.refuse_unusable_path(path) || !self.ensure_parents(path)? {
            return Ok(());
        }
        let existing = match self.target_state(path)? {
            TargetState::Present(stat) if stat.kind == NodeKind::File => Some(stat),
            TargetState::Pending(NodeKind::File) | TargetState::Absent | TargetState::Unknown => None,
            TargetState::Present(Stat { kind, .. }) | TargetState::Pending(kind) => {
                self.tally.refuse(path, format!("a {kind} with this name exists, but a file is needed"));
                return Ok(());
            }
        };
        let same_attributes = existing.as_ref().is_some_and(|existing| {
            existing.size == attr.size
                && existing.mode & MODE_BITS == attr.mode
                && existing.modified == Some(attr.modified)
        });
        if self.compare == CompareBy::Attributes && same_attributes {
            self.tally.count(|totals| totals.unchanged += 1);
            return Ok(());
        }
        let options = WriteOptions::new().mode(attr.mode).modified(attr.modified);
        let to_compare =
            existing.filter(|existing| self.compare == CompareBy::Content && existing.size == attr.size);
        if attr.size > STREAM_THRESHOLD {
            // Content that can be read only once can't be compared first, so it is written again.
            if to_compare.is_some() && content.try_rewind().map_err(read_error(path))? {
                if self.has_same_content(path, &mut &mut *content)? {
                    return self.finish_same_content(path, attr, same_attributes);
                }
                content.try_rewind().map_err(read_error(path))?;
            }
            self.write_streamed(path, &options, content)?;
        } else {
            let mut bytes = Vec::with_capacity(usize::try_from(attr.size).unwrap_or(0));
            // If the file grows meanwhile, only the size it had when it was opened is imported; the next import takes
            // the rest.
            Read::take(&mut *content, attr.size).read_to_end(&mut bytes).map_err(read_error(path))?;
            if to_compare.is_some() && self.has_same_content(path, &mut bytes.as_slice())? {
                return self.finish_same_content(path, attr, same_attributes);
            }
            let size = bytes.len() as u64;
            if self.add_step(path, NodeKind::File, |batch| batch.write(path, bytes, &options))? {
                self.batch_bytes += size;
                self.tally.count(|totals| {
                    totals.files += 1;
                    totals.bytes += size;
                });
            }
        }
        if self.batch_bytes >= BATCH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn write_streamed(
        &mut self,
        path: &VfsPath,
        options: &WriteOptions,
        content: &mut dyn SourceContent,
    ) -> Result<()> {
        self.flush_if_full(path)?;
        let before = self.tally.totals.bytes;
        let mut content: &mut dyn SourceContent = content;
        let mut counted = CountingReader { source: &mut content, tally: &mut self.tally };
        let added = self.batch.write_from(path, &mut counted, options);
        if self.note_entry_step(path, NodeKind::File, added)? {
            self.batch_bytes += self.tally.totals.bytes - before;
            self.tally.count(|totals| totals.files += 1);
        }
        Ok(())
    }

    /// Counts a file with the same content as unchanged, and sets its attributes if they differ.
    fn finish_same_content(
        &mut self,
        path: &VfsPath,
        attr: ImportedAttr,
        same_attributes: bool,
    ) -> Result<()> {
        if !same_attributes {
            let ImportedAttr { mode, modified, .. } = attr;
            self.set_attributes(path, NodeKind::File, mode, modified)?;
        }
        self.tally.count(|totals| totals.unchanged += 1);
        Ok(())
    }

    /// Whether the file at `path` has the same content as the stream.
    fn has_same_content(&self, path: &VfsPath, stream: &mut dyn Read) -> Result<bool> {
        let mut existing = self.vfs.reader(path)?;
        let existing = content_hash(&mut existing).map_err(read_error(path))?;
        Ok(existing == content_hash(stream).map_err(read_error(path))?)
    }

    /// Imports a symlink. Its target isn't checked here: the door checks it whenever the symlink is followed.
    pub(super) fn import_symlink(&mut self, path: &VfsPath, target: &[u8]) -> Result<()> {
        self.tally.check_not_stopped()?;
        if self.refuse_unusable_path(path) || !self.ensure_parents(path)? {
            return Ok(());
        }
        match self.target_state(path)? {
            TargetState::Present(stat) if stat.kind == NodeKind::Symlink => {
                if self.vfs.read_link(path)?.as_bytes() == target {
                    self.created_symlinks.insert(path.clone());
                    self.tally.count(|totals| totals.unchanged += 1);
                    return Ok(());
                }
            }
            TargetState::Pending(NodeKind::Symlink) | TargetState::Absent | TargetState::Unknown => {}
            TargetState::Present(Stat { kind, .. }) | TargetState::Pending(kind) => {
                self.tally.refuse(path, format!("a {kind} with this name exists, but a symlink is needed"));
                return Ok(());
            }
        }
        if self.add_step(path, NodeKind::Symlink, |batch| batch.symlink(path, target))? {
            self.created_symlinks.insert(path.clone());
            self.tally.count(|totals| totals.symlinks += 1);
        }
        Ok(())
    }

    /// Creates the parent directories of a path if needed. Returns whether something can be imported at the path.
    fn ensure_parents(&mut self, path: &VfsPath) -> Result<bool> {
        if self.created_symlinks.contains(path) {
            // If a source lists one path twice, it can't replace its own symlink with something else.
            self.tally.refuse(path, "a symlink with this name exists already");
            return Ok(false);
        }
        match path.parent() {
            Some(parent) => self.ensure_directory(&parent),
            None => Ok(true),
        }
    }

    fn is_in_new_directory(&self, path: &VfsPath) -> bool {
        (1..=path.depth()).any(|depth| self.new_directories.contains(&path.ancestor(depth)))
    }

    fn target_state(&self, path: &VfsPath) -> Result<TargetState> {
        if let Some(kind) = self.pending.get(path) {
            return Ok(TargetState::Pending(*kind));
        }
        if self.is_in_new_directory(path) {
            return Ok(TargetState::Absent);
        }
        // In a WRITE_ONLY Workspace nothing is looked up: each lookup would be in the audit as a denied call.
        let scope = self.vfs.router().route(path).map(|route| route.workspace.scope());
        if scope.is_some_and(|scope| !scope.allows(Access::Read)) {
            return Ok(TargetState::Unknown);
        }
        match self.vfs.stat_link(path) {
            Ok(stat) => Ok(TargetState::Present(stat)),
            Err(stead_core::Error::Store { cause: StoreError::NotFound, .. }) => Ok(TargetState::Absent),
            Err(error) if error.kind() == ErrorKind::Denied => Ok(TargetState::Unknown),
            Err(error) => Err(error.into()),
        }
    }

    /// Imports a hard link as a copy of a file that was imported before, since Workspaces have no hard links.
    pub(super) fn import_hard_link(&mut self, path: &VfsPath, target: &VfsPath) -> Result<()> {
        if self.refuse_unusable_path(path) || !self.ensure_parents(path)? {
            return Ok(());
        }
        self.flush()?;
        // Only a file in a directory that this import has entered, so it isn't reached through a symlink.
        let is_in_known_directory =
            target.parent().is_some_and(|parent| self.known_directories.contains(&parent));
        let size = match self.vfs.stat_link(target) {
            Ok(stat) if is_in_known_directory && stat.kind == NodeKind::File => stat.size,
            _ => {
                self.tally.refuse(path, "it is a hard link to a file that is not earlier in the archive");
                return Ok(());
            }
        };
        match self.vfs.copy(target, path, Overwrite::Replace) {
            Ok(_) => {
                self.changed_directories.extend(path.parent());
                self.tally.count(|totals| {
                    totals.files += 1;
                    totals.bytes += size;
                });
            }
            Err(error) => self.omit_if_denied(path, error)?,
        }
        Ok(())
    }

    /// Whether the path is a directory whatever the Stores have: the root of a Workspace, or a directory above Workspaces.
    fn is_workspace_or_above(&self, path: &VfsPath) -> bool {
        let router = self.vfs.router();
        router.route(path).is_some_and(|route| route.workspace.prefix() == path) || router.is_synthetic(path)
    }

    /// Refuses a path outside all Workspaces, and the names that a Physical Store reserves for Stead: one such name would
    /// make the whole batch fail.
    fn refuse_unusable_path(&mut self, path: &VfsPath) -> bool {
        let Some(route) = self.vfs.router().route(path) else {
            self.tally.refuse(path, "it is in none of the Workspaces");
            return true;
        };
        let is_physical = route.workspace.mount().store().info().kind == StoreKind::Physical;
        let is_reserved = is_physical && matches!(path.name(), Some(".stead" | "stead.toml"));
        if is_reserved {
            self.tally.refuse(path, "the name is reserved for Stead itself");
        }
        is_reserved
    }

    /// Adds a step to the batch. Returns whether the door allows it.
    fn add_step(
        &mut self,
        path: &VfsPath,
        kind: NodeKind,
        add: impl FnOnce(&mut Batch<'_>) -> stead_core::Result<()>,
    ) -> Result<bool> {
        self.flush_if_full(path)?;
        let added = add(&mut self.batch);
        self.note_entry_step(path, kind, added)
    }

    /// Records the result of a step that creates an entry: its parent directory has changed.
    fn note_entry_step(
        &mut self,
        path: &VfsPath,
        kind: NodeKind,
        added: stead_core::Result<()>,
    ) -> Result<bool> {
        let allowed = self.note_step(path, kind, added)?;
        if allowed {
            self.changed_directories.extend(path.parent());
        }
        Ok(allowed)
    }

    fn note_step(&mut self, path: &VfsPath, kind: NodeKind, added: stead_core::Result<()>) -> Result<bool> {
        match added {
            Ok(()) => {
                self.pending.insert(path.clone(), kind);
                Ok(true)
            }
            Err(error) => {
                self.omit_if_denied(path, error)?;
                Ok(false)
            }
        }
    }

    /// Leaves out an entry that the door denies; any other error ends the import.
    fn omit_if_denied(&mut self, path: &VfsPath, error: stead_core::Error) -> Result<()> {
        match error {
            stead_core::Error::Protected { .. } | stead_core::Error::GitRepository { .. } => {
                self.tally.protect(path);
            }
            stead_core::Error::HiddenName { .. } => {
                // An archive may have many entries in one hidden directory.
                if self.hidden_names.insert(path.clone()) {
                    self.tally.count(|totals| totals.hidden += 1);
                }
            }
            error if error.kind() == ErrorKind::Denied => self.tally.refuse(path, error),
            error => return Err(error.into()),
        }
        Ok(())
    }

    /// Applies the batch if it is full, or if the path is in another Workspace.
    fn flush_if_full(&mut self, path: &VfsPath) -> Result<()> {
        let workspace = self.vfs.router().route(path).map(|route| route.workspace.prefix());
        if self.batch.len() >= BATCH_STEPS || self.workspace.as_ref() != workspace {
            self.flush()?;
            self.workspace = workspace.cloned();
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        self.pending.clear();
        self.batch_bytes = 0;
        std::mem::replace(&mut self.batch, self.vfs.batch()).apply()?;
        Ok(())
    }
}

fn read_error(path: &VfsPath) -> impl Fn(io::Error) -> Error {
    move |cause| Error::host(format!("the source of `{path}` can't be read"), cause)
}
