//! Times and durations as people write them.
//!
//! A time without a time zone is local, and a day means its beginning.
//!
//! ```
//! use std::time::Duration;
//! use stead::Timestamp;
//! use stead::time_text::{parse_duration, parse_time};
//!
//! assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7_200)));
//! let now = Timestamp::from_secs(10_000);
//! assert_eq!(parse_time("2h", now), Ok(Timestamp::from_secs(2_800)));
//! assert_eq!(parse_time("1970-01-01T01:00:00Z", now), Ok(Timestamp::from_secs(3_600)));
//! ```

use std::time::Duration;

use jiff::Zoned;
use jiff::civil::{Date, Time};
use jiff::fmt::friendly::SpanParser;
use jiff::tz::TimeZone;
use stead_core::Timestamp;
use stead_core::name::escape_text;

/// How times can be written, for error messages and help texts.
pub const TIME_EXAMPLES: &str =
    "2h, 2 hours ago, 10:30, yesterday, 2026-11-15, 2026-11-15 08:30 or 2026-11-15T08:30:00Z";

/// Parses a time of the past as people write it: see [`TIME_EXAMPLES`]. Without a zone it is in the zone of this
/// machine (`TZ`, or the system's).
///
/// - An age is counted back from `now`: `2h`, `1h30m`, `2 days ago`. Days and longer units keep the time of day.
/// - `10:30` is the last time that the clock showed it.
/// - `today`, `yesterday` and a date mean the beginning of that day, or the time of day that follows.
pub fn parse_time(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    parse_time_in(text, &to_zoned(now, TimeZone::system()))
        .ok_or_else(|| format!("`{}` isn't a valid time; write it as {TIME_EXAMPLES}", escape_text(text)))
}

/// A time in the zone of this machine, to the minute: `2026-11-15 08:30`.
pub fn format_minute(time: Timestamp) -> String {
    format_in(&to_zoned(time, TimeZone::system()), "%Y-%m-%d %H:%M")
}

/// A time in the zone of this machine, to the millisecond: `2026-11-15 08:30:00.123`.
pub fn format_millisecond(time: Timestamp) -> String {
    format_in(&to_zoned(time, TimeZone::system()), "%Y-%m-%d %H:%M:%S.%3f")
}

fn format_in(time: &Zoned, format: &str) -> String {
    time.strftime(format).to_string()
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

fn to_zoned(time: Timestamp, zone: TimeZone) -> Zoned {
    let time = jiff::Timestamp::from_nanosecond(time.0.into());
    time.expect("64 bits of nanoseconds reach from 1677 to 2262").to_zoned(zone)
}

/// The timestamp; `None` if it is before 1677 or after 2262.
fn to_timestamp(time: jiff::Timestamp) -> Option<Timestamp> {
    i64::try_from(time.as_nanosecond()).ok().map(Timestamp)
}

/// Parses a time in the zone of `now`.
fn parse_time_in(text: &str, now: &Zoned) -> Option<Timestamp> {
    let text = text.trim();
    let words = text.to_ascii_lowercase();
    if words == "now" {
        return to_timestamp(now.timestamp());
    }
    parse_age(&words, now).or_else(|| parse_local(&words, now)).or_else(|| parse_with_offset(text))
}

/// Parses how long ago: `2h`, `2 hours ago`, `a week ago`.
fn parse_age(words: &str, now: &Zoned) -> Option<Timestamp> {
    if words.starts_with(['+', '-']) {
        return None;
    }
    let one = words.strip_prefix("an ").or_else(|| words.strip_prefix("a ")).map(|rest| format!("1 {rest}"));
    let span = SpanParser::new().parse_span(one.as_deref().unwrap_or(words)).ok()?;
    // Before all times that Stead knows is the same as at the beginning.
    let time = now.checked_sub(span.abs()).ok().and_then(|time| to_timestamp(time.timestamp()));
    Some(time.unwrap_or(Timestamp(i64::MIN)))
}

/// Parses a day, a time of day, or both, without a zone.
///
/// If the clocks were set forward over a time, the time just as long after the gap is meant; if they were set back
/// over it, the first of the two.
fn parse_local(words: &str, now: &Zoned) -> Option<Timestamp> {
    let zone = now.time_zone();
    let at = |date: Date, time: Time| date.to_datetime(time).to_zoned(zone.clone()).ok();
    let (date, rest) = match split_day(words, now) {
        Some(day) => day,
        None => {
            let time = parse_time_of_day(words)?;
            let today = at(now.date(), time).filter(|time| time <= now);
            let last = today.or_else(|| at(now.date().yesterday().ok()?, time))?;
            return to_timestamp(last.timestamp());
        }
    };
    let time = match rest {
        "" => Time::midnight(),
        rest => {
            let rest = rest.strip_prefix([' ', 't'])?;
            parse_time_of_day(rest.strip_prefix("at ").unwrap_or(rest))?
        }
    };
    to_timestamp(at(date, time)?.timestamp())
}

/// The day that a text begins with, and the rest of the text.
fn split_day<'a>(words: &'a str, now: &Zoned) -> Option<(Date, &'a str)> {
    if let Some(rest) = words.strip_prefix("today") {
        return Some((now.date(), rest));
    }
    if let Some(rest) = words.strip_prefix("yesterday") {
        return Some((now.date().yesterday().ok()?, rest));
    }
    let (date, rest) = words.split_at_checked("2026-11-15".len())?;
    let is_date = date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    Some((is_date.then(|| date.parse().ok())??, rest))
}

/// Parses `10:30`, `9:30` or `10:30:15.5`.
fn parse_time_of_day(text: &str) -> Option<Time> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.'));
    match text.find(':') {
        Some(1) if is_plain => format!("0{text}").parse().ok(),
        Some(2) if is_plain => text.parse().ok(),
        _ => None,
    }
}

/// Parses a date and a time with an offset from UTC, as RFC 3339 and `date` write it: `2026-11-15 08:30 +0100`.
fn parse_with_offset(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    let joined = match text.rsplit_once(' ') {
        Some((time, offset)) if offset.starts_with(['+', '-']) => format!("{time}{offset}"),
        _ => text.to_owned(),
    };
    joined.parse().ok().and_then(to_timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses in a zone, given as in `TZ`, at a time there, and returns the time in UTC.
    fn parse_at(zone: &str, now: &str, text: &str) -> Option<String> {
        let zone = TimeZone::posix(zone).unwrap();
        let now: jiff::Timestamp = now.parse().unwrap();
        parse_time_in(text, &now.to_zoned(zone)).map(|time| time.to_string().replace(".000Z", "Z"))
    }

    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
    const NEW_YORK: &str = "EST5EDT,M3.2.0,M11.1.0";

    #[test]
    fn times_are_read_as_people_say_them() {
        let parse = |text| parse_at(BERLIN, "2026-11-16T08:00:00Z", text);
        for (text, expected) in [
            ("now", "2026-11-16T08:00:00Z"),
            ("2h", "2026-11-16T06:00:00Z"),
            ("1h30m", "2026-11-16T06:30:00Z"),
            ("2 hours ago", "2026-11-16T06:00:00Z"),
            ("an hour ago", "2026-11-16T07:00:00Z"),
            ("7d", "2026-11-09T08:00:00Z"),
            ("2w", "2026-11-02T08:00:00Z"),
            ("1 Month ago", "2026-10-16T07:00:00Z"),
            ("today", "2026-11-15T23:00:00Z"),
            ("Yesterday", "2026-11-14T23:00:00Z"),
            ("yesterday 10:30", "2026-11-15T09:30:00Z"),
            ("today at 8:05", "2026-11-16T07:05:00Z"),
            ("8:05", "2026-11-16T07:05:00Z"),
            ("2026-11-15", "2026-11-14T23:00:00Z"),
            ("2026-11-15 08:30", "2026-11-15T07:30:00Z"),
            ("2026-11-15T08:30:15.5", "2026-11-15T07:30:15.500Z"),
            ("2026-11-15T08:30:00Z", "2026-11-15T08:30:00Z"),
            ("2026-11-15T08:30Z", "2026-11-15T08:30:00Z"),
            ("2026-11-15 08:30:00+02:00", "2026-11-15T06:30:00Z"),
            ("2026-11-15 08:30:00 -0500", "2026-11-15T13:30:00Z"),
        ] {
            assert_eq!(parse(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_time_of_day_that_has_not_come_yet_is_yesterdays() {
        let now = "2026-11-16T08:00:00Z";
        assert_eq!(parse_at(BERLIN, now, "09:00").as_deref(), Some("2026-11-16T08:00:00Z"));
        assert_eq!(parse_at(BERLIN, now, "09:01").as_deref(), Some("2026-11-15T08:01:00Z"));
    }

    #[test]
    fn times_around_a_change_of_the_clocks_are_found() {
        // New York, 8 March 2026: 02:00 became 03:00.
        let spring = "2026-03-08T20:00:00Z";
        assert_eq!(parse_at(NEW_YORK, spring, "today").as_deref(), Some("2026-03-08T05:00:00Z"));
        assert_eq!(parse_at(NEW_YORK, spring, "02:30").as_deref(), Some("2026-03-08T07:30:00Z"));
        assert_eq!(parse_at(NEW_YORK, spring, "1 day ago").as_deref(), Some("2026-03-07T21:00:00Z"));
        assert_eq!(parse_at(NEW_YORK, spring, "24h").as_deref(), Some("2026-03-07T20:00:00Z"));
        // 1 November 2026: 02:00 became 01:00, so 01:30 came twice.
        let autumn = "2026-11-01T06:20:00Z";
        assert_eq!(parse_at(NEW_YORK, autumn, "01:30").as_deref(), Some("2026-11-01T05:30:00Z"));
        assert_eq!(parse_at(NEW_YORK, autumn, "today").as_deref(), Some("2026-11-01T04:00:00Z"));
        // A zone whose clocks are set forward at midnight: the day begins at 01:00.
        let beirut = "EET-2EEST,M3.5.0/0,M10.5.0/0";
        assert_eq!(
            parse_at(beirut, "2026-03-29T10:00:00Z", "today").as_deref(),
            Some("2026-03-28T22:00:00Z")
        );
    }

    #[test]
    fn a_time_is_shown_in_the_zone_and_read_back() {
        let time = Timestamp(951_826_154_987_654_321);
        let zoned = to_zoned(time, TimeZone::posix(NEW_YORK).unwrap());
        assert_eq!(format_in(&zoned, "%Y-%m-%d %H:%M"), "2000-02-29 07:09");
        let shown = format_in(&zoned, "%Y-%m-%d %H:%M:%S.%3f");
        assert_eq!(shown, "2000-02-29 07:09:14.987");
        assert_eq!(parse_time_in(&shown, &zoned), Some(Timestamp(951_826_154_987_000_000)));
    }

    #[test]
    fn a_text_that_is_not_a_time_gets_examples() {
        let now = Timestamp::from_secs(1_000_000);
        for invalid in [
            "",
            "h",
            "-2h",
            "2x",
            "soon",
            "99999999999999999999d",
            "é",
            "2026-02-29",
            "25:00",
            "10:30Z",
            "20261115",
            "12",
            "todayx",
            "tomorrow",
        ] {
            let error = parse_time(invalid, now).expect_err(invalid);
            assert!(error.contains("2 hours ago, 10:30, yesterday"), "{error}");
        }
    }

    #[test]
    fn an_age_beyond_all_history_is_its_beginning() {
        assert_eq!(parse_time("1000 years ago", Timestamp::from_secs(0)), Ok(Timestamp(i64::MIN)));
        assert_eq!(parse_time("200000d", Timestamp::from_secs(0)), Ok(Timestamp(i64::MIN)));
    }
}
