//! The database's format: how a connection is set up, the tables are created, and other formats are refused.

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::cmp::Ordering;
use std::path::Path;
use std::time::Duration;
use stead_core::{StoreError, StoreResult};

use crate::Durability;
use crate::database::error::{DatabaseError, Result};
use crate::database::shm_vfs;
use crate::sync::{SyncPoint, is_left_out};
use crate::virtual_store::change::SUBTREE_TABLE;

/// The row of `meta` that counts moved and removed directories.
pub(crate) const DIR_EPOCH: i64 = 1;
/// The row of `meta` that holds the next free node.
pub(crate) const NEXT_NODE: i64 = 2;

/// The row of `meta` that holds the oldest version that can be read without a pin.
pub(crate) const HISTORY_FROM: i64 = 3;

/// The row of `meta` that holds the next snapshot's number.
pub(crate) const NEXT_SNAPSHOT: i64 = 4;

/// The row of `meta` that counts versions that have no record in the audit.
pub(crate) const UNRECORDED: i64 = 5;

/// The row of `meta` that holds up to where history was forgotten while the audit was off.
pub(crate) const FORGOTTEN_UNRECORDED: i64 = 6;

/// The row of `meta` that tells this database from others.
pub(crate) const IDENTITY: i64 = 7;

/// "Sted" in the database's header: the file is ours.
const APPLICATION_ID: i32 = 0x5374_6564;
/// The number of the present format. It changes whenever the schema does; other formats are refused.
const FORMAT: i64 = 22;
const SCHEMA: &str = include_str!("schema.sql");
/// How much a log grows before it is written back: 16 MiB.
const WAL_AUTOCHECKPOINT: &str = "PRAGMA wal_autocheckpoint = 4000";
/// Older ones can corrupt a database when its log is reset during a read.
const OLDEST_SQLITE: i32 = 3_051_003;
/// Every statement there is, and room to grow.
const STATEMENT_CACHE_SIZE: usize = 128;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionRole {
    Reader,
    /// Reads a file that nobody can change, since its file system is read-only.
    Immutable,
    Writer(Durability),
}

/// Opens a connection to the file, which is made if it is missing.
pub(crate) fn connect(path: &Path, role: ConnectionRole, wait_timeout: Duration) -> Result<Connection> {
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
    conn.busy_timeout(wait_timeout)?;
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
            other => write!(uri, "%{other:02x}").expect("writing to a String can't fail"),
        }
    }
    uri + "?immutable=1"
}

/// A connection to a database that lives as long as it.
pub(crate) fn connect_memory() -> Result<Connection> {
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
pub(crate) fn synchronous(durability: Durability) -> &'static str {
    match durability {
        Durability::Full if !is_left_out(SyncPoint::Commit) => "PRAGMA synchronous = FULL",
        Durability::Full | Durability::Fast => "PRAGMA synchronous = NORMAL",
    }
}

/// Whether the database has the present format already; then this connection is ready for use.
pub(crate) fn is_prepared(conn: &Connection) -> StoreResult<bool> {
    let is_ready = is_current(conn)?;
    if is_ready {
        conn.execute_batch(WAL_AUTOCHECKPOINT).map_err(DatabaseError::from)?;
        make_temp_tables(conn)?;
    }
    Ok(is_ready)
}

/// Whether the database has the present format and is in WAL mode, which readers and a writer can share.
pub(crate) fn is_current(conn: &Connection) -> StoreResult<bool> {
    check_sqlite()?;
    let mode: String =
        conn.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(DatabaseError::from)?;
    Ok(mode == "wal" && check_format(conn)? == Format::Present)
}

/// Whether the database has the present format, in any journal mode.
pub(crate) fn has_format(conn: &Connection) -> StoreResult<bool> {
    check_sqlite()?;
    Ok(check_format(conn)? == Format::Present)
}

/// Whether the file holds no database yet.
pub(crate) fn is_empty(conn: &Connection) -> StoreResult<bool> {
    Ok(check_format(conn)? == Format::Empty)
}

/// Creates the tables in an empty database. If the database is a file, the caller holds the writer lock.
pub(crate) fn prepare(conn: &Connection) -> StoreResult<()> {
    check_sqlite()?;
    create_tables(conn)?;
    Ok(make_temp_tables(conn)?)
}

fn check_sqlite() -> StoreResult<()> {
    if rusqlite::version_number() < OLDEST_SQLITE {
        return Err(StoreError::unsupported(
            "this SQLite is older than 3.51.3 and can damage a database; use a newer one",
        ));
    }
    Ok(())
}

fn make_temp_tables(conn: &Connection) -> Result<()> {
    conn.execute_batch(SUBTREE_TABLE)?;
    Ok(())
}

fn create_tables(conn: &Connection) -> Result<()> {
    check_format(conn)?;
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if !["wal", "memory"].contains(&&*mode) {
        return Err(StoreError::unsupported("a database can't be shared safely on this file system").into());
    }
    conn.execute_batch(WAL_AUTOCHECKPOINT)?;
    conn.execute_batch("BEGIN IMMEDIATE")?;
    // Checked again inside the transaction: another process may have created the tables meanwhile.
    let created = check_format(conn).and_then(|format| {
        if format == Format::Empty {
            conn.execute_batch(SCHEMA)?;
            conn.pragma_update(None, "application_id", APPLICATION_ID)?;
            conn.pragma_update(None, "user_version", FORMAT)?;
        }
        Ok(())
    });
    conn.execute_batch(if created.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    created
}

/// Refuses a copy that isn't a Stead database of the present format.
pub(crate) fn check_copy(conn: &Connection) -> Result<()> {
    match check_format(conn)? {
        Format::Present => Ok(()),
        Format::Empty => Err(StoreError::Invalid("the file isn't a backup made by Stead".into()).into()),
    }
}

/// What [`check_format`] accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Empty,
    Present,
}

/// Refuses a database of another program, and one of another format.
fn check_format(conn: &Connection) -> Result<Format> {
    read_format(conn, || ())
}

/// [`check_format`], with something that a test does between the reads.
fn read_format(conn: &Connection, between: impl FnOnce()) -> Result<Format> {
    // One read transaction, so that the three numbers are of one moment: another process may be creating the tables.
    let _snapshot = if conn.is_autocommit() { Some(conn.unchecked_transaction()?) } else { None };
    let query_number = |sql| conn.query_row(sql, [], |row| row.get::<_, i64>(0));
    let (id, format) = (query_number("PRAGMA application_id")?, query_number("PRAGMA user_version")?);
    between();
    let has_no_tables = query_number("SELECT count(*) FROM sqlite_schema")? == 0;
    Ok(decide_format(id, format, has_no_tables)?)
}

/// Checks the beginning of a database file as [`check_format`] checks the open database. What is only in the WAL yet
/// isn't known here: a database that was just created looks empty.
///
/// The positions are those of SQLite's file format: <https://www.sqlite.org/fileformat2.html>.
pub(crate) fn check_file_start(start: &[u8]) -> StoreResult<()> {
    let number_at = |at: usize| Some(i32::from_be_bytes(start.get(at..at + 4)?.try_into().ok()?));
    let (Some(format), Some(id)) = (number_at(60), number_at(68)) else { return Ok(()) };
    // The table of all tables is on the first page: a leaf without cells is an empty table.
    let has_no_tables = start.get(100..105).is_none_or(|page| page[0] == 13 && page[3..5] == [0, 0]);
    decide_format(id.into(), format.into(), has_no_tables).map(drop)
}

fn decide_format(id: i64, format: i64, has_no_tables: bool) -> StoreResult<Format> {
    if id == i64::from(APPLICATION_ID) {
        match format.cmp(&FORMAT) {
            Ordering::Equal => Ok(Format::Present),
            Ordering::Greater => Err(StoreError::unsupported(
                "the database was made by a newer version of Stead; update Stead to open it",
            )),
            Ordering::Less => Err(StoreError::unsupported(
                "the database was made by an older version of Stead, whose format this version can't open; export its \
                 files with that version and import them here",
            )),
        }
    } else if has_no_tables && id == 0 && format == 0 {
        Ok(Format::Empty)
    } else {
        Err(StoreError::Invalid("the file is a database of another program; name another file".into()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::database::{Database, DatabaseOptions};

    #[test]
    fn the_start_of_a_file_shows_what_the_open_database_shows() {
        for (statements, expected) in [
            ("", ""),
            ("PRAGMA user_version = 14", "older version"),
            ("PRAGMA user_version = 1000", "newer version"),
            ("PRAGMA application_id = 7", "another program"),
            ("PRAGMA application_id = 0; PRAGMA user_version = 0", "another program"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("db");
            drop(Database::open(&path, DatabaseOptions::default()).unwrap());
            rusqlite::Connection::open(&path).unwrap().execute_batch(statements).unwrap();
            let start = std::fs::read(&path).unwrap();
            let problem = |result: StoreResult<()>| result.err().map(|error| error.to_string());
            let from_file = problem(check_file_start(&start[..Database::FILE_START_LENGTH]));
            let opened = Database::open(&path, DatabaseOptions::default()).map(drop);
            assert_eq!(from_file, problem(opened), "{statements}");
            assert!(from_file.unwrap_or_default().contains(expected), "{statements}");
        }
        let directory = tempfile::tempdir().unwrap();
        let empty = directory.path().join("empty");
        let statements = "CREATE TABLE t (a); DROP TABLE t";
        rusqlite::Connection::open(&empty).unwrap().execute_batch(statements).unwrap();
        check_file_start(&std::fs::read(&empty).unwrap()).unwrap();
        check_file_start(b"SQLite format 3\0").unwrap();
    }

    #[test]
    fn the_format_is_read_at_one_moment_while_another_process_creates_the_tables() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let role = ConnectionRole::Writer(Durability::Fast);
        let [creator, reader] = [(); 2].map(|()| connect(&path, role, Duration::from_secs(60)).unwrap());
        creator.execute_batch("PRAGMA journal_mode = WAL").unwrap();
        let format = read_format(&reader, || prepare(&creator).unwrap());
        assert_eq!(
            format.map_err(StoreError::from).unwrap(),
            Format::Empty,
            "as it was when the check began"
        );
        assert!(is_current(&reader).unwrap(), "the next check sees the tables");
    }

    #[test]
    fn an_older_and_a_newer_format_are_refused_and_left_as_they_are() {
        for (format, expected) in [(FORMAT - 1, "older version"), (FORMAT + 1, "newer version")] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("db");
            drop(Database::open(&path, DatabaseOptions::default()).unwrap());
            let set_format = |format: i64| {
                let conn = connect(&path, ConnectionRole::Writer(Durability::Fast), Duration::ZERO).unwrap();
                conn.pragma_update(None, "user_version", format).unwrap();
            };
            set_format(format);
            for _ in 0..2 {
                let error = Database::open(&path, DatabaseOptions::default()).unwrap_err().to_string();
                assert!(error.contains(expected), "{error}");
            }
            set_format(FORMAT);
            Database::open(&path, DatabaseOptions::default()).unwrap();
        }
    }
}
