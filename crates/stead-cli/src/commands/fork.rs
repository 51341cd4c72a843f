use super::forks;
use crate::command_error::{CommandResult, Exit};
use crate::json;
use crate::session::Session;

/// Fork a Workspace: make a copy at /forks/FORK that can be changed freely
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The Workspace to fork
    #[arg(value_name = "PREFIX")]
    prefix: String,
    /// The name of the fork
    #[arg(value_name = "FORK")]
    fork: String,
    /// Give the fork to this agent
    #[arg(long, value_name = "AGENT")]
    to: Option<String>,
    /// Take a snapshot of a host directory first, so that nothing in the fork is live
    #[arg(long)]
    pin: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let fork = match (&args.to, args.pin) {
        (Some(agent), true) => stead.fork_pinned_to(&*args.prefix, &args.fork, agent)?,
        (Some(agent), false) => stead.fork_to(&*args.prefix, &args.fork, agent)?,
        (None, true) => stead.fork_pinned(&*args.prefix, &args.fork)?.find_fork(&args.fork)?.clone(),
        (None, false) => stead.fork(&*args.prefix, &args.fork)?.find_fork(&args.fork)?.clone(),
    };
    if session.wants_json() {
        session.print_json(&json::fork(&fork, false))?;
    } else {
        let owner_suffix = args.to.map(|agent| format!(" of {agent}")).unwrap_or_default();
        session.say(format_args!("Forked {} as /forks/{}{owner_suffix}", fork.base_prefix, fork.name));
        if !fork.parts.is_empty() {
            session.say(format_args!("With the nested Workspaces {}", forks::parts(&fork)));
        }
        if !fork.excluded.is_empty() {
            let excluded = forks::excluded_paths(&fork);
            session.say(format_args!(
                "Not in the fork, because they are WRITE_ONLY or can't be forked: {excluded}"
            ));
        }
    }
    Ok(Exit::OK)
}
