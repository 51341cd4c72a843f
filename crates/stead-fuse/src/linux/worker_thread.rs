//! What has to wait for the kernel, and so must not be done where the kernel is answered.

use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

type WorkerJob = Box<dyn FnOnce() + Send>;

/// A thread that does one thing after the other.
#[derive(Debug, Default)]
pub(crate) struct WorkerThread(OnceLock<Sender<Option<WorkerJob>>>);

impl WorkerThread {
    /// Starts the thread. It ends with [`Later::end`].
    pub(crate) fn start(&self, name: &str) -> std::io::Result<JoinHandle<()>> {
        let (sender, jobs) = channel::<Option<WorkerJob>>();
        self.0.set(sender).expect("it is started once");
        Builder::new().name(name.into()).spawn(move || {
            while let Ok(Some(job)) = jobs.recv() {
                job();
            }
        })
    }

    /// Has something done.
    pub(crate) fn submit(&self, job: WorkerJob) {
        // Before the start and after the end there is no kernel that would wait, and nobody who asks.
        if let Some(jobs) = self.0.get() {
            let _ = jobs.send(Some(job));
        }
    }

    /// Ends the thread, once all is done that was asked for by now.
    pub(crate) fn stop(&self) {
        if let Some(jobs) = self.0.get() {
            let _ = jobs.send(None);
        }
    }
}
