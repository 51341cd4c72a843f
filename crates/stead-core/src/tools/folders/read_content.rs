//! The content of a file in a folder, page by page: lines of UTF-8 text, or bytes as base64.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;

use super::FolderFile;
use crate::error::Error;
use crate::tools::Failure;
use crate::vfs::ByteRange;

/// Where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    /// At a line, counted from 1.
    Line(u64),
    /// At a byte, counted from 0.
    Byte(u64),
}

/// Which part of a file is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageRange {
    pub(super) from: Position,
    /// The most lines of text.
    pub(super) lines: u64,
    /// The most bytes of the page.
    pub(super) bytes: usize,
}

/// A page of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContentPage {
    pub(super) content: String,
    /// `utf-8` for UTF-8 text without NUL, otherwise `base64`.
    pub(super) encoding: &'static str,
    /// The file's size in bytes.
    pub(super) size: u64,
    /// Where the next page begins; `None` at the end.
    pub(super) next: Option<Position>,
}

/// Why a page can't be made.
#[derive(Debug, PartialEq, Eq)]
enum PageError {
    /// The text has only this many lines.
    TooFewLines(u64),
    /// The file is binary, so it has no lines.
    Binary,
}

impl FolderFile<'_> {
    /// Reads the whole file. A file that is larger than a folder tool may write isn't read.
    pub(super) fn read(&self) -> Result<Vec<u8>, Failure> {
        let limit = self.folder.max_file_bytes();
        let whole = ByteRange { offset: 0, length: limit.saturating_add(1) };
        let read = self.folder.vfs.read_range(&self.path, whole).map_err(|error| self.read_failure(error))?;
        self.check_size(read.size)?;
        Ok(read.bytes)
    }

    /// A page of the file, which has these bytes.
    pub(super) fn page(&self, bytes: &[u8], range: PageRange) -> Result<ContentPage, Failure> {
        content_page(bytes, range).map_err(|error| match (error, range.from) {
            (PageError::TooFewLines(lines), Position::Line(offset)) => {
                Error::LineOutOfRange { path: self.path.clone(), lines, offset }.into()
            }
            _ => {
                Failure::invalid(format!("`{}` is binary; pass `byteOffset` instead of `offset`", self.path))
            }
        })
    }
}

/// A page of these bytes.
fn content_page(bytes: &[u8], range: PageRange) -> Result<ContentPage, PageError> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    match text {
        Some(text) => text_page(text, range),
        None => base64_page(bytes, range),
    }
}

fn base64_page(bytes: &[u8], range: PageRange) -> Result<ContentPage, PageError> {
    let size = bytes.len() as u64;
    let start = match range.from {
        Position::Line(1) => 0,
        Position::Line(_) => return Err(PageError::Binary),
        Position::Byte(byte) => byte.min(size) as usize,
    };
    // Three bytes are four characters, so the pages of a file can be joined before they are decoded.
    let length = (range.bytes / 4 * 3).max(3);
    let end = bytes.len().min(start + length);
    let next = (end < bytes.len()).then_some(Position::Byte(end as u64));
    Ok(ContentPage { content: BASE64.encode(&bytes[start..end]), encoding: "base64", size, next })
}

fn text_page(text: &str, range: PageRange) -> Result<ContentPage, PageError> {
    let start = match range.from {
        Position::Line(line) => line_start(text, line)?,
        Position::Byte(byte) => text.floor_char_boundary(usize::try_from(byte).unwrap_or(usize::MAX)),
    };
    let (mut end, mut lines) = (start, 0);
    for line in text[start..].split_inclusive('\n') {
        if lines == range.lines || end - start + line.len() > range.bytes {
            break;
        }
        end += line.len();
        lines += 1;
    }
    let is_cut = lines == 0 && end < text.len();
    if is_cut {
        // A line that is too long for a page continues at a byte.
        end = text.floor_char_boundary(start + range.bytes.max(4));
    }
    let next = match range.from {
        _ if end == text.len() => None,
        Position::Line(line) if !is_cut => Some(Position::Line(line + lines)),
        _ => Some(Position::Byte(end as u64)),
    };
    let (content, size) = (text[start..end].to_owned(), text.len() as u64);
    Ok(ContentPage { content, encoding: "utf-8", size, next })
}

/// Where a line begins.
fn line_start(text: &str, line: u64) -> Result<usize, PageError> {
    let mut start = 0;
    for (index, content) in text.split_inclusive('\n').enumerate() {
        if index as u64 + 1 == line {
            return Ok(start);
        }
        start += content.len();
    }
    match line {
        0 | 1 => Ok(0),
        _ => Err(PageError::TooFewLines(text.split_inclusive('\n').count() as u64)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(bytes: &[u8], from: Position, lines: u64, max_bytes: usize) -> ContentPage {
        content_page(bytes, PageRange { from, lines, bytes: max_bytes }).unwrap()
    }

    #[test]
    fn f94_and_f95_utf_8_without_nul_is_text_and_everything_else_base64() {
        let all = |bytes: &[u8]| {
            let page = page(bytes, Position::Line(1), 800, 1_000);
            assert_eq!((page.size, page.next), (bytes.len() as u64, None));
            (page.encoding, page.content)
        };
        for text in ["", "\u{feff}bom\r\ncrlf\r\n", "\u{1f600}", "no newline", "\n\n"] {
            assert_eq!(all(text.as_bytes()), ("utf-8", text.to_owned()));
        }
        for bytes in [&b"a\0b"[..], &[0xff, 0xfe, b'a', 0], &[b'x', 0xe9]] {
            assert_eq!(all(bytes), ("base64", BASE64.encode(bytes)));
        }
    }

    #[test]
    fn a_line_past_the_end_or_of_a_binary_file_is_refused() {
        let range = |line| PageRange { from: Position::Line(line), lines: 10, bytes: 100 };
        assert_eq!(content_page(b"a\nb\n", range(3)), Err(PageError::TooFewLines(2)));
        assert_eq!(content_page(b"a\0", range(2)), Err(PageError::Binary));
        assert!(content_page(b"", range(1)).is_ok());
    }

    proptest! {
        #[test]
        fn the_pages_of_a_file_are_the_whole_file(
            bytes in prop_oneof![
                "([a-z]{0,30}\n|\u{e4}{0,9}|\u{1f600}){0,20}".prop_map(String::into_bytes),
                proptest::collection::vec(any::<u8>(), 0..200),
            ],
            lines in 1..5_u64,
            max_bytes in 4..40_usize,
        ) {
            let (mut content, mut from) = (String::new(), Some(Position::Line(1)));
            let mut encoding = "";
            while let Some(position) = from {
                let page = page(&bytes, position, lines, max_bytes);
                prop_assert!(page.content.len() <= max_bytes, "{page:?}");
                content.push_str(&page.content);
                (from, encoding) = (page.next, page.encoding);
            }
            let content = if encoding == "base64" { BASE64.decode(content).unwrap() } else { content.into_bytes() };
            prop_assert_eq!(content, bytes);
        }
    }
}
