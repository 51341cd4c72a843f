use super::WorkspaceArg;
use crate::command_error::{CommandResult, Exit};
use crate::session::{AsOfArg, Colour, Session};
use crate::{human, json};

/// Show the categories and days of a managed Workspace, with how many files each has
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    workspace: WorkspaceArg,
    #[command(flatten)]
    at: AsOfArg,
}

pub(super) fn run(args: Args, session: &mut Session) -> CommandResult {
    let files = args.workspace.files_at(&args.at, session.stead()?, "tree", None)?;
    let tree = files.tree()?;
    if session.wants_json() {
        session.print_json(&json::managed_tree(files.prefix(), &tree))?;
        return Ok(Exit::OK);
    }
    let unreadable: Vec<_> = tree.iter().flat_map(|category| category.unreadable.clone()).collect();
    session.warn_unreadable(&unreadable);
    session.print_line(files.prefix())?;
    let counts = |files, bytes| format!("{}, {}", human::count(files, "file", "files"), human::size(bytes));
    for (index, category) in tree.iter().enumerate() {
        let is_last = index + 1 == tree.len();
        let (branch, indent) = if is_last { ("└── ", "    ") } else { ("├── ", "│   ") };
        let numbers = session.paint(Colour::Dim, counts(category.files, category.bytes));
        session.print_line(format_args!("{branch}{}/  {numbers}", category.category))?;
        for (index, day) in category.directories.iter().enumerate() {
            let branch = if index + 1 == category.directories.len() { "└── " } else { "├── " };
            let numbers = session.paint(Colour::Dim, counts(day.files, day.bytes));
            session
                .print_line(format_args!("{indent}{branch}{}/  {numbers}", human::escape_text(&day.name)))?;
        }
    }
    Ok(Exit::OK)
}
