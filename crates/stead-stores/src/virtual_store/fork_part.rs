//! The parts of forks: the volumes of nested Workspaces that were forked with the Workspace around them.
//!
//! Each part is made in a transaction of its own, before the fork itself. Its row names no fork until then, so no one sees it. The
//! transaction that makes the fork itself claims the parts that were made with it, and removes what an interrupted process has
//! left under the same name.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use stead_core::store::{Fork, ForkName};
use stead_core::{StoreError, StoreResult, Timestamp};

use crate::database::Database;
use crate::database::batch::WriteTransaction;
use crate::database::error::{Result, corrupt};
use crate::database::group_commit::CommitSync;
use crate::database::namespace_text;
use crate::virtual_store::fork::{ForkRecord, load_row, remove_volumes, stored_rules};

/// How long a part may exist before its fork. Making all parts of a fork takes much less.
const MAX_UNCLAIMED: Duration = Duration::from_secs(7 * 24 * 3600);

/// The namespace of the volume of a fork, or of a part of one.
pub(crate) fn namespace_of(fork: &Fork) -> StoreResult<String> {
    let Fork { owner, name, place, .. } = fork;
    match (fork.is_whole(), fork.made_by) {
        (true, _) => namespace_text(["forks", owner, name.as_str()]),
        // Two processes may make forks of one name at once, and only one of them succeeds.
        (false, Some(made_by)) => {
            namespace_text(["forks", owner, name.as_str(), place.as_str(), &made_by.to_string()])
        }
        (false, None) => {
            Err(StoreError::Invalid("a part of a fork needs to know what it is made with".into()))
        }
    }
}

/// Inserts the row of a part. `base` is the volume that it was made from.
pub(crate) fn insert_part(conn: &Connection, vol: i64, base: i64, fork: &Fork) -> Result<()> {
    if whole_volume(conn, &fork.owner, &fork.name)?.is_some() {
        return Err(StoreError::AlreadyExists.into());
    }
    let made_by = fork.made_by.ok_or_else(|| corrupt("a part of a fork without what it is made with"))?;
    let rules = stored_rules(fork);
    conn.prepare_cached(
        "INSERT INTO fork_part(volume, fork, owner, name, place, scope, made_by, created_by, prefix, path, protect, hide, scratch,
                               quota, at, ask, omitted, origin)
         VALUES (?1, NULL, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
                 coalesce((SELECT origin FROM fork WHERE volume = ?17), (SELECT origin FROM fork_part WHERE volume = ?17), ?7))",
    )?
    .execute(params![
        vol,
        fork.owner,
        fork.name.as_str(),
        fork.place.as_str(),
        fork.scope.name(),
        made_by.as_bytes(),
        fork.created_by,
        fork.base_prefix.as_str(),
        fork.path.as_str(),
        rules.protect,
        rules.hide,
        rules.scratch,
        rules.quota,
        fork.created.0,
        fork.approval_policy.as_str(),
        rules.omitted,
        base
    ])?;
    Ok(())
}

fn whole_volume(conn: &Connection, owner: &str, name: &ForkName) -> Result<Option<i64>> {
    let volume = conn
        .prepare_cached("SELECT volume FROM fork WHERE owner = ?1 AND name = ?2")?
        .query_row([owner, name.as_str()], |row| row.get(0))
        .optional()?;
    Ok(volume)
}

/// Makes the parts that were made with a fork parts of it, and removes what others have left under its name.
pub(crate) fn claim(conn: &Connection, vol: i64, fork: &Fork) -> Result<()> {
    if let Some(made_by) = fork.made_by {
        conn.prepare_cached(
            "UPDATE fork_part SET fork = ?1 WHERE owner = ?2 AND name = ?3 AND made_by = ?4 AND fork IS NULL",
        )?
        .execute(params![vol, fork.owner, fork.name.as_str(), made_by.as_bytes()])?;
    }
    remove_volumes(conn, &unclaimed(conn, &fork.owner, &fork.name)?)
}

/// The volumes of parts under a name that no fork has claimed.
fn unclaimed(conn: &Connection, owner: &str, name: &ForkName) -> Result<Vec<i64>> {
    let mut statement =
        conn.prepare_cached("SELECT volume FROM fork_part WHERE owner = ?1 AND name = ?2 AND fork IS NULL")?;
    let volumes = statement.query_map([owner, name.as_str()], |row| row.get(0))?;
    Ok(volumes.collect::<rusqlite::Result<_>>()?)
}

/// The volumes of the parts of a fork.
pub(crate) fn part_volumes(conn: &Connection, fork: i64) -> Result<Vec<i64>> {
    let mut statement = conn.prepare_cached("SELECT volume FROM fork_part WHERE fork = ?1 ORDER BY place")?;
    let volumes = statement.query_map([fork], |row| row.get(0))?;
    Ok(volumes.collect::<rusqlite::Result<_>>()?)
}

/// The parts that an interrupted process has left under the name of a fork.
pub(crate) fn left_beside(conn: &Connection, fork: i64) -> Result<Vec<i64>> {
    let mut statement = conn.prepare_cached(
        "SELECT p.volume FROM fork f JOIN fork_part p ON p.owner = f.owner AND p.name = f.name
         WHERE f.volume = ?1 AND p.fork IS NULL",
    )?;
    let volumes = statement.query_map([fork], |row| row.get(0))?;
    Ok(volumes.collect::<rusqlite::Result<_>>()?)
}

/// The parts of a fork, by place.
pub(crate) fn load_parts(conn: &Connection, owner: &str, fork: i64) -> Result<Vec<ForkRecord>> {
    let mut statement = conn.prepare_cached(
        "SELECT name, created_by, prefix, path, protect, scratch, quota, at, ask, omitted, volume, origin, hide, place, scope, made_by
         FROM fork_part WHERE fork = ?1 ORDER BY place",
    )?;
    let mut rows = statement.query([fork])?;
    let mut parts = Vec::new();
    while let Some(row) = rows.next()? {
        parts.push(load_row(conn, owner, row)?);
    }
    Ok(parts)
}

impl Database {
    /// Removes the parts of forks that were never made: the process that made them was interrupted.
    pub(crate) fn remove_unclaimed_parts(&self, now: Timestamp) -> StoreResult<()> {
        let age = i64::try_from(MAX_UNCLAIMED.as_nanos()).unwrap_or(i64::MAX);
        let before = now.0.saturating_sub(age);
        let find = move |conn: &Connection| -> Result<Vec<i64>> {
            let mut statement =
                conn.prepare_cached("SELECT volume FROM fork_part WHERE fork IS NULL AND at < ?1")?;
            let volumes = statement.query_map([before], |row| row.get(0))?;
            Ok(volumes.collect::<rusqlite::Result<_>>()?)
        };
        let found = find(&*self.0.reader()?)?;
        if found.is_empty() {
            return Ok(());
        }
        self.0.write_reserved(CommitSync::Deferred, move |transaction: &mut WriteTransaction<'_>| {
            // Asked again: a fork may have claimed them meanwhile.
            remove_volumes(transaction.conn, &find(transaction.conn)?)?;
            transaction.invalidate_directories()
        })?;
        self.0.forget_volumes_in(&found);
        Ok(())
    }
}
