//! Archives a thread: its files and the facts of its history, as a tar archive that `stead import` can read.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use stead_core::vfs::{LogEntry, LogQuery};
use stead_core::{AccessScope, CallMonitor, Clock, ErrorKind, Identity, SystemClock, VfsPath};
use stead_stores::{EndWhen, ThreadKey};
use tar::{EntryType, Header};

use crate::config::{StoreConfig, WorkspaceConfig};
use crate::error::{Error, Result};
use crate::stead::Stead;
use crate::threads::{DestroyedThread, Threads};
use crate::transfer::{
    ARCHIVE_FACTS_DIRECTORY, CompareBy, ExportDestination, NoObserver, OmittedEntry, OnExisting,
    TransferObserver, TransferTotals, write_archive_file,
};

/// How many changes the log of an archive has at most: the newest ones.
const MAX_LOG_ENTRIES: usize = 100_000;
/// The size of a block of a tar archive.
const BLOCK: usize = 512;

/// Where the archive of a thread goes.
pub enum ArchiveDestination<'a> {
    /// A host file, which must not exist yet unless it may be replaced. It is complete, or it isn't made.
    File(PathBuf, OnExisting),
    /// A stream.
    Stream(Box<dyn Write + 'a>),
}

impl fmt::Debug for ArchiveDestination<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArchiveDestination::File(path, existing) => {
                f.debug_tuple("File").field(path).field(existing).finish()
            }
            ArchiveDestination::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// A thread that was archived. Until this is dropped, the process has a lease of the thread.
#[derive(Debug)]
pub struct ArchivedThread {
    /// What the archive contains.
    pub totals: TransferTotals,
    key: ThreadKey,
    /// The lease that this process had, if it was the only one.
    epoch: Option<i64>,
    /// Keeps the lease.
    _stead: Stead,
}

impl Threads<'_> {
    /// Writes a thread's files into a tar archive, one directory for each Workspace, with the log of its history as JSON
    /// Lines in `.stead-archive/log.jsonl`. The log has who did what and when, and no content. `stead import` takes the
    /// archive; it leaves the log out.
    ///
    /// It is an act of the operator: protected and hidden files and those of WRITE_ONLY Workspaces are in the archive, too.
    /// The thread stays.
    pub fn archive(&self, key: &ThreadKey, writer: impl Write) -> Result<TransferTotals> {
        let destination = ArchiveDestination::Stream(Box::new(writer));
        Ok(self.archive_to(key, destination, None, &mut NoObserver)?.totals)
    }

    /// [`Threads::archive`] to a file or a stream. `observer` learns of the progress, and `monitor` can stop the work.
    pub fn archive_to(
        &self,
        key: &ThreadKey,
        destination: ArchiveDestination<'_>,
        monitor: Option<Arc<dyn CallMonitor>>,
        observer: &mut dyn TransferObserver,
    ) -> Result<ArchivedThread> {
        // Opening its stead would make it.
        self.record(key)?;
        let identity = Identity::agent(&key.agent).with_thread(&key.thread);
        let mut in_memory = Vec::new();
        let stead = Stead::open_adjusted(self.stores, &identity, |agent| {
            agent.workspaces.retain(Self::is_own);
            let is_in_memory = |workspace: &&WorkspaceConfig| {
                let store = self.stores.config().stores.get(&workspace.store);
                matches!(store, Some(StoreConfig::Memory))
            };
            let prefixes = agent.workspaces.iter().filter(is_in_memory);
            in_memory.extend(prefixes.map(|workspace| workspace.prefix.clone()));
            for workspace in &mut agent.workspaces {
                workspace.scope = AccessScope::ReadOnly;
                (workspace.protect, workspace.hide) = (Some(Vec::new()), Some(Vec::new()));
            }
        })?;
        let lease = stead.vfs().lease().map(|lease| lease.id());
        // After the lease was taken: who comes later has a later one.
        let is_alone = self.record(key)?.leases == 1;
        let error_kind = |error: &Error| Some(error.kind());
        // What another process has in memory can't be read here.
        let elsewhere = if is_alone { Vec::new() } else { in_memory };
        let watched = monitor.map_or_else(|| stead.clone(), |monitor| stead.watched(monitor));
        let totals = watched.compound("thread.archive", "/", error_kind, |stead| match destination {
            ArchiveDestination::File(path, existing) => {
                if has_files(stead) {
                    stead.check_export_destination(&path, &VfsPath::root())?;
                }
                let totals = write_archive_file(&path, existing, |file| {
                    let totals =
                        write_archive(stead, &mut BufWriter::with_capacity(256 << 10, file), observer)?;
                    file.sync_all().map_err(archive_error)?;
                    Ok(totals)
                })?;
                sync_directory_of(&path).map_err(archive_error)?;
                Ok(totals)
            }
            ArchiveDestination::Stream(mut writer) => write_archive(stead, &mut writer, observer),
        })?;
        let mut totals = totals;
        for prefix in elsewhere {
            totals.skipped += 1;
            let (path, reason) = (prefix.to_string(), ELSEWHERE.to_owned());
            observer.omitted(&OmittedEntry { path, reason });
            observer.progressed(&totals);
        }
        let epoch = lease.filter(|_| is_alone).map(|lease| lease.epoch);
        Ok(ArchivedThread { totals, key: key.clone(), epoch, _stead: stead })
    }

    /// Destroys a thread that was archived, if the archive has all of it: nothing was left out, and no other process has used
    /// the thread since before it was archived. Fails with [`Error::ThreadInUse`] otherwise, and the thread stays.
    ///
    /// Other users of the thread in this process are not noticed, unless a call of theirs runs.
    pub fn destroy_archived(&self, archived: &ArchivedThread) -> Result<Option<DestroyedThread>> {
        let ThreadKey { agent, thread } = &archived.key;
        if archived.totals.refused > 0 || archived.totals.skipped > 0 {
            return Err(Error::ThreadInUse(format!(
                "the thread `{thread}` of the agent `{agent}` was not destroyed, because the archive doesn't have all of its \
                 files"
            )));
        }
        let in_use = || {
            Error::ThreadInUse(format!(
                "the thread `{thread}` of the agent `{agent}` was not destroyed, because another process has used it while \
                 it was archived; archive it again"
            ))
        };
        let epoch = archived.epoch.ok_or_else(in_use)?;
        match self.destroy_when(&archived.key, EndWhen::LastLeaseWas { epoch }) {
            Err(Error::ThreadInUse(_)) => Err(in_use()),
            destroyed => destroyed,
        }
    }
}

/// Whether any Workspace of the thread has files of its own. One that has only a State has none.
fn has_files(stead: &Stead) -> bool {
    stead.vfs().workspaces().next().is_some()
}

fn write_archive(
    stead: &Stead,
    writer: &mut dyn Write,
    observer: &mut dyn TransferObserver,
) -> Result<TransferTotals> {
    let log = log_lines(stead)?;
    let name = format!("{ARCHIVE_FACTS_DIRECTORY}/log.jsonl");
    write_file(writer, &name, log.as_bytes()).map_err(archive_error)?;
    if !has_files(stead) {
        let end = writer.write_all(&[0; 2 * BLOCK]).and_then(|()| writer.flush());
        return end.map(|()| TransferTotals::default()).map_err(archive_error);
    }
    let destination = ExportDestination::Stream(Box::new(&mut *writer));
    let (existing, compare) = (OnExisting::default(), CompareBy::default());
    let totals = stead.export("/", destination, existing, compare, observer)?;
    writer.flush().map_err(archive_error)?;
    Ok(totals)
}

/// Why a Workspace on a Memory Store isn't in an archive.
const ELSEWHERE: &str =
    "another process uses the thread, and what it has in memory can't be archived by this one";

fn archive_error(cause: io::Error) -> Error {
    Error::host("the archive can't be written", cause)
}

/// Makes the name of a file survive a power cut.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
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
fn write_file(writer: &mut dyn Write, name: &str, content: &[u8]) -> std::io::Result<()> {
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
