use stead::TagRef;
use stead::vfs::WriteOptions;

use super::content::{ContentArg, explain_write_error, open_stdin};
use crate::command_error::{CommandResult, Exit};
use crate::json;
use crate::session::Session;

/// Write a whole file, from an argument or from standard input
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file
    path: String,
    #[command(flatten)]
    content: ContentArg,
    /// Only if the file doesn't exist yet
    #[arg(long)]
    create_only: bool,
    /// Only if the file still has this version tag (see `stead stat`)
    #[arg(long, value_name = "TAG", conflicts_with = "create_only")]
    if_match: Option<TagRef>,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let vfs = session.vfs("write")?;
    let mut options = WriteOptions::new();
    if args.create_only {
        options = options.create_only();
    }
    if let Some(tag) = args.if_match {
        options = options.if_match(tag);
    }
    let result = match args.content.argument() {
        Some(content) => vfs.write_with(&args.path, content, &options),
        None => vfs.write_from(&args.path, &mut open_stdin()?, &options),
    };
    let result = result.map_err(explain_write_error)?;
    if session.wants_json() {
        session.print_json(&json::write_result(&result))?;
    }
    session.say(format_args!(
        "{} {}",
        if result.created == Some(true) { "Created" } else { "Wrote" },
        result.path
    ));
    session.warn_not_kept(result.not_kept);
    Ok(Exit::OK)
}
