//! A stead for tokio tasks (feature `tokio`).
//!
//! The core is synchronous: a call blocks its thread for as long as it takes. [`AsyncStead`] makes each call on a thread for
//! blocking work, so that the runtime's workers stay free, and stops a call whose future is dropped.
//!
//! ```
//! use std::sync::Arc;
//! use serde_json::json;
//! use stead::{AccessScope, AsyncStead, MemoryStore, Stead};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> stead::Result<()> {
//! let notes = Arc::new(MemoryStore::new());
//! let stead = Stead::builder("coder").workspace("/notes", AccessScope::ReadWrite, &notes).build()?;
//! let stead = AsyncStead::new(stead);
//! stead.write("/notes/plan.md", "1. read").await?;
//! let reply = stead.call("read_file", json!({ "path": "/notes/plan.md" })).await;
//! assert_eq!(reply.joined_text(), "1. read");
//! let removed = stead.run(|stead| stead.vfs().remove_file("/notes/plan.md", Default::default())).await?;
//! assert_eq!(removed.path.as_str(), "/notes/plan.md");
//! # Ok(())
//! # }
//! ```

use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use stead_core::monitor::StopReason;
use stead_core::tools::{ApprovalAnswer, ApprovalQuestion, Reply};
use stead_core::vfs::{BytesRead, IntoPath, WriteResult};
use stead_core::{CallMonitor, VfsPath};
use tokio::sync::Semaphore;

use crate::error::Result;
use crate::stead::Stead;

/// How many calls of one [`AsyncStead`] run at once, unless [`AsyncStead::with_max_running`] says otherwise.
const DEFAULT_MAX_RUNNING: usize = 32;

/// A [`Stead`] whose calls are futures.
///
/// Dropping a future asks its call to stop. A call stops only as long as it has changed nothing; after that it completes.
/// Cloning is cheap, and clones share the limit on running calls.
#[derive(Debug, Clone)]
pub struct AsyncStead {
    stead: Stead,
    permits: Arc<Semaphore>,
}

impl AsyncStead {
    /// Makes the calls of this stead on tokio's threads for blocking work, at most 32 at a time.
    pub fn new(stead: Stead) -> Self {
        AsyncStead { stead, permits: Arc::new(Semaphore::new(DEFAULT_MAX_RUNNING)) }
    }

    /// Sets how many calls run at once, at least 1. Further calls wait.
    pub fn with_max_running(self, calls: usize) -> Self {
        let calls = calls.clamp(1, Semaphore::MAX_PERMITS);
        AsyncStead { permits: Arc::new(Semaphore::new(calls)), ..self }
    }

    /// The stead, for calls that may block.
    pub fn stead(&self) -> &Stead {
        &self.stead
    }

    /// Runs blocking work with the stead.
    ///
    /// The future has to be awaited within a tokio runtime. If the work panics, so does the future.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce(&Stead) -> T + Send + 'static) -> T {
        let permit = Arc::clone(&self.permits).acquire_owned().await.expect("the semaphore is never closed");
        let monitor = Arc::new(DropMonitor {
            dropped: AtomicBool::new(false),
            next: self.stead.vfs().watch().map(Arc::clone),
        });
        let _on_drop = DropGuard(Arc::clone(&monitor));
        let stead = self.stead.watched(monitor);
        let worker = tokio::task::spawn_blocking(move || {
            // Held by the work, not by the future: work whose future was dropped still occupies a thread.
            let _permit = permit;
            work(&stead)
        });
        match worker.await {
            Ok(value) => value,
            Err(error) => match error.try_into_panic() {
                Ok(payload) => panic::resume_unwind(payload),
                // The runtime shuts down before the work has begun, and drops this future with its task.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// [`Stead::call`].
    pub async fn call(&self, tool: impl Into<String>, arguments: Value) -> Reply {
        let tool = tool.into();
        self.run(move |stead| stead.call(&tool, arguments)).await
    }

    /// [`Stead::call_with_approval`].
    pub async fn call_with_approval(
        &self,
        tool: impl Into<String>,
        arguments: Value,
        answer: ApprovalAnswer,
    ) -> Result<Reply, ApprovalQuestion> {
        let tool = tool.into();
        self.run(move |stead| stead.call_with_approval(&tool, arguments, answer)).await
    }

    /// [`stead_core::Vfs::read`].
    pub async fn read(&self, path: impl IntoPath) -> Result<BytesRead> {
        let path: VfsPath = path.into_path()?;
        Ok(self.run(move |stead| stead.vfs().read(&path)).await?)
    }

    /// [`stead_core::Vfs::write`].
    pub async fn write(&self, path: impl IntoPath, content: impl Into<Vec<u8>>) -> Result<WriteResult> {
        let (path, content): (VfsPath, Vec<u8>) = (path.into_path()?, content.into());
        Ok(self.run(move |stead| stead.vfs().write(&path, content)).await?)
    }
}

/// Asks a call to stop once its future is dropped. Otherwise does what the stead's own monitor does.
#[derive(Debug)]
struct DropMonitor {
    dropped: AtomicBool,
    next: Option<Arc<dyn CallMonitor>>,
}

impl CallMonitor for DropMonitor {
    fn progress(&self, done: u64, total: Option<u64>) {
        if let Some(next) = &self.next {
            next.progress(done, total);
        }
    }

    fn stop_reason(&self) -> Option<StopReason> {
        if self.dropped.load(Ordering::Relaxed) {
            return Some(StopReason::Cancelled);
        }
        self.next.as_ref()?.stop_reason()
    }
}

/// Tells the monitor that the future was dropped. After the call has ended, that has no effect.
struct DropGuard(Arc<DropMonitor>);

impl Drop for DropGuard {
    fn drop(&mut self) {
        self.0.dropped.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::mpsc;
    use std::time::Duration;

    use stead_core::{AccessScope, ErrorKind};
    use stead_stores::MemoryStore;

    use super::*;

    fn stead() -> AsyncStead {
        let store = Arc::new(MemoryStore::new());
        let stead = Stead::builder("a").workspace("/w", AccessScope::ReadWrite, &store).build().unwrap();
        AsyncStead::new(stead)
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_call_leaves_the_only_worker_free() {
        let stead = stead();
        let (release, released) = mpsc::channel();
        let blocked = stead.run(move |_| released.recv().unwrap());
        let other = async {
            stead.write("/w/a", "1").await.unwrap();
            release.send("released").unwrap();
        };
        assert_eq!(tokio::join!(blocked, other).0, "released");
        assert_eq!(stead.read("/w/a").await.unwrap().bytes, b"1");
        assert_eq!(stead.read("/elsewhere").await.unwrap_err().kind(), ErrorKind::Denied);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn dropping_a_future_stops_its_call_before_it_changes_anything() {
        let stead = stead();
        let (begun, has_begun) = mpsc::channel();
        let (end, has_ended) = mpsc::channel();
        let work = move |stead: &Stead| {
            begun.send(()).unwrap();
            while stead.vfs().watch().unwrap().stop_reason().is_none() {
                std::thread::yield_now();
            }
            end.send(stead.vfs().write("/w/a", "1").map_err(|error| error.to_string())).unwrap();
        };
        let task = tokio::spawn({
            let stead = stead.clone();
            async move { stead.run(work).await }
        });
        tokio::task::spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        let result = tokio::task::spawn_blocking(move || has_ended.recv().unwrap()).await.unwrap();
        assert!(result.unwrap_err().contains("cancelled"));
        assert!(!stead.run(|stead| stead.vfs().exists("/w/a")).await.unwrap());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_more_calls_run_at_once_than_allowed() {
        let stead = stead().with_max_running(2);
        let running = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let calls: Vec<_> = (0..16)
            .map(|_| {
                let (stead, running) = (stead.clone(), Arc::clone(&running));
                tokio::spawn(async move {
                    stead
                        .run(move |_| {
                            let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                            std::thread::sleep(Duration::from_millis(2));
                            running.fetch_sub(1, Ordering::SeqCst);
                            now
                        })
                        .await
                })
            })
            .collect();
        for call in calls {
            assert!(call.await.unwrap() <= 2);
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_panic_reaches_the_caller() {
        let stead = stead();
        let result = tokio::spawn(async move { stead.run(|_| panic!("on purpose")).await }).await;
        assert!(result.unwrap_err().is_panic());
    }
}
