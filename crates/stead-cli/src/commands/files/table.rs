//! Managed files in columns.

use stead::name::escape_name;
use stead::vfs::managed::{ListedFile, ListedFiles};
use stead::{Clock, SystemClock, Timestamp};

use crate::command_error::{CommandResult, Exit};
use crate::session::{Colour, Session};
use crate::{human, json};

const HEADER: [&str; 5] = ["PATH", "SIZE", "WRITTEN", "TOOL", "TAGS"];

/// How long ago a time is: `3d ago`.
pub(super) fn age(time: Timestamp) -> String {
    format!("{} ago", human::time_span(SystemClock.now().duration_since(time)))
}

/// Prints a page of files, and says which of how many these are.
pub(super) fn print(listed: &ListedFiles, session: &mut Session) -> CommandResult {
    if session.wants_json() {
        session.print_json(&json::managed_files(listed))?;
        return Ok(Exit::OK);
    }
    session.warn_unreadable(&listed.unreadable);
    let total = listed.total.count;
    let total_text = if listed.total.is_more { format!("more than {total}") } else { total.to_string() };
    if listed.files.is_empty() {
        session.say(match total {
            0 => "No files match.".to_owned(),
            _ => format!("There is nothing at offset {}: there are {total_text} files.", listed.offset),
        });
        return Ok(Exit::OK);
    }
    let rows: Vec<_> = listed.files.iter().map(row).collect();
    let header = HEADER.map(str::to_owned);
    let width = |column: usize| {
        rows.iter().chain([&header]).map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths = [width(0), width(1), width(2), width(3), 0];
    let line = |row: &[String; 5]| {
        let [path, size, written, tool, tags] = row;
        let [path_width, size_width, written_width, tool_width, _] = widths;
        format!(
            "{path:path_width$}  {size:>size_width$}  {written:written_width$}  {tool:tool_width$}  {tags}"
        )
        .trim_end()
        .to_owned()
    };
    let painted = session.paint(Colour::Dim, line(&header));
    session.print_line(painted)?;
    for row in &rows {
        session.print_line(line(row))?;
    }
    let (first, last) = (listed.offset + 1, listed.offset + listed.files.len() as u64);
    let more = if last < total || listed.total.is_more {
        format!("; --offset {last} continues")
    } else {
        String::new()
    };
    session.say(format_args!("{first} to {last} of {total_text}{more}."));
    Ok(Exit::OK)
}

fn row(ListedFile { path, file, .. }: &ListedFile) -> [String; 5] {
    [
        escape_name(path.as_str().as_bytes()).to_string(),
        human::size(file.size),
        age(file.modified_at),
        file.source_tool.clone().unwrap_or_else(|| "-".to_owned()),
        human::escape_text(&file.tags.to_string()),
    ]
}
