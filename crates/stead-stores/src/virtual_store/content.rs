//! Content, stored once: in one row up to the size of a chunk, beyond that in chunks.
//!
//! A row's id names the content. Its BLAKE3 hash finds content that is stored already, and damage; for content in chunks, it
//! is the hash of the list of chunks. Content without an id has no bytes or, if its size isn't 0, wasn't kept.

use std::ops::Range;
use std::sync::Arc;

use blake3::Hash;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};

use stead_core::StoreError;

use crate::database::error::{DatabaseError, Result, corrupt};
use crate::virtual_store::draft::DraftPins;

/// The most bytes that a row of `content` holds. Every chunk of a larger content but the last has exactly this size.
pub(crate) const CHUNK_SIZE: usize = 256 * 1024;
/// Keeps the hash of a list of chunks apart from the hash of bytes that look like such a list.
const LIST_CONTEXT: &str = "stead 2026-11 content in chunks";

/// A row of `content` that holds bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) id: i64,
    pub(crate) hash: Hash,
}

/// Content that is ready to be referred to by an entry.
#[derive(Debug)]
pub(crate) enum PreparedContent {
    Empty,
    /// Hashed bytes of at most one chunk.
    Single {
        hash: Hash,
        bytes: Vec<u8>,
    },
    /// One or more chunks that are already in the database.
    Chunked {
        chunks: Vec<Chunk>,
        size: i64,
        /// Protects staged chunks from gc.
        _pins: Option<Arc<DraftPins>>,
    },
    /// Content that the database already holds; `None` for no bytes.
    Stored {
        id: Option<i64>,
        size: i64,
    },
}

impl PreparedContent {
    /// Prepares bytes that fit into a chunk.
    pub(crate) fn single(bytes: Vec<u8>) -> Self {
        debug_assert!(bytes.len() <= CHUNK_SIZE, "more than a chunk");
        if bytes.is_empty() {
            PreparedContent::Empty
        } else {
            PreparedContent::Single { hash: blake3::hash(&bytes), bytes }
        }
    }

    /// Prepares bytes of any size. Bytes that don't fit into a chunk are stored in the database now.
    pub(crate) fn from_bytes(conn: &Connection, bytes: Vec<u8>) -> Result<Self> {
        if bytes.len() <= CHUNK_SIZE {
            return Ok(PreparedContent::single(bytes));
        }
        let chunks = bytes.chunks(CHUNK_SIZE).map(|bytes| store_bytes(conn, bytes)).collect::<Result<_>>()?;
        Ok(PreparedContent::Chunked { chunks, size: bytes.len() as i64, _pins: None })
    }

    pub(crate) fn size(&self) -> i64 {
        match self {
            PreparedContent::Empty => 0,
            PreparedContent::Single { bytes, .. } => bytes.len() as i64,
            PreparedContent::Chunked { size, .. } | PreparedContent::Stored { size, .. } => *size,
        }
    }

    /// Stores the content, if the database doesn't have it, and returns its id; `None` for no bytes.
    pub(crate) fn store(&self, conn: &Connection) -> Result<Option<i64>> {
        match self {
            PreparedContent::Empty => Ok(None),
            PreparedContent::Single { hash, bytes } => store_hashed(conn, *hash, bytes).map(Some),
            // A single chunk is stored as plain content.
            PreparedContent::Chunked { chunks, .. } if chunks.len() == 1 => Ok(Some(chunks[0].id)),
            PreparedContent::Chunked { chunks, size, .. } => store_list(conn, chunks, *size).map(Some),
            PreparedContent::Stored { id: None, .. } => Ok(None),
            PreparedContent::Stored { id: Some(id), .. } => reuse(conn, *id).map(Some),
        }
    }
}

/// Stores the bytes of one chunk.
pub(crate) fn store_bytes(conn: &Connection, bytes: &[u8]) -> Result<Chunk> {
    let hash = blake3::hash(bytes);
    Ok(Chunk { id: store_hashed(conn, hash, bytes)?, hash })
}

/// Stores bytes whose hash is known, and returns their id.
pub(crate) fn store_hashed(conn: &Connection, hash: Hash, bytes: &[u8]) -> Result<i64> {
    if let Some(id) = find_by_hash(conn, hash)? {
        return Ok(id);
    }
    conn.prepare_cached("INSERT INTO content(key, hash, size, data) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![hash_key(hash), hash.as_bytes(), bytes.len() as i64, bytes])?;
    Ok(conn.last_insert_rowid())
}

fn store_list(conn: &Connection, chunks: &[Chunk], size: i64) -> Result<i64> {
    let hash = list_hash(chunks.iter().map(|chunk| chunk.hash));
    if let Some(id) = find_by_hash(conn, hash)? {
        return Ok(id);
    }
    let ids: Vec<i64> = chunks.iter().map(|chunk| chunk.id).collect();
    let parts = serde_json::to_string(&ids).expect("numbers can be written as JSON");
    conn.prepare_cached("INSERT INTO content(key, hash, size, parts) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![hash_key(hash), hash.as_bytes(), size, parts])?;
    Ok(conn.last_insert_rowid())
}

/// The hash that names content in chunks: over the hashes of its chunks.
pub(crate) fn list_hash(hashes: impl Iterator<Item = Hash>) -> Hash {
    let mut hasher = blake3::Hasher::new_derive_key(LIST_CONTEXT);
    for hash in hashes {
        hasher.update(hash.as_bytes());
    }
    hasher.finalize()
}

/// Hashes content piece by piece into the hash that names it here.
#[derive(Default)]
pub(crate) struct ContentHasher {
    chunk: blake3::Hasher,
    /// How many bytes of the current chunk were hashed.
    filled: usize,
    chunk_hashes: Vec<Hash>,
}

impl ContentHasher {
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at(bytes.len().min(CHUNK_SIZE - self.filled));
            self.chunk.update(head);
            self.filled += head.len();
            bytes = rest;
            if self.filled == CHUNK_SIZE {
                self.end_chunk();
            }
        }
    }

    fn end_chunk(&mut self) {
        self.chunk_hashes.push(self.chunk.finalize());
        self.chunk.reset();
        self.filled = 0;
    }

    pub(crate) fn finish(mut self) -> [u8; 32] {
        if self.filled > 0 || self.chunk_hashes.is_empty() {
            self.end_chunk();
        }
        let hash =
            if let [only] = &*self.chunk_hashes { *only } else { list_hash(self.chunk_hashes.into_iter()) };
        *hash.as_bytes()
    }
}

/// The first bytes of a hash as an SQLite integer: an index over it has a third of the size of one over whole hashes.
pub(crate) fn hash_key(hash: Hash) -> i64 {
    let (start, _) = hash.as_bytes().split_first_chunk().expect("a hash has 32 bytes");
    i64::from_be_bytes(*start)
}

/// Uses content again, and unmarks it if gc was about to remove it; `NotFound` if gc has removed it.
fn reuse(conn: &Connection, id: i64) -> Result<i64> {
    let reused =
        conn.prepare_cached("UPDATE content SET unreferenced_at = NULL WHERE id = ?1")?.execute([id])?;
    if reused == 0 {
        return Err(StoreError::NotFound.into());
    }
    Ok(id)
}

/// Returns the content with this hash, and unmarks it if gc was about to remove it.
fn find_by_hash(conn: &Connection, hash: Hash) -> Result<Option<i64>> {
    let mut statement = conn
        .prepare_cached("SELECT id, unreferenced_at IS NOT NULL FROM content WHERE key = ?1 AND hash = ?2")?;
    let found = statement
        .query_row(params![hash_key(hash), hash.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((id, is_unreferenced)) = found else { return Ok(None) };
    if is_unreferenced {
        conn.prepare_cached("UPDATE content SET unreferenced_at = NULL WHERE id = ?1")?.execute([id])?;
    }
    Ok(Some(id))
}

/// The chunks of a content, in order; the content itself if it isn't in chunks.
pub(crate) fn chunks(conn: &Connection, content: Option<i64>, size: i64) -> Result<Vec<Chunk>> {
    let Some(content) = content else { return chunks_without_content(size) };
    let to_chunk =
        |row: &rusqlite::Row<'_>| Ok(Chunk { id: row.get(0)?, hash: Hash::from_bytes(row.get(1)?) });
    let chunks = if size <= CHUNK_SIZE as i64 {
        conn.prepare_cached("SELECT id, hash FROM content WHERE id = ?1")?
            .query_map([content], to_chunk)?
            .collect::<rusqlite::Result<Vec<_>>>()?
    } else {
        conn.prepare_cached(
            "SELECT c.id, c.hash FROM content l JOIN json_each(l.parts) p JOIN content c ON c.id = p.value
             WHERE l.id = ?1 ORDER BY p.key",
        )?
        .query_map([content], to_chunk)?
        .collect::<rusqlite::Result<Vec<_>>>()?
    };
    if chunks.len() == size.cast_unsigned().div_ceil(CHUNK_SIZE as u64) as usize {
        Ok(chunks)
    } else {
        Err(corrupt("a chunk of a file is missing"))
    }
}

/// Passes a chunk's bytes to `read` without copying them. Fails if they don't match their hash.
pub(crate) fn with_bytes<T>(conn: &Connection, id: i64, read: impl FnOnce(&[u8]) -> T) -> Result<T> {
    with_hashed(conn, id, |bytes, _| read(bytes))
}

/// Like [`with_bytes`], and also passes their hash.
pub(crate) fn with_hashed<T>(conn: &Connection, id: i64, read: impl FnOnce(&[u8], Hash) -> T) -> Result<T> {
    let mut statement = conn.prepare_cached("SELECT hash, data FROM content WHERE id = ?1")?;
    let mut rows = statement.query([id])?;
    let row = rows.next()?.ok_or_else(missing_content_error)?;
    match row.get_ref(1)? {
        ValueRef::Blob(bytes) => Ok(read(bytes, check_hash(row.get_ref(0)?, bytes)?)),
        _ => Err(missing_content_error()),
    }
}

/// Checks bytes against the column `hash` of their row, and returns the hash.
///
/// The database file has no checksums of its own. This check keeps a damaged disk from returning other bytes than were
/// written.
pub(crate) fn check_hash(column: ValueRef<'_>, bytes: &[u8]) -> Result<Hash> {
    let hash = blake3::hash(bytes);
    if column.as_blob().is_ok_and(|stored| stored == hash.as_bytes()) {
        Ok(hash)
    } else {
        Err(damaged_content_error())
    }
}

/// Checks the hashes of all chunks of a content against the hash of its list.
pub(crate) fn check_list(expected: Hash, chunks: impl Iterator<Item = Hash>) -> Result<()> {
    if list_hash(chunks) == expected { Ok(()) } else { Err(damaged_content_error()) }
}

/// The error for content that doesn't match its hash.
fn damaged_content_error() -> DatabaseError {
    corrupt("its content doesn't match its hash")
}

/// Where the bytes of a content are.
#[derive(Debug)]
pub(crate) struct ContentLayout {
    /// The ids of its chunks, in order; only its own id if it isn't in chunks.
    pub(crate) chunk_ids: Vec<i64>,
    /// The hash of the list of chunks, if there is one.
    pub(crate) list_hash: Option<Hash>,
}

/// Parses the column `parts`: the ids of the chunks.
pub(crate) fn part_ids(parts: &str) -> Result<Vec<i64>> {
    serde_json::from_str(parts).map_err(|_| corrupt("the list of a file's chunks can't be read"))
}

/// Reads a whole content.
pub(crate) fn read_whole(conn: &Connection, content: Option<i64>, size: i64) -> Result<Vec<u8>> {
    read_layout(conn, &layout(conn, content, size)?, size)
}

/// Reads a whole content chunk by chunk, and checks each chunk and then the list of them.
pub(crate) fn read_layout(conn: &Connection, layout: &ContentLayout, size: i64) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    let mut hashes = Vec::with_capacity(layout.chunk_ids.len());
    for &id in &layout.chunk_ids {
        with_hashed(conn, id, |piece, hash| {
            bytes.extend_from_slice(piece);
            hashes.push(hash);
        })?;
    }
    layout.list_hash.map_or(Ok(()), |list| check_list(list, hashes.into_iter()))?;
    check_length(bytes, size)
}

/// Returns the bytes if their number is the one in the catalog.
pub(crate) fn check_length(bytes: Vec<u8>, size: i64) -> Result<Vec<u8>> {
    if bytes.len() as i64 == size { Ok(bytes) } else { Err(corrupt("a file's content has the wrong length")) }
}

/// Looks up where the bytes of a content are.
pub(crate) fn layout(conn: &Connection, content: Option<i64>, size: i64) -> Result<ContentLayout> {
    let Some(content) = content else {
        return Ok(ContentLayout { chunk_ids: chunks_without_content(size)?, list_hash: None });
    };
    if size <= CHUNK_SIZE as i64 {
        return Ok(ContentLayout { chunk_ids: vec![content], list_hash: None });
    }
    let mut statement = conn.prepare_cached("SELECT parts, hash FROM content WHERE id = ?1")?;
    let mut rows = statement.query([content])?;
    let row = rows.next()?.ok_or_else(missing_content_error)?;
    chunk_layout(row.get_ref(0)?, row.get_ref(1)?, size)
}

/// The chunks of a content of this size, from the columns `parts` and `hash` of its row.
pub(crate) fn chunk_layout(parts: ValueRef<'_>, hash: ValueRef<'_>, size: i64) -> Result<ContentLayout> {
    let ids = part_ids(parts.as_str().unwrap_or_default())?;
    let list = hash.as_blob().ok().and_then(|hash| Hash::from_slice(hash).ok());
    match list {
        Some(list) if ids.len() as u64 == size.cast_unsigned().div_ceil(CHUNK_SIZE as u64) => {
            Ok(ContentLayout { chunk_ids: ids, list_hash: Some(list) })
        }
        _ => Err(corrupt("a chunk of a file is missing")),
    }
}

/// The error for content that something refers to and that doesn't exist.
pub(crate) fn missing_content_error() -> DatabaseError {
    corrupt("the content of a file is missing")
}

/// The error for a file whose content isn't stored: retention has removed it, or a capture has left it out.
pub(crate) fn content_not_kept_error() -> StoreError {
    StoreError::Expired("its content at that version is no longer kept".into())
}

/// Without a content id, a file has no bytes or, if its size isn't 0, its content isn't stored.
fn chunks_without_content<T>(size: i64) -> Result<Vec<T>> {
    if size == 0 {
        return Ok(Vec::new());
    }
    Err(content_not_kept_error().into())
}

/// Splits a range into pieces of one chunk each: the chunk's index, the offset in it, and the part of the range.
pub(crate) fn chunk_pieces(offset: u64, length: usize) -> impl Iterator<Item = (usize, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let position = offset + done as u64;
        let skip = (position % CHUNK_SIZE as u64) as usize;
        let begin = done;
        done += (length - done).min(CHUNK_SIZE - skip);
        Some(((position / CHUNK_SIZE as u64) as usize, skip, begin..done))
    })
}
