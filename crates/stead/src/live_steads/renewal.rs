//! Changes of records: each entry is brought up to date before its next use.
//!
//! Other records alone replace the configuration at once, and nothing is opened for that: what the records take away is
//! refused at each access already. So a caller waits for its own stead alone, however many others are live.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use stead_core::Identity;

use super::config_differences::differs_only_in_records;
use super::{LiveEntry, LiveSteads, RegistryState, Slot};
use crate::config::Config;
use crate::error::Result;
use crate::stead::Stead;
use crate::stores::Stores;

/// An entry whose stead was opened with an older configuration than the current one.
struct Outdated<T> {
    live: Arc<T>,
    /// The configuration that the entry agrees with.
    config: Arc<Config>,
    has_forks: bool,
    stores: Arc<Stores>,
    epoch: u64,
}

impl<T: LiveEntry> LiveSteads<T> {
    /// Brings the entry of an identity up to date, if records of organizations have changed since its stead was opened. Has to
    /// be called before each use of an entry, except one that [`LiveSteads::get`] has just returned.
    ///
    /// Without a change, this only compares. If the stead can't be opened now, the entry stays as it was: it still has
    /// nothing that the records have taken away, and the next use tries again.
    pub fn renew(&self, identity: &Identity) {
        self.adopt_newer_records();
        let Some(opening) = self.state.lock().outdated_opening(identity) else { return };
        let _opening = opening.lock();
        loop {
            // In a statement of its own, so that the lock ends with it.
            let outdated = self.state.lock().outdated(identity);
            match outdated {
                Some(outdated) if !self.bring_up_to_date(identity, &outdated) => {}
                _ => return,
            }
        }
    }

    /// Renews entries that nobody uses now, until `deadline`: their clients may wait for a notification that lists have
    /// changed, and they keep older records in memory.
    pub fn renew_outdated(&self, deadline: Instant) {
        let outdated: Vec<_> = {
            let state = self.state.lock();
            let is_outdated = |identity: &&Identity| state.outdated_opening(identity).is_some();
            state.slots.keys().filter(is_outdated).cloned().collect()
        };
        for identity in outdated {
            if Instant::now() >= deadline {
                return;
            }
            self.renew(&identity);
        }
    }

    /// Uses records that have changed, before the owner of this registry calls [`LiveSteads::replace`]: what they take away
    /// is gone already, and what they give is there at the next call as well. A change of anything else is left to the owner.
    pub(super) fn adopt_newer_records(&self) {
        if self.stores().current_records().newer_config().is_none() {
            return;
        }
        // One caller at a time, and the others wait for it: then the records are in use, and they find nothing to do. Nothing
        // here touches the host.
        let mut left_to_owner = self.adoption.lock();
        let stores = self.stores();
        let Some(config) = stores.current_records().newer_config() else { return };
        if left_to_owner.as_ref().is_some_and(|left| Arc::ptr_eq(left, &config)) {
            return;
        }
        let is_change_of_records = stores.config().has_same_stores(&config)
            && differs_only_in_records(stores.config(), &config)
            && config.contradictions().is_empty();
        if !is_change_of_records || !self.replace_records(&Arc::new(stores.reconfigured(&config))) {
            *left_to_owner = Some(config);
        }
    }

    /// Uses these Stores from now on if their configuration differs from the current one in records alone. Returns
    /// whether it does.
    pub(super) fn replace_records(&self, stores: &Arc<Stores>) -> bool {
        let (current, new) = (self.config(), stores.config());
        if !current.has_same_stores(new) || !differs_only_in_records(&current, new) {
            return false;
        }
        let mut state = self.state.lock();
        // Entries that a withdrawal has emptied have to be opened again, whatever has changed.
        if state.withdrawal.is_some() || state.slots.values().any(Slot::is_emptied) {
            return false;
        }
        state.stores = Arc::clone(stores);
        true
    }

    /// Returns whether nothing is left to do, or to try now.
    fn bring_up_to_date(&self, identity: &Identity, outdated: &Outdated<T>) -> bool {
        let config = outdated.stores.config();
        let agent = &identity.agent;
        // Records change nothing for agents outside organizations.
        let is_outside = || outdated.config.member(agent).is_none() && config.member(agent).is_none();
        let is_same =
            !outdated.has_forks && (is_outside() || outdated.config.looks_the_same_to(agent, config));
        if is_same || self.state.lock().has_ended(identity) {
            if let Some(slot) = self.state.lock().slots.get_mut(identity) {
                slot.set_config(agent, config);
            }
            return true;
        }
        let Ok(stead) = self.open_or_empty(&outdated.stores, identity) else { return true };
        let _entry_changes = self.entry_changes.lock();
        let mut state = self.state.lock();
        if state.epoch != outdated.epoch {
            return false;
        }
        if state.is_withdrawn(agent) || state.is_any_withdrawn(stead.forks.makers()) {
            return true;
        }
        state.set_facts(identity, &stead, config);
        drop(state);
        outdated.live.replace(&stead);
        true
    }

    /// The stead of an identity; one without Workspaces if the configuration doesn't have the agent any more.
    fn open_or_empty(&self, stores: &Stores, identity: &Identity) -> Result<Stead> {
        match stores.config().has_agent(&identity.agent) {
            true => self.open(stores, identity),
            false => Stead::builder(&identity.agent).build(),
        }
    }
}

impl<T> RegistryState<T> {
    /// The lock for opening the stead of an identity, if its entry is outdated.
    fn outdated_opening(&self, identity: &Identity) -> Option<Arc<Mutex<()>>> {
        let slot = self.slots.get(identity).filter(|slot| slot.live.is_some())?;
        let agrees_with = slot.config.as_ref()?;
        // What is withdrawn comes back when the new configuration is in use.
        let is_outdated =
            !Arc::ptr_eq(agrees_with, self.stores.config()) && !self.is_withdrawn(&identity.agent);
        is_outdated.then(|| Arc::clone(&slot.opening))
    }

    fn outdated(&self, identity: &Identity) -> Option<Outdated<T>> {
        self.outdated_opening(identity)?;
        let slot = self.slots.get(identity)?;
        Some(Outdated {
            live: Arc::clone(slot.live.as_ref()?),
            config: Arc::clone(slot.config.as_ref()?),
            has_forks: !slot.fork_makers.is_empty(),
            stores: Arc::clone(&self.stores),
            epoch: self.epoch,
        })
    }
}
