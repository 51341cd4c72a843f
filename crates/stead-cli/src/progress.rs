//! Progress of long work: a line on a terminal, nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use stead::transfer::{OmittedEntry, TransferObserver, TransferTotals};
use stead_server::print_to_stderr;

use crate::human;
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
