//! Rows in columns.

use stead::AccessScope;

use crate::command_error::CommandError;
use crate::session::{Colour, Session};

/// How many rows are shown if `--all` isn't given.
pub(super) const MAX_ROWS: usize = 50;

/// A row: an Access Scope, and texts.
pub(super) type Row = (AccessScope, [String; 3]);

/// Prints rows in columns as wide as their widest text. Of more than [`MAX_ROWS`], it prints the first, and says how many
/// there are, unless `all` is true.
pub(super) fn print(rows: &[Row], all: bool, session: &mut Session) -> Result<(), CommandError> {
    let shown = if all { rows } else { &rows[..rows.len().min(MAX_ROWS)] };
    let width = |column: usize| {
        shown.iter().map(|(_, texts)| texts[column].chars().count()).max().unwrap_or_default()
    };
    let (first, second) = (width(0), width(1));
    for (scope, texts) in shown {
        let colour = if *scope == AccessScope::ReadOnly { Colour::Dim } else { Colour::Green };
        let scope = session.paint(colour, format_args!("{:<10}", scope.name()));
        let [one, two, three] = texts;
        session.print_line(format_args!("{scope}  {one:first$}  {two:second$}  {three}"))?;
    }
    match rows.len() - shown.len() {
        0 => Ok(()),
        more => session.print_line(format_args!("and {more} more; --all shows them")),
    }
}
