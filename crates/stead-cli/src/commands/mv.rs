use stead::vfs::{IntoPath, Overwrite};
use stead::{TagRef, VfsError, VfsPath};

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::json;
use crate::session::Session;

/// Move or rename a file, a symlink or a directory
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file, symlink or directory to move
    from: String,
    /// The destination; with a / at the end, the directory to move it into
    to: String,
    /// Replace an existing file
    #[arg(short = 'f', long, alias = "force")]
    overwrite: bool,
    /// For the habit: an existing file is only replaced with --overwrite
    #[arg(short, long, hide = true, conflicts_with = "overwrite")]
    no_clobber: bool,
    /// For the habit: the move is always reported
    #[arg(short, long, hide = true)]
    verbose: bool,
    /// Only if the file still has this version tag (see `stead stat`)
    #[arg(long, value_name = "TAG")]
    if_match: Option<TagRef>,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let vfs = session.vfs("mv")?;
    let overwrite = if args.overwrite { Overwrite::Replace } else { Overwrite::Refuse };
    let to = destination(&args.from, &args.to)?;
    let moved = match args.if_match {
        Some(tag) => vfs.rename_if(&args.from, &to, overwrite, tag)?,
        None => vfs.rename(&args.from, &to, overwrite)?,
    };
    if session.wants_json() {
        session.print_json(&json::copy_result(&moved))?;
    }
    session.say(format_args!("Moved {} to {}", moved.from, moved.to));
    session.warn_not_kept(moved.not_kept);
    Ok(Exit::OK)
}

/// The path that something is moved or copied to: `/b/` means into `/b`, under its own name.
pub(super) fn destination(from: &str, to: &str) -> Result<VfsPath, CommandError> {
    let path = to.into_path().map_err(VfsError::from)?;
    if !to.ends_with('/') {
        return Ok(path);
    }
    let from = from.into_path().map_err(VfsError::from)?;
    match from.name() {
        Some(name) => Ok(path.join(name).map_err(VfsError::from)?),
        None => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_slash_at_the_end_means_into_that_directory() {
        assert_eq!(destination("/a/x", "/b").unwrap().as_str(), "/b");
        assert_eq!(destination("/a/x", "/b/").unwrap().as_str(), "/b/x");
        assert_eq!(destination("/a/x", "/").unwrap().as_str(), "/x");
    }
}
