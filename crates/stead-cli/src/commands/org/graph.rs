use stead::config::nearest;
use stead::organization::{AgentIndex, Folder, FolderOwner, Organization, TeamIndex, Visibility};
use stead::{AccessScope, ErrorKind};

use super::mermaid::{Flowchart, MAX_EDGES};
use super::{OrganizationArg, member};
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::Session;
use crate::{human, json};

/// Draw the organization as a Mermaid flowchart: teams, agents, folders and rights
///
/// Put the text into a Markdown file as a block marked `mermaid`; common forges render it. Solid arrows are READ_WRITE
/// (RW), dotted ones READ_ONLY (RO). An arrow from a frame holds for everything in it, and one to a frame leads to
/// everything in it. With --agent, only what that agent can reach is drawn.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    organization: OrganizationArg,
    /// Draw only this team, its members and what they can reach
    #[arg(long, value_name = "ID")]
    team: Option<String>,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let config = session.config()?;
    let organization = &*args.organization.find(&config, session)?.organization;
    let part = match (&args.team, session.named_agent()) {
        (Some(team), _) => Part::Team(find_team(organization, team)?),
        (None, Some(_)) => Part::Agent(member(&config, &session.agent(&config)?)?.1),
        (None, None) => Part::Everything,
    };
    let (mermaid, edges) = draw(organization, part);
    if session.wants_json() {
        session.print_json(&json::organization_graph(&mermaid))?;
        return Ok(Exit::OK);
    }
    session.write_output(|out| std::io::Write::write_all(out, mermaid.as_bytes()))?;
    if edges > MAX_EDGES {
        session.say(format_args!(
            "The picture has {edges} arrows, and Mermaid draws {MAX_EDGES} unless its `maxEdges` is raised. --team and \
             --agent draw a part."
        ));
    }
    Ok(Exit::OK)
}

fn find_team(organization: &Organization, id: &str) -> Result<TeamIndex, CommandError> {
    organization.team_index(id).ok_or_else(|| {
        let hint = match nearest(id, organization.teams().flat_map(|(_, team)| [&*team.id, &*team.name])) {
            Some(near) => {
                let meant = organization.teams().find(|(_, team)| team.id == near || team.name == near);
                let meant = meant.map_or(near, |(_, team)| &*team.id);
                format!("; did you mean `{}`?", human::escape_text(meant))
            }
            None => String::new(),
        };
        let message = format!("there is no team `{}`{hint}", human::escape_text(id));
        CommandError::Message(ErrorKind::NotFound, message)
    })
}

/// What is drawn.
#[derive(Debug, Clone, Copy)]
enum Part {
    Everything,
    Team(TeamIndex),
    Agent(AgentIndex),
}

/// A frame around folders: its id, its title, and which folders are in it.
type FolderFrame = (&'static str, &'static str, fn(&Folder) -> bool);

const FOLDER_FRAMES: [FolderFrame; 3] = [
    ("private_folders", "Private folders", |folder| folder.visibility == Visibility::Private),
    (TEAM_FOLDERS, "Shared folders of teams", |folder| {
        folder.visibility == Visibility::Shared && matches!(folder.owner, FolderOwner::Team(_))
    }),
    (AGENT_FOLDERS, "Shared folders of agents", |folder| {
        folder.visibility == Visibility::Shared && matches!(folder.owner, FolderOwner::Agent(_))
    }),
];
const TEAM_FOLDERS: &str = "team_folders";
const AGENT_FOLDERS: &str = "agent_folders";

/// The picture, and the number of its arrows.
fn draw(organization: &Organization, part: Part) -> (String, usize) {
    let mut chart = Flowchart::new();
    match part {
        Part::Everything => {
            let teams: Vec<_> = organization.teams().map(|(team, _)| team).collect();
            let agents: Vec<_> = organization.agents().map(|(agent, _)| agent).collect();
            chart.frame("organization", organization.name(), |chart| {
                teams.iter().for_each(|team| draw_team(chart, organization, *team));
                let without_team = agents.iter().filter(|agent| organization.agent(**agent).team.is_none());
                without_team.for_each(|agent| draw_agent(chart, organization, *agent));
            });
            draw_folders(&mut chart, organization, folders_of(&teams, &agents));
            if !teams.is_empty() {
                chart.arrow("organization", AccessScope::ReadOnly, TEAM_FOLDERS);
            }
            draw_rights(&mut chart, organization, &teams, &agents);
        }
        Part::Team(team) => {
            draw_team(&mut chart, organization, team);
            let members = organization.team(team).members();
            let mut folders = folders_of(&[team], members);
            let reached = members.first().into_iter().flat_map(|member| organization.grants(*member));
            folders.extend(reached.map(|grant| grant.folder));
            folders.sort();
            folders.dedup();
            draw_folders(&mut chart, organization, folders);
            chart.arrow(&team_id(team), AccessScope::ReadOnly, TEAM_FOLDERS);
            draw_rights(&mut chart, organization, &[team], members);
        }
        Part::Agent(agent) => {
            match organization.agent(agent).team {
                Some(team) => {
                    let name = organization.team(team).short_name();
                    chart.frame(&team_id(team), name, |chart| draw_agent(chart, organization, agent));
                }
                None => draw_agent(&mut chart, organization, agent),
            }
            let grants: Vec<_> = organization.grants(agent).collect();
            draw_folders(&mut chart, organization, grants.iter().map(|grant| grant.folder).collect());
            for grant in grants {
                chart.arrow(&agent_id(agent), grant.scope, &folder_id(grant.folder));
            }
        }
    }
    chart.finish()
}

/// All folders of these teams and agents.
fn folders_of(teams: &[TeamIndex], agents: &[AgentIndex]) -> Vec<Folder> {
    let teams = teams.iter().flat_map(|team| Visibility::ALL.map(|half| Folder::of_team(*team, half)));
    let agents = agents.iter().flat_map(|agent| Visibility::ALL.map(|half| Folder::of_agent(*agent, half)));
    teams.chain(agents).collect()
}

fn draw_team(chart: &mut Flowchart, organization: &Organization, index: TeamIndex) {
    let team = organization.team(index);
    if team.members().is_empty() {
        return chart.actor(&team_id(index), &format!("{} (no members)", team.short_name()));
    }
    chart.frame(&team_id(index), team.short_name(), |chart| {
        team.members().iter().for_each(|agent| draw_agent(chart, organization, *agent));
    });
}

fn draw_agent(chart: &mut Flowchart, organization: &Organization, agent: AgentIndex) {
    chart.actor(&agent_id(agent), &organization.agent(agent).name);
}

fn draw_folders(chart: &mut Flowchart, organization: &Organization, folders: Vec<Folder>) {
    for (id, title, is_inside) in FOLDER_FRAMES {
        let inside: Vec<_> = folders.iter().copied().filter(is_inside).collect();
        if !inside.is_empty() {
            chart.frame(id, title, |chart| {
                for folder in inside {
                    chart.folder(&folder_id(folder), &organization.folder_name(folder));
                }
            });
        }
    }
}

/// The arrows from teams and agents to their own folders, to those of team mates, and to those that leadership may read.
fn draw_rights(
    chart: &mut Flowchart,
    organization: &Organization,
    teams: &[TeamIndex],
    agents: &[AgentIndex],
) {
    for team in teams {
        let id = team_id(*team);
        for half in Visibility::ALL {
            chart.arrow(&id, AccessScope::ReadWrite, &folder_id(Folder::of_team(*team, half)));
        }
        let members = organization.team(*team).members();
        if organization.team(*team).leadership && !members.is_empty() {
            chart.arrow(&id, AccessScope::ReadOnly, AGENT_FOLDERS);
        } else if members.len() > 1 {
            for member in members {
                let folder = Folder::of_agent(*member, Visibility::Shared);
                chart.arrow(&id, AccessScope::ReadOnly, &folder_id(folder));
            }
        }
    }
    for agent in agents {
        for half in Visibility::ALL {
            let folder = folder_id(Folder::of_agent(*agent, half));
            chart.arrow(&agent_id(*agent), AccessScope::ReadWrite, &folder);
        }
    }
}

fn team_id(team: TeamIndex) -> String {
    format!("team{}", team.position())
}

fn agent_id(agent: AgentIndex) -> String {
    format!("agent{}", agent.position())
}

fn folder_id(folder: Folder) -> String {
    let owner = match folder.owner {
        FolderOwner::Team(team) => team_id(team),
        FolderOwner::Agent(agent) => agent_id(agent),
    };
    format!("{owner}_{}", folder.visibility.as_str())
}
