//! Drafts: content that is being written. Changed chunks are staged in the database, and a few of them are held in
//! memory.

use std::collections::VecDeque;
use std::sync::Arc;

use blake3::Hash;
use rusqlite::params;
use stead_core::store::{Draft, DraftBase, SealedContent};
use stead_core::{Clock, StoreError, StoreResult, SystemClock};

use crate::database::DatabaseInner;
use crate::database::error::{DatabaseError, Result};
use crate::database::group_commit::CommitSync;
use crate::virtual_store::VirtualStore;
use crate::virtual_store::chunk_patches::ChunkPatches;
use crate::virtual_store::content::{self, CHUNK_SIZE, Chunk, PreparedContent};

/// How many chunks a draft holds in memory. They are staged together, so that a long write needs few transactions.
const MAX_CHUNKS_IN_MEMORY: usize = 4;
/// How many patched chunks are staged at once.
const MAX_CHUNKS_PER_STAGE: usize = 16;
/// The largest file: the list of its chunks still fits easily into memory.
const MAX_FILE_SIZE: u64 = 1 << 38;

/// Protects the staged chunks of a draft, to which no entry refers yet, from gc. Once it is dropped, the next write
/// transaction removes the protection: by then an entry refers to the chunks, or nothing ever will.
#[derive(Debug)]
pub(crate) struct DraftPins {
    database: Arc<DatabaseInner>,
    draft: i64,
}

impl DraftPins {
    pub(super) fn new(database: &Arc<DatabaseInner>) -> Self {
        DraftPins { database: Arc::clone(database), draft: fastrand::i64(1..) }
    }

    /// The number under which the content is pinned.
    pub(super) fn draft(&self) -> i64 {
        self.draft
    }
}

impl Drop for DraftPins {
    fn drop(&mut self) {
        self.database.dropped_drafts.lock().push(self.draft);
    }
}

/// What a [`SealedContent`] of a Virtual Store holds.
pub(super) struct SealedDraft {
    pub(super) database: Arc<DatabaseInner>,
    pub(super) prepared: PreparedContent,
}

pub(super) struct VirtualDraft {
    database: Arc<DatabaseInner>,
    size: u64,
    chunks: Vec<ChunkSlot>,
    /// The chunks in memory, the most recently used last.
    in_memory: VecDeque<(usize, Vec<u8>)>,
    /// Small writes into stored chunks that were not applied yet.
    patches: ChunkPatches,
    pins: Option<Arc<DraftPins>>,
}

/// Where a chunk is.
#[derive(Debug, Clone, Copy)]
enum ChunkSlot {
    /// Nowhere: it is all zeros.
    Zeros,
    Stored(Chunk),
    InMemory,
}

impl VirtualStore {
    pub(super) fn draft_of(&self, base: DraftBase<'_>) -> Result<VirtualDraft> {
        let database = Arc::clone(self.database_inner());
        let (size, chunks) = match base {
            DraftBase::Empty => (0, Vec::new()),
            DraftBase::File(at) => self.read_transaction(|snapshot| {
                let row = snapshot.file(at)?;
                let chunks = content::chunks(snapshot.tree.conn, row.content, row.size)?;
                Ok((row.size.cast_unsigned(), chunks.into_iter().map(ChunkSlot::Stored).collect()))
            })?,
        };
        let (in_memory, patches) = (VecDeque::new(), ChunkPatches::default());
        Ok(VirtualDraft { database, size, chunks, in_memory, patches, pins: None })
    }

    /// Prepares bytes of any size as content for a change. Bytes that exceed a chunk are staged.
    pub(crate) fn prepare_bytes(&self, bytes: Vec<u8>) -> StoreResult<PreparedContent> {
        if bytes.len() <= CHUNK_SIZE {
            return Ok(PreparedContent::single(bytes));
        }
        let mut draft = self.draft_of(DraftBase::Empty)?;
        draft.write_at(0, &bytes)?;
        drop(bytes);
        Ok(draft.prepare()?)
    }
}

impl Draft for VirtualDraft {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> StoreResult<usize> {
        let remaining = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = buffer.len().min(remaining);
        for (index, skip, range) in content::chunk_pieces(offset, count) {
            let target = &mut buffer[range];
            match self.chunks[index] {
                ChunkSlot::Zeros => target.fill(0),
                ChunkSlot::InMemory | ChunkSlot::Stored(_) => {
                    let length = target.len();
                    target.copy_from_slice(&self.chunk(index)?[skip..skip + length]);
                }
            }
        }
        Ok(count)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> StoreResult<()> {
        let end = offset.saturating_add(bytes.len() as u64);
        if bytes.is_empty() {
            return Ok(());
        }
        let before = self.size;
        if end > before {
            self.set_size(end)?;
        }
        let written = self.write_pieces(offset, bytes);
        if written.is_err() && self.size > before {
            // The draft is not left longer than before: a caller whose write failed finds no zeros there.
            self.set_size(before)?;
        }
        Ok(written?)
    }

    fn set_size(&mut self, size: u64) -> StoreResult<()> {
        if size > MAX_FILE_SIZE {
            return Err(StoreError::TooLarge { size, limit: MAX_FILE_SIZE });
        }
        let count = size.div_ceil(CHUNK_SIZE as u64) as usize;
        self.in_memory.retain(|(index, _)| *index < count);
        self.patches.truncate(count);
        // If the old or the new end lies inside a chunk, that chunk gets another length.
        let edge = (size.min(self.size) / CHUNK_SIZE as u64) as usize;
        if let Some(ChunkSlot::Stored(_) | ChunkSlot::InMemory) =
            self.chunks.get(edge).filter(|_| edge < count)
        {
            let length = (size - edge as u64 * CHUNK_SIZE as u64).min(CHUNK_SIZE as u64) as usize;
            if length != self.length(edge) {
                self.chunk_mut(edge)?.resize(length, 0);
            }
        }
        self.chunks.resize(count, ChunkSlot::Zeros);
        self.size = size;
        Ok(())
    }

    fn seal(&mut self) -> StoreResult<SealedContent> {
        let (size, database) = (self.size, Arc::clone(&self.database));
        let prepared = self.prepare()?;
        Ok(SealedContent::new(size, SealedDraft { database, prepared }))
    }
}

impl VirtualDraft {
    fn write_pieces(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        for (index, skip, range) in content::chunk_pieces(offset, bytes.len()) {
            let piece = &bytes[range];
            if piece.len() == self.length(index) {
                self.replace(index, piece.to_vec())?;
            } else if self.patches.accepts(piece) && self.is_stored_only(index) {
                self.patches.add(index, skip, piece);
                if self.patches.is_full() {
                    self.stage_patches()?;
                }
            } else {
                self.chunk_mut(index)?[skip..skip + piece.len()].copy_from_slice(piece);
            }
        }
        Ok(())
    }

    /// How many bytes a chunk has.
    fn length(&self, index: usize) -> usize {
        (self.size - index as u64 * CHUNK_SIZE as u64).min(CHUNK_SIZE as u64) as usize
    }

    /// Returns a chunk's bytes, which are loaded into memory if they aren't there.
    fn chunk(&mut self, index: usize) -> Result<&[u8]> {
        // A chunk that is only read stays `Stored`, so it isn't staged again.
        if let ChunkSlot::Stored(chunk) = self.chunks[index]
            && self.is_stored_only(index)
        {
            let mut bytes = self.read_stored(chunk)?;
            self.stage_if_full()?;
            if self.patches.apply(index, &mut bytes) {
                self.chunks[index] = ChunkSlot::InMemory;
            }
            self.in_memory.push_back((index, bytes));
        }
        Ok(self.use_chunk(index))
    }

    fn read_stored(&self, chunk: Chunk) -> Result<Vec<u8>> {
        content::with_bytes(&*self.database.reader()?, chunk.id, <[u8]>::to_vec)
    }

    /// Whether a chunk is in the database and not in memory.
    fn is_stored_only(&self, index: usize) -> bool {
        matches!(self.chunks[index], ChunkSlot::Stored(_))
            && !self.in_memory.iter().any(|(loaded, _)| *loaded == index)
    }

    /// Returns a chunk's bytes for writing, and marks the chunk as changed.
    fn chunk_mut(&mut self, index: usize) -> Result<&mut Vec<u8>> {
        if let ChunkSlot::Zeros = self.chunks[index] {
            let zeros = vec![0; self.length(index)];
            self.replace(index, zeros)?;
        } else {
            self.chunk(index)?;
        }
        self.chunks[index] = ChunkSlot::InMemory;
        Ok(self.use_chunk(index))
    }

    /// Replaces a chunk by these bytes.
    fn replace(&mut self, index: usize, bytes: Vec<u8>) -> Result<()> {
        if !self.in_memory.iter().any(|(loaded, _)| *loaded == index) {
            self.stage_if_full()?;
        }
        self.in_memory.retain(|(loaded, _)| *loaded != index);
        self.patches.forget(index);
        self.in_memory.push_back((index, bytes));
        self.chunks[index] = ChunkSlot::InMemory;
        Ok(())
    }

    /// Returns the chunk in memory with this index, which becomes the most recently used.
    fn use_chunk(&mut self, index: usize) -> &mut Vec<u8> {
        let position =
            self.in_memory.iter().position(|(loaded, _)| *loaded == index).expect("the chunk is at hand");
        let chunk = self.in_memory.remove(position).expect("its position was just found");
        self.in_memory.push_back(chunk);
        &mut self.in_memory.back_mut().expect("it was just put there").1
    }

    /// Stages the changed chunks, and drops all chunks from memory, if there are as many as the limit.
    fn stage_if_full(&mut self) -> Result<()> {
        if self.in_memory.len() < MAX_CHUNKS_IN_MEMORY {
            return Ok(());
        }
        let in_memory = std::mem::take(&mut self.in_memory);
        let changed =
            in_memory.into_iter().filter(|(index, _)| matches!(self.chunks[*index], ChunkSlot::InMemory));
        let (indices, chunks): (Vec<_>, Vec<_>) = changed.unzip();
        self.stage_at(&indices, chunks)
    }

    /// Applies the patches, and stages the chunks that had any.
    fn stage_patches(&mut self) -> Result<()> {
        while self.patches.first().is_some() {
            let (mut indices, mut chunks) = (Vec::new(), Vec::new());
            while let Some(index) = self.patches.first()
                && chunks.len() < MAX_CHUNKS_PER_STAGE
            {
                let ChunkSlot::Stored(chunk) = self.chunks[index] else {
                    unreachable!("it would have been written into the chunk at hand")
                };
                let mut bytes = self.read_stored(chunk)?;
                self.patches.apply(index, &mut bytes);
                indices.push(index);
                chunks.push(bytes);
            }
            self.stage_at(&indices, chunks)?;
        }
        Ok(())
    }

    /// Stages chunks, and remembers where they are. If that fails, on a full disk for instance, they stay in memory, so
    /// that nothing that was written is lost.
    fn stage_at(&mut self, indices: &[usize], chunks: Vec<Vec<u8>>) -> Result<()> {
        match self.stage(chunks) {
            Ok(staged) => {
                for (&index, chunk) in indices.iter().zip(staged) {
                    self.chunks[index] = ChunkSlot::Stored(chunk);
                }
                Ok(())
            }
            Err((error, chunks)) => {
                for (&index, bytes) in indices.iter().zip(chunks) {
                    self.chunks[index] = ChunkSlot::InMemory;
                    self.in_memory.push_back((index, bytes));
                }
                Err(error)
            }
        }
    }

    /// Stores chunks in the database, where nothing refers to them yet. If that fails, returns them with the error.
    fn stage(&mut self, chunks: Vec<Vec<u8>>) -> Result<Vec<Chunk>, (DatabaseError, Vec<Vec<u8>>)> {
        if chunks.is_empty() {
            return Ok(Vec::new());
        }
        let pins = self.pins.get_or_insert_with(|| Arc::new(DraftPins::new(&self.database)));
        let (draft, now) = (pins.draft, SystemClock.now().0);
        // Hashed here, and not in the write transaction, where all other writers would wait.
        let hashed: Vec<(Hash, Vec<u8>)> =
            chunks.into_iter().map(|chunk| (blake3::hash(&chunk), chunk)).collect();
        let hashed = Arc::new(hashed);
        let to_store = Arc::clone(&hashed);
        let staged = self.database.write(CommitSync::Deferred, move |transaction| {
            let mut staged = Vec::with_capacity(to_store.len());
            for (hash, bytes) in to_store.iter() {
                let id = content::store_hashed(transaction.conn, *hash, bytes)?;
                transaction
                    .conn
                    .prepare_cached("INSERT OR IGNORE INTO pin(draft, content, at) VALUES (?1, ?2, ?3)")?
                    .execute(params![draft, id, now])?;
                staged.push(Chunk { id, hash: *hash });
            }
            Ok(staged)
        });
        staged.map_err(|error| {
            let hashed = Arc::try_unwrap(hashed).unwrap_or_else(|shared| (*shared).clone());
            (error.into(), hashed.into_iter().map(|(_, bytes)| bytes).collect())
        })
    }

    /// Prepares everything as content for a change. The staged chunks stay protected as long as the content or the
    /// draft exists.
    fn prepare(&mut self) -> Result<PreparedContent> {
        match self.size {
            0 => return Ok(PreparedContent::Empty),
            size if size <= CHUNK_SIZE as u64
                && (self.patches.contains(0) || !matches!(self.chunks[0], ChunkSlot::Stored(_))) =>
            {
                return Ok(PreparedContent::single(self.chunk_mut(0)?.clone()));
            }
            _ => {}
        }
        let in_memory = std::mem::take(&mut self.in_memory);
        let changed =
            in_memory.into_iter().filter(|(index, _)| matches!(self.chunks[*index], ChunkSlot::InMemory));
        let (indices, chunks): (Vec<_>, Vec<_>) = changed.unzip();
        self.stage_at(&indices, chunks)?;
        self.stage_patches()?;
        self.store_zeros()?;
        let stored_chunk = |slot: &ChunkSlot| match slot {
            ChunkSlot::Stored(chunk) => *chunk,
            ChunkSlot::Zeros | ChunkSlot::InMemory => unreachable!("every chunk has been staged"),
        };
        let chunks = self.chunks.iter().map(stored_chunk).collect();
        Ok(PreparedContent::Chunked { chunks, size: self.size.cast_signed(), _pins: self.pins.clone() })
    }

    /// Stages the chunks that are all zeros. One stored chunk stands for all of them but the last, which may be
    /// shorter.
    fn store_zeros(&mut self) -> Result<()> {
        let is_zeros = |slot: &ChunkSlot| matches!(slot, ChunkSlot::Zeros);
        let last = self.chunks.len() - 1;
        if is_zeros(&self.chunks[last]) {
            self.stage_at(&[last], vec![vec![0; self.length(last)]])?;
        }
        if self.chunks.iter().any(is_zeros) {
            let full_chunk = self.stage(vec![vec![0; CHUNK_SIZE]]).map_err(|(error, _)| error)?[0];
            self.chunks
                .iter_mut()
                .filter(|slot| is_zeros(slot))
                .for_each(|slot| *slot = ChunkSlot::Stored(full_chunk));
        }
        Ok(())
    }
}
