//! Who made a version stands in two places: in the version's own row, from which the log and blame are told, and in the
//! record of the change that made it. The record can't be changed unseen, so the row is held to it.

use std::cell::RefCell;
use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::super::fault::Result;
use super::super::schema::HISTORY_FROM;
use super::body::AuditEntry;

/// What stands in the record of a change alone.
const MADE: &str = ",\"version\":";
/// What stands in the record of a restored backup.
const RESTORES: &str = ",\"call\":\"restore_backup\",";

/// The versions of a database, to be compared with records.
pub(super) struct Versions<'c> {
    conn: &'c Connection,
    /// What is older may have been forgotten.
    history_from: i64,
    /// The newest version that a restored backup made: what is older may be the backup's, or gone with what it replaced.
    restored: i64,
    /// How many versions were made by restored backups.
    restores: u64,
    /// When those backups were restored, as far as records tell.
    told_restores: RefCell<HashSet<String>>,
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
        let restores = "FROM version WHERE tool = 'restore-backup' AND agent = 'operator'";
        Ok(Versions {
            conn,
            history_from: number(&from)?,
            restored: number(&format!("SELECT ifnull(max(id), 0) {restores}"))?,
            restores: number(&format!("SELECT count(*) {restores}"))?.cast_unsigned(),
            told_restores: RefCell::default(),
        })
    }

    /// Says so where more versions are said to be a restored backup's than backups were restored. Every record has to
    /// have been seen by then.
    pub(super) fn too_many_restores(&self) -> Option<String> {
        let told = self.told_restores.borrow().len() as u64;
        (self.restores > told).then(|| {
            format!(
                "{} versions are said to be of restored backups, and records tell of {told} restored backups",
                self.restores
            )
        })
    }

    /// Says how the version that a record tells of differs from it.
    pub(super) fn differs(&self, body: &str) -> Result<Option<String>> {
        if body.contains(RESTORES)
            && let Ok(entry) = AuditEntry::parse(0, body)
        {
            self.told_restores.borrow_mut().insert(entry.at);
        }
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
