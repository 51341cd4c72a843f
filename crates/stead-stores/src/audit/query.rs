//! Queries over the audit: the records are searched range by range in the order of their ids, and Bloom filters skip
//! ranges without a match.
//!
//! Pages are sorted by time. A record's id is never before the time at which its call began, so a search that goes back
//! from the newest record knows when no later call can follow.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rusqlite::types::Value;
use rusqlite::{Connection, Statement, Transaction, params_from_iter};
use stead_core::store::{ChangeSignal, Subscription};
use stead_core::{FactName, OperationId, StoreResult, Timestamp, VfsPath};
use uuid::Uuid;

use crate::audit::bloom_filter::{BloomFilter, FilterTerm, TermField, micros};
use crate::audit::body::{AuditEntry, time_text};
use crate::database::DatabaseInner;
use crate::database::error::Result;

/// Which records are wanted. A record must meet all conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// Only records of this agent.
    pub agent: Option<String>,
    /// Only records of this thread.
    pub thread: Option<String>,
    /// Only records with this path or one below it.
    pub path: Option<VfsPath>,
    /// Only records of this tool or call.
    pub call: Option<String>,
    /// Only records of this operation.
    pub operation: Option<OperationId>,
    /// Only records with this outcome: `ok`, `denied`, `failed` or `begun`.
    pub outcome: Option<String>,
    /// Only records that have these facts. A value is compared as it is shown: `7`, `true` or the text.
    pub facts: Vec<(FactName, String)>,
    /// Only records of calls that began at this time or later.
    pub since: Option<Timestamp>,
    /// Only records of calls that began before this time.
    pub until: Option<Timestamp>,
}

/// One page of records.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditPage {
    /// The records, sorted by when their calls began, newest first.
    pub entries: Vec<AuditEntry>,
    /// The records of the page that are damaged and may match, one sentence each.
    pub problems: Vec<String>,
    /// Where the next page begins; `None` after the last page.
    pub cursor: Option<AuditCursor>,
}

/// The end of a page of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditCursor {
    /// When the call of the page's last record began, in microseconds since 1970.
    at: i64,
    /// The id of that record.
    id: i64,
}

impl fmt::Display for AuditCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.at, self.id)
    }
}

/// The text isn't a valid cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it isn't a valid cursor; use one that a listing returned")]
pub struct InvalidAuditCursor;

impl FromStr for AuditCursor {
    type Err = InvalidAuditCursor;

    fn from_str(text: &str) -> Result<Self, InvalidAuditCursor> {
        let (at, id) = text.split_once('-').ok_or(InvalidAuditCursor)?;
        let number = |text: &str| text.parse().map_err(|_| InvalidAuditCursor);
        Ok(AuditCursor { at: number(at)?, id: number(id)? })
    }
}

/// Where a search starts, and in which direction it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanFrom {
    /// The newest records before this cursor, newest first; before none, the newest of all.
    Before(Option<AuditCursor>),
    /// The oldest records after this id, oldest first.
    After(i64),
}

/// The conditions of a statement. The first two values are the ids between which records lie.
struct Conditions {
    /// What a record that can be read must meet.
    sql: Vec<String>,
    /// What a damaged record must meet. It may have been any record, and its id counts as its time.
    damaged_sql: String,
    values: Vec<Value>,
}

impl Conditions {
    /// Only records that come after the end of a page.
    fn after_page(&mut self, cursor: AuditCursor) {
        let at = time_text(Timestamp(cursor.at.saturating_mul(1_000))).to_string();
        self.values.extend([Value::from(at), Value::from(cursor.id)]);
        let (at, id) = (self.values.len() - 1, self.values.len());
        self.sql.push(format!("(at < ?{at} OR (at = ?{at} AND id < ?{id}))"));
        self.values.push(Value::from(cursor.at));
        let micros = self.values.len();
        self.damaged_sql = format!("(id < ?{micros} OR (id = ?{micros} AND id < ?{id}))");
    }

    /// All conditions in one expression.
    fn expression(&self) -> String {
        let Conditions { sql, damaged_sql, .. } = self;
        let range = "id > ?1 AND id < ?2";
        if sql.is_empty() {
            return range.to_owned();
        }
        let readable_sql = sql.join(" AND ");
        // A record without a time is damaged.
        format!("{range} AND CASE WHEN at IS NULL THEN {damaged_sql} ELSE {readable_sql} END")
    }

    /// Adds a condition with one value, which replaces `?`.
    fn add(&mut self, sql: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        self.sql.push(sql.replace('?', &format!("?{}", self.values.len())));
    }
}

impl AuditQuery {
    /// The terms that a matching record contains, as far as filters cover them. A filter that lacks one rules out its
    /// range.
    fn terms(&self) -> Vec<FilterTerm> {
        let operation = self.operation.map(|operation| operation.to_string());
        let path = self.path.as_ref().filter(|path| !path.is_root()).map(ToString::to_string);
        let fields = [
            (TermField::Agent, &self.agent),
            (TermField::Thread, &self.thread),
            (TermField::Call, &self.call),
            (TermField::Operation, &operation),
            (TermField::Outcome, &self.outcome),
            (TermField::Path, &path),
        ];
        let terms =
            fields.into_iter().filter_map(|(field, text)| Some(FilterTerm::new(field, text.as_deref()?)));
        terms.collect()
    }

    /// The SQL conditions for a row.
    fn conditions(&self) -> Conditions {
        let mut conditions = Conditions {
            sql: Vec::new(),
            damaged_sql: "TRUE".to_owned(),
            values: vec![Value::Null, Value::Null],
        };
        if let Some(since) = self.since {
            conditions.add("at >= ?", time_text(since).to_string());
        }
        if let Some(until) = self.until {
            conditions.add("at < ?", time_text(until).to_string());
        }
        if let Some(operation) = self.operation {
            conditions.add("operation = ?", operation.to_string());
        }
        for (column, value) in [
            ("agent", &self.agent),
            ("thread", &self.thread),
            ("call", &self.call),
            ("outcome", &self.outcome),
        ] {
            if let Some(value) = value {
                conditions.add(&format!("{column} = ?"), value.clone());
            }
        }
        for (name, value) in &self.facts {
            // A name has no quotes. `->>` is the text without quotes, `->` is a number or a boolean as JSON.
            let member = format!("'$.facts.\"{name}\"'");
            conditions.add(&format!("(body ->> {member} = ? OR body -> {member} = ?)"), value.clone());
        }
        if let Some(path) = self.path.as_ref().filter(|path| !path.is_root()) {
            // In characters, as SQLite's `substr` counts.
            let length = path.as_str().chars().count() + 1;
            let below = |column| format!("substr({column} || '/', 1, {length}) = ?");
            conditions.add(&format!("({} OR {})", below("path"), below("path2")), format!("{path}/"));
        }
        conditions
    }

    /// Returns the positions of at most `limit` matching records.
    fn positions(&self, conn: &Connection, from: ScanFrom, limit: usize) -> Result<Vec<AuditCursor>> {
        let mut search = RecordSearch::new(self, conn, from, limit)?;
        let terms = self.terms();
        if terms.is_empty() && self.until.is_none() {
            search.search_rest()?;
            return Ok(search.positions());
        }
        let sql = match from {
            ScanFrom::Before(_) => {
                "SELECT first, last, oldest, bits FROM audit_filter WHERE last > ?1 AND first < ?2 ORDER BY first DESC"
            }
            ScanFrom::After(_) => {
                "SELECT first, last, oldest, bits FROM audit_filter WHERE last > ?1 AND first < ?2 ORDER BY first"
            }
        };
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query([search.low, search.high])?;
        while let Some(row) = rows.next()? {
            let filter = BloomFilter::from_row(row)?;
            let in_time = self.until.is_none_or(|until| filter.oldest <= micros(until));
            let may_match = in_time && terms.iter().all(|term| filter.may_contain(*term));
            search.pass_filter(&filter, may_match)?;
            if search.is_finished() {
                return Ok(search.positions());
            }
        }
        search.search_rest()?;
        Ok(search.positions())
    }

    /// Returns at most `limit` matching records, all from one transaction, so that no record appears or is archived
    /// between the statements.
    fn records(&self, conn: &Transaction<'_>, from: ScanFrom, limit: usize) -> Result<Vec<FoundRecord>> {
        let positions = self.positions(conn, from, limit)?;
        let mut statement = conn.prepare_cached("SELECT body FROM audit WHERE id = ?1")?;
        let mut record = |position: AuditCursor| {
            let id = position.id;
            let parsed = statement.query_row([id], |row| {
                Ok(row.get_ref(0)?.as_str().ok().and_then(|body| AuditEntry::parse(id, body).ok()))
            })?;
            let entry = match parsed {
                Some(entry) => Ok(entry),
                None => Err(damaged_problem(conn, id)?),
            };
            Ok(FoundRecord { position, entry })
        };
        positions.into_iter().map(&mut record).collect()
    }
}

/// A record that a search found.
struct FoundRecord {
    position: AuditCursor,
    /// The record, or the problem if it is damaged.
    entry: Result<AuditEntry, String>,
}

/// Separates the records that can be read from the problems of the others.
fn entries_and_problems(records: Vec<FoundRecord>) -> (Vec<AuditEntry>, Vec<String>) {
    let (mut entries, mut problems) = (Vec::with_capacity(records.len()), Vec::new());
    for record in records {
        match record.entry {
            Ok(entry) => entries.push(entry),
            Err(problem) => problems.push(problem),
        }
    }
    (entries, problems)
}

/// Names a record by its row, because its text can't be read.
fn damaged_problem(conn: &Connection, id: i64) -> Result<String> {
    let sql =
        "SELECT a.seq, i.uuid FROM audit a LEFT JOIN audit_instance i ON i.id = a.instance WHERE a.id = ?1";
    let name = conn.prepare_cached(sql)?.query_row([id], |row| {
        let seq: i64 = row.get(0)?;
        let uuid = row.get_ref(1)?.as_str().ok().and_then(|uuid| Uuid::parse_str(uuid).ok());
        Ok(match uuid {
            Some(uuid) => format!("record {seq} of instance {uuid}"),
            None => format!("record {seq} of an instance that doesn't exist"),
        })
    })?;
    Ok(format!("{name} is damaged; run `stead audit verify`"))
}

/// A search through the records, range by range.
struct RecordSearch<'c> {
    statement: Statement<'c>,
    values: Vec<Value>,
    from: ScanFrom,
    /// The ids that have not been searched yet lie between these two, both excluded.
    low: i64,
    high: i64,
    limit: usize,
    /// The records found. Backwards, these are the latest `limit` by time, and forwards the first `limit` by id.
    found: BinaryHeap<Reverse<AuditCursor>>,
    /// Whether the search has enough.
    is_done: bool,
}

impl<'c> RecordSearch<'c> {
    fn new(query: &AuditQuery, conn: &'c Connection, from: ScanFrom, limit: usize) -> Result<Self> {
        let mut conditions = query.conditions();
        if let ScanFrom::Before(Some(cursor)) = from {
            conditions.after_page(cursor);
        }
        let order = match from {
            ScanFrom::Before(_) => "DESC",
            ScanFrom::After(_) => "ASC",
        };
        let sql = format!("SELECT id, at FROM audit WHERE {} ORDER BY id {order}", conditions.expression());
        // A record's id is never before the time at which its call began.
        let since = query.since.map_or(i64::MIN, |since| micros(since).saturating_sub(1));
        let (low, high) = match from {
            ScanFrom::Before(_) => (since, i64::MAX),
            ScanFrom::After(id) => (id.max(since), i64::MAX),
        };
        let statement = conn.prepare(&sql)?;
        Ok(RecordSearch {
            statement,
            values: conditions.values,
            from,
            low,
            high,
            limit,
            found: BinaryHeap::new(),
            is_done: limit == 0,
        })
    }

    fn is_finished(&self) -> bool {
        self.is_done
    }

    /// The positions of the records found, in the order that was asked for.
    fn positions(self) -> Vec<AuditCursor> {
        // Sorted ascending by `Reverse`, so the newest come first.
        let mut found: Vec<_> =
            self.found.into_sorted_vec().into_iter().map(|Reverse(found)| found).collect();
        if let ScanFrom::After(_) = self.from {
            found.sort_unstable_by_key(|found| found.id);
        }
        found
    }

    /// Whether enough was found, and all of it is later than any record with an id up to this one.
    fn is_enough_before(&self, id: i64) -> bool {
        self.found.len() >= self.limit
            && self
                .found
                .peek()
                .is_some_and(|Reverse(oldest)| matches!(self.from, ScanFrom::Before(_)) && id < oldest.at)
    }

    /// Searches the records between the last filter and this one, and those of this filter if they are wanted.
    fn pass_filter(&mut self, filter: &BloomFilter, may_match: bool) -> Result<()> {
        match self.from {
            ScanFrom::Before(_) => {
                self.search_range(filter.last.max(self.low), self.high)?;
                self.is_done |= self.is_enough_before(filter.last);
                if may_match {
                    self.search_range(
                        self.low.max(filter.first - 1),
                        self.high.min(filter.last.saturating_add(1)),
                    )?;
                }
                self.high = self.high.min(filter.first);
            }
            ScanFrom::After(_) => {
                self.search_range(self.low, filter.first.min(self.high))?;
                if may_match {
                    self.search_range(
                        self.low.max(filter.first - 1),
                        self.high.min(filter.last.saturating_add(1)),
                    )?;
                }
                self.low = self.low.max(filter.last);
            }
        }
        Ok(())
    }

    /// Searches everything that is left.
    fn search_rest(&mut self) -> Result<()> {
        self.search_range(self.low, self.high)
    }

    /// Searches the records between two ids, both excluded.
    fn search_range(&mut self, low: i64, high: i64) -> Result<()> {
        if self.is_finished() || low >= high {
            return Ok(());
        }
        (self.values[0], self.values[1]) = (low.into(), high.into());
        let RecordSearch { statement, values, from, limit, found, is_done, .. } = self;
        let mut rows = statement.query(params_from_iter(&*values))?;
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            let at = row.get_ref(1)?.as_str().ok().and_then(|at| at.parse().ok()).map_or(id, micros);
            match from {
                ScanFrom::After(_) => found.push(Reverse(AuditCursor { at, id })),
                ScanFrom::Before(_) => {
                    if found.len() >= *limit && found.peek().is_some_and(|Reverse(oldest)| id < oldest.at) {
                        *is_done = true;
                        break;
                    }
                    found.push(Reverse(AuditCursor { at, id }));
                    if found.len() > *limit {
                        found.pop();
                    }
                }
            }
            if matches!(from, ScanFrom::After(_)) && found.len() >= *limit {
                *is_done = true;
                break;
            }
        }
        Ok(())
    }
}

/// Returns the newest records that match a query, or those before a cursor.
pub(crate) fn page(
    database: &DatabaseInner,
    query: &AuditQuery,
    cursor: Option<AuditCursor>,
    limit: usize,
) -> StoreResult<AuditPage> {
    let reader = database.reader()?;
    let from = ScanFrom::Before(cursor);
    let mut records = query.records(&snapshot(&reader)?, from, limit.saturating_add(1))?;
    let has_more = records.len() > limit;
    records.truncate(limit);
    let cursor = records.last().map(|record| record.position).filter(|_| has_more);
    let (entries, problems) = entries_and_problems(records);
    Ok(AuditPage { entries, problems, cursor })
}

/// Visits all records that match a query, oldest first, a thousand at a time. Returns the problems of damaged records.
pub(crate) fn each_entry(
    database: &DatabaseInner,
    query: &AuditQuery,
    visit: &mut dyn FnMut(&AuditEntry) -> std::ops::ControlFlow<()>,
) -> StoreResult<Vec<String>> {
    let (mut last_id, mut problems) = (i64::MIN, Vec::new());
    loop {
        // A connection for each range, so that no reader delays the checkpoint of the write-ahead log for long.
        let reader = database.reader()?;
        let records = query.records(&snapshot(&reader)?, ScanFrom::After(last_id), 1_000)?;
        drop(reader);
        let Some(last) = records.last() else { return Ok(problems) };
        last_id = last.position.id;
        let (entries, new_problems) = entries_and_problems(records);
        problems.extend(new_problems);
        for entry in &entries {
            if visit(entry).is_break() {
                return Ok(problems);
            }
        }
    }
}

/// Returns records as they are added.
#[derive(Debug)]
pub struct AuditFollower<'a> {
    database: &'a DatabaseInner,
    query: AuditQuery,
    last_id: i64,
    problems: Vec<String>,
    commits: Arc<ChangeSignal>,
    _subscription: Subscription,
}

impl<'a> AuditFollower<'a> {
    /// Starts after the record `last`; `None` starts from now.
    pub(crate) fn new(
        database: &'a DatabaseInner,
        query: AuditQuery,
        last_id: Option<i64>,
    ) -> StoreResult<Self> {
        let last_id = match last_id {
            Some(last_id) => last_id,
            None => newest_id(&*database.reader()?)?,
        };
        let commits = Arc::new(ChangeSignal::default());
        let subscription = database.subscribe(commits.listener())?;
        Ok(AuditFollower {
            database,
            query,
            last_id,
            problems: Vec::new(),
            commits,
            _subscription: subscription,
        })
    }

    /// Waits until there are matching records, and returns them, oldest first. Only damaged ones among them make it
    /// return none; see [`AuditFollower::take_problems`].
    pub fn wait_for_entries(&mut self) -> StoreResult<Vec<AuditEntry>> {
        loop {
            let reader = self.database.reader()?;
            let snapshot = snapshot(&reader)?;
            // Ids only grow, so the newest one says whether any record was added.
            let newest = newest_id(&snapshot)?;
            if newest > self.last_id {
                let records = self.query.records(&snapshot, ScanFrom::After(self.last_id), 1_000)?;
                self.last_id = records.get(999).map_or(newest, |record| record.position.id);
                if !records.is_empty() {
                    let (entries, problems) = entries_and_problems(records);
                    self.problems.extend(problems);
                    return Ok(entries);
                }
            }
            drop(snapshot);
            drop(reader);
            self.commits.wait(None);
        }
    }

    /// Returns the problems of the damaged records that came since the last call, one sentence each.
    pub fn take_problems(&mut self) -> Vec<String> {
        std::mem::take(&mut self.problems)
    }
}

/// Starts a transaction whose statements all see the same records.
fn snapshot(conn: &Connection) -> Result<Transaction<'_>> {
    Ok(conn.unchecked_transaction()?)
}

fn newest_id(conn: &Connection) -> Result<i64> {
    Ok(conn.prepare_cached("SELECT ifnull(max(id), 0) FROM audit")?.query_row([], |row| row.get(0))?)
}
