//! A record as text: JSON with its fields in a fixed order, so that its hash covers all of it.
//!
//! The text is written by hand, because every call waits for it and a serializer takes several times as long.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use stead_core::store::RevisionNumber;
use stead_core::{AuditFacts, AuditRecord, FactValue, OperationId, Timestamp};
use uuid::Uuid;

use crate::audit::change_digest::ChangeDigest;

/// A record's text without instance and position, which are added when it is appended to a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordBody(pub(crate) String);

/// How many digits of a second are written. The fixed number makes texts sort as their times do.
const FRACTION_DIGITS: usize = 6;
/// The length of what comes before the digits: `2026-11-15T08:30:00.`
const SECONDS_LENGTH: usize = 20;

/// A time as records have it.
pub(crate) fn time_text(at: Timestamp) -> impl fmt::Display {
    struct Text(Timestamp);
    impl fmt::Display for Text {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:.*}", FRACTION_DIGITS, self.0)
        }
    }
    Text(at)
}

impl RecordBody {
    pub(crate) fn of(record: &AuditRecord) -> Self {
        RecordBody::of_change(record, record.revision, record.duration, None)
    }

    /// The record of a call that made this revision and took this long. `change_digest` is the digest of what the
    /// revision did.
    pub(crate) fn of_change(
        record: &AuditRecord,
        revision: Option<RevisionNumber>,
        duration: Duration,
        change_digest: Option<&ChangeDigest>,
    ) -> Self {
        let identity = &*record.identity;
        let length: usize = record.paths.iter().map(|path| path.as_str().len() + 3).sum();
        let mut text = JsonText(String::with_capacity(320 + length));
        text.0.push_str("{\"at\":\"");
        text.time(record.at);
        text.0.push('"');
        text.text_if_some("stead", record.stead.as_deref());
        text.text("agent", &identity.agent);
        text.text_if_some("thread", identity.thread.as_deref());
        text.text_if_some("organization", identity.organization.as_deref());
        text.text_if_some("team", identity.team.as_deref());
        text.text("call", &record.call);
        text.0.push_str(",\"paths\":[");
        for (index, path) in record.paths.iter().enumerate() {
            if index > 0 {
                text.0.push(',');
            }
            text.quoted(path.as_str());
        }
        text.0.push(']');
        text.text_if_some("scope", record.scope.map(|scope| scope.name()));
        text.text("outcome", record.outcome.as_str());
        text.text_if_some("code", record.outcome.code());
        if record.dry_run {
            text.key("dry_run");
            text.0.push_str("true");
        }
        text.number("bytes", record.bytes);
        text.number("files", record.file_count);
        text.number("took_us", Some(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)));
        if let Some(operation) = record.operation {
            let mut buffer = Uuid::encode_buffer();
            let uuid = Uuid::from_bytes(*operation.as_bytes());
            text.text("operation", uuid.hyphenated().encode_lower(&mut buffer));
        }
        text.number("version", revision.map(|revision| revision.0));
        text.text_if_some("did", change_digest.map(|change_digest| &*change_digest.digest));
        text.number(
            "unrecorded",
            change_digest.map(|change_digest| change_digest.unrecorded).filter(|count| *count != 0),
        );
        text.facts(&record.facts);
        text.0.push('}');
        RecordBody(text.0)
    }

    /// Replaces `text` by the complete text of the record at this position of a chain.
    pub(crate) fn write_at(&self, instance: &Uuid, seq: i64, text: &mut String) {
        text.clear();
        text.push_str("{\"instance\":\"");
        text.push_str(instance.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
        text.push_str("\",\"seq\":");
        append_number(text, seq);
        text.push(',');
        // Everything but the opening brace.
        text.push_str(self.0.get(1..).unwrap_or_default());
    }
}

/// A JSON text that grows member by member.
struct JsonText(String);

impl JsonText {
    fn key(&mut self, key: &'static str) {
        self.0.push_str(",\"");
        self.0.push_str(key);
        self.0.push_str("\":");
    }

    fn text(&mut self, key: &'static str, value: &str) {
        self.key(key);
        self.quoted(value);
    }

    fn text_if_some(&mut self, key: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    fn number(&mut self, key: &'static str, value: Option<impl Into<i128>>) {
        if let Some(value) = value {
            self.key(key);
            let value: i128 = value.into();
            match i64::try_from(value) {
                Ok(value) => append_number(&mut self.0, value),
                Err(_) => write!(self.0, "{value}").expect("writing to a String can't fail"),
            }
        }
    }

    /// Appends the facts as an object, unless there are none. Their names need no escaping.
    fn facts(&mut self, facts: &AuditFacts) {
        if facts.is_empty() {
            return;
        }
        self.0.push_str(",\"facts\":{");
        for (index, (name, value)) in facts.iter().enumerate() {
            if index > 0 {
                self.0.push(',');
            }
            self.quoted(name.as_str());
            self.0.push(':');
            match value {
                FactValue::Bool(value) => self.0.push_str(if *value { "true" } else { "false" }),
                FactValue::Integer(value) => append_number(&mut self.0, *value),
                FactValue::Text(value) => self.quoted(value),
            }
        }
        self.0.push('}');
    }

    /// Appends a text in quotes, escaped for JSON.
    fn quoted(&mut self, value: &str) {
        let needs_escape = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
        if value.bytes().any(needs_escape) {
            self.0.push_str(&serde_json::to_string(value).expect("a text can be written as JSON"));
        } else {
            self.0.push('"');
            self.0.push_str(value);
            self.0.push('"');
        }
    }

    /// Like [`time_text`], but reuses the text of the last second.
    fn time(&mut self, at: Timestamp) {
        thread_local! {
            static LAST: Cell<Option<(i64, [u8; SECONDS_LENGTH])>> = const { Cell::new(None) };
        }
        let cached = LAST.get().filter(|(second, _)| *second == at.as_secs());
        let text = cached.map(|(_, text)| text).or_else(|| {
            let text = time_text(at).to_string().as_bytes().first_chunk().copied()?;
            LAST.set(Some((at.as_secs(), text)));
            Some(text)
        });
        let micros = 1_000_000 + i64::from(at.subsec_nanos() / 1_000);
        match text.as_ref().and_then(|text| std::str::from_utf8(text).ok()) {
            // True for years of four digits.
            Some(text) if text.ends_with('.') => {
                self.0.push_str(text);
                let start = self.0.len();
                append_number(&mut self.0, micros);
                // Only the leading 1 is removed; it has kept the zeros after it.
                self.0.remove(start);
                self.0.push('Z');
            }
            _ => write!(self.0, "{}", time_text(at)).expect("writing to a String can't fail"),
        }
    }
}

/// Appends a number in decimal digits.
fn append_number(text: &mut String, value: i64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        text.push('-');
    }
    text.push_str(std::str::from_utf8(&digits[start..]).expect("digits are valid UTF-8"));
}

/// The key of an outcome, and the member of a call that has only begun. Quotes in texts are escaped, so neither can
/// match anywhere else.
const OUTCOME_KEY: &str = "\"outcome\":\"";
const BEGUN_OUTCOME: &str = "\"outcome\":\"begun\"";

/// Drops the records of calls that have begun and whose final record is here as well: one record says everything. Two
/// records belong to the same call if they are equal in all fields before the outcome.
pub(crate) fn drop_superseded_begun(entries: Vec<(i64, RecordBody)>) -> Vec<(i64, RecordBody)> {
    let is_begun = |body: &RecordBody| body.0.contains(BEGUN_OUTCOME);
    if !entries.iter().any(|(_, body)| is_begun(body)) {
        return entries;
    }
    let call_key = |body: &RecordBody| body.0.split(OUTCOME_KEY).next().unwrap_or_default().to_owned();
    let mut ended_counts: HashMap<String, usize> = HashMap::new();
    let mut remaining: Vec<_> = Vec::with_capacity(entries.len());
    for (number, body) in entries.into_iter().rev() {
        if !is_begun(&body) {
            *ended_counts.entry(call_key(&body)).or_default() += 1;
        } else if let Some(count) = ended_counts.get_mut(&call_key(&body)).filter(|count| **count > 0) {
            *count -= 1;
            continue;
        }
        remaining.push((number, body));
    }
    remaining.reverse();
    remaining
}

/// A record in the database.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// Its text, which its hash covers.
    #[serde(skip)]
    pub body: Arc<str>,
    /// Its id, which orders all records of a database, of every instance; later records have greater ids.
    #[serde(skip)]
    pub id: i64,
    /// The running instance that wrote it.
    pub instance: Uuid,
    /// Its position in that instance's chain, from 1.
    pub seq: i64,
    /// When the call began, as RFC 3339.
    pub at: String,
    /// The stead in which the call was made, if that has a name.
    #[serde(default)]
    pub stead: Option<String>,
    /// The agent.
    pub agent: String,
    /// The thread, if there is one.
    #[serde(default)]
    pub thread: Option<String>,
    /// The organization, if there is one.
    #[serde(default)]
    pub organization: Option<String>,
    /// The team, if there is one.
    #[serde(default)]
    pub team: Option<String>,
    /// The name of the tool or call.
    pub call: String,
    /// The paths that were asked for.
    pub paths: Vec<String>,
    /// The Access Scope of the first path's Workspace.
    #[serde(default)]
    pub scope: Option<String>,
    /// The outcome: `ok`, `denied`, `failed` or `begun`.
    pub outcome: String,
    /// The error code, if the call failed or was denied.
    #[serde(default)]
    pub code: Option<String>,
    /// Whether the call only asked what it would do.
    #[serde(default)]
    pub dry_run: bool,
    /// How many bytes were read or written, if that is known.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// How many files the call covered, if there were many.
    #[serde(default)]
    pub files: Option<u64>,
    /// How long it took, in microseconds.
    pub took_us: u64,
    /// The operation that the call belongs to.
    #[serde(default)]
    pub operation: Option<OperationId>,
    /// The revision that a change made.
    #[serde(default)]
    pub version: Option<i64>,
    /// A digest of what that revision did, in hexadecimal.
    #[serde(default)]
    pub did: Option<String>,
    /// How many revisions before it have no record.
    #[serde(default)]
    pub unrecorded: i64,
    /// What the fixed fields have no place for.
    #[serde(default)]
    pub facts: AuditFacts,
}

/// The text isn't a valid record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text isn't a valid audit record")]
pub struct InvalidAuditEntry;

impl AuditEntry {
    /// Parses a record's text.
    pub fn parse(id: i64, body: &str) -> Result<Self, InvalidAuditEntry> {
        let entry: AuditEntry = serde_json::from_str(body).map_err(|_| InvalidAuditEntry)?;
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

    use stead_core::store::RevisionNumber;
    use stead_core::{AccessScope, AuditOutcome, ErrorKind, FactName, Identity, VfsPath};

    use super::*;

    fn record(at: i64, identity: Identity, path: &str, outcome: AuditOutcome) -> AuditRecord {
        let mut record = AuditRecord::new(Timestamp(at), Arc::new(identity), "read", outcome);
        record.paths = vec![VfsPath::parse(path).unwrap()];
        record
    }

    #[test]
    fn a_record_is_written_with_its_fields_in_order_and_read_again() {
        let operation = OperationId::from_bytes([7; 16]);
        let mut record = record(
            1_700_000_000_123_456_789,
            Identity::agent("co\"der").with_thread("t"),
            "/notes/a\u{e9}.md",
            AuditOutcome::Failed(ErrorKind::Quota),
        );
        record.stead = Some("co\\der".into());
        record.scope = Some(AccessScope::ReadWrite);
        record.dry_run = true;
        record.bytes = Some(12);
        record.file_count = Some(u64::MAX);
        record.duration = Duration::from_micros(34);
        record.operation = Some(operation);
        record.revision = Some(RevisionNumber(5));
        let fact = |name| FactName::new(name).unwrap();
        let facts = AuditFacts::default().with(fact("folder.id"), "a\"b").unwrap();
        record.facts = facts.with(fact("exit"), -1).unwrap().with(fact("ask"), true).unwrap();
        let mut body = "what was there before".to_owned();
        RecordBody::of(&record).write_at(&Uuid::nil(), 3, &mut body);
        assert_eq!(
            body,
            "{\"instance\":\"00000000-0000-0000-0000-000000000000\",\"seq\":3,\"at\":\"2023-11-14T22:13:20.123456Z\",\
             \"stead\":\"co\\\\der\",\"agent\":\"co\\\"der\",\"thread\":\"t\",\"call\":\"read\",\"paths\":[\"/notes/a\u{e9}.md\"],\
             \"scope\":\"READ_WRITE\",\"outcome\":\"failed\",\"code\":\"quota\",\"dry_run\":true,\"bytes\":12,\"files\":18446744073709551615,\"took_us\":34,\
             \"operation\":\"07070707-0707-0707-0707-070707070707\",\"version\":5,\"facts\":{\"folder.id\":\"a\\\"b\",\"exit\":-1,\"ask\":true}}"
        );
        let entry = AuditEntry::parse(9, &body).unwrap();
        assert_eq!((entry.id, entry.seq, &*entry.agent, entry.version), (9, 3, "co\"der", Some(5)));
        assert_eq!(entry.facts, record.facts);
        assert_eq!(entry.at(), Some(Timestamp(1_700_000_000_123_456_000)));
        assert_eq!(AuditEntry::parse(1, "{}"), Err(InvalidAuditEntry));
    }

    #[test]
    fn a_cached_time_is_written_like_any_other_time() {
        for nanos in
            [0, 999, 1_000, 1_700_000_000_000_001_000, 1_700_000_000_999_999_999, -1, i64::MAX, i64::MIN]
        {
            let mut text = JsonText(String::new());
            text.time(Timestamp(nanos));
            text.time(Timestamp(nanos));
            assert_eq!(text.0, time_text(Timestamp(nanos)).to_string().repeat(2));
        }
    }

    #[test]
    fn a_begun_record_is_dropped_if_the_call_has_ended() {
        let record = |at: i64, path: &str, outcome: AuditOutcome| {
            let agent = Identity::agent("\"outcome\":\"begun\"");
            let mut record = record(at * 1_000, agent, path, outcome);
            record.bytes = (outcome != AuditOutcome::Begun).then_some(7);
            RecordBody::of(&record)
        };
        use AuditOutcome::{Begun, Ok};
        let entries = vec![
            (0, record(1, "/a", Begun)),
            (1, record(1, "/b", Begun)),
            (2, record(1, "/a", Begun)),
            (3, record(2, "/a", Ok)),
            (4, record(1, "/a", Ok)),
        ];
        let remaining: Vec<_> =
            drop_superseded_begun(entries.clone()).into_iter().map(|(number, _)| number).collect();
        // One of two calls that began at once has ended, and a call on another file has not.
        assert_eq!(remaining, [0, 1, 3, 4]);
        assert_eq!(drop_superseded_begun(entries[3..].to_vec()), entries[3..]);
    }
}
