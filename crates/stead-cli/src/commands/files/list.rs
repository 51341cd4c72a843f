use stead::managed::{DateRange, FileFilter, Tags};
use stead::vfs::managed::FilePage;

use super::{WorkspaceArg, invalid, table};
use crate::command_error::{CommandError, CommandResult};
use crate::session::{AsOfArg, Session};

/// List managed files, those that were written last first
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    workspace: WorkspaceArg,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    at: AsOfArg,
}

/// Which files are wanted, and which page of them.
#[derive(Debug, clap::Args)]
pub(super) struct FilterArgs {
    /// Only files of this category
    #[arg(long)]
    category: Option<String>,
    /// Only files last written on this day, or in this month or year
    #[arg(long, value_name = "DATE")]
    date: Option<String>,
    /// Only files last written on this day or later
    #[arg(long, value_name = "DATE")]
    from: Option<String>,
    /// Only files last written on this day or earlier
    #[arg(long, value_name = "DATE")]
    to: Option<String>,
    /// Only files with this tag; several have to be there all
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only files of this session
    #[arg(long, value_name = "AGENT[/THREAD]")]
    session: Option<String>,
    /// The most files to show
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=200))]
    limit: u64,
    /// How many files to skip
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    offset: u64,
}

impl FilterArgs {
    pub(super) fn filter(&self) -> Result<FileFilter, CommandError> {
        let category = self.category.as_deref().map(str::parse).transpose().map_err(invalid)?;
        let date = self.date.as_deref().map(DateRange::parse).transpose().map_err(invalid)?;
        let range = DateRange::between(self.from.as_deref(), self.to.as_deref()).map_err(invalid)?;
        let written = date.unwrap_or(DateRange::ALL).and(range);
        let tags = Tags::parse(&self.tags).map_err(invalid)?;
        Ok(FileFilter { category, written, tags, session: self.session.clone(), search: None })
    }

    pub(super) fn page(&self) -> FilePage {
        FilePage { offset: self.offset, limit: self.limit }
    }
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let (filter, page) = (args.filter.filter()?, args.filter.page());
    let files = args.workspace.files_at(&args.at, session.stead()?, "list", None)?;
    let listed = files.list(&filter, page)?;
    table::print(&listed, session)
}
