//! The JSON Schema of the documents, made from their types and compared with the file in `docs/reference`.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Value, json};

use super::*;

/// The file with the schema. `cargo xtask reference` writes it.
const SCHEMA_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/json.schema.json");

/// What matches in files: `grep`.
#[derive(Serialize, JsonSchema)]
struct GrepResult<'a> {
    files: Vec<FileMatch<'a>>,
    /// Whether there are more matches than the limit.
    truncated: bool,
    /// Whether the search was stopped before its end.
    timed_out: bool,
    unread: Vec<Unread<'a>>,
    left_out: LeftOut,
}

/// The matches in one file.
#[derive(Serialize, JsonSchema)]
struct FileMatch<'a> {
    path: &'a str,
    /// How many lines match.
    count: u64,
    lines: Vec<MatchedLine<'a>>,
}

/// A line that matches, or one around it.
#[derive(Serialize, JsonSchema)]
struct MatchedLine<'a> {
    number: u64,
    text: &'a str,
    /// Whether the line matches, and isn't only context.
    #[serde(rename = "match")]
    is_match: bool,
}

/// A record: a line of `audit` and `audit export`, exactly as it was hashed.
#[derive(Serialize, JsonSchema)]
struct AuditRecord<'a> {
    instance: &'a str,
    seq: u64,
    at: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stead: Option<&'a str>,
    agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    organization: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<&'a str>,
    /// The tool, the command or the kind of call.
    call: &'a str,
    paths: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
    /// `ok`, `denied`, `failed` or `begun`.
    outcome: &'a str,
    /// The code of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    /// How long the call took, in microseconds.
    took_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<i64>,
    /// A digest of what the change did.
    #[serde(skip_serializing_if = "Option::is_none")]
    did: Option<&'a str>,
    /// How many records of changes before this one are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    unrecorded: Option<u64>,
    /// Named texts, numbers and booleans.
    #[serde(skip_serializing_if = "Option::is_none")]
    facts: Option<BTreeMap<&'a str, Value>>,
}

/// What the host offers: `doctor`.
#[derive(Serialize, JsonSchema)]
struct HostReport<'a> {
    findings: Vec<HostFinding<'a>>,
}

/// One ability of the host.
#[derive(Serialize, JsonSchema)]
struct HostFinding<'a> {
    name: &'a str,
    needed_for: &'a str,
    /// `ready`, `limited` or `missing`.
    state: &'a str,
    detail: &'a str,
}

/// The file that `init` wrote.
#[derive(Serialize, JsonSchema)]
struct WrittenFile<'a> {
    file: &'a str,
}

/// The documents of each command that prints its own. `call` and `tools` print MCP's.
fn documents(generator: &mut SchemaGenerator) -> BTreeMap<&'static str, Vec<Value>> {
    let mut documents: BTreeMap<_, Vec<Value>> = BTreeMap::new();
    macro_rules! document {
        ($type:ty: $($command:literal),+) => {
            let reference = generator.subschema_for::<$type>();
            $(documents.entry($command).or_default().push(reference.clone().to_value());)+
        };
    }
    document!(ErrorDocument: "(any)");
    document!(Listing: "ls");
    document!(Walk: "ls", "glob", "tree");
    document!(Stat: "stat");
    document!(Content: "cat");
    document!(WriteResult: "write", "append", "edit", "mkdir");
    document!(CopyResult: "cp", "mv");
    document!(RemoveResult: "rm");
    document!(ManagedFiles: "files list", "files search");
    document!(ManagedFile: "files info");
    document!(ManagedChange: "files move", "files delete", "files tag");
    document!(ManagedTree: "files tree");
    document!(ManagedSync: "files sync");
    document!(Cleanup: "files cleanup");
    document!(StateValue: "state get");
    document!(StateChange: "state set", "state delete");
    document!(StateKeys: "state list");
    document!(GrepResult: "grep");
    document!(TransferTotals: "import", "export");
    document!(LogEntry: "log");
    document!(Difference: "diff");
    document!(BlameLine: "blame");
    document!(Snapshot: "snapshot", "snapshots");
    document!(RevertResult: "undo", "restore");
    document!(Fork: "fork", "forks", "review");
    document!(MergeResult: "merge", "update", "review");
    document!(Discarded: "discard");
    document!(AuditRecord: "audit");
    document!(AuditCursor: "audit");
    document!(AuditProblem: "audit");
    document!(AuditVerified: "audit verify");
    document!(Archived: "audit archive");
    document!(Token: "token create", "token list", "token revoke");
    document!(Thread: "threads list", "threads show");
    document!(ThreadRemoval: "threads destroy");
    document!(ThreadArchive: "threads archive");
    document!(ConfigReport: "config check", "org check");
    document!(AgentReach: "org show");
    document!(PathAccess: "org who");
    document!(OrganizationGraph: "org graph");
    document!(Migration: "org migrate");
    document!(Map: "map");
    document!(Verified: "verify");
    document!(Collected: "gc");
    document!(Backup: "backup", "restore-backup");
    document!(HostReport: "doctor");
    document!(WrittenFile: "init");
    document!(ManualPages: "man");
    document!(Listening: "serve");
    document!(Mounted: "mount");
    documents
}

/// The schema: `$defs` has the documents, and `x-commands` which command prints which of them.
fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let commands = documents(&mut generator);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What `stead --json` prints",
        "description": "One document per line. `(any)` is what every command prints if it fails. Fields may be added.",
        "x-commands": commands,
        "$defs": generator.take_definitions(true),
    })
}

#[test]
fn the_schema_in_the_reference_is_that_of_the_documents() {
    let schema = format!("{:#}\n", schema());
    let file = Path::new(SCHEMA_FILE);
    if std::env::var_os("STEAD_WRITE_REFERENCE").is_some() {
        std::fs::write(file, &schema).unwrap();
    }
    let written = std::fs::read_to_string(file).unwrap();
    assert!(written == schema, "run `cargo xtask reference` to write {file:?}");
}
