//! Reads of one path: its attributes, its content, its entries.
//!
//! If the cache has the directory, attributes and content are read with one statement, and so in one snapshot; in a fork, where it
//! also has to look into the layers below, the content is read after that. The statement also returns the directory epoch, which says
//! whether the cache was right. Every other read takes a transaction.

use std::ops::ControlFlow;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};
use stead_core::store::{Attr, Entry, FileContent, Listing, NodePath, Page};
use stead_core::{Name, StoreError};

use crate::database::batch::DirPaths;
use crate::database::error::{Result, corrupt};
use crate::database::schema::DIR_EPOCH;
use crate::virtual_store::VirtualStore;
use crate::virtual_store::content::{self, CHUNK_SIZE};
use crate::virtual_store::dir_cache::DirCache;
use crate::virtual_store::entry_row::{EntryKind, EntryRow};
use crate::virtual_store::layered_lookup;
use crate::virtual_store::tree::{DirLookup, VolumeTree};

/// The key by which a single statement finds an entry.
struct EntryKey<'a> {
    parent: i64,
    name: &'a [u8],
    parent_trust: ParentTrust,
}

/// How far the parent in the key can be trusted.
enum ParentTrust {
    /// Always: it is the root, or the root's parent.
    Always,
    /// Only if the directory epoch is still this one.
    AtEpoch(i64),
    /// It comes from the caller. If an entry is found, it is right. If none is, the reason isn't known.
    IfFound,
}

/// A read transaction.
pub(crate) struct ReadTransaction<'a> {
    pub(crate) tree: VolumeTree<'a>,
    dir_cache: ReadDirCache<'a>,
}

/// The shared cache, as far as it is valid for this snapshot, and the directories that this transaction finds.
struct ReadDirCache<'a> {
    dirs: &'a DirCache,
    epoch: i64,
    learned: DirPaths,
}

impl DirLookup for ReadDirCache<'_> {
    fn node_at(&self, path: &[u8]) -> Option<i64> {
        self.dirs.get_at(self.epoch, path)
    }

    fn remember(&mut self, path: &[u8], node: i64) {
        self.learned.insert(path.into(), node);
    }
}

impl ReadTransaction<'_> {
    pub(super) fn find(&mut self, at: &NodePath) -> Result<EntryRow> {
        self.tree.find(&mut self.dir_cache, at)
    }

    pub(super) fn find_followed(&mut self, at: &NodePath) -> Result<EntryRow> {
        self.tree.find_followed(&mut self.dir_cache, at)
    }

    pub(super) fn directory(&mut self, at: &NodePath) -> Result<i64> {
        self.tree.directory(&mut self.dir_cache, at)
    }

    /// The file at a path. A symlink on the way or at the end is an error that says where it leads.
    pub(super) fn file(&mut self, at: &NodePath) -> Result<EntryRow> {
        let row = self.find_followed(at)?;
        if row.is_directory() { Err(StoreError::IsADirectory.into()) } else { Ok(row) }
    }
}

impl VirtualStore {
    /// Runs `read` in one read transaction.
    pub(crate) fn read_transaction<T>(
        &self,
        read: impl FnOnce(&mut ReadTransaction<'_>) -> Result<T>,
    ) -> Result<T> {
        let reader = self.database_inner().reader()?;
        self.read_transaction_on(&reader, read)
    }

    /// Like `read_transaction`, on a given connection.
    pub(super) fn read_transaction_on<T>(
        &self,
        conn: &Connection,
        read: impl FnOnce(&mut ReadTransaction<'_>) -> Result<T>,
    ) -> Result<T> {
        // Dropping it ends it; there is nothing to commit.
        let _transaction = conn.unchecked_transaction()?;
        let epoch = conn
            .prepare_cached("SELECT value FROM meta WHERE id = ?1")?
            .query_row([DIR_EPOCH], |row| row.get(0))?;
        self.volume.check_exists(conn)?;
        let dir_cache = ReadDirCache { dirs: &self.dirs, epoch, learned: DirPaths::default() };
        let mut snapshot =
            ReadTransaction { tree: VolumeTree::new(conn, &self.volume, self.as_of), dir_cache };
        let result = read(&mut snapshot);
        self.dirs.insert_all(epoch, snapshot.dir_cache.learned);
        result
    }

    /// The key with which one statement can read the path; `None` if that takes a transaction.
    fn entry_key<'a>(&self, at: &'a NodePath) -> Option<EntryKey<'a>> {
        if self.as_of.is_some() {
            return None;
        }
        let root = self.volume.root;
        let base = if at.base.0 == 0 { root } else { at.base.0.cast_signed() };
        match at.path.parent_and_name() {
            None if base == root => {
                Some(EntryKey { parent: 0, name: b"", parent_trust: ParentTrust::Always })
            }
            None => None,
            Some((b"", name)) if base == root => {
                Some(EntryKey { parent: root, name, parent_trust: ParentTrust::Always })
            }
            Some((b"", name)) => Some(EntryKey { parent: base, name, parent_trust: ParentTrust::IfFound }),
            Some((directory, name)) if base == root => {
                let (parent, epoch) = self.dirs.get(directory)?;
                Some(EntryKey { parent, name, parent_trust: ParentTrust::AtEpoch(epoch) })
            }
            Some(_) => None,
        }
    }

    pub(super) fn stat_at(&self, at: &NodePath) -> Result<Attr> {
        const SQL: &str = "
            SELECT m.value, e.node, e.parent, e.kind, e.mode, e.size, e.created, e.modified, e.changed, e.content, e.since
            FROM meta m LEFT JOIN entry e ON e.volume = ?2 AND e.parent = ?3 AND e.name = ?4
            WHERE m.id = ?1";
        let reader = self.database_inner().reader_after_write()?;
        if let Some(key) = self.entry_key(at) {
            let answer = match self.volume.forked_at() {
                Some(_) => self.look_up_in_layers(&reader, &key)?,
                None => {
                    let mut statement = reader.prepare_cached(SQL)?;
                    let mut rows =
                        statement.query(params![DIR_EPOCH, self.volume.id, key.parent, key.name])?;
                    let row = rows.next()?.ok_or_else(|| corrupt("the directory counter is missing"))?;
                    interpret_row(row, &key.parent_trust)?
                }
            };
            match answer {
                LookupAnswer::Found(found) => return Ok(found.attr()),
                LookupAnswer::Missing => return Err(StoreError::NotFound.into()),
                LookupAnswer::Unsure => {}
            }
        }
        self.read_transaction_on(&reader, |snapshot| Ok(snapshot.find(at)?.attr()))
    }

    pub(super) fn read_at(&self, at: &NodePath, limit: u64) -> Result<FileContent> {
        const SQL: &str = "
            SELECT m.value, e.node, e.parent, e.kind, e.mode, e.size, e.created, e.modified, e.changed, e.content, e.since,
                   c.parts, c.hash, c.data
            FROM meta m
            LEFT JOIN entry e ON e.volume = ?2 AND e.parent = ?3 AND e.name = ?4
            LEFT JOIN content c ON c.id = e.content AND e.size <= ?5
            WHERE m.id = ?1";
        let reader = self.database_inner().reader()?;
        let max_size = i64::try_from(limit).unwrap_or(i64::MAX);
        let key = self.entry_key(at);
        if let (Some(key), Some(_)) = (&key, self.volume.forked_at()) {
            match self.look_up_in_layers(&reader, key)? {
                LookupAnswer::Found(found) if found.kind == EntryKind::File => {
                    check_size_limit(&found, limit)?;
                    // Content is never rewritten, so it can be read outside the statement's snapshot. If it is gone since then, the
                    // transaction below finds what the file has now.
                    if let Ok(bytes) = content::read_whole(&reader, found.content, found.size) {
                        return Ok(FileContent { attr: found.attr(), bytes });
                    }
                }
                LookupAnswer::Missing => return Err(StoreError::NotFound.into()),
                LookupAnswer::Found(_) | LookupAnswer::Unsure => {}
            }
        } else if let Some(key) = key {
            let mut statement = reader.prepare_cached(SQL)?;
            let mut rows =
                statement.query(params![DIR_EPOCH, self.volume.id, key.parent, key.name, max_size])?;
            let row = rows.next()?.ok_or_else(|| corrupt("the directory counter is missing"))?;
            match interpret_row(row, &key.parent_trust)? {
                LookupAnswer::Found(found) if found.kind == EntryKind::File => {
                    check_size_limit(&found, limit)?;
                    let bytes = match (found.content, row.get_ref(13)?) {
                        (None, _) => Vec::new(),
                        (Some(_), ValueRef::Blob(bytes)) => {
                            content::check_hash(row.get_ref(12)?, bytes)?;
                            content::check_length(bytes.to_vec(), found.size)?
                        }
                        (Some(_), _) if found.size > CHUNK_SIZE as i64 => {
                            let layout =
                                content::chunk_layout(row.get_ref(11)?, row.get_ref(12)?, found.size)?;
                            // Content is never rewritten, so it can be read outside the statement's snapshot.
                            content::read_layout(&reader, &layout, found.size)?
                        }
                        _ => return Err(content::missing_content_error()),
                    };
                    return Ok(FileContent { attr: found.attr(), bytes });
                }
                LookupAnswer::Missing => return Err(StoreError::NotFound.into()),
                LookupAnswer::Found(_) | LookupAnswer::Unsure => {}
            }
        }
        self.read_transaction_on(&reader, |snapshot| {
            let row = snapshot.file(at)?;
            check_size_limit(&row, limit)?;
            let bytes = content::read_whole(snapshot.tree.conn, row.content, row.size)?;
            Ok(FileContent { attr: row.attr(), bytes })
        })
    }

    /// Looks a name up in a fork.
    fn look_up_in_layers(&self, conn: &Connection, key: &EntryKey<'_>) -> Result<LookupAnswer> {
        let Some(found) = layered_lookup::look_up(conn, &self.volume, key.parent, key.name)? else {
            return Ok(LookupAnswer::Unsure);
        };
        Ok(match key.parent_trust {
            ParentTrust::AtEpoch(cached_epoch) if cached_epoch != found.epoch => LookupAnswer::Unsure,
            ParentTrust::IfFound if found.entry.is_none() => LookupAnswer::Unsure,
            _ => match found.entry {
                // The times that a directory of a layer had as of the fork are elsewhere.
                Some(row) if row.is_directory() && found.is_below => LookupAnswer::Unsure,
                Some(row) => LookupAnswer::Found(row),
                None => LookupAnswer::Missing,
            },
        })
    }

    pub(super) fn read_link_at(&self, at: &NodePath) -> Result<Vec<u8>> {
        self.read_transaction(|snapshot| {
            let row = snapshot.find(at)?;
            match row.kind {
                EntryKind::Symlink => snapshot.tree.symlink_target(&row),
                EntryKind::File | EntryKind::Directory => {
                    Err(StoreError::Invalid("it isn't a symlink".into()).into())
                }
            }
        })
    }

    pub(super) fn list_at(&self, at: &NodePath, page: &Page) -> Result<Listing> {
        self.read_transaction(|snapshot| {
            let directory = snapshot.directory(at)?;
            let tree = snapshot.tree;
            // No name is empty, so every name comes after the empty one.
            let after = page.after.as_ref().map_or(&b""[..], Name::as_bytes);
            // How many of the rows are hidden isn't known in advance.
            let row_limit = match page.hide {
                None => i64::try_from(page.limit).ok().and_then(|limit| limit.checked_add(1)).unwrap_or(-1),
                Some(_) => -1,
            };
            let (mut entries, mut more) = (Vec::new(), false);
            tree.list_attrs(directory, after, row_limit, |attr, name| {
                if page.hides(name) {
                    return Ok(ControlFlow::Continue(()));
                }
                if entries.len() == page.limit {
                    more = true;
                    return Ok(ControlFlow::Break(()));
                }
                entries.push(Entry { name: checked_name(name)?, attr });
                Ok(ControlFlow::Continue(()))
            })?;
            let total = if page.after.is_none() && !more {
                entries.len() as u64
            } else if page.hide.is_some() {
                tree.count_names(directory, |name| !page.hides(name))?
            } else {
                tree.count(directory)?
            };
            Ok(Listing { entries, total, more })
        })
    }
}

/// Checks a name from the database.
fn checked_name(name: &[u8]) -> Result<Name> {
    Name::new(name).ok_or_else(|| corrupt("an entry has an invalid name"))
}

/// Refuses a file that is larger than the limit.
fn check_size_limit(row: &EntryRow, limit: u64) -> Result<()> {
    let size = row.size.cast_unsigned();
    if size > limit { Err(StoreError::TooLarge { size, limit }.into()) } else { Ok(()) }
}

/// What a single statement found.
enum LookupAnswer {
    Found(EntryRow),
    Missing,
    /// The cache is out of date, or the caller needs a more exact error than one statement can give.
    Unsure,
}

/// Interprets a row that begins with the directory epoch and continues with the entry, if there is one.
fn interpret_row(row: &rusqlite::Row<'_>, trust: &ParentTrust) -> Result<LookupAnswer> {
    let epoch: i64 = row.get(0)?;
    let exists = !matches!(row.get_ref(1)?, ValueRef::Null);
    Ok(match *trust {
        ParentTrust::AtEpoch(cached_epoch) if cached_epoch != epoch => LookupAnswer::Unsure,
        _ if exists => LookupAnswer::Found(EntryRow::from_columns(row, 1)?),
        ParentTrust::Always | ParentTrust::AtEpoch(_) => LookupAnswer::Missing,
        ParentTrust::IfFound => LookupAnswer::Unsure,
    })
}
