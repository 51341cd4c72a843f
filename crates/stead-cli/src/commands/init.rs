use std::fs;
use std::io::{ErrorKind as HostKind, Write};
use std::path::PathBuf;

use serde_json::json;
use stead::ErrorKind;
use stead::config::FILE_NAME;

use crate::command_error::{CommandError, CommandResult, Exit};
use crate::human;
use crate::session::Session;

/// The content of a new configuration file.
const TEMPLATE: &str = include_str!("init.toml");

/// Write a commented stead.toml that is ready to use
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory to write it to
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let path = if args.dir.as_os_str() == "." { FILE_NAME.into() } else { args.dir.join(FILE_NAME) };
    let shown_path = human::host_path(&path);
    let failed = |error: std::io::Error| match error.kind() {
        HostKind::AlreadyExists => CommandError::Message(
            ErrorKind::AlreadyExists,
            format!("`{shown_path}` exists already; use --force to replace it"),
        ),
        _ => CommandError::host(format!("`{shown_path}` can't be written"), error),
    };
    if args.force {
        // Renamed into place, so that a process that reads the file at this time never sees half of it.
        let partial = path.with_extension("toml.partial");
        fs::write(&partial, TEMPLATE).and_then(|()| fs::rename(&partial, &path)).map_err(failed)?;
    } else {
        let mut file = fs::File::create_new(&path).map_err(failed)?;
        file.write_all(TEMPLATE.as_bytes()).map_err(failed)?;
    }
    if session.wants_json() {
        session.print_json(&json!({ "file": shown_path }))?;
    }
    session.say(format_args!(
        "Wrote {shown_path}. Try `stead ls -l /`, then `stead write /notes/hello.md \"Hello\"`."
    ));
    Ok(Exit::OK)
}
