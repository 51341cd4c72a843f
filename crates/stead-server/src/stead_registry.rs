//! The steads of a server: one per identity, as the current configuration describes them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use stead::config::Reread;
use stead::tools::ResultFormat;
use stead::{Config, DestroyedThread, Identity, LiveEntry, LiveSteads, Result, Stead, Stores};

use crate::call_scheduler::CallScheduler;
use crate::limits::ServerLimits;
use crate::live_stead::LiveStead;
use crate::metrics::Metrics;

/// Every stead of a configuration, with what the server has for its identity. A stead is opened when it is first asked
/// for; all of them share the Stores.
#[derive(Debug)]
pub struct SteadRegistry {
    live: Arc<LiveSteads<LiveStead>>,
    limits: ServerLimits,
    metrics: Arc<Metrics>,
    scheduler: Arc<CallScheduler>,
    results: ResultFormat,
    last_sweep: Mutex<Option<Instant>>,
}

/// How long one refresh renews steads whose records have changed. The next refresh goes on with the others.
const RENEWAL_TIME: Duration = Duration::from_millis(100);
/// How often threads whose idle time-out has passed are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

impl SteadRegistry {
    /// A registry for this configuration. Opens nothing yet.
    pub fn of(config: &Config, limits: ServerLimits) -> Self {
        SteadRegistry {
            live: Arc::new(LiveSteads::of(config)),
            limits,
            metrics: Arc::default(),
            scheduler: CallScheduler::new(limits.running_calls),
            results: ResultFormat::Text,
            last_sweep: Mutex::default(),
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
        self.live.config()
    }

    /// Reads the configuration and its records again: see [`LiveSteads::read_config_again`].
    pub(crate) fn read_config_again(&self) -> Reread {
        self.live.read_config_again()
    }

    /// Whether the current configuration gives the same: see [`LiveSteads::is_in_use`].
    pub(crate) fn is_in_use(&self, config: &Config) -> bool {
        self.live.is_in_use(config)
    }

    /// The stead of an identity. Opens it if it isn't open yet.
    pub fn get(&self, identity: &Identity) -> Result<Arc<LiveStead>> {
        self.live.get(identity, |stead| {
            let (metrics, scheduler) = (Arc::clone(&self.metrics), Arc::clone(&self.scheduler));
            let live = LiveStead::with_shared(stead, self.limits, metrics, scheduler);
            live.with_results(self.results).in_registry(&self.live, identity)
        })
    }

    /// Drops the stead of a thread that this process has ended: see [`LiveSteads::drop_ended`].
    pub(crate) fn drop_ended(&self, identity: &Identity) {
        self.live.drop_ended(identity);
    }

    /// Ends the thread of an identity: see [`LiveSteads::end_thread`].
    pub fn end_thread(&self, identity: &Identity) -> Result<Option<DestroyedThread>> {
        self.live.end_thread(identity)
    }

    /// Whether an agent has access: see [`LiveSteads::has_access`].
    pub(crate) fn has_access(&self, agent: &str) -> bool {
        self.live.has_access(agent)
    }

    /// Replaces the configuration as a whole: see [`LiveSteads::replace`].
    pub fn replace(&self, config: &Config) -> Result<()> {
        self.live.replace(config)
    }

    /// Takes away at once what a new configuration no longer gives: see [`LiveSteads::withdraw`].
    pub(crate) fn withdraw(&self, config: &Config) {
        self.live.withdraw(config);
    }

    /// Gives back what [`SteadRegistry::withdraw`] took away: see [`LiveSteads::reinstate`].
    pub(crate) fn reinstate(&self, invalid: &Config) -> Result<()> {
        self.live.reinstate(invalid)
    }

    /// Opens the audit before the first call needs it, so that the call doesn't wait for it.
    pub(crate) fn open_audit(&self) -> Result<()> {
        self.live.stores().open_audit()
    }

    /// The Stores of the current configuration.
    pub(crate) fn stores(&self) -> Arc<Stores> {
        self.live.stores()
    }

    /// Looks for changes outside the configuration, forks that were created or discarded, renews steads whose records have
    /// changed and that nobody uses, evicts idle steads, and ends the threads whose idle time-out has passed.
    pub fn refresh(&self) {
        self.live.refresh();
        self.live.renew_outdated(Instant::now() + RENEWAL_TIME);
        self.live.evict_idle();
        if self.sweep_is_due() {
            // What can't be removed now is tried again by the next sweep.
            let _ = self.live.sweep_threads();
        }
    }

    /// Whether the last sweep was long enough ago. Then this counts as the next one.
    fn sweep_is_due(&self) -> bool {
        let mut last = self.last_sweep.lock();
        let is_due = last.is_none_or(|last| last.elapsed() >= SWEEP_INTERVAL);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

impl LiveEntry for LiveStead {
    fn replace(&self, stead: &Stead) {
        LiveStead::replace(self, stead);
    }

    fn refresh(&self, stead: &Stead) -> bool {
        LiveStead::refresh(self, stead)
    }

    fn is_needed(&self, idle: Duration) -> bool {
        LiveStead::is_needed(self, idle)
    }
}
