use stead::store::Parents;
use stead::{StoreError, VfsError, Visibility};

use crate::command_error::{CommandError, CommandResult};
use crate::json;
use crate::session::Session;

/// Create directories
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directories to create
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    /// Also create missing parents; no error if the directory exists
    #[arg(short, long)]
    parents: bool,
    /// Say what was created
    #[arg(short, long)]
    verbose: bool,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let vfs = session.vfs("mkdir")?;
    let parents = if args.parents { Parents::Create } else { Parents::Required };
    session.for_each(&args.paths, |session, path| {
        let result = vfs.mkdir(path, parents).map_err(explain)?;
        if session.wants_json() {
            session.print_json(&json::write_result(&result))?;
        } else if args.verbose && result.created != Some(false) {
            session.say(format_args!("Created {}", result.path));
        }
        Ok(())
    })
}

/// The error of a directory that exists already, with what can be done. Says nothing of what the caller may not read.
fn explain(error: VfsError) -> CommandError {
    match &error {
        VfsError::Store { path, cause: StoreError::AlreadyExists, visibility: Visibility::Visible } => {
            let message = format!("`{path}` exists already; if an existing directory will do, use -p");
            CommandError::Explained(error.into(), message)
        }
        _ => error.into(),
    }
}
