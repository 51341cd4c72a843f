//! Which names a base layer has taken over, in memory. Names are only added, so the index is brought up to date with the rows after
//! the last one that it has. A directory that was moved in the host directory gets its new path when the fork takes the move in.
//!
//! A caller reads in a transaction, which may be older than the index. So every entry has its number in the table `taken_name`, and a
//! caller passes the newest number that its transaction sees.

use std::collections::HashMap;

use rusqlite::Connection;
use stead_core::store::{StorePath, VersionTag};

use crate::database::error::{Result, corrupt};
use crate::database::schema::DIR_EPOCH;
use crate::virtual_store::entry_row::EntryKind;

/// The newest number of a transaction.
pub(super) type Seq = i64;

#[derive(Debug)]
pub(super) struct TakenIndex {
    newest: Seq,
    /// The directory epoch at which the paths were found.
    epoch: i64,
    directories: HashMap<i64, TakenDirectory>,
    /// The directories by path.
    by_path: HashMap<StorePath, i64>,
    /// The host's version tag of every node of the layer.
    host_tags: HashMap<i64, VersionTag>,
}

/// A directory of the base layer.
#[derive(Debug)]
pub(super) struct TakenDirectory {
    /// Its path in the host directory.
    pub(super) path: StorePath,
    since: Seq,
    /// Since when every name is taken over.
    whole_since: Option<Seq>,
    names: HashMap<Box<[u8]>, TakenName>,
}

#[derive(Debug, Clone, Copy)]
struct TakenName {
    since: Seq,
}

/// A path of the host directory as far as the layer has taken it over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TakenPart {
    /// The last directory on the path that was taken over, and its path.
    pub(super) directory: i64,
    pub(super) path: StorePath,
    /// The names after it; none of them was taken over.
    pub(super) rest: Vec<Vec<u8>>,
}

impl TakenDirectory {
    pub(super) fn is_whole(&self, seq: Seq) -> bool {
        self.whole_since.is_some_and(|since| since <= seq)
    }

    /// Whether the layer decides about a name.
    pub(super) fn is_taken(&self, name: &[u8], seq: Seq) -> bool {
        self.is_whole(seq) || self.names.get(name).is_some_and(|taken| taken.since <= seq)
    }

    /// The names that were taken over one by one.
    pub(super) fn taken_names(&self, seq: Seq) -> impl Iterator<Item = &[u8]> {
        self.names.iter().filter(move |(_, taken)| taken.since <= seq).map(|(name, _)| &**name)
    }
}

impl TakenIndex {
    /// The index of a layer that has taken over nothing but its root.
    pub(super) fn new(root: i64) -> Self {
        let directories = HashMap::from([(root, TakenDirectory::at(StorePath::empty(), 0))]);
        let by_path = HashMap::from([(StorePath::empty(), root)]);
        TakenIndex { newest: 0, epoch: -1, directories, by_path, host_tags: HashMap::new() }
    }

    /// The newest number that a transaction sees.
    pub(super) fn newest_in(conn: &Connection, layer: i64) -> Result<Seq> {
        let mut statement =
            conn.prepare_cached("SELECT ifnull(max(seq), 0) FROM taken_name WHERE volume = ?1")?;
        Ok(statement.query_row([layer], |row| row.get(0))?)
    }

    pub(super) fn newest(&self) -> Seq {
        self.newest
    }

    pub(super) fn epoch(&self) -> i64 {
        self.epoch
    }

    /// The directory epoch of a transaction: it grows with every change that moves or removes a directory.
    pub(super) fn epoch_in(conn: &Connection) -> Result<i64> {
        let mut statement = conn.prepare_cached("SELECT value FROM meta WHERE id = ?1")?;
        Ok(statement.query_row([DIR_EPOCH], |row| row.get(0))?)
    }

    /// Sets the paths of the directories to those that hold at this epoch. A directory without one keeps its path.
    pub(super) fn update_paths(
        &mut self,
        epoch: i64,
        path_of: impl Fn(i64) -> Result<Option<StorePath>>,
    ) -> Result<()> {
        for (&node, directory) in &mut self.directories {
            if let Some(path) = path_of(node)? {
                directory.path = path;
            }
        }
        self.by_path = self.directories.iter().map(|(node, found)| (found.path.clone(), *node)).collect();
        self.epoch = epoch;
        Ok(())
    }

    /// Notes that the paths hold at this epoch.
    pub(super) fn keep_paths(&mut self, epoch: i64) {
        self.epoch = epoch;
    }

    /// Adds the rows that a transaction sees and the index doesn't have yet.
    pub(super) fn update(&mut self, conn: &Connection, layer: i64) -> Result<()> {
        let mut statement = conn.prepare_cached(
            "SELECT t.seq, t.parent, t.name, t.node, e.kind, f.tag FROM taken_name t
             LEFT JOIN entry e ON e.volume = t.volume AND e.node = t.node
             LEFT JOIN fingerprint f ON f.volume = t.volume AND f.node = t.node
             WHERE t.volume = ?1 AND t.seq > ?2 ORDER BY t.seq",
        )?;
        let mut rows = statement.query([layer, self.newest])?;
        while let Some(row) = rows.next()? {
            let (seq, parent, name): (Seq, i64, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let node: Option<i64> = row.get(3)?;
            let is_directory = row.get::<_, Option<i64>>(4)? == Some(EntryKind::Directory as i64);
            let tag: Option<[u8; 16]> = row.get(5)?;
            self.insert(seq, parent, name, node.filter(|_| is_directory))?;
            if let (Some(node), Some(tag)) = (node, tag) {
                self.host_tags.insert(node, VersionTag(u128::from_le_bytes(tag)));
            }
            self.newest = seq;
        }
        Ok(())
    }

    fn insert(&mut self, seq: Seq, parent: i64, name: Vec<u8>, directory: Option<i64>) -> Result<()> {
        let missing = || corrupt("a name was taken over from a host directory without its directory");
        let taken = self.directories.get_mut(&parent).ok_or_else(missing)?;
        if name.is_empty() {
            taken.whole_since = Some(seq);
            return Ok(());
        }
        let path = taken.path.child(&name);
        taken.names.insert(name.into(), TakenName { since: seq });
        if let Some(node) = directory {
            self.by_path.insert(path.clone(), node);
            self.directories.insert(node, TakenDirectory::at(path, seq));
        }
        Ok(())
    }

    /// A directory of the layer that a transaction sees.
    pub(super) fn directory(&self, node: i64, seq: Seq) -> Option<&TakenDirectory> {
        self.directories.get(&node).filter(|directory| directory.since <= seq)
    }

    /// Whether the layer has a node.
    pub(super) fn has_node(&self, node: i64) -> bool {
        self.host_tags.contains_key(&node)
    }

    pub(super) fn host_tag(&self, node: i64) -> Option<VersionTag> {
        self.host_tags.get(&node).copied()
    }

    /// How far the layer has taken over a path of the host directory.
    pub(super) fn taken_part(&self, root: i64, path: &StorePath) -> TakenPart {
        let (mut directory, mut taken_path) = (root, StorePath::empty());
        let mut names = path.components().peekable();
        while let Some(name) = names.peek() {
            let longer = taken_path.child(name);
            let Some(&node) = self.by_path.get(&longer) else { break };
            (directory, taken_path) = (node, longer);
            names.next();
        }
        TakenPart { directory, path: taken_path, rest: names.map(<[u8]>::to_vec).collect() }
    }
}

impl TakenDirectory {
    fn at(path: StorePath, since: Seq) -> Self {
        TakenDirectory { path, since, whole_since: None, names: HashMap::new() }
    }
}
