//! Documents about the State.

use serde::Serialize;
use serde_json::Value;
use stead::OperationId;
use stead::vfs::state;

use super::{time, to_value, version};

/// The value of a key: `state get`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StateValue<'a> {
    namespace: &'a str,
    key: &'a str,
    /// The JSON text, exactly as it was set.
    value: &'a str,
    version_tag: String,
    modified: String,
    /// When the key expires; null if it doesn't.
    expires_at: Option<String>,
}

/// A key in a list.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StateKey<'a> {
    key: &'a str,
    /// Bytes of the value.
    size: u64,
    version_tag: String,
    modified: String,
    /// When the key expires; null if it doesn't.
    expires_at: Option<String>,
}

/// Keys: `state list`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StateKeys<'a> {
    namespace: &'a str,
    keys: Vec<StateKey<'a>>,
    /// What to pass as --cursor for the next page; null after the last one.
    cursor: Option<&'a str>,
}

/// A change of a key: `state set` and `state delete`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StateChange<'a> {
    namespace: &'a str,
    key: &'a str,
    /// Whether the key is new; false if it was deleted.
    created: bool,
    /// The version tag of the key; null if it was deleted.
    version_tag: Option<String>,
    /// When the key expires; null if it doesn't.
    expires_at: Option<String>,
    version: Option<i64>,
    operation: String,
}

/// The value of a key.
pub(crate) fn state_value(namespace: &str, key: &str, found: &state::StateValue) -> Value {
    to_value(&StateValue {
        namespace,
        key,
        value: &found.value,
        version_tag: found.version_tag.to_string(),
        modified: found.modified.to_string(),
        expires_at: time(found.expires_at),
    })
}

/// A page of keys.
pub(crate) fn state_page(namespace: &str, page: &state::StatePage) -> Value {
    let keys = page.entries.iter().map(|entry| StateKey {
        key: &entry.key,
        size: entry.size,
        version_tag: entry.version_tag.to_string(),
        modified: entry.modified.to_string(),
        expires_at: time(entry.expires_at),
    });
    to_value(&StateKeys { namespace, keys: keys.collect(), cursor: page.cursor.as_deref() })
}

/// A key that was set.
pub(crate) fn state_written(namespace: &str, key: &str, written: &state::StateWritten) -> Value {
    to_value(&StateChange {
        namespace,
        key,
        created: written.created,
        version_tag: Some(written.version_tag.to_string()),
        expires_at: time(written.expires_at),
        version: version(written.revision),
        operation: written.operation.to_string(),
    })
}

/// A key that was deleted.
pub(crate) fn state_deleted(namespace: &str, key: &str, operation: OperationId) -> Value {
    let (created, version_tag, expires_at, version) = (false, None, None, None);
    let operation = operation.to_string();
    to_value(&StateChange { namespace, key, created, version_tag, expires_at, version, operation })
}
