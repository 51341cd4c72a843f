//! Asking the audit.

use std::thread;
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use stead_core::{OperationId, StoreResult, Timestamp, VfsPath};

use super::super::database::Shared;
use super::super::fault::{Result, corrupt};
use super::body::{AuditEntry, time_text};

/// After how many seconds a record comes late, as the index of those has it.
const LATE: i64 = 60;
/// How many of the newest records are looked at one by one before an index is asked.
const RECENT: usize = 4_000;
/// How often someone who follows looks whether there is more.
const LOOK: Duration = Duration::from_millis(100);

/// Which records are wanted. All conditions hold together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Only of this agent.
    pub agent: Option<String>,
    /// Only of this thread.
    pub thread: Option<String>,
    /// Only with a path that is this one, or below it.
    pub path: Option<VfsPath>,
    /// Only of this tool or call.
    pub call: Option<String>,
    /// Only of this operation.
    pub operation: Option<OperationId>,
    /// Only with this outcome: `ok`, `denied`, `failed`, `begun`.
    pub outcome: Option<String>,
    /// Only of calls that began at this moment or later.
    pub since: Option<Timestamp>,
    /// Only of calls that began before this moment.
    pub until: Option<Timestamp>,
}

/// Some records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// The records, newest first.
    pub entries: Vec<AuditEntry>,
    /// Where to go on; `None` after the last one.
    pub cursor: Option<i64>,
}

/// From where records are told, and in which direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    /// The newest ones before this id, newest first.
    Before(i64),
    /// The oldest ones after this id, oldest first.
    After(i64),
}

/// What a statement asks for.
#[derive(Default)]
struct Conditions {
    sql: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    /// Adds a condition with one value, for which `?` stands.
    fn add(&mut self, sql: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        self.sql.push(sql.replace('?', &format!("?{}", self.values.len())));
    }
}

impl AuditQuery {
    /// What holds for a row whatever its paths are. `at` tells the name of the column for times: with a `+` before it,
    /// no index on it is used.
    fn conditions(&self, from: From, at: &str) -> Conditions {
        let mut all = Conditions::default();
        match from {
            From::Before(id) => all.add("id < ?", id),
            From::After(id) => all.add("id > ?", id),
        }
        if let Some(since) = self.since {
            all.add(&format!("{at} >= ?"), time_text(since).to_string());
            // It is put down after it has begun.
            all.add("id >= ?", since.0 / 1_000);
        }
        if let Some(until) = self.until {
            all.add(&format!("{at} < ?"), time_text(until).to_string());
        }
        if let Some(operation) = self.operation {
            all.add("operation = ?", operation.to_string());
        }
        if let Some(outcome) = &self.outcome {
            all.add("outcome = ?", outcome.clone());
            if outcome != "ok" {
                all.sql.push("outcome <> 'ok'".into());
            }
        }
        for (column, wanted) in [("agent", &self.agent), ("thread", &self.thread), ("call", &self.call)] {
            if let Some(wanted) = wanted {
                all.add(&format!("{column} = ?"), wanted.clone());
            }
        }
        all
    }

    /// The ids of at most so many records.
    fn ids(&self, conn: &Connection, from: From, limit: usize) -> Result<Vec<i64>> {
        let path = self.path.as_ref().filter(|path| !path.is_root());
        match (path, from) {
            (None, From::Before(_)) if self.until.is_some() => {
                let until = self.until.unwrap_or_default();
                // What was put down soon after it began lies before that moment; for the few others there is an index.
                let mut soon = self.conditions(from, "+at");
                soon.add("id < ?", (until.as_secs() + LATE + 1).saturating_mul(1_000_000));
                let mut late = self.conditions(from, "at");
                late.sql.push(format!("id / 1000000 > unixepoch(at) + {LATE}"));
                let mut found = ids(conn, &soon, from, limit)?;
                found.extend(ids_in("audit INDEXED BY audit_late", conn, &late, from, limit)?);
                Ok(newest_of(found, limit))
            }
            (None, _) => ids(conn, &self.conditions(from, "+at"), from, limit),
            // Whoever goes through everything goes through it once: each stretch begins where the last one ended.
            (Some(path), From::After(_)) => ids(conn, &self.below(path, from), from, limit),
            (Some(path), From::Before(_)) => {
                // Where much lies below a path, the newest few are among the newest of all; the index would tell all.
                let recent = format!("(SELECT * FROM audit WHERE id < ?1 ORDER BY id DESC LIMIT {RECENT})");
                let found = ids_in(&recent, conn, &self.below(path, from), from, limit)?;
                if found.len() == limit {
                    return Ok(found);
                }
                let mut found = Vec::new();
                for column in ["path", "path2"] {
                    let mut conditions = self.conditions(from, "at");
                    // One stretch of the index holds all of it; names that only begin alike lie in it, too.
                    conditions.add(&format!("{column} >= ?"), path.as_str().to_owned());
                    conditions.add(&format!("{column} < ?"), format!("{path}0"));
                    let below = format!("substr({column} || '/', 1, {}) = ?", length(path) + 1);
                    conditions.add(&below, format!("{path}/"));
                    // Said aloud: ids that are bounded on both sides look narrower than they are.
                    let index = format!("audit INDEXED BY audit_{column}");
                    found.extend(ids_in(&index, conn, &conditions, from, limit)?);
                }
                Ok(newest_of(found, limit))
            }
        }
    }

    /// All conditions, for rows that are looked at one after the other.
    fn below(&self, path: &VfsPath, from: From) -> Conditions {
        let mut conditions = self.conditions(from, "+at");
        let below = |column| format!("substr({column} || '/', 1, {}) = ?", length(path) + 1);
        let either = format!("({} OR {})", below("path"), below("path2"));
        conditions.add(&either, format!("{path}/"));
        conditions
    }

    fn entries(&self, conn: &Connection, from: From, limit: usize) -> Result<Vec<AuditEntry>> {
        let ids = self.ids(conn, from, limit)?;
        let mut body = conn.prepare_cached("SELECT body FROM audit WHERE id = ?1")?;
        let mut entry = |id: i64| {
            let body: String = body.query_row([id], |row| row.get(0))?;
            AuditEntry::parse(id, &body)
                .map_err(|_| corrupt("a record of the audit is none; run `stead audit verify`"))
        };
        ids.into_iter().map(&mut entry).collect()
    }
}

/// The greatest of some ids, greatest first.
fn newest_of(mut ids: Vec<i64>, limit: usize) -> Vec<i64> {
    ids.sort_by(|one, other| other.cmp(one));
    ids.dedup();
    ids.truncate(limit);
    ids
}

/// How many characters a path has, as SQLite counts them.
fn length(path: &VfsPath) -> usize {
    path.as_str().chars().count()
}

fn ids(conn: &Connection, conditions: &Conditions, from: From, limit: usize) -> Result<Vec<i64>> {
    ids_in("audit", conn, conditions, from, limit)
}

/// The ids of rows of a table, or of what stands for one; there, `?1` is the value of the first condition.
fn ids_in(
    table: &str,
    conn: &Connection,
    conditions: &Conditions,
    from: From,
    limit: usize,
) -> Result<Vec<i64>> {
    let filter = match &*conditions.sql {
        [] => String::new(),
        sql => format!("WHERE {}", sql.join(" AND ")),
    };
    let order = match from {
        From::Before(_) => "DESC",
        From::After(_) => "ASC",
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let sql = format!("SELECT id FROM {table} {filter} ORDER BY id {order} LIMIT {limit}");
    let mut statement = conn.prepare(&sql)?;
    let ids = statement.query_map(params_from_iter(&conditions.values), |row| row.get(0))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// The newest records that a query asks for, or those before a cursor.
pub(super) fn page(
    shared: &Shared,
    query: &AuditQuery,
    cursor: Option<i64>,
    limit: usize,
) -> StoreResult<AuditPage> {
    let reader = shared.reader()?;
    let from = From::Before(cursor.unwrap_or(i64::MAX));
    let mut entries = query.entries(&reader, from, limit.saturating_add(1))?;
    let more = entries.len() > limit;
    entries.truncate(limit);
    let cursor = entries.last().map(|entry| entry.id).filter(|_| more);
    Ok(AuditPage { entries, cursor })
}

/// Records, oldest first, a stretch at a time: for everything that there is.
pub(super) fn each(
    shared: &Shared,
    query: &AuditQuery,
    visit: &mut dyn FnMut(&AuditEntry) -> std::ops::ControlFlow<()>,
) -> StoreResult<()> {
    let mut last = i64::MIN;
    loop {
        // A connection for each stretch: no reader keeps the log of the database from being written back for long.
        let entries = query.entries(&*shared.reader()?, From::After(last), 1_000)?;
        let Some(end) = entries.last() else { return Ok(()) };
        last = end.id;
        for entry in &entries {
            if visit(entry).is_break() {
                return Ok(());
            }
        }
    }
}

/// Tells records as they come in.
#[derive(Debug)]
pub struct AuditFollower<'a> {
    shared: &'a Shared,
    query: AuditQuery,
    last: i64,
}

impl<'a> AuditFollower<'a> {
    /// From the record after `last` on; from now on, where there is none.
    pub(super) fn new(shared: &'a Shared, query: AuditQuery, last: Option<i64>) -> StoreResult<Self> {
        let last = match last {
            Some(last) => last,
            None => newest(&*shared.reader()?)?,
        };
        Ok(AuditFollower { shared, query, last })
    }

    /// Waits until there are some, and returns them, oldest first.
    pub fn more(&mut self) -> StoreResult<Vec<AuditEntry>> {
        loop {
            let reader = self.shared.reader()?;
            // Ids only grow, so the newest one tells whether anything has come, whatever it is.
            let newest = newest(&reader)?;
            if newest > self.last {
                let entries = self.query.entries(&reader, From::After(self.last), 1_000)?;
                self.last = if entries.len() < 1_000 { newest } else { entries[999].id };
                if !entries.is_empty() {
                    return Ok(entries);
                }
            }
            drop(reader);
            thread::sleep(LOOK);
        }
    }
}

fn newest(conn: &Connection) -> Result<i64> {
    Ok(conn.prepare_cached("SELECT ifnull(max(id), 0) FROM audit")?.query_row([], |row| row.get(0))?)
}
