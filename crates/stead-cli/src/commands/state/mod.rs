mod delete;
mod get;
mod list;
mod set;

use clap::Subcommand;
use stead::Stead;
use stead::name::escape_text;
use stead::vfs::State;

use crate::command_error::{CommandError, CommandResult};
use crate::session::Session;

/// Read and set the keys of the agent's State
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    Get(get::Args),
    Set(set::Args),
    Delete(delete::Args),
    List(list::Args),
}

/// Which namespace a key is in.
#[derive(Debug, clap::Args)]
pub(crate) struct NamespaceArg {
    /// The namespace of the key
    #[arg(long, value_name = "NAME", default_value = stead::vfs::state::DEFAULT_NAMESPACE)]
    namespace: String,
}

impl NamespaceArg {
    fn name(&self) -> &str {
        &self.namespace
    }

    /// The State of a stead in this namespace.
    fn state_of(&self, stead: &Stead) -> Result<State, CommandError> {
        let state = stead.state().ok_or_else(|| {
            let agent = &stead.vfs().identity().agent;
            let agent = agent.escape_debug();
            CommandError::invalid(match stead.vfs().identity().organization.is_some() {
                true => format!("the agent `{agent}` has no State: agents of organizations can't have one"),
                false => format!(
                    "the agent `{agent}` has no State; add [agents.{agent}.state] with `enabled = true` to the configuration"
                ),
            })
        })?;
        Ok(state.in_namespace(&self.namespace).map_err(stead::VfsError::from)?)
    }
}

/// A key as it is shown to a person: as the log and the audit have it.
fn shown_key(namespace: &NamespaceArg, key: &str) -> String {
    format!("state:{}/{}", namespace.name(), escape_text(key))
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    match args {
        Args::Get(args) => get::run(args, session),
        Args::Set(args) => set::run(args, session),
        Args::Delete(args) => delete::run(args, session),
        Args::List(args) => list::run(args, session),
    }
}
