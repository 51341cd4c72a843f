//! Work that blocks, in a task that goes on to wait for something afterwards.

/// Does blocking work on this worker, as [`tokio::task::block_in_place`] does, and then lets the runtime decide whether the
/// task goes on.
///
/// The work may take longer than the runtime lives. A task that went on in the same poll would panic at the next timer
/// that it waits for ("a Tokio context was found, but it is being shutdown"). One that yields is dropped instead.
pub(crate) async fn in_place<T>(work: impl FnOnce() -> T) -> T {
    let done = tokio::task::block_in_place(work);
    tokio::task::yield_now().await;
    done
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Tells, when its task ends, whether that is because of a panic.
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
        let (ended, how) = mpsc::channel();
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
        assert!(!how.recv().unwrap(), "the task panicked");
    }
}
