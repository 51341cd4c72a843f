use stead::vfs::IntoPath;
use stead::vfs::managed::DeletedFile;

use super::WorkspaceArg;
use crate::command_error::{CommandResult, Exit};
use crate::json;
use crate::session::Session;

/// Delete a managed file and its entry in the manifest
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file
    path: String,
    #[command(flatten)]
    workspace: WorkspaceArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let stead = session.stead()?;
    let deleted = args.workspace.files_of(&stead, "delete", Some(&args.path))?.delete(args.path.as_str())?;
    let path = args.path.as_str().into_path().map_err(stead::VfsError::from)?;
    let operation = match &deleted {
        DeletedFile::Deleted(removed) => Some(removed.operation),
        DeletedFile::WasGone => None,
    };
    if session.wants_json() {
        session.print_json(&json::managed_change(&path, operation, None))?;
    } else if operation.is_some() {
        session.say(format_args!("Deleted {path}."));
    } else {
        session.say(format_args!("{path} was gone already; its entry is removed now."));
    }
    if let DeletedFile::Deleted(removed) = &deleted {
        session.warn_not_kept(removed.not_kept);
    }
    Ok(Exit::OK)
}
