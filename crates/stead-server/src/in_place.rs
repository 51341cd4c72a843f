//! Blocking work inside a task that awaits something afterwards.

/// Runs blocking work on this worker, as [`tokio::task::block_in_place`] does, and then yields to the runtime.
///
/// The work may outlive the runtime. A task that continued in the same poll would panic at the next timer that it
/// awaits ("a Tokio context was found, but it is being shutdown"). A task that yields is dropped instead.
pub(crate) async fn in_place<T>(work: impl FnOnce() -> T) -> T {
    let result = tokio::task::block_in_place(work);
    tokio::task::yield_now().await;
    result
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// When dropped, sends whether its task panicked.
    struct End(mpsc::Sender<bool>);

    impl Drop for End {
        fn drop(&mut self) {
            self.0.send(std::thread::panicking()).unwrap();
        }
    }

    #[test]
    fn a_task_whose_work_outlives_the_runtime_ends_without_a_panic() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (began, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let (ended, panicked) = mpsc::channel();
        let end = End(ended);
        runtime.spawn(async move {
            let _end = end;
            in_place(move || {
                began.send(()).unwrap();
                released.recv().unwrap();
            })
            .await;
            tokio::time::sleep(Duration::from_secs(3_600)).await;
        });
        has_begun.recv().unwrap();
        runtime.shutdown_timeout(Duration::from_millis(100));
        release.send(()).unwrap();
        assert!(!panicked.recv().unwrap(), "the task panicked");
    }
}
