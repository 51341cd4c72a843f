//! Content from the command line or from standard input.

use std::io::{self, Read, StdinLock};

use rustix::fs::OFlags;

use stead::{StoreError, VfsError, Visibility};

use crate::command_error::CommandError;

/// What is to be written.
#[derive(Debug, clap::Args)]
pub(crate) struct ContentArg {
    /// The content; without it, or with `-`, it is read from standard input
    #[arg(value_name = "CONTENT")]
    content: Option<String>,
}

impl ContentArg {
    /// The content, if it was given as an argument; `None` if it comes from standard input.
    pub(super) fn argument(self) -> Option<String> {
        self.content.filter(|content| content != "-")
    }

    /// The content, from the argument or from standard input.
    pub(super) fn read_all(self) -> Result<Vec<u8>, CommandError> {
        match self.argument() {
            Some(content) => Ok(content.into_bytes()),
            None => {
                let mut content = Vec::new();
                let read = open_stdin()?.read_to_end(&mut content);
                read.map_err(|error| CommandError::host("standard input can't be read", error))?;
                Ok(content)
            }
        }
    }
}

/// The error of a write, with what can be done if a directory is in the place of the file. Says nothing of what the
/// caller may not read.
pub(super) fn explain_write_error(error: VfsError) -> CommandError {
    match &error {
        VfsError::Store { path, cause: StoreError::IsADirectory, visibility: Visibility::Visible } => {
            let directory = path.as_str().trim_end_matches('/');
            let message = format!("`{path}` is a directory; name a file in it: `{directory}/NAME`");
            CommandError::Explained(error.into(), message)
        }
        _ => error.into(),
    }
}

/// Standard input. Fails if it is closed: otherwise a file would become empty because no content was given.
pub(super) fn open_stdin() -> Result<StdinLock<'static>, CommandError> {
    let stdin = io::stdin();
    if is_closed(&stdin) {
        return Err(CommandError::invalid(
            "standard input is closed; give the content as an argument (\"\" for none), or pipe it to standard input",
        ));
    }
    Ok(stdin.lock())
}

/// Whether standard input was closed when the process began. In that case Rust's runtime has opened the null device in
/// its place for reading and writing. A shell that redirects from the null device opens it for reading only.
fn is_closed(stdin: &io::Stdin) -> bool {
    let is_writable = rustix::fs::fcntl_getfl(stdin).is_ok_and(|flags| flags.contains(OFlags::RDWR));
    let is_null = || {
        let (stdin_stat, null_stat) = (rustix::fs::fstat(stdin).ok()?, rustix::fs::stat("/dev/null").ok()?);
        Some(stdin_stat.st_rdev == null_stat.st_rdev && stdin_stat.st_mode == null_stat.st_mode)
    };
    is_writable && is_null().unwrap_or(false)
}
