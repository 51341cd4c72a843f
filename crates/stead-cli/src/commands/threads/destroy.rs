use stead::{DestroyedThread, Error, Stores, ThreadKey};

use super::show::contents;
use super::{ThreadArg, thread_text};
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::Session;
use crate::{human, json};

/// End a thread, and remove its files, forks, snapshots and State
///
/// Nothing of them can be restored; the audit stays. A thread that another process uses is not destroyed: end that process
/// first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    thread: ThreadArg,
    /// Only show what would be removed
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let config = session.config()?;
    let key = args.thread.key(&config, session)?;
    let stores = Stores::of(&config);
    if args.dry_run {
        return show_what_would_go(&stores, &key, session);
    }
    let Some(removed) = stores.threads().destroy(&key)? else {
        // Destroying a thread twice is as good as once.
        session.say(format_args!("Nothing to destroy: {} doesn't exist.", thread_text(&key)));
        if session.wants_json() {
            session.print_json(&json::destroyed_thread(&key, &DestroyedThread::default()))?;
        }
        return Ok(Exit::OK);
    };
    if session.wants_json() {
        session.print_json(&json::destroyed_thread(&key, &removed))?;
    } else {
        session.print_line(format_args!("Destroyed {}: {}.", thread_text(&key), removed_text(&removed)))?;
    }
    Ok(Exit::OK)
}

fn show_what_would_go(stores: &Stores, key: &ThreadKey, session: &mut Session) -> CommandResult {
    let details = stores.threads().show(key)?;
    if details.record.leases > 0 {
        return Err(in_use(key, details.record.leases));
    }
    if session.wants_json() {
        session.print_json(&json::thread_to_destroy(&details))?;
        return Ok(Exit::OK);
    }
    session.print_line(format_args!("Would destroy {}:", thread_text(key)))?;
    for (name, value) in contents(&details) {
        session.print_line(format_args!("  {name:9}  {value}"))?;
    }
    Ok(Exit::OK)
}

/// The error for a thread that processes use.
pub(super) fn in_use(key: &ThreadKey, processes: u64) -> CommandError {
    let processes = human::count(processes, "process uses", "processes use");
    Error::ThreadInUse(format!("{processes} {}; try again when none does", thread_text(key))).into()
}

/// What was removed with a thread.
pub(super) fn removed_text(removed: &DestroyedThread) -> String {
    let files = human::count(removed.files, "file", "files");
    let mut parts = vec![format!("{files} ({})", human::size(removed.bytes))];
    for (number, singular, plural) in [
        (removed.forks, "fork", "forks"),
        (removed.snapshots, "snapshot", "snapshots"),
        (removed.keys, "key", "keys"),
    ] {
        if number > 0 {
            parts.push(human::count(number, singular, plural));
        }
    }
    format!("{} removed", parts.join(", "))
}
