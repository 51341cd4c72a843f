//! Documents for the person who runs Stead: configuration, tokens, audit and the database.

use serde::Serialize;
use serde_json::Value;
use stead::config::ConfigDiagnostic;

use super::{time, to_value};
use crate::human;

/// The result of `config check` and `org check`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ConfigReport<'a> {
    file: &'a str,
    ok: bool,
    problems: Vec<Diagnostic<'a>>,
    notes: Vec<Diagnostic<'a>>,
}

/// A problem or a note, with its place in the configuration.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Diagnostic<'a> {
    /// The file, if it isn't the configuration file itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    line: usize,
    column: usize,
    message: &'a str,
}

/// The Filesystem Map: `map`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Map<'a> {
    map: &'a str,
}

/// A token: `token create`, `token revoke`, and a line of `token list`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Token<'a> {
    id: &'a str,
    agent: &'a str,
    thread: Option<&'a str>,
    created: Option<String>,
    expires: Option<String>,
    last_used: Option<String>,
    /// Whether results have structured content.
    structured: bool,
    /// The secret; only of `token create`.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

/// A page of `audit` ends with the cursor of the next one, if there is one.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AuditCursor {
    cursor: String,
}

/// A record of `audit` that is damaged.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AuditProblem<'a> {
    problem: &'a str,
}

/// The result of `audit verify`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AuditVerified<'a> {
    /// `audit`, or the archive.
    checked: &'a str,
    records: u64,
    chains: u64,
    signatures: u64,
    /// Records that aren't signed yet.
    unsigned: u64,
    /// Records that are in archives.
    archived: u64,
    archives: u64,
    /// Chains that only other keys have signed.
    foreign: u64,
    keys: &'a [String],
    problems: &'a [String],
}

/// The result of `audit archive`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Archived<'a> {
    records: u64,
    /// Null if there was nothing to move.
    file: Option<&'a str>,
}

/// What `verify` found in one Store: a line for each.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Verified<'a> {
    pub(crate) store: &'a str,
    pub(crate) entries: u64,
    pub(crate) contents: u64,
    /// Contents that nothing refers to; `gc` frees them.
    pub(crate) unreferenced: u64,
    pub(crate) problems: &'a [String],
}

/// The result of `gc`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Collected<'a> {
    /// How many expired keys of the State were removed.
    expired_keys: u64,
    forgotten: Forgotten,
    freed: Freed,
    waiting: Waiting,
    /// What Stead keeps of host directories.
    kept: Vec<Kept<'a>>,
}

/// History that was deleted.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Forgotten {
    states: u64,
    changes: u64,
    contents: u64,
}

/// Space that was freed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Freed {
    contents: u64,
    bytes: u64,
}

/// Space that a later `gc` can free.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Waiting {
    bytes: u64,
}

/// What is kept of one host directory.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Kept<'a> {
    store: &'a str,
    freed: u64,
    bytes: u64,
}

/// The result of `backup`, and without `bytes` of `restore-backup`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Backup {
    version: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

/// The first line of `serve`: the URL for MCP clients.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Listening<'a> {
    listening: &'a str,
}

/// The first line of `mount`: where the stead is mounted.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Mounted<'a> {
    mounted: &'a str,
}

/// The directory that `man` wrote to.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ManualPages<'a> {
    directory: &'a str,
}

/// What is wrong with a configuration.
pub(crate) fn config_report(file: &str, problems: &[ConfigDiagnostic], notes: &[ConfigDiagnostic]) -> Value {
    to_value(&ConfigReport {
        file,
        ok: problems.is_empty(),
        problems: problems.iter().map(diagnostic).collect(),
        notes: notes.iter().map(diagnostic).collect(),
    })
}

fn diagnostic(diagnostic: &ConfigDiagnostic) -> Diagnostic<'_> {
    Diagnostic {
        file: diagnostic.file.as_deref().map(human::host_path),
        line: diagnostic.line,
        column: diagnostic.column,
        message: &diagnostic.message,
    }
}

/// The Filesystem Map.
pub(crate) fn map(map: &str) -> Value {
    to_value(&Map { map })
}

fn token_document(token: &stead::Token, secret: Option<&str>) -> Value {
    to_value(&Token {
        id: &token.id,
        agent: &token.identity.agent,
        thread: token.identity.thread.as_deref(),
        created: time(Some(token.created)),
        expires: time(token.expires),
        last_used: time(token.last_used),
        structured: !token.results.is_text(),
        token: secret,
    })
}

/// A token, without its secret.
pub(crate) fn token(token: &stead::Token) -> Value {
    token_document(token, None)
}

/// A token that was just created, with its secret.
pub(crate) fn new_token(token: &stead::Token, secret: &str) -> Value {
    token_document(token, Some(secret))
}

/// Where the next page of records begins.
pub(crate) fn audit_cursor(cursor: stead::AuditCursor) -> Value {
    to_value(&AuditCursor { cursor: cursor.to_string() })
}

/// A damaged record.
pub(crate) fn audit_problem(problem: &str) -> Value {
    to_value(&AuditProblem { problem })
}

/// The result of a check of the audit.
pub(crate) fn audit_verified(checked: &str, verified: &stead::AuditVerified, keys: &[String]) -> Value {
    to_value(&AuditVerified {
        checked,
        records: verified.records,
        chains: verified.instances,
        signatures: verified.heads,
        unsigned: verified.unsigned,
        archived: verified.archived,
        archives: verified.archives,
        foreign: verified.foreign,
        keys,
        problems: &verified.problems,
    })
}

/// The records that were moved to an archive.
pub(crate) fn archived(records: u64, file: Option<&str>) -> Value {
    to_value(&Archived { records, file })
}

/// What a check of one Store found.
pub(crate) fn verified(verified: &Verified<'_>) -> Value {
    to_value(verified)
}

/// What a garbage collection did; `kept` has a row for each host directory.
pub(crate) fn collected(
    expired_keys: u64,
    forgotten: &stead::ForgottenHistory,
    collected: &stead::Collected,
    kept: &[(String, stead::Pruned)],
) -> Value {
    let kept = kept.iter().map(|(store, pruned)| Kept { store, freed: pruned.freed, bytes: pruned.kept });
    to_value(&Collected {
        expired_keys,
        forgotten: Forgotten {
            states: forgotten.states,
            changes: forgotten.changes,
            contents: forgotten.contents,
        },
        freed: Freed { contents: collected.contents, bytes: collected.bytes },
        waiting: Waiting { bytes: collected.condemned },
        kept: kept.collect(),
    })
}

/// A backup that was made.
pub(crate) fn backup(version: i64, bytes: u64) -> Value {
    to_value(&Backup { version, bytes: Some(bytes) })
}

/// A backup that was restored.
pub(crate) fn restored_backup(version: i64) -> Value {
    to_value(&Backup { version, bytes: None })
}

/// The URL of a server.
pub(crate) fn listening(url: &str) -> Value {
    to_value(&Listening { listening: url })
}

/// A mount point.
pub(crate) fn mounted(path: &str) -> Value {
    to_value(&Mounted { mounted: path })
}

/// Where manual pages were written.
pub(crate) fn manual_pages(directory: &str) -> Value {
    to_value(&ManualPages { directory })
}
