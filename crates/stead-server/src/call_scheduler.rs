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
    /// A scheduler that runs at most `most` calls at a time, and at least one.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let (free, running, waiting) = (most.max(1), HashMap::new(), VecDeque::new());
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
    pub(crate) async fn acquire(self: &Arc<Self>, sharer: SchedulerClient) -> RunPermit {
        let turn = {
            let mut state = self.0.lock();
            if state.may_run(sharer) {
                state.begin(sharer);
                return RunPermit { owner: Some((Arc::clone(self), sharer)) };
            }
            let (give, turn) = oneshot::channel();
            state.waiting.push_back((sharer, give));
            turn
        };
        turn.await.expect("a waiting caller gets its turn before its channel closes")
    }

    fn release(self: &Arc<Self>, sharer: SchedulerClient) {
        let mut state = self.0.lock();
        state.end(sharer);
        while let Some((next, give)) = state.next_waiting() {
            state.begin(next);
            if let Err(mut turn) = give.send(RunPermit { owner: Some((Arc::clone(self), next)) }) {
                // The receiver was dropped. Without an owner the permit isn't returned on drop, which would lock again.
                turn.owner = None;
                state.end(next);
            }
        }
    }
}

impl SchedulerState {
    fn running(&self, sharer: SchedulerClient) -> usize {
        self.running.get(&sharer).copied().unwrap_or(0)
    }

    fn may_run(&self, sharer: SchedulerClient) -> bool {
        self.free > if self.running(sharer) == 0 { 0 } else { self.reserved }
    }

    fn begin(&mut self, sharer: SchedulerClient) {
        self.free -= 1;
        *self.running.entry(sharer).or_default() += 1;
    }

    fn end(&mut self, sharer: SchedulerClient) {
        self.free += 1;
        if let Some(count) = self.running.get_mut(&sharer) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(&sharer);
            }
        }
    }

    /// Takes the first waiting call of the client with the fewest running calls, if that client may run. If it may not,
    /// no waiting client may.
    fn next_waiting(&mut self) -> Option<(SchedulerClient, oneshot::Sender<RunPermit>)> {
        let at = (0..self.waiting.len()).min_by_key(|&at| self.running(self.waiting[at].0))?;
        if self.may_run(self.waiting[at].0) { self.waiting.remove(at) } else { None }
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        if let Some((turns, sharer)) = self.owner.take() {
            turns.release(sharer);
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
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    fn at_once(turns: &Arc<CallScheduler>, sharer: SchedulerClient) -> Option<RunPermit> {
        poll(pin!(turns.acquire(sharer)))
    }

    /// Acquires permits for `sharer` until it would have to wait.
    fn all(turns: &Arc<CallScheduler>, sharer: SchedulerClient) -> Vec<RunPermit> {
        std::iter::from_fn(|| at_once(turns, sharer)).collect()
    }

    #[test]
    fn one_who_takes_all_it_can_get_leaves_half() {
        let turns = CallScheduler::new(64);
        assert_eq!(all(&turns, turns.register()).len(), 32);
        assert_eq!(all(&CallScheduler::new(1), SchedulerClient(1)).len(), 1);
    }

    #[test]
    fn however_many_are_greedy_one_who_comes_later_has_a_turn_at_once() {
        let turns = CallScheduler::new(64);
        let mut taken = Vec::new();
        for _ in 0..32 {
            let got = all(&turns, turns.register());
            assert!(!got.is_empty(), "everyone gets one");
            taken.extend(got);
        }
        assert_eq!(taken.len(), 32 + 31);
        assert!(at_once(&turns, turns.register()).is_some());
    }

    #[test]
    fn a_turn_that_is_given_back_goes_to_the_one_with_the_fewest() {
        let turns = CallScheduler::new(4);
        let (greedy, other, third) = (turns.register(), turns.register(), turns.register());
        let mut had = all(&turns, greedy);
        assert_eq!(had.len(), 2);
        let (_one, _two) = (at_once(&turns, other).unwrap(), at_once(&turns, third).unwrap());
        let (mut again, mut fourth) = (pin!(turns.acquire(greedy)), pin!(turns.acquire(turns.register())));
        assert!(poll(again.as_mut()).is_none() && poll(fourth.as_mut()).is_none());
        had.pop();
        assert!(poll(again.as_mut()).is_none(), "it has one");
        assert!(poll(fourth.as_mut()).is_some(), "and this one has none");
    }

    #[test]
    fn whoever_gives_up_waiting_is_passed_over() {
        let turns = CallScheduler::new(2);
        let (one, other) = (turns.register(), turns.register());
        let first = at_once(&turns, one).unwrap();
        let second = at_once(&turns, other).unwrap();
        let mut patient = Box::pin(turns.acquire(one));
        {
            let mut impatient = Box::pin(turns.acquire(turns.register()));
            assert!(poll(impatient.as_mut()).is_none());
        }
        assert!(poll(patient.as_mut()).is_none());
        drop((first, second));
        assert!(poll(patient.as_mut()).is_some());
    }

    #[test]
    fn a_turn_that_was_handed_over_and_never_taken_is_free_again() {
        let turns = CallScheduler::new(2);
        let one = turns.register();
        let first = at_once(&turns, one).unwrap();
        let mut waits = Box::pin(turns.acquire(one));
        assert!(poll(waits.as_mut()).is_none());
        drop(first);
        // The permit was sent to `waits`, which is dropped before it is polled again.
        drop(waits);
        assert!(at_once(&turns, one).is_some());
        assert_eq!(turns.0.lock().free, 2);
    }
}
