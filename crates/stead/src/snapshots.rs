//! Snapshots of a stead, and the versions and times that users name in text.

use std::sync::Arc;

use stead_core::monitor::check_not_stopped;
use stead_core::store::{CaptureScope, CaptureScopes, RevisionNumber, StoreError, StoreRevisions};
use stead_core::vfs::{IntoPath, PointInTime};
use stead_core::{Access, Clock, ErrorKind, Operation, OperationId, Store, SystemClock, VfsPath, Workspace};
use stead_stores::Database;
use stead_stores::database::{NewSnapshot, Snapshot};

use crate::error::{Error, Result};
use crate::stead::Stead;
use crate::time_text;

/// How often a snapshot is tried before a conflict with concurrent captures is an error.
const SNAPSHOT_ATTEMPTS: usize = 8;

impl Stead {
    /// Gives the present version of a Workspace, or of all Workspaces, a name.
    ///
    /// On a Virtual Store it takes the same time whatever the number of files. Of a Physical Store it copies the files
    /// that have changed since their last snapshot.
    pub fn snapshot(&self, prefix: Option<&str>, label: Option<&str>) -> Result<Snapshot> {
        self.snapshot_with_progress(prefix, label, &mut |_| ())
    }

    /// [`Stead::snapshot`] that reports how many host files have been examined.
    pub fn snapshot_with_progress(
        &self,
        prefix: Option<&str>,
        label: Option<&str>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Snapshot> {
        self.single_record("snapshot", prefix, error_kind, |stead| {
            stead.make_snapshot(prefix, label, progress)
        })
    }

    pub(crate) fn make_snapshot(
        &self,
        prefix: Option<&str>,
        label: Option<&str>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Snapshot> {
        let prefix = prefix.map(IntoPath::into_path).transpose()?;
        if let Some(label) = label
            && is_ambiguous_label(label)
        {
            return Err(Error::Invalid(
                "a snapshot's label can't be empty, a number, a time or `now`, can't begin with `#`, and can't contain \
                 control characters"
                    .to_owned(),
            ));
        }
        self.check_history(prefix.as_ref())?;
        let (database, path) = (self.database()?, prefix.clone());
        if !self.covered_workspaces(path.as_ref()).any(|workspace| is_included(workspace, &database)) {
            let cause = StoreError::unsupported(
                "a snapshot can't include it: its Store isn't in the database that holds the snapshots. Use one of its \
                 versions or a time instead",
            );
            let path = path.unwrap_or_else(VfsPath::root);
            let visibility = stead_core::Visibility::Visible;
            return Err(stead_core::Error::Store { path, visibility, cause }.into());
        }
        let new = NewSnapshot {
            agent: self.owner().to_string(),
            prefix: prefix.as_ref().map(VfsPath::to_string),
            label: label.map(str::to_owned),
            at: SystemClock.now(),
            lease: self.vfs().lease().map(|lease| lease.id()),
        };
        let result = self.audited("snapshot", path.as_ref(), || {
            self.snapshot_with_retries(&database, &new, path.as_ref(), progress)
        });
        result.map_err(|error| match &error {
            Error::Vfs(vfs_error) if matches!(vfs_error.store_error(), Some(StoreError::AlreadyExists)) => {
                Error::AlreadyExists(
                    "a snapshot with that name exists already; choose another name".to_owned(),
                )
            }
            _ => error,
        })
    }

    /// The Workspaces that a snapshot of a path, or of everything, leaves out: the caller may not read their history, or
    /// their Store isn't in the database that holds the snapshots. A Memory Store never is.
    pub fn left_out_of_snapshot(&self, prefix: Option<&str>) -> Result<Vec<VfsPath>> {
        let (prefix, database) = (prefix.map(IntoPath::into_path).transpose()?, self.database()?);
        let covered = self.covered_workspaces(prefix.as_ref());
        let left_out = covered.filter(|workspace| !is_included(workspace, &database));
        Ok(left_out.map(|workspace| workspace.prefix().clone()).collect())
    }

    /// The Workspace that a path lies in and those below the path, or all Workspaces and the State.
    fn covered_workspaces(&self, prefix: Option<&VfsPath>) -> impl Iterator<Item = &Workspace> {
        let main = prefix.and_then(|prefix| self.vfs().router().route(prefix));
        let main = main.map(|route| route.workspace.prefix().clone());
        let is_covered = move |workspace: &&Workspace| {
            let below = prefix.is_none_or(|prefix| workspace.prefix().strip_prefix(prefix).is_some());
            below || main.as_ref() == Some(workspace.prefix())
        };
        let state = self.state_workspace().filter(|_| prefix.is_none());
        self.vfs().workspaces().filter(is_covered).chain(state)
    }

    /// The Workspace of the State, if there is one.
    fn state_workspace(&self) -> Option<&Workspace> {
        self.vfs().router().state().map(|state| &**state)
    }

    /// Captures what the Stores have to copy, and names the revision. If someone captures the same files at the same
    /// time, it tries again; that is quick, because most content has been captured by then.
    fn snapshot_with_retries(
        &self,
        database: &Database,
        new: &NewSnapshot,
        prefix: Option<&VfsPath>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Snapshot, StoreError> {
        let scopes = self.capture_scopes(prefix);
        let operation = Operation {
            id: OperationId::fresh(new.at),
            identity: Arc::new(self.vfs().identity().clone()),
            tool: "snapshot".into(),
            at: new.at,
        };
        let monitor = self.vfs().watch();
        let progress = &mut |done| {
            progress(done);
            if let Some(monitor) = monitor {
                monitor.progress(done, None);
            }
            check_not_stopped(monitor)
        };
        for _ in 1..SNAPSHOT_ATTEMPTS {
            match try_snapshot(database, new, &scopes, &operation, progress) {
                Err(StoreError::Conflict) => {}
                result => return result,
            }
        }
        try_snapshot(database, new, &scopes, &operation, progress)
    }

    /// The Stores that a snapshot of a path, or of everything, covers, and which part of each.
    fn capture_scopes(&self, prefix: Option<&VfsPath>) -> Vec<(Arc<dyn Store>, CaptureScopes)> {
        let mut scopes: Vec<(Arc<dyn Store>, CaptureScopes)> = Vec::new();
        let state = self.state_workspace().filter(|_| prefix.is_none());
        for workspace in self.vfs().workspaces().chain(state) {
            let mount = workspace.mount();
            let path = match prefix {
                None => mount.path().clone(),
                Some(prefix) if workspace.prefix().strip_prefix(prefix).is_some() => mount.path().clone(),
                Some(prefix) => match prefix.strip_prefix(workspace.prefix()) {
                    Some(relative) => mount.node_path(relative).path,
                    None => continue,
                },
            };
            let store = mount.store();
            if !workspace.scope().allows(Access::History) || store.history().is_none() {
                continue;
            }
            let scope = CaptureScope::new(path, mount.path().clone(), workspace.scratch().clone());
            match scopes.iter_mut().find(|(other, _)| other.id() == store.id()) {
                Some((_, store_scopes)) => store_scopes.extend([scope]),
                None => scopes.push((Arc::clone(store), [scope].into_iter().collect())),
            }
        }
        scopes
    }

    /// Acts on the database with an audit record, like every call through the door.
    pub(crate) fn audited<T>(
        &self,
        call: &'static str,
        path: Option<&VfsPath>,
        act: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T> {
        let error_path = path.cloned().unwrap_or_else(VfsPath::root);
        let visibility = stead_core::Visibility::Visible;
        let act = || act().map_err(|cause| stead_core::Error::Store { path: error_path, visibility, cause });
        Ok(self.vfs().audited(call, path, act)?)
    }

    /// The snapshots that this agent has made of a path, or of everything, newest first.
    pub fn snapshots(&self, prefix: Option<&str>) -> Result<Vec<Snapshot>> {
        self.single_record("snapshots", prefix, error_kind, |stead| {
            let prefix = prefix.map(IntoPath::into_path).transpose()?;
            let mut snapshots = stead.database()?.snapshots(&stead.owner().to_string())?;
            if let Some(prefix) = prefix {
                snapshots.retain(|snapshot| covers(snapshot, &prefix));
            }
            Ok(snapshots)
        })
    }

    /// Removes a snapshot's name. Its version is then kept only as long as the retention keeps any other.
    pub fn forget_snapshot(&self, prefix: Option<&str>, name: &str) -> Result<Snapshot> {
        self.single_record("forget_snapshot", prefix, error_kind, |stead| stead.remove_snapshot(prefix, name))
    }

    fn remove_snapshot(&self, prefix: Option<&str>, name: &str) -> Result<Snapshot> {
        let prefix = prefix.map(IntoPath::into_path).transpose()?;
        let snapshot = self.find_snapshot(prefix.as_ref(), name)?;
        let snapshot = snapshot
            .ok_or_else(|| stead_core::Error::NotInHistory(format!("snapshot `{}`", name.escape_debug())))?;
        let (database, owner) = (self.database()?, self.owner().to_string());
        let forget = || database.forget_snapshot(&owner, snapshot.id);
        self.audited("forget_snapshot", prefix.as_ref(), forget)?;
        Ok(snapshot)
    }

    /// The point in time that a text names for a path: a snapshot's label or `#number`, a version's number (`12` or `v12`)
    /// in the path's Store, `now`, or a time.
    pub fn resolve_point(&self, path: impl IntoPath, text: &str) -> Result<PointInTime> {
        let path = path.into_path()?;
        let store = self.store_with_history(&path)?;
        if text == "now" {
            return Ok(PointInTime::Now);
        }
        if let Some(snapshot) = self.find_snapshot(Some(&path), text)? {
            let revisions = self.snapshot_revisions(&snapshot)?;
            if self.vfs().router().route(&path).is_some() && revisions.get(store.id()).is_none() {
                return Err(Error::Invalid(format!(
                    "the snapshot `{}` doesn't include `{path}`, whose Store has its own version numbers; use a time",
                    text.escape_debug()
                )));
            }
            return Ok(revisions.into());
        }
        if let Some(number) = version_number(text) {
            if number.0 < 0 || number > store.require_history()?.latest_revision()? {
                return Err(stead_core::Error::NotInHistory(format!("version {number}")).into());
            }
            return Ok(store.revision(number).into());
        }
        time_text::parse_time(text, SystemClock.now())
            .map(PointInTime::Time)
            .map_err(|_| Error::UnknownPoint { text: text.to_owned() })
    }

    /// The Store whose versions a path's numbers are. For a level above all Workspaces that is the first Store with a
    /// history, and a persistent one if there is any.
    fn store_with_history(&self, path: &VfsPath) -> Result<&Arc<dyn Store>> {
        match self.vfs().router().route(path) {
            Some(route) if route.workspace.scope().allows(Access::History) => {
                Ok(route.workspace.mount().store())
            }
            // The door's own error says why the history can't be read.
            Some(_) => {
                let query =
                    stead_core::vfs::LogQuery { path: Some(path.clone()), limit: 1, ..Default::default() };
                self.vfs().log(&query)?;
                Err(Error::Invalid("this path has no history".to_owned()))
            }
            None => {
                let no_history = || Error::Invalid("none of your Workspaces has a history".to_owned());
                let is_temporary = |store: &&Arc<dyn Store>| !store.info().is_persistent();
                self.stores_with_history().min_by_key(is_temporary).ok_or_else(no_history)
            }
        }
    }

    /// The Stores whose history may be read, one for each Workspace.
    fn stores_with_history(&self) -> impl Iterator<Item = &Arc<dyn Store>> {
        let workspaces = self.vfs().workspaces().chain(self.state_workspace());
        let readable = workspaces.filter(|workspace| workspace.scope().allows(Access::History));
        readable.map(|workspace| workspace.mount().store()).filter(|store| store.history().is_some())
    }

    /// The revisions that a snapshot names: one for each of this stead's Stores that commit to the database with the
    /// snapshot. It has no revision of any other Store.
    pub fn snapshot_revisions(&self, snapshot: &Snapshot) -> Result<StoreRevisions> {
        let database = self.database()?;
        let workspaces = self.vfs().workspaces().chain(self.state_workspace());
        let included = workspaces.filter(|workspace| is_included(workspace, &database));
        Ok(included.map(|workspace| workspace.mount().store().revision(snapshot.revision)).collect())
    }

    /// This stead, read-only, as it was at the version or time that `text` names for `path`. Fails if `path` can't be
    /// read as it was then.
    pub fn as_of_text(&self, path: impl IntoPath, text: &str) -> Result<Stead> {
        let path = path.into_path()?;
        let point = self.resolve_point(&path, text)?;
        match (self.vfs().router().route(&path), &point) {
            // Every Store has the present state.
            (_, PointInTime::Now) => {}
            (Some(route), _) => {
                let store = &**route.workspace.mount().store();
                let past = point
                    .revision_in(store)
                    .and_then(|number| store.require_history()?.as_of(number.ok_or(StoreError::NotFound)?));
                let visibility = stead_core::Visibility::Visible;
                past.map_err(|cause| stead_core::Error::Store { path, visibility, cause })?;
            }
            (None, PointInTime::Revision(revision)) => self.check_unambiguous(revision.number)?,
            (None, _) => {}
        }
        self.as_of(point)
    }

    /// Fails if a version number alone could mean several points in time, because the Stores don't share their numbers.
    fn check_unambiguous(&self, number: RevisionNumber) -> Result<()> {
        let workspaces = || {
            self.vfs().workspaces().filter(|workspace| {
                workspace.scope().allows(Access::History) && workspace.mount().store().history().is_some()
            })
        };
        let Some(first) = workspaces().next() else { return Ok(()) };
        let shares_revisions = |workspace: &&Workspace| {
            workspace.mount().store().shares_revisions_with(&**first.mount().store())
        };
        match workspaces().find(|workspace| !shares_revisions(workspace)) {
            Some(other) => Err(Error::Invalid(format!(
                "`{}` and `{}` have separate version numbers, so version {number} is ambiguous; use a time, or a path in \
                 one of them",
                first.prefix(),
                other.prefix()
            ))),
            None => Ok(()),
        }
    }

    fn find_snapshot(&self, path: Option<&VfsPath>, name: &str) -> Result<Option<Snapshot>> {
        let source = self.database_source.as_ref();
        let database = match source.map_or(Ok(None), |source| source.existing_database()) {
            Ok(Some(database)) => database,
            Ok(None) => return Ok(None),
            // Versions and times of a Store outside the database can be read without it.
            Err(_) if is_version_or_time(name) => return Ok(None),
            Err(error) => return Err(error),
        };
        let number = name.strip_prefix('#').and_then(|number| number.parse::<i64>().ok());
        let is_named = |snapshot: &Snapshot| match number {
            Some(number) => snapshot.id == number,
            None => snapshot.label.as_deref() == Some(name),
        };
        let is_match =
            |snapshot: &Snapshot| is_named(snapshot) && path.is_none_or(|path| covers(snapshot, path));
        let mut found = database.snapshots(&self.owner().to_string())?;
        found.retain(is_match);
        // A snapshot of the nearest Workspace comes before one of everything.
        found.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.prefix.as_ref().map_or(0, String::len)));
        Ok(found.into_iter().next())
    }

    /// Fails if the caller may not read the history, or if there is none.
    fn check_history(&self, prefix: Option<&VfsPath>) -> Result<()> {
        let query = stead_core::vfs::LogQuery { path: prefix.cloned(), limit: 1, ..Default::default() };
        self.vfs().log(&query).map(drop).or_else(|error| match error.store_error() {
            // A path without a file may still get its first version later.
            Some(StoreError::NotFound) => Ok(()),
            _ => Err(error.into()),
        })
    }

    /// The database that holds snapshots and history.
    pub(crate) fn database(&self) -> Result<Database> {
        match &self.database_source {
            Some(source) => source.database(),
            None => Err(Error::Invalid("this stead has no database, so it has no snapshots".to_owned())),
        }
    }
}

/// Whether the snapshots in a database include a Workspace.
fn is_included(workspace: &Workspace, database: &Database) -> bool {
    let store = workspace.mount().store();
    workspace.scope().allows(Access::History)
        && store.history().is_some()
        && store.info().database == Some(database.id())
}

/// The number in a text such as `12` or `v12`.
fn version_number(text: &str) -> Option<RevisionNumber> {
    text.strip_prefix('v').unwrap_or(text).parse().ok().map(RevisionNumber)
}

/// Whether a text can name a version or a time, and need not be a snapshot's label.
fn is_version_or_time(text: &str) -> bool {
    version_number(text).is_some() || time_text::parse_time(text, SystemClock.now()).is_ok()
}

/// The kind of an error, for the audit record.
fn error_kind(error: &Error) -> Option<ErrorKind> {
    Some(error.kind())
}

fn try_snapshot(
    database: &Database,
    new: &NewSnapshot,
    scopes: &[(Arc<dyn Store>, CaptureScopes)],
    operation: &Operation,
    progress: &mut dyn FnMut(u64) -> Result<(), StoreError>,
) -> Result<Snapshot, StoreError> {
    let (mut captures, mut done_before) = (Vec::new(), 0);
    for (store, store_scopes) in scopes {
        let mut done_in_store = 0;
        let captured = store.require_history()?.capture(store_scopes, operation, &mut |done| {
            done_in_store = done;
            progress(done_before + done)
        })?;
        captures.extend(captured);
        done_before += done_in_store;
    }
    database.snapshot_with_captures(new.clone(), captures)
}

/// Whether a label isn't allowed because it could be read as a number, a time, `now` or `#number`, or because it is
/// blank or contains control characters.
fn is_ambiguous_label(label: &str) -> bool {
    label.trim().is_empty()
        || label == "now"
        || label.starts_with('#')
        || label.chars().any(char::is_control)
        || is_version_or_time(label)
}

fn covers(snapshot: &Snapshot, path: &VfsPath) -> bool {
    match &snapshot.prefix {
        None => true,
        Some(prefix) => VfsPath::parse(prefix).is_ok_and(|prefix| path.strip_prefix(&prefix).is_some()),
    }
}
