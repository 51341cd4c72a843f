mod create;
mod list;
mod revoke;

use clap::Subcommand;

use crate::command_error::CommandResult;
use crate::session::Session;

/// Create, list and revoke the tokens with which agents connect over HTTP
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    Create(create::Args),
    List(list::Args),
    Revoke(revoke::Args),
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    match args {
        Args::Create(args) => create::run(args, session),
        Args::List(args) => list::run(args, session),
        Args::Revoke(args) => revoke::run(args, session),
    }
}
