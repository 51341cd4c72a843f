//! The stead of one identity as it is now, and the limits on what that identity may use of the server.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::RwLock;
use stead::{Identity, LiveSteads, Stead};
use stead_core::tools::{Failure, ResultFormat, Toolbox};
use stead_core::vfs::InUse;
use stead_core::{ErrorKind, filesystem_map};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::call_scheduler::{CallScheduler, RunPermit, SchedulerClient};
use crate::limits::ServerLimits;
use crate::metrics::Metrics;
use crate::pending_approvals::PendingApprovals;

/// How long the read set of an idle identity is kept. The lost-update guard is best effort; `if_match` is the guarantee.
const READ_SET_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// One identity's stead, shared by all connections of that identity.
#[derive(Debug)]
pub struct LiveStead {
    identity: Identity,
    current: RwLock<Arc<SteadView>>,
    limits: ServerLimits,
    metrics: Arc<Metrics>,
    scheduler: Arc<CallScheduler>,
    scheduler_client: SchedulerClient,
    call_slots: Semaphore,
    waiting_calls: AtomicUsize,
    listeners: AtomicUsize,
    pending_approvals: PendingApprovals,
    list_changes: watch::Sender<u64>,
    results: ResultFormat,
    /// The registry that renews it, and the identity that it is asked for there; `None` if the stead was put together without one.
    registry: Option<(Weak<LiveSteads<LiveStead>>, Identity)>,
}

/// A stead at one point in time. A call uses the same view from its start to its end.
#[derive(Debug)]
pub(crate) struct SteadView {
    pub(crate) toolbox: Toolbox,
    /// Made when it is first needed: most views are never asked for it.
    map: OnceLock<String>,
    /// A hash of everything that a client can list. If it changes, clients are notified to list again.
    list_signature: u64,
}

impl SteadView {
    fn new(stead: &Stead) -> Self {
        let toolbox = stead.toolbox();
        let mut hasher = DefaultHasher::new();
        for workspace in toolbox.vfs().workspaces() {
            let rules = (workspace.scope(), workspace.approval_policy().as_str());
            (workspace.prefix().as_str(), rules, workspace.description()).hash(&mut hasher);
        }
        toolbox.offered().for_each(|tool| tool.name.hash(&mut hasher));
        format!("{:?}", toolbox.results()).hash(&mut hasher);
        // A fork that was discarded and created again has the same name, but is a different fork.
        for fork in stead.forks().into_iter().flatten() {
            (fork.name.as_str(), format!("{:?}", fork.created)).hash(&mut hasher);
        }
        SteadView { map: OnceLock::new(), list_signature: hasher.finish(), toolbox }
    }

    /// The Filesystem Map.
    pub(crate) fn map(&self) -> &str {
        self.map.get_or_init(|| filesystem_map::filesystem_map(&self.toolbox))
    }
}

impl LiveStead {
    /// Serves this stead, with metrics and a scheduler of its own.
    pub fn new(stead: &Stead, limits: ServerLimits) -> Self {
        LiveStead::with_shared(stead, limits, Arc::default(), CallScheduler::new(limits.running_calls))
    }

    /// Serves this stead, with metrics and a scheduler that it shares with other steads.
    pub(crate) fn with_shared(
        stead: &Stead,
        limits: ServerLimits,
        metrics: Arc<Metrics>,
        scheduler: Arc<CallScheduler>,
    ) -> Self {
        LiveStead {
            identity: stead.vfs().identity().clone(),
            current: RwLock::new(Arc::new(SteadView::new(stead))),
            limits,
            metrics,
            scheduler_client: scheduler.register(),
            scheduler,
            call_slots: Semaphore::new(limits.calls_per_identity),
            waiting_calls: AtomicUsize::new(0),
            listeners: AtomicUsize::new(0),
            pending_approvals: PendingApprovals::default(),
            list_changes: watch::Sender::new(0),
            results: ResultFormat::Text,
            registry: None,
        }
    }

    /// Lets this registry, which has the stead under this identity, renew it before it is used.
    ///
    /// The stead's own identity has the team as well, so the registry doesn't know it.
    pub(crate) fn in_registry(self, registry: &Arc<LiveSteads<LiveStead>>, identity: &Identity) -> Self {
        LiveStead { registry: Some((Arc::downgrade(registry), identity.clone())), ..self }
    }

    /// Uses this result format for every client. Without it, the agent's configuration decides.
    pub fn with_results(self, results: ResultFormat) -> Self {
        LiveStead { results, ..self }
    }

    /// The result format, unless a client's token asks for more.
    pub(crate) fn results(&self) -> ResultFormat {
        self.results.or(self.current.read().toolbox.results())
    }

    /// The identity whose stead this is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn limits(&self) -> &ServerLimits {
        &self.limits
    }

    /// The stead as it is after changed records were taken into account: see [`LiveSteads::renew`]. May open the stead
    /// again, so it can block.
    pub(crate) fn renewed(&self) -> Arc<SteadView> {
        if let Some((registry, identity)) = &self.registry
            && let Some(registry) = registry.upgrade()
        {
            registry.renew(identity);
        }
        self.current()
    }

    /// Looks for forks that this process has just made or discarded: see [`LiveSteads::refresh_forks`]. Can block.
    pub(crate) fn refresh_forks(&self) {
        if let Some((registry, _)) = &self.registry
            && let Some(registry) = registry.upgrade()
        {
            registry.refresh_forks();
        }
    }

    /// The stead as it was when it was last used or replaced.
    pub(crate) fn current(&self) -> Arc<SteadView> {
        Arc::clone(&self.current.read())
    }

    /// A receiver that is notified when Workspaces, tools or forks have changed.
    pub(crate) fn subscribe_list_changes(&self) -> watch::Receiver<u64> {
        self.list_changes.subscribe()
    }

    /// Serves another stead from now on. Calls that already run finish in the old one.
    pub(crate) fn replace(&self, stead: &Stead) {
        self.set_current(SteadView::new(stead));
    }

    /// Serves this stead if its Workspaces, tools or forks differ. Otherwise the current one stays, with its read set.
    /// Returns whether this one is served.
    pub(crate) fn refresh(&self, stead: &Stead) -> bool {
        let view = SteadView::new(stead);
        let differs = view.list_signature != self.current.read().list_signature;
        if differs {
            self.set_current(view);
        }
        differs
    }

    fn set_current(&self, view: SteadView) {
        let previous = std::mem::replace(&mut *self.current.write(), Arc::new(view));
        if previous.list_signature != self.current.read().list_signature {
            self.list_changes.send_modify(|generation| *generation += 1);
        }
    }

    /// Whether it holds something that a client may come back for, though no client has used it for this long: open
    /// approval questions, or for a day what the agent has read.
    pub(crate) fn is_needed(&self, idle: Duration) -> bool {
        let has_read = || self.current.read().toolbox.vfs().has_read_files();
        self.pending_approvals.has_open() || (idle < READ_SET_LIFETIME && has_read())
    }

    /// Counts as a call that runs in the stead's thread until the guard is dropped. `None` if the stead isn't a thread's.
    pub(crate) fn keep_in_use(&self) -> stead::Result<Option<InUse>> {
        let view = self.current();
        Ok(view.toolbox.vfs().lease().map(|lease| Arc::clone(lease).begin()).transpose()?)
    }

    /// Whether the stead is that of a thread that has ended.
    pub(crate) fn thread_has_ended(&self) -> bool {
        self.current.read().toolbox.vfs().lease().is_some_and(|lease| lease.has_ended())
    }

    /// Whether this process has ended that thread.
    pub(crate) fn thread_was_ended_here(&self) -> bool {
        self.current.read().toolbox.vfs().lease().is_some_and(|lease| lease.was_ended_here())
    }

    /// Whether a call has failed because that thread has ended.
    pub(crate) fn thread_end_was_reported(&self) -> bool {
        self.current.read().toolbox.vfs().lease().is_some_and(|lease| lease.end_was_reported())
    }

    /// Counts one more listener until the guard is dropped; `None` if the limit is reached.
    pub(crate) fn acquire_listener(&self) -> Option<CountGuard<'_>> {
        CountGuard::acquire(&self.listeners, self.limits.listeners_per_identity)
    }

    /// The approval questions that are open.
    pub(crate) fn pending_approvals(&self) -> &PendingApprovals {
        &self.pending_approvals
    }

    /// Notifies clients that lists have changed, though they haven't.
    #[cfg(feature = "conformance")]
    pub(crate) fn announce_change(&self) {
        self.list_changes.send_modify(|generation| *generation += 1);
    }

    /// Waits for a call slot of this identity, and then for a permit among the calls of all identities.
    ///
    /// Fails at once if too many calls of this identity wait already.
    pub(crate) async fn acquire_call_slot(&self) -> Result<CallSlot<'_>, Failure> {
        let identity_slot = self.acquire_identity_slot().await?;
        Ok(CallSlot {
            _run_permit: self.scheduler.acquire(self.scheduler_client).await,
            _identity_slot: identity_slot,
        })
    }

    async fn acquire_identity_slot(&self) -> Result<SemaphorePermit<'_>, Failure> {
        if let Ok(permit) = self.call_slots.try_acquire() {
            return Ok(permit);
        }
        let _waiting = CountGuard::acquire(&self.waiting_calls, self.limits.waiting_per_identity)
            .ok_or_else(|| {
                Failure::new(
                    ErrorKind::Unavailable,
                    format!(
                        "you have {} running and {} waiting calls; call again when some have ended",
                        self.limits.calls_per_identity, self.limits.waiting_per_identity
                    ),
                )
            })?;
        Ok(self.call_slots.acquire().await.expect("the semaphore is never closed"))
    }
}

/// The right to run one call. Dropping it frees the slot of the identity and the permit of the scheduler.
#[derive(Debug)]
pub(crate) struct CallSlot<'a> {
    _run_permit: RunPermit,
    _identity_slot: SemaphorePermit<'a>,
}

/// One count of a limited number. Dropping it counts down again.
#[derive(Debug)]
pub(crate) struct CountGuard<'a>(&'a AtomicUsize);

impl<'a> CountGuard<'a> {
    pub(crate) fn acquire(count: &'a AtomicUsize, limit: usize) -> Option<Self> {
        let updated = count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < limit).then_some(count + 1));
        updated.ok().map(|_| CountGuard(count))
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stead::{AccessScope, MemoryStore};

    use super::*;

    #[test]
    fn a_stead_with_a_read_set_is_needed_for_a_day() {
        let store = Arc::new(MemoryStore::new());
        let stead = Stead::builder("a").workspace("/n", AccessScope::ReadWrite, &store).build().unwrap();
        let live = LiveStead::new(&stead, ServerLimits::default());
        assert!(!live.is_needed(Duration::ZERO), "nothing was read, and no question is open");
        live.current().toolbox.vfs().write("/n/a", "1").unwrap();
        assert!(live.is_needed(READ_SET_LIFETIME - Duration::from_secs(1)));
        assert!(!live.is_needed(READ_SET_LIFETIME));
        let _waiting = live.pending_approvals().acquire_waiting();
        assert!(live.is_needed(READ_SET_LIFETIME), "a person is being asked");
    }
}
