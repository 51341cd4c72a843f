//! What `--json` prints: the fields here are what others script against.

use serde_json::{Value, json};
use stead::vfs::{ContentDiff, Copied, Difference, DirEntry, Stat, Unreadable, Walked, Written};
use stead::{Fork, Timestamp, VersionTag};

/// A failure.
pub(crate) fn error(code: &str, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message } })
}

fn time(time: Option<Timestamp>) -> Value {
    time.map_or(Value::Null, |time| time.to_string().into())
}

fn tag(tag: Option<VersionTag>) -> Value {
    tag.map_or(Value::Null, |tag| tag.to_string().into())
}

/// Permission bits in octal, as everyone reads them.
fn mode(mode: u32) -> String {
    format!("{mode:04o}")
}

/// An entry of a directory.
pub(crate) fn entry(entry: &DirEntry) -> Value {
    json!({
        "name": entry.name.to_string(),
        "kind": entry.kind.word(),
        "size": entry.size,
        "mode": mode(entry.mode),
        "modified": time(entry.modified),
        "tag": tag(entry.tag),
        "workspace": entry.workspace.map(|scope| scope.name()),
    })
}

/// Something below a directory.
pub(crate) fn walked(walked: &Walked) -> Value {
    json!({
        "path": walked.path,
        "kind": walked.kind.word(),
        "size": walked.size,
        "mode": mode(walked.mode),
        "modified": time(walked.modified),
        "tag": tag(walked.tag),
    })
}

/// What is known of a path.
pub(crate) fn stat(stat: &Stat) -> Value {
    json!({
        "path": stat.path.to_string(),
        "kind": stat.kind.word(),
        "size": stat.size,
        "mode": mode(stat.mode),
        "created": time(stat.created),
        "modified": time(stat.modified),
        "tag": tag(stat.tag),
        "mime": stat.mime,
        "scope": stat.scope.map(|scope| scope.name()),
    })
}

/// What a write did.
pub(crate) fn written(written: &Written) -> Value {
    json!({
        "path": written.path.to_string(),
        "created": written.created,
        "tag": tag(written.tag),
        "version": written.version.map(|version| version.0),
        "operation": written.operation.to_string(),
    })
}

/// What a copy or a move did.
pub(crate) fn copied(copied: &Copied) -> Value {
    json!({
        "from": copied.from.to_string(),
        "to": copied.to.to_string(),
        "tag": tag(copied.tag),
        "version": copied.version.map(|version| version.0),
        "operation": copied.operation.to_string(),
    })
}

/// A fork.
pub(crate) fn fork(fork: &Fork) -> Value {
    json!({
        "fork": fork.name.as_str(),
        "path": format!("/forks/{}", fork.name),
        "owner": fork.owner,
        "maker": fork.maker,
        "of": fork.of.to_string(),
        "made": time(Some(fork.made)),
    })
}

/// A path that differs.
pub(crate) fn difference(difference: &Difference) -> Value {
    let (binary, diff) = match &difference.content {
        Some(ContentDiff::Text(text)) => (false, Some(text)),
        Some(ContentDiff::Binary) => (true, None),
        None => (false, None),
    };
    json!({
        "path": difference.path.to_string(),
        "from": difference.from.as_ref().map(ToString::to_string),
        "differs": difference.differs.word(),
        "kind": difference.kind.word(),
        "modes": difference.modes.map(|(old, new)| [mode(old), mode(new)]),
        "sizes": [difference.sizes.0, difference.sizes.1],
        "binary": binary,
        "diff": diff,
    })
}

/// What could not be looked into.
pub(crate) fn unread(unread: &[Unreadable]) -> Value {
    let unreadable =
        |unreadable: &Unreadable| json!({ "path": unreadable.path, "reason": unreadable.reason });
    unread.iter().map(unreadable).collect()
}

/// Bytes that are no text, as base64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0_u32, |group, &byte| group << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for letter in 0..4 {
            let index = (group >> (18 - 6 * letter)) & 63;
            text.push(if letter <= chunk.len() { char::from(LETTERS[index as usize]) } else { '=' });
        }
    }
    text
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
