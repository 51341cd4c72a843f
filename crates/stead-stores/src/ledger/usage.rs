//! The usage counters of a ledger, and the check of quotas.

use rusqlite::{OptionalExtension, params};
use stead_core::StoreError;
use stead_core::store::{QuotaRoot, Usage};

use crate::database::batch::WriteTransaction;
use crate::database::error::{DatabaseError, Result};
use crate::ledger::UsageDelta;

pub(crate) fn add_to_counter(
    transaction: &mut WriteTransaction<'_>,
    vol: i64,
    path: &[u8],
    bytes: i64,
    files: i64,
) -> Result<()> {
    transaction
        .conn
        .prepare_cached(
            "UPDATE ledger_usage SET bytes = max(0, bytes + ?3), files = max(0, files + ?4) WHERE volume = ?1 AND path = ?2",
        )?
        .execute(params![vol, path, bytes, files])?;
    Ok(())
}

pub(crate) fn check_quota(
    transaction: &mut WriteTransaction<'_>,
    vol: i64,
    quota: &QuotaRoot,
    deltas: &[UsageDelta],
) -> Result<()> {
    let mut statement = transaction
        .conn
        .prepare_cached("SELECT bytes, files FROM ledger_usage WHERE volume = ?1 AND path = ?2")?;
    let (mut before, mut after) = (Usage::default(), Usage::default());
    for root in quota.roots() {
        let path = root.as_bytes();
        let counted = statement
            .query_row(params![vol, path], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
            .optional()?
            .ok_or_else(|| {
                DatabaseError::Store(StoreError::unavailable("the counter of a quota was removed meanwhile"))
            })?;
        let delta = deltas.iter().find(|delta| delta.path == path);
        let (bytes, files) = delta.map_or((0, 0), |delta| (delta.bytes, delta.files));
        before = before.plus(usage_of(counted.0 - bytes, counted.1 - files));
        after = after.plus(usage_of(counted.0, counted.1));
    }
    Ok(quota.check(before, after)?)
}

pub(crate) fn usage_of(bytes: i64, files: i64) -> Usage {
    let positive = |count: i64| u64::try_from(count).unwrap_or(0);
    Usage { bytes: positive(bytes), files: positive(files) }
}
