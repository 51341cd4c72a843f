use std::path::PathBuf;
use std::sync::Arc;

use stead::monitor::CallMonitor;
use stead::transfer::OnExisting;
use stead::{ArchiveDestination, Stores};

use super::super::import::totals_text;
use super::destroy::{in_use, removed_text};
use super::{ThreadArg, thread_text};
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::interrupt::Interrupt;
use crate::json;
use crate::progress::Progress;
use crate::session::Session;

/// Write the files of a thread to a tar archive
///
/// The archive has a directory for each Workspace whose files are the thread's own, and the log of the thread's history in
/// .stead-archive/log.jsonl. `stead import ARCHIVE / --thread NAME` brings the files into the Workspaces of another thread.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    thread: ThreadArg,
    /// A file that ends in .tar, or `-` for standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Destroy the thread when the archive is complete; not if another process uses the thread meanwhile
    #[arg(long)]
    and_destroy: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let config = session.config()?;
    let key = args.thread.key(&config, session)?;
    let to_stdout = args.file.as_os_str() == "-";
    if to_stdout && (session.wants_json() || args.and_destroy) {
        return Err(CommandError::invalid(
            "the archive goes to standard output, so --json and --and-destroy can't be used",
        ));
    }
    if to_stdout && session.is_terminal() {
        return Err(CommandError::invalid(
            "the archive would go to the terminal; redirect standard output to a file",
        ));
    }
    if !to_stdout && args.file.extension().is_none_or(|extension| extension != "tar") {
        return Err(CommandError::invalid("the name of the archive has to end in .tar"));
    }
    let stores = Stores::of(&config);
    stores.open_audit()?;
    let threads = stores.threads();
    let record = threads.show(&key)?.record;
    if args.and_destroy && record.leases > 0 {
        return Err(in_use(&key, record.leases));
    }
    let interrupt = Interrupt::listen()?;
    let mut progress = Progress::new(session);
    let destination = match to_stdout {
        true => ArchiveDestination::Stream(Box::new(session.stdout())),
        false if args.force => ArchiveDestination::File(args.file, OnExisting::Replace),
        false => ArchiveDestination::File(args.file, OnExisting::Refuse),
    };
    let monitor: Arc<dyn CallMonitor> = Arc::new(interrupt.clone());
    let archived = threads.archive_to(&key, destination, Some(monitor), &mut progress);
    drop(progress);
    let consequence = if to_stdout { "the archive is incomplete" } else { "no archive was made" };
    let archived = archived.map_err(|error| match error {
        error if interrupt.stop_reason().is_some() => interrupt.error_or(error, consequence),
        stead::Error::Host { cause, .. } if to_stdout => CommandError::output_error(cause),
        error => error.into(),
    })?;
    session.say(format_args!("Archived {}: {}.", thread_text(&key), totals_text(&archived.totals)));
    let is_complete = archived.totals.refused == 0 && archived.totals.skipped == 0;
    if args.and_destroy && !is_complete {
        session.say(format_args!("Kept {}: the archive doesn't have all of it.", thread_text(&key)));
    }
    // Between the archive and the destruction, an interruption only keeps the thread.
    let destroyed = match args.and_destroy && is_complete && interrupt.stop_reason().is_none() {
        true => threads.destroy_archived(&archived)?,
        false => None,
    };
    if let Some(removed) = &destroyed {
        session.say(format_args!("Destroyed {}: {}.", thread_text(&key), removed_text(removed)));
    }
    if session.wants_json() {
        session.print_json(&json::archived_thread(&key, &archived.totals, destroyed.as_ref()))?;
    }
    let is_done = archived.totals.refused == 0 && (is_complete || !args.and_destroy);
    Ok(if is_done { Exit::OK } else { Exit::NEGATIVE })
}
