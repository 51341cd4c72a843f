//! Checks the audit: every chain against its own hashes, against the signed heads, and against what lies outside the
//! database.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use rusqlite::Connection;
use stead_core::{StoreResult, Timestamp};
use uuid::Uuid;

use crate::audit::archive_index::{self, ArchiveLookup, ArchiveRow, ArchivedSegment};
use crate::audit::bloom_filter::{BloomFilter, each_term, micros};
use crate::audit::body::AuditEntry;
use crate::audit::chain::{CHAIN_START, RecordHash, record_hash};
use crate::audit::directory::AuditDirectory;
use crate::audit::external_state::ExternalState;
use crate::audit::head::SignedHead;
use crate::audit::revision_check::RevisionCheck;
use crate::database::DatabaseInner;
use crate::database::error::Result;

/// How many problems are reported in detail.
const MAX_PROBLEMS: usize = 100;
/// How many records are checked between two calls of `progress`.
const RECORDS_PER_PROGRESS: u64 = 4_096;

/// What a check of the audit found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditVerified {
    /// Records whose position in their chain was checked.
    pub records: u64,
    /// Chains: one for each instance that has a row.
    pub instances: u64,
    /// Signatures that were checked and are valid.
    pub heads: u64,
    /// Records that no signature covers yet: the last ones of an instance.
    pub unsigned: u64,
    /// Records that are in archives.
    pub archived: u64,
    /// Archives that were found and checked.
    pub archives: u64,
    /// Chains that only other keys than this audit's own have signed.
    pub foreign: u64,
    /// The problems, one sentence each.
    pub problems: Vec<String>,
}

impl AuditVerified {
    pub(crate) fn add_problem(&mut self, problem: String) {
        match self.problems.len() {
            count if count < MAX_PROBLEMS => self.problems.push(problem),
            MAX_PROBLEMS => self.problems.push("there are more problems, which aren't listed".into()),
            _ => {}
        }
    }
}

/// What is known of a chain before its records are read.
#[derive(Default)]
struct ChainFacts {
    /// Heads with a valid signature, by position.
    heads: BTreeMap<i64, Vec<SignedHead>>,
    /// The last archived position.
    archived: i64,
    /// The last position according to the instance's row, or to its file outside the database if that is further.
    row_position: i64,
    /// The last position there can be, if the instance has ended.
    ended_at: Option<i64>,
    /// The last position that a signature covers.
    signed_up_to: i64,
    /// A key that has signed the chain and isn't this audit's own.
    foreign_key: Option<[u8; 32]>,
    /// Whether something outside the database belongs to the instance.
    known_outside: bool,
}

/// Checks one chain, record by record, in the order of the records' ids.
pub(crate) struct ChainCheck {
    uuid: Uuid,
    /// The next position.
    next: i64,
    /// The hash before the next position; `None` after a gap.
    before: Option<RecordHash>,
    /// Ranges of positions that were skipped, each with the hash before it.
    gaps: Vec<Gap>,
    heads: BTreeMap<i64, Vec<SignedHead>>,
}

struct Gap {
    first: i64,
    last: i64,
    before: Option<RecordHash>,
}

impl ChainCheck {
    pub(crate) fn new(
        uuid: Uuid,
        next: i64,
        before: RecordHash,
        heads: BTreeMap<i64, Vec<SignedHead>>,
    ) -> Self {
        ChainCheck { uuid, next, before: Some(before), gaps: Vec::new(), heads }
    }

    /// Checks the next record, and returns what is wrong with it.
    pub(crate) fn check_record(&mut self, seq: i64, stored: &RecordHash, body: &str) -> Vec<String> {
        let mut problems = Vec::new();
        let name = || describe_record(self.uuid, seq, body);
        let before = if seq >= self.next {
            if seq > self.next {
                self.gaps.push(Gap { first: self.next, last: seq - 1, before: self.before.take() });
            }
            let before = self.before;
            (self.next, self.before) = (seq + 1, Some(*stored));
            before
        } else if let Some(index) = self.gaps.iter().position(|gap| (gap.first..=gap.last).contains(&seq)) {
            // Its position was in a gap, and it comes after a later record.
            problems.push(format!("{} was moved: it comes after record {}", name(), self.next - 1));
            let gap = self.gaps.remove(index);
            let before = if seq == gap.first { gap.before } else { None };
            let rest = [
                Gap { first: gap.first, last: seq - 1, before: gap.before },
                Gap { first: seq + 1, last: gap.last, before: Some(*stored) },
            ];
            self.gaps.extend(rest.into_iter().filter(|gap| gap.first <= gap.last));
            before
        } else {
            problems.push(format!("{} exists twice", name()));
            return problems;
        };
        if !body.starts_with(&format!("{{\"instance\":\"{}\",\"seq\":{seq},", self.uuid)) {
            problems.push(match AuditEntry::parse(0, body) {
                Ok(entry) if entry.instance == self.uuid => {
                    format!("{} was replaced by record {}", name(), entry.seq)
                }
                _ => format!("{} was changed", name()),
            });
        } else if before.is_some_and(|before| record_hash(&before, body) != *stored) {
            problems.push(format!("{}, or the record before it, was changed", name()));
        }
        for head in self.heads.get(&seq).into_iter().flatten().filter(|head| head.hash != *stored) {
            problems.push(format!(
                "{}, or a record before it, differs from what was signed at {}: the chain was rewritten",
                name(),
                head.at
            ));
        }
        problems
    }

    /// Ends the check, and returns which records are missing. `expected_end` is the last position according to the
    /// database.
    pub(crate) fn finish(self, expected_end: i64) -> Vec<String> {
        let uuid = self.uuid;
        let missing = |first: i64, last: i64| match last - first {
            0 => format!("record {first} of instance {uuid} is missing"),
            _ => format!("records {first} to {last} of instance {uuid} are missing"),
        };
        let mut problems: Vec<_> = self.gaps.iter().map(|gap| missing(gap.first, gap.last)).collect();
        let signed = self.heads.last_key_value().and_then(|(seq, heads)| Some((*seq, heads.first()?)));
        let end = self.next - 1;
        match signed {
            Some((seq, head)) if seq > end => {
                let problem = format!(
                    "{}: record {seq} was signed as the last one at {}",
                    missing(end + 1, seq),
                    head.at
                );
                problems.push(problem);
            }
            _ if expected_end > end => problems.push(missing(end + 1, expected_end)),
            _ => {}
        }
        problems
    }
}

/// A record as a problem names it.
pub(crate) fn describe_record(uuid: Uuid, seq: i64, body: &str) -> String {
    match AuditEntry::parse(0, body) {
        Ok(AuditEntry { at, call, .. }) => {
            let call = stead_core::name::escape_name(call.as_bytes()).to_string();
            format!("record {seq} of instance {uuid} ({at}, {call})")
        }
        Err(_) => format!("record {seq} of instance {uuid}"),
    }
}

/// The Bloom filters in order, read along with the records.
struct FilterCursor {
    remaining: VecDeque<BloomFilter>,
}

impl FilterCursor {
    fn load(conn: &Connection, verified: &mut AuditVerified) -> Result<Self> {
        let mut remaining = VecDeque::new();
        each_row(
            conn,
            "audit_filter",
            "SELECT first, last, oldest, bits FROM audit_filter ORDER BY first",
            |row| {
                remaining.push_back(BloomFilter::from_row(row)?);
                Ok(())
            },
        )?;
        let mut covered = i64::MIN;
        for filter in &remaining {
            if filter.first <= covered || filter.last < filter.first {
                verified.add_problem(format!(
                    "the search filter that starts at record id {} is in the wrong place",
                    filter.first
                ));
            }
            covered = filter.last;
        }
        Ok(FilterCursor { remaining })
    }

    /// Whether a query for this record gets through the filter over it. Call it in the order of ids.
    fn may_contain(&mut self, id: i64, body: &str) -> bool {
        while self.remaining.front().is_some_and(|filter| filter.last < id) {
            self.remaining.pop_front();
        }
        let Some(filter) = self.remaining.front().filter(|filter| filter.first <= id) else { return true };
        let mut contains_all = true;
        let at = each_term(body, |term| contains_all &= filter.may_contain(term));
        contains_all && at.is_none_or(|at| filter.oldest <= micros(at))
    }
}

pub(crate) fn verify(
    database: &DatabaseInner,
    audit_directory: &AuditDirectory,
    archives: &ArchiveLookup,
    progress: &mut dyn FnMut(u64),
) -> StoreResult<AuditVerified> {
    // Before the database: the records that these files speak of were in the database before the files said so.
    let external = ExternalState::read(audit_directory)?;
    let reader = database.reader()?;
    let mut verified = AuditVerified::default();
    let transaction = reader.unchecked_transaction().map_err(crate::database::error::DatabaseError::from)?;
    let missing = missing_tables(&transaction)?;
    for table in &missing {
        verified.add_problem(format!("the table {table} is missing, with its rows"));
    }
    for uuid in &external.instances_without_key {
        verified.add_problem(format!("the key of instance {uuid} isn't in the audit's directory"));
    }
    for finding in &external.findings {
        verified.add_problem(finding.clone());
    }
    let (mut chains, segments) = load_chains(&transaction, &external, &mut verified)?;
    // The files of an instance that started after the first read are there by now.
    let reread = ExternalState::read(audit_directory)?;
    for (uuid, facts) in &mut chains.facts {
        facts.known_outside |= reread.knows_instance(uuid);
    }
    let revision_check = load_revision_check(&transaction)?;
    let mut is_intact =
        check_records(&transaction, chains, revision_check.as_ref(), &mut verified, progress)?;
    is_intact &= missing.is_empty();
    let archive_rows = match missing.contains(&"audit_archive") {
        true => Vec::new(),
        false => ArchiveRow::all(&transaction)?,
    };
    for archive in &external.archives {
        let is_same = |row: &&ArchiveRow| row.file == archive.archive && row.hash == archive.hash;
        if !archive_rows.iter().any(|row| is_same(&row)) {
            verified.add_problem(format!(
                "the archive {} with {} records, written at {}, is missing or different in the database",
                archive.archive, archive.records, archive.at
            ));
        }
    }
    verified.archived = archive_rows.iter().map(|archive| archive.records).sum();
    if let ArchiveLookup::In(directories) = archives {
        let problems = verified.problems.len();
        archive_index::verify_archives(
            &archive_rows,
            &segments,
            audit_directory,
            directories,
            revision_check.as_ref(),
            &mut verified,
        );
        is_intact &= problems == verified.problems.len();
        if let Some(problem) = revision_check.as_ref().and_then(RevisionCheck::excess_restores_problem) {
            verified.add_problem(problem);
        }
    }
    // Only a check that has seen every record can say that one does not exist.
    if let Some(revision_check) = revision_check
        && is_intact
        && verified.archives == archive_rows.len() as u64
    {
        revision_check.unrecorded_problems()?.into_iter().for_each(|problem| verified.add_problem(problem));
    }
    Ok(verified)
}

/// The audit's tables that are missing.
pub(crate) fn missing_tables(conn: &Connection) -> Result<Vec<&'static str>> {
    let mut missing = Vec::new();
    for table in ["audit", "audit_instance", "audit_head", "audit_segment", "audit_archive", "audit_filter"] {
        if !table_exists(conn, table)? {
            missing.push(table);
        }
    }
    Ok(missing)
}

/// The revisions, to be compared with their records; `None` if their table is missing.
fn load_revision_check(conn: &Connection) -> Result<Option<RevisionCheck<'_>>> {
    table_exists(conn, "revision")?.then(|| RevisionCheck::new(conn)).transpose()
}

/// Whether the database has this table.
fn table_exists(conn: &Connection, table: &str) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1)";
    Ok(conn.query_row(sql, [table], |row| row.get(0))?)
}

impl ExternalState {
    /// Adds a head to the chain's facts, if this audit's key has signed it, and reports a wrong signature.
    fn check_head(&self, head: SignedHead, facts: &mut ChainFacts, verified: &mut AuditVerified) {
        let heads = facts.heads.entry(head.seq).or_default();
        if self.key != Some(head.key) {
            facts.foreign_key = Some(head.key);
        } else if heads.contains(&head) {
            // The same head lies in the database and outside.
        } else if head.is_signed() {
            verified.heads += 1;
            heads.push(head);
        } else {
            verified.add_problem(format!(
                "the signature of record {} of instance {} is wrong",
                head.seq, head.instance
            ));
        }
    }
}

/// The chains by UUID, and the UUIDs by row id.
#[derive(Default)]
struct KnownChains {
    rows: HashMap<i64, Uuid>,
    facts: HashMap<Uuid, ChainFacts>,
}

/// Gathers what is known of the chains, and which segments the database says are in archives.
fn load_chains(
    conn: &Connection,
    external: &ExternalState,
    verified: &mut AuditVerified,
) -> Result<(KnownChains, Vec<ArchivedSegment>)> {
    let KnownChains { mut rows, mut facts } = KnownChains::default();
    each_row(conn, "audit_instance", "SELECT id, uuid, seq FROM audit_instance", |row| {
        let (id, position): (i64, i64) = (row.get(0)?, row.get(2)?);
        match row.get_ref(1)?.as_str().ok().and_then(|text| Uuid::parse_str(text).ok()) {
            Some(uuid) => {
                rows.insert(id, uuid);
                facts.entry(uuid).or_default().row_position = position;
            }
            None => verified.add_problem(format!("the instance in row {id} has no valid UUID")),
        }
        Ok(())
    })?;
    verified.instances = rows.len() as u64;
    let heads = "SELECT seq, hash, at, key, signature, instance FROM audit_head ORDER BY instance, seq";
    each_row(conn, "audit_head", heads, |row| {
        if let Some(&uuid) = rows.get(&row.get(5)?) {
            external.check_head(SignedHead::from_row(uuid, row)?, facts.entry(uuid).or_default(), verified);
        }
        Ok(())
    })?;
    for (uuid, at_least) in &external.least_positions {
        let chain_facts = facts.entry(*uuid).or_default();
        chain_facts.row_position = chain_facts.row_position.max(*at_least);
        chain_facts.known_outside = true;
    }
    let running = external.running_heads.iter().map(|head| (head, false));
    for (head, is_ended) in running.chain(external.ended_heads.iter().map(|head| (head, true))) {
        let chain_facts = facts.entry(head.instance).or_default();
        chain_facts.known_outside = true;
        if is_ended {
            chain_facts.ended_at = chain_facts.ended_at.max(Some(head.seq));
        }
        external.check_head(head.clone(), chain_facts, verified);
    }
    let mut segments = Vec::new();
    each_row(conn, "audit_segment", "SELECT instance, first, last, file FROM audit_segment", |row| {
        let (id, first, last): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if let Some((&instance, chain_facts)) =
            rows.get(&id).and_then(|uuid| Some((uuid, facts.get_mut(uuid)?)))
        {
            chain_facts.archived = chain_facts.archived.max(last);
            segments.push(ArchivedSegment { instance, first, last, file: row.get(3)? });
        }
        Ok(())
    })?;
    Ok((KnownChains { rows, facts }, segments))
}

/// Calls `look` for every row that `sql` finds in a table, if the table exists.
fn each_row(
    conn: &Connection,
    table: &str,
    sql: &str,
    mut visit: impl FnMut(&rusqlite::Row<'_>) -> Result<()>,
) -> Result<()> {
    if !table_exists(conn, table)? {
        return Ok(());
    }
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        visit(row)?;
    }
    Ok(())
}

/// Checks every record, and returns whether all of them are there and unchanged.
fn check_records(
    conn: &Connection,
    KnownChains { rows, facts }: KnownChains,
    revision_check: Option<&RevisionCheck<'_>>,
    verified: &mut AuditVerified,
    progress: &mut dyn FnMut(u64),
) -> Result<bool> {
    let mut is_intact = true;
    let mut chains: HashMap<Uuid, (ChainCheck, ChainFacts)> = HashMap::new();
    let (mut lost_keys, mut unknown) = (BTreeMap::<[u8; 32], u64>::new(), Vec::new());
    for (uuid, mut chain_facts) in facts {
        let mut heads = std::mem::take(&mut chain_facts.heads);
        heads.retain(|_, heads| !heads.is_empty());
        let before = match heads.get(&chain_facts.archived).and_then(|heads| heads.first()) {
            _ if chain_facts.archived == 0 => CHAIN_START,
            Some(head) => head.hash,
            None => {
                is_intact = false;
                verified.add_problem(format!(
                    "the database says that records up to {} of instance {uuid} are archived, but no signed head \
                     confirms it",
                    chain_facts.archived
                ));
                CHAIN_START
            }
        };
        if let (true, Some(key)) = (heads.is_empty(), chain_facts.foreign_key) {
            verified.foreign += 1;
            *lost_keys.entry(key).or_default() += 1;
        }
        // An instance whose records are all archived is remembered by its archives. Its head may already be removed.
        if !chain_facts.known_outside && chain_facts.archived < chain_facts.row_position.max(1) {
            unknown.push(uuid);
        }
        chain_facts.signed_up_to = heads.last_key_value().map_or(0, |(seq, _)| *seq);
        chains.insert(uuid, (ChainCheck::new(uuid, chain_facts.archived + 1, before, heads), chain_facts));
    }
    for (key, chains) in lost_keys {
        let key = crate::audit::head::hex::text(&key);
        let chains = if chains == 1 { "a chain".to_owned() } else { format!("{chains} chains") };
        verified.add_problem(format!(
            "the key {key}, which signed {chains} here, isn't in the audit's directory"
        ));
    }
    unknown.sort();
    for uuid in unknown {
        verified.add_problem(format!("instance {uuid} has no signed head outside the database"));
    }
    let mut unknown_rows = HashSet::new();
    let mut filters = FilterCursor::load(conn, verified)?;
    let records = "SELECT instance, seq, hash, body, id, at FROM audit ORDER BY id";
    each_row(conn, "audit", records, |row| {
        let (id, seq): (i64, i64) = (row.get(0)?, row.get(1)?);
        let chain = rows.get(&id).and_then(|uuid| chains.get_mut(uuid));
        let Some((chain_check, chain_facts)) = chain else {
            is_intact = false;
            if unknown_rows.insert(id) {
                verified
                    .add_problem(format!("there are records of an instance that doesn't exist: row {id}"));
            }
            return Ok(());
        };
        if seq <= chain_facts.archived {
            // An interrupted archiving has not deleted it yet.
            return Ok(());
        }
        let body = row.get_ref(3)?.as_str().unwrap_or_default();
        if !filters.may_contain(row.get(4)?, body) {
            verified.add_problem(format!(
                "{} is hidden from queries by a wrong search filter",
                describe_record(chain_check.uuid, seq, body)
            ));
        }
        let stored = row.get_ref(2)?.as_blob().ok().and_then(|hash| hash.try_into().ok()).unwrap_or_default();
        let problems = chain_check.check_record(seq, &stored, body);
        if let (true, Some(revision_check)) = (problems.is_empty(), revision_check)
            && let Some(difference) = revision_check.compare_record(body)?
        {
            verified.add_problem(format!("{}: {difference}", describe_record(chain_check.uuid, seq, body)));
        }
        is_intact &= problems.is_empty();
        problems.into_iter().for_each(|problem| verified.add_problem(problem));
        // Queries by time rely on the id, which is never before the time at which the call began.
        let at = row.get_ref(5)?.as_str().ok().and_then(|at| at.parse::<Timestamp>().ok());
        if at.is_some_and(|at| row.get::<_, i64>(4).is_ok_and(|record_id| record_id < at.0.div_euclid(1_000)))
        {
            verified.add_problem(format!(
                "{} has an id that is earlier than its time",
                describe_record(chain_check.uuid, seq, body)
            ));
        }
        if chain_facts.ended_at.is_some_and(|ended_at| seq > ended_at) {
            verified.add_problem(format!(
                "{} was added after its instance had ended",
                describe_record(chain_check.uuid, seq, body)
            ));
        }
        verified.unsigned += u64::from(seq > chain_facts.signed_up_to && chain_facts.foreign_key.is_none());
        verified.records += 1;
        if verified.records.is_multiple_of(RECORDS_PER_PROGRESS) {
            progress(verified.records);
        }
        Ok(())
    })?;
    let mut chains: Vec<_> = chains.into_iter().collect();
    chains.sort_by_key(|(uuid, _)| *uuid);
    for (_, (chain_check, chain_facts)) in chains {
        for problem in chain_check.finish(chain_facts.row_position) {
            is_intact = false;
            verified.add_problem(problem);
        }
    }
    Ok(is_intact)
}
