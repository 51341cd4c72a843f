//! The encoding of a text file, guessed from its bytes: UTF-8, or one of the older ones that editors still write.
//!
//! The guess depends on nothing but the bytes, so that a read and the edit that follows it agree on it.
//!
//! ```
//! use stead_core::TextEncoding;
//!
//! assert_eq!(TextEncoding::of_content(b"caf\xe9\n"), TextEncoding::Windows1252);
//! assert_eq!(TextEncoding::of_content("café\n".as_bytes()), TextEncoding::Utf8);
//! ```

use std::borrow::Cow;
use std::fmt;

use encoding_rs::{Decoder, Encoding, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// How many bytes at the start of a file its encoding is guessed from. A multiple of every code unit's size.
pub(crate) const HEAD_SIZE: usize = 64 << 10;
/// The fewest code units that are recognised as UTF-16 without a byte order mark.
const MIN_UTF_16_UNITS: usize = 4;
/// The most different bytes above ASCII in a row in a Windows-1252 text. In texts of other scripts, whole words consist of
/// such bytes.
const MAX_NON_ASCII_RUN: usize = 3;

/// The encoding of a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextEncoding {
    /// UTF-8, or bytes that none of the others explains.
    Utf8,
    /// Windows-1252, which contains Latin-1.
    Windows1252,
    /// UTF-16, little-endian.
    Utf16Le,
    /// UTF-16, big-endian.
    Utf16Be,
}

impl TextEncoding {
    /// The encoding of a whole file.
    pub fn of_content(content: &[u8]) -> TextEncoding {
        let head = &content[..content.len().min(HEAD_SIZE)];
        // Most files of a search are ASCII, and this is the fastest way to know.
        if utf_16_encoding(head).is_none() && content.is_ascii() {
            return TextEncoding::Utf8;
        }
        let guess = EncodingGuess::from_head(head);
        if guess.is_ascii
            && let Err(error) = std::str::from_utf8(content)
        {
            let start = error.valid_up_to().saturating_sub(HEAD_SIZE / 2);
            let end = content.len().min(start + HEAD_SIZE);
            return guess.of_part(&content[start..end]);
        }
        guess.encoding
    }

    /// The text of a whole file; `None` if it is binary.
    pub(crate) fn decode_content(content: &[u8]) -> Option<Cow<'_, str>> {
        let text = match TextEncoding::of_content(content) {
            TextEncoding::Utf8 => Cow::Borrowed(std::str::from_utf8(content).ok()?),
            encoding => encoding.decode(content),
        };
        (!text.contains('\0')).then_some(text)
    }

    /// The text in this encoding, or the first character that the encoding doesn't have.
    pub fn encode(self, text: &str) -> Result<Cow<'_, [u8]>, char> {
        match self {
            TextEncoding::Utf8 => Ok(Cow::Borrowed(text.as_bytes())),
            TextEncoding::Windows1252 => match WINDOWS_1252.encode(text) {
                (bytes, _, false) => Ok(bytes),
                (_, _, true) => {
                    let is_missing = |c: &char| WINDOWS_1252.encode(c.encode_utf8(&mut [0; 4])).2;
                    Err(text.chars().find(is_missing).expect("the encoder found such a character"))
                }
            },
            TextEncoding::Utf16Le => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            TextEncoding::Utf16Be => Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
        }
    }

    /// The text of some bytes in this encoding, without a UTF-16 byte order mark. Bytes without a meaning are replaced.
    pub fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        match self.of_library() {
            None => String::from_utf8_lossy(bytes),
            Some(encoding) => encoding.decode_with_bom_removal(bytes).0,
        }
    }

    /// Decodes a file part by part, without a UTF-16 byte order mark; `None` for UTF-8.
    pub(crate) fn decoder(self) -> Option<Decoder> {
        self.of_library().map(Encoding::new_decoder_with_bom_removal)
    }

    /// The size of a code unit in bytes. A character begins at a multiple of it.
    pub(crate) fn unit_size(self) -> usize {
        match self {
            TextEncoding::Utf8 | TextEncoding::Windows1252 => 1,
            TextEncoding::Utf16Le | TextEncoding::Utf16Be => 2,
        }
    }

    /// The first line of `bytes`, as the offset after its newline.
    pub(crate) fn find_line_end(self, bytes: &[u8]) -> Option<usize> {
        let newline: [u8; 2] = match self {
            TextEncoding::Utf8 | TextEncoding::Windows1252 => {
                return memchr::memchr(b'\n', bytes).map(|index| index + 1);
            }
            TextEncoding::Utf16Le => *b"\n\0",
            TextEncoding::Utf16Be => *b"\0\n",
        };
        bytes.chunks_exact(2).position(|unit| unit == newline).map(|index| 2 * index + 2)
    }

    /// The length of `bytes` without an incomplete character at the end.
    pub(crate) fn len_without_partial_char(self, bytes: &[u8]) -> usize {
        match self {
            TextEncoding::Utf8 => utf_8_len_without_partial_char(bytes),
            TextEncoding::Windows1252 => bytes.len(),
            TextEncoding::Utf16Le | TextEncoding::Utf16Be => {
                let length = bytes.len() & !1;
                let last = bytes[..length].last_chunk::<2>().map(|unit| self.utf_16_unit(*unit));
                if last.is_some_and(|unit| (0xd800..0xdc00).contains(&unit)) { length - 2 } else { length }
            }
        }
    }

    fn utf_16_unit(self, unit: [u8; 2]) -> u16 {
        if self == TextEncoding::Utf16Be { u16::from_be_bytes(unit) } else { u16::from_le_bytes(unit) }
    }

    fn of_library(self) -> Option<&'static Encoding> {
        match self {
            TextEncoding::Utf8 => None,
            TextEncoding::Windows1252 => Some(WINDOWS_1252),
            TextEncoding::Utf16Le => Some(UTF_16LE),
            TextEncoding::Utf16Be => Some(UTF_16BE),
        }
    }
}

impl fmt::Display for TextEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.of_library().map_or("UTF-8", Encoding::name))
    }
}

/// What the start of a file says about its encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EncodingGuess {
    /// The encoding; [`TextEncoding::Utf8`] for a binary file, too.
    pub(crate) encoding: TextEncoding,
    /// Whether the start is all ASCII, so that a later part may still turn out to be Windows-1252.
    is_ascii: bool,
}

impl EncodingGuess {
    /// The guess from the first [`HEAD_SIZE`] bytes of a file, or from the whole of a smaller one.
    pub(crate) fn from_head(head: &[u8]) -> Self {
        let encoding = utf_16_encoding(head).unwrap_or_else(|| encoding_by_bytes(head));
        EncodingGuess { encoding, is_ascii: head.is_ascii() }
    }

    /// Whether a later part of the file may change the guess.
    pub(crate) fn is_open(self) -> bool {
        self.is_ascii && self.encoding == TextEncoding::Utf8
    }

    /// The guess after the next [`HEAD_SIZE`] bytes of the file, or after the shorter rest of it.
    pub(crate) fn after(self, part: &[u8]) -> Self {
        if !self.is_open() || part.is_ascii() {
            return self;
        }
        EncodingGuess { encoding: encoding_by_bytes(part), is_ascii: false }
    }

    /// The encoding of a part of the file that isn't UTF-8.
    fn of_part(self, part: &[u8]) -> TextEncoding {
        if self.is_ascii && is_windows_1252(part) { TextEncoding::Windows1252 } else { self.encoding }
    }

    /// The text of a part of the file, and its encoding; `None` if no encoding fits. The text may contain NUL.
    pub(crate) fn decode(self, bytes: Vec<u8>) -> Option<(String, TextEncoding)> {
        match self.encoding {
            TextEncoding::Utf8 => match String::from_utf8(bytes) {
                Ok(text) => Some((text, TextEncoding::Utf8)),
                Err(error) => match self.of_part(error.as_bytes()) {
                    TextEncoding::Utf8 => None,
                    encoding => Some((encoding.decode(error.as_bytes()).into_owned(), encoding)),
                },
            },
            encoding => Some((encoding.decode(&bytes).into_owned(), encoding)),
        }
    }
}

/// The encoding of a part of a file of [`HEAD_SIZE`] bytes, or of the shorter end of a file, which isn't UTF-16.
fn encoding_by_bytes(part: &[u8]) -> TextEncoding {
    match std::str::from_utf8(part) {
        Ok(_) => TextEncoding::Utf8,
        // The end of the part may be in the middle of a character.
        Err(error) if error.error_len().is_none() && part.len() == HEAD_SIZE => TextEncoding::Utf8,
        Err(_) if is_windows_1252(part) => TextEncoding::Windows1252,
        Err(_) => TextEncoding::Utf8,
    }
}

/// Which UTF-16 it is, if the bytes begin with a byte order mark, or are ASCII for the most part.
fn utf_16_encoding(head: &[u8]) -> Option<TextEncoding> {
    match head {
        // UTF-32.
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] => Some(TextEncoding::Utf16Le),
        [0xfe, 0xff, ..] => Some(TextEncoding::Utf16Be),
        _ if head.len() < 2 * MIN_UTF_16_UNITS || memchr::memchr(0, head).is_none() => None,
        _ => [TextEncoding::Utf16Le, TextEncoding::Utf16Be].into_iter().find(|&encoding| {
            let complete = &head[..encoding.len_without_partial_char(head)];
            let units = complete.chunks_exact(2).map(|unit| encoding.utf_16_unit([unit[0], unit[1]]));
            let (mut count, mut ascii_count) = (0, 0);
            for character in char::decode_utf16(units) {
                match character {
                    Ok(character) if !is_binary_control(character) => {
                        count += 1;
                        ascii_count += usize::from(character.is_ascii());
                    }
                    _ => return false,
                }
            }
            2 * ascii_count > count
        }),
    }
}

/// Whether bytes that aren't UTF-8 look like a text in Windows-1252: mostly ASCII, with a few letters in between.
fn is_windows_1252(bytes: &[u8]) -> bool {
    // Windows-1252 has no characters for these bytes.
    let is_unassigned = |byte: u8| matches!(byte, 0x81 | 0x8d | 0x8f | 0x90 | 0x9d);
    if bytes.iter().any(|&byte| is_unassigned(byte) || is_binary_control(char::from(byte))) {
        return false;
    }
    let non_ascii_count = bytes.iter().filter(|byte| !byte.is_ascii()).count();
    let has_long_run = bytes.chunk_by(|one, next| one.is_ascii() == next.is_ascii()).any(|run| {
        // A line that is drawn with one character isn't a word.
        run.len() > MAX_NON_ASCII_RUN && !run[0].is_ascii() && run.iter().any(|byte| *byte != run[0])
    });
    !has_long_run && 2 * non_ascii_count < bytes.len()
}

/// Whether this is an ASCII control character that no text contains.
fn is_binary_control(character: char) -> bool {
    character.is_ascii_control() && !matches!(character, '\t' | '\n' | '\x0b' | '\x0c' | '\r' | '\x1b')
}

fn utf_8_len_without_partial_char(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(4);
    let Some(start) = (tail..bytes.len()).rev().find(|&index| bytes[index] & 0xc0 != 0x80) else {
        return bytes.len();
    };
    let needed = match bytes[start] {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    if start + needed > bytes.len() { start } else { bytes.len() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [TextEncoding; 4] =
        [TextEncoding::Utf8, TextEncoding::Windows1252, TextEncoding::Utf16Le, TextEncoding::Utf16Be];

    fn utf_16(text: &str) -> Vec<u8> {
        TextEncoding::Utf16Le.encode(text).unwrap().into_owned()
    }

    #[test]
    fn texts_of_each_encoding_are_recognised() {
        use TextEncoding::*;
        for (bytes, encoding) in [
            (b"plain\n".to_vec(), Utf8),
            ("gr\u{fc}n \u{1f600}\n".into(), Utf8),
            (b"gr\xfcn\n".to_vec(), Windows1252),
            (b"caf\xe9".to_vec(), Windows1252),
            (b"\x93quoted\x94 \x80 5\n".to_vec(), Windows1252),
            (b"\xb7\xb7\xb7\xb7\xb7\xb7 a line of dots\n".to_vec(), Windows1252),
            (utf_16("\u{feff}a"), Utf16Le),
            (utf_16("no mark"), Utf16Le),
            (Utf16Be.encode("no mark").unwrap().into_owned(), Utf16Be),
            (b"\xfe\xff\0a".to_vec(), Utf16Be),
        ] {
            assert_eq!(TextEncoding::of_content(&bytes), encoding, "{bytes:x?}");
            let guess = EncodingGuess::from_head(&bytes);
            assert_eq!(guess.decode(bytes).map(|(_, encoding)| encoding), Some(encoding));
        }
    }

    #[test]
    fn binary_content_and_other_scripts_stay_binary() {
        for bytes in [
            &b"\x89PNG\r\n\x1a\n\0\0"[..],
            b"\xff",
            b"\x00\x01\x00\x02\x00\x03\x00\x04\x00\x05",
            b"text with a \0 in it",
            b"bell \x07 and \xe9",
            // "Привет, мир" in Windows-1251, and a word in Shift_JIS.
            b"\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0 and some more text in ASCII",
            b"\x82\xb1\x82\xf1\x82\xc9 and some more text in ASCII",
            b"\xff\xfe\0\0a\0\0\0",
        ] {
            let text = EncodingGuess::from_head(bytes).decode(bytes.to_vec());
            assert_eq!(text.filter(|(text, _)| !text.contains('\0')), None, "{bytes:x?}");
        }
    }

    #[test]
    fn a_part_after_an_ascii_start_decides_for_itself() {
        let mut content = b"all ASCII\n".repeat(HEAD_SIZE / 10 + 1);
        content.extend_from_slice(b"gr\xfcn\n");
        assert_eq!(TextEncoding::of_content(&content), TextEncoding::Windows1252);
        let ascii = EncodingGuess::from_head(&content[..HEAD_SIZE]);
        assert_eq!(ascii.decode(b"gr\xfcn".to_vec()), Some(("grün".into(), TextEncoding::Windows1252)));
        // If the file begins as UTF-8, a part that isn't valid is damaged, and not in another encoding.
        let utf_8 = EncodingGuess::from_head("grün".as_bytes());
        assert_eq!(utf_8.decode(b"gr\xfcn".to_vec()), None);
    }

    #[test]
    fn a_character_at_the_end_of_the_head_may_be_incomplete() {
        let text = "x".repeat(HEAD_SIZE - 1) + "ü and more";
        let guess = EncodingGuess::from_head(&text.as_bytes()[..HEAD_SIZE]);
        assert_eq!(guess.encoding, TextEncoding::Utf8);
    }

    #[test]
    fn a_character_that_an_encoding_lacks_is_named() {
        assert_eq!(TextEncoding::Windows1252.encode("a → b"), Err('→'));
        assert_eq!(TextEncoding::Windows1252.encode("5 €").unwrap(), &b"5 \x80"[..]);
        assert_eq!(TextEncoding::Utf16Be.encode("→").unwrap(), &b"\x21\x92"[..]);
    }

    #[test]
    fn line_ends_and_characters_are_found_by_code_units() {
        // U+0A00 has a newline's byte, but isn't one.
        let text = utf_16("\u{a00}a\nb\n");
        assert_eq!(TextEncoding::Utf16Le.find_line_end(&text), Some(6));
        let emoji = utf_16("a\u{1f600}");
        assert_eq!(TextEncoding::Utf16Le.len_without_partial_char(&emoji[..4]), 2);
        assert_eq!(TextEncoding::Utf16Le.len_without_partial_char(&emoji[..5]), 2);
        assert_eq!(TextEncoding::Utf16Le.len_without_partial_char(&emoji), 6);
    }

    proptest! {
        #[test]
        fn what_can_be_encoded_is_decoded_unchanged(text in "[a-zA-Z0-9 äöüéß€→\u{1f600}\n]{0,60}") {
            for encoding in ALL {
                if let Ok(bytes) = encoding.encode(&text) {
                    prop_assert_eq!(encoding.decode(&bytes), text.as_str());
                }
            }
        }

        #[test]
        fn no_bytes_make_a_guess_or_its_decoding_fail(bytes: Vec<u8>) {
            let encoding = TextEncoding::of_content(&bytes);
            let text = encoding.decode(&bytes);
            if let Some((decoded, _)) = EncodingGuess::from_head(&bytes).decode(bytes.clone()) {
                prop_assert_eq!(&*decoded, &*text);
            }
        }
    }
}
