use stead::Fork;

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::json;
use crate::session::Session;

/// List the agent's forks
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) fn run(_: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let forks: Vec<_> = stead.single_record("forks", None, CommandError::kind, |stead| {
        Ok::<_, CommandError>(stead.forks()?.cloned().collect())
    })?;
    for fork in &forks {
        if session.wants_json() {
            session.print_json(&json::fork(fork))?;
        } else {
            let creator_suffix = if fork.created_by == fork.owner {
                String::new()
            } else {
                format!(" by {}", fork.created_by)
            };
            let excluded_suffix = match fork.excluded.is_empty() {
                true => String::new(),
                false => format!(", without {}", excluded_paths(fork)),
            };
            session.print_line(format_args!(
                "/forks/{}  of {}, made {}{creator_suffix}{excluded_suffix}",
                fork.name, fork.base_prefix, fork.created
            ))?;
        }
    }
    Ok(Exit::OK)
}

/// The paths that a fork was made without, relative to its root.
pub(super) fn excluded_paths(fork: &Fork) -> String {
    let paths: Vec<_> = fork.excluded.iter().map(|path| path.as_str()[1..].to_owned()).collect();
    paths.join(", ")
}
