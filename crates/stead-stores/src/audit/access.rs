//! The audit for readers: queries, checks and archives it, and never adds a record of its own.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use stead_core::{StoreError, StoreResult, Timestamp};

use crate::audit::archive::{self, Archived};
use crate::audit::archive_index::ArchiveLookup;
use crate::audit::body::AuditEntry;
use crate::audit::directory::AuditDirectory;
use crate::audit::directory_owner::OTHER_DATABASE;
use crate::audit::head::hex;
use crate::audit::query::{self, AuditCursor, AuditFollower, AuditPage, AuditQuery};
use crate::audit::recover::recover;
use crate::audit::verify::{self, AuditVerified};
use crate::database::Database;
use crate::database::DatabaseInner;

/// The audit of a database, to be queried, checked and archived.
#[derive(Debug)]
pub struct AuditAccess {
    database: Arc<DatabaseInner>,
    directory: AuditDirectory,
    problems: Vec<String>,
}

impl AuditAccess {
    /// Opens the audit of a database, with its files in `directory`. Records that killed processes left there are moved
    /// into the database first, unless a table for them is missing, which [`AuditAccess::verify`] reports. With a
    /// read-only database, or without a key, they stay where they are. They also stay if the directory belongs to another
    /// database, which is one of the problems then.
    pub fn open(database: &Database, directory: &Path) -> StoreResult<Self> {
        let (inner, audit_directory) = (Arc::clone(&database.0), AuditDirectory::existing(directory));
        if !audit_directory.belongs_to(&inner)? {
            let problems = vec![OTHER_DATABASE.to_owned()];
            return Ok(AuditAccess { database: inner, directory: audit_directory, problems });
        }
        let has_all_tables = verify::missing_tables(&*inner.reader()?)?.is_empty();
        let problems = match (has_all_tables, database.is_read_only(), audit_directory.existing_key()?) {
            (true, false, Some(key)) => recover(&inner, &audit_directory, &key)?,
            _ => Vec::new(),
        };
        Ok(AuditAccess { database: inner, directory: audit_directory, problems })
    }

    /// The problems with the directory and with what killed processes had left in it, one sentence each.
    pub fn problems_at_open(&self) -> &[String] {
        &self.problems
    }

    /// The public key that signs here, in hexadecimal; `None` if nothing was signed yet.
    pub fn key(&self) -> StoreResult<Option<String>> {
        Ok(self.directory.existing_key()?.map(|key| hex::text(&key.public())))
    }

    /// Returns the newest records that match a query or, with the cursor of a page, those before that page's end.
    pub fn page(
        &self,
        query: &AuditQuery,
        cursor: Option<AuditCursor>,
        limit: usize,
    ) -> StoreResult<AuditPage> {
        query::page(&self.database, query, cursor, limit)
    }

    /// Visits all records that match a query, oldest first. Damaged records that may match aren't visited; they are
    /// returned, one sentence each.
    pub fn each(
        &self,
        query: &AuditQuery,
        visit: &mut dyn FnMut(&AuditEntry) -> ControlFlow<()>,
    ) -> StoreResult<Vec<String>> {
        query::each_entry(&self.database, query, visit)
    }

    /// Returns records as they are added, after the record with this id; from now on if `after` is `None`.
    pub fn follow(&self, query: AuditQuery, after: Option<i64>) -> StoreResult<AuditFollower<'_>> {
        AuditFollower::new(&self.database, query, after)
    }

    /// Checks every chain against its hashes and signed heads, the archives, and the revisions against their records.
    /// The report names the records that were changed or are missing.
    pub fn verify(
        &self,
        archives: &ArchiveLookup,
        progress: &mut dyn FnMut(u64),
    ) -> StoreResult<AuditVerified> {
        let mut verified = verify::verify(&self.database, &self.directory, archives, progress)?;
        if !self.directory.belongs_to(&self.database)? {
            verified.problems.insert(0, OTHER_DATABASE.to_owned());
        }
        Ok(verified)
    }

    /// Moves records of calls before `before` into a new file in `directory`, as far as this audit's own key has signed
    /// them.
    pub fn archive(&self, before: Timestamp, directory: &Path) -> StoreResult<Archived> {
        if !self.directory.belongs_to(&self.database)? {
            return Err(StoreError::Invalid(OTHER_DATABASE.into()));
        }
        match self.directory.existing_key()? {
            Some(key) => archive::archive(&self.database, &self.directory, &key, before, directory),
            None => Ok(Archived { records: 0, file: None }),
        }
    }
}
