//! Group commit: several callers' changes in one transaction. The first caller leads, and commits the jobs that have
//! queued up behind its own.
//!
//! There is no thread for it. A caller that finds no leader runs its own job at once. A caller that finds one waits
//! until its job is done, or until it is made the next leader.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use stead_core::store::SyncPolicy;
use stead_core::{StoreError, StoreResult};

use crate::database::batch::WriteTransaction;
use crate::database::error::Result;

/// How many jobs one transaction runs at most, so that no process holds the writer lock for long.
const MAX_BATCH_SIZE: usize = 128;

/// When the commit of a job has to be on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitSync {
    /// As durable as the database was opened to be. For changes.
    AsConfigured,
    /// At the latest with the next synced commit; a power cut before that may lose it. For jobs that prepare a change,
    /// or whose loss is acceptable.
    Deferred,
    /// When the job is done, whatever the database's durability is. For jobs on which something outside the database
    /// relies.
    Always,
}

/// Which disk space a job may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskSpace {
    /// Only free space.
    Free,
    /// The reserve as well. For jobs that free space, or that are needed to read.
    Reserve,
}

impl CommitSync {
    /// The sync of a change with this policy.
    pub(crate) fn of(policy: SyncPolicy) -> Self {
        match policy {
            SyncPolicy::Now => CommitSync::AsConfigured,
            SyncPolicy::Deferred => CommitSync::Deferred,
        }
    }
}

type JobWork = Box<dyn FnOnce(&mut WriteTransaction<'_>) -> Result<()> + Send>;

/// The outcome of a job.
pub(crate) enum JobOutcome {
    Done,
    Failed(StoreError),
    /// The job panicked on the leader's thread. The panic belongs to the caller whose job it was.
    Panicked(Box<dyn Any + Send>),
}

/// Work for a transaction, and the state for which its caller waits.
pub(crate) struct WriteJob {
    pub(crate) sync: CommitSync,
    pub(crate) disk_space: DiskSpace,
    work: Mutex<Option<JobWork>>,
    phase: Mutex<JobPhase>,
    phase_changed: Condvar,
}

enum JobPhase {
    Waiting,
    Leading,
    Finished(JobOutcome),
    Reported,
}

impl WriteJob {
    /// Takes the work out, which is done once.
    pub(crate) fn take_work(&self) -> JobWork {
        self.work.lock().take().expect("a job is drained from the queue once")
    }

    fn set_phase(&self, phase: JobPhase) {
        *self.phase.lock() = phase;
        self.phase_changed.notify_one();
    }

    /// Waits until the job is finished, or its caller has to lead.
    fn wait(&self) -> JobPhase {
        let mut phase = self.phase.lock();
        while matches!(*phase, JobPhase::Waiting) {
            self.phase_changed.wait(&mut phase);
        }
        std::mem::replace(&mut phase, JobPhase::Reported)
    }
}

/// The queue of jobs of one database.
#[derive(Default)]
pub(crate) struct GroupCommit {
    state: Mutex<GroupCommitState>,
}

#[derive(Default)]
struct GroupCommitState {
    waiting: VecDeque<Arc<WriteJob>>,
    /// Whether a caller leads. Without a leader, no job waits.
    has_leader: bool,
}

impl GroupCommit {
    /// Runs `work` in a transaction, alone or together with the jobs of other callers.
    ///
    /// If this caller leads, `commit` runs the jobs of the batch and returns the outcome of each.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        (sync, disk_space): (CommitSync, DiskSpace),
        commit: impl FnOnce(&[Arc<WriteJob>]) -> Vec<JobOutcome>,
        work: impl FnOnce(&mut WriteTransaction<'_>) -> Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        let result = Arc::new(Mutex::new(None));
        let job_result = Arc::clone(&result);
        let work: JobWork = Box::new(move |transaction| {
            *job_result.lock() = Some(work(transaction)?);
            Ok(())
        });
        let job = Arc::new(WriteJob {
            sync,
            disk_space,
            work: Mutex::new(Some(work)),
            phase: Mutex::new(JobPhase::Waiting),
            phase_changed: Condvar::new(),
        });
        let phase = if self.join(&job) { JobPhase::Leading } else { job.wait() };
        let phase = if let JobPhase::Leading = phase {
            self.run_as_leader(commit);
            job.wait()
        } else {
            phase
        };
        match phase {
            JobPhase::Finished(JobOutcome::Done) => {
                Ok(result.lock().take().expect("finished work has a result"))
            }
            JobPhase::Finished(JobOutcome::Failed(error)) => Err(error),
            JobPhase::Finished(JobOutcome::Panicked(panic)) => resume_unwind(panic),
            JobPhase::Waiting | JobPhase::Leading | JobPhase::Reported => {
                unreachable!("a leader answers every job of its batch")
            }
        }
    }

    fn join(&self, job: &Arc<WriteJob>) -> bool {
        let mut state = self.state.lock();
        state.waiting.push_back(Arc::clone(job));
        !std::mem::replace(&mut state.has_leader, true)
    }

    /// Takes the waiting jobs, the caller's own first, and commits them.
    fn run_as_leader(&self, commit: impl FnOnce(&[Arc<WriteJob>]) -> Vec<JobOutcome>) {
        let mut state = self.state.lock();
        let count = state.waiting.len().min(MAX_BATCH_SIZE);
        let jobs = state.waiting.drain(..count).collect();
        drop(state);
        let mut batch = JobBatch { group_commit: self, jobs, outcomes: Vec::new() };
        batch.outcomes = commit(&batch.jobs);
    }

    /// Makes the first waiting caller the leader.
    fn promote_next_leader(&self) {
        let mut state = self.state.lock();
        match state.waiting.front() {
            Some(next) => next.set_phase(JobPhase::Leading),
            None => state.has_leader = false,
        }
    }
}

/// The jobs that a leader is running. However the leader ends, dropping this passes the lead on and answers every job.
struct JobBatch<'a> {
    group_commit: &'a GroupCommit,
    jobs: Vec<Arc<WriteJob>>,
    outcomes: Vec<JobOutcome>,
}

impl Drop for JobBatch<'_> {
    fn drop(&mut self) {
        // The next leader first, so that it works while the other callers get their outcomes.
        self.group_commit.promote_next_leader();
        let mut outcomes = self.outcomes.drain(..);
        for job in &self.jobs {
            let unanswered = || JobOutcome::Failed(StoreError::unavailable("the change was interrupted"));
            job.set_phase(JobPhase::Finished(outcomes.next().unwrap_or_else(unanswered)));
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

    use super::*;
    use crate::database::Database;

    #[test]
    fn a_panic_reaches_the_caller_whose_job_it_is_and_no_other() {
        let database = Database::in_memory();
        let barrier = Barrier::new(8);
        thread::scope(|scope| {
            for caller in 0..8 {
                let (inner, barrier) = (&database.0, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    for _ in 0..50 {
                        let job = move |_: &mut WriteTransaction<'_>| {
                            // Long enough for the other callers to queue up behind it.
                            thread::sleep(Duration::from_micros(50));
                            assert!(caller != 3, "as asked for");
                            if caller == 4 { Err(StoreError::Conflict.into()) } else { Ok(caller) }
                        };
                        let answer =
                            catch_unwind(AssertUnwindSafe(|| inner.write(CommitSync::AsConfigured, job)));
                        match (caller, answer) {
                            (3, Err(_)) | (4, Ok(Err(StoreError::Conflict))) => {}
                            (_, Ok(Ok(value))) => assert_eq!(value, caller),
                            (_, other) => panic!("caller {caller}: {other:?}"),
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn a_leader_that_ends_early_leaves_no_job_waiting() {
        let queue = GroupCommit::default();
        let panicking_leader =
            || queue.run((CommitSync::AsConfigured, DiskSpace::Free), |_| panic!("as asked for"), |_| Ok(()));
        assert!(catch_unwind(AssertUnwindSafe(panicking_leader)).is_err());
        // The lead is free again, and a batch whose leader returns too few outcomes is answered all the same.
        let unanswered = queue.run((CommitSync::AsConfigured, DiskSpace::Free), |_| Vec::new(), |_| Ok(()));
        assert!(matches!(unanswered, Err(StoreError::Unavailable { .. })));
    }
}
