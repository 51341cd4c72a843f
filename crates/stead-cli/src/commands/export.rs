use std::path::PathBuf;

use stead::monitor::CallMonitor;
use stead::transfer::{ExportDestination, OnExisting};

use super::import::{compare_by, report_totals};
use crate::command_error::{CommandError, CommandResult};
use crate::human;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::session::{AsOfArg, Session};

/// Copy a directory to a directory or a tar archive of the host
///
/// Modes, times and symlinks are kept. No symlink of the host is followed. Names that are hidden from the agent are left
/// out and counted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory to export
    #[arg(value_name = "PREFIX")]
    from: String,
    /// A directory, a file that ends in .tar, or `-` for an archive on standard output
    #[arg(value_name = "DEST")]
    destination: PathBuf,
    /// Write into a destination that isn't empty: equal files stay, other files of the same name are replaced
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    at: AsOfArg,
    /// Compare content instead of size, time and mode
    #[arg(long)]
    checksum: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let on_existing = if args.force { OnExisting::Replace } else { OnExisting::Refuse };
    let to_stdout = args.destination.as_os_str() == "-";
    if to_stdout && session.wants_json() {
        return Err(CommandError::invalid("the archive goes to standard output, so --json can't be used"));
    }
    if to_stdout && session.is_terminal() {
        return Err(CommandError::invalid(
            "the archive would go to the terminal; redirect standard output to a file",
        ));
    }
    let interrupt = Interrupt::listen()?;
    let stead = interrupt.attach_to(&stead);
    let totals = session.compound("export", &stead, (&args.at, &args.from), |session, stead| {
        let mut progress = Progress::new(session);
        let destination = if to_stdout {
            ExportDestination::Stream(Box::new(session.stdout()))
        } else {
            ExportDestination::at(args.destination)
        };
        let consequence = match &destination {
            ExportDestination::Stream(_) => "the archive is incomplete",
            ExportDestination::Archive(_) => "no archive was made",
            ExportDestination::Directory(_) => {
                "every file that was written is complete; repeat the command with --force to continue"
            }
        };
        let exported =
            stead.export(&args.from, destination, on_existing, compare_by(args.checksum), &mut progress);
        exported.map_err(|error| match error {
            error if interrupt.stop_reason().is_some() => interrupt.error_or(error, consequence),
            stead::Error::Host { cause, .. } if to_stdout => CommandError::output_error(cause),
            error => error.into(),
        })
    })?;
    let exit = report_totals("Exported", &totals, session)?;
    if totals.hidden > 0 {
        let names = human::count(totals.hidden, "name is", "names are");
        session.say(format_args!("{names} hidden from this agent and left out."));
    }
    Ok(exit)
}
