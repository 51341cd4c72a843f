//! The signals that ask a server to end: Ctrl-C, a supervisor's SIGTERM, and the hangup of its terminal.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask the process to end in good order: SIGTERM, SIGINT and SIGHUP.
#[derive(Debug)]
pub struct ShutdownSignals(Vec<Signal>);

impl ShutdownSignals {
    /// Starts listening for the signals. Must be called inside a runtime. From now on they don't kill the process.
    ///
    /// A SIGHUP that is ignored already stays ignored: the process was started with `nohup`.
    pub fn new() -> io::Result<Self> {
        let mut kinds = vec![SignalKind::terminate(), SignalKind::interrupt()];
        if !is_ignored(SignalKind::hangup()) {
            kinds.push(SignalKind::hangup());
        }
        Ok(ShutdownSignals(kinds.into_iter().map(signal).collect::<io::Result<_>>()?))
    }

    /// Waits for one of the signals.
    pub async fn recv(&mut self) {
        std::future::poll_fn(|context| {
            let any = self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if any { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
}

/// Whether this process ignores `kind`, according to `/proc/self/status`. Where that can't be read: `false`.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_in_mask(&status, "SigIgn:", kind.as_raw_value())
}

/// Whether the mask that `status` shows on the line beginning with `label` contains `signal`.
fn is_in_mask(status: &str, label: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix(label));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_found_in_the_mask_that_the_kernel_shows() {
        let status = "Name:\tstead\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        let ignored: Vec<_> = (1..=64).filter(|signal| is_in_mask(status, "SigIgn:", *signal)).collect();
        assert_eq!(ignored, [1, 13]);
        assert!(!is_in_mask("", "SigIgn:", 1));
    }
}
