use std::cmp::Reverse;

use stead::config::{FilesPer, OrganizationConfig, StoreConfig, WorkspaceConfig, nearest};
use stead::organization::{Folder, Organization, Visibility, WORKSPACES_DIRECTORY};
use stead::{Access, AccessScope, Config, ErrorKind, VfsPath};

use super::reason::{self, Reason};
use super::{OrganizationArg, table};
use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::{Colour, Session};
use crate::{human, json};

/// Show who can reach a folder or a file in it, and why
///
/// The path is `/workspaces/ID/shared` or `/workspaces/ID/private`, where ID is an agent or a team, or anything below.
/// Agents outside the organization are listed, too, if one of their Workspaces shows the path. Those that can write come
/// first. Agents that a name is hidden from are not listed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The path, as the organization's agents see it
    #[arg(value_name = "PATH")]
    path: String,
    #[command(flatten)]
    organization: OrganizationArg,
    /// Show all agents, also of a large organization
    #[arg(long)]
    all: bool,
}

/// An agent that can reach the path.
struct Reader {
    agent: String,
    name: String,
    scope: AccessScope,
    /// The path, as this agent sees it.
    path: VfsPath,
    reason: Reason,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let config = session.config()?;
    let organization = args.organization.find(&config, session)?;
    let path = VfsPath::parse(&args.path).map_err(stead::Error::from)?;
    let folder = folder_of(&organization.organization, &path)?;
    let below = path.strip_prefix(&organization.organization.folder_path(folder)).unwrap_or_default();
    let is_hidden = organization.hides(below);
    let mut readers: Vec<_> = members(&config, organization, folder, &path).filter(|_| !is_hidden).collect();
    readers.extend(outsiders(&config, organization, folder, &path));
    readers.sort_by_key(|reader| Reverse(reader.scope.allows(Access::Write)));
    if session.wants_json() {
        for reader in &readers {
            session.print_json(&json::path_access(&json::PathAccess {
                agent: &reader.agent,
                name: &reader.name,
                path: reader.path.as_str(),
                scope: reader.scope.name(),
                reason: reader.reason.code,
                why: &reader.reason.text,
                record: &reader.reason.file,
            }))?;
        }
        return Ok(Exit::OK);
    }
    session.use_pager();
    let name = human::escape_text(&organization.organization.folder_name(folder));
    let count = human::count(readers.len() as u64, "agent", "agents");
    session.print_line(format_args!("{}: {count}\n", session.paint(Colour::Bold, name)))?;
    if is_hidden {
        let shown = human::escape_text(path.as_str());
        session.print_line(format_args!("`{shown}` is hidden from the organization's agents by `hide`."))?;
    }
    let row = |reader: &Reader| {
        let texts = [reader.agent.clone(), reader.name.clone(), reader.reason.to_string()];
        (reader.scope, texts.map(|text| human::escape_text(&text)))
    };
    table::print(&readers.iter().map(row).collect::<Vec<_>>(), args.all, session)?;
    Ok(Exit::OK)
}

/// The folder that a path is in.
fn folder_of(organization: &Organization, path: &VfsPath) -> Result<Folder, CommandError> {
    let mut components = path.components();
    let (root, owner) = (components.next(), components.next());
    let visibility = components.next();
    let visibility = Visibility::ALL.into_iter().find(|half| visibility == Some(half.as_str()));
    let shown = human::escape_text(path.as_str());
    let (Some(WORKSPACES_DIRECTORY), Some(owner), Some(visibility)) = (root, owner, visibility) else {
        let is_owner_directory = matches!(root, Some(WORKSPACES_DIRECTORY | "agents" | "teams"));
        let owner = owner
            .filter(|owner| is_owner_directory && organization.folder(owner, Visibility::Shared).is_some());
        let (id, where_clause) = match owner {
            Some(owner) => (human::escape_text(owner), ""),
            None => ("ID".to_owned(), ", where ID is an agent or a team"),
        };
        return Err(CommandError::invalid(format!(
            "`{shown}` isn't in a folder; write /{WORKSPACES_DIRECTORY}/{id}/shared or /{WORKSPACES_DIRECTORY}/{id}/private\
             {where_clause}"
        )));
    };
    organization.folder(owner, visibility).ok_or_else(|| {
        let agents = organization.agents().map(|(_, agent)| &*agent.id);
        let near = nearest(owner, agents.chain(organization.teams().map(|(_, team)| &*team.id)));
        let hint = match near {
            Some(near) => format!("did you mean `{}`?", human::escape_text(near)),
            None => "`stead org graph` draws them all".to_owned(),
        };
        let (name, owner) = (human::escape_text(organization.name()), human::escape_text(owner));
        let message = format!("{name} has no agent and no team `{owner}`; {hint}");
        CommandError::Message(ErrorKind::NotFound, message)
    })
}

/// The organization's agents that can use a folder.
fn members<'c>(
    config: &'c Config,
    organization: &'c OrganizationConfig,
    folder: Folder,
    path: &'c VfsPath,
) -> impl Iterator<Item = Reader> + 'c {
    let acme = &organization.organization;
    let grants = acme.agents().filter_map(move |(agent, _)| Some((agent, acme.grant(agent, folder)?)));
    grants.map(move |(agent, grant)| Reader {
        agent: acme.qualified_name(agent),
        name: acme.agent(agent).name.clone(),
        scope: grant.scope,
        path: path.clone(),
        reason: reason::of_grant(config, organization, agent, grant.reason),
    })
}

/// The agents outside the organization that have a Workspace on the directory of the path, on one above or on one below.
fn outsiders<'c>(
    config: &'c Config,
    organization: &'c OrganizationConfig,
    folder: Folder,
    path: &VfsPath,
) -> impl Iterator<Item = Reader> + 'c {
    let acme = &organization.organization;
    let below = path.strip_prefix(&acme.folder_path(folder)).unwrap_or_default();
    let directory = appended(&acme.folder_directory(folder), below);
    config.agents.iter().flat_map(move |(agent, agent_config)| {
        let workspaces = agent_config.workspaces.iter();
        let directory = directory.clone();
        workspaces.filter_map(move |workspace| {
            // Threads have files of their own.
            let shows_thread = workspace.per == FilesPer::Thread;
            if shows_thread || !is_same_store(config, &workspace.store, &organization.store) {
                return None;
            }
            let (seen_as, part) = match directory.as_ref()?.strip_prefix(&workspace.path) {
                Some(rest) if workspace.hides(rest) => return None,
                Some(rest) => (appended(&workspace.prefix, rest)?, ""),
                None => {
                    workspace.path.strip_prefix(directory.as_ref()?)?;
                    (workspace.prefix.clone(), "a part of it, ")
                }
            };
            // A Workspace that is nested in this one hides what this one has there.
            let covers = |other: &&WorkspaceConfig| seen_as.strip_prefix(&other.prefix).is_some();
            let covering = agent_config.workspaces.iter().filter(covers);
            let nearest = covering.max_by_key(|other| other.prefix.depth())?;
            (nearest.prefix == workspace.prefix).then(|| Reader {
                agent: agent.clone(),
                name: agent.clone(),
                scope: workspace.scope,
                reason: Reason {
                    code: "workspace",
                    text: format!("{part}Workspace {}", human::escape_text(workspace.prefix.as_str())),
                    file: reason::config_file_name(config.file()),
                },
                path: seen_as,
            })
        })
    })
}

/// Whether two names of Stores are names of one Store.
fn is_same_store(config: &Config, one: &str, other: &str) -> bool {
    one == other
        || match (config.stores.get(one), config.stores.get(other)) {
            (
                Some(StoreConfig::Physical { path: one, .. }),
                Some(StoreConfig::Physical { path: other, .. }),
            ) => one == other,
            (
                Some(StoreConfig::Virtual { namespace: one }),
                Some(StoreConfig::Virtual { namespace: other }),
            ) => one == other,
            _ => false,
        }
}

/// A path with more components.
fn appended(path: &VfsPath, rest: &str) -> Option<VfsPath> {
    VfsPath::parse(&format!("{}/{rest}", path.as_str())).ok()
}
