//! What a change tells the ledger: each action before it happens, and how it ended.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;
use std::sync::Arc;

use stead_core::store::{Change, Keep, Kind, NodeId, QuotaRoot, Record, StoreError, StoreResult, Usage};
use stead_core::{AuditOutcome, Operation};

use super::super::PhysicalStore;
use super::super::act::Act;
use super::super::host::{self, Errno, How, Stat, refused};
use super::super::mask::{join, split};
use super::super::root::{self, Dir};
use super::super::tree;
use super::super::undo::Undo;
use super::super::workshop::Workshop;
use super::count::{Leaf, deltas, judge_files};
use super::face::{Detail, Face, Replaced, Said, What};
use super::prune::footprint;
use super::{Keeping, stash_name};
use crate::virtual_store::books::{Books, Delta, Entry, Intent, Row, Withdrawal};

/// The part of a change that concerns the ledger.
pub(in super::super) struct Book {
    pub(super) books: Arc<Books>,
    operation: Operation,
    pub(super) quotas: Vec<QuotaRoot>,
    records: Vec<Record>,
    /// Whether the records have been written.
    recorded: bool,
    /// Whether what the present step displaces is kept.
    keep: Keep,
    /// What comes back, by step, and with the present one.
    returning: BTreeMap<usize, NodeId>,
    returns: Option<NodeId>,
    version: Option<i64>,
    next: i64,
    /// What the entry will say, as far as it is not written yet.
    unwritten: Unwritten,
    /// What has been counted for what is written.
    counted: Vec<Delta>,
    /// The displaced things, by their names in the room, with their rows and whether they are kept.
    stashes: HashMap<String, (i64, bool)>,
    /// Counters that begin with this change.
    pub(super) begun: Vec<(Vec<u8>, Usage)>,
    /// The paths that something is counted below.
    pub(super) roots: Option<Vec<Vec<u8>>>,
}

#[derive(Default)]
struct Unwritten {
    rows: Vec<Row>,
    intents: Vec<Intent>,
    leaves: Vec<Leaf>,
}

/// How far the unwritten part had come.
#[derive(Clone, Copy)]
pub(in super::super) struct Mark(usize, usize, usize);

impl Book {
    /// Opens the book of a change, if the Store has a ledger.
    pub(in super::super) fn open(shop: &Workshop, change: &Change) -> StoreResult<Option<Self>> {
        let Some(keeping) = &shop.keeping else { return Ok(None) };
        Ok(Some(Book {
            books: keeping.begun()?,
            operation: change.operation.clone(),
            quotas: change.quotas.clone(),
            records: change.records.clone(),
            recorded: false,
            keep: Keep::History,
            returning: change.returning.clone(),
            returns: None,
            version: None,
            next: 0,
            unwritten: Unwritten::default(),
            counted: Vec::new(),
            stashes: HashMap::new(),
            begun: Vec::new(),
            roots: None,
        }))
    }

    /// Adds to what is counted.
    pub(super) fn count(&mut self, leaves: Vec<Leaf>) {
        self.unwritten.leaves.extend(leaves);
    }

    /// Begins a step, and says whether what it displaces is kept.
    pub(in super::super) fn begin_step(&mut self, index: usize, keep: Keep) {
        self.keep = keep;
        self.returns = self.returning.get(&index).copied();
    }

    fn keeps(&self, keeping: &Keeping, size: u64) -> bool {
        self.keep == Keep::History && size <= keeping.options.file_bytes
    }

    /// Writes what is not written yet.
    fn write(&mut self, shop: &Workshop) -> StoreResult<()> {
        let Unwritten { rows, intents, leaves } = &mut self.unwritten;
        let records = if self.recorded { Vec::new() } else { self.records.clone() };
        if rows.is_empty() && records.is_empty() && self.begun.is_empty() {
            return Ok(());
        }
        judge_files(&self.quotas, leaves)?;
        let roots = self.roots.as_deref().unwrap_or_default();
        let counted = deltas(roots, leaves);
        shop.life.pass("entry")?;
        let entry = Entry {
            operation: self.operation.clone(),
            version: self.version,
            room: shop.name().to_owned(),
            rows: std::mem::take(rows),
            intents: std::mem::take(intents),
            begun: std::mem::take(&mut self.begun),
            deltas: counted.clone(),
            quotas: self.quotas.clone(),
            records,
        };
        leaves.clear();
        self.version = self.books.enter(entry)?;
        self.recorded = true;
        self.counted.extend(counted);
        Ok(())
    }

    /// Takes back what was written. Should the change try again, that is another version: others may have come between.
    fn withdraw(&mut self, reason: &StoreError) -> StoreResult<()> {
        let Some(version) = self.version.take() else { return Ok(()) };
        let records = if self.recorded { self.records.clone() } else { Vec::new() };
        self.recorded = false;
        self.roots = None;
        let outcome = AuditOutcome::of(reason.kind());
        let deltas = std::mem::take(&mut self.counted);
        let operation = self.operation.id;
        self.books.withdraw(Withdrawal { version, operation, deltas, records, outcome })
    }
}

impl Act<'_> {
    /// Has the ledger know of an action before it happens.
    pub(in super::super) fn enter(&mut self, how: &Undo) -> StoreResult<Option<Mark>> {
        let (Some(mut book), Some(keeping)) = (self.book.take(), &self.shop.keeping) else {
            return Ok(None);
        };
        let mark = Mark(book.unwritten.rows.len(), book.unwritten.intents.len(), book.unwritten.leaves.len());
        let entered = self.describe(&mut book, keeping, how).and_then(|()| {
            // Of several actions the journal is the intent; the ledger is told before the journal's last word.
            if self.is_several() { Ok(()) } else { book.write(self.shop) }
        });
        self.book = Some(book);
        entered.map(|()| Some(mark))
    }

    /// Takes an entry back whose action did not happen, for this reason; the change may go on.
    pub(in super::super) fn left(&mut self, mark: Option<Mark>, reason: &StoreError) -> StoreResult<()> {
        let several = self.is_several();
        match (&mut self.book, mark) {
            (Some(book), Some(Mark(rows, intents, leaves))) if several => {
                book.unwritten.rows.truncate(rows);
                book.unwritten.intents.truncate(intents);
                book.unwritten.leaves.truncate(leaves);
                Ok(())
            }
            (Some(book), Some(_)) => book.withdraw(reason),
            _ => Ok(()),
        }
    }

    /// Writes what is left to write, before the change is done.
    pub(in super::super) fn close_book(&mut self) -> StoreResult<()> {
        self.book.as_mut().map_or(Ok(()), |book| book.write(self.shop))
    }

    /// Takes back what the ledger was told of a change that failed.
    pub(in super::super) fn withdraw(&mut self, reason: &StoreError) -> StoreResult<()> {
        self.book.as_mut().map_or(Ok(()), |book| book.withdraw(reason))
    }

    /// Keeps what the change has displaced, or throws it away, and says which version it made.
    pub(in super::super) fn settle(&mut self, trash: Vec<String>) -> Option<i64> {
        let book = self.book.as_mut().zip(self.shop.keeping.as_ref()).and_then(|(book, keeping)| {
            let version = book.version?;
            Some((book, keeping, version))
        });
        let Some((book, keeping, version)) = book else {
            trash.iter().for_each(|stash| self.shop.discard(stash));
            return None;
        };
        let (mut kept, mut lost) = (0, Vec::new());
        for stash in trash {
            match book.stashes.remove(&stash) {
                Some((seq, true)) => match keeping.keep(self.shop, &stash, (version, seq), &book.books) {
                    Ok(bytes) => kept += bytes,
                    Err(_) => {
                        self.shop.discard(&stash);
                        lost.push((version, seq));
                    }
                },
                _ => self.shop.discard(&stash),
            }
        }
        // Where the host can't exchange names, what was there is gone.
        lost.extend(book.stashes.values().filter(|(_, kept)| *kept).map(|(seq, _)| (version, *seq)));
        if !lost.is_empty() {
            let _ = book.books.dropped(lost);
        }
        book.books.made(version);
        keeping.prune_if_much(kept, &book.books);
        Some(version)
    }

    /// What the ledger says of an action.
    fn describe(&self, book: &mut Book, keeping: &Keeping, how: &Undo) -> StoreResult<()> {
        let said = self.said(book, keeping, how)?;
        self.count_action(book, &said)?;
        let journal = self.journal_epoch();
        let undo = serde_json::to_string(how).expect("actions hold numbers, text and bytes");
        book.unwritten.intents.push(Intent { seq: book.next, journal, undo });
        if let Some(stash) = how.displaces() {
            book.stashes.insert(stash.to_owned(), (book.next, said[0].stashed));
        }
        for said in said {
            book.unwritten.rows.push(said.row(book.next));
            book.next += 1;
        }
        Ok(())
    }

    /// The rows of an action. The first one is of what it displaces, if it displaces something.
    fn said(&self, book: &Book, keeping: &Keeping, how: &Undo) -> StoreResult<Vec<Said>> {
        let room = self.shop.room();
        let said = |what, path: &[u8], before: Option<Face>, after: Option<Face>, stashed| Said {
            what,
            path: path.to_vec(),
            other: None,
            detail: Detail { before, after, ..Detail::default() },
            stashed,
        };
        Ok(match how {
            Undo::Placed { at, stash, .. } => {
                let found = below(self.shop.room_dir(), stash.as_bytes())?;
                let place = |(path, face): (Vec<u8>, Face)| {
                    said(What::Placed, &join(at, &path), None, Some(face), false)
                };
                let mut placed: Vec<_> = found.into_iter().map(place).collect();
                if let (Some(last), Some(node)) = (placed.last_mut(), book.returns) {
                    last.detail.returns = Some(node.0);
                }
                placed
            }
            Undo::Swapped { at, stash, .. } => {
                let before = Face::of(&self.seen(at)?);
                let after = Face::of(&host::stat_at(room, stash.as_bytes()).map_err(refused)?);
                let stashed = book.keeps(keeping, before.size);
                vec![said(What::Replaced, at, Some(before), Some(after), stashed)]
            }
            Undo::Taken { at, .. } => {
                let before = Face::of(&self.seen(at)?);
                vec![said(What::Removed, at, Some(before), None, book.keeps(keeping, before.size))]
            }
            Undo::Moved { from, to, .. } => vec![self.named(What::Moved, from, to)?],
            Undo::Over { from, to, stash, .. } => {
                let before = Face::of(&self.seen(to)?);
                let stashed = stash.is_some() && book.keeps(keeping, before.size);
                vec![said(What::Removed, to, Some(before), None, stashed), self.named(What::Moved, from, to)?]
            }
            Undo::Crossed { from, to, .. } => {
                let mut crossed = self.named(What::Crossed, from, to)?;
                crossed.detail.after = Some(Face::of(&self.seen(to)?));
                vec![crossed]
            }
            Undo::Patched { at, patch } => {
                let face = |size, looks: super::super::patch::Looks| Face {
                    kind: Kind::File,
                    ino: patch.ino,
                    size,
                    mode: looks.mode & 0o7777,
                    modified: looks.modified,
                };
                let before = face(patch.old_length, patch.before);
                let after = face(patch.new_length, patch.after);
                let bytes = patch.replaced.iter().map(|(_, length)| length).sum();
                let stashed = patch.stash.is_some() && book.keeps(keeping, bytes);
                let mut patched = said(What::Patched, at, Some(before), Some(after), stashed);
                patched.detail.patch = Some(Replaced::from(patch));
                vec![patched]
            }
            Undo::Dressed { at, before, after, .. } => {
                let now = Face::of(&self.seen(at)?);
                let face = |looks: &super::super::patch::Looks| Face {
                    mode: looks.mode & 0o7777,
                    modified: looks.modified,
                    ..now
                };
                vec![said(What::Dressed, at, Some(face(before)), Some(face(after)), false)]
            }
        })
    }

    /// A row with two names.
    fn named(&self, what: What, from: &[u8], to: &[u8]) -> StoreResult<Said> {
        let before = Some(Face::of(&self.seen(from)?));
        let detail = Detail { before, ..Detail::default() };
        Ok(Said { what, path: from.to_vec(), other: Some(to.to_vec()), detail, stashed: false })
    }

    /// What is at a path now.
    fn seen(&self, path: &[u8]) -> StoreResult<Stat> {
        let (parent, name) = split(path);
        let dir = root::enter(&self.store.root.dir, parent, How::Base)?;
        dir.stat_at(name).map_err(refused)
    }
}

impl PhysicalStore {
    /// Where displaced things lie, for those who have a ledger.
    pub(super) fn keeping(&self) -> Option<(&Arc<Workshop>, &Keeping)> {
        let shop = self.workshop().ok()?;
        Some((shop, shop.keeping.as_ref()?))
    }
}

impl Keeping {
    /// Moves something from a room to where it is kept, and says how large it is.
    fn keep(&self, shop: &Workshop, stash: &str, row: (i64, i64), books: &Books) -> StoreResult<u64> {
        self.take_in(shop.room_dir(), stash, row).map_err(refused)?;
        self.leave_out_large(row, books)
    }

    /// Moves something from a room to where it is kept.
    pub(super) fn take_in(&self, room: &Dir, stash: &str, (version, seq): (i64, i64)) -> Result<(), Errno> {
        let name = stash_name(version, seq);
        host::rename_new((room.as_fd(), stash.as_bytes()), (self.past.as_fd(), name.as_bytes()))
    }

    /// Lets go of files in a kept tree that are too large to be kept, and says how large the rest is.
    pub(super) fn leave_out_large(&self, (version, seq): (i64, i64), books: &Books) -> StoreResult<u64> {
        let name = stash_name(version, seq);
        let top = host::stat_at(self.past.as_fd(), name.as_bytes()).map_err(refused)?;
        if !top.is_dir() {
            return Ok(footprint(&Face::of(&top)));
        }
        let found = below(&self.past, name.as_bytes())?;
        let (large, small): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(_, face)| face.size > self.options.file_bytes);
        let mut rows = Vec::new();
        if !large.is_empty() {
            let told = books.rows_of(version)?;
            let at = told.iter().find(|told| told.row.seq == seq).map(|told| told.row.path.clone());
            // What was removed with the tree was removed just before it.
            let first = told.iter().map(|told| told.row.seq).min().unwrap_or(0).min(0);
            for ((path, face), seq) in large.iter().zip((i64::MIN..first).rev()) {
                let (parent, last) = split(path);
                let dir = self.past.enter(&join(name.as_bytes(), parent), How::Base).map_err(refused)?;
                host::unlink(dir.as_fd(), last).map_err(refused)?;
                let path = join(at.as_deref().unwrap_or_default(), path);
                let detail = Detail { before: Some(*face), ..Detail::default() };
                let said = Said { what: What::Removed, path, other: None, detail, stashed: false };
                rows.push(said.row(seq));
            }
            books.add(version, rows)?;
        }
        Ok(small.iter().map(|(_, face)| footprint(face)).sum())
    }
}

/// Something in one of Stead's own directories and all below it, parents first, with paths counted from it.
pub(super) fn below(dir: &Dir, name: &[u8]) -> StoreResult<Vec<(Vec<u8>, Face)>> {
    let top = host::stat_at(dir.as_fd(), name).map_err(refused)?;
    let mut found = vec![(Vec::new(), Face::of(&top))];
    if !top.is_dir() {
        return Ok(found);
    }
    let mut open = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let here = dir.enter(&join(name, &path), How::Directory).map_err(refused)?;
        for (name, _) in tree::names(&here).map_err(refused)? {
            let stat = here.stat_at(&name).map_err(refused)?;
            let path = join(&path, &name);
            if stat.is_dir() {
                open.push(path.clone());
            }
            found.push((path, Face::of(&stat)));
        }
    }
    // A parent sorts before what is in it.
    found[1..].sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}
