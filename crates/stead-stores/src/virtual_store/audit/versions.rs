//! Who made a version stands in two places: in the version's own row, from which the log and blame are told, and in the
//! record of the change that made it. The record can't be changed unseen, so the row is held to it.

use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::super::fault::Result;
use super::super::schema::HISTORY_FROM;
use super::body::AuditEntry;

/// What stands in the record of a change alone.
const MADE: &str = ",\"version\":";

/// The versions of a database, to be compared with records.
pub(super) struct Versions<'c> {
    conn: &'c Connection,
    /// What is older may have been forgotten.
    history_from: i64,
    /// The newest version that a restored backup made: what is older may be the backup's, or gone with what it replaced.
    restored: i64,
}

/// A version as its row has it.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    operation: Option<Uuid>,
    agent: String,
    thread: Option<String>,
    organization: Option<String>,
    team: Option<String>,
    tool: String,
}

impl<'c> Versions<'c> {
    pub(super) fn new(conn: &'c Connection) -> Result<Self> {
        let number = |sql: &str| -> Result<i64> { Ok(conn.query_row(sql, [], |row| row.get(0))?) };
        let from = format!("SELECT ifnull((SELECT value FROM meta WHERE id = {HISTORY_FROM}), 0)");
        Ok(Versions {
            conn,
            history_from: number(&from)?,
            restored: number(
                "SELECT ifnull(max(id), 0) FROM version WHERE tool = 'restore-backup' AND agent = 'operator'",
            )?,
        })
    }

    /// Says how the version that a record tells of differs from it.
    pub(super) fn differs(&self, body: &str) -> Result<Option<String>> {
        if !body.contains(MADE) {
            return Ok(None);
        }
        let Ok(entry) = AuditEntry::parse(0, body) else { return Ok(None) };
        let (Some(version), Some(operation)) = (entry.version, entry.operation) else { return Ok(None) };
        let operation = Uuid::from_bytes(*operation.as_bytes());
        let row = self.row(version)?;
        let Some(row) = row.filter(|row| row.operation == Some(operation) || version > self.restored) else {
            let may_be_gone = version < self.history_from || version <= self.restored;
            return Ok((!may_be_gone).then(|| format!("version {version}, which it tells of, is gone")));
        };
        let recorded = Row {
            operation: Some(operation),
            agent: entry.agent,
            thread: entry.thread,
            organization: entry.organization,
            team: entry.team,
            tool: entry.call,
        };
        Ok((row != recorded).then(|| {
            format!(
                "version {version}, which it tells of, is said to be another's: {}",
                row.differing(&recorded)
            )
        }))
    }

    fn row(&self, version: i64) -> Result<Option<Row>> {
        let sql = "SELECT operation, agent, thread, organization, team, tool FROM version WHERE id = ?1";
        let row = self.conn.prepare_cached(sql)?.query_row([version], |row| {
            let operation: Vec<u8> = row.get(0)?;
            Ok(Row {
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

impl Row {
    /// What is not as it was recorded.
    fn differing(&self, recorded: &Row) -> String {
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
