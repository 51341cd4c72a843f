//! Timestamps, and the clock as a value that callers pass in.
//!
//! ```
//! use std::time::Duration;
//! use stead_core::clock::{Clock, FixedClock, Timestamp};
//!
//! let clock = FixedClock::at("2026-11-16T08:30:00Z".parse()?);
//! clock.advance(Duration::from_secs(90));
//! assert_eq!(clock.now().to_string(), "2026-11-16T08:31:30.000Z");
//! assert!(clock.now() > Timestamp::from_secs(0));
//! # Ok::<(), stead_core::clock::InvalidTimestamp>(())
//! ```

use std::fmt::Debug;
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A point in time: nanoseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The timestamp this many whole seconds after 1970.
    pub fn from_secs(seconds: i64) -> Self {
        Timestamp(seconds.saturating_mul(1_000_000_000))
    }

    /// Whole seconds since 1970, rounded down.
    pub fn as_secs(self) -> i64 {
        self.0.div_euclid(1_000_000_000)
    }

    /// Whole milliseconds since 1970, rounded down.
    pub fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// The time from `earlier` to this; zero if that is later.
    pub fn duration_since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The nanoseconds beyond [`Timestamp::as_secs`].
    pub fn subsec_nanos(self) -> u32 {
        u32::try_from(self.0.rem_euclid(1_000_000_000)).expect("a remainder below 10^9")
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let nanos = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
        };
        Timestamp(nanos)
    }
}

impl std::fmt::Display for Timestamp {
    /// Writes RFC 3339 in UTC. The formatter's precision sets the digits after the second, 1 to 9; the default is 3.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.as_secs();
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        let digits = f.precision().unwrap_or(3).clamp(1, 9);
        let fraction = i64::from(self.subsec_nanos() / 10_u32.pow(9 - digits as u32));
        // Listings have many times, and `write!` takes longer than all the arithmetic.
        let mut text = *b"0000-00-00T00:00:00.000000000Z";
        let parts = [
            (0, 4, year),
            (5, 2, month),
            (8, 2, day),
            (11, 2, hour),
            (14, 2, minute),
            (17, 2, second),
            (20, digits, fraction),
        ];
        for (start, width, mut number) in parts {
            for digit in text[start..start + width].iter_mut().rev() {
                *digit = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
        text[20 + digits] = b'Z';
        f.write_str(std::str::from_utf8(&text[..21 + digits]).expect("digits are text"))
    }
}

/// The text isn't a valid time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` isn't a valid time; write it as 2026-11-15T08:30:00Z, or only the date, which means midnight UTC"
)]
pub struct InvalidTimestamp(String);

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    /// Parses RFC 3339 with any offset, or a date alone, which means midnight UTC.
    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        parse_rfc3339(text)
            .ok_or_else(|| InvalidTimestamp(crate::name::escape_name(text.as_bytes()).to_string()))
    }
}

fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if digits { text.parse::<i64>().ok() } else { None }
    };
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, time),
        None => (text, "00:00:00Z"),
    };
    if date.len() != 10 {
        return None;
    }
    let mut parts = date.split('-').map(number);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let days = days_from_civil(year, month, day);
    // A date that doesn't exist, such as 30 February, comes back as another date.
    if parts.next().is_some() || civil_from_days(days) != (year, month, day) {
        return None;
    }
    let offset_at = time.find(['Z', 'z', '+', '-'])?;
    let (time, offset) = time.split_at(offset_at);
    let offset = match offset {
        "Z" | "z" => 0,
        _ => {
            let (hours, minutes) = offset.get(1..)?.split_once(':')?;
            let (hours, minutes) = (number(hours)?, number(minutes)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let seconds = hours * 3600 + minutes * 60;
            if offset.starts_with('-') { -seconds } else { seconds }
        }
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = time.split(':').map(number);
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    number(fraction)?;
    let nanos = number(&format!("{fraction:0<9}")[..9])?;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos).map(Timestamp)
}

/// The day number of a Gregorian date, counted from 1970-01-01: the inverse of [`civil_from_days`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (cycle, year_of_cycle) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    cycle * 146_097 + year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year - 719_468
}

/// The Gregorian date of a day number counted from 1970-01-01. It counts in 400-year cycles that begin on 1 March.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let cycle = shifted.div_euclid(146_097);
    let day_of_cycle = shifted.rem_euclid(146_097);
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
    (year, month, day)
}

/// A source of the current time.
pub trait Clock: Debug + Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// A clock that stands still until [`FixedClock::advance`] moves it.
#[derive(Debug, Default)]
pub struct FixedClock(AtomicI64);

impl FixedClock {
    /// A clock that shows this time.
    pub fn at(time: Timestamp) -> Self {
        FixedClock(AtomicI64::new(time.0))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let nanos = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_displayed_as_a_date() {
        assert_eq!(Timestamp::default().to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp(951_826_154_987_654_321).to_string(), "2000-02-29T12:09:14.987Z");
        assert_eq!(Timestamp(-1).to_string(), "1969-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::from_secs(4_107_542_399).to_string(), "2100-02-28T23:59:59.000Z");
        assert_eq!(Timestamp::from_secs(4_107_542_400).to_string(), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn a_timestamp_is_parsed_as_it_is_displayed() {
        for nanos in [0, -1, 951_826_154_987_654_321, 4_107_542_399_000_000_001, 1_700_000_000_123_456_789] {
            let time = Timestamp(nanos);
            assert_eq!(format!("{time:.9}").parse(), Ok(time));
        }
        let parse = |text: &str| text.parse::<Timestamp>().map(|time| time.to_string());
        assert_eq!(parse("2000-02-29").unwrap(), "2000-02-29T00:00:00.000Z");
        assert_eq!(parse("2026-11-15T01:30:00.5+02:00").unwrap(), "2026-11-14T23:30:00.500Z");
        assert_eq!(parse("2026-11-15 23:30:00-00:30").unwrap(), "2026-11-16T00:00:00.000Z");
        for invalid in [
            "",
            "soon",
            "2026-02-29",
            "2026-13-01",
            "2026-1-1",
            "2026-11-15T24:00:00Z",
            "2026-11-15T01:00:00",
            "2026-11-15T01:00:00.Z",
            "+026-11-15",
            "2026-11-15T01:00:00.-1Z",
            "2026-11-15T01:00:00+24:00",
            "2026-11-15T01:00:00+01:60",
            "2026-11-15T01:00:00+999999999999999999:00",
            "9223372036854775807-01-01",
            "2026-9223372036854775807-01",
        ] {
            assert!(parse(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn a_fixed_clock_moves_only_when_advanced() {
        let clock = FixedClock::at(Timestamp::from_secs(5));
        assert_eq!(clock.now(), clock.now());
        clock.advance(Duration::from_secs(2));
        assert_eq!(clock.now(), Timestamp::from_secs(7));
    }
}
