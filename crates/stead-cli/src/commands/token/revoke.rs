use stead::Tokens;

use crate::command_error::{CommandResult, Exit};
use crate::json;
use crate::session::Session;

/// Revoke a token at once, also in running servers
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The token's id, as `list` shows it
    id: String,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let token = Tokens::of(&session.config_without_records()?).revoke(&args.id)?;
    if session.wants_json() {
        session.print_json(&json::token(&token))?;
    } else {
        session.print_line(format_args!("Revoked {}.", token.id))?;
    }
    Ok(Exit::OK)
}
