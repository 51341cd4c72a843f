//! The signals that ask a server to end: Ctrl-C, what a supervisor sends, and the end of its terminal.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a process in good order.
#[derive(Debug)]
pub struct ShutdownSignals(Vec<Signal>);

impl ShutdownSignals {
    /// Begins to wait for them, inside a runtime. From now on they don't kill the process.
    ///
    /// SIGHUP is left alone where it is ignored already: `nohup` has asked for that.
    pub fn new() -> io::Result<Self> {
        let mut kinds = vec![SignalKind::terminate(), SignalKind::interrupt()];
        if !is_ignored(SignalKind::hangup()) {
            kinds.push(SignalKind::hangup());
        }
        Ok(ShutdownSignals(kinds.into_iter().map(signal).collect::<io::Result<_>>()?))
    }

    /// Waits for one of them.
    pub async fn recv(&mut self) {
        std::future::poll_fn(|context| {
            let any = self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if any { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
}

/// Whether this process ignores a signal, as far as the host tells.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_in_mask(&status, "SigIgn:", kind.as_raw_value())
}

/// Whether a set of signals, as the kernel shows it, has this one.
fn is_in_mask(status: &str, set: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix(set));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_found_in_the_set_that_the_kernel_shows() {
        let status = "Name:\tstead\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        let ignored: Vec<_> = (1..=64).filter(|signal| is_in_mask(status, "SigIgn:", *signal)).collect();
        assert_eq!(ignored, [1, 13]);
        assert!(!is_in_mask("", "SigIgn:", 1));
    }
}
