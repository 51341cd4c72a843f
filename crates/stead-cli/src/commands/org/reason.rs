//! Why an agent can use a folder or lacks a tool, in words, with the file of the record that says so.

use stead::Config;
use stead::config::{OrganizationConfig, RecordKind};
use stead::organization::{AgentIndex, GrantReason, ToolLevel};

use crate::human;

/// What a record says.
pub(super) struct Reason {
    /// The reason for programs: `member`.
    pub(super) code: &'static str,
    /// The reason for people: `member of HR`.
    pub(super) text: String,
    /// The name of the file with the record.
    pub(super) file: String,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.text, self.file)
    }
}

/// Why an agent can use a folder.
pub(super) fn of_grant(
    config: &Config,
    organization: &OrganizationConfig,
    agent: AgentIndex,
    reason: GrantReason,
) -> Reason {
    let team = || {
        let team = organization.organization.team_of(agent).map_or("", |team| team.short_name());
        human::escape_text(team)
    };
    let (code, text, kind) = match reason {
        GrantReason::Owner => ("owner", "its own folder".to_owned(), RecordKind::Agents),
        GrantReason::Member => ("member", format!("member of {}", team()), RecordKind::Agents),
        GrantReason::TeamMate => ("team_mate", format!("team mate in {}", team()), RecordKind::Agents),
        GrantReason::Leadership => {
            ("leadership", format!("in the leadership team {}", team()), RecordKind::Teams)
        }
        GrantReason::SameOrganization => {
            let name = human::escape_text(organization.organization.name());
            ("same_organization", format!("shared with all of {name}"), RecordKind::Teams)
        }
    };
    Reason { code, text, file: record_file(config, organization, kind) }
}

/// Which level takes a tool away from an agent.
pub(super) fn of_level(
    config: &Config,
    organization: &OrganizationConfig,
    agent: AgentIndex,
    level: ToolLevel,
) -> Reason {
    let (code, text, kind) = match level {
        ToolLevel::Organization => {
            let name = human::escape_text(organization.organization.name());
            ("organization", format!("not allowed in {name}"), RecordKind::Organization)
        }
        ToolLevel::Team => {
            let team = organization.organization.team_of(agent).map_or("", |team| team.short_name());
            ("team", format!("taken away by the team {}", human::escape_text(team)), RecordKind::Teams)
        }
        ToolLevel::Agent => ("agent", "taken away by its own record".to_owned(), RecordKind::Agents),
    };
    Reason { code, text, file: record_file(config, organization, kind) }
}

/// The name of the file with the records of a kind.
fn record_file(config: &Config, organization: &OrganizationConfig, kind: RecordKind) -> String {
    config_file_name(organization.record_file(kind).unwrap_or(config.file()))
}

/// The name of a file, without its directory.
pub(super) fn config_file_name(file: &std::path::Path) -> String {
    human::host_path(std::path::Path::new(file.file_name().unwrap_or_default()))
}
