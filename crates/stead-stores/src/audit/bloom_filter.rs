//! What a range of records may contain, in few bytes, so that a query can skip ranges without a match.
//!
//! A Bloom filter never misses a term that is in its records, and lets few others through. It is made only of records
//! that are committed, so making one delays no writer, and adding a record touches only the end of one table.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Connection, params};
use serde::Deserialize;
use stead_core::{StoreResult, Timestamp};

use crate::database::DatabaseInner;
use crate::database::error::Result;
use crate::database::group_commit::CommitSync;

/// How many records one filter covers.
pub(crate) const RECORDS_PER_FILTER: usize = 1_024;
/// How many bits a filter has for each term, and how many of them a term sets: about one in a hundred terms that aren't
/// there passes the filter.
const BITS_PER_TERM: usize = 10;
const HASHES_PER_TERM: u64 = 7;

/// The hash of one field value of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FilterTerm(u64);

/// The field of a record that a term comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum TermField {
    Agent = b'a',
    Thread = b't',
    Call = b'c',
    Operation = b'o',
    Outcome = b'r',
    Path = b'p',
}

impl FilterTerm {
    pub(crate) fn new(field: TermField, text: &str) -> Self {
        FilterTerm(text.bytes().fold(fnv_start(field), fnv_mix))
    }
}

/// FNV-1a. It is part of the database's format, and was chosen for its speed.
fn fnv_start(field: TermField) -> u64 {
    fnv_mix(0xcbf2_9ce4_8422_2325, field as u8)
}

fn fnv_mix(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

/// Spreads the hash over all bits, which FNV alone does not.
fn finish_hash(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// The fields of a record that filters cover.
#[derive(Debug, Deserialize)]
struct FilteredFields<'a> {
    #[serde(borrow)]
    at: Cow<'a, str>,
    #[serde(borrow)]
    agent: Cow<'a, str>,
    #[serde(borrow, default)]
    thread: Option<Cow<'a, str>>,
    #[serde(borrow)]
    call: Cow<'a, str>,
    #[serde(borrow)]
    paths: Vec<Cow<'a, str>>,
    #[serde(borrow)]
    outcome: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Option<Cow<'a, str>>,
}

/// Passes every term of a record to `visit`, and returns when its call began; `None` if the text isn't a valid record.
pub(crate) fn each_term(body: &str, mut visit: impl FnMut(FilterTerm)) -> Option<Timestamp> {
    let fields: FilteredFields<'_> = serde_json::from_str(body).ok()?;
    visit(FilterTerm::new(TermField::Agent, &fields.agent));
    visit(FilterTerm::new(TermField::Call, &fields.call));
    visit(FilterTerm::new(TermField::Outcome, &fields.outcome));
    for (field, text) in [(TermField::Thread, &fields.thread), (TermField::Operation, &fields.operation)] {
        if let Some(text) = text {
            visit(FilterTerm::new(field, text));
        }
    }
    for path in &fields.paths {
        // The path, and every directory above it but the root.
        let mut hash = fnv_start(TermField::Path);
        for (index, byte) in path.bytes().enumerate() {
            if byte == b'/' && index > 0 {
                visit(FilterTerm(hash));
            }
            hash = fnv_mix(hash, byte);
        }
        visit(FilterTerm(hash));
    }
    fields.at.parse().ok()
}

/// A filter over the records with ids from `first` to `last`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BloomFilter {
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// When the oldest call among them began, in microseconds since 1970.
    pub(crate) oldest: i64,
    bits: Vec<u8>,
}

impl BloomFilter {
    /// Makes the filter of some records (id and text); `None` if there are none.
    fn of_records<'a>(records: impl IntoIterator<Item = (i64, &'a str)>) -> Option<BloomFilter> {
        let mut terms = HashSet::new();
        let (mut first, mut last, mut oldest, mut all_parsed) = (None, 0, i64::MAX, true);
        for (id, body) in records {
            first = first.or(Some(id));
            last = id;
            let add_term = |term| {
                terms.insert(term);
            };
            match each_term(body, add_term) {
                Some(at) => oldest = oldest.min(micros(at)),
                None => all_parsed = false,
            }
        }
        if !all_parsed {
            // A text isn't a valid record. The filter lets every query through, so that the query finds the damage.
            return Some(BloomFilter { first: first?, last, oldest: i64::MIN, bits: vec![u8::MAX; 8] });
        }
        let words = (terms.len() * BITS_PER_TERM).div_ceil(64).max(1);
        let mut filter = BloomFilter { first: first?, last, oldest, bits: vec![0; words * 8] };
        for term in terms {
            for bit in filter.bit_positions(term) {
                filter.bits[bit / 8] |= 1 << (bit % 8);
            }
        }
        Some(filter)
    }

    /// Whether one of the records may contain this term.
    pub(crate) fn may_contain(&self, term: FilterTerm) -> bool {
        !self.bits.is_empty()
            && self.bit_positions(term).all(|bit| self.bits[bit / 8] & (1 << (bit % 8)) != 0)
    }

    fn bit_positions(&self, term: FilterTerm) -> impl Iterator<Item = usize> + use<> {
        let hash = finish_hash(term.0);
        let (start, step) = (hash & 0xffff_ffff, (hash >> 32) | 1);
        let bits = self.bits.len() as u64 * 8;
        (0..HASHES_PER_TERM).map(move |index| ((start + index * step) % bits) as usize)
    }

    /// Reads a row of `first, last, oldest, bits`.
    pub(crate) fn from_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<BloomFilter> {
        Ok(BloomFilter { first: row.get(0)?, last: row.get(1)?, oldest: row.get(2)?, bits: row.get(3)? })
    }
}

/// A time as filters store it: microseconds since 1970.
pub(crate) fn micros(at: Timestamp) -> i64 {
    at.0.div_euclid(1_000)
}

/// Makes the next filter if enough records are without one, and returns whether it did.
///
/// The records are read before the write transaction. That is safe, because no record is ever inserted before an
/// existing one.
pub(crate) fn make_next_filter(database: &Arc<DatabaseInner>) -> StoreResult<bool> {
    let next = next_filter(&*database.reader()?)?;
    let Some(BloomFilter { first, last, oldest, bits }) = next else { return Ok(false) };
    database.write(CommitSync::Deferred, move |transaction| {
        // Another process may have made the same filter meanwhile.
        transaction
            .conn
            .prepare_cached(
                "INSERT OR IGNORE INTO audit_filter(first, last, oldest, bits) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![first, last, oldest, bits])?;
        Ok(())
    })?;
    Ok(true)
}

fn next_filter(conn: &Connection) -> Result<Option<BloomFilter>> {
    let covered: i64 = conn
        .prepare_cached("SELECT ifnull((SELECT last FROM audit_filter ORDER BY first DESC LIMIT 1), 0)")?
        .query_row([], |row| row.get(0))?;
    let mut statement =
        conn.prepare_cached("SELECT id, body FROM audit WHERE id > ?1 ORDER BY id LIMIT ?2")?;
    let rows = statement.query_map(params![covered, RECORDS_PER_FILTER as i64], |row| {
        // A damaged text may not even be UTF-8.
        Ok((row.get(0)?, row.get_ref(1)?.as_str().unwrap_or_default().to_owned()))
    })?;
    let records: Vec<(i64, String)> = rows.collect::<rusqlite::Result<_>>()?;
    if records.len() < RECORDS_PER_FILTER {
        return Ok(None);
    }
    Ok(BloomFilter::of_records(records.iter().map(|(id, body)| (*id, &**body))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(number: usize) -> String {
        format!(
            "{{\"at\":\"2026-11-15T08:30:{:02}Z\",\"agent\":\"a\\\"{}\",\"call\":\"read\",\"paths\":[\"/x/{number}/deep/y\"],\
             \"outcome\":\"ok\"}}",
            number % 60,
            number % 3
        )
    }

    #[test]
    fn a_filter_contains_every_term_of_its_records_and_few_others() {
        let bodies: Vec<_> = (0..RECORDS_PER_FILTER).map(body).collect();
        let filter = BloomFilter::of_records((100..).zip(bodies.iter().map(String::as_str))).unwrap();
        assert_eq!((filter.first, filter.last), (100, 99 + RECORDS_PER_FILTER as i64));
        assert_eq!(Timestamp(filter.oldest * 1_000).to_string(), "2026-11-15T08:30:00.000Z");
        for number in 0..RECORDS_PER_FILTER {
            for path in [format!("/x/{number}"), format!("/x/{number}/deep"), format!("/x/{number}/deep/y")] {
                assert!(filter.may_contain(FilterTerm::new(TermField::Path, &path)), "{path}");
            }
        }
        assert!(filter.may_contain(FilterTerm::new(TermField::Path, "/x")));
        assert!(filter.may_contain(FilterTerm::new(TermField::Agent, "a\"2")));
        assert!(filter.may_contain(FilterTerm::new(TermField::Outcome, "ok")));
        let may_contain_path = |text: String| filter.may_contain(FilterTerm::new(TermField::Path, &text));
        let false_positives = (0..10_000).filter(|number| may_contain_path(format!("/y/{number}"))).count();
        assert!(false_positives < 200, "{false_positives}");
        // The same text in another field is another term.
        assert!(!filter.may_contain(FilterTerm::new(TermField::Agent, "ok")));
    }

    #[test]
    fn a_filter_over_an_invalid_record_contains_every_term() {
        let filter = BloomFilter::of_records([(1, &*body(1)), (2, "{}")]).unwrap();
        assert!(filter.may_contain(FilterTerm::new(TermField::Agent, "whoever")));
        assert_eq!(filter.oldest, i64::MIN);
        assert_eq!(BloomFilter::of_records([]), None);
    }
}
