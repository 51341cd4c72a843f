//! One component of a path as a Store holds it: any bytes that the host allows.
//!
//! A name on a disk may contain a newline, an escape sequence or bytes that aren't UTF-8. Names are always displayed
//! escaped, so that none can forge a line of output or control a terminal.
//!
//! ```
//! use stead_core::Name;
//!
//! assert!(Name::new(*b"a/b").is_none(), "a name is one component");
//! let name = Name::new(*b"line\nbreak").expect("a host allows this name");
//! assert!(!name.to_string().contains('\n'), "it is displayed escaped");
//! ```

use std::fmt;

use serde::{Serialize, Serializer};

/// A directory entry's name: any bytes but NUL and `/`, and neither `.` nor `..`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Checks a name that a Store found; `None` if no directory entry can have it.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Option<Self> {
        let bytes = bytes.into();
        let is_valid = !bytes.is_empty()
            && &*bytes != b"."
            && &*bytes != b".."
            && !bytes.contains(&0)
            && !bytes.contains(&b'/');
        is_valid.then_some(Name(bytes))
    }

    /// The name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name as text if it can be part of a path: valid UTF-8 without control characters or backslashes.
    pub fn as_path_component(&self) -> Option<&str> {
        let text = std::str::from_utf8(&self.0).ok()?;
        (!text.chars().any(|c| c.is_control() || c == '\\')).then_some(text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape_name(&self.0).fmt(f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether the text is 1 to 64 lower-case letters, digits, `_` and `.`, and begins with a letter.
pub(crate) fn is_plain_identifier(text: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.');
    text.len() <= 64
        && text.bytes().all(is_plain)
        && text.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
}

/// Displays a name or a path with everything escaped that could mislead a reader or control a terminal.
///
/// Different names are displayed differently: a `\` is doubled, because a single one begins an escape.
pub fn escape_name(bytes: &[u8]) -> Escaped<'_> {
    Escaped { bytes, backslash: "\\\\", is_name: true }
}

/// What to write for the first escape of a listed name that a caller wrote as it was shown, after a semicolon. `None` if
/// the text has no escape of a character that a path can contain.
pub(crate) fn escape_hint(text: &str) -> Option<String> {
    text.match_indices("\\u{").find_map(|(start, prefix)| {
        let (code, _) = text[start + prefix.len()..].split_once('}')?;
        let character = char::from_u32(u32::from_str_radix(code, 16).ok()?)?;
        let is_escaped = is_misleading(character) || is_invisible(character);
        (is_escaped && !character.is_control()).then(|| {
            let code = u32::from(character);
            format!(
                "; `\\u{{{code:x}}}` in a listed name stands for the invisible character U+{code:04X}: pass that \
                 character itself, in JSON as \\u{code:04x}"
            )
        })
    })
}

/// Displays text, such as a pattern or a line of a file, with everything escaped that could control a terminal. A `\`
/// is an ordinary character here and stays single.
pub fn escape_text(text: &str) -> Escaped<'_> {
    Escaped { bytes: text.as_bytes(), backslash: "\\", is_name: false }
}

/// Displays a line of a file for a reader who decides about it: like [`escape_text`], and invisible characters and bytes that
/// aren't UTF-8 are escaped, too.
pub fn escape_line(bytes: &[u8]) -> Escaped<'_> {
    Escaped { bytes, backslash: "\\", is_name: true }
}

/// Returned by [`escape_name`] and [`escape_text`]; escapes when displayed.
#[derive(Debug, Clone, Copy)]
pub struct Escaped<'a> {
    bytes: &'a [u8],
    /// The text for a backslash.
    backslash: &'static str,
    /// Whether invisible characters are escaped, too: two names that differ only by one would look the same.
    is_name: bool,
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Most names need no escaping and are written in one call.
        if self.bytes.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'\\') {
            return f.write_str(std::str::from_utf8(self.bytes).expect("these bytes are ASCII"));
        }
        for chunk in self.bytes.utf8_chunks() {
            for character in chunk.valid().chars() {
                if is_misleading(character) || self.is_name && is_invisible(character) {
                    write!(f, "{}", character.escape_unicode())?;
                } else if character == '\\' {
                    f.write_str(self.backslash)?;
                } else {
                    fmt::Write::write_char(f, character)?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Whether a character is a control character, a line or paragraph separator, or a text direction mark.
fn is_misleading(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character has no width and belongs to no script: a soft hyphen, a space of width zero, a joiner of words or a
/// byte order mark. The joiners of letters and emoji aren't among them, since names need them.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// Folds a name as a case-insensitive file system may compare it: lower case, without the characters that Unicode lets
/// a comparison ignore, and with ligatures expanded.
pub fn case_fold(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '\u{17f}' => folded.push('s'),
            '\u{fb00}' => folded.push_str("ff"),
            '\u{fb01}' => folded.push_str("fi"),
            '\u{fb02}' => folded.push_str("fl"),
            '\u{fb03}' => folded.push_str("ffi"),
            '\u{fb04}' => folded.push_str("ffl"),
            '\u{fb05}' | '\u{fb06}' => folded.push_str("st"),
            '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}' => {}
            other => folded.extend(other.to_lowercase()),
        }
    }
    folded
}

/// Decodes octal escapes (`\040` for a space), which the kernel uses for paths in its table of mounts.
pub fn unescape_octal(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, more)) = rest.split_first() {
        let octal = more.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if first == b'\\' => {
                bytes.push(byte);
                rest = &more[3..];
            }
            _ => {
                bytes.push(first);
                rest = more;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_forge_a_line_or_control_a_terminal() {
        let name = Name::new(*b"a\n\x1b[31mb\xff").unwrap();
        assert_eq!(name.to_string(), "a\\u{a}\\u{1b}[31mb\\xff");
        assert_eq!(name.as_path_component(), None);
        assert_eq!(Name::new("caf\u{e9}\u{202e}".as_bytes()).unwrap().to_string(), "caf\u{e9}\\u{202e}");
    }

    #[test]
    fn names_that_differ_are_displayed_differently() {
        let displayed = |name: &[u8]| Name::new(name).unwrap().to_string();
        assert_eq!(displayed(b"a\\u{a}b"), "a\\\\u{a}b");
        assert_ne!(displayed(b"a\\u{a}b"), displayed(b"a\nb"));
        assert_ne!(displayed(b"\\xff"), displayed(b"\xff"));
        for invisible in ["\u{61c}", "\u{200b}", "\u{2060}", "\u{feff}", "\u{ad}"] {
            assert!(
                displayed(format!("a{invisible}b").as_bytes()).is_ascii(),
                "{}",
                invisible.escape_unicode()
            );
        }
        let family = "\u{1f468}\u{200d}\u{1f469}";
        assert_eq!(displayed(family.as_bytes()), family);
        assert_eq!(escape_text("\\d+\n").to_string(), "\\d+\\u{a}");
    }

    #[test]
    fn names_that_no_entry_can_have_are_refused() {
        for bytes in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
            assert!(Name::new(bytes).is_none());
        }
        assert_eq!(Name::new(*b"...").unwrap().as_path_component(), Some("..."));
    }

    #[test]
    fn octal_escapes_are_decoded_byte_for_byte() {
        assert_eq!(unescape_octal(br"/mnt/a\040b\134c"), br"/mnt/a b\c");
        assert_eq!(unescape_octal(br"/plain\x"), br"/plain\x");
        assert_eq!(unescape_octal(b"/not/\xff/utf-8"), b"/not/\xff/utf-8");
    }
}
