//! `stead diff --fork FORK`: what a fork has changed.

use stead::vfs::{ContentDiff, DiffOptions, Difference, Differs};

use crate::failure::{Ended, Exit, Failure};
use crate::human;
use crate::json;
use crate::session::Session;

/// Prints what differs between a fork and its base.
pub(super) fn run(fork: &str, session: &mut Session) -> Ended {
    let differences = session.stead()?.diff_fork(fork, DiffOptions::default())?;
    for difference in &differences {
        if session.wants_json() {
            session.json(&json::difference(difference))?;
        } else {
            print(difference, session)?;
        }
    }
    Ok(Exit::OK)
}

fn print(difference: &Difference, session: &mut Session) -> Result<(), Failure> {
    let Difference { path, from, differs, modes, .. } = difference;
    let from = from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
    let modes = modes.map(|(old, new)| format!(" (mode {old:04o} to {new:04o})")).unwrap_or_default();
    session.line(format_args!("{} {path}{from}{modes}", differs.word()))?;
    match &difference.content {
        Some(ContentDiff::Text(text)) => session.wrote(|out| {
            use std::io::Write;
            out.write_all(human::harmless_lines(text).as_bytes())?;
            if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") }
        }),
        Some(ContentDiff::Binary) if *differs != Differs::Removed => {
            let (old, new) = difference.sizes;
            session.line(format_args!("binary, {} to {}", human::size(old), human::size(new)))
        }
        Some(ContentDiff::Binary) | None => Ok(()),
    }
}
