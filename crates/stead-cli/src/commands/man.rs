use std::path::PathBuf;

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::Session;
use crate::{human, json};

/// Write the manual pages: stead.1, and one for each command
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory to write them to; it is created if it doesn't exist
    #[arg(value_name = "DIR")]
    target: PathBuf,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let shown_path = human::host_path(&args.target);
    std::fs::create_dir_all(&args.target)
        .and_then(|()| clap_mangen::generate_to(crate::command(), &args.target))
        .map_err(|error| CommandError::host(format!("`{shown_path}` can't be written"), error))?;
    if session.wants_json() {
        session.print_json(&json::manual_pages(&shown_path))?;
    }
    session.say(format_args!(
        "Wrote the manual pages to {shown_path}. `man -l {shown_path}/stead.1` shows the first."
    ));
    Ok(Exit::OK)
}
