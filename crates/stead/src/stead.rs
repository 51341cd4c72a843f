//! A stead: everything that one agent can reach, and nothing else.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use stead_core::identity::check_agent_name;
use stead_core::organization::Folders;
use stead_core::store::{NodePath, Parents, QuotaLimits, StoreKind, StorePath};
use stead_core::tools::ToolChoice;
use stead_core::vfs::{
    CallEnd, CurrentRights, InUse, IntoPath, Limits, LostUpdates, PointInTime, State, ThreadLease,
};
use stead_core::{
    AccessScope, AuditFacts, AuditLog, AuditOutcome, Barrier, CallMonitor, Clock, ErrorKind, Identity, Mount,
    Vfs, VfsPath, Workspace,
};
use stead_stores::Database;

use crate::config::{
    AgentConfig, Config, FilesPer, Membership, SteadScope, StoreConfig, ThreadBarrier, WorkspaceConfig,
    thread_directory,
};
use crate::current_records::CurrentFolderRights;
use crate::error::{Error, Result, escaped_path};
use crate::forks::Forks;
use crate::host_locations::HostLocations;
use crate::old_layout::{OldLayout, whole_workspace};
use crate::review_forks::base_vfs;
use crate::sharing::ConfiguredSharing;
use crate::stores::{DatabaseSource, Stores};
use crate::threads::SteadLease;
use crate::transfer::{
    self, CompareBy, ExportDestination, ImportSource, OnExisting, TransferObserver, TransferTotals,
};

/// The name of Stead itself, where it acts without being asked by an agent or a person.
pub(crate) const SYSTEM_IDENTITY: &str = stead_core::identity::SYSTEM_AGENT;

/// Everything that one agent can reach.
///
/// It is a value that is handed to whatever acts for the agent. Cloning is cheap, and clones are the same stead.
#[derive(Debug, Clone)]
pub struct Stead {
    pub(crate) vfs: Vfs,
    host_locations: HostLocations,
    pub(crate) database_source: Option<DatabaseSource>,
    pub(crate) forks: Forks,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) folders: Option<Arc<Folders>>,
    scope: SteadScope,
}

/// Whose stead it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SteadOwner<'s> {
    /// The agent.
    pub agent: &'s str,
    /// The thread, if the stead isn't the agent's for all of its threads.
    pub thread: Option<&'s str>,
}

impl fmt::Display for SteadOwner<'_> {
    /// `AGENT`, or `AGENT/THREAD`: the owner of the stead's forks and snapshots.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.agent)?;
        self.thread.map_or(Ok(()), |thread| write!(f, "/{thread}"))
    }
}

impl Stead {
    /// Puts together a stead for an agent.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use stead::{AccessScope, MemoryStore, Stead};
    ///
    /// let notes = Arc::new(MemoryStore::new());
    /// let stead = Stead::builder("coder").workspace("/notes", AccessScope::ReadWrite, &notes).build()?;
    /// stead.vfs().write("/notes/plan.md", "1. ...")?;
    /// assert!(stead.vfs().write("/elsewhere", "").is_err());
    /// # Ok::<(), stead::Error>(())
    /// ```
    pub fn builder(agent: impl Into<String>) -> SteadBuilder {
        SteadBuilder {
            identity: Identity::agent(agent),
            workspaces: Vec::new(),
            state: None,
            first_error: None,
            clock: None,
            limits: Limits::default(),
            lost_updates: LostUpdates::default(),
            audit: None,
            quota: QuotaLimits::default(),
            database: None,
            tool_choice: ToolChoice::default(),
            folders: None,
            current_rights: None,
            lease: None,
        }
    }

    /// Opens the stead of an agent as it is configured.
    ///
    /// Each Store is opened at its first use. A Store that can't be opened makes only the Workspaces over it
    /// unavailable, until it can be opened.
    ///
    /// Every call is recorded in the audit, unless the configuration turns the audit off.
    pub fn open(config: &Config, agent: &str) -> Result<Stead> {
        let stores = Stores::of(config);
        stores.open_audit()?;
        Stead::open_in(&stores, &Identity::agent(agent))
    }

    /// Opens the stead of an identity over Stores that several steads may share.
    ///
    /// If the agent works in threads, the identity needs a thread ([`Error::ThreadNeeded`] otherwise). The thread is made at
    /// its first use, and this process has a lease of it until the stead and its clones are dropped. After the thread has
    /// ended, every call fails with [`stead_core::Error::ThreadEnded`]; a stead that is opened then is that of a new, empty
    /// thread.
    ///
    /// The audit is opened at the first call, like a Store. If it can't be opened, every call fails with the reason;
    /// [`Stores::open_audit`] reports the reason earlier.
    pub fn open_in(stores: &Stores, identity: &Identity) -> Result<Stead> {
        Stead::open_adjusted(stores, identity, |_| ())
    }

    /// [`Stead::open_in`] with a change of what the agent has by the configuration.
    pub(crate) fn open_adjusted(
        stores: &Stores,
        identity: &Identity,
        adjust: impl FnOnce(&mut AgentConfig),
    ) -> Result<Stead> {
        let config = stores.config().clone();
        let agent = &identity.agent;
        let agent_config = config.agent(agent).ok_or_else(|| Error::unknown_agent(&config, agent))?;
        let mut agent_config = agent_config.into_owned();
        adjust(&mut agent_config);
        if let Some(Membership { organization, .. }) = &agent_config.membership
            && let Some(workspace) = agent_config.workspaces.first()
        {
            let store = stores.get(&workspace.store)?;
            OldLayout::of(organization, &store).apply_to(&mut agent_config.workspaces);
        }
        let membership = agent_config.membership.as_ref();
        // The folders of an organization don't overlap.
        if membership.is_none()
            && let Some((_, message)) = agent_config.bypass_messages(&config.stores).into_iter().next()
        {
            return Err(Error::Invalid(message));
        }
        let team = membership.and_then(|membership| membership.organization.team_of(membership.agent));
        let identity = Identity {
            organization: membership.map(|membership| membership.organization.id().to_owned()),
            team: team.map(|team| team.id.clone()),
            ..identity.clone()
        };
        let barriers = config
            .thread_barriers(&agent_config.workspaces)
            .map_err(|(_, message)| Error::Invalid(message))?;
        // The last thing that can fail because of the configuration comes before the thread is made.
        let lease = match agent_config.scope.has_threads() {
            true => Some(stores.threads().enter(&identity, &agent_config)?),
            false => None,
        };
        let scope = agent_config.scope;
        let builder = SteadBuilder { identity, ..Stead::builder(agent) };
        let mut builder = builder.quota(agent_config.quota).tools(agent_config.tools.clone());
        if let Some(log) = stores.audit() {
            builder = builder.audit(log);
        }
        let mut host_locations = HostLocations::default();
        let base = match agent_config.workspaces.iter().any(|workspace| workspace.fork.is_some()) {
            true => {
                let built = agent_config.workspaces.iter().map(|workspace| {
                    build_workspace(workspace, mount_of(workspace, stores, lease.as_deref())?, &barriers)
                });
                Some(base_vfs(&builder.identity, built.collect::<Result<_>>()?, stores.audit())?)
            }
            false => None,
        };
        for workspace in &agent_config.workspaces {
            let mount = match base.as_ref().filter(|_| workspace.fork.is_some()) {
                Some(base) => stores.review_mount(workspace, base, lease.as_deref())?,
                None => mount_of(workspace, stores, lease.as_deref())?,
            };
            if let Some(StoreConfig::Physical { path, .. }) = config.stores.get(&workspace.store) {
                let shown = mount.path().as_str().and_then(|shown| VfsPath::root().join(shown).ok());
                host_locations.add(&workspace.prefix, path, shown.as_ref().unwrap_or(&workspace.path));
            }
            for barrier in barriers.iter().filter(|barrier| barrier.workspace == workspace.prefix) {
                let hidden = Workspace::new(barrier.prefix.clone(), AccessScope::ReadOnly, mount.clone());
                builder = builder.add_workspace(hidden.as_barrier(Barrier::ThreadFiles));
            }
            let mut built = build_workspace(workspace, mount, &barriers)?;
            if workspace.managed.is_some() {
                let (config, workspace) = (Arc::clone(&config), workspace.clone());
                built = built.with_sharing(Arc::new(ConfiguredSharing { config, workspace }));
            }
            if let Some(lease) = lease.as_deref().filter(|_| workspace.per == FilesPer::Thread) {
                built = built.with_own_since(lease.created());
            }
            builder = builder.add_workspace(built);
        }
        if agent_config.state {
            let store = stores.state_store(agent, lease.as_deref().map(SteadLease::thread));
            builder = builder.state(store);
        }
        if let Some(lease) = lease {
            builder.lease = Some(lease);
        }
        if let Some(Membership { organization, agent, .. }) = membership {
            let folders = Folders::new(Arc::clone(organization), *agent, stores.folder_ids());
            let create_directories = folder_directories(&agent_config, stores)?;
            builder = builder.folders(folders.with_directories(create_directories));
        }
        if !config.organizations.is_empty() {
            let member_name = |member: &Membership| member.organization.qualified_name(member.agent);
            let agent = membership.map_or_else(|| agent.clone(), member_name);
            let records = Arc::clone(stores.current_records());
            builder.current_rights = Some(Arc::new(CurrentFolderRights { records, agent }));
        }
        let forks = Forks::load(&config, &config.owner_of(&builder.identity), stores);
        builder = forks.add_workspaces_to(builder)?;
        Ok(Stead {
            host_locations,
            forks,
            scope,
            database_source: Some(stores.database_source()),
            ..builder.build()?
        })
    }

    /// The folders of the organization that the agent belongs to, if it does.
    pub fn folders(&self) -> Option<&Arc<Folders>> {
        self.folders.as_ref()
    }

    /// The door to this stead's files: every file operation goes through it.
    pub fn vfs(&self) -> &Vfs {
        &self.vfs
    }

    /// The stead's State: key-value pairs of its own that no path leads to; `None` if it has none.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use stead::{MemoryStore, Stead};
    /// use stead::vfs::state::SetOptions;
    ///
    /// let stead = Stead::builder("coder").state(&Arc::new(MemoryStore::new())).build()?;
    /// let state = stead.state().expect("it was given one");
    /// let first = state.set("count", "1", &SetOptions::new())?;
    /// state.set("count", "2", &SetOptions::new().if_match(first.version_tag))?;
    /// assert_eq!(state.get("count")?.expect("it was set").value, "2");
    /// # Ok::<(), stead::Error>(())
    /// ```
    pub fn state(&self) -> Option<State> {
        self.vfs.state()
    }

    /// This stead with the `Vfs` of a single call, so that an approval given for that call holds in it alone.
    pub(crate) fn with_vfs(&self, vfs: &Vfs) -> Stead {
        Stead { vfs: vfs.clone(), ..self.clone() }
    }

    /// This stead for a call that reports progress to `watch` and that `watch` can stop.
    pub fn watched(&self, monitor: Arc<dyn CallMonitor>) -> Stead {
        self.with_vfs(&self.vfs.with_monitor(monitor))
    }

    /// This stead after a person has approved: Workspaces whose approval policy asks first no longer ask.
    pub fn with_approval(&self) -> Stead {
        Stead { vfs: self.vfs.with_approval(), ..self.clone() }
    }

    /// This stead with facts that the audit records of its calls get: see [`Vfs::with_facts`].
    pub fn with_facts(&self, facts: AuditFacts) -> Stead {
        self.with_vfs(&self.vfs.with_facts(facts))
    }

    /// This stead as it was at a version or a time: read-only, see [`Vfs::as_of`].
    pub fn as_of(&self, point: impl Into<PointInTime>) -> Result<Stead> {
        Ok(Stead { vfs: self.vfs.as_of(point)?, ..self.clone() })
    }

    /// Makes many calls that are one operation to the caller, with one audit record: see [`Vfs::compound`].
    pub fn compound<T, E: From<stead_core::Error>>(
        &self,
        tool: impl Into<Cow<'static, str>>,
        path: impl IntoPath,
        kind: impl FnOnce(&E) -> Option<ErrorKind>,
        act: impl FnOnce(&Stead) -> Result<T, E>,
    ) -> Result<T, E> {
        self.vfs.compound(tool, path, kind, |vfs| act(&Stead { vfs: vfs.clone(), ..self.clone() }))
    }

    /// Makes a call that uses the `Vfs` several times, or never, with exactly one audit record: see
    /// [`Vfs::single_record`]. `kind` gives the kind of a failure for the record, or `None` if the error counts as a
    /// success.
    pub fn single_record<T, E: From<stead_core::Error>>(
        &self,
        tool: impl Into<Cow<'static, str>>,
        path: Option<&str>,
        kind: impl FnOnce(&E) -> Option<ErrorKind>,
        act: impl FnOnce(&Stead) -> Result<T, E>,
    ) -> Result<T, E> {
        let end =
            |error: &E| CallEnd::Outcome(kind(error).map_or(AuditOutcome::Ok, AuditOutcome::from_error_kind));
        self.vfs.single_record(tool, path, end, |vfs| act(&self.with_vfs(vfs)))
    }

    /// The stead's id, as audit records have it: the agent's name, or `AGENT/THREAD` if the identity has a thread.
    pub fn id(&self) -> String {
        stead_id(self.vfs.identity())
    }

    /// Whose files the Workspaces show, as the agent's configuration says.
    pub fn scope(&self) -> SteadScope {
        self.scope
    }

    /// Whose stead it is: the agent's, or that of the thread that the agent works in.
    pub fn owner(&self) -> SteadOwner<'_> {
        let identity = self.vfs.identity();
        let thread = identity.thread.as_deref().filter(|_| self.scope.has_threads());
        SteadOwner { agent: &identity.agent, thread }
    }

    /// This stead with other forks, and the Workspaces that go with them.
    pub(crate) fn with_forks(&self, workspaces: Vec<Arc<Workspace>>, forks: Forks) -> Result<Stead> {
        Ok(Stead { vfs: self.vfs.with_workspaces(workspaces)?, forks, ..self.clone() })
    }

    /// [`transfer::import`], but refuses to import a directory into itself.
    pub fn import(
        &self,
        source: ImportSource<'_>,
        to: impl IntoPath,
        compare: CompareBy,
        observer: &mut dyn TransferObserver,
    ) -> Result<TransferTotals> {
        let to = to.into_path()?;
        if let ImportSource::Directory { path, name } = &source {
            if self.host_locations.directory_contains(path, &to) {
                return Err(Error::Invalid(format!(
                    "`{to}` is inside `{name}`, and a directory can't be imported into itself"
                )));
            }
            // Its entries go to the Workspaces below.
            if self.vfs.router().is_synthetic(&to) && self.host_locations.directory_contains_nested(path, &to)
            {
                return Err(Error::Invalid(format!(
                    "a Workspace in `{to}` is inside `{name}`, and a directory can't be imported into itself"
                )));
            }
        }
        transfer::import(&self.vfs, source, &to, compare, observer)
    }

    /// [`transfer::export`], but refuses to export a directory into itself.
    pub fn export(
        &self,
        from: impl IntoPath,
        destination: ExportDestination<'_>,
        existing: OnExisting,
        compare: CompareBy,
        observer: &mut dyn TransferObserver,
    ) -> Result<TransferTotals> {
        let from = from.into_path()?;
        if let ExportDestination::Directory(path) | ExportDestination::Archive(path) = &destination {
            self.check_export_destination(path, &from)?;
        }
        transfer::export(&self.vfs, &from, destination, existing, compare, observer)
    }

    /// Fails if a host path is inside what would be exported to it.
    pub(crate) fn check_export_destination(&self, destination: &Path, from: &VfsPath) -> Result<()> {
        if !self.host_locations.contains_host_path(destination, from) {
            return Ok(());
        }
        let escaped = escaped_path(destination);
        Err(Error::Invalid(format!(
            "`{escaped}` is inside `{from}`, and a directory can't be exported into itself"
        )))
    }

    /// Counts as a call that runs in the stead's thread until the guard is dropped, so that no idle time-out ends the thread.
    /// For a surface that serves the stead for as long as its process lives. `None` if the stead isn't a thread's.
    pub fn keep_in_use(&self) -> Result<Option<InUse>> {
        Ok(self.vfs.lease().map(|lease| Arc::clone(lease).begin()).transpose()?)
    }
}

fn stead_id(identity: &Identity) -> String {
    match &identity.thread {
        Some(thread) => format!("{}/{thread}", identity.agent),
        None => identity.agent.clone(),
    }
}

/// Returns what creates the directories that an organization's agent may write to: its own and its team's. A directory that
/// can't be created now is created by the first write to it.
fn folder_directories(agent: &AgentConfig, stores: &Stores) -> Result<impl Fn() + Send + Sync + use<>> {
    let writable = agent.workspaces.iter().filter(|workspace| workspace.scope == AccessScope::ReadWrite);
    let mut directories = Vec::new();
    for workspace in writable {
        directories.push((stores.get(&workspace.store)?, workspace.path.clone()));
    }
    let audit = stores.audit();
    Ok(move || {
        for (store, path) in &directories {
            let builder = Vfs::builder(Identity::agent(SYSTEM_IDENTITY)).workspace(whole_workspace(store));
            let builder = audit.iter().fold(builder, |builder, log| builder.audit(Arc::clone(log)));
            let Ok(vfs) = builder.build() else { continue };
            if store.stat(&NodePath::from_root(StorePath::from_checked(&path.as_str()[1..]))).is_err() {
                let _ = vfs.operation("create_folder").mkdir(path, Parents::Create);
            }
        }
    })
}

/// Where the files of a Workspace are. `lease` is that of the thread that the agent works in, if it works in threads.
fn mount_of(config: &WorkspaceConfig, stores: &Stores, lease: Option<&SteadLease>) -> Result<Mount> {
    let Some(lease) = lease.filter(|_| config.per == FilesPer::Thread) else {
        return Ok(Mount::at(stores.get(&config.store)?, &config.path));
    };
    let thread = lease.thread();
    let store = stores.thread_store(&config.store, thread)?;
    if store.info().kind != StoreKind::Physical {
        return Ok(Mount::at(store, &config.path));
    }
    let path = thread_directory(&config.path, &thread.key().agent, &thread.key().thread);
    let path =
        path.ok_or_else(|| Error::Invalid("the path of the thread's directory is too long".to_owned()))?;
    Ok(Mount::at(store, &path))
}

pub(crate) fn build_workspace(
    config: &WorkspaceConfig,
    mount: Mount,
    barriers: &[ThreadBarrier],
) -> Result<Workspace> {
    let mut workspace = Workspace::new(config.prefix.clone(), config.scope, mount);
    if let Some(description) = &config.description {
        workspace = workspace.with_description(description);
    }
    if let Some(protect) = &config.protect {
        workspace = workspace.with_protect(protect).map_err(stead_core::Error::from)?;
    }
    if let Some(hide) = &config.hide {
        workspace = workspace.with_hide(hide).map_err(stead_core::Error::from)?;
    }
    workspace = match &config.quota_root {
        Some(root) => workspace.with_quota_at(root, config.quota),
        None => workspace.with_quota(config.quota),
    };
    if let Some(title) = &config.title {
        workspace = workspace.with_title(title.as_str());
    }
    let mut workspace = workspace.with_approval_policy(config.ask).with_root_mode(config.root_mode);
    if let Some(ttl) = config.managed {
        workspace = workspace.with_managed(ttl);
    }
    let mut scratch = config.scratch.clone();
    // A snapshot must not keep the files of threads.
    let own_barriers = barriers.iter().filter(|barrier| barrier.workspace == config.prefix);
    scratch.extend(own_barriers.filter_map(|barrier| {
        Some(format!("/{}/**", escape_glob(barrier.prefix.strip_prefix(&config.prefix)?)))
    }));
    Ok(workspace.with_scratch(&scratch).map_err(stead_core::Error::from)?)
}

/// A glob that matches exactly this path.
fn escape_glob(path: &str) -> String {
    let is_special = |character: char| matches!(character, '*' | '?' | '[' | ']' | '{' | '}' | '\\');
    path.chars().fold(String::new(), |mut glob, character| {
        if is_special(character) {
            glob.extend(['[', character, ']']);
        } else {
            glob.push(character);
        }
        glob
    })
}

/// Builds a [`Stead`].
#[derive(Debug)]
pub struct SteadBuilder {
    identity: Identity,
    pub(crate) workspaces: Vec<Workspace>,
    state: Option<Mount>,
    /// The first error of a builder method; [`SteadBuilder::build`] returns it.
    first_error: Option<Error>,
    clock: Option<Arc<dyn Clock>>,
    limits: Limits,
    lost_updates: LostUpdates,
    audit: Option<Arc<dyn AuditLog>>,
    quota: QuotaLimits,
    database: Option<Database>,
    tool_choice: ToolChoice,
    folders: Option<Arc<Folders>>,
    current_rights: Option<Arc<dyn CurrentRights>>,
    lease: Option<Arc<SteadLease>>,
}

impl SteadBuilder {
    /// Adds a Workspace: a logical path, what is allowed there, and the Store behind it.
    pub fn workspace(mut self, prefix: impl IntoPath, scope: AccessScope, mount: impl Into<Mount>) -> Self {
        match prefix.into_path() {
            Ok(prefix) => self.workspaces.push(Workspace::new(prefix, scope, mount.into())),
            Err(error) => {
                self.first_error.get_or_insert(error.into());
            }
        }
        self
    }

    /// Adds a Workspace that was configured in full (description, `protect`, `hide`, quota and so on).
    pub fn add_workspace(mut self, workspace: Workspace) -> Self {
        self.workspaces.push(workspace);
        self
    }

    /// Gives the stead a State, which is kept in this Mount. No Workspace may show the Mount.
    pub fn state(self, mount: impl Into<Mount>) -> Self {
        SteadBuilder { state: Some(mount.into()), ..self }
    }

    /// Sets the thread that the agent works in.
    pub fn thread(self, thread: impl Into<String>) -> Self {
        SteadBuilder { identity: self.identity.with_thread(thread), ..self }
    }

    /// Sets the clock. Without it, the system's clock is used.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        SteadBuilder { clock: Some(clock), ..self }
    }

    /// Sets the largest file that may be read whole, and the largest that may be written.
    pub fn limits(self, limits: Limits) -> Self {
        SteadBuilder { limits, ..self }
    }

    /// Sets whether a whole-file write is refused if the file has changed since the caller last read it.
    pub fn lost_updates(self, lost_updates: LostUpdates) -> Self {
        SteadBuilder { lost_updates, ..self }
    }

    /// Records every call in this audit log. A call whose record can't be written is not made.
    pub fn audit(self, log: Arc<dyn AuditLog>) -> Self {
        SteadBuilder { audit: Some(log), ..self }
    }

    /// Sets a quota for all Workspaces of the stead together.
    pub fn quota(self, quota: QuotaLimits) -> Self {
        SteadBuilder { quota, ..self }
    }

    /// Keeps snapshots in this database, which has to be the one that the stead's Virtual Stores are in.
    pub fn database(self, database: &Database) -> Self {
        SteadBuilder { database: Some(database.clone()), ..self }
    }

    /// Chooses the tools that are offered, among those that the scopes allow.
    pub fn tools(self, choice: ToolChoice) -> Self {
        SteadBuilder { tool_choice: choice, ..self }
    }

    /// Makes the stead that of an organization's agent: it has the folder tools, as far as its tools are chosen, and
    /// refusals name folders. The Workspaces are those of the organization's grants.
    pub fn folders(self, folders: Folders) -> Self {
        SteadBuilder { folders: Some(Arc::new(folders)), ..self }
    }

    /// Builds the stead. Fails if a prefix isn't a valid path, if two Workspaces have the same prefix, or if the agent has the name of
    /// Stead itself, `system`, and any Workspace or a State.
    pub fn build(self) -> Result<Stead> {
        if let Some(error) = self.first_error {
            return Err(error);
        }
        // Without anything in it, a stead can do nothing in this name: that is what a removed agent gets.
        if !self.workspaces.is_empty() || self.state.is_some() {
            check_agent_name(&self.identity.agent).map_err(|error| Error::Invalid(error.to_string()))?;
        }
        let id = stead_id(&self.identity);
        let builder = Vfs::builder(self.identity).stead(id).limits(self.limits).quota(self.quota);
        let mut builder = builder.lost_updates(self.lost_updates);
        if let Some(mount) = self.state {
            builder = builder.state(mount);
        }
        if let Some(clock) = self.clock {
            builder = builder.clock(clock);
        }
        if let Some(log) = self.audit {
            builder = builder.audit(log);
        }
        if let Some(folders) = &self.folders {
            let Membership { organization, agent, .. } = folders.membership();
            builder = builder.denial_note(organization.denial_note(agent));
        }
        if let Some(rights) = self.current_rights {
            builder = builder.current_rights(rights);
        }
        if let Some(lease) = self.lease {
            builder = builder.lease(lease);
        }
        let vfs =
            self.workspaces.into_iter().fold(builder, |builder, workspace| builder.workspace(workspace));
        let (database_source, forks) = (self.database.map(DatabaseSource::Opened), Forks::default());
        Ok(Stead {
            vfs: vfs.build()?,
            host_locations: HostLocations::default(),
            database_source,
            forks,
            tool_choice: self.tool_choice,
            folders: self.folders,
            scope: SteadScope::Agent,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use stead_core::store::Parents;
    use stead_core::vfs::{ListPage, Overwrite};
    use stead_stores::MemoryStore;

    use super::*;

    #[test]
    fn an_invalid_workspace_is_an_error_when_the_stead_is_built() {
        let store = Arc::new(MemoryStore::new());
        let above_root = Stead::builder("a").workspace("/..", AccessScope::ReadOnly, &store).build();
        assert!(above_root.unwrap_err().to_string().contains("goes above `/`"));
        let duplicate = Stead::builder("a").workspace("/x", AccessScope::ReadOnly, &store).workspace(
            "x/",
            AccessScope::ReadWrite,
            &store,
        );
        assert!(duplicate.build().unwrap_err().to_string().contains("two Workspaces have the prefix `/x`"));
    }

    #[test]
    fn workspaces_of_one_store_share_its_files() {
        let host = tempfile::tempdir().unwrap();
        let text = r#"
            [stores.one]
            kind = "memory"
            [stores.two]
            kind = "memory"
            [agents.a]
            [[agents.a.workspaces]]
            prefix = "/in"
            scope = "rw"
            store = "one"
            path = "/box"
            [[agents.a.workspaces]]
            prefix = "/all"
            scope = "ro"
            store = "one"
            [[agents.a.workspaces]]
            prefix = "/other"
            scope = "rw"
            store = "two"
        "#;
        let config = Config::parse(text, &host.path().join("stead.toml")).unwrap();
        let stead = Stead::open(&config, "a").unwrap();
        stead.vfs().write("/in/x", "1").unwrap();
        assert_eq!(stead.vfs().read("/all/box/x").unwrap().bytes, b"1");
        assert!(!stead.vfs().exists("/other/box/x").unwrap());
        let unknown = Stead::open(&config, "b").unwrap_err();
        assert_eq!(unknown.to_string(), "there is no agent `b`; there are `a`");
        assert_eq!(unknown.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn a_store_that_cannot_be_opened_blocks_no_other_store_and_may_be_opened_later() {
        let host = tempfile::tempdir().unwrap();
        let text = r#"
            [audit]
            enabled = false
            [stores.gone]
            kind = "physical"
            path = "gone"
            [stores.alias]
            kind = "physical"
            path = "gone"
            [stores.notes]
            kind = "virtual"
            [[agents.a.workspaces]]
            prefix = "/gone"
            scope = "rw"
            store = "gone"
            [[agents.a.workspaces]]
            prefix = "/alias"
            scope = "rw"
            store = "alias"
            [[agents.a.workspaces]]
            prefix = "/notes"
            scope = "rw"
            store = "notes"
        "#;
        let config = Config::parse(text, &host.path().join("stead.toml")).unwrap();
        let stead = Stead::open(&config, "a").unwrap();
        assert!(!host.path().join(".stead").exists(), "nothing is made before it is needed");
        let vfs = stead.vfs();
        vfs.write("/notes/x", "1").unwrap();
        let error = vfs.read("/gone/x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(!error.to_string().contains(host.path().to_str().unwrap()), "{error}");
        let mut infos: Vec<_> = vfs.workspaces().map(|workspace| workspace.mount().store().info()).collect();

        std::fs::create_dir(host.path().join("gone")).unwrap();
        vfs.write("/gone/x", "back").unwrap();
        // Two names of one directory are one Store, so a move between them is a rename.
        vfs.rename("/gone/x", "/alias/y", Overwrite::Refuse).unwrap();
        assert_eq!(vfs.read("/alias/y").unwrap().bytes, b"back");
        let stores = || vfs.workspaces().map(|workspace| workspace.mount().store());
        assert!(Arc::ptr_eq(stores().next().unwrap(), stores().nth(1).unwrap()));

        // A directory that disappears while its Store is open isn't taken for empty, and works again when it is back.
        std::fs::remove_dir_all(host.path().join("gone")).unwrap();
        for _ in 0..2 {
            assert_eq!(vfs.list("/gone", &ListPage::all()).unwrap_err().kind(), ErrorKind::Unavailable);
            assert_eq!(vfs.write("/gone/x", "1").unwrap_err().kind(), ErrorKind::Unavailable);
            assert_eq!(vfs.mkdir("/gone/d", Parents::Create).unwrap_err().kind(), ErrorKind::Unavailable);
        }
        std::fs::create_dir(host.path().join("gone")).unwrap();
        vfs.write("/gone/x", "back").unwrap();
        assert_eq!(std::fs::read(host.path().join("gone/x")).unwrap(), b"back");

        // A Store's info is the same before and after it is opened.
        let stores = Stores::of(&config);
        infos.dedup();
        assert_eq!(
            infos,
            ["gone", "notes"].map(|name| stores.lazy_store(name).unwrap().get_or_open().unwrap().info())
        );
    }
}
