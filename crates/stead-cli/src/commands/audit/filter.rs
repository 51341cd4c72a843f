//! Which records are meant.

use stead::vfs::IntoPath;
use stead::{AuditQuery, Clock, OperationId, SystemClock, Timestamp};

use crate::failure::Failure;
use crate::session::Session;

/// Which records are meant; all conditions hold together.
#[derive(Debug, clap::Args)]
pub(super) struct Filter {
    /// Only of this thread
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Only with this path, or one below it
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Only of this tool or call
    #[arg(long, value_name = "NAME", visible_alias = "tool")]
    call: Option<String>,
    /// Only of this operation
    #[arg(long, value_name = "ID")]
    operation: Option<OperationId>,
    /// Only what went like this
    #[arg(long, value_parser = ["ok", "denied", "failed", "begun"])]
    outcome: Option<String>,
    /// Only from this time on: 2026-11-15, 2026-11-15T08:30:00Z, or 2h, 30m, 7d ago
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Only before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Timestamp>,
}

impl Filter {
    pub(super) fn query(self, session: &Session) -> Result<AuditQuery, Failure> {
        let path = self.path.as_deref().map(IntoPath::into_path).transpose().map_err(stead::Error::from)?;
        Ok(AuditQuery {
            agent: session.named_agent().map(str::to_owned),
            thread: self.thread,
            path,
            call: self.call,
            operation: self.operation,
            outcome: self.outcome,
            since: self.since,
            until: self.until,
        })
    }
}

/// A time as people write it: a moment, a day, or how long ago.
pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    moment_at(text, SystemClock.now())
}

fn moment_at(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Some(ago) = ago(text) {
        return Ok(Timestamp(now.0.saturating_sub(ago)));
    }
    text.parse().map_err(|error| format!("{error}; or how long ago: 30m, 2h, 7d"))
}

/// `2h` in nanoseconds.
fn ago(text: &str) -> Option<i64> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    let number = &text[..text.len() - 1];
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: i64 = digits.then(|| number.parse().ok())??;
    number.checked_mul(unit)?.checked_mul(1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_moment_a_day_or_how_long_ago() {
        let now = Timestamp::from_secs(1_000_000);
        let at = |text| moment_at(text, now).map(Timestamp::as_secs);
        assert_eq!(at("30m"), Ok(1_000_000 - 1_800));
        assert_eq!(at("2h"), Ok(1_000_000 - 7_200));
        assert_eq!(at("7d"), Ok(1_000_000 - 604_800));
        assert_eq!(at("1970-01-02"), Ok(86_400));
        assert_eq!(at("1970-01-01T01:00:00+01:00"), Ok(0));
        for wrong in ["", "h", "-2h", "2x", "99999999999999999999d", "é"] {
            assert!(at(wrong).unwrap_err().contains("30m, 2h, 7d"), "{wrong}");
        }
    }
}
