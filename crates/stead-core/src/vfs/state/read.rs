//! Reading a State: one value, or a list of keys.

use std::ops::ControlFlow;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{Attr, FileContent, NodePath, Store, StoreError, StoreResult, VersionTag};
use crate::vfs::call::Call;
use crate::vfs::state::State;
use crate::vfs::state::access::store_error;
use crate::vfs::state::key::{InvalidStateName, Key};
use crate::vfs::state::key_scan::KeyScan;
use crate::vfs::state::value::{EXPIRING_MODE, MAX_CONTENT, decode};

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateValue {
    /// The JSON text, exactly as it was set.
    pub value: String,
    /// The version tag, which [`crate::vfs::state::SetOptions::if_match`] takes.
    pub version_tag: VersionTag,
    /// When the key expires, if it does.
    pub expires_at: Option<Timestamp>,
    /// When the value was set.
    pub modified: Timestamp,
}

/// A key in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateEntry {
    /// The key.
    pub key: String,
    /// The bytes of its value.
    pub size: u64,
    /// The version tag.
    pub version_tag: VersionTag,
    /// When the key expires, if it does.
    pub expires_at: Option<Timestamp>,
    /// When the value was set.
    pub modified: Timestamp,
}

/// A page of a list of keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StatePage {
    /// The keys, sorted by their bytes.
    pub entries: Vec<StateEntry>,
    /// The key after which the next page begins; `None` after the last page.
    pub cursor: Option<String>,
}

impl StatePage {
    /// Keeps only the first `count` keys, and makes the next page begin after them.
    pub fn truncate(&mut self, count: usize) {
        if count < self.entries.len() {
            self.entries.truncate(count);
            self.cursor = self.entries.last().map(|entry| entry.key.clone());
        }
    }
}

impl State {
    /// The value of a key; `None` if there is none or it has expired.
    pub fn get(&self, key: &str) -> Result<Option<StateValue>> {
        self.key_call("state_get", key, |call, key, path| {
            let state = call.authorize_state(path, Access::Read)?;
            let at = key.node_path(&self.namespace, state);
            let found = live_value(&**state.mount().store(), &at, call.state_now());
            let value = found.map_err(|cause| store_error(path, cause))?;
            call.set_bytes(value.as_ref().map_or(0, |value| value.value.len() as u64));
            Ok(value)
        })
    }

    /// The keys that begin with `prefix`, sorted by their bytes: at most `limit`, after the key `cursor` if it is given.
    pub fn list(&self, prefix: &str, cursor: Option<&str>, limit: usize) -> Result<StatePage> {
        let keys = Key::parse_prefix(prefix)
            .and_then(|prefix| Ok((prefix, cursor.map(Key::parse_prefix).transpose()?)));
        self.vfs.call("state_list", [Ok(self.namespace.path())], |call, [path]| {
            let (prefix, cursor) = keys?;
            let state = call.authorize_state(path, Access::Read)?;
            let (store, now) = (&**state.mount().store(), call.state_now());
            let mut page = StatePage::default();
            let visit = &mut |key: String, at: NodePath, attr: &Attr| {
                call.check_not_stopped_in_store()?;
                let Some(entry) = live_entry(store, key, &at, attr, now)? else {
                    return Ok(ControlFlow::Continue(()));
                };
                if page.entries.len() >= limit {
                    page.cursor = page.entries.last().map(|entry| entry.key.clone());
                    return Ok(ControlFlow::Break(()));
                }
                page.entries.push(entry);
                Ok(ControlFlow::Continue(()))
            };
            let scanned = KeyScan { store, visit }.run(&self.namespace.node_path(state), prefix, cursor);
            scanned.map_err(|cause| store_error(path, cause))?;
            Ok(page)
        })
    }

    /// The error for a caller that needs this key, which doesn't exist.
    pub fn no_key_error(&self, key: &str) -> Error {
        Error::NoStateKey { path: VfsPath::of_state_key(self.namespace.as_str(), key) }
    }

    /// Runs a call about one key.
    pub(super) fn key_call<T>(
        &self,
        name: &'static str,
        key: &str,
        body: impl FnOnce(&Call<'_>, Key<'_>, &VfsPath) -> Result<T>,
    ) -> Result<T> {
        match Key::parse(key) {
            Ok(key) => {
                self.vfs.call(name, [Ok(key.path(&self.namespace))], |call, [path]| body(call, key, path))
            }
            // Such a call is recorded, too, without the key.
            Err(error) => self.vfs.call(name, [], |_, []| Err(InvalidStateName::into(error))),
        }
    }
}

impl Call<'_> {
    /// [`Call::check_not_stopped`], while a Store is read.
    fn check_not_stopped_in_store(&self) -> StoreResult<()> {
        crate::monitor::check_not_stopped(self.vfs.monitor.as_ref())
    }
}

/// The value in a key's file; `None` if there is no file, or it has expired.
pub(super) fn live_value(
    store: &dyn Store,
    at: &NodePath,
    now: Timestamp,
) -> StoreResult<Option<StateValue>> {
    let FileContent { attr, bytes } = match store.read(at, MAX_CONTENT) {
        Err(StoreError::NotFound | StoreError::NotADirectory) => return Ok(None),
        content => content?,
    };
    let (value, expires_at) = decode(bytes)?;
    let value = StateValue { value, version_tag: attr.tag, expires_at, modified: attr.modified };
    Ok(Some(value).filter(|value| !has_expired(value.expires_at, now)))
}

/// A key in a list; `None` if it has expired. Reads the file only if the key expires.
fn live_entry(
    store: &dyn Store,
    key: String,
    at: &NodePath,
    attr: &Attr,
    now: Timestamp,
) -> StoreResult<Option<StateEntry>> {
    if attr.mode != EXPIRING_MODE {
        let Attr { size, tag: version_tag, modified, .. } = *attr;
        return Ok(Some(StateEntry { key, size, version_tag, expires_at: None, modified }));
    }
    let Some(value) = live_value(store, at, now)? else { return Ok(None) };
    let StateValue { value, version_tag, expires_at, modified } = value;
    Ok(Some(StateEntry { key, size: value.len() as u64, version_tag, expires_at, modified }))
}

/// Whether a key that expires at this time is gone.
pub(super) fn has_expired(expires_at: Option<Timestamp>, now: Timestamp) -> bool {
    expires_at.is_some_and(|expires_at| expires_at <= now)
}
