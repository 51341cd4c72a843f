use std::io::Write;
use std::path::{Path, PathBuf};

use stead::edit::ExcerptLine;
use stead::{Occurrences, TagRef};

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::session::Session;
use crate::{human, json};

/// Replace text in a file, and print the changed lines; the old text has to occur exactly once
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file
    path: String,
    /// The old text, exactly as it is in the file
    #[arg(required_unless_present = "old_file", requires = "new")]
    old: Option<String>,
    /// The new text
    new: Option<String>,
    /// Read the old text from a file of the host
    #[arg(long, value_name = "FILE", requires = "new_file", conflicts_with = "old")]
    old_file: Option<PathBuf>,
    /// Read the new text from a file of the host
    #[arg(long, value_name = "FILE", requires = "old_file", conflicts_with = "new")]
    new_file: Option<PathBuf>,
    /// Replace every occurrence
    #[arg(long)]
    all: bool,
    /// Only if the file still has this version tag (see `stead stat`)
    #[arg(long, value_name = "TAG")]
    if_match: Option<TagRef>,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let vfs = session.vfs("edit")?;
    let old = text(args.old, args.old_file.as_deref())?;
    let new = text(args.new, args.new_file.as_deref())?;
    let occurrences = if args.all { Occurrences::All } else { Occurrences::One };
    let edited = vfs
        .edit_with(&args.path, &old, &new, occurrences, args.if_match)
        .map_err(|error| CommandError::from(error).with_suggestion(&vfs))?;
    if session.wants_json() {
        session.print_json(&json::edit_result(&edited))?;
    } else if let Some(excerpt) = &edited.excerpt {
        let number_line =
            |line: &ExcerptLine| format!("{:>6}\t{}", line.number, human::escape_text(&line.text));
        session.write_output(|out| out.write_all(excerpt.join_lines(number_line).as_bytes()))?;
    }
    let count = human::count(edited.replaced as u64, "replacement", "replacements");
    session.say(format_args!("Made {count} in {}", edited.written.path));
    session.warn_not_kept(edited.written.not_kept);
    Ok(Exit::OK)
}

fn text(argument: Option<String>, file: Option<&Path>) -> Result<String, CommandError> {
    match (argument, file) {
        (Some(text), _) => Ok(text),
        (None, Some(file)) => std::fs::read_to_string(file).map_err(|error| {
            CommandError::host(format!("`{}` can't be read", human::host_path(file)), error)
        }),
        (None, None) => {
            Err(CommandError::invalid("give the old and the new text, or --old-file and --new-file"))
        }
    }
}
