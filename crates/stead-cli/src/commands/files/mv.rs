use stead::vfs::managed::MoveTarget;

use super::{WorkspaceArg, invalid};
use crate::command_error::{CommandResult, Exit};
use crate::json;
use crate::session::Session;

/// Move a managed file into another category, or give it another name
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("target").required(true).multiple(true).args(["category", "new_name"]))]
pub(crate) struct Args {
    /// The file
    path: String,
    /// The new category
    category: Option<String>,
    /// The new name
    #[arg(long, value_name = "NAME")]
    new_name: Option<String>,
    #[command(flatten)]
    workspace: WorkspaceArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let category = args.category.as_deref().map(str::parse).transpose().map_err(invalid)?;
    let stead = session.stead()?;
    let files = args.workspace.files_of(&stead, "move", Some(&args.path))?;
    let moved =
        files.move_file(args.path.as_str(), MoveTarget { category, name: args.new_name.as_deref() })?;
    if session.wants_json() {
        session.print_json(&json::managed_change(&moved.to, Some(moved.operation), None))?;
    } else {
        session.say(format_args!("Moved {} to {}.", moved.from, moved.to));
    }
    Ok(Exit::OK)
}
