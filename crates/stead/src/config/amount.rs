//! Reads sizes and durations as people write them (`64MiB`, `14d`), and the tables made of them.

use std::time::Duration;

use stead_core::store::QuotaLimits;
use stead_stores::database::Retention;

use super::section::Section;

const BYTE_UNITS: [(&str, u64); 5] =
    [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
const TIME_UNITS: [(&str, u64); 5] = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400), ("w", 7 * 86_400)];

/// Parses a number of bytes.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    parse_with_unit(text, &BYTE_UNITS).ok_or_else(|| {
        let text = text.escape_debug();
        format!("`{text}` isn't a valid size; write a number with a unit: \"64MiB\" (B, KiB, MiB, GiB, TiB)")
    })
}

/// Parses a duration.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    parse_with_unit(text, &TIME_UNITS).map(Duration::from_secs).ok_or_else(|| {
        let text = text.escape_debug();
        format!("`{text}` isn't a valid duration; write a number with a unit: \"14d\" (s, m, h, d, w)")
    })
}

/// Reads `quota = { bytes = "1GiB", files = 10000, file_bytes = "64MiB" }`.
pub(super) fn read_quota(section: &Section<'_>) -> QuotaLimits {
    read_quota_at(section, "quota").unwrap_or_default()
}

/// Reads the quota under a key.
pub(super) fn read_quota_at(section: &Section<'_>, key: &'static str) -> Option<QuotaLimits> {
    let mut limits = QuotaLimits::default();
    let quota = section.table(key)?;
    for (key, limit) in [("bytes", &mut limits.bytes), ("file_bytes", &mut limits.file_bytes)] {
        if let Some(text) = quota.text(key) {
            match parse_bytes(text.value) {
                Ok(parsed) => *limit = Some(parsed),
                Err(message) => quota.reject_value(&text, message),
            }
        }
    }
    limits.files = quota.number("files").map(|number| number.value);
    quota.reject_unknown_keys();
    Some(limits)
}

/// Reads `[history]`: how long versions are kept.
pub(super) fn read_history(top: &Section<'_>) -> Retention {
    let mut retention = Retention::default();
    let Some(history) = top.table("history") else { return retention };
    if let Some(age) = history.text("age") {
        match parse_duration(age.value) {
            Ok(parsed) => retention.age = parsed,
            Err(message) => history.reject_value(&age, message),
        }
    }
    if let Some(versions) = history.number("versions") {
        retention.versions = versions.value;
    }
    history.reject_unknown_keys();
    retention
}

fn parse_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_units() {
        assert_eq!(parse_bytes("64MiB"), Ok(64 << 20));
        assert_eq!(parse_bytes("0B"), Ok(0));
        assert_eq!(parse_bytes("3 KiB"), Ok(3 << 10));
        assert_eq!(parse_duration("14d"), Ok(Duration::from_secs(14 * 86_400)));
        for wrong in ["", "64", "MiB", "64mb", "-1B", "1.5GiB", "99999999TiB", "64MiB "] {
            assert!(parse_bytes(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
        assert!(parse_duration("14").is_err());
    }
}
