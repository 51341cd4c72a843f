use std::io::{Read, Write};

use serde_json::{Value, json};
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
            false => print(stead.vfs(), path, selection, session),
        })
    })
}

/// Prints while it reads, so that memory use doesn't depend on the size of the file.
fn print(vfs: &Vfs, path: &str, selection: Selection, session: &mut Session) -> Result<(), CommandError> {
    let (mut reader, mut remaining) = match selection {
        Selection::Lines(lines) => return print_lines(vfs, path, lines, session),
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
        session.write_output(|out| out.write_all(&buffer[..count]))?;
    }
}

fn print_lines(vfs: &Vfs, path: &str, lines: LineSpan, session: &mut Session) -> Result<(), CommandError> {
    let (mut next, mut remaining) = (lines.first, lines.count);
    while remaining > 0 {
        let page =
            vfs.read_lines(path, LineRange { offset: next, limit: remaining, ..LineRange::default() })?;
        session.write_output(|out| out.write_all(page.text.as_bytes()))?;
        remaining -= page.count.min(remaining);
        match page.continuation {
            Continuation::End { .. } => return Ok(()),
            Continuation::More { next: line } => next = line,
            Continuation::Cut { at } => {
                print_rest_of_line(vfs, path, at, session)?;
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
    session: &mut Session,
) -> Result<(), CommandError> {
    loop {
        let chunk = vfs.read_range(path, ByteRange { offset, length: 64 << 10 })?.bytes;
        let end = chunk.iter().position(|&byte| byte == b'\n');
        let rest = end.map_or(&*chunk, |end| &chunk[..=end]);
        session.write_output(|out| out.write_all(rest))?;
        if chunk.is_empty() || end.is_some() {
            return Ok(());
        }
        offset += chunk.len() as u64;
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
    let read = match selection {
        Selection::Whole => vfs.read(path)?,
        Selection::Bytes(range) => vfs.read_range(path, range)?,
        Selection::Lines(LineSpan { first, count }) => {
            let range = LineRange { offset: first, limit: count, max_bytes: 16 << 20 };
            let read = vfs.read_lines(path, range)?;
            let (next, lines) = match read.continuation {
                Continuation::End { lines } => (json!(null), json!(lines)),
                Continuation::More { next } => (json!({ "offset": next }), json!(null)),
                Continuation::Cut { at } => (json!({ "byte": at }), json!(null)),
            };
            return Ok(json!({
                "path": read.path.to_string(),
                "content": read.text,
                "encoding": "utf-8",
                "first": read.first,
                "count": read.count,
                "lines": lines,
                "next": next,
                "size": read.size,
                "tag": read.tag.to_string(),
            }));
        }
    };
    let (encoding, content) = match String::from_utf8(read.bytes) {
        Ok(text) => ("utf-8", text),
        Err(binary) => ("base64", json::base64(binary.as_bytes())),
    };
    Ok(json!({
        "path": read.path.to_string(),
        "content": content,
        "encoding": encoding,
        "tag": read.tag.to_string(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

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
