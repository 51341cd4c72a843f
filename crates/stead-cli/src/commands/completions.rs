use clap_complete::Shell;

use crate::command_error::{CommandResult, Exit};
use crate::session::Session;

/// Print the completion script for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    // Collected first: the generator panics if it can't write, and the reader of the output may be gone.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "stead", &mut script);
    session.write_output(|out| std::io::Write::write_all(out, &script))?;
    Ok(Exit::OK)
}
