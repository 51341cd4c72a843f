//! Finds out what a host directory has now at the names that a fork has taken over, and which node of the fork or of its base
//! each of these files is.
//!
//! The host's files are recognized by inode number and time of creation, wherever they are now. Beyond that names decide, because
//! many programs save a file by replacing it: what has a name is the node that had the name before.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use rusqlite::Connection;
use stead_core::search::WalkOptions;
use stead_core::store::{Attr, ForkSync, NodeId, NodeKind, NodePath, Page, StorePath, VersionTag};
use stead_core::{Store, StoreError, StoreResult};

use crate::database::error::{Result, corrupt};
use crate::overlay::OverlayStore;
use crate::overlay::base_layer::entry_kind;
use crate::overlay::live_node::{inode_bits_of, low_bits};
use crate::virtual_store::VirtualStore;
use crate::virtual_store::entry_row::{EntryKind, EntryRow};
use crate::virtual_store::fork_sync;
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
    /// Directories into which nodes were moved and which the fork has not taken over. Until it has, these nodes count as gone.
    pub(super) not_taken_over: Vec<StorePath>,
}

/// What identifies a file of the host as long as it exists: bits of the inode number, and the time of creation.
type FileKey = (u64, i64);

fn file_key(attr: &Attr) -> FileKey {
    (low_bits(attr.node), attr.created.unwrap_or(attr.changed).0)
}

impl MirroredNode {
    fn file_key(&self) -> Option<FileKey> {
        let inode = self.host.and_then(|host| host.inode);
        Some((
            inode.map_or_else(|| inode_bits_of(self.row.node), |inode| Some(low_bits(inode)))?,
            self.row.created,
        ))
    }
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
    /// The node that the mirror had there before an undone merge put the fork's own node there.
    before_undone: Option<i64>,
}

/// How a place gets its node, the surest way first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// The same file of the host as before, under this name or another one.
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
    /// The mirror as of the sync that counts, if a later one was undone.
    synced: Option<VolumeTree<'a>>,
    scan: MirrorScan,
    /// The mirror's nodes by directory and name.
    by_name: HashMap<i64, HashMap<Vec<u8>, i64>>,
    /// The mirror's nodes by the host's file that they were when the mirror got them.
    by_file: HashMap<FileKey, i64>,
    used: HashSet<i64>,
    /// The paths that have been placed, with their nodes.
    paths: HashMap<StorePath, Option<i64>>,
    /// See [`Scanner::known_files`].
    known_files: OnceCell<Vec<(StorePath, Attr, i64)>>,
    /// Called for each name that is looked at. Its error ends the comparison.
    progress: &'a mut dyn FnMut() -> StoreResult<()>,
}

impl OverlayStore {
    /// Compares the directory with its mirror.
    pub(super) fn scan_directory(
        &self,
        directory: &dyn Store,
        mirror: &VirtualStore,
        moment: MirrorMoment,
        progress: &mut dyn FnMut() -> StoreResult<()>,
    ) -> StoreResult<MirrorScan> {
        let scan = self.upper.read_transaction(|snapshot| {
            let conn = snapshot.tree.conn;
            self.layer.refresh(conn)?;
            let mirror_tree = VolumeTree::new(conn, mirror.volume(), None);
            let fork = snapshot.tree;
            let base = VolumeTree { as_of: Some(self.layer.since), ..self.layer_tree(conn) };
            let ForkSync { number, counting, target_revision, .. } =
                fork_sync::load(conn, self.upper.volume().id)?.sync;
            let synced = || VolumeTree::new(conn, mirror.volume(), Some(target_revision.0));
            let synced = (number != counting).then(synced);
            let (used, by_name, by_file) = (HashSet::new(), HashMap::new(), HashMap::new());
            let scan = MirrorScan::default();
            let paths = HashMap::from([(StorePath::empty(), Some(base.root))]);
            let known_files = OnceCell::new();
            let mut scanner = Scanner {
                store: self,
                directory,
                moment,
                fork,
                base,
                synced,
                scan,
                by_name,
                by_file,
                used,
                paths,
                known_files,
                progress,
            };
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
        let Scanner { scan: MirrorScan { mirrored, .. }, by_name, by_file, .. } = self;
        mirror.all_entries(b"", &mut |row, name| {
            let mut found = [&in_mirror, &in_layer].into_iter().filter_map(|files| files.get(&row.node));
            let host = found.find(|(since, _)| *since == row.since).map(|(_, host)| *host);
            by_name.entry(row.parent).or_default().insert(name.to_vec(), row.node);
            let found = MirroredNode { row, name: name.to_vec(), host };
            by_file.extend(found.file_key().map(|key| (key, row.node)));
            mirrored.insert(row.node, found);
            Ok(ControlFlow::Continue(()))
        })
    }

    fn run(mut self) -> Result<MirrorScan> {
        self.place_below(Some(self.base.root), StorePath::empty())?;
        if self.moment == MirrorMoment::Any {
            self.place_moved()?;
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

    /// Places what is in a directory, and below it, as far as the mirror follows it.
    fn place_below(&mut self, directory: Option<i64>, path: StorePath) -> Result<()> {
        let mut level = vec![(directory, path)];
        while !level.is_empty() {
            let mut places = Vec::new();
            for (directory, path) in std::mem::take(&mut level) {
                self.add_places(directory, &path, &mut places)?;
            }
            for round in Round::ALL {
                for place in places.iter_mut().filter(|place| place.placed.node.is_none()) {
                    (self.progress)()?;
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
                self.place(placed);
            }
        }
        Ok(())
    }

    fn place(&mut self, placed: PlacedNode) {
        self.paths.insert(placed.path.clone(), placed.node);
        self.scan.placed.push(placed);
    }

    /// Where the host has each file that the mirror knows, from the top down. The first call looks through the whole directory.
    fn known_files(&self) -> Result<&[(StorePath, Attr, i64)]> {
        if let Some(found) = self.known_files.get() {
            return Ok(found);
        }
        let mut found: Vec<(StorePath, Attr, i64)> = Vec::new();
        self.directory.walk(&NodePath::root(), &WalkOptions::default(), &mut |entry| {
            let kind = entry_kind(entry.attr.kind);
            if let Some(&node) = self.by_file.get(&file_key(&entry.attr))
                && kind.is_some()
                && self.kind_of(node) == kind
            {
                found.push((entry.path, entry.attr, node));
            }
            ControlFlow::Continue(())
        })?;
        found.sort_by(|(one, ..), (other, ..)| (one.depth(), one).cmp(&(other.depth(), other)));
        Ok(self.known_files.get_or_init(|| found))
    }

    /// Places the nodes that are where the mirror doesn't look for them.
    fn place_moved(&mut self) -> Result<()> {
        if self.by_file.values().all(|node| self.used.contains(node)) {
            return Ok(());
        }
        for (path, attr, node) in self.known_files()?.to_vec() {
            let is_placed = self.paths.contains_key(&path) || self.used.contains(&node);
            let Some((parent, name)) = path.parent_and_name().filter(|_| !is_placed) else { continue };
            let parent = StorePath::from_checked(parent);
            let Some(&Some(parent_node)) = self.paths.get(&parent) else {
                self.scan.not_taken_over.push(parent);
                continue;
            };
            self.used.insert(node);
            let (parent, name, is_same_file) = (Some(parent_node), name.to_vec(), true);
            self.place(PlacedNode { path: path.clone(), attr, parent, name, node: Some(node), is_same_file });
            if attr.kind == NodeKind::Directory {
                self.place_below(Some(node), path)?;
            }
        }
        Ok(())
    }

    /// Adds the names of a directory that the mirror follows and that have something: those that the fork has taken over. In a
    /// directory that the fork has made, taken over whole, or removed, these are all names: there, the fork shows nothing of the host's.
    fn add_places(&self, directory: Option<i64>, path: &StorePath, places: &mut Vec<Place>) -> Result<()> {
        let shown = match directory {
            Some(directory) if self.fork.node(directory)?.is_some() => Some(directory),
            _ => None,
        };
        let taken: Option<Vec<Vec<u8>>> = shown.and_then(|directory| {
            self.store.layer.with_index(|index| {
                let taken = index.directory(directory, index.newest())?;
                (!taken.is_whole(index.newest()))
                    .then(|| taken.taken_names(index.newest()).map(<[u8]>::to_vec).collect())
            })
        });
        // What was moved to a name that the fork has not taken over is followed as well.
        let mirrored_names = directory.and_then(|directory| self.by_name.get(&directory));
        let taken = taken.map(|names| {
            let mut names: HashSet<Vec<u8>> = names.into_iter().collect();
            names.extend(mirrored_names.into_iter().flat_map(HashMap::keys).cloned());
            names
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
            let (mut mirrored, mut in_fork, mut in_base, mut before_undone) = (None, None, None, None);
            if let Some(directory) = directory {
                let known = mirrored_names.and_then(|names| names.get(&name));
                mirrored = known.copied().filter(|node| self.kind_of(*node) == Some(kind));
                in_fork = same_kind(self.fork.child(directory, &name)?);
                in_base = same_kind(self.base.child(directory, &name)?);
                if let (Some(synced), Some(node)) = (&self.synced, mirrored)
                    && synced.node(node)?.is_none()
                {
                    let before = same_kind(synced.child(directory, &name)?);
                    before_undone = before.filter(|node| self.kind_of(*node).is_none());
                }
            }
            let path = path.child(&name);
            let (node, is_same_file) = (None, false);
            let placed = PlacedNode { path, attr, parent: directory, name, node, is_same_file };
            places.push(Place { placed, mirrored, in_fork, in_base, before_undone });
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
                self.find_moved(&place.placed.attr)?
            }
            Round::MergedFromFork => place.in_fork.filter(|_| self.moment == MirrorMoment::AfterMerge),
            Round::SameName => match self.unless_elsewhere(place.before_undone, place)? {
                // What an undone merge has brought there is gone, and the name has again what it had before.
                Some(node) if self.moment == MirrorMoment::Any && !self.used.contains(&node) => Some(node),
                _ => self.unless_elsewhere(place.mirrored, place)?,
            },
            Round::AddedByBoth => match place.in_fork {
                Some(node) if self.kind_of(node).is_none() && self.base.node(node)?.is_none() => Some(node),
                _ => None,
            },
            Round::FormerName => self.unless_elsewhere(place.in_base, place)?,
        };
        Ok(node.filter(|node| !self.used.contains(node)))
    }

    /// The node that had a name, unless it is a directory that is elsewhere now. Files are often saved by replacing them, directories
    /// are not, so only for them it is worth to look.
    fn unless_elsewhere(&self, node: Option<i64>, place: &Place) -> Result<Option<i64>> {
        let Some(node) = node.filter(|_| place.placed.attr.kind == NodeKind::Directory) else {
            return Ok(node);
        };
        let has_file = self.scan.mirrored.get(&node).is_some_and(|found| found.file_key().is_some());
        let is_elsewhere = has_file && self.known_files()?.iter().any(|(_, _, found)| *found == node);
        Ok((!is_elsewhere).then_some(node))
    }

    /// Whether a node was this file of the host when it was last looked at.
    fn is_same_file(&self, node: i64, attr: &Attr) -> Result<bool> {
        let key = match self.scan.mirrored.get(&node) {
            Some(mirrored) => mirrored.file_key(),
            None => self.base.node(node)?.and_then(|row| Some((inode_bits_of(node)?, row.created))),
        };
        Ok(key == Some(file_key(attr)))
    }

    /// The node that is this file of the host and has left its place.
    fn find_moved(&self, attr: &Attr) -> Result<Option<i64>> {
        let Some(&node) = self.by_file.get(&file_key(attr)) else { return Ok(None) };
        if self.used.contains(&node) || self.kind_of(node) != entry_kind(attr.kind) {
            return Ok(None);
        }
        // A file that has two names stays where it was.
        let former = self.stat(&NodePath::from_root(self.mirrored_path(node)))?;
        Ok((former.map(|former| former.node) != Some(attr.node)).then_some(node))
    }

    /// The path that a node has in the mirror.
    fn mirrored_path(&self, node: i64) -> StorePath {
        let above = |found: &&MirroredNode| self.scan.mirrored.get(&found.row.parent);
        let nodes = std::iter::successors(self.scan.mirrored.get(&node), |found| above(found));
        let names: Vec<&[u8]> = nodes.take(stead_core::path::MAX_DEPTH).map(|found| &*found.name).collect();
        names.into_iter().rev().fold(StorePath::empty(), |path, name| path.child(name))
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
