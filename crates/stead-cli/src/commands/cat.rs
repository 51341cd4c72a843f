use std::io::{self, Read, Write};

use serde_json::Value;
use stead::vfs::{ByteRange, Continuation, LineRange};
use stead::{Vfs, VfsError};

use crate::command_error::{CommandError, CommandResult};
use crate::session::{AsOfArg, Session};
use crate::{human, json};

/// Print files, or parts of them
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The files to print
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    /// Only these lines, counted from 1: 10:20, 10: or :20
    #[arg(long, value_name = "A:B", value_parser = parse_line_span, conflicts_with_all = ["offset", "limit", "bytes"])]
    lines: Option<LineSpan>,
    /// The first line, counted from 1; with --bytes, the first byte, counted from 0
    #[arg(long, value_name = "N")]
    offset: Option<u64>,
    /// At most this many lines; with --bytes, at most this many bytes
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Let --offset and --limit count bytes instead of lines
    #[arg(long)]
    bytes: bool,
    /// Number the lines, as they are counted in each file
    #[arg(short = 'n', long, conflicts_with = "bytes")]
    number: bool,
    #[command(flatten)]
    at: AsOfArg,
}

/// A range of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LineSpan {
    first: u64,
    count: u64,
}

/// The part of each file to print.
#[derive(Debug, Clone, Copy)]
enum Selection {
    Whole,
    Lines(LineSpan),
    Bytes(ByteRange),
}

fn parse_line_span(text: &str) -> Result<LineSpan, String> {
    let (first, last) = text.split_once(':').unwrap_or((text, text));
    let number = |text: &str, default| match text {
        "" => Ok(default),
        text => text.parse::<u64>().map_err(|_| format!("`{text}` isn't a valid line number")),
    };
    let (first, last) = (number(first, 1)?, number(last, u64::MAX)?);
    if first == 0 || last < first {
        return Err("lines are counted from 1, and the last line can't be before the first".into());
    }
    Ok(LineSpan { first, count: (last - first).saturating_add(1) })
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    if args.offset == Some(0) && !args.bytes {
        return Err(CommandError::invalid("lines are counted from 1, so --offset has to be at least 1"));
    }
    let stead = session.stead()?;
    let selection = match args.lines {
        Some(lines) => Selection::Lines(lines),
        None if args.bytes => Selection::Bytes(ByteRange {
            offset: args.offset.unwrap_or(0),
            length: args.limit.unwrap_or(u64::MAX),
        }),
        None if args.offset.is_some() || args.limit.is_some() => Selection::Lines(LineSpan {
            first: args.offset.unwrap_or(1),
            count: args.limit.unwrap_or(u64::MAX),
        }),
        None => Selection::Whole,
    };
    session.for_each(&args.paths, |session, path| {
        session.compound("cat", &stead, (&args.at, path), |session, stead| match session.wants_json() {
            true => {
                let document = json_document(stead.vfs(), path, selection)?;
                session.print_json(&document)
            }
            false => {
                let numbers = args.number.then(|| LineNumbers::from(selection));
                print(stead.vfs(), path, selection, &mut Printer { session, numbers })
            }
        })
    })
}

/// The numbers in front of lines that are written piece by piece.
struct LineNumbers {
    next: u64,
    is_at_line_start: bool,
}

impl LineNumbers {
    /// Numbers for a selection, counted as in its file.
    fn from(selection: Selection) -> Self {
        let next = match selection {
            Selection::Lines(lines) => lines.first,
            Selection::Whole | Selection::Bytes(_) => 1,
        };
        LineNumbers { next, is_at_line_start: true }
    }

    fn write(&mut self, content: &[u8], out: &mut impl Write) -> io::Result<()> {
        for line in content.split_inclusive(|&byte| byte == b'\n') {
            if self.is_at_line_start {
                write!(out, "{:>6}\t", self.next)?;
                self.next += 1;
            }
            out.write_all(line)?;
            self.is_at_line_start = line.ends_with(b"\n");
        }
        Ok(())
    }
}

/// Prints the content of one file.
struct Printer<'s> {
    session: &'s mut Session,
    numbers: Option<LineNumbers>,
}

impl Printer<'_> {
    fn print(&mut self, content: &[u8]) -> Result<(), CommandError> {
        self.session.write_output(|out| match &mut self.numbers {
            Some(numbers) => numbers.write(content, out),
            None => out.write_all(content),
        })
    }
}

/// Prints while it reads, so that memory use doesn't depend on the size of the file.
fn print(vfs: &Vfs, path: &str, selection: Selection, printer: &mut Printer<'_>) -> Result<(), CommandError> {
    let (mut reader, mut remaining) = match selection {
        Selection::Lines(lines) => return print_lines(vfs, path, lines, printer),
        Selection::Whole => (vfs.reader(path)?, u64::MAX),
        Selection::Bytes(range) => {
            let mut reader = vfs.reader(path)?;
            let start = std::io::SeekFrom::Start(range.offset);
            std::io::Seek::seek(&mut reader, start).map_err(|error| read_error(path, error))?;
            (reader, range.length)
        }
    };
    let mut buffer = vec![0; 256 << 10];
    loop {
        let chunk_length = usize::try_from(remaining).unwrap_or(usize::MAX).min(buffer.len());
        let count = reader.read(&mut buffer[..chunk_length]).map_err(|error| read_error(path, error))?;
        if count == 0 {
            return Ok(());
        }
        remaining -= count as u64;
        printer.print(&buffer[..count])?;
    }
}

fn print_lines(
    vfs: &Vfs,
    path: &str,
    lines: LineSpan,
    printer: &mut Printer<'_>,
) -> Result<(), CommandError> {
    let (mut next, mut remaining) = (lines.first, lines.count);
    while remaining > 0 {
        let page =
            vfs.read_lines(path, LineRange { offset: next, limit: remaining, ..LineRange::default() })?;
        printer.print(page.text.as_bytes())?;
        remaining -= page.count.min(remaining);
        match page.continuation {
            Continuation::End { .. } => return Ok(()),
            Continuation::More { next: line } => next = line,
            Continuation::Cut { at } => {
                print_rest_of_line(vfs, path, at, printer)?;
                next = page.first + page.count;
            }
        }
    }
    Ok(())
}

/// Prints the rest of a line that is too long for one call, from the byte `at` where it was cut.
fn print_rest_of_line(
    vfs: &Vfs,
    path: &str,
    mut offset: u64,
    printer: &mut Printer<'_>,
) -> Result<(), CommandError> {
    loop {
        let part = vfs.read_text_range(path, ByteRange { offset, length: 64 << 10 })?;
        let end = part.text.find('\n');
        printer.print(&part.text.as_bytes()[..end.map_or(part.text.len(), |end| end + 1)])?;
        if end.is_some() || part.end >= part.size {
            return Ok(());
        }
        offset = part.end;
    }
}

fn read_error(path: &str, error: std::io::Error) -> CommandError {
    if error.get_ref().is_none_or(|inner| !inner.is::<VfsError>()) {
        return CommandError::host(format!("`{}` can't be read", human::escape_text(path)), error);
    }
    let vfs_error = error.into_inner().and_then(|inner| inner.downcast::<VfsError>().ok());
    (*vfs_error.expect("checked above")).into()
}

fn json_document(vfs: &Vfs, path: &str, selection: Selection) -> Result<Value, CommandError> {
    Ok(match selection {
        Selection::Whole => json::content(vfs.read(path)?),
        Selection::Bytes(range) => json::content(vfs.read_range(path, range)?),
        Selection::Lines(LineSpan { first, count }) => {
            let range = LineRange { offset: first, limit: count, max_bytes: 16 << 20 };
            json::lines(vfs.read_lines(path, range)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_written_in_pieces_has_one_number() {
        let mut numbers = LineNumbers { next: 9, is_at_line_start: true };
        let mut out = Vec::new();
        for piece in ["one\ntw", "o", "\n\nlast"] {
            numbers.write(piece.as_bytes(), &mut out).unwrap();
        }
        assert_eq!(String::from_utf8(out).unwrap(), "     9\tone\n    10\ttwo\n    11\t\n    12\tlast");
    }

    #[test]
    fn line_spans_are_parsed() {
        assert_eq!(parse_line_span("2:4"), Ok(LineSpan { first: 2, count: 3 }));
        assert_eq!(parse_line_span("7"), Ok(LineSpan { first: 7, count: 1 }));
        assert_eq!(parse_line_span(":4"), Ok(LineSpan { first: 1, count: 4 }));
        assert_eq!(parse_line_span("3:").map(|lines| lines.first), Ok(3));
        for invalid in ["0:4", "4:2", "a:b", "1:2:3"] {
            assert!(parse_line_span(invalid).is_err(), "{invalid}");
        }
    }
}
