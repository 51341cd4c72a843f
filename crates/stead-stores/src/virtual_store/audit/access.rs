//! Looking at the audit, without being part of it.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use stead_core::{StoreResult, Timestamp};

use super::super::Database;
use super::super::database::DatabaseInner;
use super::archive::{self, Archived};
use super::archive_index::ArchiveLookup;
use super::body::AuditEntry;
use super::directory::AuditDirectory;
use super::head::hex;
use super::query::{self, AuditCursor, AuditFollower, AuditPage, AuditQuery};
use super::recover::recover;
use super::verify::{self, AuditVerified};

/// The audit of a database, to be asked, checked and archived.
#[derive(Debug)]
pub struct AuditAccess {
    database: Arc<DatabaseInner>,
    directory: AuditDirectory,
    problems: Vec<String>,
}

impl AuditAccess {
    /// The audit of a database, with what lies beside it in `directory`. What killed processes have left there is put
    /// into the database first, unless a table is gone that it belongs into: that is for [`AuditAccess::verify`] to tell.
    pub fn open(database: &Database, directory: &Path) -> StoreResult<Self> {
        let (shared, place) = (Arc::clone(&database.0), AuditDirectory::at(directory));
        let whole = verify::missing_tables(&*shared.reader()?)?.is_empty();
        let wrong = match (whole, database.is_read_only(), place.existing_key()?) {
            (true, false, Some(key)) => recover(&shared, &place, &key)?,
            _ => Vec::new(),
        };
        Ok(AuditAccess { database: shared, directory: place, problems: wrong })
    }

    /// What was wrong with what killed processes had left, a sentence each.
    pub fn problems_at_open(&self) -> &[String] {
        &self.problems
    }

    /// The public half of the key that signs here, in hexadecimal; `None` where nothing was signed yet.
    pub fn key(&self) -> StoreResult<Option<String>> {
        Ok(self.directory.existing_key()?.map(|key| hex::text(&key.public())))
    }

    /// The newest records that a query asks for, or, with the cursor of a page, those before it.
    pub fn page(
        &self,
        query: &AuditQuery,
        cursor: Option<AuditCursor>,
        limit: usize,
    ) -> StoreResult<AuditPage> {
        query::page(&self.database, query, cursor, limit)
    }

    /// All records that a query asks for, oldest first.
    pub fn each(
        &self,
        query: &AuditQuery,
        visit: &mut dyn FnMut(&AuditEntry) -> ControlFlow<()>,
    ) -> StoreResult<()> {
        query::each_entry(&self.database, query, visit)
    }

    /// Records as they come in, after the one with this id, or from now on.
    pub fn follow(&self, query: AuditQuery, after: Option<i64>) -> StoreResult<AuditFollower<'_>> {
        AuditFollower::new(&self.database, query, after)
    }

    /// Checks every chain against its hashes and its signed heads, and says which record is not as it was; and that the
    /// archives are there, and as they were.
    pub fn verify(
        &self,
        archives: &ArchiveLookup,
        progress: &mut dyn FnMut(u64),
    ) -> StoreResult<AuditVerified> {
        verify::verify(&self.database, &self.directory, archives, progress)
    }

    /// Moves records of calls before a moment into a file that is made in `directory`, as far as they are signed
    /// with this log's own key.
    pub fn archive(&self, before: Timestamp, directory: &Path) -> StoreResult<Archived> {
        match self.directory.existing_key()? {
            Some(key) => archive::archive(&self.database, &self.directory, &key, before, directory),
            None => Ok(Archived { records: 0, file: None }),
        }
    }
}
