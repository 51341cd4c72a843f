//! Ties an audit directory to one database.
//!
//! If two databases shared a directory, each would lack the records of the other, and every check would report them as
//! missing. So the file `database` in the directory holds the identity of its database.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use rusqlite::OptionalExtension;
use stead_core::{StoreError, StoreResult};
use uuid::Uuid;

use crate::audit::directory::AuditDirectory;
use crate::audit::spool::unwritable_error;
use crate::database::DatabaseInner;
use crate::database::error::Result;
use crate::database::group_commit::CommitSync;
use crate::database::schema::IDENTITY;

/// The message where the directory belongs to another database.
pub(crate) const OTHER_DATABASE: &str = "the state directory has the audit of another database; name that database in \
     [database], or move it to the file that is named there; if it is lost, restore a backup, or move `audit` out of the \
     state directory; a second database needs a stead.toml in a directory of its own";

impl AuditDirectory {
    /// Fails if this directory belongs to another database. If it belongs to none, it belongs to this one from now on.
    pub(crate) fn claim(&self, database: &DatabaseInner) -> StoreResult<()> {
        let identity = identity_of(database)?;
        if self.owner()?.is_none() {
            // The database first: if a power cut took a new database but not this file, the next one would be refused.
            database.write_reserved(CommitSync::Always, move |transaction| {
                let sql = "UPDATE meta SET value = ?2 WHERE id = ?1";
                transaction.conn.execute(sql, [IDENTITY, identity])?;
                Ok(())
            })?;
            self.write_owner(identity).map_err(|error| unwritable_error(&error))?;
        }
        match self.belongs_to(database)? {
            true => Ok(()),
            false => Err(StoreError::Invalid(OTHER_DATABASE.into())),
        }
    }

    /// Whether this directory may be used with this database: it belongs to it, or to none yet.
    pub(crate) fn belongs_to(&self, database: &DatabaseInner) -> StoreResult<bool> {
        let Some(owner) = self.owner()? else { return Ok(true) };
        Ok(identity_of(database)? == owner)
    }

    /// Gives the database the identity of the one that this directory belongs to, if it belongs to any.
    pub(crate) fn adopt(&self, database: &DatabaseInner) -> StoreResult<()> {
        let Some(owner) = self.owner()? else { return Ok(()) };
        if identity_of(database)? == owner {
            return Ok(());
        }
        database.write_reserved(CommitSync::Always, move |transaction| {
            transaction.conn.execute("UPDATE meta SET value = ?2 WHERE id = ?1", [IDENTITY, owner])?;
            Ok(())
        })
    }

    /// The identity of the database that this directory belongs to. A file that a power cut has torn counts as missing.
    fn owner(&self) -> StoreResult<Option<i64>> {
        match fs::read_to_string(self.owner_file()) {
            Ok(text) => Ok(text.strip_suffix('\n').and_then(|text| text.parse().ok())),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => Ok(None),
            Err(error) => Err(unwritable_error(&error)),
        }
    }

    /// Writes the file, unless another process has written it meanwhile.
    fn write_owner(&self, identity: i64) -> io::Result<()> {
        let temporary = self.path().join(format!("database-{}", Uuid::now_v7()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(format!("{identity}\n").as_bytes())?;
        if matches!(self.owner(), Ok(None)) {
            let _ = fs::remove_file(self.owner_file());
        }
        let linked = fs::hard_link(&temporary, self.owner_file());
        fs::remove_file(&temporary)?;
        match linked {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    fn owner_file(&self) -> PathBuf {
        self.path().join("database")
    }
}

fn identity_of(database: &DatabaseInner) -> StoreResult<i64> {
    let read = || -> Result<Option<i64>> {
        let reader = database.reader()?;
        let mut statement = reader.prepare_cached("SELECT value FROM meta WHERE id = ?1")?;
        Ok(statement.query_row([IDENTITY], |row| row.get(0)).optional()?)
    };
    read()?.ok_or_else(|| StoreError::Corrupt("the database has no identity".into()))
}
