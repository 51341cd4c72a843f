//! Bounds how many calls run at a time over all identities, and shares them out fairly.
//!
//! A call holds a thread until it ends. If calls could take every thread, nothing else would run: no health check, no
//! cancellation, no other identity's call. So the number of running calls is bounded. An identity gets a second permit
//! only while more than half of all permits are free; the other half is reserved for identities that have no call
//! running. So however many calls the busy identities make, and however long those take, another identity's first call
//! starts at once, until as many identities as half of the permits are busy.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The permits of one server.
#[derive(Debug)]
pub(crate) struct CallScheduler(Mutex<SchedulerState>);

/// The id of one client of the scheduler: one identity's stead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SchedulerClient(u64);

#[derive(Debug)]
struct SchedulerState {
    free: usize,
    /// How many permits are reserved for clients that have none.
    reserved: usize,
    last_client: u64,
    /// How many permits each client has. A client without any isn't in the map.
    running: HashMap<SchedulerClient, usize>,
    waiting: VecDeque<(SchedulerClient, oneshot::Sender<RunPermit>)>,
}

/// The right to run one call. Dropping it returns it to the scheduler.
#[derive(Debug)]
pub(crate) struct RunPermit {
    /// `None` if the waiting call had given up, so that dropping the permit returns nothing.
    owner: Option<(Arc<CallScheduler>, SchedulerClient)>,
}

impl CallScheduler {
    /// A scheduler that runs at most `max_calls` calls at a time, and at least one.
    pub(crate) fn new(max_calls: usize) -> Arc<Self> {
        let (free, running, waiting) = (max_calls.max(1), HashMap::new(), VecDeque::new());
        Arc::new(CallScheduler(Mutex::new(SchedulerState {
            free,
            reserved: free / 2,
            last_client: 0,
            running,
            waiting,
        })))
    }

    /// Adds a client.
    pub(crate) fn register(&self) -> SchedulerClient {
        let mut state = self.0.lock();
        state.last_client += 1;
        SchedulerClient(state.last_client)
    }

    /// Waits for a permit. Dropping the future gives up the place in the queue.
    pub(crate) async fn acquire(self: &Arc<Self>, client: SchedulerClient) -> RunPermit {
        let permit = {
            let mut state = self.0.lock();
            if state.may_run(client) {
                state.begin(client);
                return RunPermit { owner: Some((Arc::clone(self), client)) };
            }
            let (sender, permit) = oneshot::channel();
            state.waiting.push_back((client, sender));
            permit
        };
        permit.await.expect("a waiting caller gets its turn before its channel closes")
    }

    fn release(self: &Arc<Self>, client: SchedulerClient) {
        let mut state = self.0.lock();
        state.end(client);
        while let Some((next, sender)) = state.next_waiting() {
            state.begin(next);
            if let Err(mut permit) = sender.send(RunPermit { owner: Some((Arc::clone(self), next)) }) {
                // The receiver was dropped. Without an owner the permit isn't returned on drop, which would lock again.
                permit.owner = None;
                state.end(next);
            }
        }
    }
}

impl SchedulerState {
    fn running(&self, client: SchedulerClient) -> usize {
        self.running.get(&client).copied().unwrap_or(0)
    }

    fn may_run(&self, client: SchedulerClient) -> bool {
        self.free > if self.running(client) == 0 { 0 } else { self.reserved }
    }

    fn begin(&mut self, client: SchedulerClient) {
        self.free -= 1;
        *self.running.entry(client).or_default() += 1;
    }

    fn end(&mut self, client: SchedulerClient) {
        self.free += 1;
        if let Some(count) = self.running.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(&client);
            }
        }
    }

    /// Takes the first waiting call of the client with the fewest running calls, if that client may run. If it may not,
    /// no waiting client may.
    fn next_waiting(&mut self) -> Option<(SchedulerClient, oneshot::Sender<RunPermit>)> {
        let index = (0..self.waiting.len()).min_by_key(|&index| self.running(self.waiting[index].0))?;
        if self.may_run(self.waiting[index].0) { self.waiting.remove(index) } else { None }
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        if let Some((scheduler, client)) = self.owner.take() {
            scheduler.release(client);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn try_acquire(scheduler: &Arc<CallScheduler>, client: SchedulerClient) -> Option<RunPermit> {
        poll(pin!(scheduler.acquire(client)))
    }

    /// Acquires permits for `client` until it would have to wait.
    fn acquire_all(scheduler: &Arc<CallScheduler>, client: SchedulerClient) -> Vec<RunPermit> {
        std::iter::from_fn(|| try_acquire(scheduler, client)).collect()
    }

    #[test]
    fn one_client_gets_at_most_half_of_the_permits() {
        let scheduler = CallScheduler::new(64);
        assert_eq!(acquire_all(&scheduler, scheduler.register()).len(), 32);
        assert_eq!(acquire_all(&CallScheduler::new(1), SchedulerClient(1)).len(), 1);
    }

    #[test]
    fn however_many_clients_are_busy_a_new_one_gets_a_permit_at_once() {
        let scheduler = CallScheduler::new(64);
        let mut permits = Vec::new();
        for _ in 0..32 {
            let acquired = acquire_all(&scheduler, scheduler.register());
            assert!(!acquired.is_empty(), "everyone gets one");
            permits.extend(acquired);
        }
        assert_eq!(permits.len(), 32 + 31);
        assert!(try_acquire(&scheduler, scheduler.register()).is_some());
    }

    #[test]
    fn a_returned_permit_goes_to_the_client_with_the_fewest_running_calls() {
        let scheduler = CallScheduler::new(4);
        let (greedy, other, third) = (scheduler.register(), scheduler.register(), scheduler.register());
        let mut permits = acquire_all(&scheduler, greedy);
        assert_eq!(permits.len(), 2);
        let (_other_permit, _third_permit) =
            (try_acquire(&scheduler, other).unwrap(), try_acquire(&scheduler, third).unwrap());
        let (mut greedy_call, mut fourth_call) =
            (pin!(scheduler.acquire(greedy)), pin!(scheduler.acquire(scheduler.register())));
        assert!(poll(greedy_call.as_mut()).is_none() && poll(fourth_call.as_mut()).is_none());
        permits.pop();
        assert!(poll(greedy_call.as_mut()).is_none(), "it has one");
        assert!(poll(fourth_call.as_mut()).is_some(), "and this one has none");
    }

    #[test]
    fn a_waiting_call_that_gives_up_is_skipped() {
        let scheduler = CallScheduler::new(2);
        let (client, other) = (scheduler.register(), scheduler.register());
        let first = try_acquire(&scheduler, client).unwrap();
        let second = try_acquire(&scheduler, other).unwrap();
        let mut waiting_call = Box::pin(scheduler.acquire(client));
        {
            let mut dropped_call = Box::pin(scheduler.acquire(scheduler.register()));
            assert!(poll(dropped_call.as_mut()).is_none());
        }
        assert!(poll(waiting_call.as_mut()).is_none());
        drop((first, second));
        assert!(poll(waiting_call.as_mut()).is_some());
    }

    #[test]
    fn a_permit_that_was_sent_to_a_dropped_call_is_free_again() {
        let scheduler = CallScheduler::new(2);
        let client = scheduler.register();
        let first = try_acquire(&scheduler, client).unwrap();
        let mut waiting_call = Box::pin(scheduler.acquire(client));
        assert!(poll(waiting_call.as_mut()).is_none());
        drop(first);
        // The permit was sent to `waiting_call`, which is dropped before it is polled again.
        drop(waiting_call);
        assert!(try_acquire(&scheduler, client).is_some());
        assert_eq!(scheduler.0.lock().free, 2);
    }
}
