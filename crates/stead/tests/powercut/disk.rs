//! A model of what may be on a disk after a power cut: everything that POSIX allows, and nothing else.
//!
//! A write is on the disk once its file was synced after it; a name is once its directory was synced. Until then a
//! write may be there, be missing, or be there in part, sector by sector, and a name may be there or not: each
//! independently, in any order. A rename is there as a whole or not at all. A later change of a name isn't there
//! without the earlier changes of that name.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::trace::Call;

/// The number of an inode. A tmpfs assigns them one after the other, and so does this model.
pub(crate) type Inode = u64;

/// The root directory of the disk.
pub(crate) const TOP: Inode = 1;

/// Sizes of sectors. A disk writes a sector as a whole or not at all.
const SECTORS: [usize; 2] = [512, 4_096];

/// The kind of an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink(Vec<u8>),
}

/// A change that has to reach the disk.
#[derive(Debug)]
struct Effect {
    /// The line of the trace on which it was made.
    line: usize,
    /// The line by which it was on the disk.
    durable: Option<usize>,
    kind: EffectKind,
}

#[derive(Debug)]
enum EffectKind {
    Write {
        inode: Inode,
        offset: usize,
        bytes: Vec<u8>,
        modified: (u64, u32),
    },
    Size {
        inode: Inode,
        size: usize,
        modified: (u64, u32),
    },
    Modified {
        inode: Inode,
        modified: (u64, u32),
    },
    /// Names that change together, and what each leads to from then on.
    Names(Vec<(Inode, Vec<u8>, Option<Inode>)>),
}

/// Every change that was ever made to a disk.
#[derive(Debug)]
pub(crate) struct Disk {
    top: String,
    effects: Vec<Effect>,
    kinds: HashMap<Inode, Kind>,
    next: Inode,
    /// What a program sees: the names after every change.
    names: HashMap<(Inode, Vec<u8>), Inode>,
    contents: HashMap<Inode, Vec<u8>>,
    /// The lines on which a sync returned.
    syncs: Vec<usize>,
}

/// What may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsynced {
    Content,
    Names,
}

/// What a power cut does to a change that isn't on the disk yet.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    Kept,
    Lost,
    /// For a write: each of its sectors is kept or lost, depending on this seed.
    Torn(u64),
}

/// What is on the disk after a power cut.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Image {
    /// The entries, by their path from the root.
    pub(crate) entries: BTreeMap<String, Entry>,
}

/// What a name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) inode: Inode,
    pub(crate) kind: Kind,
    /// The content, if it is a file.
    pub(crate) content: Vec<u8>,
    /// When the content was last changed: seconds since 1970, and nanoseconds.
    pub(crate) modified: (u64, u32),
}

impl Disk {
    /// An empty disk that is mounted at this path.
    pub(crate) fn new(top: &str) -> Self {
        Disk {
            top: top.to_owned(),
            effects: Vec::new(),
            kinds: HashMap::from([(TOP, Kind::Directory)]),
            next: TOP + 1,
            names: HashMap::new(),
            contents: HashMap::new(),
            syncs: Vec::new(),
        }
    }

    /// Puts something on the disk that is there from the beginning.
    pub(crate) fn add_synced(&mut self, path: &str, entry: Entry) {
        let Entry { inode, kind, content, modified } = entry;
        let (directory, name) = self
            .directory_and_name(&format!("{}/{path}", self.top))
            .expect("the path is on the recorded disk");
        self.kinds.insert(inode, kind);
        self.next = self.next.max(inode + 1);
        self.record(0, EffectKind::Names(vec![(directory, name, Some(inode))]));
        self.record(0, EffectKind::Write { inode, offset: 0, bytes: content, modified });
        self.effects.iter_mut().for_each(|effect| effect.durable = Some(0));
    }

    /// Sets the number that the next inode gets.
    pub(crate) fn set_next_inode(&mut self, next: Inode) {
        self.next = next;
    }

    /// The lines on which a sync returned.
    pub(crate) fn syncs(&self) -> &[usize] {
        &self.syncs
    }

    /// The lines on which a change was made.
    pub(crate) fn lines(&self) -> Vec<usize> {
        self.effects.iter().map(|effect| effect.line).collect()
    }

    fn inode(&self, path: &str) -> Option<Inode> {
        let below = path.strip_prefix(&self.top)?;
        let mut inode = TOP;
        for name in below.split('/').filter(|name| !name.is_empty()) {
            inode = *self.names.get(&(inode, name.as_bytes().to_vec()))?;
        }
        (below.is_empty() || below.starts_with('/')).then_some(inode)
    }

    /// The directory and the name of a path; `None` if it isn't on this disk.
    fn directory_and_name(&self, path: &str) -> Option<(Inode, Vec<u8>)> {
        let (directory, name) = path.rsplit_once('/')?;
        Some((self.inode(directory)?, name.as_bytes().to_vec()))
    }

    /// Applies a system call to the model.
    pub(crate) fn apply_call(&mut self, call: &Call<'_>) {
        let line = call.ended;
        let second = call.second.trunc();
        let modified = (second as u64, ((call.second - second) * 1e9) as u32);
        match call.name {
            "open" | "openat" | "openat2" | "creat" => {
                let Some(path) = call.opened() else { return };
                let flags = if call.name == "open" { 1 } else { 2 };
                let creates = call.name == "creat" || call.has(flags, "O_CREAT");
                match (self.inode(&path), self.directory_and_name(&path)) {
                    (None, Some(directory_and_name)) if creates => {
                        self.create(line, directory_and_name, Kind::File)
                    }
                    (Some(inode), _) if call.name == "creat" || call.has(flags, "O_TRUNC") => {
                        self.record(line, EffectKind::Size { inode, size: 0, modified });
                    }
                    _ => {}
                }
            }
            "mkdir" | "mkdirat" => {
                let path = if call.name == "mkdir" { call.path(0) } else { call.path_at(0) };
                let Some(directory_and_name) = self.directory_and_name(&path) else { return };
                self.create(line, directory_and_name, Kind::Directory);
            }
            "symlink" | "symlinkat" => {
                let path = if call.name == "symlink" { call.path(1) } else { call.path_at(1) };
                let Some(directory_and_name) = self.directory_and_name(&path) else { return };
                self.create(line, directory_and_name, Kind::Symlink(call.bytes(0)));
            }
            "write" | "writev" => {
                let Some(inode) = self.inode_of_descriptor(call, 0) else { return };
                // Files are written from the beginning to the end here, or appended to. If they weren't, the comparison
                // of the model with the real files would fail.
                let offset = self.contents.get(&inode).map_or(0, Vec::len);
                self.write(call, inode, offset, modified);
            }
            "pwrite64" | "pwritev" | "pwritev2" => {
                let Some(inode) = self.inode_of_descriptor(call, 0) else { return };
                let offset = usize::try_from(call.number(3)).expect("files are small here");
                self.write(call, inode, offset, modified);
            }
            "copy_file_range" => {
                let (Some(from), Some(to)) =
                    (self.inode_of_descriptor(call, 0), self.inode_of_descriptor(call, 2))
                else {
                    return;
                };
                let end = self.contents.get(&to).map_or(0, Vec::len) as u64;
                let offset = call.offset(3).unwrap_or(end);
                let start = call.offset(1).unwrap_or(offset) as usize;
                let bytes = self.contents[&from][start..start + call.count()].to_vec();
                self.record(line, EffectKind::Write { inode: to, offset: offset as usize, bytes, modified });
            }
            "ftruncate" | "truncate" | "fallocate" => {
                let inode = match call.name {
                    "truncate" => self.inode(&call.path(0)),
                    _ => self.inode_of_descriptor(call, 0),
                };
                let Some(inode) = inode else { return };
                let before = self.contents.get(&inode).map_or(0, Vec::len);
                let size = match call.name {
                    "fallocate" => before.max((call.number(2) + call.number(3)) as usize),
                    _ => call.number(1) as usize,
                };
                if size != before {
                    self.record(line, EffectKind::Size { inode, size, modified });
                }
            }
            "utimensat" => {
                let path = call.descriptor(0).filter(|_| call.bytes(1).is_empty());
                let path = path.unwrap_or_else(|| call.path_at(0));
                if let (Some(inode), Some(modified)) = (self.inode(&path), call.modified()) {
                    self.record(line, EffectKind::Modified { inode, modified });
                }
            }
            "rename" | "renameat" | "renameat2" => {
                let [from, to] = match call.name {
                    "rename" => [call.path(0), call.path(1)],
                    _ => [call.path_at(0), call.path_at(2)],
                };
                let (Some(from), Some(to)) = (self.directory_and_name(&from), self.directory_and_name(&to))
                else {
                    return;
                };
                let (source, replaced) = (self.names.get(&from).copied(), self.names.get(&to).copied());
                let exchanged =
                    if call.name == "renameat2" && call.has(4, "RENAME_EXCHANGE") { replaced } else { None };
                if source == replaced {
                    return;
                }
                self.record(line, EffectKind::Names(vec![(from.0, from.1, exchanged), (to.0, to.1, source)]));
            }
            "link" | "linkat" => {
                let [from, to] = match call.name {
                    "link" => [call.path(0), call.path(1)],
                    _ => [call.path_at(0), call.path_at(2)],
                };
                let (Some(inode), Some(to)) = (self.inode(&from), self.directory_and_name(&to)) else {
                    return;
                };
                self.record(line, EffectKind::Names(vec![(to.0, to.1, Some(inode))]));
            }
            "unlink" | "unlinkat" | "rmdir" => {
                let path = if call.name == "unlinkat" { call.path_at(0) } else { call.path(0) };
                let Some(directory_and_name) = self.directory_and_name(&path) else { return };
                self.record(
                    line,
                    EffectKind::Names(vec![(directory_and_name.0, directory_and_name.1, None)]),
                );
            }
            "fsync" | "fdatasync" => {
                if let Some(inode) = self.inode_of_descriptor(call, 0) {
                    self.sync(call, |touched| touched.contains(&inode));
                }
            }
            "syncfs" => {
                if self.inode_of_descriptor(call, 0).is_some() {
                    self.sync(call, |_| true);
                }
            }
            "sync" => self.sync(call, |_| true),
            other => assert!(
                call.descriptor(0).is_none_or(|path| !path.starts_with(&self.top)),
                "the model doesn't know the call {other}"
            ),
        }
    }

    /// Records what a program has written into a mapped file, as it was seen at this line.
    pub(crate) fn write_mapped(&mut self, line: usize, path: &str, offset: usize, bytes: Vec<u8>) {
        if let Some(inode) = self.inode(path) {
            self.record(line, EffectKind::Write { inode, offset, bytes, modified: (0, 0) });
        }
    }

    fn inode_of_descriptor(&self, call: &Call<'_>, index: usize) -> Option<Inode> {
        self.inode(&call.descriptor(index)?)
    }

    fn write(&mut self, call: &Call<'_>, inode: Inode, offset: usize, modified: (u64, u32)) {
        let mut bytes = call.bytes(1);
        bytes.truncate(call.count());
        self.record(call.ended, EffectKind::Write { inode, offset, bytes, modified });
    }

    fn create(&mut self, line: usize, (directory, name): (Inode, Vec<u8>), kind: Kind) {
        let inode = self.next;
        self.next += 1;
        self.kinds.insert(inode, kind);
        self.record(line, EffectKind::Names(vec![(directory, name, Some(inode))]));
    }

    fn record(&mut self, line: usize, kind: EffectKind) {
        match &kind {
            EffectKind::Names(names) => change_names(&mut self.names, names),
            EffectKind::Write { inode, offset, bytes, .. } => {
                put(self.contents.entry(*inode).or_default(), *offset, bytes);
            }
            EffectKind::Size { inode, size, .. } => self.contents.entry(*inode).or_default().resize(*size, 0),
            EffectKind::Modified { .. } => {}
        }
        self.effects.push(Effect { line, durable: None, kind });
    }

    /// When the call has returned, every change that was made to some inodes before the call is on the disk.
    fn sync(&mut self, call: &Call<'_>, is_synced: impl Fn(&[Inode]) -> bool) {
        self.syncs.push(call.ended);
        for effect in &mut self.effects {
            let touched: Vec<Inode> = match &effect.kind {
                EffectKind::Write { inode, .. }
                | EffectKind::Size { inode, .. }
                | EffectKind::Modified { inode, .. } => {
                    vec![*inode]
                }
                EffectKind::Names(names) => names.iter().map(|(directory, ..)| *directory).collect(),
            };
            if effect.durable.is_none() && effect.line <= call.began && is_synced(&touched) {
                effect.durable = Some(call.ended);
            }
        }
    }

    /// What is on the disk if the power is cut at this line: what had reached it, and of the rest what `fate` decides.
    pub(crate) fn cut(&self, line: usize, mut fate: impl FnMut(Unsynced) -> Fate) -> Image {
        let (mut names, mut contents) = (HashMap::new(), HashMap::<Inode, Vec<u8>>::new());
        let mut times = HashMap::new();
        let (mut lost_names, mut lost, mut lost_in) = (HashSet::new(), HashSet::new(), HashSet::new());
        for effect in self.effects.iter().filter(|effect| effect.line <= line) {
            let durable = effect.durable.is_some_and(|durable| durable <= line);
            let unsynced = match effect.kind {
                EffectKind::Names(_) => Unsynced::Names,
                _ => Unsynced::Content,
            };
            let fate = if durable { Fate::Kept } else { fate(unsynced) };
            match (&effect.kind, fate) {
                (EffectKind::Names(changed), fate) => {
                    let depends_on_lost = |(directory, name, to): &(Inode, Vec<u8>, Option<Inode>)| {
                        let key = (*directory, name.clone());
                        // A directory can be removed only when it is empty, so not before its entries are gone.
                        let removes = to.is_none() && changed.len() == 1;
                        let is_not_emptied =
                            || removes && names.get(&key).is_some_and(|removed| lost_in.contains(removed));
                        lost_names.contains(&key)
                            || to.is_some_and(|to| lost.contains(&to))
                            || is_not_emptied()
                    };
                    if !durable && (matches!(fate, Fate::Lost) || changed.iter().any(depends_on_lost)) {
                        lost_names
                            .extend(changed.iter().map(|(directory, name, _)| (*directory, name.clone())));
                        lost_in.extend(changed.iter().map(|(directory, ..)| *directory));
                        lost.extend(changed.iter().filter_map(|(.., to)| *to));
                    } else {
                        change_names(&mut names, changed);
                    }
                }
                (_, Fate::Lost) => {}
                (EffectKind::Write { inode, offset, bytes, modified }, fate) => {
                    times.insert(*inode, *modified);
                    let content = contents.entry(*inode).or_default();
                    match fate {
                        Fate::Torn(seed) => tear(content, *offset, bytes, seed),
                        _ => put(content, *offset, bytes),
                    }
                }
                (EffectKind::Size { inode, size, modified }, _) => {
                    times.insert(*inode, *modified);
                    contents.entry(*inode).or_default().resize(*size, 0);
                }
                (EffectKind::Modified { inode, modified }, _) => drop(times.insert(*inode, *modified)),
            }
        }
        let mut image = Image::default();
        self.collect(TOP, "", &names, &contents, &times, &mut image);
        image
    }

    fn collect(
        &self,
        directory: Inode,
        path: &str,
        names: &HashMap<(Inode, Vec<u8>), Inode>,
        contents: &HashMap<Inode, Vec<u8>>,
        times: &HashMap<Inode, (u64, u32)>,
        image: &mut Image,
    ) {
        for ((_, name), inode) in names.iter().filter(|((parent, _), _)| *parent == directory) {
            let name = std::str::from_utf8(name).expect("names are text here");
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            let kind = self.kinds[inode].clone();
            if kind == Kind::Directory {
                self.collect(*inode, &path, names, contents, times, image);
            }
            let content = contents.get(inode).cloned().unwrap_or_default();
            let modified = times.get(inode).copied().unwrap_or_default();
            image.entries.insert(path, Entry { inode: *inode, kind, content, modified });
        }
    }
}

fn change_names(names: &mut HashMap<(Inode, Vec<u8>), Inode>, changed: &[(Inode, Vec<u8>, Option<Inode>)]) {
    for (directory, name, to) in changed {
        match to {
            Some(inode) => names.insert((*directory, name.clone()), *inode),
            None => names.remove(&(*directory, name.clone())),
        };
    }
}

fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

/// Writes some of the sectors, and not the others.
fn tear(content: &mut Vec<u8>, offset: usize, bytes: &[u8], seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let sector = SECTORS[random.usize(..SECTORS.len())];
    let mut position = 0;
    while position < bytes.len() {
        let end = bytes.len().min(position + sector - (offset + position) % sector);
        if random.bool() {
            put(content, offset + position, &bytes[position..end]);
        }
        position = end;
    }
}
