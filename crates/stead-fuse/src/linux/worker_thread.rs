//! A thread for work that has to wait for the kernel. A thread that answers the kernel's requests must not do it.

use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

type WorkerJob = Box<dyn FnOnce() + Send>;

/// A thread that runs one job after the other.
#[derive(Debug, Default)]
pub(crate) struct WorkerThread(OnceLock<Sender<Option<WorkerJob>>>);

impl WorkerThread {
    /// Starts the thread. [`WorkerThread::stop`] ends it.
    pub(crate) fn start(&self, name: &str) -> std::io::Result<JoinHandle<()>> {
        let (sender, jobs) = channel::<Option<WorkerJob>>();
        self.0.set(sender).expect("it is started only once");
        Builder::new().name(name.into()).spawn(move || {
            while let Ok(Some(job)) = jobs.recv() {
                job();
            }
        })
    }

    /// Queues a job.
    pub(crate) fn submit(&self, job: WorkerJob) {
        // Before the start and after the end, no kernel waits for a reply, so the job can be dropped.
        if let Some(jobs) = self.0.get() {
            let _ = jobs.send(Some(job));
        }
    }

    /// Ends the thread after the jobs that are queued by now.
    pub(crate) fn stop(&self) {
        if let Some(jobs) = self.0.get() {
            let _ = jobs.send(None);
        }
    }
}
