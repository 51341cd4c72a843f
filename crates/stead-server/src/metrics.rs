//! Counters for Prometheus. They name no agent and no path.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// Counts tool calls by outcome, HTTP replies by status, and open connections.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    calls: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    durations: Mutex<BTreeMap<&'static str, (u64, Duration)>>,
    replies: Mutex<BTreeMap<u16, u64>>,
    connections: AtomicU64,
}

impl Metrics {
    /// Counts one call of `tool`, with its outcome and how long it took.
    pub(crate) fn count_call(&self, tool: &'static str, outcome: &'static str, duration: Duration) {
        *self.calls.lock().entry((tool, outcome)).or_default() += 1;
        let mut durations = self.durations.lock();
        let (count, sum) = durations.entry(tool).or_default();
        *count += 1;
        *sum += duration;
    }

    /// Counts one HTTP reply with this status.
    pub(crate) fn count_reply(&self, status: u16) {
        *self.replies.lock().entry(status).or_default() += 1;
    }

    pub(crate) fn connection_opened(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_closed(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Renders everything in the Prometheus text format. The caller counts the open sessions.
    pub(crate) fn to_prometheus(&self, sessions: usize) -> String {
        let mut text = String::new();
        let mut write_family = |name: &str, kind: &str, help: &str, write_lines: &dyn Fn(&mut String)| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            write_lines(&mut text);
        };
        write_family("stead_calls_total", "counter", "Tool calls by tool and outcome.", &|text| {
            for ((tool, outcome), count) in &*self.calls.lock() {
                let _ = writeln!(text, "stead_calls_total{{tool=\"{tool}\",outcome=\"{outcome}\"}} {count}");
            }
        });
        write_family("stead_call_seconds", "summary", "How long tool calls took.", &|text| {
            for (tool, (count, sum)) in &*self.durations.lock() {
                let sum = sum.as_secs_f64();
                let _ = writeln!(text, "stead_call_seconds_sum{{tool=\"{tool}\"}} {sum:.6}");
                let _ = writeln!(text, "stead_call_seconds_count{{tool=\"{tool}\"}} {count}");
            }
        });
        write_family("stead_http_replies_total", "counter", "HTTP replies by status.", &|text| {
            for (status, count) in &*self.replies.lock() {
                let _ = writeln!(text, "stead_http_replies_total{{code=\"{status}\"}} {count}");
            }
        });
        write_family("stead_http_connections", "gauge", "Open HTTP connections.", &|text| {
            let _ = writeln!(text, "stead_http_connections {}", self.connections.load(Ordering::Relaxed));
        });
        write_family(
            "stead_http_sessions",
            "gauge",
            "Open sessions of clients before 2026-07-28.",
            &|text| {
                let _ = writeln!(text, "stead_http_sessions {sessions}");
            },
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_written_in_the_prometheus_text_format() {
        let metrics = Metrics::default();
        metrics.count_call("stat", "ok", Duration::from_millis(2));
        metrics.count_call("stat", "denied", Duration::from_millis(1));
        metrics.count_reply(200);
        metrics.connection_opened();
        let text = metrics.to_prometheus(3);
        for line in [
            "stead_calls_total{tool=\"stat\",outcome=\"denied\"} 1",
            "stead_call_seconds_sum{tool=\"stat\"} 0.003000",
            "stead_call_seconds_count{tool=\"stat\"} 2",
            "stead_http_replies_total{code=\"200\"} 1",
            "stead_http_connections 1",
            "stead_http_sessions 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
