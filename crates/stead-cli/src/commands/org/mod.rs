//! `stead org`: what the agents of an organization can reach, and why.

mod check;
mod graph;
mod mermaid;
mod migrate;
mod reason;
mod show;
mod table;
mod who;

use clap::Subcommand;
use stead::Config;
use stead::config::{OrganizationConfig, nearest};

use crate::command_error::{CommandError, CommandResult};
use crate::human;
use crate::session::Session;

/// Show, check, draw and migrate organizations: who can reach what, and why
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    Show(show::Args),
    Who(who::Args),
    Check(check::Args),
    Graph(graph::Args),
    Migrate(migrate::Args),
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    match args {
        Args::Show(args) => show::run(args, session),
        Args::Who(args) => who::run(args, session),
        Args::Check(args) => check::run(args, session),
        Args::Graph(args) => graph::run(args, session),
        Args::Migrate(args) => migrate::run(args, session),
    }
}

/// Which organization is meant.
#[derive(Debug, clap::Args)]
struct OrganizationArg {
    /// The organization; not needed if there is only one, or if --agent names an agent of one
    #[arg(long, value_name = "ID")]
    organization: Option<String>,
}

impl OrganizationArg {
    /// The organization with this id, or else that of the agent that `--agent` names, or else the only one.
    fn find<'c>(
        &self,
        config: &'c Config,
        session: &Session,
    ) -> Result<&'c OrganizationConfig, CommandError> {
        require_organization(config)?;
        if let Some(id) = &self.organization {
            let found = config.organizations.iter().find(|config| config.organization.id() == id);
            return found.ok_or_else(|| unknown_organization(config, id));
        }
        if session.named_agent().is_some() {
            let agent = session.agent(config)?;
            return Ok(member(config, &agent)?.0);
        }
        match &*config.organizations {
            [only] => Ok(only),
            _ => Err(CommandError::invalid(format!(
                "there are several organizations; choose one with --organization: {}",
                ids(config)
            ))),
        }
    }
}

/// Fails if the configuration has no organization.
fn require_organization(config: &Config) -> Result<(), CommandError> {
    if !config.organizations.is_empty() {
        return Ok(());
    }
    Err(CommandError::invalid(
        "no organization is configured; add [[organization]] to the configuration, with `store` and with `path`: the \
         directory of org.json, teams.json and agents.json",
    ))
}

/// The organization of an agent, and the agent in it.
fn member<'c>(
    config: &'c Config,
    agent: &str,
) -> Result<(&'c OrganizationConfig, stead::organization::AgentIndex), CommandError> {
    config.member(agent).ok_or_else(|| match config.has_agent(agent) {
        true => CommandError::invalid(format!(
            "the agent `{0}` is in no organization; `stead map --agent {0}` shows what it can reach",
            human::escape_text(agent)
        )),
        false => stead::Error::unknown_agent(config, agent).into(),
    })
}

fn unknown_organization(config: &Config, id: &str) -> CommandError {
    let known = config.organizations.iter().map(|config| config.organization.id());
    let hint = match nearest(id, known) {
        Some(near) => format!("did you mean `{}`?", human::escape_text(near)),
        None => format!("there are {}", ids(config)),
    };
    CommandError::invalid(format!("there is no organization `{}`; {hint}", human::escape_text(id)))
}

fn ids(config: &Config) -> String {
    let id = |config: &OrganizationConfig| format!("`{}`", human::escape_text(config.organization.id()));
    config.organizations.iter().map(id).collect::<Vec<_>>().join(", ")
}
