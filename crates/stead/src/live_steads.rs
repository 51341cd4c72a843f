//! The steads that a server keeps open: one per identity, over Stores that all of them share.
//!
//! Getting one identity's stead never waits for the opening of another's.

mod config_differences;
mod renewal;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use stead_core::Identity;
use stead_core::organization::{Folders, Membership};
use stead_core::store::Subscription;
use stead_core::vfs::ThreadLease;
use stead_stores::ThreadKey;

use self::config_differences::{
    agents_that_lose_access, changed_organizations, differs_only_in_records, gives_the_same,
};
use crate::config::{Config, Reread};
use crate::current_records::FileFingerprint;
use crate::error::{Error, Result};
use crate::forks::CurrentConfig;
use crate::stead::Stead;
use crate::stores::Stores;
use crate::threads::DestroyedThread;

/// How long an entry stays that nobody uses.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// What is kept for one identity: its stead, and whatever a surface attaches to it.
pub trait LiveEntry: Send + Sync {
    /// Uses this stead from now on, because the configuration was replaced.
    fn replace(&self, stead: &Stead);

    /// Uses this stead if its forks differ from those of the present one. Returns whether it uses it.
    fn refresh(&self, stead: &Stead) -> bool;

    /// Whether the entry holds something that is still needed, though nobody has used it for this long.
    fn is_needed(&self, idle: Duration) -> bool;
}

/// The live steads of a configuration. A stead is opened when it is first asked for. The owner
/// has to call [`LiveSteads::refresh`], [`LiveSteads::renew_outdated`] and [`LiveSteads::evict_idle`] regularly, and
/// [`LiveSteads::renew`] before each use of an entry that it still has.
#[derive(Debug)]
pub struct LiveSteads<T> {
    state: Mutex<RegistryState<T>>,
    /// Held by [`LiveSteads::replace`], [`LiveSteads::refresh`] and [`LiveSteads::evict_idle`], one at a time. Never
    /// needed to get a stead.
    updates: Mutex<ForkWatch>,
    /// Held while entries get other steads. Locked after `updates` and before `state`, and never while anything is
    /// opened, so that [`LiveSteads::withdraw`] doesn't wait for the host.
    entry_changes: Mutex<()>,
    /// Held while changed records are taken into use before a call. Has the last configuration that could not be used so.
    adoption: Mutex<Option<Arc<Config>>>,
    idle_timeout: Duration,
    /// How many steads were opened so far.
    opened: AtomicU64,
}

/// What is locked only for a moment, never while anything is opened.
#[derive(Debug)]
struct RegistryState<T> {
    stores: Arc<Stores>,
    slots: HashMap<Identity, Slot<T>>,
    /// Grows when steads that were opened before may be outdated. A stead that is being opened meanwhile is opened again.
    epoch: u64,
    /// `None` unless a new configuration waits for the host.
    withdrawal: Option<Withdrawal>,
}

/// What a new configuration takes away, in effect before the rest of it.
#[derive(Debug)]
struct Withdrawal {
    /// The new configuration.
    config: Config,
    /// The agents that have no access until the new configuration is in use.
    agents: BTreeSet<String>,
    /// The organizations whose agents have none until then, because something other than their records has changed.
    organizations: BTreeSet<String>,
}

#[derive(Debug)]
struct Slot<T> {
    /// `None` while it is being opened.
    live: Option<Arc<T>>,
    last_used: Instant,
    /// Held while the stead of this identity is opened.
    opening: Arc<Mutex<()>>,
    /// The agents on whose access depends what the forks of `live` show.
    fork_makers: BTreeSet<String>,
    /// The thread that `live` is of, if the agent works in threads.
    thread: Option<Weak<dyn ThreadLease>>,
    /// The folders of `live`, if the agent is in an organization.
    folders: Option<Arc<Folders>>,
    /// Where `live` has the configuration that it looks agents up in.
    fork_config: Option<Arc<CurrentConfig>>,
    /// The configuration that `live` agrees with. If it isn't the current one, `live` is outdated. `None` if a withdrawal has
    /// emptied `live`.
    config: Option<Arc<Config>>,
}

impl<T> Slot<T> {
    /// Keeps what has to be known of the stead of its entry.
    fn set_facts(&mut self, facts: SlotFacts) {
        self.fork_makers = facts.fork_makers;
        self.thread = facts.thread;
        self.folders = facts.folders;
        self.fork_config = facts.fork_config;
        self.config = Some(facts.config);
    }

    /// Says that `live` agrees with this configuration, though it was opened with another one.
    fn set_config(&mut self, agent: &str, config: &Arc<Config>) {
        if let (Some(folders), Some((member, index))) = (&self.folders, config.member(agent)) {
            folders.update(Membership::new(Arc::clone(&member.organization), index));
        }
        if let Some(fork_config) = &self.fork_config {
            fork_config.replace(config);
        }
        self.config = Some(Arc::clone(config));
    }

    /// Whether a withdrawal has taken everything from `live`, and no configuration has given it anything since.
    fn is_emptied(&self) -> bool {
        self.live.is_some() && self.config.is_none()
    }

    /// Whether the thread that `live` is of has ended.
    fn has_ended(&self) -> bool {
        let thread = self.thread.as_ref().and_then(Weak::upgrade);
        thread.is_some_and(|thread| thread.has_ended())
    }

    /// Whether this process has ended that thread.
    fn was_ended_here(&self) -> bool {
        let thread = self.thread.as_ref().and_then(Weak::upgrade);
        thread.is_some_and(|thread| thread.was_ended_here())
    }

    /// Whether a call has failed for that reason, so that its caller knows.
    fn end_was_reported(&self) -> bool {
        let thread = self.thread.as_ref().and_then(Weak::upgrade);
        thread.is_some_and(|thread| thread.end_was_reported())
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        let (opening, fork_makers) = (Arc::default(), BTreeSet::new());
        let (live, last_used) = (None, Instant::now());
        Slot {
            live,
            last_used,
            opening,
            fork_makers,
            thread: None,
            folders: None,
            fork_config: None,
            config: None,
        }
    }
}

/// What a slot has to know of the stead of its entry.
struct SlotFacts {
    fork_makers: BTreeSet<String>,
    thread: Option<Weak<dyn ThreadLease>>,
    folders: Option<Arc<Folders>>,
    fork_config: Option<Arc<CurrentConfig>>,
    config: Arc<Config>,
}

impl SlotFacts {
    /// Facts of a stead that was opened with this configuration.
    fn of(stead: &Stead, config: &Arc<Config>) -> Self {
        let (fork_makers, folders) = (stead.forks.makers().clone(), stead.folders.clone());
        let thread = stead.vfs().lease().map(Arc::downgrade);
        let fork_config = stead.forks.current_config().cloned();
        SlotFacts { fork_makers, thread, folders, fork_config, config: Arc::clone(config) }
    }
}

/// Whether forks were made or discarded, by any process.
#[derive(Debug, Default)]
struct ForkWatch {
    /// Raised after every commit to the database.
    has_commits: Arc<AtomicBool>,
    /// `None` until there is a database.
    subscription: Option<Subscription>,
    /// The forks as the entries have them; `None` before they were first read.
    fork_volumes: Option<BTreeMap<String, Vec<i64>>>,
    /// How often the forks were read.
    reads: u64,
}

impl<T: LiveEntry> LiveSteads<T> {
    /// Opens nothing yet.
    pub fn of(config: &Config) -> Self {
        let state = RegistryState {
            stores: Arc::new(Stores::of(config)),
            slots: HashMap::new(),
            epoch: 0,
            withdrawal: None,
        };
        LiveSteads {
            state: Mutex::new(state),
            updates: Mutex::default(),
            entry_changes: Mutex::default(),
            adoption: Mutex::default(),
            idle_timeout: IDLE_TIMEOUT,
            opened: AtomicU64::new(0),
        }
    }

    /// Evicts entries that were idle for this long, instead of [`IDLE_TIMEOUT`].
    pub fn with_idle_timeout(self, idle_timeout: Duration) -> Self {
        LiveSteads { idle_timeout, ..self }
    }

    /// The current configuration.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(self.state.lock().stores.config())
    }

    /// Reads the configuration and the records of its organizations again, as they are now. Changes nothing.
    pub fn read_config_again(&self) -> Reread {
        self.stores().current_records().read_again()
    }

    /// Whether the current configuration gives the same as this one, from the same Stores.
    pub fn is_in_use(&self, config: &Config) -> bool {
        let current = self.config();
        current.has_same_stores(config) && gives_the_same(&current, config)
    }

    /// The current Stores.
    pub fn stores(&self) -> Arc<Stores> {
        Arc::clone(&self.state.lock().stores)
    }

    /// Whether the current configuration has this agent, and no new one that waits for the host takes anything away from
    /// it. Opens nothing and doesn't touch the host.
    pub fn has_access(&self, agent: &str) -> bool {
        self.state.lock().has_access(agent)
    }

    /// The entry of an identity, up to date. If there is none, its stead is opened and `make` makes the entry.
    pub fn get(&self, identity: &Identity, make: impl Fn(&Stead) -> T) -> Result<Arc<T>> {
        let live = self.state.lock().live(identity);
        if let Some(live) = live {
            self.renew(identity);
            return Ok(live);
        }
        let opening = Arc::clone(&self.state.lock().slots.entry(identity.clone()).or_default().opening);
        let _opening = opening.lock();
        loop {
            let (stores, epoch) = {
                let mut state = self.state.lock();
                if let Some(live) = state.live(identity) {
                    return Ok(live);
                }
                if state.is_withdrawn(&identity.agent) {
                    return Err(withdrawn_error());
                }
                (Arc::clone(&state.stores), state.epoch)
            };
            let result = stores.check_audit().and_then(|()| self.open(&stores, identity));
            let result = result.map(|stead| (SlotFacts::of(&stead, stores.config()), Arc::new(make(&stead))));
            let mut state = self.state.lock();
            match result {
                // The configuration or the forks have changed meanwhile.
                Ok(_) if state.epoch != epoch => {}
                Ok((facts, _)) if state.is_any_withdrawn(&facts.fork_makers) => {
                    state.slots.remove(identity);
                    return Err(withdrawn_error());
                }
                Ok((facts, live)) => {
                    let slot = state.slots.entry(identity.clone()).or_default();
                    slot.last_used = Instant::now();
                    slot.set_facts(facts);
                    let ended = slot.live.replace(Arc::clone(&live));
                    drop(state);
                    // Only now, without the lock: dropping a stead may close files.
                    drop(ended);
                    return Ok(live);
                }
                Err(error) => {
                    if state.slots.get(identity).is_some_and(|slot| slot.live.is_none()) {
                        state.slots.remove(identity);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Replaces the configuration as a whole; on an error, everything stays as it was. An agent that the new
    /// configuration doesn't have keeps its entries, but has no Workspaces.
    ///
    /// If only records of organizations are different, nothing is opened here: see [`LiveSteads::renew`].
    pub fn replace(&self, config: &Config) -> Result<()> {
        let mut updates = self.updates.lock();
        if self.is_outdated_by_records(config) {
            self.adopt_newer_records();
            return Ok(());
        }
        let stores = Arc::new(self.stores().reconfigured(config));
        stores.open_audit()?;
        if self.replace_records(&stores) {
            return Ok(());
        }
        let mut opened: HashMap<Identity, (Arc<T>, Stead)> = HashMap::new();
        let _entry_changes = loop {
            let missing = {
                let entry_changes = self.entry_changes.lock();
                let mut state = self.state.lock();
                // Newer records alone are no reason to start again: where they change all the time, no reload would end.
                let is_outdated = |newer: &Withdrawal| !differs_only_in_records(config, &newer.config);
                if state.withdrawal.as_ref().is_some_and(is_outdated) {
                    return Err(Error::Invalid("the configuration has changed again".into()));
                }
                let missing = state.entries(|identity| {
                    !opened.contains_key(identity)
                        && !state.has_ended(identity)
                        && !state.stays_as_it_is(identity, config)
                });
                if missing.is_empty() {
                    // Those that were opened again get their facts below.
                    for (identity, slot) in &mut state.slots {
                        if !opened.contains_key(identity) {
                            slot.set_config(&identity.agent, stores.config());
                        }
                    }
                    state.stores = Arc::clone(&stores);
                    state.epoch += 1;
                    state.withdrawal = None;
                    break entry_changes;
                }
                missing
            };
            for (identity, live) in missing {
                let stead = match config.has_agent(&identity.agent) {
                    true => match self.open(&stores, &identity) {
                        // The agent works in threads now, and this identity has none.
                        Err(Error::ThreadNeeded { .. }) => Stead::builder(&identity.agent).build()?,
                        stead => stead?,
                    },
                    false => Stead::builder(&identity.agent).build()?,
                };
                opened.insert(identity, (live, stead));
            }
        };
        *updates = ForkWatch::default();
        for (identity, (live, stead)) in opened {
            live.replace(&stead);
            self.state.lock().set_facts(&identity, &stead, stores.config());
        }
        // Others may have used newer records while this was opened. The next call looks for them again.
        stores.current_records().update(stores.config());
        Ok(())
    }

    /// Whether a configuration differs from the current one in records alone, and the files have others by now: callers may
    /// use those already, and get nothing older.
    fn is_outdated_by_records(&self, config: &Config) -> bool {
        let current = self.config();
        let is_outdated = |(file, fingerprint): (PathBuf, Option<FileFingerprint>)| {
            FileFingerprint::of(&file) != fingerprint
        };
        // What a withdrawal has taken comes back with the configuration itself.
        self.state.lock().withdrawal.is_none()
            && current.has_same_stores(config)
            && differs_only_in_records(&current, config)
            && config.followed_records().any(is_outdated)
    }

    /// Takes away at once what a new configuration no longer gives, though it can't be used yet because the host doesn't
    /// answer. Opens nothing and doesn't touch the host.
    ///
    /// An agent that loses something has no Workspaces until [`LiveSteads::replace`] succeeds with this configuration, or
    /// until [`LiveSteads::reinstate`]. An empty configuration takes nothing away: the file may be in the middle of being
    /// written.
    pub fn withdraw(&self, config: &Config) {
        if config.is_empty() {
            return;
        }
        let _entry_changes = self.entry_changes.lock();
        let withdrawn = {
            let mut state = self.state.lock();
            let current = Arc::clone(state.stores.config());
            if state.withdrawal.is_none() && gives_the_same(&current, config) {
                return;
            }
            let agents = agents_that_lose_access(&current, config);
            let organizations = changed_organizations(&current, config);
            if state.withdrawal.is_none() && agents.is_empty() && organizations.is_empty() {
                // Other records alone: what they take away is refused at each access already.
                return;
            }
            state.withdrawal = Some(Withdrawal { config: config.clone(), agents, organizations });
            // What their makers lose, forks lose too.
            let has_fork_of_them = |slot: &Slot<T>| state.is_any_withdrawn(&slot.fork_makers);
            let owners = state.slots.iter().filter(|(_, slot)| has_fork_of_them(slot));
            let owners: Vec<_> = owners.map(|(identity, _)| identity.agent.clone()).collect();
            if let Some(withdrawal) = &mut state.withdrawal {
                withdrawal.agents.extend(owners);
            }
            state.epoch += 1;
            let withdrawn = state.entries(|identity| state.is_withdrawn(&identity.agent));
            for (identity, _) in &withdrawn {
                if let Some(slot) = state.slots.get_mut(identity) {
                    slot.config = None;
                }
            }
            withdrawn
        };
        for (identity, live) in withdrawn {
            let empty = Stead::builder(&identity.agent).build();
            live.replace(&empty.expect("a stead without Workspaces can be built"));
        }
    }

    /// Undoes [`LiveSteads::withdraw`] because this configuration turned out to be invalid: the current one is used again.
    pub fn reinstate(&self, invalid: &Config) -> Result<()> {
        {
            let mut state = self.state.lock();
            match &state.withdrawal {
                Some(withdrawal) if gives_the_same(&withdrawal.config, invalid) => state.withdrawal = None,
                _ => return Ok(()),
            }
        }
        self.replace(&self.config())
    }

    /// Opens the steads again whose forks were made or discarded since the last call, by any process.
    ///
    /// Without a commit to the database since then, this only reads a flag.
    pub fn refresh(&self) {
        self.refresh_with(&mut self.updates.lock());
    }

    /// [`LiveSteads::refresh`] after this process has made or discarded a fork: doesn't wait until the commit is reported.
    pub fn refresh_forks(&self) {
        let mut updates = self.updates.lock();
        updates.has_commits.store(true, Ordering::Release);
        self.refresh_with(&mut updates);
    }

    fn refresh_with(&self, updates: &mut ForkWatch) {
        let stores = self.stores();
        if self.state.lock().slots.is_empty() || !updates.begin(&stores) {
            return;
        }
        updates.reads += 1;
        let Ok(mut forks) = stores.fork_volumes() else {
            updates.has_commits.store(true, Ordering::Release);
            return;
        };
        let config = Arc::clone(stores.config());
        let is_outdated = |identity: &Identity| match &updates.fork_volumes {
            Some(volumes) => {
                let owner = config.owner_of(identity);
                volumes.get(&owner) != forks.get(&owner)
            }
            None => true,
        };
        let outdated = {
            let mut state = self.state.lock();
            // A stead that is being opened now may have read the forks before this call did.
            if updates.fork_volumes.as_ref() != Some(&forks) {
                state.epoch += 1;
            }
            state.entries(is_outdated)
        };
        for (identity, live) in outdated {
            // Opening it again would make a new thread.
            if self.state.lock().has_ended(&identity) {
                continue;
            }
            let mut current = Arc::clone(&stores);
            let refreshed = loop {
                match self.refresh_entry(&identity, &live, &current) {
                    Ok(false) => current = self.stores(),
                    refreshed => break refreshed,
                }
            };
            match refreshed {
                Ok(_) => {}
                // An agent that isn't configured any more has no Workspaces.
                Err(_) if !stores.config().has_agent(&identity.agent) => {}
                Err(_) => {
                    // A stead that can't be opened now stays as it was, and is tried again.
                    updates.has_commits.store(true, Ordering::Release);
                    let owner = config.owner_of(&identity);
                    match updates.fork_volumes.as_ref().and_then(|volumes| volumes.get(&owner)) {
                        Some(volumes) => forks.insert(owner, volumes.clone()),
                        None => forks.remove(&owner),
                    };
                }
            }
        }
        updates.fork_volumes = Some(forks);
    }

    /// Opens the stead of an entry again with its present forks. Returns `false`, and changes nothing, if these Stores are no
    /// longer the current ones: the entry may have been brought up to date with newer records meanwhile.
    fn refresh_entry(&self, identity: &Identity, live: &T, stores: &Arc<Stores>) -> Result<bool> {
        let stead = self.open(stores, identity)?;
        let _entry_changes = self.entry_changes.lock();
        let state = self.state.lock();
        if !Arc::ptr_eq(&state.stores, stores) {
            return Ok(false);
        }
        let is_withdrawn =
            state.is_withdrawn(&identity.agent) || state.is_any_withdrawn(stead.forks.makers());
        drop(state);
        if !is_withdrawn && live.refresh(&stead) {
            self.state.lock().set_facts(identity, &stead, stores.config());
        }
        Ok(true)
    }

    /// Drops the entries that nobody has used for a while and that hold nothing that is needed.
    pub fn evict_idle(&self) {
        self.stores().folder_ids().expire();
        let _updates = self.updates.lock();
        let now = Instant::now();
        let mut evicted = Vec::new();
        self.state.lock().slots.retain(|_, slot| {
            let Some(live) = &slot.live else { return true };
            if Arc::strong_count(live) > 1 {
                slot.last_used = now;
            }
            let idle = now.saturating_duration_since(slot.last_used);
            let stays = Arc::strong_count(live) > 1 || idle < self.idle_timeout || live.is_needed(idle);
            if !stays {
                evicted.extend(slot.live.take());
            }
            stays
        });
        // Only now, without the lock: dropping a stead may close files.
        drop(evicted);
    }

    /// Ends the thread of an identity, with its entry: see [`Threads::destroy`](crate::Threads::destroy). The next call
    /// of a client that still has the entry fails and says that the thread has ended. If the thread can't end now, the entry is gone all the same,
    /// and the call can be repeated.
    pub fn end_thread(&self, identity: &Identity) -> Result<Option<DestroyedThread>> {
        let Some(key) = ThreadKey::of(identity) else { return Ok(None) };
        let (stores, slot) = {
            let mut state = self.state.lock();
            let is_open = state.slots.get(identity).is_some_and(|slot| slot.live.is_some());
            (Arc::clone(&state.stores), is_open.then(|| state.slots.remove(identity)))
        };
        // Without the lock: dropping a stead may close files.
        drop(slot);
        stores.threads().destroy(&key)
    }

    /// Drops the entry of an identity whose thread this process has ended. What is asked for without a session needn't be told of the
    /// end: the next entry is that of a new thread.
    pub fn drop_ended(&self, identity: &Identity) {
        let ended = {
            let mut state = self.state.lock();
            let slot = state.slots.get_mut(identity).filter(|slot| slot.was_ended_here());
            slot.and_then(|slot| slot.live.take())
        };
        // Without the lock: dropping a stead may close files.
        drop(ended);
    }

    /// Ends the threads whose idle time-out has passed, and finishes what a process that died had begun to remove. Cheap when
    /// nothing is due. Returns the threads that could not be ended, each with the reason.
    pub fn sweep_threads(&self) -> Result<Vec<(ThreadKey, Error)>> {
        Ok(self.stores().threads().sweep()?.failed)
    }

    fn open(&self, stores: &Stores, identity: &Identity) -> Result<Stead> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Stead::open_in(stores, identity)
    }
}

impl<T> RegistryState<T> {
    /// The entry of an identity that the configuration still has.
    fn live(&mut self, identity: &Identity) -> Option<Arc<T>> {
        if !self.has_access(&identity.agent) {
            return None;
        }
        let slot = self.slots.get_mut(identity)?;
        if slot.has_ended() {
            // One call fails and says that the thread has ended. After that, the thread is a new one.
            return if slot.end_was_reported() { None } else { slot.live.take() };
        }
        let live = slot.live.as_ref()?;
        slot.last_used = Instant::now();
        Some(Arc::clone(live))
    }

    fn has_access(&self, agent: &str) -> bool {
        self.stores.config().has_agent(agent) && !self.is_withdrawn(agent)
    }

    /// Whether a new configuration that waits for the host takes something away from this agent.
    fn is_withdrawn(&self, agent: &str) -> bool {
        self.withdrawal.as_ref().is_some_and(|withdrawal| {
            let loses_records =
                || organization_id(agent).is_some_and(|id| withdrawal.organizations.contains(id));
            withdrawal.agents.contains(agent) || loses_records()
        })
    }

    /// Whether a new configuration gives an identity exactly what it has: then its stead stays open.
    fn stays_as_it_is(&self, identity: &Identity, new: &Config) -> bool {
        let Some(slot) = self.slots.get(identity) else { return true };
        self.withdrawal.is_none()
            && slot.fork_makers.is_empty()
            && slot.config.as_ref().is_some_and(|agrees_with| {
                agrees_with.has_same_stores(new) && agrees_with.looks_the_same_to(&identity.agent, new)
            })
    }

    fn is_any_withdrawn(&self, agents: &BTreeSet<String>) -> bool {
        agents.iter().any(|agent| self.is_withdrawn(agent))
    }

    fn set_facts(&mut self, identity: &Identity, stead: &Stead, config: &Arc<Config>) {
        if let Some(slot) = self.slots.get_mut(identity) {
            slot.set_facts(SlotFacts::of(stead, config));
        }
    }

    /// Whether the identity's thread has ended since its stead was opened.
    fn has_ended(&self, identity: &Identity) -> bool {
        self.slots.get(identity).is_some_and(Slot::has_ended)
    }

    fn entries(&self, is_included: impl Fn(&Identity) -> bool) -> Vec<(Identity, Arc<T>)> {
        let slots = self.slots.iter().filter(|(identity, _)| is_included(identity));
        slots
            .filter_map(|(identity, slot)| Some((identity.clone(), Arc::clone(slot.live.as_ref()?))))
            .collect()
    }
}

/// The organization of an agent, if its name says that it is in one.
fn organization_id(agent: &str) -> Option<&str> {
    agent.split_once('/').map(|(organization, _)| organization)
}

fn withdrawn_error() -> Error {
    Error::Invalid(
        "the configuration has changed, and a directory in it doesn't answer; try again later".into(),
    )
}

impl ForkWatch {
    /// Whether the forks have to be read: there were commits, or nothing is known yet.
    fn begin(&mut self, stores: &Stores) -> bool {
        if self.subscription.is_none() {
            let Ok(Some(database)) = stores.database_source().existing_database() else { return false };
            let has_commits = Arc::clone(&self.has_commits);
            let listener = Box::new(move || has_commits.store(true, Ordering::Release));
            let Ok(subscription) = database.subscribe(listener) else { return false };
            self.subscription = Some(subscription);
            self.has_commits.store(true, Ordering::Release);
        }
        self.has_commits.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests;
