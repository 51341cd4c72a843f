//! A folder and a file in it, as a call works with them.

use super::file_name::{check_name, depth, too_deep};
use super::{FolderCall, short_text};
use crate::error::{Error, ErrorKind, Visibility};
use crate::name::escape_name;
use crate::organization::{Folder, IssuedFolder};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{NodeKind, StoreError};
use crate::tools::Failure;
use crate::vfs::managed::routed_parts;
use crate::vfs::{PathEntry, Stat, Unreadable, Vfs, WalkQuery, WalkResult};

/// How many files the error about a missing one names.
const MAX_NAMED_FILES: usize = 20;

/// Authorizes these accesses before anything is looked up. A person is asked about all of them at once, and only if none
/// is refused.
pub(super) fn authorize(vfs: &Vfs, accesses: &[(&VfsPath, Access)]) -> Result<(), Failure> {
    let refusals = accesses.iter().filter_map(|(path, access)| vfs.authorize(Some(*path), *access).err());
    let (approvals, others): (Vec<_>, Vec<_>) =
        refusals.partition(|error| matches!(error, Error::ApprovalRequired { .. }));
    others.into_iter().chain(approvals).next().map_or(Ok(()), |error| Err(error.into()))
}

/// A folder of the organization that is a Workspace of the caller, or a subfolder of one.
pub(super) struct OpenFolder<'a> {
    pub(super) vfs: &'a Vfs,
    call: &'a FolderCall<'a>,
    pub(super) folder: Folder,
    /// What the folder's id stands for.
    pub(super) issued: IssuedFolder,
    /// The id that the caller passed, if it passed one.
    id: Option<String>,
    /// The logical path, subfolder included.
    pub(super) path: VfsPath,
}

impl<'a> OpenFolder<'a> {
    /// The folder, if it is a Workspace that the caller may still read.
    pub(super) fn new(
        vfs: &'a Vfs,
        call: &'a FolderCall<'a>,
        folder: Folder,
        issued: IssuedFolder,
    ) -> Option<Self> {
        let root = call.organization().folder_path(folder);
        let workspace = vfs.router().route(&root)?.workspace;
        if *workspace.prefix() != root || !vfs.allows(workspace, Access::Read) {
            return None;
        }
        let path = root.join(&issued.subfolder).ok()?;
        Some(OpenFolder { vfs, call, folder, issued, id: None, path })
    }

    /// The same folder, for a caller that named it by this id.
    pub(super) fn with_id(self, id: &str) -> Self {
        OpenFolder { id: Some(id.to_owned()), ..self }
    }

    /// The name for people: `HR Team - Shared`, or `HR Team - Shared/reports`.
    pub(super) fn name(&self) -> String {
        let name = self.call.organization().folder_name(self.folder);
        match &*self.issued.subfolder {
            "" => name,
            subfolder => format!("{name}/{}", escape_name(subfolder.as_bytes())),
        }
    }

    /// Whether this is one of the two folders of an agent or a team, not a subfolder.
    pub(super) fn is_root(&self) -> bool {
        self.issued.subfolder.is_empty()
    }

    /// The largest file that a folder tool reads and writes, in bytes.
    pub(super) fn max_file_bytes(&self) -> u64 {
        self.call.organization().settings().max_file_bytes
    }

    /// How many parts a file's name may have that is created, counted from the Workspace.
    pub(super) fn max_depth(&self) -> usize {
        self.call.organization().settings().max_depth
    }

    /// How many parts a path has that count towards the depth, given relative to the Workspace. In a managed folder, the
    /// directories of a category and its day don't count.
    pub(super) fn depth_of(&self, relative_path: &str) -> usize {
        let workspace = self.vfs.router().route(&self.path).map(|route| route.workspace);
        let is_managed = workspace.is_some_and(|workspace| workspace.managed().is_some());
        depth(relative_path) - if is_managed { routed_parts(relative_path) } else { 0 }
    }

    /// A fresh id for this folder. `files` are the names that the caller sees in it.
    pub(super) fn issue_id(&self, files: &mut dyn Iterator<Item = &str>) -> String {
        let folders = self.call.folders();
        folders.ids().issue(folders.holder(), self.issued.clone(), files).to_string()
    }

    /// A file in this folder; it need not exist.
    pub(super) fn file(&self, name: &str) -> Result<FolderFile<'_>, Failure> {
        check_name(name)?;
        let path = self.path.join(name).map_err(|error| Failure::invalid(error.to_string()))?;
        Ok(FolderFile { folder: self, name: name.to_owned(), path })
    }

    /// All files of this folder, at every depth, sorted. A folder without a directory has none.
    pub(super) fn walk(&self, pattern: Option<String>) -> Result<WalkResult, Error> {
        let query = WalkQuery { pattern, kind: Some(NodeKind::File), ..WalkQuery::default() };
        match self.vfs.walk(&self.path, &query) {
            Err(Error::Store { cause: StoreError::NotFound | StoreError::NotADirectory, .. }) => {
                Ok(WalkResult::default())
            }
            // The host doesn't let Stead read it. That is no reason to show none of the others.
            Err(error @ Error::Store { cause: StoreError::HostDenied, .. }) => {
                let unreadable = Unreadable { path: self.path.to_string(), reason: error.to_string() };
                Ok(WalkResult { unreadable: vec![unreadable], ..WalkResult::default() })
            }
            result => result,
        }
    }

    /// The name of a file that a walk of this folder has found.
    pub(super) fn file_name<'e>(&self, entry: &'e PathEntry) -> &'e str {
        let name = entry.path.strip_prefix(&self.path.to_string());
        name.map_or(&*entry.path, |name| name.trim_start_matches('/'))
    }
}

/// A file in a folder, whether or not it exists.
pub(super) struct FolderFile<'a> {
    pub(super) folder: &'a OpenFolder<'a>,
    pub(super) name: String,
    pub(super) path: VfsPath,
}

impl FolderFile<'_> {
    fn vfs(&self) -> &Vfs {
        self.folder.vfs
    }

    /// What has the name, if something has.
    pub(super) fn stat(&self) -> Result<Option<Stat>, Failure> {
        match self.vfs().stat_link(&self.path) {
            Ok(stat) => Ok(Some(stat)),
            Err(Error::Store { cause: StoreError::NotFound | StoreError::NotADirectory, .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The attributes of the file, to read it. What isn't a file is an error.
    pub(super) fn stat_file(&self) -> Result<Stat, Failure> {
        match self.stat()? {
            None => Err(self.missing()),
            // Symlinks aren't listed either.
            Some(stat) if stat.kind == NodeKind::Symlink => Err(self.missing()),
            Some(stat) => self.require_file(stat),
        }
    }

    /// What would be replaced by a file that is put here, if something would. What isn't a file is an error.
    pub(super) fn stat_target(&self) -> Result<Option<Stat>, Failure> {
        match self.stat()? {
            Some(stat) if stat.kind == NodeKind::Symlink => {
                Err(Error::SymlinkRefused { path: self.path.clone() }.into())
            }
            None if self.goes_through_symlink()? => {
                Err(Error::SymlinkRefused { path: self.path.clone() }.into())
            }
            found => found.map(|stat| self.require_file(stat)).transpose(),
        }
    }

    /// Whether a directory on the way to the file is a symlink, which isn't followed.
    fn goes_through_symlink(&self) -> Result<bool, Failure> {
        let parts = depth(&self.name);
        for directory in self.path.ancestors().skip(1).take(parts - 1) {
            let directory = FolderFile { folder: self.folder, name: String::new(), path: directory };
            if directory.stat()?.is_some_and(|stat| stat.kind == NodeKind::Symlink) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn require_file(&self, stat: Stat) -> Result<Stat, Failure> {
        let cause = match stat.kind {
            NodeKind::File => return Ok(stat),
            NodeKind::Directory => StoreError::IsADirectory,
            other => StoreError::Special(other),
        };
        Err(Error::Store { path: self.path.clone(), visibility: Visibility::Visible, cause }.into())
    }

    /// Refuses a file of more bytes than a folder tool may write.
    pub(super) fn check_size(&self, size: u64) -> Result<(), Failure> {
        let limit = self.folder.max_file_bytes();
        if size <= limit {
            return Ok(());
        }
        let cause = StoreError::TooLarge { size, limit };
        Err(Error::Store { path: self.path.clone(), visibility: Visibility::Visible, cause }.into())
    }

    /// Refuses to create a file that is too deep. What exists may be deeper.
    pub(super) fn check_depth(&self) -> Result<(), Failure> {
        let max_depth = self.folder.max_depth();
        let subfolder = &*self.folder.issued.subfolder;
        let relative_path =
            if subfolder.is_empty() { self.name.clone() } else { format!("{subfolder}/{}", self.name) };
        let depth = self.folder.depth_of(&relative_path);
        if depth > max_depth && self.stat()?.is_none() {
            return Err(too_deep(&self.name, depth, max_depth));
        }
        Ok(())
    }

    /// The same error, but that the file doesn't exist is said with the names of those that do.
    pub(super) fn read_failure(&self, error: Error) -> Failure {
        match error {
            Error::Store { cause: StoreError::NotFound | StoreError::NotADirectory, .. } => self.missing(),
            error => error.into(),
        }
    }

    /// The failure for a file that doesn't exist.
    pub(super) fn missing(&self) -> Failure {
        let (name, folder) = (short_text(&self.name), self.folder.name());
        let ids = self.folder.call.folders().ids();
        if self.folder.id.as_ref().is_some_and(|id| ids.was_seen(id, &self.name)) {
            let message = format!(
                "File '{name}' no longer exists in folder '{folder}'. Use list_folders() to discover current files."
            );
            return Failure::new(ErrorKind::NotFound, message);
        }
        let message = match self.folder.walk(None) {
            Ok(found) => {
                let names = found.entries.iter().take(MAX_NAMED_FILES);
                let names: Vec<_> = names.map(|entry| self.folder.file_name(entry)).collect();
                let more = match found.entries.len() - names.len() {
                    0 => String::new(),
                    more => format!(" (and {more} more)"),
                };
                format!(
                    "File '{name}' not found in folder '{folder}'. Available files: [{}]{more}",
                    names.join(", ")
                )
            }
            Err(_) => format!("File '{name}' not found in folder '{folder}'."),
        };
        Failure::new(ErrorKind::NotFound, message)
    }
}
