//! Reads the text of a file as UTF-8, whatever its encoding.

use std::io::{self, Read};

use encoding_rs::Decoder;

use crate::text_encoding::{EncodingGuess, HEAD_SIZE};

/// A content, read as UTF-8. UTF-8 and binary content are read unchanged.
pub(super) struct Utf8Reader<R> {
    content: R,
    /// `None` before the first read.
    guess: Option<EncodingGuess>,
    /// For an encoding other than UTF-8.
    decoder: Option<Decoder>,
    /// A part of the content as it is stored.
    raw: Vec<u8>,
    /// What is to be returned, up to `position` already was.
    output: Vec<u8>,
    position: usize,
    is_at_end: bool,
}

impl<R: Read> Utf8Reader<R> {
    pub(super) fn new(content: R) -> Self {
        let (raw, output) = (Vec::new(), Vec::new());
        Utf8Reader { content, guess: None, decoder: None, raw, output, position: 0, is_at_end: false }
    }

    /// Whether the rest of the content is returned as it is stored.
    fn is_unchanged(&self) -> bool {
        self.decoder.is_none() && self.guess.is_some_and(|guess| !guess.is_open())
    }

    /// Reads the next part of the content into `output`.
    fn fill_output(&mut self) -> io::Result<()> {
        (self.position, self.is_at_end) = (0, true);
        self.raw.clear();
        let count = (&mut self.content).take(HEAD_SIZE as u64).read_to_end(&mut self.raw)?;
        self.is_at_end = count < HEAD_SIZE;
        if self.decoder.is_none() {
            let guess = self
                .guess
                .map_or_else(|| EncodingGuess::from_head(&self.raw), |guess| guess.after(&self.raw));
            self.decoder = guess.encoding.decoder();
            self.guess = Some(guess);
        }
        match &mut self.decoder {
            None => std::mem::swap(&mut self.output, &mut self.raw),
            Some(decoder) => {
                let max_length = decoder.max_utf8_buffer_length(count).unwrap_or(3 * HEAD_SIZE);
                self.output.resize(max_length, 0);
                let (_, _, length, _) = decoder.decode_to_utf8(&self.raw, &mut self.output, self.is_at_end);
                self.output.truncate(length);
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Utf8Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.position == self.output.len() && !self.is_at_end {
            if self.is_unchanged() {
                return self.content.read(buffer);
            }
            self.fill_output()?;
        }
        let rest = &self.output[self.position..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.position += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_encoding::TextEncoding;

    fn read(content: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        Utf8Reader::new(content).read_to_end(&mut text).unwrap();
        text
    }

    #[test]
    fn the_text_of_every_encoding_is_read_as_utf_8() {
        let text = "grün and \u{20ac}, which fill more than one part\n".repeat(5_000);
        for encoding in
            [TextEncoding::Utf8, TextEncoding::Windows1252, TextEncoding::Utf16Le, TextEncoding::Utf16Be]
        {
            assert_eq!(read(&encoding.encode(&text).unwrap()), text.as_bytes(), "{encoding}");
        }
        assert_eq!(read(b"\xff\xfea\0\n\0"), b"a\n");
        assert_eq!(read(b""), b"");
    }

    #[test]
    fn an_encoding_that_shows_only_after_an_ascii_start_is_recognised() {
        let ascii = "all ASCII\n".repeat(20_000);
        assert_eq!(read(&[ascii.as_bytes(), b"gr\xfcn\n"].concat()), (ascii.clone() + "grün\n").as_bytes());
        let utf_8 = ascii + "grün\n";
        assert_eq!(read(utf_8.as_bytes()), utf_8.as_bytes());
    }

    #[test]
    fn binary_content_is_read_unchanged() {
        for content in [&b"\x89PNG\r\n\x1a\n\0\0"[..], b"a\0b", b"\xff", &[0; 200_000]] {
            assert_eq!(read(content), content);
        }
    }
}
