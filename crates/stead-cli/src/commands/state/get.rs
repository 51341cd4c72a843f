use super::NamespaceArg;
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::json;
use crate::session::{AsOfArg, Session};

/// Print the value of a key, exactly as it was set
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The key
    key: String,
    #[command(flatten)]
    namespace: NamespaceArg,
    #[command(flatten)]
    at: AsOfArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let found = stead.single_record("state_get", None, CommandError::kind, |stead| {
        let stead = args.at.apply_to(stead.clone(), "/")?;
        let state = args.namespace.state_of(&stead)?;
        state.get(&args.key)?.ok_or_else(|| CommandError::from(state.no_key_error(&args.key)))
    })?;
    if session.wants_json() {
        session.print_json(&json::state_value(args.namespace.name(), &args.key, &found))?;
    } else {
        session.print_line(found.value.strip_suffix('\n').unwrap_or(&found.value))?;
    }
    Ok(Exit::OK)
}
