//! Changes that are made together: whoever comes first leads, and takes along what has queued up behind it.
//!
//! There is no thread for it. A caller who finds nobody leading runs its own job at once; one who finds a leader
//! parks until its job is done, or until it is made the next leader.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use stead_core::store::Lasts;
use stead_core::{StoreError, StoreResult};

use super::batch::Writing;
use super::fault::Result;

/// How many jobs are done in one transaction at the most: no process keeps its turn for long.
const LONGEST_BATCH: usize = 128;

/// Whether a caller relies on what its job did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// It is a change: it has to be as durable as the database was opened to be.
    Change,
    /// It prepares one, or may be lost for another reason: what it did need not be on the disk before the next change,
    /// which syncs both.
    Staging,
    /// Others rely on it outside of the database: it is on the disk when it is done, whatever changes are.
    Seal,
}

/// What a job may use of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// What is free.
    Free,
    /// The reserve as well: it makes room, or is needed to look at what is there.
    Reserve,
}

impl Weight {
    /// A change that has to last, or one that can wait for the next one that has to.
    pub(super) fn of(lasts: Lasts) -> Self {
        match lasts {
            Lasts::Now => Weight::Change,
            Lasts::Soon => Weight::Staging,
        }
    }
}

type Work = Box<dyn FnOnce(&mut Writing<'_>) -> Result<()> + Send>;

/// What became of a job.
pub(super) enum Verdict {
    Done,
    Failed(StoreError),
    /// It panicked on the leader's thread; the panic belongs to the caller whose job it was.
    Panicked(Box<dyn Any + Send>),
}

/// Something to do in a transaction, and the place where its caller waits.
pub(super) struct Job {
    pub(super) weight: Weight,
    pub(super) room: Room,
    work: Mutex<Option<Work>>,
    phase: Mutex<Phase>,
    turned: Condvar,
}

enum Phase {
    Waits,
    Leads,
    Over(Verdict),
    Told,
}

impl Job {
    /// The work, which is done once.
    pub(super) fn take_work(&self) -> Work {
        self.work.lock().take().expect("a job is drained from the queue once")
    }

    fn turn(&self, phase: Phase) {
        *self.phase.lock() = phase;
        self.turned.notify_one();
    }

    /// Waits until the job is over, or its caller has to lead.
    fn wait(&self) -> Phase {
        let mut phase = self.phase.lock();
        while matches!(*phase, Phase::Waits) {
            self.turned.wait(&mut phase);
        }
        std::mem::replace(&mut phase, Phase::Told)
    }
}

/// The jobs of one database.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Arc<Job>>,
    /// Whether some caller leads. While none does, nothing waits.
    led: bool,
}

impl Queue {
    /// Has `work` done in a transaction, alone or together with what others ask for at the same time.
    ///
    /// `commit` runs the jobs of a batch and says what became of each.
    pub(super) fn run<T: Send + 'static>(
        &self,
        (weight, room): (Weight, Room),
        commit: impl FnOnce(&[Arc<Job>]) -> Vec<Verdict>,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        let made = Arc::new(Mutex::new(None));
        let cell = Arc::clone(&made);
        let work: Work = Box::new(move |writing| {
            *cell.lock() = Some(work(writing)?);
            Ok(())
        });
        let job = Arc::new(Job {
            weight,
            room,
            work: Mutex::new(Some(work)),
            phase: Mutex::new(Phase::Waits),
            turned: Condvar::new(),
        });
        let phase = if self.joins_as_leader(&job) { Phase::Leads } else { job.wait() };
        let phase = if let Phase::Leads = phase {
            self.lead(commit);
            job.wait()
        } else {
            phase
        };
        match phase {
            Phase::Over(Verdict::Done) => {
                Ok(made.lock().take().expect("work that is done has made something"))
            }
            Phase::Over(Verdict::Failed(error)) => Err(error),
            Phase::Over(Verdict::Panicked(panic)) => resume_unwind(panic),
            Phase::Waits | Phase::Leads | Phase::Told => {
                unreachable!("a leader answers every job of its batch")
            }
        }
    }

    fn joins_as_leader(&self, job: &Arc<Job>) -> bool {
        let mut state = self.state.lock();
        state.waiting.push_back(Arc::clone(job));
        !std::mem::replace(&mut state.led, true)
    }

    /// Takes what waits, the caller's own job first, and has it committed.
    fn lead(&self, commit: impl FnOnce(&[Arc<Job>]) -> Vec<Verdict>) {
        let mut state = self.state.lock();
        let count = state.waiting.len().min(LONGEST_BATCH);
        let jobs = state.waiting.drain(..count).collect();
        drop(state);
        let mut batch = Batch { queue: self, jobs, verdicts: Vec::new() };
        batch.verdicts = commit(&batch.jobs);
    }

    /// Makes the first of those who wait the leader.
    fn pass_on(&self) {
        let mut state = self.state.lock();
        match state.waiting.front() {
            Some(next) => next.turn(Phase::Leads),
            None => state.led = false,
        }
    }
}

/// Jobs that are under way. However their leader ends, the lead passes on and every one of them is answered.
struct Batch<'a> {
    queue: &'a Queue,
    jobs: Vec<Arc<Job>>,
    verdicts: Vec<Verdict>,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // First the next leader, so that it works while the rest is told.
        self.queue.pass_on();
        let mut verdicts = self.verdicts.drain(..);
        for job in &self.jobs {
            let unanswered = || Verdict::Failed(StoreError::unavailable("the change was interrupted"));
            job.turn(Phase::Over(verdicts.next().unwrap_or_else(unanswered)));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::thread;
    use std::time::Duration;

    use super::super::Database;
    use super::*;

    #[test]
    fn a_panic_reaches_the_caller_whose_job_it_is_and_no_other() {
        let database = Database::in_memory();
        let barrier = Barrier::new(8);
        thread::scope(|scope| {
            for caller in 0..8 {
                let (shared, barrier) = (&database.0, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    for _ in 0..50 {
                        let job = move |_: &mut Writing<'_>| {
                            // Long enough for the others to queue up behind it.
                            thread::sleep(Duration::from_micros(50));
                            assert!(caller != 3, "as asked for");
                            if caller == 4 { Err(StoreError::Conflict.into()) } else { Ok(caller) }
                        };
                        let answer = catch_unwind(AssertUnwindSafe(|| shared.write(Weight::Change, job)));
                        match (caller, answer) {
                            (3, Err(_)) | (4, Ok(Err(StoreError::Conflict))) => {}
                            (_, Ok(Ok(answered))) => assert_eq!(answered, caller),
                            (_, other) => panic!("caller {caller}: {other:?}"),
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn a_leader_that_ends_early_leaves_nobody_waiting() {
        let queue = Queue::default();
        let dies = || queue.run((Weight::Change, Room::Free), |_| panic!("as asked for"), |_| Ok(()));
        assert!(catch_unwind(AssertUnwindSafe(dies)).is_err());
        // The lead is free again, and a batch whose leader says too little is answered all the same.
        let unanswered = queue.run((Weight::Change, Room::Free), |_| Vec::new(), |_| Ok(()));
        assert!(matches!(unanswered, Err(StoreError::Unavailable { .. })));
    }
}
