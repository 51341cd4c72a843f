//! Compares revisions with the records of the changes that made them.
//!
//! Who made a revision is in its row, from which log and blame are read, and in the record, which can't be changed
//! without being noticed. So the row must agree with the record. The rows of what the revision did must agree too, while they
//! exist; so must the revision up to which retention has removed the history. Records in archives count as well.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension};
use stead_core::AuditOutcome;
use stead_core::name::escape_name;
use uuid::Uuid;

use crate::audit::body::AuditEntry;
use crate::audit::change_digest;
use crate::database::error::Result;
use crate::database::schema::{FORGOTTEN_UNRECORDED, HISTORY_FROM, UNRECORDED};

/// A text that every record with a revision contains, and the record of a gc, which says up to where history was removed.
const VERSION_KEY: &str = ",\"version\":";
/// A text that only the record of a restored backup contains.
const RESTORE_CALL: &str = ",\"call\":\"restore_backup\",";
/// Texts that only the records of calls that ended threads contain.
const THREAD_END_CALLS: [&str; 2] = [",\"call\":\"thread.destroy\",", ",\"call\":\"thread.sweep\","];
/// How many revisions without a record are reported one by one.
const MAX_LISTED: usize = 10;

/// The revisions of a database, to be compared with records.
pub(crate) struct RevisionCheck<'c> {
    conn: &'c Connection,
    /// Older revisions may have been removed by retention.
    history_from: i64,
    /// The newest revision that a restored backup made. Older ones may belong to the backup, or be gone with what it
    /// replaced.
    last_restored: i64,
    /// How many revisions were made by restored backups.
    restores: u64,
    /// When backups were restored, according to records.
    recorded_restores: RefCell<HashSet<String>>,
    /// The digest of the rows of each revision.
    digests: HashMap<i64, String>,
    /// How many revisions were made while the audit was off.
    unrecorded: i64,
    /// Up to which revision history was removed while the audit was off.
    forgotten_unrecorded: i64,
    /// The revisions that have a record, each with the number of earlier ones without a record.
    recorded: RefCell<BTreeMap<i64, i64>>,
    /// Up to which revision history was removed, according to records.
    forgotten: RefCell<i64>,
    /// The agents and threads whose end has a record.
    ended_threads: RefCell<HashSet<(String, String)>>,
}

/// A row of `revision` without its number and time.
#[derive(Debug, PartialEq, Eq)]
struct RevisionRow {
    operation: Option<Uuid>,
    agent: String,
    thread: Option<String>,
    organization: Option<String>,
    team: Option<String>,
    tool: String,
}

impl<'c> RevisionCheck<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Result<Self> {
        let query_number = |sql: &str| -> Result<i64> { Ok(conn.query_row(sql, [], |row| row.get(0))?) };
        let meta =
            |id: i64| query_number(&format!("SELECT ifnull((SELECT value FROM meta WHERE id = {id}), 0)"));
        let restores = "FROM revision WHERE tool = 'restore-backup' AND agent = 'operator'";
        Ok(RevisionCheck {
            conn,
            history_from: meta(HISTORY_FROM)?,
            last_restored: query_number(&format!("SELECT ifnull(max(id), 0) {restores}"))?,
            restores: query_number(&format!("SELECT count(*) {restores}"))?.cast_unsigned(),
            recorded_restores: RefCell::default(),
            digests: change_digest::all_digests(conn)?,
            unrecorded: meta(UNRECORDED)?,
            forgotten_unrecorded: meta(FORGOTTEN_UNRECORDED)?,
            recorded: RefCell::default(),
            forgotten: RefCell::default(),
            ended_threads: RefCell::default(),
        })
    }

    /// Reports what the database says and no record does: revisions that should have a record, and removed history.
    /// Call it after every record was passed to `compare_record`.
    pub(crate) fn unrecorded_problems(&self) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        let forgotten = self.forgotten_unrecorded.max(*self.forgotten.borrow()).max(self.last_restored);
        if self.history_from > forgotten {
            problems.push(format!(
                "the database says that history up to version {} was removed, but there is no record of such a gc",
                self.history_from
            ));
        }
        let recorded = self.recorded.borrow();
        // Revisions that only captures or mirrors of a directory made have no rows from which the log is read.
        let sql = "SELECT id, agent, tool FROM revision WHERE id > ?1 AND id IN (
                     SELECT revision FROM ledger_event UNION SELECT revision FROM empty_revision
                     UNION SELECT revision FROM node_change WHERE volume NOT IN (SELECT volume FROM capture_volume
                       UNION SELECT id FROM volume WHERE substr(namespace, 1, 10) = '{\"mirror\":')) ORDER BY id";
        let mut statement = self.conn.prepare(sql)?;
        let mut rows = statement.query([self.last_restored])?;
        let (mut count, mut listed) = (0, 0);
        while let Some(row) = rows.next()? {
            let (revision, agent, tool): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            if recorded.contains_key(&revision) {
                continue;
            }
            count += 1;
            // The next revision with a record says how many before it have none.
            let unrecorded =
                recorded.range(revision..).next().map_or(self.unrecorded, |(_, unrecorded)| *unrecorded);
            if count > unrecorded && listed < MAX_LISTED {
                listed += 1;
                problems.push(format!(
                    "version {revision} (agent `{}`, tool `{}`) has no record, although the audit was on",
                    escape_name(agent.as_bytes()),
                    escape_name(tool.as_bytes())
                ));
            }
        }
        problems.extend(self.forgotten_problems()?);
        Ok(problems)
    }

    /// Reports events that count as those of an ended thread, although no record says that such a thread has ended.
    fn forgotten_problems(&self) -> Result<Vec<String>> {
        let mut statement = self.conn.prepare("SELECT agent, name FROM thread WHERE ending IS NOT NULL")?;
        let ending = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut ended = ending.collect::<rusqlite::Result<HashSet<(String, String)>>>()?;
        ended.extend(self.ended_threads.borrow().iter().cloned());
        let sql = "SELECT revision, path, other_path FROM forgotten_event WHERE revision > ?1 ORDER BY revision, seq";
        let mut statement = self.conn.prepare(sql)?;
        let mut rows = statement.query([self.forgotten_unrecorded])?;
        let mut problems = Vec::new();
        while let Some(row) = rows.next()? {
            let paths = [Some(row.get::<_, Vec<u8>>(1)?), row.get(2)?];
            let is_of_ended = |path: &Vec<u8>| {
                thread_names(path)
                    .any(|(agent, thread)| ended.contains(&(agent.to_owned(), thread.to_owned())))
            };
            let [path, _] = &paths;
            if !paths.iter().flatten().all(is_of_ended) && problems.len() < MAX_LISTED {
                problems.push(format!(
                    "what version {} did to {} counts as forgotten with a thread, but there is no record of the thread's end",
                    row.get::<_, i64>(0)?,
                    escape_name(path.as_deref().unwrap_or_default())
                ));
            }
        }
        Ok(problems)
    }

    /// Reports if the database has more revisions of restored backups than there are records of them. Call it after
    /// every record was passed to `compare_record`.
    pub(crate) fn excess_restores_problem(&self) -> Option<String> {
        let recorded_count = self.recorded_restores.borrow().len() as u64;
        (self.restores > recorded_count).then(|| {
            format!(
                "the database has {} versions of restored backups, but there are records of {recorded_count}",
                self.restores
            )
        })
    }

    /// Remembers a record, and says how the revision that it names differs from it; `None` if it doesn't.
    pub(crate) fn compare_record(&self, body: &str) -> Result<Option<String>> {
        if body.contains(RESTORE_CALL)
            && let Ok(entry) = AuditEntry::parse(0, body)
        {
            self.recorded_restores.borrow_mut().insert(entry.at);
        }
        if THREAD_END_CALLS.iter().any(|call| body.contains(call))
            && let Ok(AuditEntry { agent, thread: Some(thread), outcome, .. }) = AuditEntry::parse(0, body)
            && outcome == AuditOutcome::Ok.as_str()
        {
            self.ended_threads.borrow_mut().insert((agent, thread));
        }
        if !body.contains(VERSION_KEY) {
            return Ok(None);
        }
        let Ok(entry) = AuditEntry::parse(0, body) else { return Ok(None) };
        let Some(revision) = entry.version else { return Ok(None) };
        let Some(operation) = entry.operation else {
            if entry.call == "gc" {
                let mut forgotten = self.forgotten.borrow_mut();
                *forgotten = revision.max(*forgotten);
            }
            return Ok(None);
        };
        self.recorded.borrow_mut().insert(revision, entry.unrecorded);
        let operation = Uuid::from_bytes(*operation.as_bytes());
        let row = self.load_row(revision)?;
        let Some(row) = row.filter(|row| row.operation == Some(operation) || revision > self.last_restored)
        else {
            let may_be_missing = revision < self.history_from || revision <= self.last_restored;
            return Ok((!may_be_missing).then(|| format!("its version {revision} is missing")));
        };
        let recorded = RevisionRow {
            operation: Some(operation),
            agent: entry.agent,
            thread: entry.thread,
            organization: entry.organization,
            team: entry.team,
            tool: entry.call,
        };
        if row != recorded {
            return Ok(Some(format!(
                "its version {revision} has other values in the database: {}",
                row.differences(&recorded)
            )));
        }
        // Rows of older revisions may be removed in part. A revision without rows was undone by recovery, or its volume
        // is gone.
        let is_complete = revision > self.history_from;
        let digest = self.digests.get(&revision).filter(|_| is_complete);
        Ok(match (digest, &entry.did) {
            (Some(digest), Some(recorded_digest)) if digest != recorded_digest => {
                Some(format!("the changes of its version {revision} differ from the record"))
            }
            _ => None,
        })
    }

    fn load_row(&self, revision: i64) -> Result<Option<RevisionRow>> {
        let sql = "SELECT operation, agent, thread, organization, team, tool FROM revision WHERE id = ?1";
        let row = self.conn.prepare_cached(sql)?.query_row([revision], |row| {
            let operation: Vec<u8> = row.get(0)?;
            Ok(RevisionRow {
                operation: Uuid::from_slice(&operation).ok(),
                agent: row.get(1)?,
                thread: row.get(2)?,
                organization: row.get(3)?,
                team: row.get(4)?,
                tool: row.get(5)?,
            })
        });
        Ok(row.optional()?)
    }
}

/// The agents and threads in whose directories, `threads/AGENT/THREAD`, a path may be.
fn thread_names(path: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let names: Vec<&str> = std::str::from_utf8(path).unwrap_or_default().split('/').collect();
    (0..names.len()).filter_map(move |at| match names[at..] {
        ["threads", agent, thread, ..] => Some((agent, thread)),
        _ => None,
    })
}

impl RevisionRow {
    /// The names of the fields that differ.
    fn differences(&self, recorded: &RevisionRow) -> String {
        let differing = [
            ("operation", self.operation != recorded.operation),
            ("agent", self.agent != recorded.agent),
            ("thread", self.thread != recorded.thread),
            ("organization", self.organization != recorded.organization),
            ("team", self.team != recorded.team),
            ("tool", self.tool != recorded.tool),
        ];
        let names: Vec<_> = differing.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name).collect();
        names.join(", ")
    }
}
