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
    database: &Arc<DatabaseInner>,
    audit_directory: &AuditDirectory,
    key: &AuditKey,
) -> StoreResult<()> {
    // In this order: an instance that ends in between is found in one of the two.
    let mut in_directory: HashSet<Uuid> = audit_directory.running_instances()?;
    in_directory.extend(audit_directory.ended_heads()?.into_iter().map(|head| head.instance));
    let mut restored = instance_ids(&*database.reader()?)?;
    restored.retain(|uuid| !in_directory.contains(uuid));
    if restored.is_empty() {
        return Ok(());
    }
    let key = key.clone();
    let heads = database.write(CommitSync::Always, move |transaction| {
        let mut heads = Vec::new();
        for uuid in restored {
            let chain = Chain::load(transaction.conn, uuid)?;
            let Some(row) = chain.row_id else { continue };
            chain.save(transaction.conn)?;
            let head = key.sign(&chain, SystemClock.now());
            head.insert(transaction.conn, row)?;
            heads.push(HeadsLine::Head(head));
        }
        Ok(heads)
    })?;
    audit_directory.append_lines(&heads)
}

fn instance_ids(conn: &Connection) -> Result<Vec<Uuid>> {
    let mut statement = conn.prepare("SELECT uuid FROM audit_instance ORDER BY id")?;
    let texts =
        statement.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(texts.iter().filter_map(|text| Uuid::parse_str(text).ok()).collect())
}
