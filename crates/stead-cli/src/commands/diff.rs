use crate::commands::fork_diff;
use crate::failure::Ended;
use crate::session::Session;

/// Show what differs between a fork and its base
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The fork, against its base as it was when the fork was made
    #[arg(long, value_name = "FORK")]
    fork: String,
}

pub(super) fn run(args: Args, session: &mut Session) -> Ended {
    fork_diff::run(&args.fork, session)
}
