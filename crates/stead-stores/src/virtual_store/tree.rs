//! Resolves paths: looks names up one below the other, now or as of a revision, in one transaction.
//!
//! It never follows a symlink: a symlink on the way is an error that says where it leads.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};
use stead_core::StoreError;
use stead_core::store::{LinkHit, NodeId, NodePath};

use crate::database::Volume;
use crate::database::error::{Result, corrupt};
use crate::virtual_store::content;
use crate::virtual_store::entry_row::{EntryKind, EntryRow, WHITEOUT, entries};
use crate::virtual_store::layers::{Layer, LayerLookup};

/// The directories that are known already, and those found on the way.
pub(crate) trait DirLookup {
    /// The node of the directory at this path from the root, if it is known.
    fn node_at(&self, path: &[u8]) -> Option<i64>;
    /// Remembers the node of a directory.
    fn remember(&mut self, path: &[u8], node: i64);
}

/// A volume as one transaction sees it.
#[derive(Clone, Copy)]
pub(crate) struct VolumeTree<'c> {
    pub(crate) conn: &'c Connection,
    pub(crate) vol: i64,
    pub(crate) root: i64,
    /// The revision to read; `None` for the present.
    pub(crate) as_of: Option<i64>,
    /// The layers below the volume, the nearest first.
    pub(crate) base_layers: &'c [Layer],
    /// In a change of a fork of a host directory, the layer that is filled from the directory: a name that this layer has
    /// not taken over is an error there. For reads it is `None`.
    pub(crate) overlay: Option<i64>,
}

/// How far a directory's path exists.
pub(crate) struct ReachedDir {
    /// The last directory that exists.
    pub(crate) node: i64,
    /// How many bytes of the path lead to it; fewer than all of them if a name is missing.
    pub(crate) path_length: usize,
}

impl<'c> VolumeTree<'c> {
    pub(crate) fn new(conn: &'c Connection, volume: &'c Volume, as_of: Option<i64>) -> Self {
        let (vol, root, base_layers) = (volume.id, volume.root, &volume.base_layers);
        VolumeTree { conn, vol, root, as_of, base_layers, overlay: None }
    }

    /// Selects the query over the live entries, or the one as of a revision.
    pub(crate) fn select_sql(&self, [live, as_of]: [&'static str; 2]) -> &'static str {
        if self.as_of.is_none() { live } else { as_of }
    }

    /// The entry with this name in this directory.
    pub(crate) fn child(&self, parent: i64, name: &[u8]) -> Result<Option<EntryRow>> {
        match (self.lookup_own(parent, name)?, self.base()) {
            (LayerLookup::Found(row), _) => Ok(Some(row)),
            (LayerLookup::NotHere, Some(base)) => base.child(parent, name),
            (LayerLookup::NotHere, None) => self.check_taken_over(parent, name).map(|()| None),
            (LayerLookup::Whiteout, _) => Ok(None),
        }
    }

    /// What this layer itself says of a name.
    pub(crate) fn lookup_own(&self, parent: i64, name: &[u8]) -> Result<LayerLookup> {
        const SQL: [&str; 2] = entries!(
            "SELECT e.node, e.parent, e.kind, e.mode, e.size, e.created, e.modified, e.changed, e.content, e.since",
            "e.parent = ?3 AND e.name = ?4"
        );
        let mut statement = self.conn.prepare_cached(self.select_sql(SQL))?;
        let mut rows = statement.query(params![self.vol, self.as_of, parent, name])?;
        match rows.next()? {
            None => Ok(LayerLookup::NotHere),
            Some(row) if row.get_ref(2)? == ValueRef::Integer(WHITEOUT) => Ok(LayerLookup::Whiteout),
            Some(row) => Ok(LayerLookup::Found(self.with_times_as_of(EntryRow::from_columns(row, 0)?)?)),
        }
    }

    /// A node's row, wherever the node is.
    pub(crate) fn node(&self, node: i64) -> Result<Option<EntryRow>> {
        const SQL: [&str; 2] = entries!(
            "SELECT e.node, e.parent, e.kind, e.mode, e.size, e.created, e.modified, e.changed, e.content, e.since",
            "e.node = ?3"
        );
        if !self.base_layers.is_empty() {
            return Ok(self.node_with_name(node)?.map(|(row, _)| row));
        }
        let mut statement = self.conn.prepare_cached(self.select_sql(SQL))?;
        let mut rows = statement.query(params![self.vol, self.as_of, node])?;
        rows.next()?.map(|row| self.with_times_as_of(EntryRow::from_columns(row, 0)?)).transpose()
    }

    /// The name of a node.
    pub(crate) fn name_of(&self, node: i64) -> Result<Vec<u8>> {
        let found = self.node_with_name(node)?.ok_or(StoreError::NotFound)?;
        Ok(found.1)
    }

    /// The target of a symlink, as it was written.
    pub(crate) fn symlink_target(&self, link: &EntryRow) -> Result<Vec<u8>> {
        content::read_whole(self.conn, link.content, link.size)
    }

    /// The error for a path that leads over this symlink, which is the component number `depth` of the path.
    pub(crate) fn symlink_hit<T>(&self, link: &EntryRow, depth: usize) -> Result<T> {
        Err(LinkHit::error_at(depth, self.symlink_target(link)?).into())
    }

    /// The directory node that a path starts from.
    pub(crate) fn start_node(&self, base: NodeId) -> Result<i64> {
        let base = self.node_number(base);
        if base == self.root {
            return Ok(base);
        }
        match self.node(base)? {
            Some(row) if row.is_directory() => Ok(base),
            Some(_) => Err(StoreError::NotADirectory.into()),
            None => Err(StoreError::NotFound.into()),
        }
    }

    /// A node's number in the database.
    pub(crate) fn node_number(&self, node: NodeId) -> i64 {
        if node == NodeId::ROOT { self.root } else { node.0.cast_signed() }
    }

    /// Follows the path of a directory as far as it exists.
    pub(crate) fn follow(&self, dirs: &mut dyn DirLookup, start: i64, path: &[u8]) -> Result<ReachedDir> {
        let from_root = start == self.root;
        let mut reached = ReachedDir { node: start, path_length: 0 };
        if from_root {
            let longest = prefixes(path).find_map(|prefix| Some((dirs.node_at(prefix)?, prefix.len())));
            if let Some((node, path_length)) = longest {
                reached = ReachedDir { node, path_length };
            }
        }
        while reached.path_length < path.len() {
            let begin = if reached.path_length == 0 { 0 } else { reached.path_length + 1 };
            let end = path[begin..]
                .iter()
                .position(|&byte| byte == b'/')
                .map_or(path.len(), |length| begin + length);
            let Some(row) = self.child(reached.node, &path[begin..end])? else { break };
            match row.kind {
                EntryKind::Directory => reached = ReachedDir { node: row.node, path_length: end },
                EntryKind::File => return Err(StoreError::NotADirectory.into()),
                EntryKind::Symlink => return self.symlink_hit(&row, component_count(&path[..end])),
            }
            if from_root {
                dirs.remember(&path[..end], row.node);
            }
        }
        Ok(reached)
    }

    /// The entry at a path. If the last component is a symlink, this is the symlink itself.
    pub(crate) fn find(&self, dirs: &mut dyn DirLookup, at: &NodePath) -> Result<EntryRow> {
        let not_found = || StoreError::NotFound.into();
        let Some((directory, name)) = at.path.parent_and_name() else {
            return self.node(self.node_number(at.base))?.ok_or_else(not_found);
        };
        let start = self.start_node(at.base)?;
        let reached = self.follow(dirs, start, directory)?;
        if reached.path_length < directory.len() {
            return Err(not_found());
        }
        self.child(reached.node, name)?.ok_or_else(not_found)
    }

    /// The entry at a path. If the last component is a symlink, that is an error that says where it leads.
    pub(crate) fn find_followed(&self, dirs: &mut dyn DirLookup, at: &NodePath) -> Result<EntryRow> {
        let row = self.find(dirs, at)?;
        if row.kind == EntryKind::Symlink { self.symlink_hit(&row, at.path.depth()) } else { Ok(row) }
    }

    /// The node of the directory at a path.
    pub(crate) fn directory(&self, dirs: &mut dyn DirLookup, at: &NodePath) -> Result<i64> {
        if self.node_number(at.base) == self.root {
            let reached = self.follow(dirs, self.root, at.path.as_bytes())?;
            return if reached.path_length == at.path.as_bytes().len() {
                Ok(reached.node)
            } else {
                Err(StoreError::NotFound.into())
            };
        }
        let row = self.find_followed(dirs, at)?;
        if row.is_directory() { Ok(row.node) } else { Err(StoreError::NotADirectory.into()) }
    }

    /// Whether `node` is `top` or lies below it.
    pub(crate) fn is_at_or_below(&self, mut node: i64, top: i64) -> Result<bool> {
        while node != top {
            if node == self.root {
                return Ok(false);
            }
            node = self.node(node)?.ok_or_else(|| corrupt("a directory has no parent"))?.parent;
        }
        Ok(true)
    }
}

/// The path itself, and then every path above it but the root, from the longest to the shortest.
fn prefixes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors((!path.is_empty()).then_some(path), |path| {
        path.iter().rposition(|&byte| byte == b'/').map(|length| &path[..length])
    })
}

/// The number of components of a path, which must not be empty.
fn component_count(path: &[u8]) -> usize {
    path.iter().filter(|&&byte| byte == b'/').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_listed_from_the_longest_to_the_shortest() {
        assert_eq!(prefixes(b"a/bc/d").collect::<Vec<_>>(), [&b"a/bc/d"[..], b"a/bc", b"a"]);
        assert_eq!(prefixes(b"").count(), 0);
        assert_eq!((component_count(b"a"), component_count(b"a/b/c")), (1, 3));
    }
}
