//! Ctrl-C during an import, an export, a snapshot or a merge: the first one stops the work at a point where nothing is half
//! done; the second one ends the process at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use stead::monitor::{CallMonitor, StopReason};
use stead::{ErrorKind, Stead};
use stead_server::{ShutdownSignals, print_to_stderr};

use crate::command_error::CommandError;

/// The exit code after a second Ctrl-C, as shells report it: 128 + SIGINT.
const FORCED_EXIT_CODE: i32 = 130;

/// Whether a signal has asked the process to end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for the signals that ask the process to end, until the process ends.
    pub(crate) fn listen() -> Result<Self, CommandError> {
        let interrupt = Interrupt::default();
        let interrupted = Arc::clone(&interrupt.0);
        let spawn_listener = || -> io::Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let entered = runtime.enter();
            let mut signals = ShutdownSignals::new()?;
            drop(entered);
            thread::Builder::new().name("signals".into()).spawn(move || {
                runtime.block_on(async {
                    signals.recv().await;
                    interrupted.store(true, Ordering::Relaxed);
                    print_to_stderr(
                        "stead: stopping after the current step; press Ctrl-C again to stop at once",
                    );
                    signals.recv().await;
                    std::process::exit(FORCED_EXIT_CODE);
                });
            })?;
            Ok(())
        };
        spawn_listener().map_err(|error| CommandError::host("can't listen for signals", error))?;
        Ok(interrupt)
    }

    /// A stead whose calls stop when the process is asked to end.
    pub(crate) fn attach_to(&self, stead: &Stead) -> Stead {
        stead.watched(Arc::new(self.clone()))
    }

    /// The error of the command: the interruption if there was one, otherwise `failure`.
    pub(crate) fn error_or(&self, failure: impl Into<CommandError>, consequence: &str) -> CommandError {
        match self.stop_reason() {
            Some(_) => CommandError::Message(ErrorKind::Unavailable, format!("interrupted; {consequence}")),
            None => failure.into(),
        }
    }
}

impl CallMonitor for Interrupt {
    fn progress(&self, _: u64, _: Option<u64>) {}

    fn stop_reason(&self) -> Option<StopReason> {
        self.0.load(Ordering::Relaxed).then_some(StopReason::Cancelled)
    }
}
