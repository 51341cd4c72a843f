//! Times and durations as people write them.
//!
//! ```
//! use std::time::Duration;
//! use stead::Timestamp;
//! use stead::time_text::{parse_duration, parse_time};
//!
//! assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7_200)));
//! let now = Timestamp::from_secs(10_000);
//! assert_eq!(parse_time("2h", now), Ok(Timestamp::from_secs(2_800)));
//! ```

use std::time::Duration;

use stead_core::Timestamp;

/// Parses a time, a day, or how long before `now`: `2026-11-15T08:30:00Z`, `2026-11-15`, `2h`.
pub fn parse_time(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Some(ago) = parse_nanoseconds(text) {
        return Ok(Timestamp(now.0.saturating_sub(ago)));
    }
    text.parse().map_err(|error| format!("{error}; or how long ago: 30m, 2h, 7d"))
}

/// Parses a duration: `30m`, `12h`, `30d`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let nanos = parse_nanoseconds(text).and_then(|nanos| u64::try_from(nanos).ok());
    let error = || format!("`{}` isn't a valid duration; write 30m, 12h or 30d", text.escape_debug());
    nanos.map(Duration::from_nanos).ok_or_else(error)
}

/// Parses a duration such as `2h` into nanoseconds; `None` if it isn't one, or is too long.
fn parse_nanoseconds(text: &str) -> Option<i64> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    let number = &text[..text.len() - 1];
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: i64 = is_number.then(|| number.parse().ok())??;
    number.checked_mul(unit)?.checked_mul(1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_timestamp_a_day_or_how_long_ago() {
        let now = Timestamp::from_secs(1_000_000);
        let parse = |text| parse_time(text, now).map(Timestamp::as_secs);
        assert_eq!(parse("30m"), Ok(1_000_000 - 1_800));
        assert_eq!(parse("2h"), Ok(1_000_000 - 7_200));
        assert_eq!(parse("7d"), Ok(1_000_000 - 604_800));
        assert_eq!(parse("1970-01-02"), Ok(86_400));
        assert_eq!(parse("1970-01-01T01:00:00+01:00"), Ok(0));
        for invalid in ["", "h", "-2h", "2x", "99999999999999999999d", "é"] {
            assert!(parse(invalid).unwrap_err().contains("30m, 2h, 7d"), "{invalid}");
        }
    }
}
