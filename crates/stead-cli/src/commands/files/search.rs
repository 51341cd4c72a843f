use stead::managed::{FileFilter, SearchPattern};

use super::list::FilterArgs;
use super::{WorkspaceArg, table};
use crate::command_error::CommandResult;
use crate::session::{AsOfArg, Session};

/// Find managed files by a part of their path, name or tags
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The text to find; with * or ? a pattern for a whole path, name or tag
    query: String,
    #[command(flatten)]
    workspace: WorkspaceArg,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    at: AsOfArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let search = Some(SearchPattern::new(&args.query));
    let (filter, page) = (FileFilter { search, ..args.filter.filter()? }, args.filter.page());
    let files = args.workspace.files_at(&args.at, session.stead()?, "search", None)?;
    let listed = files.list(&filter, page)?;
    table::print(&listed, session)
}
