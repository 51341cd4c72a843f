mod create;
mod list;
mod revoke;

use clap::Subcommand;
use serde_json::{Value, json};
use stead::Token;

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

/// A token as JSON, without its secret.
fn as_json(token: &Token) -> Value {
    json!({
        "id": token.id,
        "agent": token.identity.agent,
        "thread": token.identity.thread,
        "created": token.created.to_string(),
        "structured": !token.results.is_text(),
        "expires": token.expires.map(|time| time.to_string()),
        "lastUsed": token.last_used.map(|time| time.to_string()),
    })
}
