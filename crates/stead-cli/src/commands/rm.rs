use serde_json::json;
use stead::vfs::{RemoveOptions, RemoveResult};
use stead::{StoreError, Vfs, VfsError};

use crate::command_error::{CommandError, CommandResult};
use crate::session::Session;

/// Remove files, and with -r directories
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The files and directories to remove
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    /// Remove directories and everything in them
    #[arg(short, long)]
    recursive: bool,
    /// No error if it doesn't exist
    #[arg(short, long)]
    force: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let vfs = session.vfs("rm")?;
    let options = RemoveOptions { recursive: args.recursive, force: args.force, if_match: None };
    session.for_each(&args.paths, |session, path| {
        let removed = remove(&vfs, path, options)?;
        if session.wants_json() {
            session.print_json(&json!({
                "path": removed.path.to_string(),
                "version": removed.revision.map(|revision| revision.number.0),
                "operation": removed.operation.to_string(),
            }))?;
        }
        Ok(())
    })
}

fn remove(vfs: &Vfs, path: &str, options: RemoveOptions) -> Result<RemoveResult, CommandError> {
    // Tries instead of looking first: a WRITE_ONLY Workspace can't be read, but files in it can be removed.
    if options.recursive {
        match vfs.remove_directory(path, options) {
            Err(VfsError::Store { cause: StoreError::NotADirectory, .. }) => {}
            // The result doesn't disclose what was there, so it may have been a file.
            Ok(removed) if !removed.is_disclosed => {}
            removed => return Ok(removed?),
        }
    }
    match vfs.remove_file(path, options) {
        Err(VfsError::Store { path, cause: StoreError::IsADirectory, .. }) => Err(CommandError::invalid(
            format!("`{path}` is a directory; use -r to remove it and everything in it"),
        )),
        removed => Ok(removed?),
    }
}
