//! Documents of `stead threads`.

use serde::Serialize;
use serde_json::Value;
use stead::{DestroyedThread, ThreadDetails, ThreadKey, ThreadRecord};

use super::{TransferTotals, time, to_value};

/// A thread: a line of `threads list`, and `threads show`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Thread<'a> {
    agent: &'a str,
    thread: &'a str,
    created: Option<String>,
    last_used: Option<String>,
    /// For how many seconds it has not been used.
    unused_seconds: u64,
    /// After how many seconds without use it ends.
    idle_timeout_seconds: Option<u64>,
    /// How many processes use it.
    processes: u64,
    /// Until when the longest lease of these processes holds, unless it is renewed.
    leased_until: Option<String>,
    /// `in_use`, `idle` or `ending`.
    state: &'a str,
    /// The Workspaces whose files are the thread's own; only of `threads show`.
    #[serde(skip_serializing_if = "Option::is_none")]
    workspaces: Option<Vec<ThreadFiles<'a>>>,
    /// Only of `threads show`.
    #[serde(skip_serializing_if = "Option::is_none")]
    forks: Option<u64>,
    /// Only of `threads show`.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshots: Option<u64>,
    /// How many keys its State has; only of `threads show`, and only if the thread has a State.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<u64>,
}

/// What a thread has in a Workspace. Both numbers are null if that can't be seen from here.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ThreadFiles<'a> {
    path: &'a str,
    files: Option<u64>,
    bytes: Option<u64>,
}

/// What was removed with a thread, or would be: `threads destroy`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ThreadRemoval<'a> {
    agent: &'a str,
    thread: &'a str,
    /// Whether nothing was removed.
    dry_run: bool,
    files: u64,
    bytes: u64,
    forks: u64,
    snapshots: u64,
    /// How many keys of its State.
    keys: u64,
}

/// The result of `threads archive`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ThreadArchive<'a> {
    agent: &'a str,
    thread: &'a str,
    archived: TransferTotals,
    /// Null if the thread stays.
    destroyed: Option<ThreadRemoval<'a>>,
}

fn document(record: &ThreadRecord) -> Thread<'_> {
    Thread {
        agent: &record.key.agent,
        thread: &record.key.thread,
        created: time(Some(record.created)),
        last_used: time(Some(record.last_used)),
        unused_seconds: record.idle_for.as_secs(),
        idle_timeout_seconds: record.idle_timeout.map(|timeout| timeout.as_secs()),
        processes: record.leases,
        leased_until: time(record.leased_until),
        state: match record {
            ThreadRecord { is_ending: true, .. } => "ending",
            ThreadRecord { leases: 0, .. } => "idle",
            _ => "in_use",
        },
        workspaces: None,
        forks: None,
        snapshots: None,
        keys: None,
    }
}

/// A thread.
pub(crate) fn thread(record: &ThreadRecord) -> Value {
    to_value(&document(record))
}

/// A thread with what it has.
pub(crate) fn thread_details(details: &ThreadDetails) -> Value {
    let workspaces = details.workspaces.iter().map(|workspace| ThreadFiles {
        path: workspace.prefix.as_str(),
        files: workspace.usage.map(|usage| usage.files),
        bytes: workspace.usage.map(|usage| usage.bytes),
    });
    to_value(&Thread {
        workspaces: Some(workspaces.collect()),
        forks: Some(details.forks),
        snapshots: Some(details.snapshots),
        keys: details.state.map(|state| state.files),
        ..document(&details.record)
    })
}

fn removal<'a>(key: &'a ThreadKey, removed: &DestroyedThread) -> ThreadRemoval<'a> {
    ThreadRemoval {
        agent: &key.agent,
        thread: &key.thread,
        dry_run: false,
        files: removed.files,
        bytes: removed.bytes,
        forks: removed.forks,
        snapshots: removed.snapshots,
        keys: removed.keys,
    }
}

/// What was removed with a thread.
pub(crate) fn destroyed_thread(key: &ThreadKey, removed: &DestroyedThread) -> Value {
    to_value(&removal(key, removed))
}

/// What would be removed with a thread, as far as that can be seen from here.
pub(crate) fn thread_to_destroy(details: &ThreadDetails) -> Value {
    let ThreadKey { agent, thread } = &details.record.key;
    let usages = || details.workspaces.iter().filter_map(|workspace| workspace.usage);
    to_value(&ThreadRemoval {
        agent,
        thread,
        dry_run: true,
        files: usages().map(|usage| usage.files).sum(),
        bytes: usages().map(|usage| usage.bytes).sum(),
        forks: details.forks,
        snapshots: details.snapshots,
        keys: details.state.map_or(0, |state| state.files),
    })
}

/// What was archived, and removed after that.
pub(crate) fn archived_thread(
    key: &ThreadKey,
    totals: &stead::transfer::TransferTotals,
    destroyed: Option<&DestroyedThread>,
) -> Value {
    to_value(&ThreadArchive {
        agent: &key.agent,
        thread: &key.thread,
        archived: TransferTotals::of(totals),
        destroyed: destroyed.map(|removed| removal(key, removed)),
    })
}
