use stead::managed::{TagMode, Tags};
use stead::vfs::IntoPath;

use super::{WorkspaceArg, invalid};
use crate::command_error::{CommandResult, Exit};
use crate::json;
use crate::session::Session;

/// Add tags to a managed file, remove them, or replace those that it has
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file
    path: String,
    /// The tags; `pin` keeps a file from being cleaned up
    tags: Vec<String>,
    /// Remove these tags
    #[arg(long, conflicts_with = "set")]
    remove: bool,
    /// Put these tags in place of those that the file has
    #[arg(long)]
    set: bool,
    #[command(flatten)]
    workspace: WorkspaceArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let mode = match (args.remove, args.set) {
        (true, _) => TagMode::Remove,
        (_, true) => TagMode::Set,
        _ => TagMode::Add,
    };
    let tags = Tags::parse(&args.tags).map_err(invalid)?;
    if tags.is_empty() && mode != TagMode::Set {
        return Err(invalid("name at least one tag"));
    }
    let stead = session.stead()?;
    let tags =
        args.workspace.files_of(&stead, "tag", Some(&args.path))?.tag(args.path.as_str(), mode, &tags)?;
    let path = args.path.as_str().into_path().map_err(stead::VfsError::from)?;
    if session.wants_json() {
        session.print_json(&json::managed_change(&path, None, Some(&tags)))?;
    } else if tags.is_empty() {
        session.say(format_args!("{path} has no tags now."));
    } else {
        session.say(format_args!("{path} has these tags now: {tags}."));
    }
    Ok(Exit::OK)
}
