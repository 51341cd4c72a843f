//! Archives a thread: its files and the facts of its history, as a tar archive that `stead import` can read.

use std::io::Write;

use serde_json::json;
use stead_core::vfs::{LogEntry, LogQuery};
use stead_core::{AccessScope, Clock, ErrorKind, Identity, SystemClock};
use stead_stores::ThreadKey;
use tar::{EntryType, Header};

use crate::error::{Error, Result};
use crate::stead::Stead;
use crate::threads::Threads;
use crate::transfer::{
    ARCHIVE_FACTS_DIRECTORY, CompareBy, ExportDestination, NoObserver, OnExisting, TransferTotals,
};

/// How many changes the log of an archive has at most: the newest ones.
const MAX_LOG_ENTRIES: usize = 100_000;
/// The size of a block of a tar archive.
const BLOCK: usize = 512;

impl Threads<'_> {
    /// Writes a thread's files into a tar archive, one directory for each Workspace, with the log of its history as JSON
    /// Lines in `.stead-archive/log.jsonl`. The log has who did what and when, and no content. `stead import` takes the
    /// archive; it leaves the log out.
    ///
    /// It is an act of the operator: protected and hidden files and those of WRITE_ONLY Workspaces are in the archive, too.
    /// The thread stays.
    pub fn archive(&self, key: &ThreadKey, mut writer: impl Write) -> Result<TransferTotals> {
        // Opening its stead would make it.
        self.record(key)?;
        let identity = Identity::agent(&key.agent).with_thread(&key.thread);
        let stead = Stead::open_adjusted(self.stores, &identity, |agent| {
            agent.workspaces.retain(Self::is_own);
            for workspace in &mut agent.workspaces {
                workspace.scope = AccessScope::ReadOnly;
                (workspace.protect, workspace.hide) = (Some(Vec::new()), Some(Vec::new()));
            }
        })?;
        let error_kind = |error: &Error| Some(error.kind());
        stead.compound("thread.archive", "/", error_kind, |stead| {
            let log = log_lines(stead)?;
            let name = format!("{ARCHIVE_FACTS_DIRECTORY}/log.jsonl");
            write_file(&mut writer, &name, log.as_bytes())
                .map_err(|cause| Error::host("the archive can't be written", cause))?;
            let destination = ExportDestination::Stream(Box::new(&mut writer));
            let (existing, compare) = (OnExisting::default(), CompareBy::default());
            stead.export("/", destination, existing, compare, &mut NoObserver)
        })
    }
}

/// The history as JSON Lines, oldest first. Empty if there is none.
fn log_lines(stead: &Stead) -> Result<String> {
    let query = LogQuery { limit: MAX_LOG_ENTRIES, ..LogQuery::default() };
    let entries = match stead.vfs().log(&query) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unsupported) => Vec::new(),
        entries => entries?,
    };
    Ok(entries.iter().rev().map(|entry| format!("{}\n", log_line(entry))).collect())
}

fn log_line(entry: &LogEntry) -> serde_json::Value {
    let change_line = |change: &stead_core::vfs::LogChange| {
        json!({
            "path": change.path.as_str(),
            "from": change.from.as_ref().map(|from| from.as_str()),
            "action": format!("{:?}", change.action).to_lowercase(),
            "size": change.size,
        })
    };
    let changes: Vec<_> = entry.changes.iter().map(change_line).collect();
    let operation = &entry.operation;
    json!({
        "operation": operation.id.to_string(),
        "at": operation.at.to_string(),
        "agent": operation.identity.agent,
        "thread": operation.identity.thread,
        "tool": operation.tool,
        "undone": entry.undone,
        "changes": changes,
    })
}

/// Writes one file of a tar archive. More can follow.
fn write_file(writer: &mut impl Write, name: &str, content: &[u8]) -> std::io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_path(name)?;
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    header.set_mtime(u64::try_from(SystemClock.now().as_secs()).unwrap_or(0));
    header.set_cksum();
    writer.write_all(header.as_bytes())?;
    writer.write_all(content)?;
    writer.write_all(&vec![0; content.len().next_multiple_of(BLOCK) - content.len()])
}
