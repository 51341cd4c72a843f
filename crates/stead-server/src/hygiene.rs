//! The hygiene cycle of managed Workspaces, while a server runs.

use std::sync::Arc;
use std::time::Duration;

use stead::{Clock, HygieneSchedule, SystemClock};

use crate::stead_registry::SteadRegistry;

/// How often the server looks whether a cycle is due.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Runs the cycle at the start and again each day, until it is dropped.
pub(crate) async fn run_hygiene(steads: Arc<SteadRegistry>) {
    run_cycles(steads, Arc::new(SystemClock), CHECK_INTERVAL).await;
}

/// Runs a cycle whenever one is due by the clock. Between two looks at the clock it sleeps for `check_interval`.
async fn run_cycles(steads: Arc<SteadRegistry>, clock: Arc<dyn Clock>, check_interval: Duration) {
    let mut schedule = HygieneSchedule::default();
    loop {
        if schedule.begin_if_due(clock.now()) {
            let (steads, clock) = (Arc::clone(&steads), Arc::clone(&clock));
            // A panic was printed to stderr; the next cycle tries again.
            let _ = tokio::task::spawn_blocking(move || run_cycle(&steads, &clock)).await;
        }
        tokio::time::sleep(check_interval).await;
    }
}

/// Syncs and cleans up every managed directory. What fails is logged, and the others are still processed.
fn run_cycle(steads: &SteadRegistry, clock: &Arc<dyn Clock>) {
    let stores = steads.stores();
    for directory in stores.managed_directories() {
        let (store, path) = (&directory.store, &directory.path);
        match stores.clean_managed(&directory, clock) {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use stead::{Config, Identity, Stead};
    use stead_core::clock::FixedClock;

    use super::*;
    use crate::limits::ServerLimits;

    /// Waits until something is the case.
    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let started = std::time::Instant::now();
        while !is_so() {
            assert!(started.elapsed().as_secs() < 50, "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn w86_a_running_server_cleans_up_at_its_start_and_again_after_a_day() {
        let host = tempfile::tempdir().unwrap();
        let text = "[stores.s]\nkind = \"virtual\"\n[[agents.a.workspaces]]\nprefix = \"/w\"\n\
                    scope = \"rw\"\nstore = \"s\"\nmanaged = true\n";
        let config = Config::parse(text, &host.path().join("stead.toml")).unwrap();
        let steads = Arc::new(SteadRegistry::of(&config, ServerLimits::default()));
        let stead = Stead::open_in(&steads.stores(), &Identity::agent("a")).unwrap();
        let files = stead.vfs().managed(None).unwrap();
        let last_cleanup = || files.last_cleanup().unwrap().map(|run| (run.at, run.removed));
        stead.vfs().write("/w/temp/x", "x").unwrap();
        let clock = Arc::new(FixedClock::at(SystemClock.now()));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
        let cycles = run_cycles(steads, Arc::clone(&clock) as Arc<dyn Clock>, Duration::from_millis(10));
        runtime.spawn(cycles);
        let at_start = Some((clock.now().to_string(), 0));
        wait_until("a cycle at the start", || last_cleanup() == at_start);
        for (days, removed) in [(1, 0), (7, 1), (1, 0)] {
            clock.advance(Duration::from_secs(days * 24 * 60 * 60));
            let next = Some((clock.now().to_string(), removed));
            wait_until("a cycle after a day or more", || last_cleanup() == next);
        }
        assert!(!stead.vfs().exists("/w/temp/x").unwrap());
    }
}
