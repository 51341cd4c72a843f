//! The texts that a merge has combined: content in the database that nothing refers to yet, protected from gc.
//!
//! If the process dies, gc removes them after a day, like the chunks of any other draft.

use std::sync::Arc;

use rusqlite::params;
use stead_core::store::{ContentRef, MergeDrafts};
use stead_core::{Clock, StoreResult, SystemClock};

use crate::database::DatabaseInner;
use crate::database::group_commit::CommitSync;
use crate::virtual_store::VirtualStore;
use crate::virtual_store::content::{CHUNK_SIZE, PreparedContent};
use crate::virtual_store::draft::DraftPins;
use crate::virtual_store::history::VirtualContentRef;

/// The drafts of one merge. They are protected until this is dropped.
#[derive(Debug)]
pub(super) struct VirtualMergeDrafts {
    database: Arc<DatabaseInner>,
    pins: DraftPins,
}

impl VirtualMergeDrafts {
    pub(super) fn new(store: &VirtualStore) -> Self {
        let database = Arc::clone(store.database_inner());
        VirtualMergeDrafts { pins: DraftPins::new(&database), database }
    }
}

/// A text that is about to be stored.
enum Text {
    /// It fits into one row. Its hash was computed here, and not in the transaction, where all other writers would wait.
    Hashed(PreparedContent),
    InChunks(Vec<u8>),
}

impl MergeDrafts for VirtualMergeDrafts {
    fn store(&self, texts: Vec<Vec<u8>>) -> StoreResult<Vec<ContentRef>> {
        let sizes: Vec<u64> = texts.iter().map(|text| text.len() as u64).collect();
        let prepare = |text: Vec<u8>| match text.len() {
            0..=CHUNK_SIZE => Text::Hashed(PreparedContent::single(text)),
            _ => Text::InChunks(text),
        };
        let texts: Vec<Text> = texts.into_iter().map(prepare).collect();
        let (draft, now) = (self.pins.draft(), SystemClock.now().0);
        let stored = self.database.write(CommitSync::Deferred, move |transaction| {
            let mut stored = Vec::with_capacity(texts.len());
            for text in texts {
                let prepared = match text {
                    Text::Hashed(prepared) => prepared,
                    Text::InChunks(bytes) => PreparedContent::from_bytes(transaction.conn, bytes)?,
                };
                let id = prepared.store(transaction.conn)?;
                if let Some(id) = id {
                    transaction
                        .conn
                        .prepare_cached("INSERT OR IGNORE INTO pin(draft, content, at) VALUES (?1, ?2, ?3)")?
                        .execute(params![draft, id, now])?;
                }
                stored.push(id);
            }
            Ok(stored)
        })?;
        let to_ref = |(id, size)| VirtualContentRef::by_number(&self.database, id, size);
        Ok(stored.into_iter().zip(sizes).map(to_ref).collect())
    }
}
