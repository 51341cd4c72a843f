use stead::store::Parents;

use crate::command_error::CommandResult;
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
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let vfs = session.vfs("mkdir")?;
    let parents = if args.parents { Parents::Create } else { Parents::Required };
    session.for_each(&args.paths, |session, path| {
        let result = vfs.mkdir(path, parents)?;
        if session.wants_json() {
            session.print_json(&json::write_result(&result))?;
        }
        Ok(())
    })
}
