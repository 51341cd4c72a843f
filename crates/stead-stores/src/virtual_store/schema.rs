//! The database's format, and how an older one becomes the present one.

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;
use stead_core::{StoreError, StoreResult};

use super::change::SUBTREE_TABLE;
use super::error::{DatabaseError, Result};
use super::shm_vfs;
use crate::Durability;
use crate::sync::{SyncPoint, is_left_out};

/// The row of `meta` that counts moved and removed directories.
pub(super) const DIR_EPOCH: i64 = 1;
/// The row of `meta` that holds the next free node.
pub(super) const NEXT_NODE: i64 = 2;

/// The row of `meta` that holds the oldest version that can be read without a pin.
pub(super) const HISTORY_FROM: i64 = 3;

/// The row of `meta` that holds the next snapshot's number.
pub(super) const NEXT_SNAPSHOT: i64 = 4;

/// The row of `meta` that counts versions that have no record in the audit.
pub(super) const UNRECORDED: i64 = 5;

/// The row of `meta` that holds up to where history was forgotten while the audit was off.
pub(super) const FORGOTTEN_UNRECORDED: i64 = 6;

/// "Sted" in the database's header: the file is ours.
const APPLICATION_ID: i32 = 0x5374_6564;
/// What makes format n + 1 out of format n, from an empty database on. Only ever appended to.
const MIGRATIONS: [&str; 12] = [
    include_str!("schema.sql"),
    include_str!("schema-2.sql"),
    include_str!("schema-3.sql"),
    include_str!("schema-4.sql"),
    include_str!("schema-5.sql"),
    include_str!("schema-6.sql"),
    include_str!("schema-7.sql"),
    include_str!("schema-8.sql"),
    include_str!("schema-9.sql"),
    include_str!("schema-10.sql"),
    include_str!("schema-11.sql"),
    include_str!("schema-12.sql"),
];
/// How much a log grows before it is written back: 16 MiB.
const WAL_AUTOCHECKPOINT: &str = "PRAGMA wal_autocheckpoint = 4000";
/// Older ones can corrupt a database when its log is reset during a read.
const OLDEST_SQLITE: i32 = 3_051_003;
/// Every statement there is, and room to grow.
const STATEMENT_CACHE_SIZE: usize = 128;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionRole {
    Reader,
    /// Reads a file that nobody can change, since its file system is read-only.
    Immutable,
    Writer(Durability),
}

/// Opens a connection to the file, which is made if it is missing.
pub(super) fn connect(path: &Path, role: ConnectionRole, patience: Duration) -> Result<Connection> {
    let conn = match role {
        ConnectionRole::Immutable => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(immutable_uri(path), flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?
        }
        ConnectionRole::Reader | ConnectionRole::Writer(_) => {
            // Without URI: a path is a path, also one that begins with `file:`.
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let flags =
                if role == ConnectionRole::Reader { flags } else { flags | OpenFlags::SQLITE_OPEN_CREATE };
            let conn = if shm_vfs::register() {
                Connection::open_with_flags_and_vfs(path, flags, shm_vfs::VFS_NAME)?
            } else {
                Connection::open_with_flags(path, flags)?
            };
            shm_vfs::keep_wal_files(&conn)?;
            conn
        }
    };
    // A net below the turnstile, for programs that know nothing of it.
    conn.busy_timeout(patience)?;
    configure(&conn, role)?;
    Ok(conn)
}

/// A path as a URI that says that nobody changes the file.
fn immutable_uri(path: &Path) -> String {
    use std::fmt::Write;
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => uri.push(byte.into()),
            other => write!(uri, "%{other:02x}").expect("a text takes all that is written"),
        }
    }
    uri + "?immutable=1"
}

/// A connection to a database that lives as long as it.
pub(super) fn connect_memory() -> Result<Connection> {
    let conn = Connection::open_in_memory()?;
    configure(&conn, ConnectionRole::Writer(Durability::Fast))?;
    Ok(conn)
}

fn configure(conn: &Connection, role: ConnectionRole) -> Result<()> {
    conn.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
    // Otherwise the planner looks at bound values, and plans a statement again whenever one has changed: ten times the
    // cost of the statement itself.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // The page size has to be set before the first page is written, which the journal mode does.
    conn.execute_batch(
        "PRAGMA page_size = 4096; PRAGMA mmap_size = 0; PRAGMA foreign_keys = OFF; PRAGMA trusted_schema = OFF;
         PRAGMA temp_store = MEMORY;",
    )?;
    conn.execute_batch(match role {
        // It never writes the log, so the limit only says what is left of it where this is the last one to close.
        ConnectionRole::Reader => {
            "PRAGMA cache_size = -2048; PRAGMA query_only = ON; PRAGMA journal_size_limit = 0;"
        }
        ConnectionRole::Immutable => "PRAGMA cache_size = -2048; PRAGMA query_only = ON;",
        ConnectionRole::Writer(_) => "PRAGMA cache_size = -8192;",
    })?;
    if let ConnectionRole::Writer(durability) = role {
        conn.execute_batch(synchronous(durability))?;
    }
    Ok(())
}

/// What makes a connection sync as it has to.
pub(super) fn synchronous(durability: Durability) -> &'static str {
    match durability {
        Durability::Full if !is_left_out(SyncPoint::Commit) => "PRAGMA synchronous = FULL",
        Durability::Full | Durability::Fast => "PRAGMA synchronous = NORMAL",
    }
}

/// Whether the database has the present format already; then this connection is ready for use.
pub(super) fn is_prepared(conn: &Connection) -> StoreResult<bool> {
    let ready = is_current(conn)?;
    if ready {
        conn.execute_batch(WAL_AUTOCHECKPOINT).map_err(DatabaseError::from)?;
        make_temp_tables(conn)?;
    }
    Ok(ready)
}

/// Whether the format is the present one, in the mode that readers and a writer can share.
pub(super) fn is_current(conn: &Connection) -> StoreResult<bool> {
    check_sqlite()?;
    let mode: String =
        conn.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(DatabaseError::from)?;
    Ok(mode == "wal" && check_format(conn)? == MIGRATIONS.len())
}

/// Whether the format is the present one, whatever the mode.
pub(super) fn has_format(conn: &Connection) -> StoreResult<bool> {
    check_sqlite()?;
    Ok(check_format(conn)? == MIGRATIONS.len())
}

/// Whether nothing was ever put into the file.
pub(super) fn is_empty(conn: &Connection) -> StoreResult<bool> {
    Ok(check_format(conn)? == 0)
}

/// Brings the database to the present format. The caller has the turn to write, if the database is a file.
pub(super) fn prepare(conn: &Connection) -> StoreResult<()> {
    check_sqlite()?;
    migrate(conn)?;
    Ok(make_temp_tables(conn)?)
}

fn check_sqlite() -> StoreResult<()> {
    if rusqlite::version_number() < OLDEST_SQLITE {
        return Err(StoreError::Unsupported(
            "the SQLite in use is older than 3.51.3 and can damage a database",
        ));
    }
    Ok(())
}

fn make_temp_tables(conn: &Connection) -> Result<()> {
    conn.execute_batch(SUBTREE_TABLE)?;
    Ok(())
}

fn migrate(conn: &Connection) -> Result<()> {
    check_format(conn)?;
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if !["wal", "memory"].contains(&&*mode) {
        return Err(StoreError::Unsupported("a database can't be shared safely on this file system").into());
    }
    conn.execute_batch(WAL_AUTOCHECKPOINT)?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let migrated = check_format(conn).and_then(|format| {
        for migration in &MIGRATIONS[format..] {
            conn.execute_batch(migration)?;
        }
        if format < MIGRATIONS.len() {
            conn.pragma_update(None, "application_id", APPLICATION_ID)?;
            conn.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
        }
        Ok(())
    });
    conn.execute_batch(if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    migrated
}

/// Refuses a copy that is no database of ours.
pub(super) fn check_copy(conn: &Connection) -> Result<()> {
    if check_format(conn)? == 0 {
        return Err(StoreError::Invalid("the file is no backup of Stead's".into()).into());
    }
    Ok(())
}

/// Brings a copy that nobody else uses to the present format.
pub(super) fn migrate_copy(conn: &Connection) -> Result<()> {
    migrate(conn)
}

/// The format of the database, if it is ours and not newer than we are.
fn check_format(conn: &Connection) -> Result<usize> {
    let number = |sql| conn.query_row(sql, [], |row| row.get::<_, i64>(0));
    let (id, format) = (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
    let empty = number("SELECT count(*) FROM sqlite_schema")? == 0;
    if id == i64::from(APPLICATION_ID) {
        let format = usize::try_from(format).unwrap_or(usize::MAX);
        if format > MIGRATIONS.len() {
            let newer = "the database was made by a newer version of Stead; update Stead to open it";
            return Err(StoreError::Unsupported(newer).into());
        }
        Ok(format)
    } else if empty && id == 0 && format == 0 {
        Ok(0)
    } else {
        Err(StoreError::Invalid("the file is a database of another program; choose another".into()).into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stead_core::Store;
    use stead_core::store::{NodePath, StorePath};

    use super::super::{Database, DatabaseOptions};
    use super::*;

    /// A database as an earlier version left it, with a file in it.
    fn older(path: &Path, format: usize) {
        let conn = connect(path, ConnectionRole::Writer(Durability::Fast), Duration::ZERO).unwrap();
        conn.execute_batch("PRAGMA journal_mode = WAL").unwrap();
        for migration in &MIGRATIONS[..format] {
            conn.execute_batch(migration).unwrap();
        }
        conn.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        conn.pragma_update(None, "user_version", format as i64).unwrap();
        conn.execute_batch(
            r#"UPDATE meta SET value = 1025 WHERE id = 2;
               INSERT INTO volume(id, namespace, root) VALUES (1, '["old"]', 1);
               INSERT INTO entry VALUES (1, 0, x'', 1, 2, 493, 0, 0, 0, 0, NULL, 0);
               INSERT INTO entry VALUES (1, 1, CAST('f' AS BLOB), 2, 1, 420, 0, 0, 0, 0, NULL, 0);"#,
        )
        .unwrap();
        if format == 5 {
            let segments = "INSERT INTO audit_segment VALUES (1, 1, 5, 'a.jsonl'), (2, 3, 4, 'a.jsonl')";
            conn.execute_batch(segments).unwrap();
        }
    }

    #[test]
    fn archives_from_before_they_were_remembered_are() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        older(&path, 5);
        let database = Database::open(&path, DatabaseOptions::default()).unwrap();
        let sql = "SELECT file || records || length(hash) FROM audit_archive";
        let archive: String = database.0.reader().unwrap().query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(archive, "a.jsonl70");
    }

    #[test]
    fn an_older_format_is_brought_up_to_date() {
        for format in 1..MIGRATIONS.len() {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("db");
            older(&path, format);
            let database = Database::open(&path, DatabaseOptions::default()).unwrap();
            let store = database.store(["old"]).unwrap();
            let fork = store.fork_as(["fork"]).unwrap();
            let other = database.store(["other"]).unwrap();
            let place = NodePath::from_root(StorePath::from_checked("f"));
            for store in [&store, &fork] {
                assert_eq!(store.stat(&place).unwrap().node.0, 2, "format {format}");
            }
            assert!(other.stat(&place).is_err());
            assert_eq!(database.verify(&mut |_| ()).unwrap().problems, Vec::<String>::new());
        }
    }
}
