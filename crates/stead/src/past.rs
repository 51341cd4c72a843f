//! The past of a stead: named versions, moments as people name them, and the care of the database that keeps it all.

use stead_core::store::{StoreError, Version};
use stead_core::vfs::IntoPath;
use stead_core::{Access, Clock, SystemClock, VfsPath};
use stead_stores::Database;
use stead_stores::virtual_store::{NewSnapshot, Snapshot};

use crate::error::{Error, Result};
use crate::stead::Stead;
use crate::when;

impl Stead {
    /// Keeps the present version of a Workspace, or of everything, under a name.
    ///
    /// It takes the same time whatever the number of files.
    pub fn snapshot(&self, prefix: Option<&str>, label: Option<&str>) -> Result<Snapshot> {
        let prefix = prefix.map(IntoPath::into_path).transpose()?;
        if let Some(label) = label
            && (label.is_empty() || label.chars().any(char::is_control) || label.parse::<i64>().is_ok())
        {
            return Err(Error::Invalid(
                "a snapshot's label is a text without control characters that is no number".to_owned(),
            ));
        }
        self.check_history(prefix.as_ref())?;
        let new = NewSnapshot {
            agent: self.vfs().identity().agent.clone(),
            prefix: prefix.as_ref().map(VfsPath::to_string),
            label: label.map(str::to_owned),
            at: SystemClock.now(),
        };
        self.database()?.snapshot(new).map_err(|cause| match cause {
            StoreError::AlreadyExists => {
                Error::InTheWay("there is a snapshot of that name already; choose another".to_owned())
            }
            cause => cause.into(),
        })
    }

    /// The snapshots that this agent has made of a path, or of everything, newest first.
    pub fn snapshots(&self, prefix: Option<&str>) -> Result<Vec<Snapshot>> {
        let prefix = prefix.map(IntoPath::into_path).transpose()?;
        let mut snapshots = self.database()?.snapshots(&self.vfs().identity().agent)?;
        if let Some(prefix) = prefix {
            snapshots.retain(|snapshot| covers(snapshot, &prefix));
        }
        Ok(snapshots)
    }

    /// Lets a snapshot go: its version is kept no longer than others.
    pub fn forget_snapshot(&self, prefix: Option<&str>, name: &str) -> Result<Snapshot> {
        let prefix = prefix.map(IntoPath::into_path).transpose()?;
        let found = self.find_snapshot(prefix.as_ref(), name)?;
        let found = found
            .ok_or_else(|| stead_core::Error::NoHistory(format!("snapshot `{}`", name.escape_debug())))?;
        self.database()?.forget_snapshot(&self.vfs().identity().agent, found.id)?;
        Ok(found)
    }

    /// The version that a text names, for a path: a snapshot's label or `#number`, a version's number, `now`, or a time.
    pub fn moment(&self, path: impl IntoPath, text: &str) -> Result<Version> {
        let path = path.into_path()?;
        let route = self.vfs().router().route(&path);
        let Some(route) = route.filter(|route| route.workspace.scope().allows(Access::History)) else {
            // The door says why.
            self.vfs().log(&stead_core::vfs::LogQuery {
                path: Some(path),
                limit: 1,
                ..Default::default()
            })?;
            return Err(Error::Invalid("there is no history there".to_owned()));
        };
        let store = route.workspace.mount().store();
        if text == "now" {
            return Ok(store.version()?);
        }
        if let Some(snapshot) = self.find_snapshot(Some(&path), text)? {
            return Ok(snapshot.version);
        }
        if let Ok(number) = text.strip_prefix('v').unwrap_or(text).parse::<i64>() {
            let version = Version(number);
            if number < 0 || version > store.version()? {
                return Err(stead_core::Error::NoHistory(format!("version {number}")).into());
            }
            return Ok(version);
        }
        match when::time(text, SystemClock.now()) {
            Ok(time) => Ok(store.version_at(time)?),
            Err(_) => {
                let text = text.escape_debug();
                Err(stead_core::Error::NoHistory(format!("snapshot, version or time `{text}`")).into())
            }
        }
    }

    fn find_snapshot(&self, path: Option<&VfsPath>, name: &str) -> Result<Option<Snapshot>> {
        let Ok(database) = self.database() else { return Ok(None) };
        let number = name.strip_prefix('#').and_then(|number| number.parse::<i64>().ok());
        let named = |snapshot: &Snapshot| match number {
            Some(number) => snapshot.id == number,
            None => snapshot.label.as_deref() == Some(name),
        };
        let wanted = |snapshot: &Snapshot| named(snapshot) && path.is_none_or(|path| covers(snapshot, path));
        let mut found = database.snapshots(&self.vfs().identity().agent)?;
        found.retain(wanted);
        // The one of the nearest Workspace comes before one of everything.
        found.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.prefix.as_ref().map_or(0, String::len)));
        Ok(found.into_iter().next())
    }

    /// Refuses where the history may not be looked into, or there is none.
    fn check_history(&self, prefix: Option<&VfsPath>) -> Result<()> {
        let query = stead_core::vfs::LogQuery { path: prefix.cloned(), limit: 1, ..Default::default() };
        self.vfs().log(&query).map(drop).or_else(|error| match error.store_error() {
            // Nothing may have been there yet.
            Some(StoreError::NotFound) => Ok(()),
            _ => Err(error.into()),
        })
    }

    /// The database that keeps the past.
    pub(crate) fn database(&self) -> Result<Database> {
        match &self.keeper {
            Some(keeper) => keeper.database(),
            None => Err(Error::Invalid("this stead has no database, so it has no snapshots".to_owned())),
        }
    }
}

fn covers(snapshot: &Snapshot, path: &VfsPath) -> bool {
    match &snapshot.prefix {
        None => true,
        Some(prefix) => VfsPath::parse(prefix).is_ok_and(|prefix| path.below(&prefix).is_some()),
    }
}
