//! What the database remembers of its archives, and the removal of rows that only archived records needed.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, params};
use stead_core::StoreResult;
use uuid::Uuid;

use crate::audit::archive::{CheckedArchive, check_archive};
use crate::audit::directory::AuditDirectory;
use crate::audit::head::SignedHead;
use crate::audit::revision_check::RevisionCheck;
use crate::audit::verify::AuditVerified;
use crate::database::DatabaseInner;
use crate::database::error::Result;
use crate::database::group_commit::CommitSync;

/// A row of `audit_archive`: a file of archived records.
#[derive(Debug, Clone)]
pub(crate) struct ArchiveRow {
    pub(crate) file: String,
    /// The directory that the file was written to; empty if that was the audit's own archive directory.
    pub(crate) directory: String,
    pub(crate) at: String,
    pub(crate) records: u64,
    /// The BLAKE3 hash of the file; empty if it isn't known.
    pub(crate) hash: Vec<u8>,
}

impl ArchiveRow {
    pub(crate) fn insert(&self, conn: &Connection) -> Result<()> {
        let ArchiveRow { file, directory, at, records, hash } = self;
        let records = i64::try_from(*records).unwrap_or(i64::MAX);
        conn.prepare_cached(
            "INSERT INTO audit_archive(file, directory, at, records, hash) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![file, directory, at, records, hash])?;
        Ok(())
    }

    /// Returns all rows, sorted by file name.
    pub(crate) fn all(conn: &Connection) -> Result<Vec<ArchiveRow>> {
        let mut statement =
            conn.prepare("SELECT file, directory, at, records, hash FROM audit_archive ORDER BY file")?;
        let archives = statement.query_map([], |row| {
            Ok(ArchiveRow {
                file: row.get(0)?,
                directory: row.get(1)?,
                at: row.get(2)?,
                records: row.get::<_, i64>(3)?.cast_unsigned(),
                hash: row.get(4)?,
            })
        })?;
        Ok(archives.collect::<rusqlite::Result<_>>()?)
    }
}

/// Where a check looks for archives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveLookup {
    /// In the directory that each archive was written to, and in these directories.
    In(Vec<PathBuf>),
    /// Nowhere: the archives are stored elsewhere, and are checked there.
    Skip,
}

impl Default for ArchiveLookup {
    fn default() -> Self {
        ArchiveLookup::In(Vec::new())
    }
}

/// A row of `audit_segment`: a part of a chain that the database says is in an archive.
#[derive(Debug, Clone)]
pub(crate) struct ArchivedSegment {
    pub(crate) instance: Uuid,
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) file: String,
}

/// Checks that every archive exists, is unchanged, and holds the segments that the database says it holds.
pub(crate) fn verify_archives(
    archives: &[ArchiveRow],
    segments: &[ArchivedSegment],
    audit_directory: &AuditDirectory,
    other_directories: &[PathBuf],
    revision_check: Option<&RevisionCheck<'_>>,
    verified: &mut AuditVerified,
) {
    let mut segments_by_file: HashMap<&str, Vec<(i64, SignedHead)>> = HashMap::new();
    for archive in archives {
        let file = &archive.file;
        let directories = [audit_directory.archive_directory(&archive.directory)]
            .into_iter()
            .chain(other_directories.iter().cloned());
        let found = directories.map(|directory| directory.join(file)).find(|path| path.exists());
        let Some(path) = found else {
            let ArchiveRow { records, at, .. } = archive;
            verified.add_problem(format!(
                "the archive {file} with {records} records, written at {at}, isn't in the directory that it was \
                 written to; name its directory with --archives, or restore a copy of the file"
            ));
            continue;
        };
        verified.archives += 1;
        match check_archive_file(&path, archive, revision_check) {
            Ok(checked) => {
                for problem in checked.verified.problems {
                    verified.add_problem(format!("{file}: {problem}"));
                }
                segments_by_file.insert(file, checked.segments);
            }
            Err(error) => verified.add_problem(format!("the archive {file} can't be read: {}", error.kind())),
        }
    }
    for ArchivedSegment { instance, first, last, file } in segments {
        let is_listed = archives.iter().any(|archive| archive.file == *file);
        let contains_segment = |file_segments: &Vec<(i64, SignedHead)>| {
            let is_same_segment = |(start, head): &(i64, SignedHead)| {
                start == first && (head.instance, head.seq) == (*instance, *last)
            };
            file_segments.iter().any(is_same_segment)
        };
        // A missing archive was reported above.
        if !is_listed
            || segments_by_file.get(&**file).is_some_and(|file_segments| !contains_segment(file_segments))
        {
            verified.add_problem(format!(
                "the database says that records {first} to {last} of instance {instance} are in the archive {file}, \
                 but they aren't"
            ));
        }
    }
}

/// Checks an archive by itself, and that its hash is the one that the database remembers.
fn check_archive_file(
    path: &Path,
    archive: &ArchiveRow,
    revision_check: Option<&RevisionCheck<'_>>,
) -> io::Result<CheckedArchive> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    let is_unchanged = archive.hash.is_empty() || hasher.finalize().as_bytes()[..] == archive.hash[..];
    let mut checked = check_archive(path, revision_check.filter(|_| is_unchanged))?;
    if checked.verified.problems.is_empty() && !is_unchanged {
        checked.verified.add_problem("it differs from the file that was written".to_owned());
    }
    Ok(checked)
}

/// Removes the rows and the heads of instances that have ended and whose records are all in archives. The heads are
/// those in the file beside the database.
///
/// The archives hold signed heads of these instances, and the database continues to remember the archives.
pub(crate) fn forget_archived_instances(
    database: &Arc<DatabaseInner>,
    audit_directory: &AuditDirectory,
) -> StoreResult<()> {
    // In this order: an instance that isn't running now has ended, and the rows read afterwards hold its last position.
    let running = audit_directory.running_instances()?;
    let mut ended: HashMap<Uuid, i64> = HashMap::new();
    for head in audit_directory.ended_heads()? {
        let end = ended.entry(head.instance).or_default();
        *end = head.seq.max(*end);
    }
    let mut archived_instances = fully_archived(&*database.reader()?, &ended)?;
    archived_instances.retain(|(_, uuid)| !running.contains(uuid));
    if archived_instances.is_empty() {
        return Ok(());
    }
    let rows: Vec<i64> = archived_instances.iter().map(|(row, _)| *row).collect();
    // The heads outside first: a head without its row would look as if records were missing.
    audit_directory.forget_heads(&archived_instances.into_iter().map(|(_, uuid)| uuid).collect())?;
    database.write(CommitSync::Always, move |transaction| {
        for row in rows {
            for sql in [
                "DELETE FROM audit_segment WHERE instance = ?1",
                "DELETE FROM audit_head WHERE instance = ?1",
                "DELETE FROM audit_instance WHERE id = ?1",
            ] {
                transaction.conn.prepare_cached(sql)?.execute([row])?;
            }
        }
        let delete_unused_filters = "DELETE FROM audit_filter
            WHERE NOT EXISTS (SELECT 1 FROM audit WHERE id BETWEEN audit_filter.first AND audit_filter.last)";
        transaction.conn.prepare_cached(delete_unused_filters)?.execute([])?;
        Ok(())
    })
}

/// The instances (row id, UUID) whose records are all in archives. If an instance has a last head, its archived
/// segments must reach exactly that position.
fn fully_archived(conn: &Connection, ended: &HashMap<Uuid, i64>) -> Result<Vec<(i64, Uuid)>> {
    let mut statement = conn.prepare(
        "SELECT i.id, i.uuid, max(s.last) FROM audit_instance i JOIN audit_segment s ON s.instance = i.id
         GROUP BY i.id HAVING max(s.last) >= i.seq",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?)))?;
    let mut archived = Vec::new();
    for row in rows {
        let (id, uuid, last): (i64, String, i64) = row?;
        if let Ok(uuid) = Uuid::parse_str(&uuid)
            && ended.get(&uuid).is_none_or(|end| *end == last)
        {
            archived.push((id, uuid));
        }
    }
    Ok(archived)
}
