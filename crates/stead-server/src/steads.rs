//! The steads that a server hands out, one for each identity, as the configuration has them now.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use stead::{Config, Identity, Result, Stead, Stores};

use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::served::Served;

/// Every stead of a configuration, opened when it is first asked for, over Stores that all of them share.
#[derive(Debug)]
pub struct Steads {
    state: Mutex<State>,
    limits: Limits,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct State {
    stores: Stores,
    served: HashMap<Identity, Arc<Served>>,
}

impl Steads {
    /// The steads of this configuration.
    pub fn of(config: &Config, limits: Limits) -> Self {
        Steads {
            state: Mutex::new(State { stores: Stores::of(config), served: HashMap::new() }),
            limits,
            metrics: Arc::default(),
        }
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The configuration that holds now.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(self.state.lock().stores.config())
    }

    /// The stead of an identity.
    pub fn get(&self, identity: &Identity) -> Result<Arc<Served>> {
        let mut state = self.state.lock();
        if let Some(served) = state.served.get(identity)
            && state.stores.config().agents.contains_key(&identity.agent)
        {
            return Ok(Arc::clone(served));
        }
        state.stores.check_audit()?;
        let stead = Stead::open_in(&mut state.stores, identity)?;
        let served = Arc::new(Served::counted(&stead, self.limits, Arc::clone(&self.metrics)));
        state.served.insert(identity.clone(), Arc::clone(&served));
        Ok(served)
    }

    /// Serves another configuration from now on, all of it or nothing. An agent that it does not have any more has no
    /// Workspaces.
    pub fn replace(&self, config: &Config) -> Result<()> {
        let mut state = self.state.lock();
        let mut stores = state.stores.replaced_by(config);
        stores.open_audit()?;
        let mut opened = Vec::new();
        for (identity, served) in &state.served {
            let stead = match config.agents.contains_key(&identity.agent) {
                true => Stead::open_in(&mut stores, identity)?,
                false => Stead::builder(&identity.agent).build()?,
            };
            opened.push((Arc::clone(served), stead));
        }
        for (served, stead) in opened {
            served.replace(&stead);
        }
        state.stores = stores;
        Ok(())
    }

    /// Opens what the first call would have to wait for otherwise, or says why it can't be.
    pub(crate) fn prepare(&self) -> Result<()> {
        self.state.lock().stores.open_audit()
    }

    /// Looks for what changes without the configuration: forks that were made or discarded.
    pub fn refresh(&self) {
        let mut state = self.state.lock();
        let State { stores, served } = &mut *state;
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
