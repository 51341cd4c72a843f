//! The managed directories of a volume, and which of them a path belongs to.

use std::cmp::Reverse;

use rusqlite::{Connection, params};
use stead_core::managed::{Category, category_of};
use stead_core::store::{CompanionRecord, StorePath};

use crate::database::error::Result;
use crate::database::manifest::SUBTREE;
use crate::database::manifest::forked::ForkBase;

/// The managed directories of one volume, the innermost first.
#[derive(Debug, Default)]
pub(crate) struct ManagedRoots(Vec<ManagedRoot>);

/// One managed directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ManagedRoot {
    /// What its rows have in the column `workspace`.
    pub(super) workspace: String,
    pub(super) path: String,
    /// If sync hasn't completed the manifest of a fork yet: the manifest that rows are inherited from.
    pub(super) base: Option<ForkBase>,
}

/// How a subtree lies to a managed directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Overlap<'p> {
    /// The subtree is inside of it, at this relative path.
    Inside(&'p str),
    /// The subtree contains all of it.
    Contains,
    None,
}

/// The text that names a managed directory in the tables.
pub(super) fn workspace_name(volume: i64, root: &str) -> String {
    format!("{volume}:/{root}")
}

impl ManagedRoot {
    /// Whether a directory at this path may have files that this one tracks.
    pub(super) fn may_track_below(&self, path: &str) -> bool {
        match self.overlap(path) {
            // A directory with another name can't hold tracked files.
            Overlap::Inside(inside) => {
                let first = inside.split('/').next().unwrap_or(inside);
                first.parse::<Category>().is_ok()
            }
            Overlap::Contains => true,
            Overlap::None => false,
        }
    }

    /// How the subtree at a path lies to this directory.
    pub(super) fn overlap<'p>(&self, path: &'p str) -> Overlap<'p> {
        match relative(path, &self.path) {
            Some(inside) if !inside.is_empty() => Overlap::Inside(inside),
            Some(_) => Overlap::Contains,
            None if relative(&self.path, path).is_some() => Overlap::Contains,
            None => Overlap::None,
        }
    }
}

/// The rest of `path` below `directory`; empty if they are equal, `None` if it isn't below.
fn relative<'p>(path: &'p str, directory: &str) -> Option<&'p str> {
    if directory.is_empty() {
        return Some(path);
    }
    let rest = path.strip_prefix(directory)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

impl ManagedRoots {
    /// The managed directories of a volume.
    pub(crate) fn load(conn: &Connection, volume: i64) -> Result<Self> {
        let mut statement =
            conn.prepare_cached("SELECT workspace, path, unsynced FROM managed_workspace WHERE volume = ?1")?;
        let mut rows = statement.query([volume])?;
        let mut roots = Vec::new();
        while let Some(row) = rows.next()? {
            let (workspace, path): (_, String) = (row.get(0)?, row.get(1)?);
            let base = match row.get::<_, bool>(2)? {
                true => ForkBase::find(conn, volume, &path)?,
                false => None,
            };
            roots.push(ManagedRoot { workspace, path, base });
        }
        // Every change loads them, and most volumes have one or none: a sort in SQL would cost more than the query.
        roots.sort_unstable_by_key(|root| Reverse(root.path.len()));
        Ok(ManagedRoots(roots))
    }

    /// The managed directories of a volume, with those that the records of a change name. A new one needs sync.
    pub(crate) fn for_change(conn: &Connection, volume: i64, records: &[CompanionRecord]) -> Result<Self> {
        let roots = ManagedRoots::load(conn, volume)?;
        let mut is_new = false;
        for record in records {
            let CompanionRecord::Managed(paths) = record else { continue };
            for path in paths.iter().filter_map(StorePath::as_str) {
                if !roots.0.iter().any(|root| root.path == path) {
                    is_new |= add_root(conn, volume, path)?;
                }
            }
        }
        if is_new { ManagedRoots::load(conn, volume) } else { Ok(roots) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ManagedRoot> {
        self.0.iter()
    }

    /// Whether a directory at this path may have tracked files.
    pub(crate) fn may_track_below(&self, path: &StorePath) -> bool {
        path.as_str().is_some_and(|path| self.0.iter().any(|root| root.may_track_below(path)))
    }

    /// The paths of the directories inside the one at `outer`, relative to it.
    pub(super) fn inside<'s>(&'s self, outer: &'s str) -> impl Iterator<Item = &'s str> {
        let paths = self.0.iter().filter_map(move |root| relative(&root.path, outer));
        paths.filter(|path| !path.is_empty())
    }

    /// The directory that tracks a file at this path, the file's path in it, and its category; `None` if none does.
    pub(super) fn locate<'p>(&self, path: &'p str) -> Option<(&ManagedRoot, &'p str, Category)> {
        // The innermost directory has the row, or none has.
        let (root, relative_path) =
            self.0.iter().find_map(|root| Some((root, relative(path, &root.path)?)))?;
        Some((root, relative_path, category_of(relative_path)?))
    }
}

/// Starts to manage a directory. Returns whether it is new here.
pub(super) fn add_root(conn: &Connection, volume: i64, path: &str) -> Result<bool> {
    let added = conn
        .prepare_cached(
            "INSERT OR IGNORE INTO managed_workspace(workspace, volume, path, unsynced) VALUES (?1, ?2, ?3, 1)",
        )?
        .execute(params![workspace_name(volume, path), volume, path])?;
    if added > 0 {
        // What the directory around it had of this one isn't its own any more, and sync finds it here.
        let outer = ManagedRoots::load(conn, volume)?;
        for root in outer.iter().filter(|root| root.path != path) {
            if let Overlap::Inside(relative_path) = root.overlap(path) {
                delete_below(conn, &root.workspace, relative_path)?;
            }
        }
    }
    Ok(added > 0)
}

/// Deletes rows and their history at a path and below it.
fn delete_below(conn: &Connection, workspace: &str, relative_path: &str) -> Result<()> {
    let (low, high) = (format!("{relative_path}/"), format!("{relative_path}0"));
    for table in ["workspace_files", "workspace_file_history", "workspace_file_missing"] {
        for part in SUBTREE {
            // `?5` is there so that both parts have as many parameters.
            conn.prepare_cached(&format!("DELETE FROM {table} WHERE workspace = ?1 AND {part} AND ?5"))?
                .execute(params![workspace, relative_path, low, high, true])?;
        }
    }
    Ok(())
}

/// Removes the manifests of a volume.
pub(crate) fn remove_rows_of(conn: &Connection, volume: i64) -> Result<()> {
    for root in ManagedRoots::load(conn, volume)?.iter() {
        remove_root(conn, &root.workspace)?;
    }
    Ok(())
}

/// Removes the manifests of the directories at a path of a volume and below it.
pub(crate) fn forget_roots_below(conn: &Connection, volume: i64, path: &[u8]) -> Result<()> {
    let Ok(path) = std::str::from_utf8(path) else { return Ok(()) };
    for root in ManagedRoots::load(conn, volume)?.iter() {
        match root.overlap(path) {
            Overlap::Contains => remove_root(conn, &root.workspace)?,
            Overlap::Inside(relative_path) => delete_below(conn, &root.workspace, relative_path)?,
            Overlap::None => {}
        }
    }
    Ok(())
}

fn remove_root(conn: &Connection, workspace: &str) -> Result<()> {
    let tables = ["workspace_files", "workspace_file_history", "workspace_file_missing", "managed_workspace"];
    for table in tables {
        conn.execute(&format!("DELETE FROM {table} WHERE workspace = ?1"), [workspace])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(path: &str) -> ManagedRoot {
        ManagedRoot { workspace: path.to_owned(), path: path.to_owned(), base: None }
    }

    #[test]
    fn w25_a_sibling_directory_whose_name_begins_alike_is_not_managed() {
        let roots = ManagedRoots(vec![root("workspace")]);
        assert!(roots.locate("workspace/code/x").is_some());
        assert!(roots.locate("workspace2/code/x").is_none());
        assert_eq!(root("workspace").overlap("workspace2/code"), Overlap::None);
    }

    #[test]
    fn w28_of_nested_managed_directories_the_innermost_has_the_row() {
        let roots = ManagedRoots(vec![root("a/code/inner"), root("a"), root("")]);
        let located = |path| roots.locate(path).map(|(root, path, _)| (root.path.as_str(), path));
        assert_eq!(located("a/code/inner/data/x.csv"), Some(("a/code/inner", "data/x.csv")));
        assert_eq!(
            located("a/code/inner/x.csv"),
            None,
            "the outer one doesn't track what the inner one leaves out"
        );
        assert_eq!(located("a/code/x.py"), Some(("a", "code/x.py")));
        assert_eq!(located("code/x.py"), Some(("", "code/x.py")));
        assert_eq!(located("a/x.py"), None);
    }

    #[test]
    fn a_subtree_is_inside_a_managed_directory_or_contains_it() {
        assert_eq!(root("a/b").overlap("a/b/code"), Overlap::Inside("code"));
        assert_eq!(root("a/b").overlap("a/b"), Overlap::Contains);
        assert_eq!(root("a/b").overlap("a"), Overlap::Contains);
        assert_eq!(root("").overlap("code"), Overlap::Inside("code"));
        assert_eq!(root("a/b").overlap("a/c"), Overlap::None);
    }
}
