//! Documents about organizations: `org`.

use serde::Serialize;
use serde_json::Value;

use super::to_value;

/// What an agent of an organization can reach: `org show`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AgentReach<'a> {
    /// `ORGANIZATION/AGENT`.
    pub(crate) agent: String,
    /// Its name for people.
    pub(crate) name: &'a str,
    pub(crate) organization: &'a str,
    /// The id of its team.
    pub(crate) team: Option<&'a str>,
    /// Whether its team is a leadership team.
    pub(crate) leadership: bool,
    pub(crate) folders: Vec<ReachedFolder>,
    pub(crate) tools: &'a [&'static str],
    /// The tools that a level of the organization takes away.
    pub(crate) withheld: Vec<WithheldTool<'a>>,
}

/// A folder that an agent can reach.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ReachedFolder {
    pub(crate) name: String,
    pub(crate) path: String,
    /// The Access Scope.
    pub(crate) scope: &'static str,
    /// `owner`, `member`, `team_mate`, `leadership` or `same_organization`.
    pub(crate) reason: &'static str,
    /// The reason in words.
    pub(crate) why: String,
    /// The file with the record that grants it.
    pub(crate) record: String,
}

/// A tool that an agent doesn't have.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WithheldTool<'a> {
    pub(crate) tool: &'a str,
    /// The highest level that takes it away: `organization`, `team` or `agent`.
    pub(crate) level: &'static str,
    /// The file with the record that takes it away.
    pub(crate) record: String,
}

/// An agent that can reach a path: a line of `org who`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PathAccess<'a> {
    pub(crate) agent: &'a str,
    /// Its name for people.
    pub(crate) name: &'a str,
    /// The path, as this agent sees it.
    pub(crate) path: &'a str,
    /// The Access Scope.
    pub(crate) scope: &'static str,
    /// As in `org show`, or `workspace` for an agent outside the organization.
    pub(crate) reason: &'static str,
    /// The reason in words.
    pub(crate) why: &'a str,
    /// The file with the record that grants it.
    pub(crate) record: &'a str,
}

/// A picture of an organization: `org graph`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct OrganizationGraph<'a> {
    /// The picture as text for Mermaid.
    mermaid: &'a str,
}

/// What was moved to the present layout, or would be: `org migrate`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Migration {
    /// Whether nothing was changed.
    dry_run: bool,
    /// The directories that were moved.
    moved: Vec<MovedDirectory>,
    /// The directories that stay where they are.
    clashes: Vec<MigrationClash>,
    /// The emptied directories that were removed.
    removed: Vec<String>,
}

/// A directory that was moved.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MovedDirectory {
    /// Where it was in the Store.
    from: String,
    /// Where it is now.
    to: String,
    /// How many files it has.
    files: u64,
    /// The size of its files.
    bytes: u64,
}

/// A directory that can't be moved.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MigrationClash {
    /// The directory in the Store.
    directory: String,
    /// Why it stays, and what to do.
    reason: String,
}

/// What a migration did.
pub(crate) fn migration(report: &stead::MigrationReport, dry_run: bool) -> Value {
    let moved = report.moved.iter().map(|moved| MovedDirectory {
        from: moved.from.to_string(),
        to: moved.to.to_string(),
        files: moved.files,
        bytes: moved.bytes,
    });
    let clashes = report
        .clashes
        .iter()
        .map(|clash| MigrationClash { directory: clash.directory.to_string(), reason: clash.reason.clone() });
    to_value(&Migration {
        dry_run,
        moved: moved.collect(),
        clashes: clashes.collect(),
        removed: report.removed.iter().map(ToString::to_string).collect(),
    })
}

/// What an agent can reach.
pub(crate) fn agent_reach(reach: &AgentReach<'_>) -> Value {
    to_value(reach)
}

/// An agent that can reach a path.
pub(crate) fn path_access(access: &PathAccess<'_>) -> Value {
    to_value(access)
}

/// A picture.
pub(crate) fn organization_graph(mermaid: &str) -> Value {
    to_value(&OrganizationGraph { mermaid })
}
