use stead::TagRef;

use super::NamespaceArg;
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::json;
use crate::session::Session;

/// Delete a key
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The key
    key: String,
    #[command(flatten)]
    namespace: NamespaceArg,
    /// Only if the key still has this version tag (see `stead state list`)
    #[arg(long, value_name = "TAG")]
    if_match: Option<TagRef>,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let operation = stead.single_record("state_delete", None, CommandError::kind, |stead| {
        Ok::<_, CommandError>(args.namespace.state_of(stead)?.delete(&args.key, args.if_match)?)
    })?;
    if session.wants_json() {
        session.print_json(&json::state_deleted(args.namespace.name(), &args.key, operation))?;
    }
    session.say(format_args!("Deleted {}", super::shown_key(&args.namespace, &args.key)));
    Ok(Exit::OK)
}
