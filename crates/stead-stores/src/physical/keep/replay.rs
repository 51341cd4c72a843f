//! The deeds of a directory: the ledger read from the newest entry to the oldest, over what is on the disk now.
//!
//! A thing has a track, which goes through its writes and its names. Going back in time, what a track holds is known from
//! the entry after it, or from the disk; where another program changed it in between, the faces differ, and its content
//! is unknown.

use std::collections::{BTreeMap, HashMap};

use stead_core::store::{
    Deed, DeedQuery, Deeds, Kind, Line, NodeId, Now, Place, State, StoreError, StorePath, StoreResult,
    Version,
};

use super::super::PhysicalStore;
use super::super::host::{self, How, Stat};
use super::super::mask::{is_at_or_below, join, split};
use super::super::root;
use super::book::below;
use super::face::{Face, Said, What};
use super::past::Origin;
use super::{Keeping, stash_name};
use crate::virtual_store::books::{Books, PAGE, Told};

/// How often it is read again because something changed meanwhile.
const TRIES: usize = 4;
/// Nodes of what is gone are above all inode numbers.
const GONE: u64 = 1 << 63;

impl PhysicalStore {
    pub(in super::super) fn deeds_of(&self, query: &DeedQuery) -> StoreResult<Deeds> {
        let (shop, keeping) = self.keeping().ok_or(StoreError::Unsupported("this Store keeps no history"))?;
        let Some(books) = keeping.books()? else {
            return match &query.at {
                Some(place) => self.stat_at(place).map(|_| Deeds::default()),
                None => Ok(Deeds::default()),
            };
        };
        books.flush()?;
        for _ in 1..TRIES {
            let last = books.last()?;
            if !books.pending()?.is_empty() {
                // What is entered may not have happened yet. Whoever could have everything alone has waited for it.
                drop(shop.locks.alone()?);
            }
            let deeds = Replay::new(self, keeping, &books, query).deeds();
            if books.last()? == last {
                return deeds;
            }
        }
        let _alone = shop.locks.alone()?;
        Replay::new(self, keeping, &books, query).deeds()
    }
}

/// One thing through time.
#[derive(Debug, Clone)]
struct Track {
    node: NodeId,
    /// What it looked like at the time that the replay has come to.
    face: Face,
    /// What it held then.
    content: Option<Origin>,
    hash: Option<[u8; 32]>,
}

/// An entry that gave a directory a name, or took one from it: what lay below it went along.
#[derive(Debug)]
enum Passed {
    Placed(Vec<u8>),
    Removed { path: Vec<u8>, row: (i64, i64), stashed: bool },
    Moved(Vec<u8>, Vec<u8>),
    Crossed(Vec<u8>, Vec<u8>),
}

/// Where something is that no entry since has touched.
enum Found {
    /// On the disk, at this path.
    There(Vec<u8>),
    /// In what a row displaced, below it.
    Stashed((i64, i64), Vec<u8>),
    Nowhere,
}

struct Replay<'a> {
    store: &'a PhysicalStore,
    keeping: &'a Keeping,
    books: &'a Books,
    query: &'a DeedQuery,
    /// What is known of paths, at the time that the replay has come to; `None` where nothing was.
    tracks: BTreeMap<Vec<u8>, Option<Track>>,
    /// The directories that have been passed, the newest first.
    passed: Vec<Passed>,
    /// Nodes that are there now, with their paths.
    there: HashMap<NodeId, Vec<u8>>,
    /// What nodes that were gone for a while are called since they came back.
    returned: HashMap<NodeId, NodeId>,
    /// What the query asks for, by its path at this time.
    top: Top,
}

/// What a query asks for.
enum Top {
    Everything,
    At(Vec<u8>),
    /// It was not there at this time any more: the entry that took it away comes later, and what its path was then.
    Gone((i64, i64), Vec<u8>),
    /// It was not there yet.
    Before,
}

/// The lines of a version, one per node.
#[derive(Default)]
struct Lines {
    lines: Vec<Line>,
    by_node: HashMap<NodeId, usize>,
}

impl Lines {
    /// Entries of a version come newest first: the first one says what was there after it, the last one before it.
    fn add(&mut self, node: NodeId, before: Option<State>, after: Option<State>) {
        match self.by_node.get(&node) {
            Some(&index) => self.lines[index].before = before,
            None => {
                self.by_node.insert(node, self.lines.len());
                self.lines.push(Line { node, before, after });
            }
        }
    }
}

impl<'a> Replay<'a> {
    fn new(store: &'a PhysicalStore, keeping: &'a Keeping, books: &'a Books, query: &'a DeedQuery) -> Self {
        let (tracks, passed, there) = (BTreeMap::new(), Vec::new(), HashMap::new());
        let returned = HashMap::new();
        Replay { store, keeping, books, query, tracks, passed, there, returned, top: Top::Everything }
    }

    fn deeds(mut self) -> StoreResult<Deeds> {
        if let Some(place) = &self.query.at {
            self.top = self.find_top(place)?;
        }
        let mut found = Deeds::default();
        let Some(oldest) = self.books.oldest(self.query)? else { return Ok(found) };
        let mut rows = Rows::new(self.books);
        let mut next = rows.next()?;
        while let Some(told) = next {
            let version = told.version;
            if version < oldest || found.deeds.len() >= self.query.limit {
                break;
            }
            let operation = match version <= self.query.upto.0 {
                true => self.books.operation(version)?.filter(|operation| self.query.wants(operation)),
                false => None,
            };
            let mut lines = Lines::default();
            let mut row = Some(told);
            while let Some(told) = row.take_if(|told| told.version == version) {
                self.pass(&told, operation.is_some().then_some(&mut lines))?;
                row = rows.next()?;
            }
            next = row;
            let mut lines = lines.lines;
            // What came and went within the change was never there for anyone.
            lines.retain(|line| line.before.is_some() || line.after.is_some());
            if let Some(operation) = operation.filter(|_| !lines.is_empty()) {
                let (undoes, undone) = self.books.taken_back(&operation)?;
                let version = Version(version);
                found.deeds.push(Deed { version, operation, lines, undoes, undone });
            }
        }
        self.describe_now(&mut found);
        Ok(found)
    }

    /// Goes back over one entry.
    fn pass(&mut self, told: &Told, lines: Option<&mut Lines>) -> StoreResult<()> {
        let said = Said::of(told)?;
        let row = (told.version, told.row.seq);
        if let Top::Gone(at, path) = &self.top
            && *at == row
        {
            self.top = Top::At(path.clone());
        }
        let mut ignored = Lines::default();
        let lines = lines.unwrap_or(&mut ignored);
        match said.what {
            What::Placed => self.pass_placed(&said, row, lines),
            What::Removed => self.pass_removed(&said, row, told.hash, lines)?,
            What::Moved => self.pass_moved(&said, row, lines),
            What::Crossed => self.pass_crossed(&said, row, lines),
            What::Replaced | What::Patched | What::Dressed => {
                self.pass_written(&said, row, told.hash, lines);
            }
        }
        Ok(())
    }

    fn pass_placed(&mut self, said: &Said, row: (i64, i64), lines: &mut Lines) {
        let track = self.after(said, row);
        let after = self.state(&track, &said.path);
        if let Some(node) = said.detail.returns.filter(|node| *node >= GONE) {
            self.returned.insert(NodeId(node), track.node);
        }
        if self.wants(&said.path) {
            lines.add(track.node, None, Some(after));
        }
        if let Top::At(top) = &self.top
            && is_at_or_below(top, &said.path)
        {
            self.top = Top::Before;
        }
        self.take(&said.path);
        self.tracks.insert(said.path.clone(), None);
        if track.face.kind == Kind::Directory {
            self.passed.push(Passed::Placed(said.path.clone()));
        }
    }

    fn pass_removed(
        &mut self,
        said: &Said,
        row: (i64, i64),
        hash: Option<[u8; 32]>,
        lines: &mut Lines,
    ) -> StoreResult<()> {
        self.take(&said.path);
        let stash = self.keeping.stashed(row, b"").filter(|_| said.stashed);
        if said.detail.before.is_none_or(|before| before.kind == Kind::Directory) {
            let stashed = stash.is_some();
            self.passed.push(Passed::Removed { path: said.path.clone(), row, stashed });
        }
        let mut paths = vec![said.path.clone()];
        if stash.is_some_and(|stat| stat.is_dir()) {
            let name = stash_name(row.0, row.1);
            let found = below(&self.keeping.past, name.as_bytes())?;
            paths.extend(found.iter().skip(1).map(|(path, _)| join(&said.path, path)));
        }
        if let Some(before) = said.detail.before {
            let same = stash.is_some_and(|stat| stat.is_dir() || Face::of(&stat).holds_same(&before));
            let content = same.then(|| Origin::stashed(row, Vec::new(), &before));
            let track = Track { node: self.gone(row, b""), face: before, content, hash };
            self.tracks.insert(said.path.clone(), Some(track));
        }
        for path in paths {
            if self.wants(&path)
                && let Some(track) = self.track(&path)
            {
                let before = self.state(&track, &path);
                lines.add(track.node, Some(before), None);
            }
        }
        Ok(())
    }

    fn pass_moved(&mut self, said: &Said, row: (i64, i64), lines: &mut Lines) {
        let (from, to) = (said.path.clone(), said.other.clone().unwrap_or_default());
        let track = self.left(&to, said.detail.before, row);
        let after = self.state(&track, &to);
        let mut wanted = self.wants(&to);
        let below_to = self.take(&to);
        self.take(&from);
        self.put(&from, below_to);
        if let Top::At(top) = &mut self.top
            && is_at_or_below(top, &to)
        {
            *top = [&from, &top[to.len()..]].concat();
        }
        self.tracks.insert(to.clone(), None);
        if track.face.kind == Kind::Directory {
            self.passed.push(Passed::Moved(from.clone(), to));
        }
        wanted |= self.wants(&from);
        if wanted {
            let before = self.state(&track, &from);
            lines.add(track.node, Some(before), Some(after));
        }
    }

    fn pass_crossed(&mut self, said: &Said, row: (i64, i64), lines: &mut Lines) {
        let (from, to) = (said.path.clone(), said.other.clone().unwrap_or_default());
        // What was at `from` is at `to` after it, and the other way round.
        let one = self.left(&to, said.detail.before, row);
        let other = self.left(&from, said.detail.after, (row.0, !row.1));
        let after = [self.state(&one, &to), self.state(&other, &from)];
        let mut wanted = [self.wants(&to), self.wants(&from)];
        let (below_to, below_from) = (self.take(&to), self.take(&from));
        self.put(&from, below_to);
        self.put(&to, below_from);
        if let Top::At(top) = &mut self.top {
            if is_at_or_below(top, &to) {
                *top = [&from, &top[to.len()..]].concat();
            } else if is_at_or_below(top, &from) {
                *top = [&to, &top[from.len()..]].concat();
            }
        }
        if one.face.kind == Kind::Directory || other.face.kind == Kind::Directory {
            self.passed.push(Passed::Crossed(from.clone(), to.clone()));
        }
        wanted[0] |= self.wants(&from);
        wanted[1] |= self.wants(&to);
        for ((track, path), (after, wanted)) in
            [(one, from), (other, to)].into_iter().zip(after.into_iter().zip(wanted))
        {
            if wanted {
                let before = self.state(&track, &path);
                lines.add(track.node, Some(before), Some(after));
            }
        }
    }

    fn pass_written(&mut self, said: &Said, row: (i64, i64), hash: Option<[u8; 32]>, lines: &mut Lines) {
        let mut track = self.after(said, row);
        let after = self.state(&track, &said.path);
        let Some(before) = said.detail.before else { return };
        let another = before.kind != track.face.kind;
        if another {
            // A file that gave way to a symlink, or the other way round: two things.
            if self.wants(&said.path) {
                lines.add(track.node, None, Some(after.clone()));
            }
            track.node = self.gone(row, b"");
        }
        match (said.what, &said.detail.patch) {
            (What::Replaced, _) => {
                let stash = self.keeping.stashed(row, b"").filter(|_| said.stashed);
                let same = stash.is_some_and(|stat| Face::of(&stat).holds_same(&before));
                track.content = same.then(|| Origin::stashed(row, Vec::new(), &before));
                track.hash = hash;
            }
            (What::Patched, Some(replaced)) => {
                let known =
                    replaced.pieces.is_empty() || (said.stashed && self.keeping.stashed(row, b"").is_some());
                track.content = track.content.filter(|_| known).map(|content| content.before(row, replaced));
                track.hash = None;
            }
            _ => {}
        }
        track.face = before;
        self.tracks.insert(said.path.clone(), Some(track.clone()));
        if self.wants(&said.path) {
            let before = self.state(&track, &said.path);
            lines.add(track.node, Some(before), (!another).then_some(after));
        }
    }

    /// The track of what an entry put at its own path.
    fn after(&mut self, said: &Said, row: (i64, i64)) -> Track {
        self.left(&said.path, said.detail.after, row)
    }

    /// The track of what an entry left at a path, where it had this face.
    fn left(&mut self, at: &[u8], face: Option<Face>, row: (i64, i64)) -> Track {
        let track = match (self.track(at), face) {
            (Some(track), Some(face)) if track.face.holds_same(&face) || face.kind == Kind::Directory => {
                Track { face, ..track }
            }
            // Another program has been there since.
            (Some(track), Some(face)) => Track { node: track.node, face, content: None, hash: None },
            (Some(track), None) => track,
            (None, face) => {
                Track { node: self.gone(row, at), face: face.unwrap_or(NOTHING), content: None, hash: None }
            }
        };
        self.tracks.insert(at.to_vec(), Some(track.clone()));
        track
    }

    /// What is at a path at this time, if anything is known to be.
    fn track(&mut self, path: &[u8]) -> Option<Track> {
        if let Some(known) = self.tracks.get(path) {
            return known.clone();
        }
        let track = match self.trace(path) {
            Found::There(now) => {
                let face = Face::of(&self.stat(&now)?);
                let node = self.node_there(face.ino, &now);
                Track { node, face, content: Some(Origin::there(now, face)), hash: None }
            }
            Found::Stashed(row, below) => {
                let face = Face::of(&self.keeping.stashed(row, &below)?);
                let node = self.gone(row, &below);
                Track { node, face, content: Some(Origin::stashed(row, below, &face)), hash: None }
            }
            Found::Nowhere => return None,
        };
        self.tracks.insert(path.to_vec(), Some(track.clone()));
        Some(track)
    }

    /// Follows a path of this time to where it is now.
    fn trace(&self, path: &[u8]) -> Found {
        let mut path = path.to_vec();
        let moved = |path: &[u8], from: &[u8], to: &[u8]| [to, &path[from.len()..]].concat();
        for passed in self.passed.iter().rev() {
            match passed {
                Passed::Placed(at) if is_at_or_below(&path, at) => return Found::Nowhere,
                Passed::Removed { path: at, row, stashed } if is_at_or_below(&path, at) => {
                    let rest = &path[at.len()..];
                    let below = rest.strip_prefix(b"/").unwrap_or(rest).to_vec();
                    return if *stashed { Found::Stashed(*row, below) } else { Found::Nowhere };
                }
                Passed::Moved(from, to) if is_at_or_below(&path, from) => path = moved(&path, from, to),
                Passed::Crossed(from, to) if is_at_or_below(&path, from) => path = moved(&path, from, to),
                Passed::Crossed(from, to) if is_at_or_below(&path, to) => path = moved(&path, to, from),
                _ => {}
            }
        }
        Found::There(path)
    }

    /// What is on the disk now.
    fn stat(&self, path: &[u8]) -> Option<Stat> {
        if self.store.mask.hides(path) {
            return None;
        }
        let (parent, name) = split(path);
        root::enter(&self.store.root.dir, parent, How::Base).ok()?.stat_at(name).ok()
    }

    /// The node of something that is there: its inode, unless something else with that inode was named before.
    fn node_there(&mut self, ino: u64, path: &[u8]) -> NodeId {
        let node = NodeId(ino);
        let known = self.there.entry(node).or_insert_with(|| path.to_vec());
        if **known == *path {
            return node;
        }
        let node = gone((i64::MAX, 0), path);
        self.there.insert(node, path.to_vec());
        node
    }

    /// The node of something that went with an entry.
    fn gone(&self, row: (i64, i64), below: &[u8]) -> NodeId {
        let node = gone(row, below);
        self.returned.get(&node).copied().unwrap_or(node)
    }

    /// Takes all that is known at a path and below it.
    fn take(&mut self, path: &[u8]) -> Vec<(Vec<u8>, Option<Track>)> {
        // What lies below begins with `path/`, and `0` is what follows `/`.
        let below = [path, b"/"].concat()..[path, b"0"].concat();
        let keys = self.tracks.range(below).map(|(key, _)| key.clone());
        let keys: Vec<_> = keys.chain([path.to_vec()]).collect();
        let taken = keys.into_iter().filter_map(|key| self.tracks.remove_entry(&key));
        taken.map(|(key, track)| (key[path.len()..].to_vec(), track)).collect()
    }

    fn put(&mut self, path: &[u8], taken: Vec<(Vec<u8>, Option<Track>)>) {
        self.tracks.extend(taken.into_iter().map(|(rest, track)| ([path, &rest].concat(), track)));
    }

    /// The node of a directory at this time.
    fn directory(&mut self, path: &[u8]) -> NodeId {
        if path.is_empty() {
            return NodeId::ROOT;
        }
        self.track(path).map_or_else(|| gone((i64::MAX, 1), path), |track| track.node)
    }

    fn state(&mut self, track: &Track, path: &[u8]) -> State {
        let (parent, name) = split(path);
        let parent = self.directory(parent);
        debug_assert!(!name.is_empty(), "the root has no state");
        self.state_in(track, parent, path)
    }

    fn state_in(&self, track: &Track, parent: NodeId, path: &[u8]) -> State {
        let Track { face, content, hash, .. } = track;
        let content = match face.kind {
            Kind::File | Kind::Symlink => {
                content.as_ref().and_then(|content| content.past(self.store, *hash, face.size))
            }
            Kind::Directory | Kind::Special(_) => None,
        };
        State {
            parent,
            name: split(path).1.to_vec(),
            path: StorePath::from_checked(path),
            kind: face.kind,
            mode: face.mode,
            modified: face.modified,
            size: face.size,
            content,
        }
    }

    /// Whether the query asks for what is at a path at this time.
    fn wants(&self, path: &[u8]) -> bool {
        match &self.top {
            Top::Everything => true,
            Top::At(top) => is_at_or_below(path, top),
            Top::Gone(..) | Top::Before => false,
        }
    }

    /// What lies at a place, or lay there last.
    fn find_top(&self, place: &Place) -> StoreResult<Top> {
        let mut path = place.path.as_bytes().to_vec();
        if place.from != NodeId::ROOT {
            let from = self.store.nodes.path(place.from.0).ok_or(StoreError::NotFound)?;
            path = join(&from, &path);
        }
        if path.is_empty() {
            return Ok(Top::Everything);
        }
        if self.stat(&path).is_some() {
            return Ok(Top::At(path));
        }
        let mut rows = Rows::new(self.books);
        let mut newer: Vec<(Said, (i64, i64))> = Vec::new();
        while let Some(told) = rows.next()? {
            let (said, row) = (Said::of(&told)?, (told.version, told.row.seq));
            let ends = match said.what {
                What::Removed | What::Moved => is_at_or_below(&path, &said.path),
                What::Crossed => {
                    is_at_or_below(&path, &said.path)
                        || said.other.as_ref().is_some_and(|other| is_at_or_below(&path, other))
                }
                What::Placed | What::Replaced | What::Patched | What::Dressed => false,
            };
            newer.push((said, row));
            if ends {
                return Ok(follow(path, newer));
            }
        }
        Err(StoreError::NotFound)
    }

    /// Says what has become of everything that the deeds name.
    fn describe_now(&self, found: &mut Deeds) {
        let mut named: Vec<NodeId> = Vec::new();
        for line in found.deeds.iter().flat_map(|deed| &deed.lines) {
            named.push(line.node);
            named.extend([&line.before, &line.after].into_iter().flatten().map(|state| state.parent));
        }
        for node in named {
            if found.now.contains_key(&node) {
                continue;
            }
            if node == NodeId::ROOT {
                if let Ok(stat) = host::stat(&self.store.root.dir) {
                    let now = Now { path: StorePath::here(), state: None, tag: stat.tag() };
                    found.now.insert(node, now);
                }
                continue;
            }
            let Some(path) = self.there.get(&node) else { continue };
            let Some(stat) = self.stat(path) else { continue };
            let face = Face::of(&stat);
            let parent = match split(path).0 {
                b"" => NodeId::ROOT,
                parent => self.stat(parent).map_or(NodeId::ROOT, |stat| NodeId(stat.ino)),
            };
            let content = Some(Origin::there(path.clone(), face));
            let state = self.state_in(&Track { node, face, content, hash: None }, parent, path);
            let path = StorePath::from_checked(path.clone());
            found.now.insert(node, Now { path, state: Some(state), tag: stat.tag() });
        }
    }
}

/// Where something is now that was at `path` before the last of these entries, which come newest first.
fn follow(mut path: Vec<u8>, entries: Vec<(Said, (i64, i64))>) -> Top {
    for (said, row) in entries.iter().rev() {
        let other = said.other.as_deref().unwrap_or_default();
        match said.what {
            What::Removed if is_at_or_below(&path, &said.path) => return Top::Gone(*row, path),
            What::Moved | What::Crossed if is_at_or_below(&path, &said.path) => {
                path = [other, &path[said.path.len()..]].concat();
            }
            What::Crossed if is_at_or_below(&path, other) => {
                path = [&said.path, &path[other.len()..]].concat();
            }
            _ => {}
        }
    }
    Top::At(path)
}

/// The rows of a ledger, newest first.
struct Rows<'a> {
    books: &'a Books,
    before: (i64, i64),
    page: std::vec::IntoIter<Told>,
}

impl<'a> Rows<'a> {
    fn new(books: &'a Books) -> Self {
        Rows { books, before: (i64::MAX, i64::MAX), page: Vec::new().into_iter() }
    }

    fn next(&mut self) -> StoreResult<Option<Told>> {
        if self.page.len() == 0 {
            self.page = self.books.rows(self.before, PAGE)?.into_iter();
        }
        let told = self.page.next();
        if let Some(told) = &told {
            self.before = (told.version, told.row.seq);
        }
        Ok(told)
    }
}

/// The node of something that is not there any more: always the same one for the same thing.
fn gone((version, seq): (i64, i64), below: &[u8]) -> NodeId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&version.to_le_bytes()).update(&seq.to_le_bytes()).update(below);
    let bytes = hasher.finalize();
    NodeId(GONE | u64::from_le_bytes(*bytes.as_bytes().first_chunk().expect("a hash has 32 bytes")))
}

/// What is said of something that nothing is known of.
const NOTHING: Face = Face { kind: Kind::File, ino: 0, size: 0, mode: 0, modified: stead_core::Timestamp(0) };
