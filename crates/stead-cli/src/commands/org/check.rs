use stead::organization::Organization;
use stead::tools::tool;

use super::require_organization;
use crate::command_error::CommandResult;
use crate::commands::config::Findings;
use crate::human;
use crate::session::Session;

/// List what is wrong with the organizations, with file and line
///
/// Errors, and notes about what is probably not intended: teams and tools that don't exist, agents without tools, deprecated
/// fields. The rest of the configuration is checked too, because organizations depend on it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) fn run(_: Args, session: &mut Session) -> CommandResult {
    let findings = Findings::gather(session)?;
    if let Some(config) = findings.config() {
        require_organization(config)?;
    }
    findings.print(session)?;
    let organizations = findings.config().filter(|_| findings.is_valid() && !session.wants_json());
    for config in organizations.into_iter().flat_map(|config| &config.organizations) {
        let acme = &config.organization;
        let without_team = acme.agents().filter(|(_, agent)| agent.team.is_none()).count() as u64;
        let without_team = match without_team {
            0 => String::new(),
            count => format!(" ({count} without a team)"),
        };
        session.print_line(format_args!(
            "{} ({}): {}, {}{without_team}, {}.",
            human::escape_text(acme.name()),
            human::escape_text(acme.id()),
            human::count(acme.teams().len() as u64, "team", "teams"),
            human::count(acme.agents().len() as u64, "agent", "agents"),
            human::count(known_tools(acme), "allowed tool", "allowed tools"),
        ))?;
    }
    Ok(findings.exit())
}

/// How many of the tools that an organization lists it allows, and there are.
fn known_tools(organization: &Organization) -> u64 {
    let rule = organization.tools();
    let is_counted = |name: &&String| tool(name).is_some() && rule.allows(name);
    rule.whitelist.iter().flatten().filter(is_counted).count() as u64
}
