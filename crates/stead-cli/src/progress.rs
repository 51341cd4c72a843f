//! Progress of long work: a line on a terminal, nothing elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use stead::Stead;
use stead::monitor::{CallMonitor, StopReason};
use stead::transfer::{OmittedEntry, TransferObserver, TransferTotals};
use stead_server::print_to_stderr;

use crate::command_error::CommandError;
use crate::human;
use crate::interrupt::Interrupt;
use crate::session::Session;

/// A line that shows how far the work has come. Dropping it clears the line.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(session: &Session) -> Self {
        if !session.shows_progress() {
            return Progress { bar: ProgressBar::hidden() };
        }
        let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}");
        let bar = ProgressBar::new_spinner().with_style(style.expect("the template is valid"));
        bar.enable_steady_tick(Duration::from_millis(120));
        Progress { bar }
    }

    /// Shows a message. `message` isn't called if progress is hidden.
    pub(crate) fn show(&self, message: impl FnOnce() -> String) {
        if !self.bar.is_hidden() {
            self.bar.set_message(message());
        }
    }
}

impl TransferObserver for Progress {
    fn progressed(&mut self, totals: &TransferTotals) {
        self.show(|| {
            format!("{}, {}", human::count(totals.files, "file", "files"), human::size(totals.bytes))
        });
    }

    fn omitted(&mut self, entry: &OmittedEntry) {
        let OmittedEntry { path, reason } = entry;
        // The reason already begins with the path if the door gave it.
        let reason_has_path = reason.starts_with(&format!("`{path}`"));
        self.bar.suspend(|| match reason_has_path {
            true => print_to_stderr(format_args!("stead: left out: {reason}")),
            false => print_to_stderr(format_args!("stead: left out `{path}`: {reason}")),
        });
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Runs a merge or an update: shows how far it has come, and Ctrl-C stops it as long as it has changed nothing.
pub(crate) fn follow_merge<T>(
    session: &Session,
    stead: &Stead,
    message: &'static str,
    run: impl FnOnce(&Stead) -> Result<T, stead::Error>,
) -> Result<T, CommandError> {
    let (progress, interrupt) = (Progress::new(session), Interrupt::listen()?);
    progress.show(|| message.to_owned());
    let (bar, has_length) = (progress.bar.clone(), AtomicBool::new(false));
    let monitor = MergeMonitor { bar, has_length, interrupt: interrupt.clone() };
    run(&stead.watched(Arc::new(monitor))).map_err(|error| interrupt.error_or(error, "nothing was changed"))
}

/// The side that waits for a merge.
#[derive(Debug)]
struct MergeMonitor {
    bar: ProgressBar,
    /// Whether it is known how much there is to do.
    has_length: AtomicBool,
    interrupt: Interrupt,
}

impl CallMonitor for MergeMonitor {
    fn progress(&self, done: u64, total: Option<u64>) {
        if self.bar.is_hidden() {
            return;
        }
        if let Some(total) = total {
            if !self.has_length.swap(true, Ordering::Relaxed) {
                let style = ProgressStyle::with_template("{spinner} {msg} [{bar:30}] {percent}%  {elapsed}");
                self.bar.set_style(style.expect("the template is valid"));
            }
            self.bar.set_length(total);
        }
        self.bar.set_position(done);
    }

    fn stop_reason(&self) -> Option<StopReason> {
        self.interrupt.stop_reason()
    }
}
