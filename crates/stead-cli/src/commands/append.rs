use stead::TagRef;
use stead::vfs::WriteOptions;

use super::content::{ContentArg, explain_write_error};
use crate::command_error::{CommandResult, Exit};
use crate::json;
use crate::session::Session;

/// Append to a file, or create it if it doesn't exist
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file
    path: String,
    #[command(flatten)]
    content: ContentArg,
    /// Only if the file still has this version tag (see `stead stat`)
    #[arg(long, value_name = "TAG")]
    if_match: Option<TagRef>,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let vfs = session.vfs("append")?;
    let options = args.if_match.map_or_else(WriteOptions::new, |tag| WriteOptions::new().if_match(tag));
    let content = args.content.read_all()?;
    let result = vfs.append_with(&args.path, content, &options).map_err(explain_write_error)?;
    if session.wants_json() {
        session.print_json(&json::write_result(&result))?;
    }
    session.say(format_args!(
        "{} {}",
        if result.created == Some(true) { "Created" } else { "Appended to" },
        result.path
    ));
    Ok(Exit::OK)
}
