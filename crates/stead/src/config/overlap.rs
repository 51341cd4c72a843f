//! Two Workspaces of one agent that show the same files: what one withholds, the other must not give away.
//!
//! The router decides by logical paths alone. Two Workspaces at different logical paths may still have the same host
//! directory behind them, or one directory inside the other: by its path, through a symlink or through a bind mount.
//! Then the Access Scope of one Workspace doesn't hold for files that are reached through the other. A nested Workspace
//! is not such a case: it replaces what the outer one has at its path.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use stead_core::store::QuotaLimits;
use stead_core::workspace::DEFAULT_PROTECT;
use stead_core::{Access, RootMode, VfsPath};

use super::workspace_location::{LocationKey, WorkspaceLocation};
use super::{AgentConfig, StoreConfig, WorkspaceConfig};

/// A Workspace that withholds something which another Workspace of the same agent allows on the same files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bypass<'c> {
    /// The Workspace that withholds it.
    pub(crate) inner: &'c WorkspaceConfig,
    /// The Workspace that allows it.
    pub(crate) outer: &'c WorkspaceConfig,
    withheld: Withheld,
    /// The path of the inner one's files below the outer one; `None` where that is not a logical path.
    below: Option<String>,
}

/// What the inner Workspace withholds.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Withheld {
    Scope,
    Ask,
    Protect,
}

/// Workspaces that show the same directory under the same rules, so that one comparison is enough for all of them.
struct SimilarWorkspaces<'c> {
    location: WorkspaceLocation,
    rules: WorkspaceConfig,
    /// Each with its position in the file.
    members: Vec<(usize, &'c WorkspaceConfig)>,
}

/// Groups Workspaces by where their files are and by the rules for them.
fn group_similar<'c>(
    workspaces: &'c [WorkspaceConfig],
    stores: &BTreeMap<String, StoreConfig>,
) -> Vec<SimilarWorkspaces<'c>> {
    let mut groups: Vec<SimilarWorkspaces<'c>> = Vec::new();
    let mut by_location: HashMap<WorkspaceLocation, Vec<usize>> = HashMap::new();
    for (position, (workspace, location)) in
        WorkspaceLocation::of_each(workspaces, stores).into_iter().enumerate()
    {
        let rules = rules_of(workspace);
        let known = by_location.entry(location.clone()).or_default();
        match known.iter().find(|group| groups[**group].rules == rules) {
            Some(group) => groups[*group].members.push((position, workspace)),
            None => {
                known.push(groups.len());
                groups.push(SimilarWorkspaces { location, rules, members: vec![(position, workspace)] });
            }
        }
    }
    groups
}

/// A Workspace without the settings that withhold nothing.
fn rules_of(workspace: &WorkspaceConfig) -> WorkspaceConfig {
    WorkspaceConfig {
        prefix: VfsPath::root(),
        store: String::new(),
        path: VfsPath::root(),
        description: None,
        scratch: Vec::new(),
        quota: QuotaLimits::default(),
        quota_root: None,
        title: None,
        managed: None,
        root_mode: RootMode::default(),
        ..workspace.clone()
    }
}

impl AgentConfig {
    /// The Workspaces whose files can be reached through another one that allows more, in the order of the file.
    pub(crate) fn bypasses<'c>(&'c self, stores: &BTreeMap<String, StoreConfig>) -> Vec<Bypass<'c>> {
        if self.workspaces.len() < 2 {
            return Vec::new();
        }
        let groups = group_similar(&self.workspaces, stores);
        // Barriers keep the files of threads out of all other Workspaces.
        let are_alike = |a: &SimilarWorkspaces<'_>, b: &SimilarWorkspaces<'_>| a.rules.per == b.rules.per;
        let mut by_key: HashMap<LocationKey, Vec<usize>> = HashMap::new();
        for (index, group) in groups.iter().enumerate() {
            for key in group.location.keys() {
                by_key.entry(key).or_default().push(index);
            }
        }
        let prefixes: HashSet<&VfsPath> = self.workspaces.iter().map(|workspace| &workspace.prefix).collect();
        let mut found = Vec::new();
        for inner in &groups {
            let keys = inner.location.keys_of_containing();
            let containing: BTreeSet<usize> =
                keys.iter().filter_map(|key| by_key.get(key)).flatten().copied().collect();
            let bypass_through = |outer: &SimilarWorkspaces<'c>| {
                are_alike(inner, outer).then_some(())?;
                let below = inner.location.below(&outer.location)?;
                let withheld = withheld(&inner.rules, &outer.rules, below.as_deref())?;
                let is_reached = |member: &&(usize, &'c WorkspaceConfig)| {
                    is_reached_through(&prefixes, member.1, below.as_deref())
                };
                let (position, outer) = outer.members.iter().find(is_reached)?;
                Some((*position, *outer, withheld, below))
            };
            let bypasses = containing.into_iter().filter_map(|group| bypass_through(&groups[group]));
            let Some((outer_position, outer, withheld, below)) = bypasses.min_by_key(|bypass| bypass.0)
            else {
                continue;
            };
            for (position, workspace) in &inner.members {
                let (withheld, below) = (withheld.clone(), below.clone());
                let bypass = Bypass { inner: workspace, outer, withheld, below };
                found.push((*position, outer_position, bypass));
            }
        }
        found.sort_by_key(|(inner, ..)| *inner);
        // Of two Workspaces that each withhold something from the other, the first one is reported.
        let mut reported = HashSet::new();
        found.retain(|(inner, outer, _)| {
            reported.insert((*inner, *outer)) && !reported.contains(&(*outer, *inner))
        });
        found.into_iter().map(|(.., bypass)| bypass).collect()
    }

    /// [`AgentConfig::bypasses`] as messages for the operator, each with the prefix of the Workspace that withholds
    /// something.
    pub(crate) fn bypass_messages(&self, stores: &BTreeMap<String, StoreConfig>) -> Vec<(VfsPath, String)> {
        let with_prefix = |bypass: &Bypass<'_>| {
            let message = bypass.message(&bypass.inner.prefix.to_string(), &bypass.outer.prefix.to_string());
            (bypass.inner.prefix.clone(), message)
        };
        self.bypasses(stores).iter().map(with_prefix).collect()
    }
}

/// Whether the path `below` a Workspace is reached through this Workspace, and not through one nested in it. `prefixes`
/// are those of all Workspaces of the agent.
fn is_reached_through(
    prefixes: &HashSet<&VfsPath>,
    workspace: &WorkspaceConfig,
    below: Option<&str>,
) -> bool {
    let Some(path) = below.and_then(|below| descend(&workspace.prefix, below)) else { return true };
    let nearest = path.ancestors().find(|ancestor| prefixes.contains(ancestor));
    nearest.is_none_or(|nearest| nearest == workspace.prefix)
}

/// What `inner` withholds and `outer` allows on the same files, if anything.
///
/// An inner Workspace that allows more than the outer one is fine: it is a deliberate exception, such as a writable
/// `out` in a read-only project. An inner Workspace that allows less would have no effect on calls through the outer
/// one.
fn withheld(inner: &WorkspaceConfig, outer: &WorkspaceConfig, below: Option<&str>) -> Option<Withheld> {
    let accesses = [Access::Read, Access::Write];
    if accesses.iter().any(|access| outer.scope.allows(*access) && !inner.scope.allows(*access)) {
        return Some(Withheld::Scope);
    }
    if accesses.iter().any(|access| {
        outer.scope.allows(*access)
            && inner.ask.requires_approval(*access)
            && !outer.ask.requires_approval(*access)
    }) {
        return Some(Withheld::Ask);
    }
    let unprotected = outer.scope.allows(Access::Write) && !protects_as_much(outer, inner, below);
    unprotected.then_some(Withheld::Protect)
}

/// Whether every glob that protects files of `inner` protects them in `outer` as well. Globs are compared as text. One
/// that is anchored at the prefix (`/a`) is compared as the same place in `outer`.
fn protects_as_much(outer: &WorkspaceConfig, inner: &WorkspaceConfig, below: Option<&str>) -> bool {
    let (outer, inner) = (protect_globs(outer), protect_globs(inner));
    inner.iter().all(|glob| match (glob.strip_prefix('/'), below) {
        (Some(anchored), Some("")) => outer.contains(&format!("/{anchored}")),
        (Some(anchored), Some(below)) => outer.contains(&format!("/{below}/{anchored}")),
        (Some(_), None) => false,
        (None, _) => outer.contains(glob),
    })
}

fn protect_globs(workspace: &WorkspaceConfig) -> Vec<String> {
    match &workspace.protect {
        Some(globs) => globs.clone(),
        None => DEFAULT_PROTECT.map(str::to_owned).to_vec(),
    }
}

/// The path `below` in `prefix`, or `None` if it isn't a valid path.
fn descend(prefix: &VfsPath, below: &str) -> Option<VfsPath> {
    let components = below.split('/').filter(|name| !name.is_empty());
    components.into_iter().try_fold(prefix.clone(), |path, name| path.join(name).ok())
}

impl Bypass<'_> {
    /// The problem in the terms of the configuration, without host paths. `inner` and `outer` are the names that the
    /// operator uses for the two Workspaces.
    pub(crate) fn message(&self, inner: &str, outer: &str) -> String {
        let (strict, free) = match self.withheld {
            Withheld::Scope => {
                (format!("is {}", self.inner.scope.name()), format!("is {}", self.outer.scope.name()))
            }
            Withheld::Ask => (
                format!("has ask = \"{}\"", self.inner.ask.as_str()),
                format!("has ask = \"{}\"", self.outer.ask.as_str()),
            ),
            Withheld::Protect => ("protects some names".to_owned(), "does not protect them".to_owned()),
        };
        if self.below.as_deref() == Some("") {
            return format!(
                "`{inner}` {strict}, but `{outer}` shows the same files and {free}; keep one of the two"
            );
        }
        let location = self.below.as_deref().and_then(|below| descend(&self.outer.prefix, below));
        let location = location.map_or_else(String::new, |path| format!(" as `{path}`"));
        let advice = self.advice();
        format!(
            "`{inner}` {strict}, but its files can also be reached{location} through `{outer}`, which {free}; {advice}"
        )
    }

    /// How to change the configuration so that the inner Workspace's rules hold.
    fn advice(&self) -> String {
        let nested = self
            .below
            .as_deref()
            .and_then(|below| Some((descend(&self.outer.prefix, below)?, descend(&self.outer.path, below)?)));
        match nested {
            Some((prefix, path)) => {
                let store = self.outer.store.escape_debug();
                format!(
                    "make it a nested Workspace (in stead.toml: prefix = \"{prefix}\", store = \"{store}\", path = \"{path}\")"
                )
            }
            None => "remove one of the two".to_owned(),
        }
    }
}
