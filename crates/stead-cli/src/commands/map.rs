use crate::command_error::{CommandResult, Exit};
use crate::json;
use crate::session::Session;

/// Show the Filesystem Map: the text that describes its Workspaces to the agent
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) fn run(_: Args, session: &mut Session) -> CommandResult {
    let map = session.stead_of_agent()?.map();
    if session.wants_json() {
        session.print_json(&json::map(&map))?;
    } else {
        session.use_pager();
        session.write_output(|out| std::io::Write::write_all(out, map.as_bytes()))?;
    }
    Ok(Exit::OK)
}
