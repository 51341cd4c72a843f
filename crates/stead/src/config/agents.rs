//! Reads `[agents.NAME]` and the Workspaces of each agent.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use stead_core::ApprovalPolicy;
use stead_core::RootMode;
use stead_core::VfsPath;
use stead_core::glob::{Anchor, GlobError, PathGlobs, rule_pattern};
use stead_core::hide::HideGlobs;
use stead_core::identity::check_agent_name;
use stead_core::managed::Ttl;
use stead_core::tools::{OfferedWhen, ResultFormat, TOOLS, ToolChoice};

use super::host_check::HostCheckKind;
use super::managed_mounts::disagreement;
use super::nearest::{nearest, quoted_list};
use super::section::{Document, Section, WithSpan};
use super::threads::AgentThreads;
use super::{AgentConfig, StoreConfig, WorkspaceConfig};
use super::{amount, reserved_keys};
use crate::review_forks::REVIEW_OWNER_PREFIX;

/// The names of all Stores.
pub(super) struct StoreNames<'d> {
    /// In the order of the file.
    in_order: &'d [String],
    known: HashSet<&'d str>,
    /// Those that are in memory.
    in_memory: HashSet<&'d str>,
}

impl<'d> StoreNames<'d> {
    pub(super) fn new(in_order: &'d [String]) -> Self {
        let known = in_order.iter().map(String::as_str).collect();
        StoreNames { in_order, known, in_memory: HashSet::new() }
    }

    fn with_memory(self, stores: &'d BTreeMap<String, StoreConfig>) -> Self {
        let in_memory = stores.iter().filter(|(_, store)| matches!(store, StoreConfig::Memory));
        StoreNames { in_memory: in_memory.map(|(name, _)| name.as_str()).collect(), ..self }
    }
}

/// Reads the agents. `hide` has the hidden globs of Workspaces that set none themselves.
pub(super) fn agents(
    document: &Document<'_>,
    top: &Section<'_>,
    (store_names, stores): (&[String], &BTreeMap<String, StoreConfig>),
    hide: Option<&[String]>,
    ttl: Ttl,
) -> BTreeMap<String, AgentConfig> {
    let mut managed_mounts = ManagedMounts::new(ttl);
    let stores = &StoreNames::new(store_names).with_memory(stores);
    let mut agents = BTreeMap::new();
    let tables = top.named_tables("agents");
    let names: Vec<_> = tables.iter().map(|(name, _)| name.clone()).collect();
    for (name, section) in tables {
        let description = section.text("description").map(|text| text.value.to_owned());
        if name.starts_with(REVIEW_OWNER_PREFIX) {
            section.add_problem(format!(
                "the name of an agent can't begin with `{REVIEW_OWNER_PREFIX}`; choose another name than `{}`",
                name.escape_debug()
            ));
        }
        if let Err(reserved) = check_agent_name(&name) {
            section.add_problem(reserved.to_string());
        }
        let threads = AgentThreads::read(&section, &name, &names);
        let workspaces = workspaces(document, &name, &section, stores, hide, &threads, &mut managed_mounts);
        threads.check_workspaces(&section, &name, &workspaces);
        let quota = amount::read_quota(&section);
        let tools = tools(&section);
        let state = state(&section);
        reserved_keys::agent(&section);
        let is_empty_list = || section.has("workspaces") && section.is_empty_list("workspaces");
        if (!section.has_similar_key("workspaces") || is_empty_list()) && !section.has_similar_key("executor")
        {
            section.add_problem(format!(
                "the agent `{name}` has neither a Workspace nor an Executor, so it can do nothing; add \
                 [[agents.{name}.workspaces]]"
            ));
        }
        section.reject_unknown_keys();
        let AgentThreads { scope, idle_timeout, source: thread_source, .. } = threads;
        let agent = AgentConfig {
            description,
            workspaces,
            quota,
            tools,
            state,
            membership: None,
            scope,
            idle_timeout,
            thread_source,
        };
        agents.insert(name, agent);
    }
    agents
}

/// Reads `[agents.NAME.state]`: whether the agent's stead has a State. The table alone is enough.
fn state(section: &Section<'_>) -> bool {
    let Some(state) = section.table("state") else { return false };
    let enabled = state.boolean("enabled");
    state.reject_unknown_keys();
    enabled.is_none_or(|enabled| enabled.value)
}

/// Reads which tools the agent is offered, and which need a person's approval.
fn tools(section: &Section<'_>) -> ToolChoice {
    let tool_names = |key: &'static str| -> Option<BTreeSet<String>> {
        let listed = section.texts(key)?;
        // The folder tools are those of organizations' agents.
        let usable = TOOLS.iter().filter(|tool| tool.offered != OfferedWhen::InOrganization);
        let names: Vec<_> = usable.map(|tool| tool.name).collect();
        for name in &listed.value {
            if !names.contains(&name.value) {
                let hint = match nearest(name.value, names.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("there are {}", quoted_list(names.iter().copied())),
                };
                section
                    .reject_value(name, format!("there is no tool `{}`; {hint}", name.value.escape_debug()));
            }
        }
        Some(listed.value.iter().map(|name| name.value.to_owned()).collect())
    };
    let (only, ask) = (tool_names("tools"), tool_names("ask").unwrap_or_default());
    let history = section.boolean("history").is_some_and(|boolean| boolean.value);
    let structured = section.boolean("structured").is_some_and(|boolean| boolean.value);
    let forks = section.boolean("forks").is_some_and(|boolean| boolean.value);
    ToolChoice { only, history, forks, ask, results: ResultFormat::structured_if(structured) }
}

fn workspaces(
    document: &Document<'_>,
    name: &str,
    agent: &Section<'_>,
    stores: &StoreNames<'_>,
    hide: Option<&[String]>,
    threads: &AgentThreads<'_>,
    managed_mounts: &mut ManagedMounts,
) -> Vec<WorkspaceConfig> {
    let mut workspaces = Vec::new();
    let mut lines = HashMap::new();
    for section in agent.tables("workspaces") {
        let prefix = section.required("prefix", "its logical path, such as \"/project\"");
        let prefix = prefix.and_then(|text| parse_path(&section, text));
        if let Some(prefix) = &prefix
            && let Some(first) = lines.insert(prefix.value.clone(), document.line(&prefix.span))
        {
            let message = format!(
                "two Workspaces have the prefix `{}`, here and in line {first}; give each its own prefix",
                prefix.value
            );
            section.reject_value(prefix, message);
        }
        if let Some(prefix) = &prefix {
            section.add_host_check(
                prefix,
                HostCheckKind::Overlap { agent: name.to_owned(), prefix: prefix.value.clone() },
            );
        }
        // Read in any case: a wrong type is reported together with the problems of other keys.
        let is_managed = section.boolean("managed").is_some_and(|boolean| boolean.value);
        if let Some(mut workspace) =
            workspace(&section, prefix.map(|prefix| prefix.value), stores, hide, threads)
        {
            workspace.managed = managed_mounts.ttl_of(&section, &workspace, is_managed);
            workspaces.push(workspace);
        }
        section.reject_unknown_keys();
    }
    workspaces
}

/// Reads the rest of a Workspace's keys, and returns the Workspace if all of them are valid.
fn workspace(
    section: &Section<'_>,
    prefix: Option<VfsPath>,
    stores: &StoreNames<'_>,
    hide: Option<&[String]>,
    threads: &AgentThreads<'_>,
) -> Option<WorkspaceConfig> {
    let scope = section.required("scope", "READ_ONLY (ro), READ_WRITE (rw) or WRITE_ONLY (wo)");
    let scope = scope.and_then(|text| match text.value.parse() {
        Ok(scope) => Some(scope),
        Err(error) => {
            section.reject_value(&text, error);
            None
        }
    });
    let store = section.required("store", "the name of one of the [stores]");
    let store = store.and_then(|name| known_store(section, &name, stores));
    let path = match section.text("path") {
        Some(text) => parse_path(section, text),
        None => Some(WithSpan { value: VfsPath::root(), span: 0..0 }),
    };
    if let (Some(store), Some(path)) = (&store, &path) {
        section.add_host_check(path, HostCheckKind::Mount { store: store.clone(), path: path.value.clone() });
    }
    let description = section.text("description").map(|text| text.value.to_owned());
    let protect = section.texts("protect").and_then(|texts| globs(section, &texts));
    let hide = hide_globs(section).or_else(|| hide.map(<[String]>::to_vec));
    let scratch = section.texts("scratch").and_then(|texts| globs(section, &texts)).unwrap_or_default();
    let quota = amount::read_quota(section);
    let ask = match section.one_of("ask") {
        Some(WithSpan { value: "changes", .. }) => ApprovalPolicy::Changes,
        Some(WithSpan { value: "everything", .. }) => ApprovalPolicy::Everything,
        _ => ApprovalPolicy::Never,
    };
    let per = threads.per_of_workspace(section, prefix.as_ref(), scope);
    let is_in_memory = store.as_ref().is_some_and(|store| stores.in_memory.contains(&**store));
    let fork = threads.fork_of_workspace(section, per, scope, is_in_memory);
    Some(WorkspaceConfig {
        prefix: prefix?,
        scope: scope?,
        per,
        fork,
        store: store?,
        path: path?.value,
        description,
        protect,
        hide,
        scratch,
        quota,
        quota_root: None,
        ask,
        title: None,
        root_mode: RootMode::Changeable,
        managed: None,
    })
}

/// Which Mounts are managed, so that all Workspaces on a Mount agree about it.
struct ManagedMounts {
    ttl: Ttl,
    /// By Store and path: whether the first Workspace there is managed, and its line.
    known: HashMap<(String, VfsPath), (bool, usize)>,
}

impl ManagedMounts {
    fn new(ttl: Ttl) -> Self {
        ManagedMounts { ttl, known: HashMap::new() }
    }

    /// How long the files of a Workspace live, if it is managed. Reports a Workspace that disagrees with another one on its Mount.
    fn ttl_of(
        &mut self,
        section: &Section<'_>,
        workspace: &WorkspaceConfig,
        is_managed: bool,
    ) -> Option<Ttl> {
        let line = section.position().0;
        let mount = (workspace.store.clone(), workspace.path.clone());
        let (first, first_line) = *self.known.entry(mount).or_insert((is_managed, line));
        if first != is_managed {
            section.add_problem(disagreement(first_line));
        }
        is_managed.then_some(self.ttl)
    }
}

fn parse_path(section: &Section<'_>, text: WithSpan<&str>) -> Option<WithSpan<VfsPath>> {
    match VfsPath::parse(text.value) {
        Ok(value) => Some(WithSpan { value, span: text.span }),
        Err(error) => {
            section.reject_value(&text, error);
            None
        }
    }
}

pub(super) fn known_store(
    section: &Section<'_>,
    name: &WithSpan<&str>,
    stores: &StoreNames<'_>,
) -> Option<String> {
    if stores.known.contains(name.value) {
        return Some(name.value.to_owned());
    }
    let names = || stores.in_order.iter().map(String::as_str);
    let hint = match nearest(name.value, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if stores.known.is_empty() => format!("add [stores.{}]", name.value.escape_debug()),
        None => format!("there are {}", quoted_list(names())),
    };
    section.reject_value(name, format!("there is no Store `{}`; {hint}", name.value.escape_debug()));
    None
}

/// Reads the `hide` globs of the file or of a Workspace; `None` if there is no such key.
pub(super) fn hide_globs(section: &Section<'_>) -> Option<Vec<String>> {
    let texts = section.texts("hide")?;
    checked_globs(section, &texts, |text| HideGlobs::new([text]).map(drop))
}

fn globs(section: &Section<'_>, texts: &WithSpan<Vec<WithSpan<&str>>>) -> Option<Vec<String>> {
    checked_globs(section, texts, |text| {
        PathGlobs::new([rule_pattern(text)?], Anchor::AnyDirectory).map(drop)
    })
}

fn checked_globs(
    section: &Section<'_>,
    texts: &WithSpan<Vec<WithSpan<&str>>>,
    check: impl Fn(&str) -> Result<(), GlobError>,
) -> Option<Vec<String>> {
    let glob = |text: &WithSpan<&str>| match check(text.value) {
        Ok(()) => Some(text.value.to_owned()),
        Err(error) => {
            section.reject_value(text, error);
            None
        }
    };
    texts.value.iter().map(glob).collect()
}
