//! Visits the keys of a namespace in order, from any key on, without reading values.

use std::ops::ControlFlow;

use crate::name::Name;
use crate::store::{Attr, NodeKind, NodePath, Page, Store, StoreError, StoreResult};
use crate::vfs::state::key::{Key, chunk_of, decode, directory_name, first_chunk};

/// How many names are listed at a time.
const PAGE: usize = 256;

/// Where a scan begins, as an encoded key.
#[derive(Debug, Clone)]
enum Start {
    /// At the first key.
    First,
    /// At this key.
    From(Vec<u8>),
    /// After this key.
    After(Vec<u8>),
}

/// Gets each key, where it is, and the attributes of its file.
type Visit<'a> = dyn FnMut(String, NodePath, &Attr) -> StoreResult<ControlFlow<()>> + 'a;

/// A scan of the keys of a namespace.
pub(super) struct KeyScan<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) visit: &'a mut Visit<'a>,
}

impl KeyScan<'_> {
    /// Visits the keys with a prefix, after a key if one is given, until the visitor ends the scan.
    pub(super) fn run(
        &mut self,
        namespace: &NodePath,
        prefix: Key<'_>,
        after: Option<Key<'_>>,
    ) -> StoreResult<()> {
        let (prefix, after) = (prefix.encode(), after.map(Key::encode));
        let start = match after {
            Some(after) if after.starts_with(&prefix) => Start::After(after),
            // All keys with the prefix are at or before this one.
            Some(after) if after > prefix => return Ok(()),
            _ if prefix.is_empty() => Start::First,
            _ => Start::From(prefix.clone()),
        };
        self.directory(namespace, &[], &prefix, start).map(drop)
    }

    /// Visits the keys in a directory. `chunks` is what the names of the directories above say of the keys; `prefix` and
    /// `start` are without it. A key that the scan starts at or after begins with the prefix.
    fn directory(
        &mut self,
        at: &NodePath,
        chunks: &[u8],
        prefix: &[u8],
        start: Start,
    ) -> StoreResult<ControlFlow<()>> {
        let below = |chunk: &[u8]| (at.join(&directory_name(chunk)), [chunks, chunk].concat());
        if let Some((chunk, rest_of_prefix)) = first_chunk(prefix) {
            let start = match start {
                Start::First => Start::First,
                Start::From(key) => Start::From(key[chunk.len()..].to_vec()),
                Start::After(key) => Start::After(key[chunk.len()..].to_vec()),
            };
            let (at, chunks) = below(chunk);
            return self.directory(&at, &chunks, rest_of_prefix, start);
        }
        let mut after = match &start {
            Start::First => None,
            Start::From(key) | Start::After(key) => match (first_chunk(key), &start) {
                (Some((chunk, rest)), _) => {
                    let rest = match start {
                        Start::After(_) => Start::After(rest.to_vec()),
                        _ => Start::From(rest.to_vec()),
                    };
                    let (directory, chunks) = below(chunk);
                    if self.directory(&directory, &chunks, &[], rest)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    Name::new(directory_name(chunk))
                }
                (None, Start::After(key)) => Name::new(key.clone()),
                (None, _) => just_below(key).and_then(Name::new),
            },
        };
        loop {
            let page = Page { after, limit: PAGE, hide: None };
            let listing = match self.store.list(at, &page) {
                Err(StoreError::NotFound | StoreError::NotADirectory) => {
                    return Ok(ControlFlow::Continue(()));
                }
                listing => listing?,
            };
            for entry in &listing.entries {
                let name = entry.name.as_bytes();
                if !name.starts_with(prefix) {
                    if name > prefix {
                        return Ok(ControlFlow::Continue(()));
                    }
                    continue;
                }
                let visited = match (entry.attr.kind, chunk_of(name)) {
                    (NodeKind::Directory, Some(chunk)) => {
                        let (at, chunks) = below(chunk);
                        self.directory(&at, &chunks, &[], Start::First)?
                    }
                    (NodeKind::File, None) => match decode(&[chunks, name].concat()) {
                        Some(key) => (self.visit)(key, at.join(name), &entry.attr)?,
                        None => ControlFlow::Continue(()),
                    },
                    _ => ControlFlow::Continue(()),
                };
                if visited.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            match listing.entries.last() {
                Some(last) if listing.more => after = Some(last.name.clone()),
                _ => return Ok(ControlFlow::Continue(())),
            }
        }
    }
}

/// A name below this encoded key, such that nothing that begins with the key is at or below that name; `None` for the
/// empty key.
fn just_below(key: &[u8]) -> Option<Vec<u8>> {
    let (last, rest) = key.split_last()?;
    // The byte before `0` is `/`, which no name contains.
    let before = if *last == b'0' { b'.' } else { last - 1 };
    Some([rest, &[before, 0xff]].concat())
}
