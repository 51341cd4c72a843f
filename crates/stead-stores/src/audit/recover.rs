//! Recovers what a killed process left: moves its spooled records into the database, and signs its chain.
//!
//! The database is first compared with the files outside it. The chain continues from the end that those files say, so
//! a record that has disappeared from the database stays missing, and every later check reports it.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use stead_core::{Clock, StoreError, StoreResult, SystemClock};
use uuid::Uuid;

use crate::audit::body::{RecordBody, drop_superseded_begun, time_text};
use crate::audit::chain::Chain;
use crate::audit::chain_end_file::{self, ChainEnd, ChainEndFile, ChainEndState};
use crate::audit::directory::{AuditDirectory, AuditFinding, InstanceDirectory};
use crate::audit::head::{AuditKey, SignedHead};
use crate::audit::spool::{read_abandoned, unwritable_error};
use crate::database::DatabaseInner;
use crate::database::error::Result;
use crate::database::group_commit::CommitSync;

/// Recovers the instances that no longer run; returns the problems, one sentence each.
pub(crate) fn recover(
    shared: &Arc<DatabaseInner>,
    place: &AuditDirectory,
    key: &AuditKey,
) -> StoreResult<Vec<String>> {
    let mut wrong = Vec::new();
    let abandoned = place.abandoned_instances()?;
    if abandoned.is_empty() {
        return Ok(wrong);
    }
    let ended: HashSet<Uuid> = place.ended_heads()?.into_iter().map(|head| head.instance).collect();
    for running in abandoned {
        let marks =
            chain_end_file::read_state(&running.directory).map_err(|error| unwritable_error(&error))?;
        if ended.contains(&running.uuid) && marks.is_none_or(|marks| !marks.same_boot) {
            // It had ended, and its end is signed. A power cut may have undone a part of the removal of its directory.
            place.end_instance(running, &[], &[])?;
            continue;
        }
        match recover_one(shared, place, key, running) {
            // It stays where it is until there is disk space. Other callers must be able to work on a full disk
            // meanwhile.
            Err(StoreError::NoSpace) => return Ok(wrong),
            recovered => wrong.extend(recovered?),
        }
    }
    Ok(wrong)
}

/// What an instance left outside the database.
struct AbandonedInstance {
    chain_end_state: Option<ChainEndState>,
    head: Option<SignedHead>,
    spool: Vec<(i64, RecordBody)>,
    has_spool: bool,
}

fn recover_one(
    shared: &Arc<DatabaseInner>,
    place: &AuditDirectory,
    key: &AuditKey,
    running: InstanceDirectory,
) -> StoreResult<Vec<String>> {
    let left = AbandonedInstance {
        chain_end_state: chain_end_file::read_state(&running.directory)
            .map_err(|error| unwritable_error(&error))?,
        head: running.head(),
        spool: read_abandoned(&running.directory).map_err(|error| unwritable_error(&error))?,
        has_spool: running.has_spool(),
    };
    let (uuid, key) = (running.uuid, key.clone());
    let mut heads: Vec<SignedHead> = left.head.iter().cloned().collect();
    // The chain's end is kept up to date here as well: this process may be killed, too.
    let exact = left.chain_end_state.as_ref().is_some_and(|marks| marks.same_boot);
    let tail = exact.then(|| ChainEndFile::reopen(&running.directory)).transpose();
    let mut tail = tail.map_err(|error| unwritable_error(&error))?;
    let (head, found, wrong, tail) = shared.write_reserved(CommitSync::Always, move |writing| {
        let mut chain = Chain::load(writing.conn, uuid)?;
        let known = chain.row_id.is_some();
        let in_database = ChainEnd::of(&chain);
        let end = left.chain_end(in_database);
        let mut found = left.missing_files(uuid, end.spooled, known);
        found.extend(left.key_mismatch(uuid, &key.public()));
        let mut wrong = found.clone();
        wrong.extend(chain_end_difference(writing.conn, &chain, uuid, in_database, end)?);
        (chain.seq, chain.hash, chain.spooled) = (end.seq, end.hash, end.spooled);
        // A spool file is emptied after its records were committed, so records that are in the database are skipped.
        let spool = left.spool.into_iter().filter(|(number, _)| *number >= end.spooled).collect();
        for (number, facts) in drop_superseded_begun(spool) {
            writing.appender.append(writing.conn, &mut chain, &facts)?;
            chain.spooled = number + 1;
        }
        if chain.seq == 0 {
            return Ok((None, found, wrong, None));
        }
        let row = chain.ensure_row(writing.conn)?;
        chain.save(writing.conn)?;
        let head = key.sign(&chain, SystemClock.now());
        head.insert(writing.conn, row)?;
        if let Some(tail) = &mut tail {
            tail.announce(&chain);
        }
        Ok((Some(head), found, wrong, tail.map(|tail| (tail, chain))))
    })?;
    if let Some((mut tail, chain)) = tail {
        tail.confirm(&chain);
    }
    heads.extend(head);
    let at = time_text(SystemClock.now()).to_string();
    let findings: Vec<_> =
        found.into_iter().map(|finding| AuditFinding { instance: uuid, at: at.clone(), finding }).collect();
    place.end_instance(running, &heads, &findings)?;
    Ok(wrong)
}

impl AbandonedInstance {
    /// Where the chain ends according to the files outside; the database decides only between the slots of an
    /// interrupted commit, and where those files say nothing.
    fn chain_end(&self, in_database: ChainEnd) -> ChainEnd {
        match (&self.chain_end_state, &self.head) {
            (Some(marks), _) if marks.same_boot => {
                // The process was killed during a commit, and the commit was made.
                if in_database.is_same_record(&marks.announced) { marks.announced } else { marks.confirmed }
            }
            (_, Some(head)) if in_database.seq <= head.seq => {
                ChainEnd { seq: head.seq, hash: head.hash, spooled: in_database.spooled }
            }
            _ => in_database,
        }
    }

    /// Reports files and spooled records that are missing beside the database.
    fn missing_files(&self, uuid: Uuid, spooled: i64, known: bool) -> Vec<String> {
        let Some(marks) = &self.chain_end_state else {
            // The file is made before the first record.
            let used = known || self.head.is_some() || !self.spool.is_empty();
            return used
                .then(|| format!("the file with the chain's end of instance {uuid} is missing"))
                .into_iter()
                .collect();
        };
        if !marks.same_boot {
            return Vec::new();
        }
        let found =
            self.spool.iter().filter(|(number, _)| (spooled..marks.spooled_count).contains(number)).count();
        let gone = (marks.spooled_count - spooled).max(0) - i64::try_from(found).unwrap_or(i64::MAX);
        match gone {
            1 => vec![format!("a record is missing from the spool of instance {uuid}")],
            2.. => vec![format!("{gone} records are missing from the spool of instance {uuid}")],
            _ if marks.spooled_count > 0 && !self.has_spool => {
                vec![format!("the spool of instance {uuid} is missing")]
            }
            _ => Vec::new(),
        }
    }

    /// Reports if the instance signed with another key than the one that is here now.
    fn key_mismatch(&self, uuid: Uuid, key: &[u8; 32]) -> Option<String> {
        let other = self.chain_end_state.as_ref().is_some_and(|marks| marks.key != *key);
        other.then(|| format!("the key of instance {uuid} was replaced by another key"))
    }
}

/// Says how the database differs from the chain's end according to the files outside; `None` if it doesn't.
fn chain_end_difference(
    conn: &Connection,
    chain: &Chain,
    uuid: Uuid,
    in_database: ChainEnd,
    end: ChainEnd,
) -> Result<Option<String>> {
    let missing = |first: i64| match end.seq - first {
        0 => format!("record {first} of instance {uuid} is missing"),
        _ => format!("records {first} to {} of instance {uuid} are missing", end.seq),
    };
    if in_database.seq < end.seq {
        return Ok(Some(missing(in_database.seq + 1)));
    }
    if in_database.seq > end.seq {
        return Ok(Some(format!(
            "instance {uuid} has records after record {}, which was its last one",
            end.seq
        )));
    }
    if in_database.hash != end.hash {
        return Ok(Some(format!(
            "record {} of instance {uuid} differs from the one that was written",
            end.seq
        )));
    }
    // So far only the instance's row agrees. There must also be a record at that position, unless it was archived.
    let newest: Option<i64> = conn
        .prepare_cached("SELECT seq FROM audit WHERE instance = ?1 ORDER BY id DESC LIMIT 1")?
        .query_row([chain.row_id], |row| row.get(0))
        .optional()?;
    let archived: i64 = conn
        .prepare_cached("SELECT ifnull(max(last), 0) FROM audit_segment WHERE instance = ?1")?
        .query_row([chain.row_id], |row| row.get(0))?;
    let there = newest.unwrap_or(0).max(archived);
    Ok((there < end.seq).then(|| missing(there + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(seq: i64) -> ChainEnd {
        ChainEnd { seq, hash: [seq as u8; 32], spooled: 0 }
    }

    fn left(same_boot: bool, confirmed: i64, announced: i64, signed: Option<i64>) -> AbandonedInstance {
        let (confirmed, announced) = (end(confirmed), end(announced));
        let head = signed.map(|seq| {
            let chain = Chain { seq, hash: end(seq).hash, ..Chain::new(Uuid::nil()) };
            AuditKey::from_bytes(&[3; 32]).sign(&chain, SystemClock.now())
        });
        let marks = ChainEndState { same_boot, key: [0; 32], confirmed, announced, spooled_count: 0 };
        AbandonedInstance { chain_end_state: Some(marks), head, spool: Vec::new(), has_spool: false }
    }

    #[test]
    fn the_chain_ends_where_it_was_committed_whatever_the_database_says() {
        for cut in [0, 3, 6, 8, 20] {
            assert_eq!(left(true, 7, 7, Some(5)).chain_end(end(cut)), end(7), "{cut}");
        }
        let forged = ChainEnd { hash: [9; 32], ..end(7) };
        assert_eq!(left(true, 7, 7, None).chain_end(forged), end(7));
    }

    #[test]
    fn a_commit_during_which_the_process_was_killed_was_made_or_not() {
        assert_eq!(left(true, 7, 9, None).chain_end(end(9)), end(9));
        assert_eq!(left(true, 7, 9, None).chain_end(end(7)), end(7));
        assert_eq!(left(true, 7, 9, None).chain_end(end(8)), end(7));
    }

    #[test]
    fn after_another_boot_the_signed_head_counts_and_what_is_behind_it_may_be_there() {
        assert_eq!(left(false, 7, 7, Some(5)).chain_end(end(6)), end(6));
        assert_eq!(left(false, 7, 7, Some(5)).chain_end(end(9)), end(9));
        assert_eq!(left(false, 7, 7, Some(5)).chain_end(end(4)), end(5));
        assert_eq!(left(false, 7, 7, None).chain_end(end(4)), end(4));
    }
}
