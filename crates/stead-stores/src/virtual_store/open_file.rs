//! An open file, which stays readable as it was when it was opened: content is never rewritten, only replaced.

use std::sync::Arc;

use blake3::Hash;
use parking_lot::Mutex;
use stead_core::store::{Attr, NodeId, NodeKind, NodePath, OpenContent, VersionTag};
use stead_core::{StoreResult, Timestamp};

use crate::database::DatabaseInner;
use crate::database::error::{Result, corrupt};
use crate::virtual_store::VirtualStore;
use crate::virtual_store::content::{self, CHUNK_SIZE, ContentLayout};
use crate::virtual_store::entry_row::FILE_MODE;

/// A file's content, read chunk by chunk.
pub(super) struct OpenVirtualFile {
    database: Arc<DatabaseInner>,
    attr: Attr,
    layout: ContentLayout,
    read_hashes: Mutex<ReadChunkHashes>,
    /// The chunk that was last read in part: a caller that reads a file piece by piece needs the rest of it next.
    last_chunk: Mutex<Option<(usize, Vec<u8>)>>,
}

impl VirtualStore {
    pub(super) fn open_at(&self, at: &NodePath) -> Result<OpenVirtualFile> {
        self.read_transaction(|snapshot| {
            let row = snapshot.file(at)?;
            let layout = content::layout(snapshot.tree.conn, row.content, row.size)?;
            Ok(OpenVirtualFile::new(Arc::clone(self.database_inner()), row.attr(), layout))
        })
    }
}

/// Opens content to which no entry has to refer any more. The attributes hold only its size.
pub(super) fn open_content_by_id(
    database: &Arc<DatabaseInner>,
    content: Option<i64>,
    size: i64,
) -> Result<OpenVirtualFile> {
    let layout = content::layout(&*database.reader()?, content, size)?;
    let attr = Attr {
        node: NodeId(0),
        kind: NodeKind::File,
        size: size.cast_unsigned(),
        mode: FILE_MODE,
        created: None,
        modified: Timestamp(0),
        changed: Timestamp(0),
        tag: VersionTag(0),
    };
    Ok(OpenVirtualFile::new(Arc::clone(database), attr, layout))
}

impl OpenContent for OpenVirtualFile {
    fn attr(&self) -> Attr {
        self.attr
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize> {
        let remaining = usize::try_from(self.attr.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = buffer.len().min(remaining);
        for (index, skip, range) in content::chunk_pieces(offset, count) {
            self.copy(index, skip, &mut buffer[range])?;
        }
        Ok(count)
    }
}

/// The hashes of the chunks that were read. Once all of them were read, the hash of their list is checked, too.
#[derive(Debug, Default)]
struct ReadChunkHashes {
    hashes: Vec<Option<Hash>>,
    unread: usize,
}

impl ReadChunkHashes {
    /// Adds the hash of a chunk that was read. Returns all hashes if it was the last one.
    fn add(&mut self, index: usize, hash: Hash) -> Option<Vec<Hash>> {
        let slot = self.hashes.get_mut(index)?;
        if slot.replace(hash).is_none() {
            self.unread -= 1;
        }
        (self.unread == 0).then(|| std::mem::take(&mut self.hashes).into_iter().flatten().collect())
    }
}

impl OpenVirtualFile {
    fn new(database: Arc<DatabaseInner>, attr: Attr, layout: ContentLayout) -> Self {
        let count = if layout.list_hash.is_some() { layout.chunk_ids.len() } else { 0 };
        let read_hashes = ReadChunkHashes { hashes: vec![None; count], unread: count };
        OpenVirtualFile {
            database,
            attr,
            layout,
            read_hashes: Mutex::new(read_hashes),
            last_chunk: Mutex::new(None),
        }
    }

    /// Passes the bytes of a chunk to `read`, after checking them against their hash.
    fn with_chunk<T>(&self, index: usize, read: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let reader = self.database.reader()?;
        let id = *self.layout.chunk_ids.get(index).ok_or_else(content::missing_content_error)?;
        let (result, hash) = content::with_hashed(&reader, id, |bytes, hash| (read(bytes), hash))?;
        if let Some(list) = self.layout.list_hash
            && let Some(hashes) = self.read_hashes.lock().add(index, hash)
        {
            content::check_list(list, hashes.into_iter())?;
        }
        Ok(result)
    }

    /// Copies a piece of one chunk.
    fn copy(&self, index: usize, skip: usize, target: &mut [u8]) -> Result<()> {
        if target.len() == CHUNK_SIZE {
            return self.with_chunk(index, |chunk| copy_piece(chunk, skip, target))?;
        }
        let mut last = self.last_chunk.lock();
        let chunk = match &mut *last {
            Some((cached_index, chunk)) if *cached_index == index => chunk,
            other => {
                // Reuses the buffer of the previous chunk.
                let mut chunk = other.take().map_or_else(Vec::new, |(_, chunk)| chunk);
                self.with_chunk(index, |bytes| {
                    chunk.clear();
                    chunk.extend_from_slice(bytes);
                })?;
                &mut other.insert((index, chunk)).1
            }
        };
        copy_piece(chunk, skip, target)
    }
}

fn copy_piece(chunk: &[u8], skip: usize, target: &mut [u8]) -> Result<()> {
    let piece =
        chunk.get(skip..skip + target.len()).ok_or_else(|| corrupt("a chunk of a file is too short"))?;
    target.copy_from_slice(piece);
    Ok(())
}
