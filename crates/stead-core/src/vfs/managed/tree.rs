//! The directories of a managed Workspace, with how many files each has.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::error::Result;
use crate::managed::Category;
use crate::scope::Access;
use crate::search::WalkOptions;
use crate::store::{NodeKind, StoreError};
use crate::vfs::list::Unreadable;
use crate::vfs::managed::ManagedFiles;
use crate::vfs::managed::sync::{is_unreadable, unreadable_below, unreadable_path};

/// The directory of a category.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CategoryTree {
    /// The category.
    pub category: Category,
    /// How many files the directory has, whatever lies between.
    pub files: u64,
    /// How many bytes those files have.
    pub bytes: u64,
    /// The directories in it, usually those of days, sorted by name.
    pub directories: Vec<DateDirectory>,
    /// What in it could not be read, so that files may be missing from the numbers.
    pub unreadable: Vec<Unreadable>,
}

/// A directory in the directory of a category.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DateDirectory {
    /// Its name.
    pub name: String,
    /// How many files it has, whatever lies between.
    pub files: u64,
    /// How many bytes those files have.
    pub bytes: u64,
}

impl ManagedFiles {
    /// The directories of categories that exist, sorted by name. Files that the caller may not know of aren't counted, nor are those
    /// of a managed directory inside this one.
    pub fn tree(&self) -> Result<Vec<CategoryTree>> {
        self.vfs.call("managed_tree", [Ok(self.prefix.clone())], |call, _| {
            let resolved = call.authorize(&self.prefix, Access::Read)?;
            let failed = |cause| resolved.store_error(cause);
            let nested = match resolved.store().manifest().map_err(failed)? {
                Some(manifest) => manifest.nested(resolved.root()).map_err(failed)?,
                None => Vec::new(),
            };
            let is_nested = |path: &str| {
                let rest = |outer: &String| path.strip_prefix(outer.as_str());
                nested.iter().filter_map(rest).any(|rest| rest.starts_with('/'))
            };
            let mut trees = Vec::new();
            let mut categories = Category::ALL;
            categories.sort_by_key(|category| category.as_str());
            for category in categories.into_iter().filter(|category| self.is_visible(category.as_str())) {
                let at = resolved.workspace.mount().node_path(category.as_str());
                let mut tree = CategoryTree {
                    category,
                    files: 0,
                    bytes: 0,
                    directories: Vec::new(),
                    unreadable: Vec::new(),
                };
                let (mut directories, mut stopped) = (BTreeMap::<String, (u64, u64)>::new(), None);
                let walk = WalkOptions::default();
                let walked = resolved.store().walk(&at, &walk, &mut |entry| {
                    if let Err(error) = call.check_not_stopped() {
                        stopped = Some(error);
                        return ControlFlow::Break(());
                    }
                    let Some(path) = entry.path.as_str() else { return ControlFlow::Continue(()) };
                    let in_workspace = format!("{category}/{path}");
                    if !self.is_visible(&in_workspace) || is_nested(&in_workspace) {
                        return ControlFlow::Continue(());
                    }
                    let directory = match (entry.attr.kind, path.split_once('/')) {
                        (NodeKind::Directory, None) => Some((path, 0)),
                        (NodeKind::File, Some((directory, _))) => Some((directory, 1)),
                        (NodeKind::File, None) => None,
                        _ => return ControlFlow::Continue(()),
                    };
                    if entry.attr.kind == NodeKind::File {
                        tree.files += 1;
                        tree.bytes += entry.attr.size;
                    }
                    if let Some((directory, count)) = directory {
                        let size = if count == 1 { entry.attr.size } else { 0 };
                        let totals = directories.entry(directory.to_owned()).or_default();
                        *totals = (totals.0 + count, totals.1 + size);
                    }
                    ControlFlow::Continue(())
                });
                if let Some(error) = stopped {
                    return Err(error);
                }
                let mut unreadable = Vec::new();
                match walked {
                    Err(StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_)) => continue,
                    Err(cause) if is_unreadable(&cause) => unreadable.push((category.to_string(), cause)),
                    walked => walked.map_err(failed)?,
                }
                unreadable.extend(unreadable_below(category, &walk));
                unreadable.retain(|(path, _)| self.is_visible(path) && !is_nested(path));
                let described = |(path, cause): (String, _)| unreadable_path(&resolved, &path, &cause);
                tree.unreadable = unreadable.into_iter().map(described).collect();
                let directory = |(name, (files, bytes))| DateDirectory { name, files, bytes };
                tree.directories = directories.into_iter().map(directory).collect();
                trees.push(tree);
            }
            Ok(trees)
        })
    }
}
