//! The hygiene cycle of managed Workspaces, while a server runs.

use std::sync::Arc;
use std::time::Duration;

use stead::{Clock, HygieneSchedule, SystemClock};

use crate::stead_registry::SteadRegistry;

/// How often the server looks whether a cycle is due.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Runs the cycle at the start and again each day, until it is dropped.
pub(crate) async fn run_hygiene(steads: Arc<SteadRegistry>) {
    let mut schedule = HygieneSchedule::default();
    loop {
        if schedule.begin_if_due(SystemClock.now()) {
            let steads = Arc::clone(&steads);
            // A panic was printed to stderr; the next cycle tries again.
            let _ = tokio::task::spawn_blocking(move || run_cycle(&steads)).await;
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Syncs and cleans up every managed directory. What fails is logged, and the others are still processed.
fn run_cycle(steads: &SteadRegistry) {
    let stores = steads.stores();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    for directory in stores.managed_directories() {
        let (store, path) = (&directory.store, &directory.path);
        match stores.clean_managed(&directory, &clock) {
            Ok(run) => {
                for error in &run.errors {
                    tracing::warn!(store, %path, "an expired file could not be removed: {error}");
                }
                if run.removed > 0 || !run.synced.is_empty() {
                    tracing::info!(store, %path, removed = run.removed, bytes = run.bytes, "managed files were cleaned up");
                }
            }
            Err(error) => tracing::warn!(store, %path, "managed files could not be cleaned up: {error}"),
        }
    }
}
