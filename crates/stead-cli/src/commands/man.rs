use std::path::PathBuf;

use clap::CommandFactory;

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::human;

/// Write a manual page for each command into a directory, for packages
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory, which has to exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(super) fn run(args: &Args) -> CommandResult {
    clap_mangen::generate_to(crate::Cli::command(), &args.directory).map_err(|cause| {
        let directory = human::host_path(&args.directory);
        CommandError::host(format!("the manual pages can't be written into `{directory}`"), cause)
    })?;
    Ok(Exit::OK)
}
