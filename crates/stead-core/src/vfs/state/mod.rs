//! State: a stead's own key-value pairs, with the history, quota and audit of files.
//!
//! A State is a volume with one file per key, in a Workspace that the router keeps apart: no path leads there, whatever
//! its text. Its calls pass the same door as file calls. The history and the audit name a key `state:NAMESPACE/KEY`.
//!
//! ```
//! use stead_core::vfs::state::SetOptions;
//! use stead_core::{Identity, Vfs};
//! # use std::sync::Arc;
//! # use stead_core::testkit::ModelStore;
//! # let store = Arc::new(ModelStore::default());
//!
//! let vfs = Vfs::builder(Identity::agent("coder")).state(store).build()?;
//! let state = vfs.state().expect("it was given one");
//! let first = state.set("jobs/next", "1", &SetOptions::new().create_only())?;
//! state.set("jobs/next", "2", &SetOptions::new().if_match(first.version_tag))?;
//! assert_eq!(state.get("jobs/next")?.expect("it was set").value, "2");
//! assert!(state.set("jobs/next", "3", &SetOptions::new().if_match(first.version_tag)).is_err());
//! assert!(vfs.read("state:default/jobs/next").is_err(), "no path leads to it");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod change;
mod expiry;
mod key;
mod key_scan;
mod read;
#[cfg(test)]
mod tests;
mod value;

pub use change::{SetOptions, StateWritten};
pub(super) use expiry::NamespaceSweeps;
pub use expiry::{InvalidExpiry, parse_expires_in};
pub use key::{DEFAULT_NAMESPACE, InvalidStateName, MAX_KEY, MAX_NAMESPACE};
pub(super) use key::{is_state_directory, logged_path};
pub use read::{StateEntry, StatePage, StateValue};
pub use value::MAX_VALUE;
pub(super) use value::state_value;

use crate::path::VfsPath;
use crate::scope::AccessScope;
use crate::vfs::Vfs;
use crate::vfs::state::key::Namespace;
use crate::workspace::{Mount, Workspace};

/// The key-value pairs of a stead, in one namespace. Clones are the same State.
#[derive(Debug, Clone)]
pub struct State {
    vfs: Vfs,
    namespace: Namespace,
}

impl Vfs {
    /// The State of the stead, in the namespace `default`; `None` if the stead has none.
    pub fn state(&self) -> Option<State> {
        self.shared.router.state()?;
        Some(State { vfs: self.clone(), namespace: Namespace::default() })
    }
}

impl State {
    /// The same State in another namespace. Keys of different namespaces have nothing to do with each other.
    pub fn in_namespace(&self, namespace: &str) -> Result<State, InvalidStateName> {
        Ok(State { vfs: self.vfs.clone(), namespace: Namespace::parse(namespace)? })
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        self.namespace.as_str()
    }
}

/// The Workspace of a State in this Mount. Nothing in it is protected or hidden, and all of it is the stead's own.
pub(super) fn workspace(mount: Mount) -> Workspace {
    let none: [&str; 0] = [];
    let workspace = Workspace::new(VfsPath::state_root(), AccessScope::ReadWrite, mount);
    let workspace = workspace.with_protect(none).and_then(|workspace| workspace.with_hide(none));
    workspace.expect("no glob is an invalid one")
}
