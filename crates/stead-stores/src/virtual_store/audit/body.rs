//! A record as text: JSON with its fields in a fixed order, so that its hash says all of it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use stead_core::{AuditRecord, OperationId, Timestamp};
use uuid::Uuid;

/// A record's own part of the text. Instance and position come before it, when it is put into a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Facts(pub(super) Box<str>);

/// How many digits of a second are kept. A fixed number: so texts sort as times do.
const DIGITS: usize = 6;

#[derive(Serialize)]
struct Written<'a> {
    #[serde(serialize_with = "moment")]
    at: Timestamp,
    agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    organization: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<&'a str>,
    call: &'a str,
    paths: Paths<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'static str>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    took_us: u64,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "shown")]
    operation: Option<OperationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<i64>,
}

struct Paths<'a>(&'a [stead_core::VfsPath]);

impl Serialize for Paths<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|path| path.as_str()))
    }
}

fn moment<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&time_text(*at))
}

fn shown<T: fmt::Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

/// A moment as records have it.
pub(super) fn time_text(at: Timestamp) -> impl fmt::Display {
    struct Text(Timestamp);
    impl fmt::Display for Text {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:.*}", DIGITS, self.0)
        }
    }
    Text(at)
}

impl Facts {
    pub(in super::super) fn of(record: &AuditRecord) -> Self {
        let identity = &*record.identity;
        let written = Written {
            at: record.at,
            agent: &identity.agent,
            thread: identity.thread.as_deref(),
            organization: identity.organization.as_deref(),
            team: identity.team.as_deref(),
            call: &record.call,
            paths: Paths(&record.paths),
            scope: record.scope.map(|scope| scope.name()),
            outcome: record.outcome.word(),
            code: record.outcome.code(),
            bytes: record.bytes,
            took_us: u64::try_from(record.took.as_micros()).unwrap_or(u64::MAX),
            operation: record.operation,
            version: record.version.map(|version| version.0),
        };
        Facts(serde_json::to_string(&written).expect("texts and numbers can be written as JSON").into())
    }

    /// The whole text of the record at this place in a chain.
    pub(super) fn placed(&self, instance: &Uuid, seq: i64) -> String {
        // Everything but the brace that opens it.
        let rest = self.0.get(1..).unwrap_or_default();
        format!("{{\"instance\":\"{instance}\",\"seq\":{seq},{rest}")
    }
}

/// What stands before and in the outcome of what has only begun. Quotes in texts are escaped, so it stands nowhere else.
const OUTCOME: &str = "\"outcome\":\"";
const BEGUN: &str = "\"outcome\":\"begun\"";

/// Leaves out what has begun and is over by now: one record tells all of it. They are the same call if they are alike in
/// all that was known when it began.
pub(super) fn without_the_begun(entries: Vec<(i64, Facts)>) -> Vec<(i64, Facts)> {
    let begun = |facts: &Facts| facts.0.contains(BEGUN);
    if !entries.iter().any(|(_, facts)| begun(facts)) {
        return entries;
    }
    let call = |facts: &Facts| facts.0.split(OUTCOME).next().unwrap_or_default().to_owned();
    let mut ended: HashMap<String, usize> = HashMap::new();
    let mut left: Vec<_> = Vec::with_capacity(entries.len());
    for (number, facts) in entries.into_iter().rev() {
        if !begun(&facts) {
            *ended.entry(call(&facts)).or_default() += 1;
        } else if let Some(ends) = ended.get_mut(&call(&facts)).filter(|ends| **ends > 0) {
            *ends -= 1;
            continue;
        }
        left.push((number, facts));
    }
    left.reverse();
    left
}

/// A record as it lies in the database.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AuditEntry {
    /// Its text, as its hash covers it.
    #[serde(skip)]
    pub body: Arc<str>,
    /// Orders all records of a database, of whatever instance; later ones are greater.
    #[serde(skip)]
    pub id: i64,
    /// The running instance that made it.
    pub instance: Uuid,
    /// Its position in that instance's chain, from 1.
    pub seq: i64,
    /// When the call began, as RFC 3339.
    pub at: String,
    /// The agent.
    pub agent: String,
    /// The thread, where there is one.
    #[serde(default)]
    pub thread: Option<String>,
    /// The organization, where there is one.
    #[serde(default)]
    pub organization: Option<String>,
    /// The team, where there is one.
    #[serde(default)]
    pub team: Option<String>,
    /// The tool, or the call.
    pub call: String,
    /// The paths that were asked for.
    pub paths: Vec<String>,
    /// The scope of the Workspace of the first.
    #[serde(default)]
    pub scope: Option<String>,
    /// How it went: `ok`, `denied`, `failed`, `begun`.
    pub outcome: String,
    /// The code of the error, where there was one.
    #[serde(default)]
    pub code: Option<String>,
    /// How many bytes were read or written, where that is known.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// How long it took, in microseconds.
    pub took_us: u64,
    /// The operation that it belongs to.
    #[serde(default)]
    pub operation: Option<OperationId>,
    /// The version that a change made.
    #[serde(default)]
    pub version: Option<i64>,
}

/// The text is no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is no record of the audit")]
pub struct NotAnEntry;

impl AuditEntry {
    /// Reads a record's text.
    pub fn parse(id: i64, body: &str) -> Result<Self, NotAnEntry> {
        let entry: AuditEntry = serde_json::from_str(body).map_err(|_| NotAnEntry)?;
        Ok(AuditEntry { id, body: body.into(), ..entry })
    }

    /// When the call began.
    pub fn at(&self) -> Option<Timestamp> {
        self.at.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use stead_core::store::Version;
    use stead_core::{AccessScope, AuditOutcome, ErrorKind, Identity, VfsPath};

    use super::*;

    #[test]
    fn a_record_is_written_with_its_fields_in_order_and_read_again() {
        let operation = OperationId::from_bytes([7; 16]);
        let record = AuditRecord {
            at: Timestamp(1_700_000_000_123_456_789),
            identity: Arc::new(Identity::agent("co\"der").with_thread("t")),
            call: "write_file".into(),
            paths: vec![VfsPath::parse("/notes/a\u{e9}.md").unwrap()],
            scope: Some(AccessScope::ReadWrite),
            outcome: AuditOutcome::Failed(ErrorKind::Quota),
            bytes: Some(12),
            took: Duration::from_micros(34),
            operation: Some(operation),
            version: Some(Version(5)),
        };
        let body = Facts::of(&record).placed(&Uuid::nil(), 3);
        assert_eq!(
            body,
            "{\"instance\":\"00000000-0000-0000-0000-000000000000\",\"seq\":3,\"at\":\"2023-11-14T22:13:20.123456Z\",\
             \"agent\":\"co\\\"der\",\"thread\":\"t\",\"call\":\"write_file\",\"paths\":[\"/notes/a\u{e9}.md\"],\
             \"scope\":\"READ_WRITE\",\"outcome\":\"failed\",\"code\":\"quota\",\"bytes\":12,\"took_us\":34,\
             \"operation\":\"07070707-0707-0707-0707-070707070707\",\"version\":5}"
        );
        let entry = AuditEntry::parse(9, &body).unwrap();
        assert_eq!((entry.id, entry.seq, &*entry.agent, entry.version), (9, 3, "co\"der", Some(5)));
        assert_eq!(entry.at(), Some(Timestamp(1_700_000_000_123_456_000)));
        assert_eq!(AuditEntry::parse(1, "{}"), Err(NotAnEntry));
    }

    #[test]
    fn what_began_and_ended_is_one_record() {
        let record = |at: i64, path: &str, outcome: AuditOutcome| {
            Facts::of(&AuditRecord {
                at: Timestamp(at * 1_000),
                identity: Arc::new(Identity::agent("\"outcome\":\"begun\"")),
                call: "read".into(),
                paths: vec![VfsPath::parse(path).unwrap()],
                scope: None,
                outcome,
                bytes: (outcome != AuditOutcome::Begun).then_some(7),
                took: Duration::ZERO,
                operation: None,
                version: None,
            })
        };
        use AuditOutcome::{Begun, Ok};
        let entries = vec![
            (0, record(1, "/a", Begun)),
            (1, record(1, "/b", Begun)),
            (2, record(1, "/a", Begun)),
            (3, record(2, "/a", Ok)),
            (4, record(1, "/a", Ok)),
        ];
        let left: Vec<_> = without_the_begun(entries.clone()).into_iter().map(|(number, _)| number).collect();
        // One of two that began at once has ended, and one of another file has not.
        assert_eq!(left, [0, 1, 3, 4]);
        assert_eq!(without_the_begun(entries[3..].to_vec()), entries[3..]);
    }
}
