use stead::vfs::Overwrite;

use super::mv::destination;
use crate::command_error::{CommandResult, Exit};
use crate::human;
use crate::json;
use crate::session::Session;

/// Copy a file, a symlink or a directory
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file, symlink or directory to copy
    from: String,
    /// The destination; with a / at the end, the directory to copy it into
    to: String,
    /// Replace an existing file
    #[arg(short = 'f', long, alias = "force")]
    overwrite: bool,
    #[command(flatten)]
    habits: CopyHabits,
}

/// Options of `cp` that change nothing here.
#[derive(Debug, clap::Args)]
struct CopyHabits {
    /// For the habit: a directory is always copied with everything in it
    #[arg(short, long, hide = true, short_alias = 'R')]
    recursive: bool,
    /// For the habit: modes and symlinks are always kept
    #[arg(short, long, hide = true, short_alias = 'p')]
    archive: bool,
    /// For the habit: an existing file is only replaced with --overwrite
    #[arg(short, long, hide = true, conflicts_with = "overwrite")]
    no_clobber: bool,
    /// For the habit: the copy is always reported
    #[arg(short, long, hide = true)]
    verbose: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let vfs = session.vfs("cp")?;
    let overwrite = if args.overwrite { Overwrite::Replace } else { Overwrite::Refuse };
    let copied = vfs.copy(&args.from, &destination(&args.from, &args.to)?, overwrite)?;
    if session.wants_json() {
        session.print_json(&json::copy_result(&copied))?;
    }
    session.say(format_args!("Copied {} to {}", copied.from, copied.to));
    session.warn_not_kept(copied.not_kept);
    if copied.hidden > 0 {
        let names = human::count(copied.hidden, "name is", "names are");
        session.say(format_args!("{names} hidden from this agent and left out."));
    }
    Ok(Exit::OK)
}
