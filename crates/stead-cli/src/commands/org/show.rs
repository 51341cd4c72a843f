use std::cmp::Reverse;

use stead::config::OrganizationConfig;
use stead::organization::{AgentIndex, Grant, ToolLevel};
use stead::tools::{OfferedWhen, TOOLS, Tool};
use stead::{Access, Config};

use super::{member, reason, require_organization, table};
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::{Colour, Session};
use crate::{human, json};

/// Show what the agent can reach, and which record grants it
///
/// Each folder with its Access Scope, its path, its name and the reason; then the agent's tools, and which level of the
/// organization takes the other tools away.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show all folders, also of a large organization
    #[arg(long)]
    all: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let config = session.config()?;
    require_organization(&config)?;
    let name = session.agent(&config)?;
    let (organization, agent) = member(&config, &name)?;
    let mut grants: Vec<_> = organization.organization.grants(agent).collect();
    grants.sort_by_key(|grant| Reverse(grant.scope.allows(Access::Write)));
    let tools = AgentTools::of(organization, agent);
    if session.wants_json() {
        session.print_json(&document(&config, organization, agent, &grants, &tools))?;
        return Ok(Exit::OK);
    }
    session.use_pager();
    print_heading(organization, agent, &name, session)?;
    session.print_line("")?;
    let acme = &organization.organization;
    let row = |grant: &Grant| {
        let why = reason::of_grant(&config, organization, agent, grant.reason);
        let texts =
            [acme.folder_path(grant.folder).to_string(), acme.folder_name(grant.folder), why.to_string()];
        (grant.scope, texts.map(|text| human::escape_text(&text)))
    };
    table::print(&grants.iter().map(row).collect::<Vec<_>>(), args.all, session)?;
    session.print_line("")?;
    print_tools(&config, organization, agent, &tools, session)?;
    Ok(Exit::OK)
}

/// The tools that exist: those that an agent has, and those that a level takes away.
struct AgentTools {
    allowed: Vec<&'static str>,
    withheld: Vec<(&'static str, ToolLevel)>,
}

impl AgentTools {
    fn of(organization: &OrganizationConfig, agent: AgentIndex) -> Self {
        let mut tools = AgentTools { allowed: Vec::new(), withheld: Vec::new() };
        for tool in TOOLS.into_iter().filter(|tool| exists_in(organization, tool)) {
            match organization.organization.tool_withheld_by(agent, tool.name) {
                None => tools.allowed.push(tool.name),
                Some(level) => tools.withheld.push((tool.name, level)),
            }
        }
        tools
    }
}

/// Whether an agent of the organization can have the tool at all: it has no State, and perhaps no managed folders.
fn exists_in(organization: &OrganizationConfig, tool: &Tool) -> bool {
    match tool.offered {
        OfferedWhen::WithState => false,
        OfferedWhen::WithManaged => organization.has_managed_folders(),
        OfferedWhen::Always
        | OfferedWhen::WithHistory
        | OfferedWhen::WithForks
        | OfferedWhen::InOrganization => true,
    }
}

/// Who the agent is: `Marcus (acme/marcus) is in the team HR of Acme.`
fn print_heading(
    organization: &OrganizationConfig,
    agent: AgentIndex,
    name: &str,
    session: &mut Session,
) -> Result<(), CommandError> {
    let acme = &organization.organization;
    let shown = session.paint(Colour::Bold, human::escape_text(&acme.agent(agent).name));
    let team = match acme.team_of(agent) {
        Some(team) => format!("the team {}", human::escape_text(team.short_name())),
        None => "no team".to_owned(),
    };
    let leadership = if acme.is_leadership(agent) { ", which is leadership" } else { "" };
    session.print_line(format_args!(
        "{shown} ({}) is in {team} of {}{leadership}.",
        human::escape_text(name),
        human::escape_text(acme.name())
    ))
}

fn print_tools(
    config: &Config,
    organization: &OrganizationConfig,
    agent: AgentIndex,
    tools: &AgentTools,
    session: &mut Session,
) -> Result<(), CommandError> {
    let allowed = if tools.allowed.is_empty() { "none".to_owned() } else { tools.allowed.join(", ") };
    session.print_line(format_args!("Tools: {allowed}"))?;
    for level in [ToolLevel::Agent, ToolLevel::Team, ToolLevel::Organization] {
        let withheld = tools.withheld.iter().filter(|(_, of)| *of == level).map(|(tool, _)| *tool);
        let withheld: Vec<_> = withheld.collect();
        if !withheld.is_empty() {
            let mut why = reason::of_level(config, organization, agent, level).to_string();
            why[..1].make_ascii_uppercase();
            session.print_line(format_args!("{why}: {}", withheld.join(", ")))?;
        }
    }
    Ok(())
}

fn document(
    config: &Config,
    organization: &OrganizationConfig,
    agent: AgentIndex,
    grants: &[Grant],
    tools: &AgentTools,
) -> serde_json::Value {
    let acme = &organization.organization;
    let folder = |grant: &Grant| {
        let why = reason::of_grant(config, organization, agent, grant.reason);
        json::ReachedFolder {
            name: acme.folder_name(grant.folder),
            path: acme.folder_path(grant.folder).to_string(),
            scope: grant.scope.name(),
            reason: why.code,
            why: why.text,
            record: why.file,
        }
    };
    let withheld = |(tool, level): &(&'static str, ToolLevel)| {
        let why = reason::of_level(config, organization, agent, *level);
        json::WithheldTool { tool, level: why.code, record: why.file }
    };
    json::agent_reach(&json::AgentReach {
        agent: acme.qualified_name(agent),
        name: &acme.agent(agent).name,
        organization: acme.id(),
        team: acme.team_of(agent).map(|team| &*team.id),
        leadership: acme.is_leadership(agent),
        folders: grants.iter().map(folder).collect(),
        tools: &tools.allowed,
        withheld: tools.withheld.iter().map(withheld).collect(),
    })
}
