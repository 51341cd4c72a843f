//! The steads of a server: one per identity, as the current configuration describes them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use stead::tools::ResultFormat;
use stead::{Config, Identity, Result, Stead, Stores};

use crate::call_scheduler::CallScheduler;
use crate::limits::ServerLimits;
use crate::live_stead::LiveStead;
use crate::metrics::Metrics;

/// Every stead of a configuration. A stead is opened when it is first asked for; all of them share the Stores.
#[derive(Debug)]
pub struct SteadRegistry {
    state: Mutex<RegistryState>,
    /// Not part of `state`: every request reads it, and `state` stays locked while Stores are opened.
    config: RwLock<Arc<Config>>,
    limits: ServerLimits,
    metrics: Arc<Metrics>,
    scheduler: Arc<CallScheduler>,
    results: ResultFormat,
}

#[derive(Debug)]
struct RegistryState {
    stores: Stores,
    live: HashMap<Identity, Arc<LiveStead>>,
}

impl SteadRegistry {
    /// A registry for this configuration. Opens nothing yet.
    pub fn of(config: &Config, limits: ServerLimits) -> Self {
        let stores = Stores::of(config);
        SteadRegistry {
            config: RwLock::new(Arc::clone(stores.config())),
            state: Mutex::new(RegistryState { stores, live: HashMap::new() }),
            limits,
            metrics: Arc::default(),
            scheduler: CallScheduler::new(limits.running_calls),
            results: ResultFormat::Text,
        }
    }

    /// Uses this result format for every client. Without it, the agent's configuration and the client's token decide.
    pub fn with_results(self, results: ResultFormat) -> Self {
        SteadRegistry { results, ..self }
    }

    pub(crate) fn limits(&self) -> &ServerLimits {
        &self.limits
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The current configuration.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read())
    }

    /// The stead of an identity. Opens it if it isn't open yet.
    pub fn get(&self, identity: &Identity) -> Result<Arc<LiveStead>> {
        let mut state = self.state.lock();
        if let Some(served) = state.live.get(identity)
            && state.stores.config().agents.contains_key(&identity.agent)
        {
            return Ok(Arc::clone(served));
        }
        state.stores.check_audit()?;
        let stead = Stead::open_in(&mut state.stores, identity)?;
        let served = LiveStead::with_shared(
            &stead,
            self.limits,
            Arc::clone(&self.metrics),
            Arc::clone(&self.scheduler),
        );
        let served = Arc::new(served.with_results(self.results));
        state.live.insert(identity.clone(), Arc::clone(&served));
        Ok(served)
    }

    /// Replaces the configuration as a whole; on an error, everything stays as it was. An agent that the new
    /// configuration doesn't have keeps its connections, but has no Workspaces.
    pub fn replace(&self, config: &Config) -> Result<()> {
        let mut state = self.state.lock();
        let mut stores = state.stores.reconfigured(config);
        stores.open_audit()?;
        let mut opened = Vec::new();
        for (identity, served) in &state.live {
            let stead = match config.agents.contains_key(&identity.agent) {
                true => Stead::open_in(&mut stores, identity)?,
                false => Stead::builder(&identity.agent).build()?,
            };
            opened.push((Arc::clone(served), stead));
        }
        for (served, stead) in opened {
            served.replace(&stead);
        }
        *self.config.write() = Arc::clone(stores.config());
        state.stores = stores;
        Ok(())
    }

    /// Opens the audit before the first call needs it, so that the call doesn't wait for it.
    pub(crate) fn open_audit(&self) -> Result<()> {
        self.state.lock().stores.open_audit()
    }

    /// Looks for changes outside the configuration: forks that were created or discarded.
    pub fn refresh(&self) {
        let mut state = self.state.lock();
        let RegistryState { stores, live: served } = &mut *state;
        for (identity, served) in served.iter() {
            // A stead that can't be opened now stays as it was.
            if stores.config().agents.contains_key(&identity.agent)
                && let Ok(stead) = Stead::open_in(stores, identity)
            {
                served.refresh(&stead);
            }
        }
    }
}
