use stead::vfs::{RemoveOptions, RemoveResult};
use stead::{StoreError, Vfs, VfsError, Visibility};

use crate::command_error::{CommandError, CommandResult};
use crate::json;
use crate::session::Session;

/// Remove files, and with -r directories
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The files and directories to remove
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    /// Remove directories and everything in them
    #[arg(short, long, short_alias = 'R')]
    recursive: bool,
    /// No error if it doesn't exist
    #[arg(short, long)]
    force: bool,
    /// Say what was removed
    #[arg(short, long)]
    verbose: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let vfs = session.vfs("rm")?;
    let options = RemoveOptions { recursive: args.recursive, force: args.force, if_match: None };
    session.for_each(&args.paths, |session, path| {
        let removed = remove(&vfs, path, options)?;
        if session.wants_json() {
            session.print_json(&json::remove_result(&removed))?;
        } else if args.verbose {
            session.say(format_args!("Removed {}", removed.path));
        }
        session.warn_not_kept(removed.not_kept);
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
        Err(
            error @ VfsError::Store {
                cause: StoreError::IsADirectory, visibility: Visibility::Visible, ..
            },
        ) => {
            let message = format!("`{path}` is a directory; use -r to remove it and everything in it");
            Err(CommandError::Explained(error.into(), message))
        }
        removed => Ok(removed?),
    }
}
