//! Keys that expire: how long a key lives, and the removal of those whose time is over.
//!
//! An expired key is absent for every call. Its file is removed later, by the system's identity: some of them at each
//! [`State::set`], and all of them by [`State::remove_expired`].

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Timestamp;
use crate::error::Result;
use crate::identity::{Identity, SYSTEM_AGENT};
use crate::path::VfsPath;
use crate::scope::Access;
use crate::store::{Attr, NodeKind, NodePath, Page, Precondition, StoreError};
use crate::vfs::call::{Call, ChangeStage};
use crate::vfs::state::State;
use crate::vfs::state::access::store_error;
use crate::vfs::state::change::removal;
use crate::vfs::state::key::{Key, Namespace};
use crate::vfs::state::key_scan::KeyScan;
use crate::vfs::state::read::has_expired;
use crate::vfs::state::value::{EXPIRING_MODE, MAX_CONTENT, decode};
use crate::vfs::{Vfs, VfsShared};

/// How many keys one sweep looks at.
const KEYS_PER_SWEEP: usize = 256;
/// How long after a whole pass the next one begins at the latest, in nanoseconds: another process may have set keys that
/// expire.
const PASS_INTERVAL: i64 = 60_000_000_000;

/// A text doesn't say how long a key lives.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` doesn't say how long the key lives; write 90s, 30m, 2h or 7d, or a number of seconds", .0.escape_debug())]
pub struct InvalidExpiry(String);

/// Parses how long a key lives: `90s`, `30m`, `2h`, `7d`, `1w`, or a number of seconds.
pub fn parse_expires_in(text: &str) -> Result<Duration, InvalidExpiry> {
    let invalid = || InvalidExpiry(text.chars().take(40).collect());
    let text = text.trim();
    let (number, unit) = match text.char_indices().last().ok_or_else(invalid)? {
        (_, '0'..='9') => (text, 1),
        (end, 's') => (&text[..end], 1),
        (end, 'm') => (&text[..end], 60),
        (end, 'h') => (&text[..end], 3_600),
        (end, 'd') => (&text[..end], 86_400),
        (end, 'w') => (&text[..end], 7 * 86_400),
        _ => return Err(invalid()),
    };
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = is_number.then(|| number.parse().ok()).flatten().ok_or_else(invalid)?;
    number.checked_mul(unit).filter(|seconds| *seconds > 0).map(Duration::from_secs).ok_or_else(invalid)
}

/// When each namespace is swept next, and where. Each process keeps its own.
#[derive(Debug, Default)]
pub(in crate::vfs) struct NamespaceSweeps(Mutex<HashMap<Namespace, NextSweep>>);

#[derive(Debug, Clone)]
struct NextSweep {
    at: Timestamp,
    /// The key that the last sweep ended with, if it didn't reach the last one.
    after: Option<String>,
    /// The first time at which a key that this pass has seen expires.
    first_expiry: Timestamp,
}

impl NextSweep {
    fn pass_at(at: Timestamp) -> Self {
        NextSweep { at, after: None, first_expiry: Timestamp(i64::MAX) }
    }
}

/// What a sweep found.
#[derive(Debug, Default)]
struct Swept {
    expired: Vec<(VfsPath, NodePath, Attr)>,
    /// The last key that was looked at, if there are more.
    last: Option<String>,
    first_expiry: Option<Timestamp>,
}

impl State {
    /// Removes all keys of all namespaces that have expired, as the system's identity. Returns how many.
    pub fn remove_expired(&self) -> Result<u64> {
        self.vfs.shared.remove_expired_keys()
    }

    fn remove_expired_as_system(&self) -> Result<u64> {
        let mut removed = 0;
        for namespace in self.namespaces()? {
            let state = State { vfs: self.vfs.clone(), namespace };
            let mut after = None;
            loop {
                let (count, swept) = state.sweep(after.as_deref())?;
                removed += count;
                match swept.last {
                    Some(last) => after = Some(last),
                    None => break,
                }
            }
        }
        Ok(removed)
    }

    /// The namespaces that have or had keys.
    fn namespaces(&self) -> Result<Vec<Namespace>> {
        self.vfs.unaudited_call("state_list", [], |call, []| {
            let Some(state) = call.shared().router.state() else { return Ok(Vec::new()) };
            let listed = state.mount().store().list(&state.mount().node_path(""), &Page::ALL);
            let listing = match listed {
                Err(StoreError::NotFound) => return Ok(Vec::new()),
                listing => listing.map_err(|cause| store_error(state.prefix(), cause))?,
            };
            let directories = listing.entries.iter().filter(|entry| entry.attr.kind == NodeKind::Directory);
            let names = directories.filter_map(|entry| std::str::from_utf8(entry.name.as_bytes()).ok());
            Ok(names.filter_map(|name| Namespace::parse(name).ok()).collect())
        })
    }

    /// Removes some expired keys of the namespace, if it is time for that. `expires_at` is when a key expires that is
    /// about to be set. A failure is left to the next sweep.
    pub(super) fn sweep_if_due(&self, now: Timestamp, expires_at: Option<Timestamp>) {
        let VfsShared { state_sweeps: NamespaceSweeps(sweeps), .. } = &*self.vfs.shared;
        let mut due = {
            let mut sweeps = sweeps.lock();
            let next = sweeps.entry(self.namespace.clone()).or_insert_with(|| NextSweep::pass_at(now));
            let due = (next.at <= now).then(|| next.clone());
            if due.is_some() {
                // Only one caller sweeps.
                next.at = Timestamp(now.0.saturating_add(PASS_INTERVAL));
            }
            due
        };
        if let Some(due) = &mut due {
            let state = State { vfs: self.vfs.shared.as_system(), namespace: self.namespace.clone() };
            let swept = state.sweep(due.after.as_deref()).map(|(_, swept)| swept).unwrap_or_default();
            let first_expiry = swept.first_expiry.map_or(due.first_expiry, |at| at.min(due.first_expiry));
            let pass_at = Timestamp(now.0.saturating_add(PASS_INTERVAL)).min(first_expiry);
            *due = match swept.last {
                Some(last) => NextSweep { at: now, after: Some(last), first_expiry },
                None => NextSweep::pass_at(pass_at),
            };
        }
        let mut sweeps = sweeps.lock();
        if let Some(next) = due {
            sweeps.insert(self.namespace.clone(), next);
        }
        if let (Some(expires_at), Some(next)) = (expires_at, sweeps.get_mut(&self.namespace)) {
            next.at = next.at.min(expires_at);
            next.first_expiry = next.first_expiry.min(expires_at);
        }
    }

    /// Looks at some keys after a given one, and removes those that have expired. Returns how many it removed.
    fn sweep(&self, after: Option<&str>) -> Result<(u64, Swept)> {
        let path = self.namespace.path();
        let swept = self.vfs.unaudited_call("state_expire", [Ok(path)], |call, [path]| {
            self.find_expired(call, path, after)
        })?;
        if swept.expired.is_empty() {
            return Ok((0, swept));
        }
        let removed = self.vfs.call("state_expire", [], |call, []| {
            call.set_paths(swept.expired.iter().map(|(path, ..)| path.clone()).collect());
            let state = call.authorize_state(&self.namespace.path(), Access::Write)?;
            let steps = swept.expired.iter();
            let steps = steps.map(|(_, at, attr)| removal(at.clone(), Precondition::Tag(attr.tag))).collect();
            match call.apply(&**state.mount().store(), steps, ChangeStage::Final) {
                // Another caller has removed or set one of them; the rest is left to the next sweep.
                Err(StoreError::Conflict | StoreError::NotFound) => Ok(0),
                Err(cause) => Err(store_error(&self.namespace.path(), cause)),
                Ok(_) => Ok(swept.expired.len() as u64),
            }
        })?;
        Ok((removed, swept))
    }

    fn find_expired(&self, call: &Call<'_>, path: &VfsPath, after: Option<&str>) -> Result<Swept> {
        let state = call.authorize_state(path, Access::Read)?;
        let (store, now) = (&**state.mount().store(), call.state_now());
        let (mut swept, mut seen) = (Swept::default(), 0);
        let visit = &mut |key: String, at: NodePath, attr: &Attr| {
            if attr.mode == EXPIRING_MODE {
                let content = store.read(&at, MAX_CONTENT)?;
                let (_, expires_at) = decode(content.bytes)?;
                if has_expired(expires_at, now) {
                    let path = VfsPath::of_state_key(self.namespace.as_str(), &key);
                    swept.expired.push((path, at, content.attr));
                } else {
                    swept.first_expiry = [swept.first_expiry, expires_at].into_iter().flatten().min();
                }
            }
            seen += 1;
            if seen < KEYS_PER_SWEEP {
                return Ok(ControlFlow::Continue(()));
            }
            swept.last = Some(key);
            Ok(ControlFlow::Break(()))
        };
        let everything = Key::parse_prefix("")?;
        let after = after.map(Key::parse).transpose()?;
        let scanned = KeyScan { store, visit }.run(&self.namespace.node_path(state), everything, after);
        scanned.map_err(|cause| store_error(path, cause))?;
        Ok(swept)
    }
}

impl VfsShared {
    /// Removes all keys of the State that have expired, as the system's identity. Returns how many.
    pub(in crate::vfs) fn remove_expired_keys(&self) -> Result<u64> {
        self.as_system().state().map_or(Ok(0), |state| state.remove_expired_as_system())
    }

    /// A `Vfs` of the system's identity with the State of this one, and nothing else.
    fn as_system(&self) -> Vfs {
        let VfsShared { stead, clock, audit, router, .. } = self;
        let mut builder = Vfs::builder(Identity::agent(SYSTEM_AGENT)).clock(Arc::clone(clock));
        builder.stead.clone_from(stead);
        builder.audit.clone_from(audit);
        builder.state = router.state().cloned();
        builder.build().expect("there are no Workspaces with the same prefix")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s17_an_expiry_is_a_duration_or_a_number_of_seconds() {
        let seconds = |text: &str| parse_expires_in(text).unwrap().as_secs();
        assert_eq!(
            ["90", "90s", " 2h ", "30m", "7d", "1w"].map(seconds),
            [90, 90, 7_200, 1_800, 604_800, 604_800]
        );
        for text in ["", "0", "0s", "-1", "1.5h", "h", "2 h", "1y", "tomorrow", "99999999999999999999", "é"]
        {
            let error = parse_expires_in(text).unwrap_err().to_string();
            assert!(error.contains("90s, 30m, 2h or 7d"), "{error}");
        }
    }
}
