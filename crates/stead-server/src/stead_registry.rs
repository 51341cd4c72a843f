//! The steads that a server hands out, one for each identity, as the configuration has them now.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use stead::tools::ResultFormat;
use stead::{Config, Identity, Result, Stead, Stores};

use crate::call_scheduler::CallScheduler;
use crate::limits::ServerLimits;
use crate::live_stead::LiveStead;
use crate::metrics::Metrics;

/// Every stead of a configuration, opened when it is first asked for, over Stores that all of them share.
#[derive(Debug)]
pub struct SteadRegistry {
    state: Mutex<RegistryState>,
    /// Apart from the state, which is locked while Stores are opened: every request asks for it.
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
    /// The steads of this configuration.
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

    /// The same with such results for every client; without it, for those whose agent or token asks for them.
    pub fn with_results(self, results: ResultFormat) -> Self {
        SteadRegistry { results, ..self }
    }

    pub(crate) fn limits(&self) -> &ServerLimits {
        &self.limits
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The configuration that holds now.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read())
    }

    /// The stead of an identity.
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

    /// Serves another configuration from now on, all of it or nothing. An agent that it does not have any more has no
    /// Workspaces.
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

    /// Opens what the first call would have to wait for otherwise, or says why it can't be.
    pub(crate) fn open_audit(&self) -> Result<()> {
        self.state.lock().stores.open_audit()
    }

    /// Looks for what changes without the configuration: forks that were made or discarded.
    pub fn refresh(&self) {
        let mut state = self.state.lock();
        let RegistryState { stores, live: served } = &mut *state;
        for (identity, served) in served.iter() {
            // What can't be looked at now stays as it was.
            if stores.config().agents.contains_key(&identity.agent)
                && let Ok(stead) = Stead::open_in(stores, identity)
            {
                served.refresh(&stead);
            }
        }
    }
}
