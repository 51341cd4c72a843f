//! `stead threads`: the threads of agents, for the person who runs Stead.

mod archive;
mod destroy;
mod list;
mod show;

use clap::Subcommand;
use stead::{Config, Stores, ThreadKey};

use crate::command_error::{CommandError, CommandResult};
use crate::human;
use crate::session::{Session, only_agent_in_threads};

/// List, show, destroy and archive the threads of agents
///
/// An agent of scope `thread` or `hybrid` has files of its own in every thread that it works in. A thread is made at its
/// first use, and ends by `destroy` or by its idle time-out.
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    List(list::Args),
    Show(show::Args),
    Destroy(destroy::Args),
    Archive(archive::Args),
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    match args {
        Args::List(args) => list::run(args, session),
        Args::Show(args) => show::run(args, session),
        Args::Destroy(args) => destroy::run(args, session),
        Args::Archive(args) => archive::run(args, session),
    }
}

/// The thread that a command names.
#[derive(Debug, clap::Args)]
struct ThreadArg {
    /// The thread's name, as `list` shows it
    #[arg(value_name = "THREAD", value_parser = super::parse_thread)]
    // Not `thread`: that is the id of the option --thread.
    name: String,
}

impl ThreadArg {
    /// The thread, of the agent that `--agent` names. Without `--agent`: of the only agent, or of the only one that works in
    /// threads.
    fn key(&self, config: &Config, session: &Session) -> Result<ThreadKey, CommandError> {
        if let Some(named) = session.named_thread()
            && named != self.name
        {
            return Err(CommandError::invalid(
                "--thread names another thread than the argument; leave it out",
            ));
        }
        let agent = match session.named_agent() {
            // An agent that isn't configured any more may still have threads.
            Some(agent) => config.full_agent_name(agent).unwrap_or_else(|_| agent.to_owned()),
            None => match only_agent_in_threads(config) {
                Some(only) => only.to_owned(),
                None => session.agent(config)?,
            },
        };
        Ok(ThreadKey::new(agent, &self.name))
    }
}

/// The threads of an agent, as a message names them: "the thread `t` of the agent `a`".
fn thread_text(key: &ThreadKey) -> String {
    format!(
        "the thread `{}` of the agent `{}`",
        human::escape_text(&key.thread),
        human::escape_text(&key.agent)
    )
}

/// An error for an agent that has no threads and that the configuration doesn't have. So a typing error isn't taken for an
/// agent without threads.
fn check_agent(config: &Config, stores: &Stores, agent: &str) -> Result<(), CommandError> {
    if !config.has_agent(agent) && stores.threads().list(Some(agent))?.is_empty() {
        return Err(stead::Error::unknown_agent(config, agent).into());
    }
    Ok(())
}
