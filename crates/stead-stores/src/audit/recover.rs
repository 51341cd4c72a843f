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
    database: &Arc<DatabaseInner>,
    audit_directory: &AuditDirectory,
    key: &AuditKey,
) -> StoreResult<Vec<String>> {
    let mut problems = Vec::new();
    let abandoned = audit_directory.abandoned_instances()?;
    if abandoned.is_empty() {
        return Ok(problems);
    }
    let ended: HashSet<Uuid> = audit_directory.ended_heads()?.into_iter().map(|head| head.instance).collect();
    for instance in abandoned {
        let state =
            chain_end_file::read_state(&instance.directory).map_err(|error| unwritable_error(&error))?;
        if ended.contains(&instance.uuid) && state.is_none_or(|state| !state.same_boot) {
            // It had ended, and its end is signed. A power cut may have undone a part of the removal of its directory.
            audit_directory.end_instance(instance, &[], &[])?;
            continue;
        }
        match recover_instance(database, audit_directory, key, instance) {
            // It stays where it is until there is disk space. Other callers must be able to work on a full disk
            // meanwhile.
            Err(StoreError::NoSpace) => return Ok(problems),
            recovered => problems.extend(recovered?),
        }
    }
    Ok(problems)
}

/// What an instance left outside the database.
struct AbandonedInstance {
    chain_end_state: Option<ChainEndState>,
    head: Option<SignedHead>,
    spool: Vec<(i64, RecordBody)>,
    has_spool: bool,
}

fn recover_instance(
    database: &Arc<DatabaseInner>,
    audit_directory: &AuditDirectory,
    key: &AuditKey,
    instance: InstanceDirectory,
) -> StoreResult<Vec<String>> {
    let abandoned = AbandonedInstance {
        chain_end_state: chain_end_file::read_state(&instance.directory)
            .map_err(|error| unwritable_error(&error))?,
        head: instance.head(),
        spool: read_abandoned(&instance.directory).map_err(|error| unwritable_error(&error))?,
        has_spool: instance.has_spool(),
    };
    let (uuid, key) = (instance.uuid, key.clone());
    let mut heads: Vec<SignedHead> = abandoned.head.iter().cloned().collect();
    // The chain's end is kept up to date here as well: this process may be killed, too.
    let is_same_boot = abandoned.chain_end_state.as_ref().is_some_and(|state| state.same_boot);
    let chain_end_file = is_same_boot.then(|| ChainEndFile::reopen(&instance.directory)).transpose();
    let mut chain_end_file = chain_end_file.map_err(|error| unwritable_error(&error))?;
    let (head, finding_texts, problems, chain_end_file) =
        database.write_reserved(CommitSync::Always, move |transaction| {
            let mut chain = Chain::load(transaction.conn, uuid)?;
            let has_row = chain.row_id.is_some();
            let in_database = ChainEnd::of(&chain);
            let end = abandoned.chain_end(in_database);
            let mut finding_texts = abandoned.missing_files(uuid, end.spooled, has_row);
            finding_texts.extend(abandoned.key_mismatch(uuid, &key.public()));
            let mut problems = finding_texts.clone();
            problems.extend(chain_end_difference(transaction.conn, &chain, uuid, in_database, end)?);
            (chain.seq, chain.hash, chain.spooled) = (end.seq, end.hash, end.spooled);
            // A spool file is emptied after its records were committed, so records that are in the database are
            // skipped.
            let spool = abandoned.spool.into_iter().filter(|(number, _)| *number >= end.spooled).collect();
            for (number, body) in drop_superseded_begun(spool) {
                transaction.appender.append(transaction.conn, &mut chain, &body)?;
                chain.spooled = number + 1;
            }
            if chain.seq == 0 {
                return Ok((None, finding_texts, problems, None));
            }
            let row = chain.ensure_row(transaction.conn)?;
            chain.save(transaction.conn)?;
            let head = key.sign(&chain, SystemClock.now());
            head.insert(transaction.conn, row)?;
            if let Some(chain_end_file) = &mut chain_end_file {
                chain_end_file.announce(&chain);
            }
            Ok((
                Some(head),
                finding_texts,
                problems,
                chain_end_file.map(|chain_end_file| (chain_end_file, chain)),
            ))
        })?;
    if let Some((mut chain_end_file, chain)) = chain_end_file {
        chain_end_file.confirm(&chain);
    }
    heads.extend(head);
    let at = time_text(SystemClock.now()).to_string();
    let findings: Vec<_> = finding_texts
        .into_iter()
        .map(|finding| AuditFinding { instance: uuid, at: at.clone(), finding })
        .collect();
    audit_directory.end_instance(instance, &heads, &findings)?;
    Ok(problems)
}

impl AbandonedInstance {
    /// Where the chain ends according to the files outside; the database decides only between the slots of an
    /// interrupted commit, and where those files say nothing.
    fn chain_end(&self, in_database: ChainEnd) -> ChainEnd {
        match (&self.chain_end_state, &self.head) {
            (Some(state), _) if state.same_boot => {
                // The process was killed during a commit, and the commit was made.
                if in_database.is_same_record(&state.announced) { state.announced } else { state.confirmed }
            }
            (_, Some(head)) if in_database.seq <= head.seq => {
                ChainEnd { seq: head.seq, hash: head.hash, spooled: in_database.spooled }
            }
            _ => in_database,
        }
    }

    /// Reports files and spooled records that are missing beside the database.
    fn missing_files(&self, uuid: Uuid, spooled: i64, has_row: bool) -> Vec<String> {
        let Some(state) = &self.chain_end_state else {
            // The file is made before the first record.
            let was_used = has_row || self.head.is_some() || !self.spool.is_empty();
            return was_used
                .then(|| format!("the file with the chain's end of instance {uuid} is missing"))
                .into_iter()
                .collect();
        };
        if !state.same_boot {
            return Vec::new();
        }
        let found_count =
            self.spool.iter().filter(|(number, _)| (spooled..state.spooled_count).contains(number)).count();
        let missing_count =
            (state.spooled_count - spooled).max(0) - i64::try_from(found_count).unwrap_or(i64::MAX);
        match missing_count {
            1 => vec![format!("a record is missing from the spool of instance {uuid}")],
            2.. => vec![format!("{missing_count} records are missing from the spool of instance {uuid}")],
            _ if state.spooled_count > 0 && !self.has_spool => {
                vec![format!("the spool of instance {uuid} is missing")]
            }
            _ => Vec::new(),
        }
    }

    /// Reports if the instance signed with another key than the one that is here now.
    fn key_mismatch(&self, uuid: Uuid, key: &[u8; 32]) -> Option<String> {
        let is_other_key = self.chain_end_state.as_ref().is_some_and(|state| state.key != *key);
        is_other_key.then(|| format!("the key of instance {uuid} was replaced by another key"))
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
    let present = newest.unwrap_or(0).max(archived);
    Ok((present < end.seq).then(|| missing(present + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(seq: i64) -> ChainEnd {
        ChainEnd { seq, hash: [seq as u8; 32], spooled: 0 }
    }

    fn abandoned(same_boot: bool, confirmed: i64, announced: i64, signed: Option<i64>) -> AbandonedInstance {
        let (confirmed, announced) = (end(confirmed), end(announced));
        let head = signed.map(|seq| {
            let chain = Chain { seq, hash: end(seq).hash, ..Chain::new(Uuid::nil()) };
            AuditKey::from_bytes(&[3; 32]).sign(&chain, SystemClock.now())
        });
        let state = ChainEndState { same_boot, key: [0; 32], confirmed, announced, spooled_count: 0 };
        AbandonedInstance { chain_end_state: Some(state), head, spool: Vec::new(), has_spool: false }
    }

    #[test]
    fn the_chain_ends_where_it_was_committed_whatever_the_database_says() {
        for in_database in [0, 3, 6, 8, 20] {
            assert_eq!(abandoned(true, 7, 7, Some(5)).chain_end(end(in_database)), end(7), "{in_database}");
        }
        let forged = ChainEnd { hash: [9; 32], ..end(7) };
        assert_eq!(abandoned(true, 7, 7, None).chain_end(forged), end(7));
    }

    #[test]
    fn an_interrupted_commit_counts_only_if_it_is_in_the_database() {
        assert_eq!(abandoned(true, 7, 9, None).chain_end(end(9)), end(9));
        assert_eq!(abandoned(true, 7, 9, None).chain_end(end(7)), end(7));
        assert_eq!(abandoned(true, 7, 9, None).chain_end(end(8)), end(7));
    }

    #[test]
    fn after_another_boot_the_chain_ends_at_the_signed_head_or_later_in_the_database() {
        assert_eq!(abandoned(false, 7, 7, Some(5)).chain_end(end(6)), end(6));
        assert_eq!(abandoned(false, 7, 7, Some(5)).chain_end(end(9)), end(9));
        assert_eq!(abandoned(false, 7, 7, Some(5)).chain_end(end(4)), end(5));
        assert_eq!(abandoned(false, 7, 7, None).chain_end(end(4)), end(4));
    }
}
