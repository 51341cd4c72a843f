use crate::command_error::{CommandResult, Exit};
use crate::json;
use crate::session::Session;

/// Discard a fork and all changes in it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The fork
    #[arg(value_name = "FORK", value_parser = crate::commands::parse_fork)]
    fork: String,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    session.stead_for_fork(&args.fork)?.discard(&args.fork)?;
    if session.wants_json() {
        session.print_json(&json::discarded(&args.fork))?;
    } else {
        session.say(format_args!("Discarded the fork {}", args.fork));
    }
    Ok(Exit::OK)
}
