//! Values: the content of a key's file.
//!
//! The content is the JSON text exactly as it was given. If the key expires, a line `@NANOSECONDS` comes first, which
//! no JSON text begins with; and the file has the mode [`EXPIRING_MODE`], so that a listing tells which files have to be
//! read to know what has expired.

use serde::de::IgnoredAny;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::store::StoreError;

/// The longest value, in bytes.
pub const MAX_VALUE: usize = 1 << 20;
/// The largest content: a value, and a line with the time at which it expires.
pub(super) const MAX_CONTENT: u64 = MAX_VALUE as u64 + 32;

/// The mode of a key's file that expires.
pub(super) const EXPIRING_MODE: u32 = 0o600;
/// The mode of a key's file that doesn't.
pub(super) const LASTING_MODE: u32 = 0o644;

/// Fails if a text isn't JSON or is too long.
pub(super) fn check_value(value: &str) -> Result<()> {
    if value.len() > MAX_VALUE {
        return Err(Error::StateValueTooLarge { size: value.len() as u64, limit: MAX_VALUE as u64 });
    }
    serde_json::from_str::<IgnoredAny>(value).map(drop).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let cause = error.to_string();
        // The position is at the end of the message, too.
        let cause = cause.split(" at line ").next().unwrap_or_default();
        Error::Invalid(format!(
            "the value isn't valid JSON: {cause} at line {line}, column {column}; a text has to be in quotes, as in \
             \"\\\"done\\\"\""
        ))
    })
}

/// The content of a key's file, and its mode.
pub(super) fn encode(value: &str, expires_at: Option<Timestamp>) -> (Vec<u8>, u32) {
    match expires_at {
        Some(Timestamp(nanoseconds)) => (format!("@{nanoseconds}\n{value}").into_bytes(), EXPIRING_MODE),
        None => (value.as_bytes().to_vec(), LASTING_MODE),
    }
}

/// The value in a key's file, and when it expires.
pub(super) fn decode(content: Vec<u8>) -> Result<(String, Option<Timestamp>), StoreError> {
    let damaged = || StoreError::Corrupt("a value of the State has an unknown form".into());
    let mut text = String::from_utf8(content).map_err(|_| damaged())?;
    let Some((first_line, rest)) = text.strip_prefix('@').and_then(|text| text.split_once('\n')) else {
        return if text.starts_with('@') { Err(damaged()) } else { Ok((text, None)) };
    };
    let expires_at = first_line.parse().map(Timestamp).map_err(|_| damaged())?;
    let start = text.len() - rest.len();
    Ok((text.split_off(start), Some(expires_at)))
}

/// The value in a key's file, without when it expires.
pub(in crate::vfs) fn state_value(content: Vec<u8>) -> Result<Vec<u8>, StoreError> {
    Ok(decode(content)?.0.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s17_a_value_is_kept_exactly_as_given() {
        for value in ["1", " {\"a\" : 1.0}\n", "\"@5\\n\"", "1e400", "{\"a\":1,\"a\":2}"] {
            check_value(value).unwrap();
            for expires_at in [None, Some(Timestamp(-5)), Some(Timestamp(i64::MAX))] {
                let (content, _) = encode(value, expires_at);
                assert!(content.len() as u64 <= MAX_CONTENT);
                assert_eq!(decode(content).unwrap(), (value.to_owned(), expires_at));
            }
        }
        for content in ["@", "@5", "@x\n1"] {
            assert!(matches!(decode(content.into()), Err(StoreError::Corrupt(_))), "{content}");
        }
    }

    #[test]
    fn s17_a_value_that_is_not_json_is_refused_with_its_position() {
        let message = |value: &str| check_value(value).unwrap_err().to_string();
        assert_eq!(
            message("{\n \"a\": done}"),
            "the value isn't valid JSON: expected value at line 2, column 7; a text has to be in quotes, as in \
             \"\\\"done\\\"\""
        );
        for value in ["", "done", "{", "[1,]", "1 2", "NaN", "'a'", "@5\n1", "\u{feff}1"] {
            assert!(message(value).starts_with("the value isn't valid JSON: "), "{value}");
        }
        // Deep nesting is no reason to run out of stack.
        let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
        check_value(&deep).unwrap();
    }

    #[test]
    fn s17_a_value_has_at_most_1_mib() {
        check_value(&format!("\"{}\"", "x".repeat(MAX_VALUE - 2))).unwrap();
        let error = check_value(&format!("\"{}\"", "x".repeat(MAX_VALUE - 1))).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::TooLarge);
        assert_eq!(error.to_string(), "the value has 1048577 bytes; at most 1048576 are allowed");
    }
}
