//! `[[organization]]`: the organizations, and the agents that they add to the configuration.

mod inline_records;
mod json_records;
mod reread;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stead_core::Identity;
use stead_core::managed::Ttl;
use stead_core::organization::{
    AgentIndex, Grant, GrantReason, Membership, Organization, OrganizationAgent, OrganizationRecords,
    OrganizationSettings, RecordField, RecordRef,
};
use stead_core::store::QuotaLimits;
use stead_core::tools::{ResultFormat, TOOLS, ToolChoice, tool};
use stead_core::{AccessScope, ApprovalPolicy, RootMode};

use super::agents::{StoreNames, known_store};
use super::amount;
use super::config_error::ConfigDiagnostic;
use super::nearest::nearest;
use super::section::{Document, Section, Severity};
use super::{AgentConfig, Config, FilesPer, WorkspaceConfig};
use crate::current_records::{FileFingerprint, RecordFingerprints};

use self::json_records::NoRecords;
pub use self::reread::{RecordsInUse, Reread, UnusedFile, UnusedRecords};

/// `[[organization]]`
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OrganizationConfig {
    /// The organization as its records describe it.
    pub organization: Arc<Organization>,
    /// The name of the Store that has the folders of its agents and teams.
    pub store: String,
    /// The files with its records; empty if they are in the configuration file.
    pub record_files: Vec<PathBuf>,
    /// Globs of names that are hidden in its folders; `None` means the default ones.
    hide: Option<Vec<String>>,
    results: ResultFormat,
    /// How long files in its folders live, if the folders are managed.
    managed: Option<Ttl>,
}

/// The records of an organization, by kind. Each kind has a file, unless all are in the configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// The organization's own record.
    Organization,
    /// The records of teams.
    Teams,
    /// The records of agents.
    Agents,
}

/// Several organizations have an agent with this id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("several organizations have the agent `{id}`; write one of {}", names.join(", "))]
pub struct AmbiguousAgent {
    /// The id.
    pub id: String,
    /// The names of the agents that have it.
    pub names: Vec<String>,
}

/// Where each record is, for messages.
#[derive(Debug, Default)]
struct RecordPositions {
    by_field: HashMap<(RecordRef, Option<RecordField>), Position>,
}

/// A place in the configuration file or in a file of records.
#[derive(Debug, Clone)]
struct Position {
    file: Option<Arc<Path>>,
    line: usize,
    column: usize,
}

impl Position {
    fn diagnostic(&self, message: &str) -> ConfigDiagnostic {
        let diagnostic = ConfigDiagnostic::at((self.line, self.column), message);
        match &self.file {
            Some(file) => diagnostic.in_file(file),
            None => diagnostic,
        }
    }
}

impl RecordPositions {
    fn insert(&mut self, record: RecordRef, field: Option<RecordField>, position: Position) {
        self.by_field.insert((record, field), position);
    }

    /// The position of a field, or else that of its record.
    fn diagnostic(&self, record: RecordRef, field: Option<RecordField>, message: &str) -> ConfigDiagnostic {
        let position = self.by_field.get(&(record, field)).or_else(|| self.by_field.get(&(record, None)));
        match position {
            Some(position) => position.diagnostic(message),
            None => ConfigDiagnostic::at((1, 1), message),
        }
    }
}

/// The organizations of a file, in its order.
#[derive(Debug, Default)]
pub(super) struct ParsedOrganizations {
    pub(super) all: Vec<ParsedOrganization>,
    /// The files of their records, as they were before they were read.
    pub(super) fingerprints: RecordFingerprints,
}

/// One `[[organization]]`, as far as it can be used.
#[derive(Debug)]
pub(super) struct ParsedOrganization {
    /// The place of its section in the configuration file.
    position: (usize, usize),
    /// The files with its records; empty if they are in the configuration file.
    record_files: Vec<PathBuf>,
    /// `None` if the section, or the records, are wrong.
    config: Option<OrganizationConfig>,
    /// Why there are no records; `None` if there are some, or if the section itself is wrong.
    no_records: Option<NoRecords>,
    /// What is wrong with the files of records. What is wrong in the configuration file is reported with its other mistakes.
    record_problems: Vec<ConfigDiagnostic>,
    /// Whether its section in the configuration file has mistakes.
    is_section_wrong: bool,
}

/// Reads the organizations.
pub(super) fn read(
    top: &Section<'_>,
    directory: &Path,
    stores: &[String],
    hide: Option<&[String]>,
    ttl: Ttl,
) -> ParsedOrganizations {
    let stores = StoreNames::new(stores);
    let mut parsed = ParsedOrganizations::default();
    for section in top.tables("organization") {
        if let Some(path) = section.text("path") {
            let files = json_records::files(&directory.join(path.value));
            parsed.fingerprints.extend(files.iter().map(|file| FileFingerprint::of(file)));
        }
        let (mut organization, problems) = section.document().collect_problems(|| {
            let organization = organization(&section, directory, &stores, hide, ttl);
            section.reject_unknown_keys();
            organization
        });
        organization.is_section_wrong = !problems.is_empty();
        section.document().add_problems(problems);
        parsed.all.push(organization);
    }
    parsed
}

impl ParsedOrganizations {
    /// The files with their records.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.all.iter().flat_map(|parsed| parsed.record_files.clone()).collect()
    }

    /// All organizations, if nothing is wrong with any of them. Adds what is wrong with their records to the mistakes otherwise.
    pub(super) fn into_valid(
        self,
        agents: &BTreeMap<String, AgentConfig>,
        problems: &mut Vec<ConfigDiagnostic>,
    ) -> Vec<OrganizationConfig> {
        let (mut configs, mut positions) = (Vec::new(), Vec::new());
        for parsed in self.all {
            problems.extend(parsed.record_problems);
            positions.push(parsed.position);
            configs.push(parsed.config);
        }
        let known_ids = vec![None; configs.len()];
        for IdClash { index, message } in id_clashes(&configs, &known_ids, agents) {
            problems.push(ConfigDiagnostic::at(positions[index], &message));
        }
        configs.into_iter().flatten().collect()
    }
}

/// The id of an organization belongs to another one already, or to agents outside organizations.
#[derive(Debug)]
struct IdClash {
    /// Which organization.
    index: usize,
    message: String,
}

/// The organizations that can't have their ids. Of two with the same id, the one that had it before (`known_ids`) keeps it, or
/// else the first.
fn id_clashes(
    organizations: &[Option<OrganizationConfig>],
    known_ids: &[Option<&str>],
    agents: &BTreeMap<String, AgentConfig>,
) -> Vec<IdClash> {
    let ids = organizations.iter().map(|config| config.as_ref().map(|config| config.organization.id()));
    let mut claims: Vec<(usize, &str)> =
        ids.enumerate().filter_map(|(index, id)| Some((index, id?))).collect();
    claims.sort_by_key(|(index, id)| known_ids[*index] != Some(*id));
    let (mut taken, mut clashes) = (HashSet::new(), Vec::new());
    for (index, id) in claims {
        let message = if !taken.insert(id.to_lowercase()) {
            format!("two organizations have the id `{id}`; give each its own")
        } else if agents.keys().any(|name| name.split('/').next() == Some(id)) {
            format!(
                "an agent's name begins with the organization's id `{id}`; choose another name for the agent"
            )
        } else {
            continue;
        };
        clashes.push(IdClash { index, message });
    }
    clashes
}

fn organization(
    section: &Section<'_>,
    directory: &Path,
    stores: &StoreNames<'_>,
    hide: Option<&[String]>,
    ttl: Ttl,
) -> ParsedOrganization {
    let store = section.required("store", "the name of the Store that has its folders");
    let store = store.and_then(|name| known_store(section, &name, stores));
    let settings = settings(section);
    let structured = section.boolean("structured").is_some_and(|boolean| boolean.value);
    let is_managed = section.boolean("managed").is_some_and(|boolean| boolean.value);
    let mut positions = RecordPositions::default();
    let mut parsed = ParsedOrganization {
        position: section.position(),
        record_files: Vec::new(),
        config: None,
        no_records: None,
        record_problems: Vec::new(),
        is_section_wrong: false,
    };
    let document = section.document();
    let organization = match section.text("path") {
        Some(path) => {
            for key in ["id", "name", "toolWhitelist", "teams", "agents"] {
                if section.has(key) {
                    section.add_problem(format!(
                        "`organization` has a `path`, so `{key}` has to be in the files there"
                    ));
                }
            }
            let records = directory.join(path.value);
            // Without `./` for messages.
            let files = json_records::files(records.strip_prefix(".").unwrap_or(&records));
            let unreadable = |_: &Path, message: &str| ConfigDiagnostic::at(section.position(), message);
            let (organization, problems) = document
                .collect_problems(|| from_files(document, &files, settings, &mut positions, unreadable));
            parsed.record_files = files.to_vec();
            parsed.no_records = organization.as_ref().err().copied();
            parsed.record_problems = problems;
            organization.ok()
        }
        None => inline_records::read(section, &mut positions)
            .and_then(|records| checked(document, OrganizationRecords { settings, ..records }, &positions)),
    };
    parsed.config = organization.zip(store).map(|(organization, store)| OrganizationConfig {
        organization: Arc::new(organization),
        store,
        record_files: parsed.record_files.clone(),
        hide: hide.map(<[String]>::to_vec),
        results: ResultFormat::structured_if(structured),
        managed: is_managed.then_some(ttl),
    });
    parsed
}

/// The organization whose records are in these files. Reports what is wrong with them.
fn from_files(
    document: &Document<'_>,
    files: &[PathBuf; 3],
    settings: OrganizationSettings,
    positions: &mut RecordPositions,
    unreadable: impl Fn(&Path, &str) -> ConfigDiagnostic,
) -> Result<Organization, NoRecords> {
    let records = json_records::read(document, files, positions, unreadable)?;
    let records = OrganizationRecords { settings, ..records };
    checked(document, records, positions).ok_or(NoRecords::Invalid)
}

fn settings(section: &Section<'_>) -> OrganizationSettings {
    let mut settings = OrganizationSettings::default();
    if let Some(depth) = section.number("max_depth") {
        match usize::try_from(depth.value) {
            Ok(depth @ 1..) => settings = settings.with_max_depth(depth),
            _ => section.reject_value(&depth, "`max_depth` has to be at least 1"),
        }
    }
    if let Some(bytes) = section.text("max_file_bytes") {
        match amount::parse_bytes(bytes.value) {
            Ok(parsed) => settings = settings.with_max_file_bytes(parsed),
            Err(message) => section.reject_value(&bytes, message),
        }
    }
    if let Some(quota) = amount::read_quota_at(section, "agent_quota") {
        settings = settings.with_agent_quota(quota);
    }
    if let Some(quota) = amount::read_quota_at(section, "team_quota") {
        settings = settings.with_team_quota(quota);
    }
    settings
}

/// Makes an organization of the records, and reports what is wrong with them or probably not intended.
fn checked(
    document: &Document<'_>,
    records: OrganizationRecords,
    positions: &RecordPositions,
) -> Option<Organization> {
    let report = |severity, record, field, message: &str| {
        document.add_diagnostic(severity, positions.diagnostic(record, field, message));
    };
    for warning in records.warnings() {
        report(Severity::Warning, warning.record, Some(warning.field), &warning.message);
    }
    let is_known = |name: &str| tool(name).is_some();
    for (record, name) in records.unknown_tools(is_known) {
        let hint = nearest(&name, TOOLS.iter().map(|tool| tool.name));
        let hint = hint.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let message = format!("there is no tool `{}`, so its name has no effect{hint}", name.escape_debug());
        report(Severity::Warning, record, Some(RecordField::Tools), &message);
    }
    for record in records.records_without_tools(is_known) {
        let message = match record {
            RecordRef::Organization => {
                "the organization allows no tools, so its agents have none; list some in `toolWhitelist`"
            }
            RecordRef::Team(_) => {
                "the team allows none of the organization's tools, so its members have none"
            }
            RecordRef::Agent(_) => {
                "no tool is left for the agent: its rule allows none that its team and the organization allow"
            }
        };
        report(Severity::Warning, record, Some(RecordField::Tools), message);
    }
    Organization::new(records)
        .map_err(|problems| {
            for problem in problems {
                report(Severity::Problem, problem.record, Some(problem.field), &problem.message);
            }
        })
        .ok()
}

impl OrganizationConfig {
    /// The file with the records of a kind; `None` if they are in the configuration file.
    pub fn record_file(&self, kind: RecordKind) -> Option<&Path> {
        self.record_files.get(kind as usize).map(PathBuf::as_path)
    }

    /// Whether a path relative to one of its folders is hidden from its agents.
    pub fn hides(&self, path: &str) -> bool {
        super::hides(self.hide.as_deref(), path)
    }

    /// Whether its folders are managed Workspaces.
    pub fn has_managed_folders(&self) -> bool {
        self.managed.is_some()
    }

    /// The managed folders, each as a Workspace of one of those that may write there. None, if the folders aren't managed.
    pub(crate) fn managed_folders(&self) -> Vec<WorkspaceConfig> {
        let organization = &self.organization;
        if self.managed.is_none() {
            return Vec::new();
        }
        let mut folders: Vec<WorkspaceConfig> = Vec::new();
        let mut known = HashSet::new();
        for (agent, _) in organization.agents() {
            let is_writer = |grant: &Grant| matches!(grant.reason, GrantReason::Owner | GrantReason::Member);
            for grant in organization.grants(agent).filter(is_writer) {
                if known.insert(organization.folder_directory(grant.folder)) {
                    folders.push(self.workspace(grant));
                }
            }
        }
        folders
    }

    /// What an agent of the organization sees, and which tools it has.
    fn agent(&self, agent: AgentIndex) -> AgentConfig {
        let organization = &self.organization;
        let tools = ToolChoice {
            only: Some(organization.allowed_tools(agent)),
            results: self.results,
            ..ToolChoice::default()
        };
        AgentConfig {
            workspaces: organization.grants(agent).map(|grant| self.workspace(grant)).collect(),
            tools,
            state: false,
            membership: Some(Membership::new(Arc::clone(organization), agent)),
            ..AgentConfig::default()
        }
    }

    fn workspace(&self, Grant { folder, scope, reason, .. }: Grant) -> WorkspaceConfig {
        let organization = &self.organization;
        let is_writable = scope == AccessScope::ReadWrite;
        WorkspaceConfig {
            prefix: organization.folder_path(folder),
            scope,
            per: FilesPer::Agent,
            fork: None,
            store: self.store.clone(),
            path: organization.folder_directory(folder),
            description: None,
            protect: None,
            hide: self.hide.clone(),
            scratch: Vec::new(),
            quota: if is_writable { organization.quota(folder) } else { QuotaLimits::default() },
            quota_root: is_writable.then(|| organization.owner_directory(folder)),
            ask: ApprovalPolicy::Never,
            title: Some(organization.folder_name(folder)),
            managed: self.managed,
            root_mode: if reason == GrantReason::Owner { RootMode::Changeable } else { RootMode::Fixed },
        }
    }
}

impl Config {
    /// Whether the configuration has neither Stores nor agents.
    pub(crate) fn is_empty(&self) -> bool {
        self.stores.is_empty() && self.agents.is_empty() && self.organizations.is_empty()
    }

    /// Whether another configuration has the same Stores, database, history and audit, and protects the same files.
    pub(crate) fn has_same_stores(&self, other: &Config) -> bool {
        self.stores == other.stores
            && self.database == other.database
            && self.history == other.history
            && self.audit == other.audit
            && self.file == other.file
            && self.record_files().eq(other.record_files())
    }

    /// Whether one of its organizations is different in another configuration by its records alone, and steads follow those
    /// records while they are in use.
    pub(crate) fn follows_records_of(&self, organization: &OrganizationConfig, other: &Config) -> bool {
        let is_followed = !organization.record_files.is_empty() || self.was_read;
        let is_same = |other: &OrganizationConfig| {
            let (one, two) = (&organization.organization, &other.organization);
            (one.id(), one.settings()) == (two.id(), two.settings())
                && OrganizationConfig { organization: Arc::clone(one), ..other.clone() } == *organization
        };
        is_followed && other.organizations.iter().any(is_same)
    }

    /// Whether everything that an agent of an organization can see is the same in another configuration, which has the same
    /// Stores.
    pub(crate) fn looks_the_same_to(&self, agent: &str, other: &Config) -> bool {
        match (self.member(agent), other.member(agent)) {
            (Some((one, index)), Some((two, _))) => {
                (&one.store, &one.hide, one.results) == (&two.store, &two.hide, two.results)
                    && one.organization.looks_the_same_to(index, &two.organization)
            }
            _ => false,
        }
    }

    /// The agent with this name: one of `agents`, or `ORGANIZATION/AGENT`.
    pub fn agent(&self, name: &str) -> Option<Cow<'_, AgentConfig>> {
        if let Some(agent) = self.agents.get(name) {
            return Some(Cow::Borrowed(agent));
        }
        let (organization, agent) = self.member(name)?;
        Some(Cow::Owned(organization.agent(agent)))
    }

    /// Whether there is an agent with this name.
    pub fn has_agent(&self, name: &str) -> bool {
        self.agents.contains_key(name) || self.member(name).is_some()
    }

    /// The organization of the agent `ORGANIZATION/AGENT`, and the agent in it.
    pub fn member(&self, name: &str) -> Option<(&OrganizationConfig, AgentIndex)> {
        let (organization, id) = name.split_once('/')?;
        let organization =
            self.organizations.iter().find(|config| config.organization.id() == organization)?;
        Some((organization, organization.organization.agent_index(id)?))
    }

    /// The names of all agents: those of `agents`, then those of organizations as `ORGANIZATION/AGENT`.
    pub fn agent_names(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let members = self.organizations.iter().flat_map(|config| {
            let organization = &config.organization;
            organization.agents().map(|(agent, _)| Cow::Owned(organization.qualified_name(agent)))
        });
        self.agents.keys().map(|name| Cow::Borrowed(name.as_str())).chain(members)
    }

    /// The full name of an agent that a person names: an agent of an organization may be named by its id alone if no
    /// other agent has that name or id. A name that no agent has is returned as it is.
    pub fn full_agent_name(&self, name: &str) -> Result<String, AmbiguousAgent> {
        if self.has_agent(name) {
            return Ok(name.to_owned());
        }
        let members = self.organizations.iter().filter_map(|config| {
            let organization = &config.organization;
            organization.agent_index(name).map(|agent| organization.qualified_name(agent))
        });
        let mut names: Vec<_> = members.collect();
        match names.len() {
            0 => Ok(name.to_owned()),
            1 => Ok(names.remove(0)),
            _ => Err(AmbiguousAgent { id: name.to_owned(), names }),
        }
    }

    /// The full name of the agent that was probably meant by a name that no agent has: one with a similar name or id, or
    /// an agent of an organization with a similar name for people.
    pub(crate) fn nearest_agent(&self, name: &str) -> Option<String> {
        let members = || self.organizations.iter().flat_map(|config| config.organization.agents());
        let names: Vec<_> = self.agent_names().collect();
        let near = nearest(name, names.iter().map(|name| &**name)).map(str::to_owned);
        let near_id = || nearest(name, members().flat_map(|(_, agent)| [&*agent.id, &*agent.name]));
        near.or_else(|| {
            let near = near_id()?;
            let is_near = |agent: &OrganizationAgent| agent.id == near || agent.name == near;
            self.organizations.iter().find_map(|config| {
                let mut agents = config.organization.agents();
                let (agent, _) = agents.find(|(_, agent)| is_near(agent))?;
                Some(config.organization.qualified_name(agent))
            })
        })
    }

    /// The identity of the agent with this full name, with its organization.
    pub fn identity(&self, name: impl Into<String>) -> Identity {
        let name = name.into();
        let organization = self.member(&name).map(|(config, _)| config.organization.id().to_owned());
        Identity { organization, ..Identity::agent(name) }
    }

    /// The files whose changes change the records of organizations, as they were before they were read: the files with
    /// records, and the configuration file if it has records itself.
    pub(crate) fn followed_records(&self) -> impl Iterator<Item = (PathBuf, Option<FileFingerprint>)> {
        let records = self.record_files().map(Path::to_owned).zip(self.record_fingerprints.iter().cloned());
        let has_inline_records = self.organizations.iter().any(|config| config.record_files.is_empty());
        let follows_own = self.was_read && has_inline_records;
        records.chain(follows_own.then(|| (self.file.clone(), self.fingerprint.clone())))
    }

    /// The files with the records of organizations, also of those whose records can't be used.
    pub fn record_files(&self) -> impl Iterator<Item = &Path> {
        self.record_files.iter().map(PathBuf::as_path)
    }
}
