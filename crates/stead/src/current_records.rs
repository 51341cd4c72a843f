//! The records of organizations as they are now, for steads that are in use while the records change.

use std::collections::{BTreeSet, HashMap};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use stead_core::organization::{Folder, Organization, Visibility};
use stead_core::vfs::CurrentRights;
use stead_core::{Access, VfsPath, Workspace};

use crate::config::{Config, Reread};
use crate::old_layout::folder_parts;

/// How long what is known of the files counts as current.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The organizations of a configuration, read again when the files of their records change. For records in the
/// configuration file, that is the configuration file.
///
/// Each organization is decided for itself. If one of its files of records is gone, it has no rights until the file is back. If
/// one isn't valid, its last valid records stay in use. What is wrong with the configuration file changes nothing for records in
/// files of their own, nor for those in sections of it that are valid.
#[derive(Debug)]
pub(crate) struct CurrentRecords {
    state: Mutex<State>,
}

/// The files with records, as they were before a configuration was read. A file that has changed since then has another
/// fingerprint.
pub(crate) type RecordFingerprints = Vec<Option<FileFingerprint>>;

#[derive(Debug)]
struct State {
    /// When the files were last compared; `None` if that has to happen before the next use.
    checked: Option<Instant>,
    files: Vec<PathBuf>,
    fingerprints: RecordFingerprints,
    /// The organizations by their ids.
    organizations: HashMap<String, Arc<Organization>>,
    /// The ids of all organizations so far, whether or not their records can be read now.
    ids: BTreeSet<String>,
    /// What has the records.
    config: Arc<Config>,
    /// The configuration that was read with these records; `None` if it is the one that the Stores have.
    newer_config: Option<Arc<Config>>,
}

/// Tells two states of a file apart, even if it was replaced within the same second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFingerprint {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileFingerprint {
    /// The fingerprint of a file; `None` if it doesn't exist or can't be reached.
    pub fn of(file: &Path) -> Option<Self> {
        let from_metadata = |metadata: Metadata| FileFingerprint {
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        file.metadata().ok().map(from_metadata)
    }
}

impl CurrentRecords {
    /// The records that a configuration was read with.
    pub(crate) fn of(config: &Config) -> Self {
        CurrentRecords { state: Mutex::new(State::of(Arc::new(config.clone()))) }
    }

    /// Takes over the records of a configuration that was read meanwhile from the same file.
    pub(crate) fn update(&self, config: &Config) {
        self.state.lock().update(Arc::new(config.clone()));
    }

    /// The records of a configuration with other Stores, or those of `previous` if they were read later.
    pub(crate) fn of_newer(config: &Config, previous: &CurrentRecords) -> Self {
        let records = CurrentRecords::of(config);
        let known = Arc::clone(&previous.state.lock().config);
        if known.is_newer_than(config) {
            let mut state = records.state.lock();
            state.replace(Arc::clone(&known));
            state.newer_config = Some(known);
        }
        records
    }

    /// Reads the configuration and its records again, as they are now.
    pub(crate) fn read_again(&self) -> Reread {
        let config = Arc::clone(&self.state.lock().config);
        config.read_again()
    }

    /// An organization as its records are now; `None` if it has none.
    pub(crate) fn organization(&self, id: &str) -> Option<Arc<Organization>> {
        self.checked_state().organizations.get(id).cloned()
    }

    /// The configuration with the records as they are now, if [`CurrentRecords::update`] has not had it yet.
    pub(crate) fn newer_config(&self) -> Option<Arc<Config>> {
        self.checked_state().newer_config.clone()
    }

    fn checked_state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        let is_recent = |checked: Instant| checked.elapsed() < CHECK_INTERVAL;
        if !state.files.is_empty() && !state.checked.is_some_and(is_recent) {
            check(&mut state);
        }
        state
    }

    /// Whether an agent may do this in a folder now. `folder` is `None` if no folder is meant, and has `None` if there is
    /// no such folder any more. Agents outside of organizations follow the configuration.
    fn allow(
        &self,
        agent: &str,
        folder: impl FnOnce(&Organization) -> Option<Option<Folder>>,
        access: Access,
    ) -> bool {
        let is_known = |organization: &str| self.state.lock().ids.contains(organization);
        let member = agent.split_once('/').filter(|(organization, _)| is_known(organization));
        let Some((organization, agent)) = member else { return true };
        let Some(organization) = self.organization(organization) else { return false };
        let Some(agent) = organization.agent_index(agent) else { return false };
        let Some(folder) = folder(&organization) else { return true };
        let scope = folder.and_then(|folder| organization.access(agent, folder));
        scope.is_some_and(|scope| scope.allows(access))
    }
}

/// Reads everything again if a file has changed.
fn check(state: &mut State) {
    // What changes from here on is found by the next check, however long this one takes.
    let start = Instant::now();
    let fingerprints = state.files.iter().map(|file| FileFingerprint::of(file));
    if !fingerprints.eq(state.fingerprints.iter().cloned()) {
        let config = Arc::new(state.config.read_again().config);
        state.replace(Arc::clone(&config));
        state.newer_config = Some(config);
    }
    state.checked = Some(start);
}

impl State {
    fn of(config: Arc<Config>) -> Self {
        let (files, fingerprints) = config.followed_records().unzip();
        let organizations = organizations(&config);
        let ids = organizations.keys().cloned().collect();
        // The files may have changed since the configuration was read.
        State { checked: None, files, fingerprints, organizations, ids, config, newer_config: None }
    }

    /// Takes over a configuration that the Stores have now. Records that were read later stay: if those in the files are no
    /// longer valid, nothing would bring them back.
    fn update(&mut self, config: Arc<Config>) {
        match self.config.is_newer_than(&config) {
            true => {
                self.newer_config = Some(Arc::clone(&self.config));
                self.checked = None;
            }
            false => self.replace(config),
        }
    }

    fn replace(&mut self, config: Arc<Config>) {
        let ids = std::mem::take(&mut self.ids);
        *self = State::of(config);
        self.ids.extend(ids);
    }
}

fn organizations(config: &Config) -> HashMap<String, Arc<Organization>> {
    let by_id = config
        .organizations
        .iter()
        .map(|config| (config.organization.id().to_owned(), Arc::clone(&config.organization)));
    by_id.collect()
}

/// The rights of one agent by the records as they are now.
#[derive(Debug)]
pub(crate) struct CurrentFolderRights {
    pub(crate) records: Arc<CurrentRecords>,
    /// The agent, `ORGANIZATION/ID` if it is in an organization.
    pub(crate) agent: String,
}

impl CurrentRights for CurrentFolderRights {
    fn allow_tool(&self, tool: &str) -> bool {
        let Some((organization, agent)) = self.agent.split_once('/') else { return true };
        // An agent without a record is refused by what a tool does, and with the reason.
        let Some(organization) = self.records.organization(organization) else { return true };
        organization.agent_index(agent).is_none_or(|agent| organization.allows_tool(agent, tool))
    }

    fn may_withdraw(&self, workspace: &Workspace) -> bool {
        self.agent.contains('/') || workspace.fork_origin().is_some()
    }

    fn allow(&self, workspace: &Workspace, access: Access) -> bool {
        let own = |organization: &Organization| {
            let (owner, visibility) = folder_of(workspace.prefix())?;
            Some(organization.folder(owner, visibility))
        };
        // Other Workspaces, such as forks, follow the configuration, and a fork also follows those it comes from.
        self.records.allow(&self.agent, own, access)
            && workspace.fork_origin().is_none_or(|origin| {
                let base = |organization: &Organization| Some(organization.folder_at(&origin.path));
                self.records.allow(&origin.created_by, |_| None, Access::Read)
                    && self.records.allow(&origin.agent, base, Access::Read)
            })
    }
}

/// The id of the owner and the half that a Workspace of an organization shows.
fn folder_of(prefix: &VfsPath) -> Option<(&str, Visibility)> {
    let (owner, half) = folder_parts(prefix)?;
    let visibility = Visibility::ALL.into_iter().find(|visibility| visibility.as_str() == half)?;
    Some((owner, visibility))
}
