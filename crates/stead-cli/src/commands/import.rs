use std::path::PathBuf;

use stead::transfer::{CompareBy, ImportSource, TransferTotals};

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::session::Session;
use crate::{human, json};

/// Copy a directory or a tar archive of the host into a Workspace
///
/// Modes, times and symlinks are kept. Files that already have the same size, time and mode are left as they are, so
/// an interrupted import can be repeated to continue it. Nothing is removed. What agents may not change, such as
/// .git/config, is left out and listed, and names that are hidden from agents, such as .env, are left out and counted;
/// --with-protected imports both.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A directory, a tar archive, or `-` for an archive on standard input
    #[arg(value_name = "SRC")]
    source: PathBuf,
    /// The directory to import into; with `/`, each file goes to the Workspace that its path is in
    #[arg(value_name = "PREFIX")]
    to: String,
    /// Compare content instead of size, time and mode
    #[arg(long)]
    checksum: bool,
    /// Also import what is protected or hidden from agents, such as .git/config and .env
    #[arg(long)]
    with_protected: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = if args.with_protected { session.stead_without_protection()? } else { session.stead()? };
    let interrupt = Interrupt::listen()?;
    let stead = interrupt.attach_to(&stead);
    let totals = stead.single_record("import", Some(&args.to), CommandError::kind, |stead| {
        let source = if args.source.as_os_str() == "-" {
            ImportSource::stream(std::io::stdin().lock(), "standard input")?
        } else {
            ImportSource::open(&args.source)?
        };
        let mut progress = Progress::new(session);
        let imported = stead.import(source, &args.to, compare_by(args.checksum), &mut progress);
        let consequence = "every file that was written is complete; repeat the command to continue";
        imported.map_err(|error| interrupt.error_or(error, consequence))
    })?;
    let exit = report_totals("Imported", &totals, session)?;
    if totals.protected > 0 {
        let names = human::count(totals.protected, "name is", "names are");
        session
            .say(format_args!("{names} protected from agents; use --with-protected to import everything."));
    }
    if totals.hidden > 0 {
        let names = human::count(totals.hidden, "name is", "names are");
        session.say(format_args!("{names} hidden from agents; use --with-protected to import everything."));
    }
    Ok(exit)
}

pub(super) fn compare_by(checksum: bool) -> CompareBy {
    if checksum { CompareBy::Content } else { CompareBy::Attributes }
}

/// Prints the totals of a transfer. The exit code is `NEGATIVE` if entries were refused. Entries that are protected
/// or hidden from agents don't count as refused: the import wasn't asked to bring them in.
pub(super) fn report_totals(verb: &str, totals: &TransferTotals, session: &mut Session) -> CommandResult {
    if session.wants_json() {
        session.print_json(&json::transfer_totals(totals))?;
    }
    session.say(format_args!("{verb} {}.", totals_text(totals)));
    Ok(if totals.refused > 0 { Exit::NEGATIVE } else { Exit::OK })
}

/// The totals of a transfer in a line.
pub(super) fn totals_text(totals: &TransferTotals) -> String {
    let mut parts =
        vec![format!("{} ({})", human::count(totals.files, "file", "files"), human::size(totals.bytes))];
    let counts = [
        (totals.directories, "directory", "directories"),
        (totals.symlinks, "symlink", "symlinks"),
        (totals.unchanged, "was unchanged", "were unchanged"),
        (totals.skipped + totals.protected + totals.hidden + totals.refused, "was left out", "were left out"),
    ];
    parts.extend(
        counts
            .iter()
            .filter(|(number, ..)| *number > 0)
            .map(|(number, singular, plural)| human::count(*number, singular, plural)),
    );
    parts.join(", ")
}
