//! A file that stays readable as it was when it was opened: content is never rewritten, only replaced.

use std::sync::Arc;

use parking_lot::Mutex;
use stead_core::store::{Attr, Kind, NodeId, OpenContent, Place, VersionTag};
use stead_core::{StoreResult, Timestamp};

use super::VirtualStore;
use super::content::{self, CHUNK};
use super::database::Shared;
use super::fault::{Result, corrupt};
use super::row::FILE_MODE;

/// A file's content by chunk.
pub(super) struct OpenFile {
    shared: Arc<Shared>,
    attr: Attr,
    chunks: Vec<i64>,
    /// The chunk that was last read in part: who reads a file piece by piece comes back for the rest of it.
    last: Mutex<Option<(usize, Vec<u8>)>>,
}

impl VirtualStore {
    pub(super) fn open_at(&self, place: &Place) -> Result<OpenFile> {
        self.snapshot(|snapshot| {
            let row = snapshot.file(place)?;
            let chunks = content::chunk_ids(snapshot.tree.conn, row.content, row.size)?;
            Ok(OpenFile {
                shared: Arc::clone(self.shared()),
                attr: row.attr(),
                chunks,
                last: Mutex::new(None),
            })
        })
    }
}

impl VirtualStore {
    /// Content that no entry need hold any more.
    pub(super) fn open_content(&self, content: Option<i64>, size: i64) -> Result<OpenFile> {
        let chunks = content::chunk_ids(&*self.shared().reader()?, content, size)?;
        let attr = Attr {
            node: NodeId(0),
            kind: Kind::File,
            size: size.cast_unsigned(),
            mode: FILE_MODE,
            created: None,
            modified: Timestamp(0),
            changed: Timestamp(0),
            tag: VersionTag(0),
        };
        Ok(OpenFile { shared: Arc::clone(self.shared()), attr, chunks, last: Mutex::new(None) })
    }
}

impl OpenContent for OpenFile {
    fn attr(&self) -> Attr {
        self.attr
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize> {
        let left = usize::try_from(self.attr.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        for (index, skip, range) in content::pieces(offset, wanted) {
            self.copy(index, skip, &mut buffer[range])?;
        }
        Ok(wanted)
    }
}

impl OpenFile {
    /// Copies a piece of one chunk.
    fn copy(&self, index: usize, skip: usize, into: &mut [u8]) -> Result<()> {
        if into.len() == CHUNK {
            let reader = self.shared.reader()?;
            return content::with_bytes(&reader, self.chunks[index], |chunk| piece(chunk, skip, into))?;
        }
        let mut last = self.last.lock();
        let chunk = match &mut *last {
            Some((at, chunk)) if *at == index => chunk,
            other => {
                // The buffer of the chunk before is used again.
                let mut chunk = other.take().map_or_else(Vec::new, |(_, chunk)| chunk);
                let reader = self.shared.reader()?;
                content::with_bytes(&reader, self.chunks[index], |bytes| {
                    chunk.clear();
                    chunk.extend_from_slice(bytes);
                })?;
                &mut other.insert((index, chunk)).1
            }
        };
        piece(chunk, skip, into)
    }
}

fn piece(chunk: &[u8], skip: usize, into: &mut [u8]) -> Result<()> {
    let piece =
        chunk.get(skip..skip + into.len()).ok_or_else(|| corrupt("a chunk of a file is too short"))?;
    into.copy_from_slice(piece);
    Ok(())
}
