//! A side of a merge: a tree, and how it came to be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use stead::Stead;
use stead_core::store::Parents;
use stead_core::vfs::{Overwrite, RemoveOptions, WriteOptions};

/// What git knows of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) is_executable: bool,
    pub(super) content: Vec<u8>,
}

impl File {
    pub(super) fn mode(&self) -> u32 {
        if self.is_executable { 0o755 } else { 0o644 }
    }
}

/// Files by path. Git knows no empty directories, so there are none.
pub(super) type Tree = BTreeMap<String, File>;

/// One change.
#[derive(Clone)]
pub(super) enum Step {
    /// Writes a file, which may be new.
    Write {
        path: String,
        content: Vec<u8>,
    },
    SetExecutable {
        path: String,
        is_executable: bool,
    },
    /// Removes a file.
    Remove {
        path: String,
    },
    /// Removes a directory and everything in it.
    RemoveDirectory {
        path: String,
    },
    /// Renames a file.
    Rename {
        from: String,
        to: String,
    },
    RenameDirectory {
        from: String,
        to: String,
    },
}

impl fmt::Debug for Step {
    /// Without contents, which are long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Write { path, content } => write!(f, "write {path} ({} bytes)", content.len()),
            Step::SetExecutable { path, is_executable } => write!(f, "executable {path} {is_executable}"),
            Step::Remove { path } => write!(f, "remove {path}"),
            Step::RemoveDirectory { path } => write!(f, "remove {path}/"),
            Step::Rename { from, to } => write!(f, "rename {from} {to}"),
            Step::RenameDirectory { from, to } => write!(f, "rename {from}/ {to}/"),
        }
    }
}

/// A side, which is changed in Stead and in memory alike.
pub(super) struct Side {
    /// Where it is in Stead.
    prefix: String,
    pub(super) tree: Tree,
    /// What was done.
    pub(super) steps: Vec<Step>,
    /// Where the files of the base are now: the path in the base by the present one. New files have none.
    origins: BTreeMap<String, String>,
}

impl Side {
    pub(super) fn new(base: &Tree, prefix: String) -> Self {
        let origins = base.keys().map(|path| (path.clone(), path.clone())).collect();
        Side { prefix, tree: base.clone(), steps: Vec::new(), origins }
    }

    /// Makes a change. What Stead refuses, such as a name that is taken, is not made.
    pub(super) fn apply(&mut self, stead: &Stead, step: Step) {
        if self.is_possible(stead, &step) && self.apply_to_stead(stead, &step).is_ok() {
            self.apply_to_tree(&step);
            self.steps.push(step);
        }
    }

    /// Whether a rename has a new name that it can get. Otherwise not even the parents of that name must be made.
    fn is_possible(&self, stead: &Stead, step: &Step) -> bool {
        let (Step::Rename { from, to } | Step::RenameDirectory { from, to }) = step else { return true };
        let is_taken = stead.vfs().exists(&*format!("{}/{to}", self.prefix)).unwrap_or(true);
        !is_taken && !to.starts_with(&format!("{from}/"))
    }

    fn apply_to_stead(&self, stead: &Stead, step: &Step) -> stead_core::Result<()> {
        let vfs = stead.vfs();
        let at = |path: &str| format!("{}/{path}", self.prefix);
        let removal = RemoveOptions { recursive: true, force: false, if_match: None };
        match step {
            Step::Write { path, content } => {
                vfs.write_with(&*at(path), content.clone(), &WriteOptions::new())?;
            }
            Step::SetExecutable { path, is_executable } => {
                let mode = if *is_executable { 0o755 } else { 0o644 };
                vfs.set_attributes(&*at(path), Some(mode), None)?;
            }
            Step::Remove { path } => drop(vfs.remove_file(&*at(path), removal)?),
            Step::RemoveDirectory { path } => drop(vfs.remove_directory(&*at(path), removal)?),
            Step::Rename { from, to } | Step::RenameDirectory { from, to } => {
                if let Some((parent, _)) = to.rsplit_once('/') {
                    vfs.mkdir(&*at(parent), Parents::Create)?;
                }
                vfs.rename(&*at(from), &*at(to), Overwrite::Refuse)?;
            }
        }
        Ok(())
    }

    fn apply_to_tree(&mut self, step: &Step) {
        match step {
            Step::Write { path, content } => {
                let is_executable = self.tree.get(path).is_some_and(|file| file.is_executable);
                self.tree.insert(path.clone(), File { is_executable, content: content.clone() });
            }
            Step::SetExecutable { path, is_executable } => {
                self.tree.get_mut(path).unwrap().is_executable = *is_executable;
            }
            Step::Remove { path } => self.forget(path),
            Step::RemoveDirectory { path } => {
                self.paths_in(path).iter().for_each(|path| self.forget(path));
            }
            Step::Rename { from, to } => self.relocate(from, to),
            Step::RenameDirectory { from, to } => {
                for path in self.paths_in(from) {
                    self.relocate(&path, &format!("{to}{}", &path[from.len()..]));
                }
            }
        }
    }

    fn forget(&mut self, path: &str) {
        self.tree.remove(path);
        self.origins.remove(path);
    }

    fn relocate(&mut self, from: &str, to: &str) {
        let file = self.tree.remove(from).unwrap();
        self.tree.insert(to.to_owned(), file);
        if let Some(origin) = self.origins.remove(from) {
            self.origins.insert(to.to_owned(), origin);
        }
    }

    fn paths_in(&self, directory: &str) -> Vec<String> {
        let prefix = format!("{directory}/");
        self.tree.keys().filter(|path| path.starts_with(&prefix)).cloned().collect()
    }

    /// The directories that have files in them.
    pub(super) fn directories(&self) -> Vec<String> {
        let parents =
            self.tree.keys().flat_map(|path| path.match_indices('/').map(|(end, _)| path[..end].to_owned()));
        parents.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The files that were renamed: from the path in the base to the present one.
    pub(super) fn renames(&self) -> BTreeSet<(String, String)> {
        let pairs = self.origins.iter().filter(|(path, origin)| path != origin);
        pairs.map(|(path, origin)| (origin.clone(), path.clone())).collect()
    }
}
