//! Chains that a restored backup brought into the database, and of which nothing outside it knows. The operator who
//! restores a backup vouches for it, so these chains are signed as they are.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::Connection;
use stead_core::{Clock, StoreResult, SystemClock};
use uuid::Uuid;

use crate::audit::chain::Chain;
use crate::audit::directory::{AuditDirectory, HeadsLine};
use crate::audit::head::AuditKey;
use crate::database::DatabaseInner;
use crate::database::error::Result;
use crate::database::group_commit::CommitSync;

/// Signs the chains in the database that no head or running instance outside it belongs to.
pub(crate) fn sign_restored_chains(
    shared: &Arc<DatabaseInner>,
    place: &AuditDirectory,
    key: &AuditKey,
) -> StoreResult<()> {
    // In this order: an instance that ends in between is found in one of the two.
    let mut outside: HashSet<Uuid> = place.running_instances()?;
    outside.extend(place.ended_heads()?.into_iter().map(|head| head.instance));
    let mut brought = instance_ids(&*shared.reader()?)?;
    brought.retain(|uuid| !outside.contains(uuid));
    if brought.is_empty() {
        return Ok(());
    }
    let key = key.clone();
    let heads = shared.write(CommitSync::Always, move |writing| {
        let mut heads = Vec::new();
        for uuid in brought {
            let chain = Chain::load(writing.conn, uuid)?;
            let Some(row) = chain.row_id else { continue };
            chain.save(writing.conn)?;
            let head = key.sign(&chain, SystemClock.now());
            head.insert(writing.conn, row)?;
            heads.push(HeadsLine::Head(head));
        }
        Ok(heads)
    })?;
    place.append_lines(&heads)
}

fn instance_ids(conn: &Connection) -> Result<Vec<Uuid>> {
    let mut statement = conn.prepare("SELECT uuid FROM audit_instance ORDER BY id")?;
    let texts =
        statement.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(texts.iter().filter_map(|text| Uuid::parse_str(text).ok()).collect())
}
