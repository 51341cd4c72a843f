//! The documents that `--json` prints. Scripts depend on their fields: `docs/reference/json.md` describes them, and
//! `docs/reference/json.schema.json` is made from the types here.
//!
//! Names are in snake_case and mean the same in every document: `path`, `kind`, `size` and `version_tag` of a file;
//! `version`, `operation` and `at` of a change.

mod files;
mod history;
mod managed;
mod operator;
mod organizations;
#[cfg(test)]
mod schema;
mod state;
mod threads;

pub(crate) use files::*;
pub(crate) use history::*;
pub(crate) use managed::*;
pub(crate) use operator::*;
pub(crate) use organizations::*;
pub(crate) use state::*;
pub(crate) use threads::*;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde::Serialize;
use serde_json::Value;
use stead::{RevisionId, Timestamp, VersionTag};

/// A failed command. The code is one of `not_found`, `already_exists`, `denied`, `conflict`, `invalid`, `unsupported`,
/// `unavailable`, `too_large`, `quota`, `expired` and `corrupt`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ErrorDocument<'a> {
    error: ErrorDetail<'a>,
}

/// Why a command failed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ErrorDetail<'a> {
    /// The kind of failure.
    code: &'a str,
    /// What is wrong and what to do, as a sentence.
    message: &'a str,
}

/// An error.
pub(crate) fn error(code: &str, message: &str) -> Value {
    to_value(&ErrorDocument { error: ErrorDetail { code, message } })
}

fn to_value(document: &impl Serialize) -> Value {
    serde_json::to_value(document).expect("a document has only texts as keys")
}

/// Times are RFC 3339 in UTC.
fn time(time: Option<Timestamp>) -> Option<String> {
    time.map(|time| time.to_string())
}

fn version_tag(tag: Option<VersionTag>) -> Option<String> {
    tag.map(|tag| tag.to_string())
}

fn version(revision: Option<RevisionId>) -> Option<i64> {
    revision.map(|revision| revision.number.0)
}

/// Permission bits in octal.
fn mode(mode: u32) -> String {
    format!("{mode:04o}")
}

fn texts<T: ToString>(items: impl IntoIterator<Item = T>) -> Vec<String> {
    items.into_iter().map(|item| item.to_string()).collect()
}

/// Bytes as base64.
fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_base64() {
        // The test vectors of RFC 4648.
        let pairs = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ];
        for (plain, encoded) in pairs {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfd]), "//79");
    }
}
