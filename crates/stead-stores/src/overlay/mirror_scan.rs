//! Finds out what a host directory has now at the names that a fork has taken over, and which node of the fork or of its base
//! each of these files is.
//!
//! Names decide: what has a name is the node that had the name before. A node that was moved is found where the fork has it, or
//! where it was before. If the host still has the same file there (inode number and time of creation), that counts first.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;
use stead_core::store::{Attr, NodeId, NodeKind, NodePath, Page, StorePath, VersionTag};
use stead_core::{Store, StoreError, StoreResult};

use crate::database::error::{Result, corrupt};
use crate::overlay::OverlayStore;
use crate::overlay::base_layer::entry_kind;
use crate::overlay::live_node::is_id_of;
use crate::virtual_store::VirtualStore;
use crate::virtual_store::entry_row::{EntryKind, EntryRow};
use crate::virtual_store::tree::VolumeTree;

/// At which moment a mirror is brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MirrorMoment {
    /// The directory may have changed in any way.
    Any,
    /// A merge has just put the fork's files into the directory.
    AfterMerge,
}

/// A node as the mirror has it.
#[derive(Debug, Clone)]
pub(super) struct MirroredNode {
    pub(super) row: EntryRow,
    pub(super) name: Vec<u8>,
    /// What the host's file was when the mirror got this state.
    host: Option<HostFile>,
}

impl MirroredNode {
    pub(super) fn tag(&self) -> Option<VersionTag> {
        self.host.map(|host| host.tag)
    }
}

/// What identifies the state of a host's file.
#[derive(Debug, Clone, Copy)]
struct HostFile {
    tag: VersionTag,
    /// The inode number, if a mirror stored it.
    inode: Option<NodeId>,
}

/// A name of the directory that has something, and which node that is.
#[derive(Debug)]
pub(super) struct PlacedNode {
    pub(super) path: StorePath,
    pub(super) attr: Attr,
    /// The directory that it is in, if that is a node already.
    pub(super) parent: Option<i64>,
    pub(super) name: Vec<u8>,
    /// The node; `None` if it is a new one.
    pub(super) node: Option<i64>,
    /// Whether the mirror knows that the node is this file of the host.
    pub(super) is_same_file: bool,
}

/// What a host directory has at the names that a fork has taken over.
#[derive(Debug, Default)]
pub(super) struct MirrorScan {
    /// Every directory before what is in it.
    pub(super) placed: Vec<PlacedNode>,
    /// The nodes that the mirror has.
    pub(super) mirrored: HashMap<i64, MirroredNode>,
    /// Those that the directory doesn't have any more, what is in a directory before the directory.
    pub(super) gone: Vec<i64>,
}

/// A name that has something in the directory, and the nodes that it could be.
struct Place {
    placed: PlacedNode,
    /// The node that the mirror has there.
    mirrored: Option<i64>,
    /// The node that the fork has there.
    in_fork: Option<i64>,
    /// The node that the base layer has there.
    in_base: Option<i64>,
}

/// How a place gets its node, the surest way first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// The same file of the host as before.
    SameFile,
    /// What the fork has there, after a merge has put it there.
    MergedFromFork,
    /// What had the name.
    SameName,
    /// What only the fork has, under the same name.
    AddedByBoth,
    /// What had the name when the fork was made.
    FormerName,
}

impl Round {
    const ALL: [Round; 5] =
        [Round::SameFile, Round::MergedFromFork, Round::SameName, Round::AddedByBoth, Round::FormerName];
}

struct Scanner<'a> {
    store: &'a OverlayStore,
    directory: &'a dyn Store,
    moment: MirrorMoment,
    fork: VolumeTree<'a>,
    base: VolumeTree<'a>,
    scan: MirrorScan,
    /// The mirror's nodes by directory and name.
    by_name: HashMap<(i64, Vec<u8>), i64>,
    used: HashSet<i64>,
}

impl OverlayStore {
    /// Compares the directory with its mirror.
    pub(super) fn scan_directory(
        &self,
        directory: &dyn Store,
        mirror: &VirtualStore,
        moment: MirrorMoment,
    ) -> StoreResult<MirrorScan> {
        let scan = self.upper.read_transaction(|snapshot| {
            let conn = snapshot.tree.conn;
            self.layer.refresh(conn)?;
            let mirror_tree = VolumeTree::new(conn, mirror.volume(), None);
            let fork = snapshot.tree;
            let base = VolumeTree { as_of: Some(self.layer.since), ..self.layer_tree(conn) };
            let (used, by_name) = (HashSet::new(), HashMap::new());
            let scan = MirrorScan::default();
            let mut scanner = Scanner { store: self, directory, moment, fork, base, scan, by_name, used };
            scanner.load_mirror(conn, &mirror_tree)?;
            scanner.run()
        });
        Ok(scan?)
    }
}

impl Scanner<'_> {
    fn load_mirror(&mut self, conn: &Connection, mirror: &VolumeTree<'_>) -> Result<()> {
        let in_layer = load_host_files(conn, self.store.layer.volume)?;
        let in_mirror = load_host_files(conn, mirror.vol)?;
        let (mirrored, by_name) = (&mut self.scan.mirrored, &mut self.by_name);
        mirror.all_entries(b"", &mut |row, name| {
            let mut found = [&in_mirror, &in_layer].into_iter().filter_map(|files| files.get(&row.node));
            let host = found.find(|(since, _)| *since == row.since).map(|(_, host)| *host);
            by_name.insert((row.parent, name.to_vec()), row.node);
            mirrored.insert(row.node, MirroredNode { row, name: name.to_vec(), host });
            Ok(std::ops::ControlFlow::Continue(()))
        })
    }

    fn run(mut self) -> Result<MirrorScan> {
        let mut level = vec![(Some(self.base.root), StorePath::empty())];
        while !level.is_empty() {
            let mut places = Vec::new();
            for (directory, path) in std::mem::take(&mut level) {
                self.add_places(directory, &path, &mut places)?;
            }
            for round in Round::ALL {
                for place in places.iter_mut().filter(|place| place.placed.node.is_none()) {
                    if let Some(node) = self.candidate(place, round)? {
                        place.placed.node = Some(node);
                        place.placed.is_same_file = round == Round::SameFile;
                        self.used.insert(node);
                    }
                }
            }
            for Place { placed, .. } in places {
                if placed.attr.kind == NodeKind::Directory {
                    level.push((placed.node, placed.path.clone()));
                }
                self.scan.placed.push(placed);
            }
        }
        let depth = |node: i64| {
            let above = |node: &i64| self.scan.mirrored.get(node).map(|found| found.row.parent);
            std::iter::successors(Some(node), above).take(stead_core::path::MAX_DEPTH + 2).count()
        };
        let gone = self.scan.mirrored.keys().copied().filter(|node| !self.used.contains(node));
        let mut gone: Vec<(usize, i64)> = gone.map(|node| (depth(node), node)).collect();
        gone.sort_unstable_by(|one, other| other.cmp(one));
        self.scan.gone = gone.into_iter().map(|(_, node)| node).collect();
        Ok(self.scan)
    }

    /// Adds the names of a directory that the mirror follows and that have something: those that the fork has taken over. In a
    /// directory that the fork has made or taken over whole, these are all names.
    fn add_places(
        &self,
        directory: Option<i64>,
        path: &StorePath,
        places: &mut Vec<Place>,
    ) -> Result<()> {
        let taken: Option<Vec<Vec<u8>>> = directory.and_then(|directory| {
            self.store.layer.with_index(|index| {
                let taken = index.directory(directory, index.newest())?;
                (!taken.is_whole(index.newest()))
                    .then(|| taken.taken_names(index.newest()).map(<[u8]>::to_vec).collect())
            })
        });
        let at = NodePath::from_root(path.clone());
        let mut found: Vec<(Vec<u8>, Attr)> = Vec::new();
        match taken {
            Some(names) => {
                for name in names {
                    let attr = self.stat(&at.join(&name))?;
                    found.extend(attr.map(|attr| (name, attr)));
                }
            }
            None => match self.directory.list(&at, &Page::ALL) {
                Err(error) if is_missing(&error) => {}
                listing => found.extend(
                    listing?.entries.into_iter().map(|entry| (entry.name.as_bytes().to_vec(), entry.attr)),
                ),
            },
        }
        for (name, attr) in found {
            // A fork can't hold a special file. It is in the way of what the fork has there.
            let Some(kind) = entry_kind(attr.kind) else { continue };
            let same_kind = |row: Option<EntryRow>| row.filter(|row| row.kind == kind).map(|row| row.node);
            let (mut mirrored, mut in_fork, mut in_base) = (None, None, None);
            if let Some(directory) = directory {
                let known = self.by_name.get(&(directory, name.clone()));
                mirrored = known.copied().filter(|node| self.kind_of(*node) == Some(kind));
                in_fork = same_kind(self.fork.child(directory, &name)?);
                in_base = same_kind(self.base.child(directory, &name)?);
            }
            let path = path.child(&name);
            let (node, is_same_file) = (None, false);
            let placed = PlacedNode { path, attr, parent: directory, name, node, is_same_file };
            places.push(Place { placed, mirrored, in_fork, in_base });
        }
        Ok(())
    }

    fn stat(&self, at: &NodePath) -> StoreResult<Option<Attr>> {
        match self.directory.stat(at) {
            Err(error) if is_missing(&error) => Ok(None),
            attr => attr.map(Some),
        }
    }

    fn kind_of(&self, node: i64) -> Option<EntryKind> {
        self.scan.mirrored.get(&node).map(|mirrored| mirrored.row.kind)
    }

    /// The node that a place gets in a round.
    fn candidate(&self, place: &Place, round: Round) -> Result<Option<i64>> {
        let node = match round {
            Round::SameFile => {
                for node in [place.mirrored, place.in_fork, place.in_base].into_iter().flatten() {
                    if !self.used.contains(&node) && self.is_same_file(node, &place.placed.attr)? {
                        return Ok(Some(node));
                    }
                }
                None
            }
            Round::MergedFromFork => place.in_fork.filter(|_| self.moment == MirrorMoment::AfterMerge),
            Round::SameName => place.mirrored,
            Round::AddedByBoth => match place.in_fork {
                Some(node) if self.kind_of(node).is_none() && self.base.node(node)?.is_none() => Some(node),
                _ => None,
            },
            Round::FormerName => place.in_base,
        };
        Ok(node.filter(|node| !self.used.contains(node)))
    }

    /// Whether a node was this file of the host when it was last looked at.
    fn is_same_file(&self, node: i64, attr: &Attr) -> Result<bool> {
        let (created, inode) = match self.scan.mirrored.get(&node) {
            Some(mirrored) => (Some(mirrored.row.created), mirrored.host.and_then(|host| host.inode)),
            None => (self.base.node(node)?.map(|row| row.created), None),
        };
        let has_inode = inode.map_or_else(|| is_id_of(node, attr.node), |inode| inode == attr.node);
        Ok(has_inode && created == Some(attr.created.unwrap_or(attr.changed).0))
    }
}

fn is_missing(error: &StoreError) -> bool {
    matches!(error, StoreError::NotFound | StoreError::NotADirectory | StoreError::Link(_))
}

/// What is stored of the host's files behind the rows of a volume, by node: since when the row holds, and the file.
fn load_host_files(conn: &Connection, volume: i64) -> Result<HashMap<i64, (i64, HostFile)>> {
    let mut statement = conn.prepare_cached("SELECT node, since, tag FROM fingerprint WHERE volume = ?1")?;
    let mut rows = statement.query([volume])?;
    let mut files = HashMap::new();
    while let Some(row) = rows.next()? {
        let damaged = || corrupt("the version tag of a file of a host directory can't be read");
        let (node, since): (i64, i64) = (row.get(0)?, row.get(1)?);
        let stored = row.get_ref(2)?.as_blob().map_err(|_| damaged())?;
        let (tag, rest) = stored.split_first_chunk().ok_or_else(damaged)?;
        let inode = rest.first_chunk().map(|inode| NodeId(u64::from_le_bytes(*inode)));
        files.insert(node, (since, HostFile { tag: VersionTag(u128::from_le_bytes(*tag)), inode }));
    }
    Ok(files)
}

/// A host's file as the table `fingerprint` stores it for a mirror.
pub(super) fn stored_host_file(attr: &Attr) -> Vec<u8> {
    let mut stored = attr.tag.0.to_le_bytes().to_vec();
    stored.extend(attr.node.0.to_le_bytes());
    stored
}
